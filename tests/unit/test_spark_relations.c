/* Spark relations to plans: what names mean, what plans come out, which errors. Nothing is executed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "support/spark_checks.h"

/* ---- names ---- */
static void names_are_found_as_spark_finds_them(void **state) {
  (void)state;
  static const sql_case cases[] = {
      {"select a, t.a, T.A, `a`, `t`.`a` from t", "a int, a int, A int, a int, a int"},
      {"select s.x, s.y.z, t.s.y from t", "x int, z string, y struct<z:string>"},
      {"select x.a from t as x", "a int"},
      {"select t.* from t join u on t.a = u.a",
       "a int, b string, c double, s struct<x:int,y:struct<z:string>>, arr array<int>, m map<string,int>"},
      {"select s.* from t", "x int, y struct<z:string>"},
      {"select * except (s, arr, m) from t", "a int, b string, c double"},
      {"select s.* except (y), u.* except (u.a, b) from t, u", "x int, d bigint"},
      {"select posexplode(arr) as (p, e), a as x, x + 1 as y from t", "p int!, e int, x int, y int"},
      {"select v.k from (select a as k, c from t) v", "k int"},
      {"select i, k from (values (1, 'x')) as v(i, k)", "i int!, k string!"},
      {"select nope from u", "!UNRESOLVED_COLUMN.WITH_SUGGESTION objectName=`nope` proposal=`a`, `b`, `d`"},
      {"select bb, b from (select 1 as bbb, 2 as b, 3 as zzzz)",
       "!UNRESOLVED_COLUMN.WITH_SUGGESTION objectName=`bb` proposal=`b`, `bbb`, `zzzz`"},
      {"select x.nope from u x",
       "!UNRESOLVED_COLUMN.WITH_SUGGESTION objectName=`x`.`nope` proposal=`x`.`a`, `x`.`b`, `x`.`d`"},
      {"select nope", "!UNRESOLVED_COLUMN.WITHOUT_SUGGESTION objectName=`nope`"},
      {"select u.a from u as x",
       "!UNRESOLVED_COLUMN.WITH_SUGGESTION objectName=`u`.`a` proposal=`x`.`a`, `x`.`b`, `x`.`d`"},
      {"select a from t, u", "!AMBIGUOUS_REFERENCE name=`a` referenceNames=[`t`.`a`, `u`.`a`]"},
      {"select a from twice", "!AMBIGUOUS_REFERENCE name=`a` referenceNames=[`twice`.`A`, `twice`.`a`]"},
      {"select x from (select a as x, b as x from u)", "!AMBIGUOUS_REFERENCE name=`x` referenceNames=[`x`, `x`]"},
      {"select a from (select a, a from u)", "a int"}, /* the same column twice is one column */
      {"select s.nope from t", "!FIELD_NOT_FOUND fieldName=`nope` fields=`x`, `y`"},
      {"select a.b from u", "!INVALID_EXTRACT_BASE_FIELD_TYPE base=\"a\" other=\"INT\""},
      {"select nope.* from u", "!CANNOT_RESOLVE_STAR_EXPAND targetString=`nope` columns=`a`, `b`, `d`"},
      {"select * from nope", "!TABLE_OR_VIEW_NOT_FOUND relationName=`nope` "
                             "searchPath=[`system`.`builtin`, `system`.`session`, `spark_catalog`.`default`]"},
      {"select * from a.b.nope",
       "!REQUIRES_SINGLE_PART_NAMESPACE sessionCatalog=spark_catalog identifier=`a`.`b`.`nope`"},
  };
  CHECK_ALL(cases);
}

static void case_counts_when_the_setting_says_so(void **state) {
  (void)state;
  assert_int_equal(trn_session_set(plans.session, "spark.sql.caseSensitive", "true"), TRN_OK);
  check_sql("select A from u", "!UNRESOLVED_COLUMN.WITH_SUGGESTION objectName=`A` proposal=`a`, `b`, `d`");
  check_sql("select a, A from twice", "a int, A int");
  assert_int_equal(trn_session_set(plans.session, "spark.sql.caseSensitive", NULL), TRN_OK);
}

static void lateral_aliases_become_projections(void **state) {
  (void)state;
  static const sql_case cases[] = {
      {"select a as x, x as y from u", "|project #5 := #4, #6 := #4\n  project #1, #2, #3, #4 := #1\n"
                                       "    scan parquet /data/u [#1 int, #2 string, #3 bigint]"},
      {"select d as a, a as y from u",
       "|project #4 := #3, #5 := #1\n  scan parquet /data/u [#1 int, #2 string, #3 bigint]"},
      {"select a as x, x, x is null from u", "x int, x int, (lateralAliasReference(x) IS NULL) boolean!"},
      {"select 1 as x, 2 as x, x as y from u", "!AMBIGUOUS_LATERAL_COLUMN_ALIAS name=`x` n=2"},
      {"select a as x, sum(x) from u group by a",
       "!UNSUPPORTED_FEATURE.LATERAL_COLUMN_ALIAS_IN_AGGREGATE_FUNC lca=`x` aggFunc=\"\""},
      {"select sum(d) as x, x + 1 as y from u group by b", "x bigint, y bigint"},
  };
  CHECK_ALL(cases);
}

/* ---- relations of SQL ---- */
static void plans_have_the_expected_shape(void **state) {
  (void)state;
  static const sql_case cases[] = {
      {"select a from u where b = 'x' order by d desc limit 3 offset 1",
       "|project #1\n  limit skip 1 fetch 3\n    sort #3 desc\n      filter =(#2, 'x')\n"
       "        scan parquet /data/u [#1 int, #2 string, #3 bigint]"},
      {"select a > 1 as y from u order by y, b", "|project #4\n  sort #4 asc, #2 asc\n    project #4 := >(#1, 1), #2\n"
                                                 "      scan parquet /data/u [#1 int, #2 string, #3 bigint]"},
      {"select distinct a, a from u",
       "|distinct\n  project #1, #4 := #1\n    scan parquet /data/u [#1 int, #2 string, #3 bigint]"},
      {"select x.a from u x join u y on x.a = y.a",
       "|project #1\n  join inner =(#1, #4)\n    scan parquet /data/u [#1 int, #2 string, #3 bigint]\n"
       "    scan parquet /data/u [#4 int, #5 string, #6 bigint]"},
      {"select b, count(*) as n from u group by b having n > 1 order by 2 desc",
       "|sort #5 desc\n  project #2, #5 := #4\n    filter >(#4, 1:bigint)\n      aggregate 1 keys #2, #4 := count(1)\n"
       "        scan parquet /data/u [#1 int, #2 string, #3 bigint]"},
      {"select b from u group by b order by max(d), b",
       "|project #2\n  sort #4 asc, #2 asc\n    aggregate 1 keys #2, #4 := max(#3)\n"
       "      scan parquet /data/u [#1 int, #2 string, #3 bigint]"},
      {"select a from u where a in (select a from t) and not exists (select * from t where t.b = u.b)",
       "|project #1\n  filter and(in_subquery(#1), not exists_subquery())\n    scan parquet /data/u [#1 int, #2 "
       "string, #3 bigint]\n"
       "      project #4\n        scan parquet /data/t [#4 int, #5 string, #6 double, #7 "
       "struct<x:int,y:struct<z:string>>, "
       "#8 array<int>, #9 map<string,int>]\n"
       "      filter =(#11, outer#2)\n        scan parquet /data/t [#10 int, #11 string, #12 double, #13 "
       "struct<x:int,y:struct<z:string>>, #14 array<int>, #15 map<string,int>]"},
      {"with q as (select a from u) select * from q x, q y where x.a = y.a",
       "|project #1, #4\n  filter =(#1, #4)\n    join inner\n      @1 scan parquet /data/u [#1 int, #2 string, #3 "
       "bigint]\n"
       "      project #4 := #1\n        shared @1"},
  };
  CHECK_ALL(cases);
}

static void types_and_nullability_are_right(void **state) {
  (void)state;
  static const sql_case cases[] = {
      {"select * from u left join t on u.a = t.a where false",
       "a int, b string, d bigint, a int, b string, c double, s struct<x:int,y:struct<z:string>>, arr array<int>, m "
       "map<string,int>"},
      {"select t.c from t right join u using (a)", "c double"},
      {"select * from (select a, c from t) full join (select a from u) using (a)", "a int, c double"},
      {"select count(*), sum(a), avg(d) from u", "count(1) bigint!, sum(a) bigint, avg(d) double"},
      {"select a from u union all select d from u", "a bigint"},
      {"select c from t union all select null", "c double"},
      {"select * from values (1, null), (2L, 'x') as v", "col1 bigint!, col2 string"},
      {"select l.x, r.y, r.z from (values (1)) as l(x) left join (values (1, 'a')) as r(y, z) on l.x = r.y",
       "x int!, y int, z string"},
      {"select l.x, y from (values (1)) as l(x) right join (values (1)) as r(y) on l.x = r.y", "x int, y int!"},
      {"select (select max(c) from t) from u", "scalarsubquery() double"},
      {"select a in (select a from t) from u", "(a IN (listquery())) boolean"},
      {"select a, b, grouping(a), grouping_id() from u group by cube(a, b)",
       "a int, b string, grouping(a) tinyint!, grouping_id() bigint!"},
      {"select exists (select 1 from t where t.b = u.b), (select max(c) from t where t.a = u.a and t.b = u.b) from u",
       "exists(b) boolean!, scalarsubquery(a, b) double"},
      {"select id from range(3)", "id bigint!"},
      {"select id + 1 as x from range(1, 10L, 2) r", "x bigint!"},
      {"select col from explode(array(1, 2))", "col int!"},
      {"select explode(arr), a from t", "col int, a int"},
      {"select k, v from t lateral view outer explode(m) x as k, v", "k string, v int"},
      {"select explode(arr), explode(m) from t", "col int, key string!, value int"},
      {"select lag(d, 2) over (order by a), cume_dist() over (order by a) from u",
       "lag(d, 2, NULL) OVER (ORDER BY a ASC NULLS FIRST ROWS BETWEEN -2 FOLLOWING AND -2 FOLLOWING) bigint, "
       "cume_dist() OVER (ORDER BY a ASC NULLS FIRST RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) double!"},
      {"select row_number() over (order by a) as n from u", "n int!"},
  };
  CHECK_ALL(cases);
}

static void wrong_queries_fail_as_in_spark(void **state) {
  (void)state;
  static const sql_case cases[] = {
      {"select a from u where a", "!DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN sqlExpr=\"a\" filter=\"a\" type=\"INT\""},
      {"select * from u join t on u.a",
       "!JOIN_CONDITION_IS_NOT_BOOLEAN_TYPE joinCondition=\"a\" conditionType=\"INT\""},
      {"select a from u where sum(d) > 1",
       "!INVALID_WHERE_CONDITION condition=\"(sum(d) > 1)\" expressionList=(sum(d) > 1)"},
      {"select a, count(*) from u", "!MISSING_GROUP_BY"},
      {"select a, count(*) from u group by b",
       "!MISSING_AGGREGATION expression=\"a\" expressionAnyValue=\"any_value(a)\""},
      {"select sum(sum(d)) from u", "!NESTED_AGGREGATE_FUNCTION"},
      {"select b, count(*) from u group by 3", "!GROUP_BY_POS_OUT_OF_RANGE index=3 size=2"},
      {"select b, count(*) from u group by 2", "!GROUP_BY_POS_AGGREGATE index=2 aggExpr=\"count(1)\""},
      {"select b from u group by sum(d)", "!GROUP_BY_AGGREGATE sqlExpr=\"sum(d)\""},
      {"select a from u order by 2", "!ORDER_BY_POS_OUT_OF_RANGE index=2 size=1"},
      {"select distinct a from u order by b", "!UNRESOLVED_COLUMN.WITH_SUGGESTION objectName=`b` proposal=`a`"},
      {"select a from u union select a, b from u",
       "!NUM_COLUMNS_MISMATCH operator=UNION firstNumColumns=1 invalidOrdinalNum=second invalidNumColumns=2"},
      {"select a from t join u using (nope)",
       "!UNRESOLVED_USING_COLUMN_FOR_JOIN colName=`nope` side=left suggestion=`a`, `arr`, `b`, `c`, `m`, `s`"},
      {"select a from u limit -1", "!INVALID_LIMIT_LIKE_EXPRESSION.IS_NEGATIVE expr=\"-1\" name=limit v=-1"},
      {"select a from u limit a", "!UNRESOLVED_COLUMN.WITHOUT_SUGGESTION objectName=`a`"},
      {"select (select a, b from u)",
       "!INVALID_SUBQUERY_EXPRESSION.SCALAR_SUBQUERY_RETURN_MORE_THAN_ONE_OUTPUT_COLUMN number=2"},
      {"select * from values (1, 2), (3) as v",
       "!INVALID_INLINE_TABLE.NUM_COLUMNS_MISMATCH expectedNumCols=2 actualNumCols=1 rowIndex=1"},
      {"select sum(a) over w from u",
       "!MISSING_WINDOW_SPECIFICATION windowName=w docroot=https://spark.apache.org/docs/latest"},
      {"select a + explode(arr) from t",
       "!UNSUPPORTED_GENERATOR.NESTED_IN_EXPRESSIONS expression=\"(a + explode(arr))\""},
      {"select * except (nope) from u", "!UNRESOLVED_COLUMN.WITH_SUGGESTION objectName=`nope` proposal=`a`, `b`, `d`"},
      {"select * except (a, a) from u", "!EXCEPT_OVERLAPPING_COLUMNS columns=a, a"},
      {"select grouping(a) from u group by a", "!UNSUPPORTED_GROUPING_EXPRESSION"},
      {"select a from u where exists (select 1 from t where exists (select 1 from twice where b = u.b))",
       "!UNRESOLVED_COLUMN.WITH_SUGGESTION objectName=`u`.`b` proposal=`twice`.`A`, `twice`.`a`"},
      {"select a from u order by (select max(c) from t where t.a = u.a)",
       "!UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY.UNSUPPORTED_CORRELATED_SCALAR_SUBQUERY treeNode="},
      {"select distinct m from t",
       "!UNSUPPORTED_FEATURE.SET_OPERATION_ON_MAP_TYPE colName=`m` dataType=\"MAP<STRING, INT>\""},
      {"select m from t except select m from t",
       "!UNSUPPORTED_FEATURE.SET_OPERATION_ON_MAP_TYPE colName=`m` dataType=\"MAP<STRING, INT>\""},
      {"select a from t order by m desc", "!DATATYPE_MISMATCH.INVALID_ORDERING_TYPE sqlExpr=\"m DESC NULLS LAST\" "
                                          "functionName=`sortorder` dataType=\"MAP<STRING, INT>\""},
      {"select sum(rank() over (order by a)) from u", "!_LEGACY_ERROR_TEMP_1031"},
      {"select count(*) from u group by rank() over (order by a)",
       "!WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE clauseName=GROUP BY"},
      {"select rank() from u", "!WINDOW_FUNCTION_WITHOUT_OVER_CLAUSE funcName=\"RANK()\""},
      {"select 1 + row_number() from u", "!WINDOW_FUNCTION_WITHOUT_OVER_CLAUSE funcName=\"row_number()\""},
      {"select row_number() over (partition by a) from u",
       "!WINDOW_FUNCTION_FRAME_NOT_ORDERED wf_name=row_number() wf_expr=row_number()"},
      {"select a from u qualify a = 1", "!QUALIFY_REQUIRES_WINDOW_FUNCTION"},
      {"select sum(d) over (order by a range between interval 1 day preceding and current row) from u",
       "!DATATYPE_MISMATCH.RANGE_FRAME_INVALID_TYPE sqlExpr=\"window\" orderSpecType=\"INT\" "
       "valueBoundaryType=\"INTERVAL DAY\""},
      {"select :p", "!UNBOUND_SQL_PARAMETER name=p"},
  };
  CHECK_ALL(cases);
}

static void using_joins_merge_and_hide_keys(void **state) {
  (void)state;
  static const sql_case cases[] = {
      {"select * from (select a, c from t) t join u using (a)", "a int, c double, b string, d bigint"},
      {"select t.a, u.a, a from t right join u using (a)", "a int, a int, a int"},
      {"select u.* from t left join u using (a)", "a int, b string, d bigint"},
      {"select t.a, u.a, a from t full join u using (a)", "|project #7, #1, #10\n  project #1, #2, #3, #4, #5, #6, #7, "
                                                          "#8, #9, #10 := coalesce(#1, #7)\n    join full =(#1, #7)\n"},
      {"select * from (select a, c from t) t left semi join u using (a)", "a int, c double"},
      {"select * from (select a, b, c from t) natural join u", "a int, b string, c double, d bigint"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (i != 3) check_sql(cases[i].query, cases[i].expected);
  trn_plan *plan = NULL;
  assert_int_equal(plans_sql(&plans, cases[3].query, &plan, NULL), TRN_OK);
  trn_strbuf text = {0};
  trn__rel_print(&text, plan->root);
  assert_non_null(strstr(text.data, "#10 := coalesce(#1, #7)"));
  assert_non_null(strstr(text.data, "project #1, #7, #10"));
  trn__strbuf_finish(&text);
  trn_plan_unref(plan);
}

static void lateral_joins_become_what_they_are(void **state) {
  (void)state;
  static const sql_case cases[] = {
      {"select u.a, mx from u left join lateral (select max(c) as mx from t where t.a = u.a) x on true",
       "a int, mx double"},
      {"select x.y, u.b from u, lateral (select u.a = 1 as y) x",
       "|project #5, #2\n  project #1, #2, #3, #5 := =(#1, 1)\n    scan parquet /data/u [#1 int, #2 string, #3 "
       "bigint]"},
      {"select a, e from t, lateral explode(arr) as x(e)", "a int, e int"},
      {"select x.a, x.b from twice left join lateral (select * from u where u.d = twice.a and u.a > 1) x",
       "!AMBIGUOUS_REFERENCE "
       "name=`twice`.`a` referenceNames=[`twice`.`A`, `twice`.`a`]"},
      {"select x.b from t left join lateral (select b from u where u.a = t.a) x",
       "|project #8\n  join left =(#7, #1)\n    scan parquet /data/t [#1 int, #2 string, #3 double, #4 "
       "struct<x:int,y:struct<z:string>>, #5 array<int>, #6 map<string,int>]\n    scan parquet /data/u [#7 int, #8 "
       "string, #9 bigint]"},
      {"select * from t, lateral (select b from u where u.a = t.a limit 1) x",
       "a int, b string, c double, s struct<x:int,y:struct<z:string>>, arr array<int>, m map<string,int>, b string"},
      {"select t.a from t full join lateral (select b from u where u.a = t.a) x on true",
       "!A lateral join of this type is not supported yet."},
  };
  CHECK_ALL(cases);
}

/* ---- DataFrames ---- */
static const Spark__Connect__Join__JoinType INNER = SPARK__CONNECT__JOIN__JOIN_TYPE__JOIN_TYPE_INNER;

static void plan_ids_choose_the_side(void **state) {
  (void)state;
  msg_rel *u = msg_table(arena, "u", 1),
          *x = msg_filter(arena, msg_table(arena, "u", 1),
                          msg_call(arena, ">", msg_name(arena, "d", 0), msg_int(arena, 0)), 2);
  msg_expr *equal = msg_call(arena, "==", msg_name(arena, "a", 3), msg_name(arena, "a", 2));
  msg_rel *t = msg_project(arena, msg_table(arena, "t", 4), msg_name(arena, "a", 0), msg_name(arena, "c", 0), 3);
  check_relation("t.a == x.a",
                 msg_project(arena, msg_join(arena, t, x, equal, NULL, INNER, 5), msg_name(arena, "a", 2),
                             msg_name(arena, "a", 3), 6),
                 "a int, a int");
  /* Both sides come from the same DataFrame, at the same depth. */
  msg_rel *self = msg_join(arena, u, msg_table(arena, "u", 1),
                           msg_call(arena, "==", msg_name(arena, "a", 1), msg_name(arena, "a", 1)), NULL, INNER, 7);
  check_relation("u.a == u.a", self, "!AMBIGUOUS_COLUMN_REFERENCE name=`a`");
  /* One side is nearer. */
  msg_rel *nearer = msg_join(arena, msg_table(arena, "u", 1), x,
                             msg_call(arena, "==", msg_name(arena, "a", 1), msg_name(arena, "a", 2)), NULL, INNER, 8);
  check_relation("nearer", msg_project(arena, nearer, msg_name(arena, "d", 1), msg_star(arena, 2), 9),
                 "d bigint, a int, b string, d bigint");
}

static void plan_ids_reach_through_what_keeps_columns(void **state) {
  (void)state;
  msg_expr *condition = msg_call(arena, ">", msg_name(arena, "d", 1), msg_int(arena, 1));
  msg_rel *narrow = msg_project(arena, msg_table(arena, "u", 1), msg_name(arena, "a", 1), NULL, 2);
  check_relation("a filter may use what a select left out", msg_filter(arena, narrow, condition, 3),
                 "|project #1\n  filter >(#3, 1:bigint)\n    scan parquet /data/u [#1 int, #2 string, #3 bigint]");
  check_relation("a sort too", msg_sort(arena, narrow, msg_name(arena, "b", 0), 3),
                 "|project #1\n  sort #2 asc\n    scan parquet /data/u [#1 int, #2 string, #3 bigint]");
  check_relation("a select may not", msg_project(arena, narrow, msg_name(arena, "d", 1), NULL, 3),
                 "!CANNOT_RESOLVE_DATAFRAME_COLUMN name=`d`");
  check_relation("nor may a stranger", msg_project(arena, narrow, msg_name(arena, "d", 99), NULL, 3),
                 "!CANNOT_RESOLVE_DATAFRAME_COLUMN name=`d`");
  msg_rel *renamed = msg_rename(arena, msg_table(arena, "u", 1), "a", "x", 2);
  check_relation("a renamed column is another one", msg_project(arena, renamed, msg_name(arena, "a", 1), NULL, 3),
                 "!CANNOT_RESOLVE_DATAFRAME_COLUMN name=`a`");
  check_relation("its neighbour is the same",
                 msg_project(arena, renamed, msg_name(arena, "b", 1), msg_name(arena, "x", 0), 3), "b string, x int");
  msg_rel *grouped = msg_aggregate(arena, msg_table(arena, "u", 1), msg_name(arena, "b", 1),
                                   msg_call(arena, "sum", msg_name(arena, "d", 1), NULL), 2);
  check_relation("a group key", msg_project(arena, grouped, msg_name(arena, "b", 1), msg_name(arena, "sum(d)", 0), 3),
                 "b string, sum(d) bigint");
  msg_rel *both = msg_union(arena, msg_table(arena, "u", 1), msg_table(arena, "u", 2), false, false, 3);
  check_relation("a union hides its inputs", msg_project(arena, both, msg_name(arena, "a", 1), NULL, 4),
                 "!CANNOT_RESOLVE_DATAFRAME_COLUMN name=`a`");
  msg_rel *joined = msg_join(arena, msg_table(arena, "t", 1), msg_table(arena, "u", 2), NULL, "a", INNER, 3);
  check_relation("a hidden key", msg_project(arena, joined, msg_name(arena, "a", 2), msg_name(arena, "a", 1), 4),
                 "a int, a int");
}

static void columns_are_added_renamed_dropped(void **state) {
  (void)state;
  msg_rel *u = msg_table(arena, "u", 1);
  msg_expr *one = msg_int(arena, 1);
  check_relation("a new one comes last", msg_with_column(arena, u, "x", one, 2), "a int, b string, d bigint, x int!");
  check_relation("a known name is replaced", msg_with_column(arena, u, "B", one, 2), "a int, B int!, d bigint");
  check_relation("what it replaces may be used",
                 msg_with_column(arena, u, "d", msg_call(arena, "+", msg_name(arena, "d", 0), one), 2),
                 "a int, b string, d bigint");
  check_relation("renamed in place", msg_rename(arena, u, "B", "x", 2), "a int, x string, d bigint");
  check_relation("no such column to rename", msg_rename(arena, u, "nope", "x", 2), "a int, b string, d bigint");
  check_relation("dropped by name", msg_drop(arena, u, "B", NULL, 2), "a int, d bigint");
  check_relation("dropped by column", msg_drop(arena, u, NULL, msg_name(arena, "d", 1), 2), "a int, b string");
  check_relation("no such column to drop", msg_drop(arena, u, "nope", msg_name(arena, "nope", 0), 2),
                 "a int, b string, d bigint");
}

static void unions_by_name_align_columns(void **state) {
  (void)state;
  msg_rel *l = msg_project(arena, msg_table(arena, "u", 1), msg_name(arena, "a", 0), msg_name(arena, "b", 0), 2);
  msg_rel *r = msg_project(arena, msg_table(arena, "u", 3), msg_name(arena, "b", 0),
                           msg_as(arena, msg_name(arena, "d", 0), "A"), 4);
  msg_rel *m = msg_project(arena, msg_table(arena, "u", 3), msg_name(arena, "b", 0), msg_name(arena, "d", 0), 4);
  check_relation("by name", msg_union(arena, l, r, true, false, 5), "a bigint, b string");
  check_relation("missing", msg_union(arena, l, m, true, false, 5),
                 "!UNRESOLVED_COLUMN_AMONG_FIELD_NAMES colName=a fieldNames=b, d");
  check_relation("missing allowed", msg_union(arena, l, m, true, true, 5), "a int, b string, d bigint");
}

static void rows_become_columns_and_back(void **state) {
  (void)state;
  static const sql_case cases[] = {
      {"select * from (select a, b, d from u) pivot (sum(d) as s, max(d) for b in ('x' as x, 'y'))",
       "a int, x_s bigint, x_max(d) bigint, y_s bigint, y_max(d) bigint"},
      {"select * from (select a, b, d from u) pivot (sum(d) for b in ('x', 'y'))", "a int, x bigint, y bigint"},
      {"select * from u unpivot (v for n in (a, d as x))", "b string, n string!, v bigint"},
  };
  CHECK_ALL(cases);
}

static void nulls_are_filled_dropped_and_replaced(void **state) {
  (void)state;
  Spark__Connect__NAFill fill = SPARK__CONNECT__NAFILL__INIT;
  Spark__Connect__NADrop drop = SPARK__CONNECT__NADROP__INIT;
  Spark__Connect__NAReplace replace = SPARK__CONNECT__NAREPLACE__INIT;
  Spark__Connect__NAReplace__Replacement replacement = SPARK__CONNECT__NAREPLACE__REPLACEMENT__INIT;
  Spark__Connect__NAReplace__Replacement *replacements[1] = {&replacement};
  Spark__Connect__Expression__Literal *values[1] = {msg_int(arena, 5)->literal};
  char *names[1] = {"d"};
  msg_rel *u = msg_table(arena, "u", 1);
  fill.input = drop.input = replace.input = u;
  fill.n_values = 1;
  fill.values = values;
  check_relation("fill: numbers only", msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_FILL_NA, &fill, 2),
                 "|project #4 := coalesce(#1, 5), #2, #5 := coalesce(#3, 5:bigint)\n"
                 "  scan parquet /data/u [#1 int, #2 string, #3 bigint]");
  drop.n_cols = 1;
  drop.cols = names;
  check_relation("drop", msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_DROP_NA, &drop, 2),
                 "|filter is_not_null(#3)\n  scan parquet /data/u [#1 int, #2 string, #3 bigint]");
  drop.n_cols = 0;
  drop._min_non_nulls_case = SPARK__CONNECT__NADROP___MIN_NON_NULLS_MIN_NON_NULLS;
  drop.min_non_nulls = 2;
  check_relation("thresh", msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_DROP_NA, &drop, 2),
                 "a int, b string, d bigint");
  replacement.old_value = msg_int(arena, 1)->literal;
  replacement.new_value = msg_int(arena, 2)->literal;
  replace.n_replacements = 1;
  replace.replacements = replacements;
  replace.n_cols = 1;
  replace.cols = names;
  check_relation("replace", msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_REPLACE, &replace, 2),
                 "|project #1, #2, #4 := case when =(#3, 1:bigint) then 2:bigint else #3 end\n"
                 "  scan parquet /data/u [#1 int, #2 string, #3 bigint]");
  names[0] = "nope";
  check_relation("no such column", msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_REPLACE, &replace, 2),
                 "!UNRESOLVED_COLUMN.WITH_SUGGESTION objectName=`nope` proposal=`a`, `b`, `d`");
}

static void columns_are_described(void **state) {
  (void)state;
  Spark__Connect__StatDescribe describe = SPARK__CONNECT__STAT_DESCRIBE__INIT;
  Spark__Connect__StatCorr corr = SPARK__CONNECT__STAT_CORR__INIT;
  describe.input = corr.input = msg_table(arena, "t", 1);
  corr.col1 = "a";
  corr.col2 = "c";
  check_relation("describe", msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_DESCRIBE, &describe, 2),
                 "summary string, a string, b string, c string");
  check_relation("corr", msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_CORR, &corr, 2), "corr double");
}

static void generated_names_are_marked(void **state) {
  (void)state;
  trn_plan *plan = NULL;
  assert_int_equal(plans_sql(&plans, "select a, d + 1, d + 2 as x from u", &plan, NULL), TRN_OK);
  assert_null(plan->fields[0].metadata);
  assert_string_equal(plan->fields[1].metadata, "{\"__autoGeneratedAlias\":\"true\"}");
  assert_null(plan->fields[2].metadata);
  trn_plan_unref(plan);
}

static void parameters_are_bound(void **state) {
  (void)state;
  msg_rel r = SPARK__CONNECT__RELATION__INIT;
  Spark__Connect__SQL sql = SPARK__CONNECT__SQL__INIT;
  Spark__Connect__SQL__NamedArgumentsEntry entry = SPARK__CONNECT__SQL__NAMED_ARGUMENTS_ENTRY__INIT,
                                           *entries[1] = {&entry};
  msg_expr *positional[2] = {msg_int(arena, 7), msg_int(arena, 8)};
  r.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_SQL;
  r.sql = &sql;
  entry.key = "p";
  entry.value = msg_int(arena, 5);
  sql.query = "select a from u where a > :p";
  sql.n_named_arguments = 1;
  sql.named_arguments = entries;
  check_relation("named", &r,
                 "|project #1\n  filter >(#1, 5)\n    scan parquet /data/u [#1 int, #2 string, #3 bigint]");
  sql.query = "select ? as x, ? as y";
  sql.n_named_arguments = 0;
  sql.n_pos_arguments = 2;
  sql.pos_arguments = positional;
  check_relation("positional", &r, "|project #1 := 7, #2 := 8\n  values 1 rows []");
}

static void references_of_sql_are_relations(void **state) {
  (void)state;
  msg_rel sql_relation = SPARK__CONNECT__RELATION__INIT;
  Spark__Connect__SQL sql = SPARK__CONNECT__SQL__INIT;
  Spark__Connect__WithRelations with = SPARK__CONNECT__WITH_RELATIONS__INIT;
  Spark__Connect__SubqueryAlias alias = SPARK__CONNECT__SUBQUERY_ALIAS__INIT;
  alias.alias = "df1";
  alias.input = msg_project(arena, msg_table(arena, "u", 1), msg_name(arena, "d", 0), NULL, 2);
  msg_rel *references[1] = {msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_SUBQUERY_ALIAS, &alias, 3)};
  sql.query = "select df1.d, x.d as e from df1 join df1 as x on df1.d = x.d";
  sql_relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_SQL;
  sql_relation.sql = &sql;
  with.root = &sql_relation;
  with.n_references = 1;
  with.references = references;
  check_relation("by name", msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_WITH_RELATIONS, &with, 4),
                 "d bigint, e bigint");
}

static void subqueries_of_dataframes_go_by_plan_id(void **state) {
  (void)state;
  Spark__Connect__WithRelations with = SPARK__CONNECT__WITH_RELATIONS__INIT;
  Spark__Connect__SubqueryExpression subquery = SPARK__CONNECT__SUBQUERY_EXPRESSION__INIT;
  msg_expr e = SPARK__CONNECT__EXPRESSION__INIT;
  msg_rel *inner =
      msg_aggregate(arena, msg_table(arena, "t", 11), NULL, msg_call(arena, "max", msg_name(arena, "a", 11), NULL), 10);
  subquery.plan_id = 10;
  subquery.subquery_type = SPARK__CONNECT__SUBQUERY_EXPRESSION__SUBQUERY_TYPE__SUBQUERY_TYPE_SCALAR;
  e.expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_SUBQUERY_EXPRESSION;
  e.subquery_expression = &subquery;
  with.root = msg_project(arena, msg_table(arena, "u", 1), msg_name(arena, "a", 1), msg_as(arena, &e, "m"), 2);
  with.n_references = 1;
  with.references = &inner;
  msg_rel *relation = msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_WITH_RELATIONS, &with, 3);
  check_relation("scalar", relation, "a int, m int");
  subquery.plan_id = 12;
  check_relation("unknown", relation, "!CONNECT_INVALID_PLAN.INVALID_WITH_RELATION_REFERENCE");
}

/* ---- views ---- */
static void views_are_resolved_where_they_are_used(void **state) {
  (void)state;
  msg_rel *inner = msg_project(arena, msg_table(arena, "u", 1), msg_name(arena, "a", 0), NULL, 2);
  assert_int_equal(spark__catalog_set_view(plans.catalog, "v", inner, false, NULL), TRN_OK);
  check_sql("select V.a from v", "a int");
  trn_error *error = NULL;
  assert_int_equal(spark__catalog_set_view(plans.catalog, "V", inner, false, &error), TRN_ALREADY_EXISTS);
  assert_string_equal(trn_error_condition(error), "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS");
  trn_error_unref(error);
  /* The CTE of the query is not visible inside of the view; before the view it is. */
  check_sql("with u as (select 'x' as a) select a from v", "a int");
  check_sql("with v as (select 'x' as a) select a from v", "a string!");
  assert_true(spark__catalog_drop_view(plans.catalog, "V", false));
  assert_false(spark__catalog_drop_view(plans.catalog, "v", false));
  check_sql("select a from v", "!TABLE_OR_VIEW_NOT_FOUND relationName=`v` "
                               "searchPath=[`system`.`builtin`, `system`.`session`, `spark_catalog`.`default`]");
}

static void a_view_of_itself_ends(void **state) {
  (void)state;
  assert_int_equal(spark__catalog_set_view(plans.catalog, "loop", msg_table(arena, "loop", 1), true, NULL), TRN_OK);
  trn_plan *plan = NULL;
  assert_int_equal(plans_sql(&plans, "select * from loop", &plan, NULL), TRN_RESOURCE_EXHAUSTED);
  assert_null(plan);
  assert_true(spark__catalog_drop_view(plans.catalog, "loop", false));
}

/* ---- sources ---- */
static msg_rel *read_files(const char *format, const char *path, const char *schema, const char *key,
                           const char *value) {
  Spark__Connect__Read *read = MSG_NEW(arena, Spark__Connect__Read, SPARK__CONNECT__READ__INIT);
  Spark__Connect__Read__DataSource *source =
      MSG_NEW(arena, Spark__Connect__Read__DataSource, SPARK__CONNECT__READ__DATA_SOURCE__INIT);
  Spark__Connect__Read__DataSource__OptionsEntry *entry = MSG_NEW(
      arena, Spark__Connect__Read__DataSource__OptionsEntry, SPARK__CONNECT__READ__DATA_SOURCE__OPTIONS_ENTRY__INIT);
  read->read_type_case = SPARK__CONNECT__READ__READ_TYPE_DATA_SOURCE;
  read->data_source = source;
  source->_format_case = SPARK__CONNECT__READ__DATA_SOURCE___FORMAT_FORMAT;
  source->format = (char *)format;
  source->n_paths = 1;
  source->paths = msg_copy(arena, &path, sizeof path);
  source->_schema_case = SPARK__CONNECT__READ__DATA_SOURCE___SCHEMA_SCHEMA;
  source->schema = (char *)schema;
  entry->key = (char *)key;
  entry->value = (char *)value;
  source->n_options = key ? 1 : 0;
  source->options = msg_copy(arena, &entry, sizeof entry);
  return msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_READ, read, 0);
}

static void files_are_shown_as_spark_shows_them(void **state) {
  (void)state;
  assert_true(plans_table(&plans, "files", "b BIGINT NOT NULL, a STRING"));
  check_relation("parquet: all nullable", read_files("PARQUET", "/data/files", "", NULL, NULL), "b bigint, a string");
  check_relation("json: by name", read_files("json", "/data/files", "", NULL, NULL), "a string, b bigint");
  check_relation("csv: numbered", read_files("csv", "/data/files", "", "inferSchema", "true"),
                 "_c0 bigint, _c1 string");
  check_relation("csv: named", read_files("csv", "/data/files", "", "header", "true"),
                 "b bigint, a string"); /* the fake infers */
  check_relation("no such file", read_files("parquet", "/data/none", "", NULL, NULL),
                 "!PATH_NOT_FOUND path=/data/none");
  check_relation("no such format", read_files("nope", "/data/files", "", NULL, NULL),
                 "!DATA_SOURCE_NOT_FOUND provider=nope");
  check_relation("orc", read_files("orc", "/data/files", "", NULL, NULL),
                 "!Reading the format orc is not supported yet.");
  check_relation("separators of two bytes", read_files("csv", "/data/files", "", "sep", "||"),
                 "!The value '||' of the option sep is not supported yet.");
  check_sql("select a from parquet.`/data/files`", "a string");
}

/* The plan's only source; the plan keeps it. */
static trn_source *source_of(const trn_plan *plan) {
  const trn_rel *rel = plan->root;
  while (rel->input_count) rel = rel->inputs[0];
  assert_int_equal(rel->kind, TRN_REL_SCAN);
  return rel->u.scan.source;
}

static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void sources_are_opened_again_only_when_files_change(void **state) {
  (void)state;
  char folder[] = "/tmp/trunnion-sources-XXXXXX", file[100];
  const trn_type *type = NULL;
  struct ArrowSchema schema;
  assert_non_null(mkdtemp(folder));
  snprintf(file, sizeof file, "%s/part-0.parquet", folder);
  write_file(file, "one");
  assert_int_equal(spark__schema_from_text(arena, "a INT", 5, &type, NULL), TRN_OK);
  assert_int_equal(trn__type_export(type, "", false, NULL, NULL, &schema), TRN_OK);
  assert_int_equal(trn__scripted_add_table(plans.control, folder, &schema, NULL, 0), TRN_OK);
  schema.release(&schema);
  msg_rel *read = read_files("parquet", folder, "", NULL, NULL),
          *view = read_files("parquet", "/data/files", "", NULL, NULL);
  trn_plan *held[5] = {NULL};
  for (int i = 0; i < 4; i++) {
    if (i == 2) write_file(file, "another");
    assert_int_equal(plans_relation(&plans, read, &held[i], NULL), TRN_OK);
  }
  assert_ptr_equal(source_of(held[1]), source_of(held[0]));
  assert_ptr_not_equal(source_of(held[2]), source_of(held[0]));
  assert_ptr_equal(source_of(held[3]), source_of(held[2]));
  assert_int_equal(plans_relation(&plans, view, &held[4], NULL),
                   TRN_OK); /* no file that can be watched: opened each time */
  trn_plan *again = NULL;
  assert_int_equal(plans_relation(&plans, view, &again, NULL), TRN_OK);
  assert_ptr_not_equal(source_of(again), source_of(held[4]));
  trn_plan_unref(again);
  for (int i = 0; i < 5; i++) trn_plan_unref(held[i]);
  unlink(file);
  rmdir(folder);
}

static void local_relations_without_rows_have_their_schema(void **state) {
  (void)state;
  Spark__Connect__LocalRelation local;
  spark__connect__local_relation__init(&local);
  msg_rel *relation = msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_LOCAL_RELATION, &local, 1);
  check_relation("nothing", relation, "!CONNECT_INVALID_PLAN.SCHEMA_REQUIRED_FOR_LOCAL_RELATION");
  local._schema_case = SPARK__CONNECT__LOCAL_RELATION___SCHEMA_SCHEMA;
  local.schema = "a INT NOT NULL, b STRUCT<x: DATE>";
  check_relation("DDL", relation, "a int!, b struct<x:date>");
  local.schema =
      "{\"type\":\"struct\",\"fields\":[{\"name\":\"i\",\"type\":\"long\",\"nullable\":false,\"metadata\":{}}]}";
  check_relation("JSON", relation, "i bigint!");
}

/* ---- TPC-H ---- */
static void tpch_queries_translate(void **state) {
  (void)state;
  for (int i = 1; i <= 22; i++) {
    char path[500], text[8000];
    snprintf(path, sizeof path, TRUNNION_TEST_DATA "/tpch/q%02d.sql", i);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    assert_in_range(size, 10, sizeof text - 2);
    text[size] = 0;
    trn_plan *plan = NULL;
    trn_error *error = NULL;
    if (plans_sql(&plans, text, &plan, &error) != TRN_OK) {
      trn_strbuf what = {0};
      error_text(error, &what);
      fail_msg("%s: %s", path, what.data);
    }
    const trn_rel *decorrelated = NULL;
    uint32_t next = plan->next_column;
    trn_arena *scratch = trn__arena_create(0);
    assert_int_equal(trn__decorrelate(scratch, plan->root, &next, &decorrelated, NULL), TRN_OK);
    trn__arena_unref(scratch);
    trn_plan_unref(plan);
  }
}

/* ---- subqueries: names and types that real Spark gave ---- */
static void check_recorded(const char *query, const cJSON *answer) {
  trn_plan *plan = NULL;
  trn_error *error = NULL;
  const cJSON *condition = cJSON_GetObjectItem(answer, "condition");
  const cJSON *names = cJSON_GetObjectItem(answer, "columns"), *types = cJSON_GetObjectItem(answer, "types");
  trn_status status = plans_sql(&plans, query, &plan, &error);
  bool at_run = condition && strcmp(condition->valuestring, "SCALAR_SUBQUERY_TOO_MANY_ROWS") == 0;
  if (condition && !at_run) {
    if (status == TRN_OK) fail_msg("%s: expected %s", query, condition->valuestring);
    assert_string_equal(trn_error_condition(error), condition->valuestring);
  } else if (status != TRN_OK) {
    trn_strbuf what = {0};
    error_text(error, &what);
    fail_msg("%s: %s", query, what.data);
  } else if (!condition) {
    assert_int_equal(plan->field_count, cJSON_GetArraySize(names));
    for (uint32_t i = 0; i < plan->field_count; i++) {
      trn_strbuf type = {0};
      spark__type_simple(&type, plan->fields[i].type);
      assert_string_equal(plan->fields[i].name, cJSON_GetArrayItem(names, (int)i)->valuestring);
      assert_string_equal(type.data, cJSON_GetArrayItem(types, (int)i)->valuestring);
      trn__strbuf_finish(&type);
    }
  }
  trn_error_unref(error);
  trn_plan_unref(plan);
}

static void subqueries_are_as_recorded_from_spark(void **state) {
  (void)state;
  FILE *file = fopen(TRUNNION_TEST_DATA "/spark/subqueries.json", "r");
  static char text[1 << 18];
  assert_non_null(file);
  size_t size = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[size] = 0;
  cJSON *answers = cJSON_Parse(text);
  assert_non_null(answers);
  assert_true(plans_table(&plans, "t", "a INT, b INT, c STRING") && plans_table(&plans, "s", "k INT, v INT") &&
              plans_table(&plans, "n", "k INT") && plans_table(&plans, "e", "k INT, v INT"));
  int count = 0;
  for (const cJSON *answer = answers->child; answer; answer = answer->next, count++)
    check_recorded(answer->string, answer);
  assert_in_range(count, 42, 1000);
  cJSON_Delete(answers);
  assert_true(plans_table(&plans, "t", T));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_are_found_as_spark_finds_them),
      cmocka_unit_test(case_counts_when_the_setting_says_so),
      cmocka_unit_test(lateral_aliases_become_projections),
      cmocka_unit_test(plans_have_the_expected_shape),
      cmocka_unit_test(types_and_nullability_are_right),
      cmocka_unit_test(wrong_queries_fail_as_in_spark),
      cmocka_unit_test(using_joins_merge_and_hide_keys),
      cmocka_unit_test(lateral_joins_become_what_they_are),
      cmocka_unit_test(plan_ids_choose_the_side),
      cmocka_unit_test(plan_ids_reach_through_what_keeps_columns),
      cmocka_unit_test(columns_are_added_renamed_dropped),
      cmocka_unit_test(unions_by_name_align_columns),
      cmocka_unit_test(rows_become_columns_and_back),
      cmocka_unit_test(nulls_are_filled_dropped_and_replaced),
      cmocka_unit_test(columns_are_described),
      cmocka_unit_test(generated_names_are_marked),
      cmocka_unit_test(parameters_are_bound),
      cmocka_unit_test(references_of_sql_are_relations),
      cmocka_unit_test(subqueries_of_dataframes_go_by_plan_id),
      cmocka_unit_test(views_are_resolved_where_they_are_used),
      cmocka_unit_test(a_view_of_itself_ends),
      cmocka_unit_test(files_are_shown_as_spark_shows_them),
      cmocka_unit_test(sources_are_opened_again_only_when_files_change),
      cmocka_unit_test(local_relations_without_rows_have_their_schema),
      cmocka_unit_test(tpch_queries_translate),
      cmocka_unit_test(subqueries_are_as_recorded_from_spark),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
