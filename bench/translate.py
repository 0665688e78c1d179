#!/usr/bin/env python3
"""How the time of planning grows with a plan: each shape at two sizes, one four times the other; linear is a ratio of about 4.

usage: translate.py sc://HOST:PORT [--repeat N] [--only NAME] [--pid SERVER] [--scale N]

AnalyzePlan (the schema) measures translation alone; with --run the plan is executed too. The client's own time to build and send the
plan is measured apart, by building the message only, and subtracted. With --pid the CPU time of the server's threads is taken instead,
which other work on the machine does not change. Prints one line per shape: small, large, ratio.
"""
import argparse, pathlib, statistics, sys, time, warnings

warnings.simplefilter("ignore")
from pyspark.sql import SparkSession, functions as F  # noqa: E402


def columns(spark, n):
    return spark.range(3).select(*[(F.col("id") + i).alias(f"c{i}") for i in range(n)])


def columns_sql(spark, n):
    return spark.sql("SELECT " + ", ".join(f"id + {i} AS c{i}" for i in range(n)) + " FROM range(3)")


def wide_twice(spark, n):
    return columns(spark, n).select("*").filter(F.col("c0") > 0)


def with_column(spark, n):
    frame = spark.range(3)
    for i in range(n):
        frame = frame.withColumn(f"c{i}", F.col("id") + i)
    return frame


def with_column_same(spark, n):
    frame = spark.range(3).withColumn("x", F.lit(0))
    for i in range(n):
        frame = frame.withColumn("x", F.col("id") + i)
    return frame


def filters(spark, n):
    frame = spark.range(3)
    for i in range(n):
        frame = frame.filter(F.col("id") != i + 10)
    return frame


def unions(spark, n):
    frame = spark.range(1)
    for i in range(1, n):
        frame = frame.union(spark.range(i, i + 1))
    return frame


def unions_sql(spark, n):
    return spark.sql(" UNION ALL ".join(f"SELECT {i} AS a" for i in range(n)))


def in_list(spark, n):
    return spark.range(3).filter(F.col("id").isin(list(range(n))))


def in_sql(spark, n):
    return spark.sql(f"SELECT * FROM range(3) WHERE id IN ({', '.join(map(str, range(n)))})")


def case_when(spark, n):
    return spark.sql("SELECT CASE id " + " ".join(f"WHEN {i} THEN 'v{i}'" for i in range(n)) + " END AS v FROM range(3)")


def conjunction(spark, n):
    return spark.sql("SELECT * FROM range(3) WHERE " + " AND ".join(f"id != {i + 10}" for i in range(n)))


def joins(spark, n):
    frame = spark.range(3)
    for i in range(n):
        frame = frame.join(spark.range(3).withColumn(f"c{i}", F.lit(i)), "id")
    return frame


def aggregates(spark, n):
    return spark.range(3).agg(*[F.sum(F.col("id") + i).alias(f"s{i}") for i in range(n)])


def with_columns(spark, n):
    return spark.range(3).withColumns({f"c{i}": F.col("id") + i for i in range(n)})


def renames(spark, n):
    return columns(spark, n).withColumnsRenamed({f"c{i}": f"d{i}" for i in range(n)})


def drops(spark, n):
    return columns(spark, n).drop(*[f"c{i}" for i in range(1, n)])


def lateral_aliases(spark, n):
    return spark.sql("SELECT id AS c0, " + ", ".join(f"c0 + {i} AS c{i}" for i in range(1, n)) + " FROM range(3)")


def group_keys(spark, n):
    return columns(spark, n).groupBy(*[f"c{i}" for i in range(n)]).agg(F.count("*"))


def group_expressions(spark, n):
    keys = ", ".join(f"id + {i}" for i in range(n))
    return spark.sql(f"SELECT {keys}, count(*) FROM range(3) GROUP BY {keys}")


def windows(spark, n):
    return spark.sql("SELECT " + ", ".join(f"sum(id + {i}) OVER (ORDER BY id) AS c{i}" for i in range(n)) + " FROM range(3)")


def order_keys(spark, n):
    return columns(spark, n).orderBy(*[f"c{i}" for i in range(n)])


def values(spark, n):
    return spark.sql("SELECT * FROM VALUES " + ", ".join(f"({i}, 'v{i}')" for i in range(n)))


# name: (shape, the small size, the large one)
SHAPES = {
    "columns": (columns, 2500, 10000), "columns_sql": (columns_sql, 2500, 10000), "wide_twice": (wide_twice, 2500, 10000),
    "with_column": (with_column, 110, 440), "with_column_same": (with_column_same, 110, 440), "filters": (filters, 100, 400),
    "unions": (unions, 125, 500), "unions_sql": (unions_sql, 125, 500), "in_list": (in_list, 2000, 8000),
    "in_sql": (in_sql, 2000, 8000), "case_when": (case_when, 500, 2000), "conjunction": (conjunction, 200, 800),
    "joins": (joins, 15, 60), "aggregates": (aggregates, 500, 2000), "values": (values, 2500, 10000),
    "with_columns": (with_columns, 2500, 10000), "renames": (renames, 1000, 4000), "drops": (drops, 1000, 4000),
    "lateral_aliases": (lateral_aliases, 500, 2000), "group_keys": (group_keys, 500, 2000),
    "group_expressions": (group_expressions, 500, 2000), "windows": (windows, 250, 1000), "order_keys": (order_keys, 500, 2000),
}


def cpu_seconds(pid):
    """What the threads of a process that are still there have run; the workers that plan stay."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except OSError:  # a thread that has just ended
            pass
    return total / 1e9


def seconds(spark, shape, size, options):
    """The server's part: with the client's time to make the message taken off."""
    frame = shape(spark, size)
    taken, own = [], []
    for _ in range(options.repeat):
        start = time.perf_counter()
        frame._plan.to_proto(spark.client).SerializeToString()
        own.append(0 if options.pid else time.perf_counter() - start)
        start = cpu_seconds(options.pid) if options.pid else time.perf_counter()
        if options.run:
            frame.toArrow()
        else:
            spark.client.schema(frame._plan.to_proto(spark.client))
        taken.append((cpu_seconds(options.pid) if options.pid else time.perf_counter()) - start)
    return max(statistics.median(taken) - statistics.median(own), 0.0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("remote")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--run", action="store_true", help="execute the plans, not only translate them")
    parser.add_argument("--pid", type=int, default=0, help="the server's process: its CPU time")
    parser.add_argument("--scale", type=int, default=1, help="all sizes so many times as large")
    options = parser.parse_args()
    sys.setrecursionlimit(20000)
    spark = SparkSession.builder.remote(options.remote).getOrCreate()
    print(f"{'shape':<18}{'small':>8}{'large':>8}{'s':>10}{'s':>10}{'ratio':>8}")
    for name, (shape, small, large) in SHAPES.items():
        if options.only and name not in options.only.split(","):
            continue
        small, large = small * options.scale, large * options.scale
        try:
            first = seconds(spark, shape, small, options)
            second = seconds(spark, shape, large, options)
            print(f"{name:<18}{small:>8}{large:>8}{first:>10.4f}{second:>10.4f}{second / max(first, 1e-4):>8.1f}", flush=True)
        except Exception as error:  # noqa: BLE001 - the others are still measured
            print(f"{name:<18}{small:>8}{large:>8}  {type(error).__name__}: {str(error).splitlines()[0][:100]}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
