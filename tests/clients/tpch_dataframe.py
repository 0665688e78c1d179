"""TPC-H's 22 queries as DataFrame code, with the validation parameters. Each takes a function that gives a table."""
from pyspark.sql import functions as F


def d(text):
    return F.lit(text).cast("date")


def volume():
    return F.col("l_extendedprice") * (1 - F.col("l_discount"))


def q01(t):
    return (t("lineitem").filter(F.col("l_shipdate") <= d("1998-09-02"))
            .groupBy("l_returnflag", "l_linestatus")
            .agg(F.sum("l_quantity").alias("sum_qty"), F.sum("l_extendedprice").alias("sum_base_price"),
                 F.sum(volume()).alias("sum_disc_price"), F.sum(volume() * (1 + F.col("l_tax"))).alias("sum_charge"),
                 F.avg("l_quantity").alias("avg_qty"), F.avg("l_extendedprice").alias("avg_price"),
                 F.avg("l_discount").alias("avg_disc"), F.count("*").alias("count_order"))
            .orderBy("l_returnflag", "l_linestatus"))


def q02(t):
    europe = (t("partsupp").join(t("supplier"), F.col("ps_suppkey") == F.col("s_suppkey"))
              .join(t("nation"), F.col("s_nationkey") == F.col("n_nationkey"))
              .join(t("region").filter("r_name = 'EUROPE'"), F.col("n_regionkey") == F.col("r_regionkey")))
    best = europe.groupBy(F.col("ps_partkey").alias("best_part")).agg(F.min("ps_supplycost").alias("best_cost"))
    return (t("part").filter((F.col("p_size") == 15) & F.col("p_type").like("%BRASS"))
            .join(europe, F.col("p_partkey") == F.col("ps_partkey"))
            .join(best, (F.col("p_partkey") == F.col("best_part")) & (F.col("ps_supplycost") == F.col("best_cost")))
            .select("s_acctbal", "s_name", "n_name", "p_partkey", "p_mfgr", "s_address", "s_phone", "s_comment")
            .orderBy(F.desc("s_acctbal"), "n_name", "s_name", "p_partkey").limit(100))


def q03(t):
    return (t("customer").filter(F.col("c_mktsegment") == "BUILDING")
            .join(t("orders").filter(F.col("o_orderdate") < d("1995-03-15")), F.col("c_custkey") == F.col("o_custkey"))
            .join(t("lineitem").filter(F.col("l_shipdate") > d("1995-03-15")), F.col("l_orderkey") == F.col("o_orderkey"))
            .groupBy("l_orderkey", "o_orderdate", "o_shippriority").agg(F.sum(volume()).alias("revenue"))
            .select("l_orderkey", "revenue", "o_orderdate", "o_shippriority")
            .orderBy(F.desc("revenue"), "o_orderdate").limit(10))


def q04(t):
    late = t("lineitem").filter(F.col("l_commitdate") < F.col("l_receiptdate"))
    return (t("orders").filter((F.col("o_orderdate") >= d("1993-07-01")) & (F.col("o_orderdate") < d("1993-10-01")))
            .join(late, F.col("o_orderkey") == F.col("l_orderkey"), "left_semi")
            .groupBy("o_orderpriority").agg(F.count("*").alias("order_count")).orderBy("o_orderpriority"))


def q05(t):
    return (t("region").filter(F.col("r_name") == "ASIA")
            .join(t("nation"), F.col("r_regionkey") == F.col("n_regionkey"))
            .join(t("customer"), F.col("n_nationkey") == F.col("c_nationkey"))
            .join(t("orders").filter("o_orderdate >= date'1994-01-01' and o_orderdate < date'1995-01-01'"),
                  F.col("c_custkey") == F.col("o_custkey"))
            .join(t("lineitem"), F.col("o_orderkey") == F.col("l_orderkey"))
            .join(t("supplier"), (F.col("l_suppkey") == F.col("s_suppkey")) & (F.col("c_nationkey") == F.col("s_nationkey")))
            .groupBy("n_name").agg(F.sum(volume()).alias("revenue")).orderBy(F.col("revenue").desc()))


def q06(t):
    return (t("lineitem").filter("l_shipdate >= '1994-01-01' and l_shipdate < '1995-01-01'")
            .filter(F.col("l_discount").between(0.05, 0.07)).filter(F.col("l_quantity") < 24)
            .agg(F.sum(F.col("l_extendedprice") * F.col("l_discount")).alias("revenue")))


def q07(t):
    n1 = t("nation").select(F.col("n_nationkey").alias("k1"), F.col("n_name").alias("supp_nation"))
    n2 = t("nation").select(F.col("n_nationkey").alias("k2"), F.col("n_name").alias("cust_nation"))
    pair = (((F.col("supp_nation") == "FRANCE") & (F.col("cust_nation") == "GERMANY"))
            | ((F.col("supp_nation") == "GERMANY") & (F.col("cust_nation") == "FRANCE")))
    return (t("supplier").join(t("lineitem"), F.col("s_suppkey") == F.col("l_suppkey"))
            .join(t("orders"), F.col("o_orderkey") == F.col("l_orderkey"))
            .join(t("customer"), F.col("c_custkey") == F.col("o_custkey"))
            .join(n1, F.col("s_nationkey") == F.col("k1")).join(n2, F.col("c_nationkey") == F.col("k2"))
            .filter(pair).filter(F.col("l_shipdate").between(d("1995-01-01"), d("1996-12-31")))
            .withColumn("l_year", F.year("l_shipdate"))
            .groupBy("supp_nation", "cust_nation", "l_year").agg(F.sum(volume()).alias("revenue"))
            .orderBy("supp_nation", "cust_nation", "l_year"))


def q08(t):
    n2 = t("nation").select(F.col("n_nationkey").alias("k2"), F.col("n_name").alias("nation"))
    return (t("part").filter(F.col("p_type") == "ECONOMY ANODIZED STEEL")
            .join(t("lineitem"), F.col("p_partkey") == F.col("l_partkey"))
            .join(t("supplier"), F.col("s_suppkey") == F.col("l_suppkey"))
            .join(t("orders").filter(F.col("o_orderdate").between(d("1995-01-01"), d("1996-12-31"))),
                  F.col("l_orderkey") == F.col("o_orderkey"))
            .join(t("customer"), F.col("o_custkey") == F.col("c_custkey"))
            .join(t("nation"), F.col("c_nationkey") == F.col("n_nationkey"))
            .join(t("region").filter(F.col("r_name") == "AMERICA"), F.col("n_regionkey") == F.col("r_regionkey"))
            .join(n2, F.col("s_nationkey") == F.col("k2"))
            .select(F.year("o_orderdate").alias("o_year"), volume().alias("volume"), "nation")
            .groupBy("o_year")
            .agg((F.sum(F.when(F.col("nation") == "BRAZIL", F.col("volume")).otherwise(0)) / F.sum("volume"))
                 .alias("mkt_share"))
            .orderBy("o_year"))


def q09(t):
    amount = volume() - F.col("ps_supplycost") * F.col("l_quantity")
    return (t("part").filter(F.col("p_name").contains("green"))
            .join(t("lineitem"), F.col("p_partkey") == F.col("l_partkey"))
            .join(t("supplier"), F.col("s_suppkey") == F.col("l_suppkey"))
            .join(t("partsupp"), (F.col("ps_suppkey") == F.col("l_suppkey")) & (F.col("ps_partkey") == F.col("l_partkey")))
            .join(t("orders"), F.col("o_orderkey") == F.col("l_orderkey"))
            .join(t("nation"), F.col("s_nationkey") == F.col("n_nationkey"))
            .select(F.col("n_name").alias("nation"), F.year("o_orderdate").alias("o_year"), amount.alias("amount"))
            .groupBy("nation", "o_year").agg(F.sum("amount").alias("sum_profit"))
            .sort("nation", F.desc("o_year")))


def q10(t):
    return (t("customer")
            .join(t("orders").where("o_orderdate >= date'1993-10-01' and o_orderdate < date'1994-01-01'"),
                  F.col("c_custkey") == F.col("o_custkey"))
            .join(t("lineitem").where(F.col("l_returnflag") == "R"), F.col("l_orderkey") == F.col("o_orderkey"))
            .join(t("nation"), F.col("c_nationkey") == F.col("n_nationkey"))
            .groupBy("c_custkey", "c_name", "c_acctbal", "c_phone", "n_name", "c_address", "c_comment")
            .agg(F.sum(volume()).alias("revenue"))
            .select("c_custkey", "c_name", "revenue", "c_acctbal", "n_name", "c_address", "c_phone", "c_comment")
            .orderBy(F.desc("revenue")).limit(20))


def q11(t):
    value = F.sum(F.col("ps_supplycost") * F.col("ps_availqty"))
    germany = (t("partsupp").join(t("supplier"), F.col("ps_suppkey") == F.col("s_suppkey"))
               .join(t("nation").filter(F.col("n_name") == "GERMANY"), F.col("s_nationkey") == F.col("n_nationkey")))
    total = germany.agg((value * 0.0001).alias("threshold"))
    return (germany.groupBy("ps_partkey").agg(value.alias("value")).crossJoin(total)
            .filter(F.col("value") > F.col("threshold")).select("ps_partkey", "value").orderBy(F.desc("value")))


def q12(t):
    high = F.col("o_orderpriority").isin("1-URGENT", "2-HIGH")
    return (t("orders").join(t("lineitem"), F.col("o_orderkey") == F.col("l_orderkey"))
            .filter(F.col("l_shipmode").isin("MAIL", "SHIP") & (F.col("l_commitdate") < F.col("l_receiptdate"))
                    & (F.col("l_shipdate") < F.col("l_commitdate")) & (F.col("l_receiptdate") >= d("1994-01-01"))
                    & (F.col("l_receiptdate") < d("1995-01-01")))
            .groupBy("l_shipmode")
            .agg(F.sum(F.when(high, 1).otherwise(0)).alias("high_line_count"),
                 F.sum(F.when(~high, 1).otherwise(0)).alias("low_line_count"))
            .orderBy("l_shipmode"))


def q13(t):
    orders = t("orders").filter(~F.col("o_comment").like("%special%requests%"))
    return (t("customer").join(orders, F.col("c_custkey") == F.col("o_custkey"), "left_outer")
            .groupBy("c_custkey").agg(F.count("o_orderkey").alias("c_count"))
            .groupBy("c_count").agg(F.count("*").alias("custdist"))
            .orderBy(F.desc("custdist"), F.desc("c_count")))


def q14(t):
    promo = F.when(F.col("p_type").startswith("PROMO"), volume()).otherwise(0)
    return (t("lineitem").filter((F.col("l_shipdate") >= d("1995-09-01")) & (F.col("l_shipdate") < d("1995-10-01")))
            .join(t("part"), F.col("l_partkey") == F.col("p_partkey"))
            .agg((100.00 * F.sum(promo) / F.sum(volume())).alias("promo_revenue")))


def q15(t):
    revenue = (t("lineitem").filter("l_shipdate >= date'1996-01-01' and l_shipdate < date'1996-04-01'")
               .groupBy(F.col("l_suppkey").alias("supplier_no")).agg(F.sum(volume()).alias("total_revenue")))
    best = revenue.agg(F.max("total_revenue").alias("best"))
    return (t("supplier").join(revenue, F.col("s_suppkey") == F.col("supplier_no"))
            .join(best, F.col("total_revenue") == F.col("best"))
            .select("s_suppkey", "s_name", "s_address", "s_phone", "total_revenue").orderBy("s_suppkey"))


def q16(t):
    complaints = t("supplier").filter(F.col("s_comment").like("%Customer%Complaints%"))
    return (t("partsupp").join(t("part"), F.col("p_partkey") == F.col("ps_partkey"))
            .filter((F.col("p_brand") != "Brand#45") & ~F.col("p_type").like("MEDIUM POLISHED%")
                    & F.col("p_size").isin(49, 14, 23, 45, 19, 3, 36, 9))
            .join(complaints, F.col("ps_suppkey") == F.col("s_suppkey"), "left_anti")
            .groupBy("p_brand", "p_type", "p_size").agg(F.countDistinct("ps_suppkey").alias("supplier_cnt"))
            .orderBy(F.desc("supplier_cnt"), "p_brand", "p_type", "p_size"))


def q17(t):
    average = (t("lineitem").groupBy(F.col("l_partkey").alias("k")).agg((0.2 * F.avg("l_quantity")).alias("limit")))
    return (t("lineitem").join(t("part").filter("p_brand = 'Brand#23' and p_container = 'MED BOX'"),
                               F.col("p_partkey") == F.col("l_partkey"))
            .join(average, F.col("k") == F.col("p_partkey")).filter(F.col("l_quantity") < F.col("limit"))
            .agg((F.sum("l_extendedprice") / 7.0).alias("avg_yearly")))


def q18(t):
    big = (t("lineitem").groupBy(F.col("l_orderkey").alias("k")).agg(F.sum("l_quantity").alias("s"))
           .filter(F.col("s") > 300))
    return (t("customer").join(t("orders"), F.col("c_custkey") == F.col("o_custkey"))
            .join(big, F.col("o_orderkey") == F.col("k"), "leftsemi")
            .join(t("lineitem"), F.col("o_orderkey") == F.col("l_orderkey"))
            .groupBy("c_name", "c_custkey", "o_orderkey", "o_orderdate", "o_totalprice").agg(F.sum("l_quantity"))
            .orderBy(F.desc("o_totalprice"), "o_orderdate").limit(100))


def q19(t):
    def branch(brand, containers, low, size):
        return ((F.col("p_brand") == brand) & F.col("p_container").isin(*containers)
                & F.col("l_quantity").between(low, low + 10) & F.col("p_size").between(1, size)
                & F.col("l_shipmode").isin("AIR", "AIR REG") & (F.col("l_shipinstruct") == "DELIVER IN PERSON"))
    return (t("lineitem").join(t("part"), F.col("p_partkey") == F.col("l_partkey"))
            .filter(branch("Brand#12", ["SM CASE", "SM BOX", "SM PACK", "SM PKG"], 1, 5)
                    | branch("Brand#23", ["MED BAG", "MED BOX", "MED PKG", "MED PACK"], 10, 10)
                    | branch("Brand#34", ["LG CASE", "LG BOX", "LG PACK", "LG PKG"], 20, 15))
            .agg(F.sum(volume()).alias("revenue")))


def q20(t):
    sold = (t("lineitem").filter("l_shipdate >= date'1994-01-01' and l_shipdate < date'1995-01-01'")
            .groupBy("l_partkey", "l_suppkey").agg((0.5 * F.sum("l_quantity")).alias("half")))
    forest = t("part").filter(F.col("p_name").like("forest%"))
    stock = (t("partsupp").join(forest, F.col("ps_partkey") == F.col("p_partkey"), "left_semi")
             .join(sold, (F.col("ps_partkey") == F.col("l_partkey")) & (F.col("ps_suppkey") == F.col("l_suppkey")))
             .filter(F.col("ps_availqty") > F.col("half")))
    return (t("supplier").join(t("nation").filter(F.col("n_name") == "CANADA"), F.col("s_nationkey") == F.col("n_nationkey"))
            .join(stock, F.col("s_suppkey") == F.col("ps_suppkey"), "left_semi")
            .select("s_name", "s_address").orderBy("s_name"))


def q21(t):
    l1 = t("lineitem").filter("l_receiptdate > l_commitdate").alias("l1")
    l2, l3 = t("lineitem").alias("l2"), t("lineitem").filter("l_receiptdate > l_commitdate").alias("l3")
    return (t("supplier").join(l1, F.col("s_suppkey") == F.col("l1.l_suppkey"))
            .join(t("orders").filter(F.col("o_orderstatus") == "F"), F.col("o_orderkey") == F.col("l1.l_orderkey"))
            .join(t("nation").filter(F.col("n_name") == "SAUDI ARABIA"), F.col("s_nationkey") == F.col("n_nationkey"))
            .join(l2, (F.col("l2.l_orderkey") == F.col("l1.l_orderkey"))
                  & (F.col("l2.l_suppkey") != F.col("l1.l_suppkey")), "left_semi")
            .join(l3, (F.col("l3.l_orderkey") == F.col("l1.l_orderkey"))
                  & (F.col("l3.l_suppkey") != F.col("l1.l_suppkey")), "left_anti")
            .groupBy("s_name").agg(F.count("*").alias("numwait"))
            .orderBy(F.desc("numwait"), "s_name").limit(100))


def q22(t):
    customer = (t("customer").withColumn("cntrycode", F.substring("c_phone", 1, 2))
                .filter(F.col("cntrycode").isin("13", "31", "23", "29", "30", "18", "17")))
    average = customer.filter(F.col("c_acctbal") > 0.00).agg(F.avg("c_acctbal").alias("average"))
    return (customer.crossJoin(average).filter(F.col("c_acctbal") > F.col("average"))
            .join(t("orders"), F.col("c_custkey") == F.col("o_custkey"), "left_anti")
            .groupBy("cntrycode").agg(F.count("*").alias("numcust"), F.sum("c_acctbal").alias("totacctbal"))
            .orderBy("cntrycode"))


QUERIES = [globals()[f"q{i:02d}"] for i in range(1, 23)]
