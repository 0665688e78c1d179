/* The Spark SQL parser: trees, errors, limits. Expected errors are what Spark 4.2 answers. */
#include "frontend/spark/sql/sql.h"
#include "support/message_dump.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h> /* needs what is above */

typedef struct sql_case {
  const char *text, *tree;
} sql_case;

static const char *field_of(const trn_error *error, const char *key) {
  const trn_error_param *params;
  size_t count = trn_error_params(error, &params);
  for (size_t i = 0; i < count; i++) {
    if (strcmp(params[i].key, key) == 0) return params[i].value;
  }
  return "";
}

/* The dump of what `text` parses to as 'e'xpression, 't'ype, 's'chema, 'q'uery or command; on the heap. */
static char *parse_and_dump(char rule, const char *text) {
  trn_arena *arena = trn__arena_create(0);
  trn_error *error = NULL;
  trn_strbuf out = {0};
  trn_status status;
  const ProtobufCMessage *message = NULL;
  Spark__Connect__Expression *expr = NULL;
  Spark__Connect__DataType *type = NULL;
  spark_sql_statement statement;
  assert_non_null(arena);
  if (rule == 'e') {
    status = spark__sql_parse_expression(arena, text, strlen(text), NULL, &expr, &error);
    message = expr != NULL ? &expr->base : NULL;
  } else if (rule == 'q') {
    status = spark__sql_parse_statement(arena, text, strlen(text), NULL, &statement, &error);
    message = statement.relation != NULL  ? &statement.relation->base
              : statement.command != NULL ? &statement.command->base
                                          : NULL;
  } else {
    status = rule == 't' ? spark__sql_parse_type(arena, text, strlen(text), NULL, &type, &error)
                         : spark__sql_parse_schema(arena, text, strlen(text), NULL, &type, &error);
    message = type != NULL ? &type->base : NULL;
  }
  if (status == TRN_OK) {
    dump_message(&out, message);
  } else {
    trn__strbuf_printf(&out, "%s %s%s%s",
                       trn_error_condition(error) != NULL ? trn_error_condition(error) : trn_status_name(status),
                       field_of(error, "error"), field_of(error, "hint"), trn_error_message(error));
  }
  trn_error_unref(error);
  trn__arena_unref(arena);
  return out.data;
}

static void check(char rule, const sql_case *cases, size_t count) {
  for (size_t i = 0; i < count; i++) {
    char *tree = parse_and_dump(rule, cases[i].text);
    if (strcmp(tree, cases[i].tree) != 0)
      print_error("%s\n  got      %s\n  expected %s\n", cases[i].text, tree, cases[i].tree);
    assert_string_equal(tree, cases[i].tree);
    free(tree);
  }
}
#define CHECK(rule, cases) check(rule, cases, sizeof(cases) / sizeof(cases[0]))

static void operators_bind_as_in_spark(void **state) {
  (void)state;
  static const sql_case cases[] = {
      {"a + b * c - d / e % f", "(- (+ a (* b c)) (% (/ d e) f))"},
      {"a - b - c", "(- (- a b) c)"},
      {"a || b + c", "(+ (concat a b) c)"},
      {"-a * b", "(* (negative a) b)"},
      {"- - a", "(negative (negative a))"},
      {"~a + +b", "(+ (~ a) (positive b))"},
      {"-a::int", "(negative (cast expr=a type=(integer)))"},
      {"-1::int", "(cast expr=-1 type=(integer))"},
      {"a div b", "(div a b)"},
      {"a | b ^ c & d << e + 1", "(| a (^ b (& c (<< d (+ e 1)))))"},
      {"a >>> 1 >> 2", "(>> (>>> a 1) 2)"},
      {"a = b < c", "(< (== a b) c)"},
      {"a == 1 and b <> 2 and c != 3", "(and (and (== a 1) (not (== b 2))) (not (== c 3)))"},
      {"a <=> b", "(<=> a b)"},
      {"a !> 1 or a !< 2", "(or (<= a 1) (>= a 2))"},
      {"a or b and not c = d", "(or a (and b (not (== c d))))"},
      {"not a and b", "(and (not a) b)"},
      {"! a or b", "(or (not a) b)"},
      {"not not a", "(not (not a))"},
      {"(a or b) and c", "(and (or a b) c)"},
      {"((((a))))", "a"},
      {"a and b and c and d", "(and (and a b) (and c d))"},
      {"a or b or c or d or e", "(or (or (or a b) c) (or d e))"},
      {"a and (b and c) and d", "(and (and a (and b c)) d)"},
  };
  CHECK('e', cases);
}

static void predicates(void **state) {
  (void)state;
  static const sql_case cases[] = {
      {"a between 1 + 1 and 3 and b", "(and (between a (+ 1 1) 3) b)"},
      {"a + 1 not between b and c or d", "(or (not (between (+ a 1) b c)) d)"},
      {"a in (1, b + 2)", "(in a 1 (+ b 2))"},
      {"not a not in ('x')", "(not (not (in a 'x')))"},
      {"a in ((select 1))", "(in a (trn_subquery relation=(trn_select select=[1])))"},
      {"a in (select 1)", "(trn_subquery kind=TRN_SUBQUERY_KIND_IN relation=(trn_select select=[1]) in_values=[a])"},
      {"(a, b) not in (select 1, 2)",
       "(not (trn_subquery kind=TRN_SUBQUERY_KIND_IN relation=(trn_select select=[1 2]) in_values=[a b]))"},
      {"a like 'x%'", "(like a 'x%')"},
      {"a not ilike 'x' escape '!'", "(not (ilike a 'x' '!'))"},
      {"a rlike 'x' and b regexp 'y'", "(and (rlike a 'x') (rlike b 'y'))"},
      {"a like any ('x', 'y')", "(@likeany a 'x' 'y')"},
      {"a not like all ('x', 'y')", "(@notlikeall a 'x' 'y')"},
      {"a like any ('x', b)", "(or (like a 'x') (like a b))"},
      {"a is null or b is not null", "(or (isNull a) (isNotNull b))"},
      {"a is true", "(<=> a true)"},
      {"a is not false", "(not (<=> a false))"},
      {"a is unknown", "(isNull a)"},
      {"a is distinct from b + 1", "(not (<=> a (+ b 1)))"},
      {"a is not distinct from b", "(<=> a b)"},
      {"exists (select 1)", "(trn_subquery kind=TRN_SUBQUERY_KIND_EXISTS relation=(trn_select select=[1]))"},
      {"exists(xs, x -> x > 1)",
       "(exists xs (lambda_function function=(> (unresolved_named_lambda_variable name_parts=['x']) 1) "
       "arguments=[(UnresolvedNamedLambdaVariable name_parts=['x'])]))"},
  };
  CHECK('e', cases);
}

static void literals_have_sparks_types(void **state) {
  (void)state;
  static const sql_case cases[] = {
      {"2147483647", "2147483647"},
      {"2147483648", "2147483648L"},
      {"-9223372036854775808", "-9223372036854775808L"},
      {"9223372036854775808", "9223372036854775808:19,0"},
      {"-1", "-1"},
      {"1L", "1L"},
      {"1S", "1S"},
      {"-128Y", "-128Y"},
      {"1.5", "1.5:2,1"},
      {"1.", "1:1,0"},
      {".05", "0.05:2,2"},
      {"00.50", "0.50:2,2"},
      {"0.0", "0.0:1,1"},
      {"1.5BD", "1.5:2,1"},
      {"1e3BD", "1000:4,0"},
      {"1.5e-3BD", "0.0015:4,4"},
      {"1e3", "1000D"},
      {"1.5D", "1.5D"},
      {"1.5F", "1.5F"},
      {"true", "true"},
      {"null", "null"},
      {"'it''s'", "'it's'"},
      {"'a' 'b' \"c\"", "'abc'"},
      {"'\\u0041\\101\\n\\%\\q'", "'AA\n\\%q'"},
      {"r'\\n'", "'\\n'"},
      {"$$a'b$$", "'a'b'"},
      {"X'1F'", "x1F"},
      {"x'abc'", "x0ABC"},
      {"'\\0'", "(cast expr=x00 type=(string))"},
      {"date '2020-01-01'", "(trn_typed_string type='DATE' text='2020-01-01')"},
      {"timestamp_ntz'2020-01-01'", "(trn_typed_string type='TIMESTAMP_NTZ' text='2020-01-01')"},
      {"interval '90' day", "(trn_interval values=['90'] units=['day'])"},
      {"interval 3 MONTHS", "(trn_interval values=['3'] units=['months'])"},
      {"interval -3 month '2' years", "(trn_interval values=['-3' '2'] units=['month' 'years'])"},
      {"interval '1-2' year to month", "(trn_interval values=['1-2'] units=['year' 'month'])"},
      {"interval '1 day 2 hours'", "(trn_interval values=['1 day 2 hours'])"},
      {"interval", "interval"},
      {":x + ?+?", "(+ (+ (trn_parameter 'x') (trn_parameter '0')) (trn_parameter '1'))"},
  };
  CHECK('e', cases);
}

static void primaries(void **state) {
  (void)state;
  static const sql_case cases[] = {
      {"a.b.c", "a.b.c"},
      {"`a.b`.c", "`a.b`.c"},
      {"`a``b`", "`a``b`"},
      {"(a).b", "a.b"},
      {"a[0].b", "(unresolved_extract_value child=(unresolved_extract_value child=a extraction=0) extraction='b')"},
      {"f(a).b", "(unresolved_extract_value child=(f a) extraction='b')"},
      {"v:a.b[0]::int", "(cast expr=(variant_get v '$.a.b[0]' 'variant') type=(integer))"},
      {"*", "*"},
      {"t.*", "t.*"},
      {"* except (a, b.c)", "(trn_star_except expressions=[* a b.c])"},
      {"a + 1 as b", "(alias expr=(+ a 1) name=['b'])"},
      {"f(a) as (x, y)", "(alias expr=(f a) name=['x' 'y'])"},
      {"a b", "(alias expr=a name=['b'])"},
      {"select", "select"},
      {"(1, 'a')", "(row_struct 1 'a')"},
      {"(1 as x, b y)", "(row_struct (alias expr=1 name=['x']) (alias expr=b name=['y']))"},
      {"struct(1 as x, b)", "(struct (alias expr=1 name=['x']) b)"},
      {"case when a then 1 when b then 2 else 3 end", "(when a 1 b 2 3)"},
      {"case a when 1 then 'x' else 'y' end", "(trn_simple_case operand=a whens=[1] thens=['x'] otherwise='y')"},
      {"cast(a as decimal(10, 2))", "(cast expr=a type=(decimal scale=2 precision=10))"},
      {"try_cast(a as array<int>)",
       "(cast expr=a type=(array element_type=(integer) contains_null) eval_mode=EVAL_MODE_TRY)"},
      {"count(*)", "(count *)"},
      {"count(distinct a, b)", "(count distinct a b)"},
      {"cat.db.f(1)", "(cat.db.f path 1)"},
      {"f(a => 1)", "(f (named_argument_expression key='a' value=1))"},
      {"extract(year from a)", "(extract 'year' a)"},
      {"substring(a from 2 for 3)", "(substring a 2 3)"},
      {"substring(a, 2)", "(substring a 2)"},
      {"trim(both 'x' from a) || trim(a)", "(concat (trim 'x' a) (trim a))"},
      {"trim(leading from a)", "(ltrim a)"},
      {"position('x' in a)", "(locate 'x' a)"},
      {"position('x', a)", "(position 'x' a)"},
      {"overlay(a placing 'x' from 3)", "(overlay a 'x' 3)"},
      {"dateadd(day, 1, a)", "(timestampadd 'day' 1 a)"},
      {"date_add(day, 1)", "(date_add day 1)"},
      {"timestampdiff(month, a, b)", "(timestampdiff 'month' a b)"},
      {"current_date", "current_date"},
      {"current_date()", "(current_date)"},
      {"a collate UTF8_LCASE", "(collate a 'UTF8_LCASE')"},
      {"transform(xs, (x, i) -> x.y + i + z)",
       "(transform xs (lambda_function function=(+ (+ (unresolved_extract_value "
       "child=(unresolved_named_lambda_variable "
       "name_parts=['x']) extraction='y') (unresolved_named_lambda_variable name_parts=['i'])) z) "
       "arguments=[(UnresolvedNamedLambdaVariable name_parts=['x']) (UnresolvedNamedLambdaVariable "
       "name_parts=['i'])]))"},
      {"first(a ignore nulls)", "(trn_modifiers function=(first a) ignore_nulls)"},
      {"sum(a) filter (where b > 1)", "(trn_modifiers function=(sum a) filter=(> b 1))"},
      {"percentile_cont(0.5) within group (order by a desc)",
       "(trn_modifiers function=(percentile_cont 0.5:1,1) within_group=[(SortOrder child=a "
       "direction=SORT_DIRECTION_DESCENDING "
       "null_ordering=SORT_NULLS_LAST)])"},
      {"sum(a) over (partition by b rows 2 preceding)",
       "(window window_function=(sum a) partition_spec=[b] frame_spec=(WindowFrame frame_type=FRAME_TYPE_ROW "
       "lower=(FrameBoundary value=-2) upper=(FrameBoundary current_row=true)))"},
      {"lag(a) ignore nulls over w",
       "(trn_window_reference function=(trn_modifiers function=(lag a) ignore_nulls) name='w')"},
      {"identifier('a.b').c", "a.b.c"},
      {"a /* x /* y */ z */ + -- w\n b", "(+ a b)"},
  };
  CHECK('e', cases);
}

static void types(void **state) {
  (void)state;
  static const sql_case cases[] = {
      {"INT", "(integer)"},
      {"decimal", "(decimal scale=0 precision=10)"},
      {"varchar(3)", "(var_char length=3)"},
      {"timestamp without time zone", "(timestamp_ntz)"},
      {"interval day to second", "(day_time_interval start_field=0 end_field=3)"},
      {"interval month", "(year_month_interval start_field=1 end_field=1)"},
      {"interval", "(calendar_interval)"},
      {"map<string,array<struct<a:int,b:string not null comment 'x'>>>",
       "(map key_type=(string) value_type=(array element_type=(struct fields=[(StructField name='a' "
       "data_type=(integer) nullable) "
       "(StructField name='b' data_type=(string) metadata='{\"comment\":\"x\"}')]) contains_null) "
       "value_contains_null)"},
      {"struct<>", "(struct)"},
      {"time(3)", "(time precision=3)"},
      {"array", "INCOMPLETE_TYPE_DEFINITION.ARRAY "},
      {"char", "DATATYPE_MISSING_SIZE "},
      {"whatever", "UNSUPPORTED_DATATYPE "},
      {"array<int", "PARSE_SYNTAX_ERROR end of input"},
  };
  static const sql_case schemas[] = {
      {"a int, `b c` string not null", "(struct fields=[(StructField name='a' data_type=(integer) nullable) "
                                       "(StructField name='b c' data_type=(string))])"},
      {"a", "PARSE_SYNTAX_ERROR end of input"},
  };
  CHECK('t', cases);
  CHECK('s', schemas);
}

#define TABLE(name) "(read named_table=(NamedTable unparsed_identifier='" name "'))"

static void select_clauses(void **state) {
  (void)state;
  static const sql_case cases[] = {
      {"select 1", "(trn_select select=[1])"},
      {"select distinct a, b as c from t",
       "(trn_select input=" TABLE("t") " select=[a (alias expr=b name=['c'])] distinct)"},
      {"select a from t where b having c",
       "(trn_select input=(filter input=" TABLE("t") " condition=b) select=[a] having=c)"},
      {"select a where b",
       "(trn_select input=(filter input=(trn_values rows=[(TrnExpressionList)]) condition=b) select=[a])"},
      {"select a from t group by a, b + 1",
       "(trn_select input=" TABLE("t") " select=[a] has_group_by group_by=[a (+ b 1)] group_type=1)"},
      {"select a from t group by all",
       "(trn_select input=" TABLE("t") " select=[a] has_group_by group_all group_type=1)"},
      {"select a from t group by rollup(a, b)",
       "(trn_select input=" TABLE("t") " select=[a] has_group_by group_by=[a b] group_type=2)"},
      {"select a from t group by a, b with cube",
       "(trn_select input=" TABLE("t") " select=[a] has_group_by group_by=[a b] group_type=3)"},
      {"select a from t group by a, rollup(b, c)",
       "(trn_select input=" TABLE(
           "t") " select=[a] has_group_by group_type=5 grouping_sets=[(TrnExpressionList expressions=[a b c]) "
                "(TrnExpressionList expressions=[a b]) (TrnExpressionList expressions=[a])])"},
      {"select a from t group by cube((a, b), c)",
       "(trn_select input=" TABLE(
           "t") " select=[a] has_group_by group_type=5 grouping_sets=[(TrnExpressionList expressions=[a b c]) "
                "(TrnExpressionList expressions=[a b]) (TrnExpressionList expressions=[c]) (TrnExpressionList)])"},
      {"select a from t group by a, b grouping sets ((a), b, ())",
       "(trn_select input=" TABLE(
           "t") " select=[a] has_group_by group_by=[a b] group_type=5 grouping_sets=["
                "(TrnExpressionList expressions=[a]) (TrnExpressionList expressions=[b]) (TrnExpressionList)])"},
      {"select /*+ broadcast(t), coalesce(3) */ a from t",
       "(trn_select input=(hint input=(hint input=" TABLE(
           "t") " name='coalesce' parameters=[3]) name='broadcast' parameters=[t]) "
                "select=[a])"},
      {"select sum(a) over w from t window w as (order by b)",
       "(trn_select input=" TABLE(
           "t") " select=[(trn_window_reference function=(sum a) name='w')] windows=[(TrnNamedWindow name='w' "
                "window=(Window order_spec=[(SortOrder child=b direction=SORT_DIRECTION_ASCENDING "
                "null_ordering=SORT_NULLS_FIRST)]))])"},
      {"select a from t qualify b > 1", "(trn_select input=" TABLE("t") " select=[a] qualify=(> b 1))"},
      {"select from from from", "(trn_select input=" TABLE("from") " select=[from])"},
  };
  CHECK('q', cases);
}

static void from_clauses(void **state) {
  (void)state;
#define FROM(text, tree)                                                                                               \
  { "select a from " text, "(trn_select input=" tree " select=[a])" }
#define JOIN(left, right, type) "(join left=" left " right=" right " join_type=JOIN_TYPE_" type ")"
  static const sql_case cases[] = {
      FROM("a.`b c`.d", TABLE("a.`b c`.d")),
      FROM("t as x", "(subquery_alias input=" TABLE("t") " alias='x')"),
      FROM("t x (b, c)", "(trn_table_alias input=" TABLE("t") " alias='x' columns=['b' 'c'])"),
      FROM("a, b, c", JOIN(JOIN(TABLE("a"), TABLE("b"), "INNER"), TABLE("c"), "INNER")),
      FROM("a cross join b", JOIN(TABLE("a"), TABLE("b"), "CROSS")),
      FROM("a left semi join b", JOIN(TABLE("a"), TABLE("b"), "LEFT_SEMI")),
      FROM("a anti join b", JOIN(TABLE("a"), TABLE("b"), "LEFT_ANTI")),
      FROM("a full join b using (x, y)",
           "(join left=" TABLE("a") " right=" TABLE("b") " join_type=JOIN_TYPE_FULL_OUTER using_columns=['x' 'y'])"),
      FROM("a, b right outer join c on a.x = c.x",
           "(join left=" JOIN(TABLE("a"), TABLE("b"), "INNER") " right=" TABLE("c") " join_condition=(== a.x c.x) "
                                                                                    "join_type=JOIN_TYPE_RIGHT_OUTER)"),
      FROM("a natural left join b",
           "(trn_natural_join join=(Join left=" TABLE("a") " right=" TABLE("b") " join_type=JOIN_TYPE_LEFT_OUTER))"),
      FROM("a, lateral (select 1)",
           "(lateral_join left=" TABLE("a") " right=(trn_select select=[1]) join_type=JOIN_TYPE_INNER)"),
      FROM("(a join b) x", "(subquery_alias input=" JOIN(TABLE("a"), TABLE("b"), "INNER") " alias='x')"),
      FROM("((select 1) union select 2)", "(set_op left_input=(trn_select select=[1]) right_input=(trn_select "
                                          "select=[2]) set_op_type=SET_OP_TYPE_UNION is_all=false)"),
      FROM("((select 1) x join b)",
           JOIN("(subquery_alias input=(trn_select select=[1]) alias='x')", TABLE("b"), "INNER")),
      FROM(
          "range(1, 10) r",
          "(subquery_alias input=(unresolved_table_valued_function function_name='range' arguments=[1 10]) alias='r')"),
      FROM("values (1, 2), (3, 4) as v(x, y)", "(trn_table_alias input=(trn_values rows=[(TrnExpressionList "
                                               "expressions=[1 2]) (TrnExpressionList expressions=[3 4])]) "
                                               "alias='v' columns=['x' 'y'])"),
      FROM("t tablesample (10 percent) repeatable (3)", "(sample input=" TABLE("t") " upper_bound=0.1D seed=3)"),
      FROM("t tablesample (5 rows)", "(trn_limit input=" TABLE("t") " limit=5)"),
      FROM("t lateral view outer explode(b) v as c",
           "(trn_lateral_view input=" TABLE(
               "t") " view=(TrnLateralView generator=(explode b) outer alias='v' columns=['c']))"),
      FROM("t pivot (sum(x) as s for k in (1 as one, 2))",
           "(trn_pivot input=" TABLE(
               "t") " aggregates=[(alias expr=(sum x) name=['s'])] columns=['k'] values=[(alias expr=1 "
                    "name=['one']) 2])"),
      FROM("t unpivot include nulls (v for n in (b as bb, c))",
           "(trn_unpivot input=" TABLE(
               "t") " include_nulls value_columns=['v'] name_column='n' sets=[(TrnUnpivotSet columns=[b] "
                    "alias='bb') (TrnUnpivotSet columns=[c])])"),
      FROM("a join b approx nearest 2 by distance x - y",
           "(nearest_by_join left=" TABLE("a") " right=" TABLE(
               "b") " ranking_expression=(- x y) num_results=2 join_type='inner' "
                    "mode='approx' direction='distance')"),
      FROM("values", TABLE("values")),
      FROM("t order", "(subquery_alias input=" TABLE("t") " alias='order')"),
  };
  CHECK('q', cases);
}

#define SELECT(list) "(trn_select select=[" list "])"

static void query_clauses(void **state) {
  (void)state;
  static const sql_case cases[] = {
      {"select 1 union all select 2 intersect select 3",
       "(set_op left_input=" SELECT("1") " right_input=(set_op left_input=" SELECT("2") " right_input=" SELECT(
           "3") " set_op_type=SET_OP_TYPE_INTERSECT is_all=false) set_op_type=SET_OP_TYPE_UNION is_all=true)"},
      {"select 1 minus select 2",
       "(set_op left_input=" SELECT("1") " right_input=" SELECT("2") " set_op_type=SET_OP_TYPE_EXCEPT is_all=false)"},
      {"select a from t order by a desc nulls first, b limit 5 offset 2",
       "(trn_limit input=(trn_order_by input=(trn_select input=" TABLE(
           "t") " select=[a]) order=[(SortOrder child=a "
                "direction=SORT_DIRECTION_DESCENDING null_ordering=SORT_NULLS_FIRST) (SortOrder child=b "
                "direction=SORT_DIRECTION_ASCENDING "
                "null_ordering=SORT_NULLS_FIRST)] is_global) limit=5 offset=2)"},
      {"select 1 order by all limit all",
       "(trn_order_by input=" SELECT("1") " order=[(SortOrder child=all direction=SORT_DIRECTION_ASCENDING "
                                          "null_ordering=SORT_NULLS_FIRST)] all is_global)"},
      {"select 1 distribute by a sort by b",
       "(trn_order_by input=(repartition_by_expression input=" SELECT(
           "1") " partition_exprs=[a]) order=[(SortOrder child=b "
                "direction=SORT_DIRECTION_ASCENDING null_ordering=SORT_NULLS_FIRST)])"},
      {"with a as (select 1), b (x) as (select 2) select 3",
       "(trn_with ctes=[(TrnCte name='a' relation=" SELECT("1") ") (TrnCte name='b' columns=['x'] relation=" SELECT(
           "2") ")] input=" SELECT("3") ")"},
      {"with recursive r max recursion level 5 as (select 1) select 2",
       "(trn_with ctes=[(TrnCte name='r' relation=" SELECT("1") " max_recursion_level=5)] input=" SELECT(
           "2") " recursive)"},
      {"from t select a where b", "(trn_select input=(filter input=" TABLE("t") " condition=b) select=[a])"},
      {"from t", TABLE("t")},
      {"table t", TABLE("t")},
      {"values 1, (2)", "(trn_values rows=[(TrnExpressionList expressions=[1]) (TrnExpressionList expressions=[2])])"},
      {"(select 1) order by 1;;",
       "(trn_order_by input=" SELECT("1") " order=[(SortOrder child=1 direction=SORT_DIRECTION_ASCENDING "
                                          "null_ordering=SORT_NULLS_FIRST)] is_global)"},
      {"table t |> where a |> extend b as c |> drop d |> as x",
       "(subquery_alias input=(trn_select input=(trn_select input=(filter input=" TABLE(
           "t") " condition=a) select=[* (alias expr=b "
                "name=['c'])]) select=[(trn_star_except expressions=[* d])]) alias='x')"},
      {"table t |> aggregate sum(a) as s group by b as c",
       "(trn_select input=" TABLE(
           "t") " select=[(alias expr=b name=['c']) (alias expr=(sum a) name=['s'])] has_group_by group_by=[b] "
                "group_type=1)"},
  };
  CHECK('q', cases);
}

static void statements(void **state) {
  (void)state;
  static const sql_case cases[] = {
      {"create or replace global temp view v as select 1",
       "(Command create_dataframe_view=(CreateDataFrameViewCommand input=" SELECT("1") " name='v' is_global replace))"},
      {"drop view if exists a.v", "(catalog drop_view=(DropView view_name='a.v' if_exists))"},
      {"clear cache", "(catalog clear_cache=(ClearCache))"},
      {"truncate table t", "(Command trn_table_statement=(TrnTableStatement what='truncate' name='t'))"},
      {"use a.b", "(catalog set_current_database=(SetCurrentDatabase db_name='a.b'))"},
      {"declare or replace x int default 1 + 1", "(Command trn_declare_variable=(TrnDeclareVariable names=['x'] "
                                                 "replace type=(integer) value=(+ 1 1) value_text='1 + 1'))"},
      {"declare x", "INVALID_SQL_SYNTAX.VARIABLE_TYPE_OR_DEFAULT_REQUIRED "},
      {"set var (a, b) = (select 1, 2)",
       "(Command trn_set_variable=(TrnSetVariable names=['a' 'b'] query=" SELECT("1 2") "))"},
      {"set variable a = 1", "(Command trn_set_variable=(TrnSetVariable names=['a'] values=[1]))"},
      {"drop temporary variable if exists x", "(Command trn_drop_variable=(TrnDropVariable name='x' if_exists))"},
      {"execute immediate 'select ?' into a using 1 as b, c",
       "(Command trn_execute_immediate=(TrnExecuteImmediate query='select ?' into=['a'] arguments=[(alias expr=1 "
       "name=['b']) c]))"},
      {"grant select", "UNSUPPORTED_FEATURE not supported yet in SQL: GRANT select"},
      {"create temporary view v (a, b comment 'x') comment 'y' as select 1, 2",
       "(Command create_dataframe_view=(CreateDataFrameViewCommand input=(to_df input=" SELECT(
           "1 2") " column_names=['a' 'b']) name='v'))"},
      {"create temp view v (a int) using csv options (path 'x', header true)",
       "(Command create_dataframe_view=(CreateDataFrameViewCommand input=(read data_source=(DataSource format='csv' "
       "schema='a int' "
       "options=[(OptionsEntry key='path' value='x') (OptionsEntry key='header' value='true')])) name='v'))"},
      {"create view if not exists v (a comment 'x') as select  1",
       "(Command trn_create_view=(TrnCreateView name='v' columns=[(TrnColumn name='a' nullable comment='x')] "
       "query=" SELECT("1") " query_text='select  1' if_not_exists))"},
      {"create table t (a int not null default 1 + 1, p string comment 'x') using parquet partitioned by (p) location "
       "'/x'",
       "(Command trn_create_table=(TrnCreateTable name='t' columns=[(TrnColumn name='a' type=(integer) default_text='1 "
       "+ 1') (TrnColumn "
       "name='p' type=(string) nullable comment='x')] provider='parquet' partition_by=[p] location='/x' create))"},
      {"create or replace table t partitioned by (days(d), h int) tblproperties (a.b = 1) as select 1",
       "(Command trn_create_table=(TrnCreateTable name='t' columns=[(TrnColumn name='h' type=(integer) nullable)] "
       "partition_by=[(days d) h] "
       "properties=[(TrnProperty key='a.b' value='1')] query=" SELECT("1") " query_text='select 1' create replace))"},
      {"insert into t (a, b) values (1, 2)", "(Command trn_insert=(TrnInsert table='t' columns=['a' 'b'] "
                                             "input=(trn_values rows=[(TrnExpressionList expressions=[1 2])])))"},
      {"insert overwrite t partition (a = 1, b) if not exists (select 1)",
       "(Command trn_insert=(TrnInsert table='t' overwrite partitions=[(TrnPartition column='a' value=1) (TrnPartition "
       "column='b')] "
       "if_not_exists input=" SELECT("1") "))"},
      {"with c as (select 1) insert into t by name select 2",
       "(Command trn_insert=(TrnInsert table='t' by_name input=(trn_with ctes=[(TrnCte name='c' relation=" SELECT(
           "1") ")] input=" SELECT("2") ")))"},
      {"delete from t x where a", "(Command trn_delete=(TrnDelete table='t' alias='x' condition=a))"},
      {"update t set a.b = 1, c = d where e",
       "(Command trn_update=(TrnUpdate table='t' columns=['a.b' 'c'] values=[1 d] condition=e))"},
      {"alter table t add columns (b int comment 'x')", "(Command trn_alter_table=(TrnAlterTable name='t' action='add "
                                                        "columns' columns=[(TrnColumn name='b' type=(integer) nullable "
                                                        "comment='x')]))"},
      {"alter table t rename to d.u", "(Command trn_alter_table=(TrnAlterTable name='t' action='rename' to='d.u'))"},
      {"show tables in db like 'x*'", "(Command trn_show=(TrnShow what='tables' namespace='db' pattern='x*'))"},
      {"show create table a.t", "(Command trn_show=(TrnShow what='create table' name='a.t'))"},
      {"desc formatted t a", "(Command trn_describe=(TrnDescribe what='table' name='t' column='a' extended))"},
      {"describe select 1", "(Command trn_describe=(TrnDescribe what='query' query=" SELECT("1") "))"},
      {"explain extended select 1", "(Command trn_explain=(TrnExplain mode='extended' relation=" SELECT("1") "))"},
  };
  CHECK('q', cases);
}

static void set_and_reset(void **state) {
  (void)state;
  static const struct {
    const char *text;
    spark_sql_kind kind;
    const char *key, *value;
  } cases[] = {
      {"set", SPARK_SQL_SET, NULL, NULL},
      {"set spark.sql.ansi.enabled = false ;", SPARK_SQL_SET, "spark.sql.ansi.enabled", "false"},
      {"SET a.b", SPARK_SQL_SET, "a.b", NULL},
      {"set `a b`=`c d`", SPARK_SQL_SET, "a b", "c d"},
      {"set a=x y = z", SPARK_SQL_SET, "a", "x y = z"},
      {"set time zone 'UTC'", SPARK_SQL_SET, "spark.sql.session.timeZone", "UTC"},
      {"reset a.b", SPARK_SQL_RESET, "a.b", NULL},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    trn_arena *arena = trn__arena_create(0);
    spark_sql_statement out;
    assert_int_equal(spark__sql_parse_statement(arena, cases[i].text, strlen(cases[i].text), NULL, &out, NULL), TRN_OK);
    assert_int_equal(out.kind, cases[i].kind);
    assert_int_equal(out.set_count, cases[i].key != NULL);
    if (cases[i].key != NULL) assert_string_equal(out.set[0].key, cases[i].key);
    if (cases[i].value != NULL) assert_string_equal(out.set[0].value, cases[i].value);
    if (cases[i].key != NULL && cases[i].value == NULL) assert_null(out.set[0].value);
    trn__arena_unref(arena);
  }
}

static void errors_name_the_token_that_spark_names(void **state) {
  (void)state;
  static const struct {
    const char *text, *condition, *error, *hint;
    int start, stop;
  } cases[] = {
      {"", "PARSE_EMPTY_STATEMENT", "", "", 0, 0},
      {" -- x", "PARSE_EMPTY_STATEMENT", "", "", 5, 5},
      {"select (a, b", "PARSE_SYNTAX_ERROR", "end of input", "", 12, 12},
      {"select a b c", "PARSE_SYNTAX_ERROR", "'c'", ": extra input 'c'", 11, 11},
      {"select a b c d", "PARSE_SYNTAX_ERROR", "'c'", "", 11, 11},
      {"selec 1", "PARSE_SYNTAX_ERROR", "'selec'", "", 0, 4},
      {"select 1 )", "PARSE_SYNTAX_ERROR", "')'", ": extra input ')'", 9, 9},
      {"select a from t where", "PARSE_SYNTAX_ERROR", "", "", -1, -1}, /* an alias */
      {"select a from t where and", "PARSE_SYNTAX_ERROR", "", "", -1, -1},
      {"select 1 +", "PARSE_SYNTAX_ERROR", "end of input", "", 10, 10},
      {"select interval 30 day day day", "PARSE_SYNTAX_ERROR", "'day'", ": extra input 'day'", 27, 29},
      {"drop variable v", "PARSE_SYNTAX_ERROR", "'variable'", "", 5, 12},
      {"select test-table.a from b-c", "INVALID_IDENTIFIER", "", "", 25, 27},
      {"select 128Y", "INVALID_NUMERIC_LITERAL_RANGE", "", "", 7, 10},
      {"select 1 in ()", "INVALID_SQL_SYNTAX.EMPTY_IN_PREDICATE", "", "", 9, 13},
      {"with a as (select 1), A as (select 2) select 3", "DUPLICATED_CTE_NAMES", "", "", 0, 36},
      {"select foo '1'", "UNSUPPORTED_TYPED_LITERAL", "", "", 7, 13},
      {"select cast(1 as foo", "PARSE_SYNTAX_ERROR", "end of input", "", 20, 20}, /* not UNSUPPORTED_DATATYPE */
      {"select cast(1 as foo(3)), 128Y", "UNSUPPORTED_DATATYPE", "", "", 17, 22},
      {"select 'a\\'", "PARSE_SYNTAX_ERROR", "'''", "", 7, 7},
      {"select $a$ x", "PARSE_SYNTAX_ERROR", "'$'", "", 7, 7},
      {"select case when a then 1 from t", "PARSE_SYNTAX_ERROR", "'a'", "", 17, 17},
      {"select g(f(a b))", "PARSE_SYNTAX_ERROR", "'('", "", 10, 10},
      {"select f(a b)", "PARSE_SYNTAX_ERROR", "'b'", ": extra input 'b'", 11, 11},
      {"select * from t order by", "PARSE_SYNTAX_ERROR", "'by'", ": extra input 'by'", 22, 23},
      {"select 1 /* x", "UNCLOSED_BRACKETED_COMMENT", "", "", 9, 12},
      {"select interval 1 year 2 days", "_LEGACY_ERROR_TEMP_0029", "", "", 7, 28},
      {"BEGIN ; END", "PARSE_SYNTAX_ERROR", "';'", "", 6, 6},
      {"BEGIN SELECT 1 END", "PARSE_SYNTAX_ERROR", "end of input", "", 18, 18},
      {"BEGIN SELECT 1; END lbl", "PARSE_SYNTAX_ERROR", "'lbl'", ": extra input 'lbl'", 20, 22},
      {"WHILE 1 < 2 DO SELECT 1; END WHILE", "PARSE_SYNTAX_ERROR", "'WHILE'", "", 0, 4},
      {"BEGIN DECLARE EXIT HANDLER FOR SQLSTATE '1' BEGIN END; END", "INVALID_SQLSTATE", "", "", 40, 42},
      {"select 1 order by a sort by b", "UNSUPPORTED_FEATURE.COMBINATION_QUERY_RESULT_CLAUSES", "", "", 0, 28},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    trn_arena *arena = trn__arena_create(0);
    trn_error *error = NULL;
    spark_sql_statement out;
    trn_position position = {-2, -2};
    trn_status status = spark__sql_parse_statement(arena, cases[i].text, strlen(cases[i].text), NULL, &out, &error);
    if (cases[i].start < 0) {
      assert_int_equal(status, TRN_OK);
    } else {
      assert_int_equal(status, TRN_INVALID_ARGUMENT);
      assert_string_equal(trn_error_condition(error), cases[i].condition);
      assert_string_equal(field_of(error, "error"), cases[i].error);
      assert_string_equal(field_of(error, "hint"), cases[i].hint);
      assert_true(trn_error_position(error, &position));
      assert_int_equal(position.start, cases[i].start);
      assert_int_equal(position.stop, cases[i].stop);
    }
    trn_error_unref(error);
    trn__arena_unref(arena);
  }
}

static void scripts_are_trees_of_statements(void **state) {
  (void)state;
  static const char text[] =
      "BEGIN DECLARE x INT = 1; DECLARE c CONDITION; DECLARE EXIT HANDLER FOR c, A.B, SQLSTATE VALUE '22012' SELECT 1;"
      " l: WHILE x < 3 DO SET x = x + 1; IF x = 2 THEN ITERATE l; ELSEIF x = 3 THEN LEAVE l; ELSE SELECT x; END IF;"
      " END WHILE l; FOR r AS SELECT id FROM range(2) DO CASE r.id WHEN 1 THEN SELECT 1; END CASE; END FOR; END;";
  trn_arena *arena = trn__arena_create(0);
  spark_sql_statement out;
  assert_int_equal(spark__sql_parse_statement(arena, text, strlen(text), NULL, &out, NULL), TRN_OK);
  assert_int_equal(out.kind, SPARK_SQL_SCRIPT);
  const spark_script *script = out.script;
  assert_true(script->has_scope);
  assert_int_equal(script->item_count, 3);
  assert_int_equal(script->condition_count, 1);
  assert_string_equal(script->conditions[0], "C");
  assert_int_equal(script->handler_count, 1);
  assert_int_equal(script->handlers[0].condition_count, 3);
  assert_string_equal(script->handlers[0].conditions[1].name, "A.B");
  assert_int_equal(script->handlers[0].conditions[2].kind, SPARK_HANDLER_SQLSTATE);
  const spark_script *loop = script->items[1];
  assert_int_equal(loop->kind, SPARK_SCRIPT_WHILE);
  assert_string_equal(loop->label, "l");
  assert_string_equal(loop->branches[0].text, "x < 3");
  assert_int_equal(loop->body->item_count, 2);
  assert_int_equal(loop->body->items[1]->branch_count, 2);
  assert_int_equal(loop->body->items[1]->branches[1].body->items[0]->kind, SPARK_SCRIPT_LEAVE);
  assert_non_null(loop->body->items[1]->body);
  assert_int_equal(script->items[2]->kind, SPARK_SCRIPT_FOR);
  assert_string_equal(script->items[2]->variable, "r");
  assert_int_equal(script->items[2]->body->items[0]->branch_count, 1);
  trn__arena_unref(arena);
}

static void positions_are_those_of_sparks_origins(void **state) {
  (void)state;
  const char *text = "(a  + b) * f(x)";
  trn_arena *arena = trn__arena_create(0);
  Spark__Connect__Expression *expr;
  assert_int_equal(spark__sql_parse_expression(arena, text, strlen(text), NULL, &expr, NULL), TRN_OK);
  assert_int_equal(expr->common->trn_position->start, 0);
  assert_int_equal(expr->common->trn_position->stop, 14);
  const Spark__Connect__Expression *sum = expr->unresolved_function->arguments[0];
  assert_int_equal(sum->common->trn_position->start, 1); /* without the parentheses */
  assert_int_equal(sum->common->trn_position->stop, 6);
  const Spark__Connect__Expression *call = expr->unresolved_function->arguments[1];
  assert_int_equal(call->common->trn_position->start, 11);
  assert_int_equal(call->common->trn_position->stop, 14);
  trn__arena_unref(arena);
}

static void names_are_split_and_quoted(void **state) {
  (void)state;
  trn_arena *arena = trn__arena_create(0);
  char **parts;
  size_t count;
  assert_int_equal(spark__sql_parse_attribute_name(arena, "a.`x.y`.`q``r`", 14, &parts, &count, NULL), TRN_OK);
  assert_int_equal(count, 3);
  assert_string_equal(parts[1], "x.y");
  assert_string_equal(parts[2], "q`r");
  assert_string_equal(spark__sql_quote_path(arena, parts, count), "a.`x.y`.`q``r`");
  static const char *const wrong[] = {"a.", ".a", "a..b", "`a", "a`b`", "`a`b"};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    assert_int_equal(spark__sql_parse_attribute_name(arena, wrong[i], strlen(wrong[i]), &parts, &count, NULL),
                     TRN_INVALID_ARGUMENT);
  }
  assert_int_equal(spark__sql_parse_multipart_identifier(arena, "a.select.`1`", 12, NULL, &parts, &count, NULL),
                   TRN_OK);
  assert_int_equal(count, 3);
  assert_string_equal(parts[2], "1");
  static const trn_kv values[] = {{"t", "a.`b c`"}, {"0", "d"}};
  spark_sql_options options = {.text_parameters = values, .text_parameter_count = 2};
  const char *text = "identifier(:t || '.e').f + identifier(?)";
  Spark__Connect__Expression *expr;
  assert_int_equal(spark__sql_parse_expression(arena, text, strlen(text), &options, &expr, NULL), TRN_OK);
  assert_string_equal(expr->unresolved_function->arguments[0]->unresolved_attribute->unparsed_identifier,
                      "a.`b c`.e.f");
  assert_string_equal(expr->unresolved_function->arguments[1]->unresolved_attribute->unparsed_identifier, "d");
  trn__arena_unref(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(operators_bind_as_in_spark),
      cmocka_unit_test(predicates),
      cmocka_unit_test(literals_have_sparks_types),
      cmocka_unit_test(primaries),
      cmocka_unit_test(types),
      cmocka_unit_test(select_clauses),
      cmocka_unit_test(from_clauses),
      cmocka_unit_test(query_clauses),
      cmocka_unit_test(statements),
      cmocka_unit_test(set_and_reset),
      cmocka_unit_test(errors_name_the_token_that_spark_names),
      cmocka_unit_test(scripts_are_trees_of_statements),
      cmocka_unit_test(positions_are_those_of_sparks_origins),
      cmocka_unit_test(names_are_split_and_quoted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
