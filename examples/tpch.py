"""Unmodified PySpark on Trunnion: two SQL and two DataFrame queries over TPC-H. usage: tpch.py sc://HOST:PORT DATA_DIR"""
import sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

url, data = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.remote(url).getOrCreate()
for table in ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"]:
    spark.read.parquet(f"{data}/{table}.parquet").createOrReplaceTempView(table)
print(f"Spark {spark.version} client, tables registered\n")

print("TPC-H 1, SQL: pricing summary")
spark.sql("""
    select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty, sum(l_extendedprice * (1 - l_discount)) as revenue,
           avg(l_discount) as avg_disc, count(*) as count_order
    from lineitem where l_shipdate <= date '1998-09-02'
    group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus""").show()

print("TPC-H 4, SQL with a correlated subquery: order priorities")
spark.sql("""
    select o_orderpriority, count(*) as order_count from orders
    where o_orderdate >= date '1993-07-01' and o_orderdate < date '1993-07-01' + interval '3' month
      and exists (select * from lineitem where l_orderkey = o_orderkey and l_commitdate < l_receiptdate)
    group by o_orderpriority order by o_orderpriority""").show()

print("TPC-H 3, DataFrame: ten biggest unshipped orders")
customer, orders, lineitem = spark.table("customer"), spark.table("orders"), spark.table("lineitem")
(customer.filter(customer.c_mktsegment == "BUILDING")
 .join(orders.filter("o_orderdate < '1995-03-15'"), customer.c_custkey == orders.o_custkey)
 .join(lineitem.filter("l_shipdate > '1995-03-15'"), orders.o_orderkey == lineitem.l_orderkey)
 .groupBy("l_orderkey", "o_orderdate", "o_shippriority")
 .agg(F.sum(F.col("l_extendedprice") * (1 - F.col("l_discount"))).alias("revenue"))
 .orderBy(F.desc("revenue"), "o_orderdate").limit(10).show())

print("TPC-H 5, DataFrame: revenue of Asian suppliers")
nation, region, supplier = spark.table("nation"), spark.table("region"), spark.table("supplier")
asia = region.filter(F.col("r_name") == "ASIA").join(nation, region.r_regionkey == nation.n_regionkey)
(asia.join(customer, nation.n_nationkey == customer.c_nationkey)
 .join(orders.filter(F.year("o_orderdate") == 1994), customer.c_custkey == orders.o_custkey)
 .join(lineitem, orders.o_orderkey == lineitem.l_orderkey)
 .join(supplier, (lineitem.l_suppkey == supplier.s_suppkey) & (customer.c_nationkey == supplier.s_nationkey))
 .groupBy("n_name").agg(F.sum(F.col("l_extendedprice") * (1 - F.col("l_discount"))).alias("revenue"))
 .orderBy(F.desc("revenue")).show())
spark.stop()
