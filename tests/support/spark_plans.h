/* Plans of SQL texts and messages over tables without rows: for tests of the Spark translator. */
#ifndef TRN_TESTS_SPARK_PLANS_H
#define TRN_TESTS_SPARK_PLANS_H
#include "backend/scripted/scripted.h"
#include "frontend/spark/translate/scope.h"
#include <stdio.h>

typedef struct spark_plans {
  trn_scripted *control;
  trn_backend *backend;
  trn_session *session;
  spark_catalog *catalog;
} spark_plans;

static inline bool plans_open(spark_plans *plans) {
  trn_session_request request = {.struct_size = sizeof request, .user = "test", .client = "test"};
  *plans = (spark_plans){0};
  plans->catalog = spark__catalog_create();
  return plans->catalog && trn__scripted_create(TRN_SCRIPTED_ARRAYS, &plans->control, &plans->backend) == TRN_OK &&
         trn_session_open(plans->backend, &request, &plans->session, NULL) == TRN_OK;
}

static inline void plans_close(spark_plans *plans) {
  spark__catalog_destroy(plans->catalog);
  trn_session_unref(plans->session);
  trn_backend_unref(plans->backend);
  trn__scripted_unref(plans->control);
}

/* A view `name` over a table with the columns of a DDL text. */
static inline bool plans_table(spark_plans *plans, const char *name, const char *ddl) {
  struct ArrowSchema schema = {0};
  const trn_type *type = NULL;
  char path[200];
  trn_arena *arena = trn__arena_create(0);
  snprintf(path, sizeof path, "/data/%s", name);
  bool done = arena && spark__schema_from_text(arena, ddl, strlen(ddl), &type, NULL) == TRN_OK &&
              trn__type_export(type, "", false, NULL, NULL, &schema) == TRN_OK &&
              trn__scripted_add_table(plans->control, path, &schema, NULL, 0) == TRN_OK;
  Spark__Connect__Relation relation = SPARK__CONNECT__RELATION__INIT;
  Spark__Connect__Read read = SPARK__CONNECT__READ__INIT;
  Spark__Connect__Read__DataSource source = SPARK__CONNECT__READ__DATA_SOURCE__INIT;
  char *paths[1] = {path};
  source._format_case = SPARK__CONNECT__READ__DATA_SOURCE___FORMAT_FORMAT;
  source.format = "parquet";
  source.n_paths = 1;
  source.paths = paths;
  read.read_type_case = SPARK__CONNECT__READ__READ_TYPE_DATA_SOURCE;
  read.data_source = &source;
  relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_READ;
  relation.read = &read;
  done = done && spark__catalog_set_view(plans->catalog, name, &relation, true, NULL) == TRN_OK;
  if (schema.release) schema.release(&schema);
  trn__arena_unref(arena);
  return done;
}

static inline trn_status plans_relation(spark_plans *plans, const Spark__Connect__Relation *relation, trn_plan **out,
                                        trn_error **error) {
  spark_translator t;
  *out = NULL;
  trn_status status = spark__translator_init(&t, plans->session, plans->catalog, error);
  return status == TRN_OK ? spark__translate_relation(&t, relation, out, error) : status;
}

static inline trn_status plans_sql(spark_plans *plans, const char *query, trn_plan **out, trn_error **error) {
  Spark__Connect__Relation relation = SPARK__CONNECT__RELATION__INIT;
  Spark__Connect__SQL sql = SPARK__CONNECT__SQL__INIT;
  sql.query = (char *)query;
  relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_SQL;
  relation.sql = &sql;
  return plans_relation(plans, &relation, out, error);
}

static inline bool plans_tpch(spark_plans *plans) {
  return plans_table(plans, "region", "r_regionkey BIGINT, r_name STRING, r_comment STRING") &&
         plans_table(plans, "nation", "n_nationkey BIGINT, n_name STRING, n_regionkey BIGINT, n_comment STRING") &&
         plans_table(plans, "supplier",
                     "s_suppkey BIGINT, s_name STRING, s_address STRING, s_nationkey BIGINT, s_phone STRING, "
                     "s_acctbal DECIMAL(15,2), s_comment STRING") &&
         plans_table(plans, "customer",
                     "c_custkey BIGINT, c_name STRING, c_address STRING, c_nationkey BIGINT, c_phone STRING, "
                     "c_acctbal DECIMAL(15,2), c_mktsegment STRING, c_comment STRING") &&
         plans_table(plans, "part",
                     "p_partkey BIGINT, p_name STRING, p_mfgr STRING, p_brand STRING, p_type STRING, p_size INT, "
                     "p_container STRING, p_retailprice DECIMAL(15,2), p_comment STRING") &&
         plans_table(plans, "partsupp",
                     "ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INT, ps_supplycost DECIMAL(15,2), "
                     "ps_comment STRING") &&
         plans_table(
             plans, "orders",
             "o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(15,2), "
             "o_orderdate DATE, o_orderpriority STRING, o_clerk STRING, o_shippriority INT, o_comment STRING") &&
         plans_table(
             plans, "lineitem",
             "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT, "
             "l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), "
             "l_tax DECIMAL(15,2), l_returnflag STRING, l_linestatus STRING, l_shipdate DATE, "
             "l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING, l_shipmode STRING, l_comment STRING");
}

#endif
