"""Substrait as ibis-substrait makes it, each with what DuckDB answers to the same expression. Run by the Python of an environment
that has both. usage: producer_ibis.py TABLES_DIRECTORY OUT_DIRECTORY"""
import json, pathlib, sys
import ibis
from ibis import _
from ibis_substrait.compiler.core import SubstraitCompiler

tables, out = map(pathlib.Path, sys.argv[1:])
connection = ibis.duckdb.connect()
t = {path.stem: connection.read_parquet(path, table_name=path.stem) for path in tables.glob("*.parquet")}
# Unbound tables: a producer knows names and types only.
u = {name: ibis.table(table.schema(), name=name) for name, table in t.items()}


def queries(t):
    nation, region, lineitem, orders, customer = t["nation"], t["region"], t["lineitem"], t["orders"], t["customer"]
    yield "filter", nation.filter(_.n_regionkey == 1).select("n_name", "n_nationkey").order_by("n_name")
    yield "aggregate", lineitem.group_by("l_returnflag", "l_linestatus").aggregate(
        n=_.count(), quantity=_.l_quantity.sum(), price=_.l_extendedprice.max()).order_by("l_returnflag", "l_linestatus")
    # (A select right behind a join is lost by this producer.)
    yield "join", nation.join(region, nation.n_regionkey == region.r_regionkey).order_by("n_name").select("n_name", "r_name")
    yield "three_joins", (orders.join(customer, orders.o_custkey == customer.c_custkey).join(nation, _.c_nationkey == nation.n_nationkey)
                          .group_by("n_name").aggregate(n=_.count(), total=_.o_totalprice.sum()).order_by("n_name"))
    yield "limit", orders.order_by(ibis.desc("o_totalprice"), "o_orderkey").select("o_orderkey", "o_totalprice").limit(5)
    yield "arithmetic", lineitem.filter((_.l_orderkey < 40) & (_.l_quantity > 20)).mutate(
        net=_.l_extendedprice * (1 - _.l_discount)).select("l_orderkey", "l_linenumber", "net").order_by("l_orderkey", "l_linenumber")
    yield "case", nation.mutate(kind=nation.n_regionkey.case().when(0, "africa").when(1, "america").else_("else").end()).group_by(
        "kind").aggregate(n=_.count()).order_by("kind")
    yield "nulls", orders.filter(_.o_comment.notnull() & ~_.o_orderpriority.isin(["1-URGENT", "2-HIGH"])).group_by(
        "o_orderpriority").aggregate(n=_.count()).order_by("o_orderpriority")
    yield "like", nation.filter(_.n_name.like("%IA")).select("n_name").order_by("n_name")
    yield "distinct", nation.select("n_regionkey").distinct().order_by("n_regionkey")
    yield "union", ibis.union(nation.select(x=_.n_nationkey), region.select(x=_.r_regionkey)).group_by("x").aggregate(
        n=_.count()).order_by("x")


made, failed = {}, {}
answers = dict(queries(t))
for name, expression in queries(u):
    try:
        (out / name).write_bytes(SubstraitCompiler().compile(expression).SerializeToString())
        made[name] = [[str(value) for value in row] for row in answers[name].to_pyarrow().to_pandas().itertuples(index=False)]
    except BaseException as error:
        failed[name] = f"{type(error).__name__}: {error}"[:300]
print(json.dumps({"made": made, "failed": failed, "version": ibis.__version__}))
