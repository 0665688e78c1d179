/* Regular expressions: the library's kernels read them as java.util.regex does. */
#include "frontend/spark/translate/values.h"

static const trn_expr *number(spark_builder *b, int64_t value) {
  return trn__expr_int(b->t->arena, trn__type(TRN_TYPE_INT32), value);
}

/* (string, pattern [, group]): the group is 1 when it is not given. */
static trn_status build_extract(spark_builder *b, const trn_expr **out) {
  const trn_type *string = trn__type(TRN_TYPE_STRING);
  bool all = b->function->run[0] == 'a';
  const trn_type *type = all ? trn__type_array(b->t->arena, string, true) : string;
  const trn_expr *args[3] = {b->args[0], b->args[1], b->count == 3 ? b->args[2] : number(b, 1)};
  if (b->count == 2) b->name = all ? "regexp_extract_all($1, $2, 1)" : "regexp_extract($1, $2, 1)";
  return spark__gives(
      b, spark__kernel_with(b, all ? "trn.regexp_extract_all" : "trn.regexp_extract", type, args, 3, SPARK_POSITION),
      out);
}

static trn_status build_replace(spark_builder *b, const trn_expr **out) {
  const trn_expr *args[4] = {b->args[0], b->args[1], b->args[2], b->count == 4 ? b->args[3] : number(b, 1)};
  if (b->count == 3) b->name = "regexp_replace($1, $2, $3, 1)";
  return spark__gives(
      b, spark__kernel_with(b, "trn.regexp_replace", trn__type(TRN_TYPE_STRING), args, 4, SPARK_POSITION), out);
}

/* The group changes nothing: it is where the whole match begins. */
static trn_status build_instr(spark_builder *b, const trn_expr **out) {
  if (b->count == 2) b->name = "regexp_instr($1, $2, 0)";
  trn_expr *expr = spark__kernel_with(b, "trn.regexp_instr", trn__type(TRN_TYPE_INT32), b->args, 2, SPARK_POSITION);
  if (expr && b->count == 3) expr->nullable = expr->nullable || b->args[2]->nullable;
  return spark__gives(b, expr, out);
}

static trn_status build_split(spark_builder *b, const trn_expr **out) {
  const trn_type *type = trn__type_array(b->t->arena, trn__type(TRN_TYPE_STRING), false);
  const trn_expr *args[3] = {b->args[0], b->args[1], b->count == 3 ? b->args[2] : number(b, -1)};
  if (b->count == 2) b->name = "split($1, $2, -1)";
  return spark__gives(b, spark__kernel_with(b, "trn.split", type, args, 3, SPARK_POSITION), out);
}

static const spark_function rows[] = {
    {"rlike", "ss", "B", "trn.rlike", NULL, "RLIKE($1, $2)", SPARK_POSITION, 0},
    {"regexp", "ss", "B", "trn.rlike", NULL, "REGEXP($1, $2)", SPARK_POSITION, 0},
    {"regexp_like", "ss", "B", "trn.rlike", NULL, "REGEXP_LIKE($1, $2)", SPARK_POSITION, 0},
    {"regexp_replace", "sss|i", NULL, NULL, build_replace, NULL, 0, 0},
    {"regexp_extract", "ss|i", NULL, "one", build_extract, NULL, 0, 0},
    {"regexp_extract_all", "ss|i", NULL, "all", build_extract, NULL, 0, 0},
    {"regexp_substr", "ss", "s", "trn.regexp_substr", NULL, NULL, SPARK_POSITION | SPARK_NULLABLE, 0},
    {"regexp_instr", "ss|i", NULL, NULL, build_instr, NULL, 0, 0},
    {"regexp_count", "ss", "i", "trn.regexp_count", NULL, NULL, SPARK_POSITION, 0},
    {"split", "ss|i", NULL, NULL, build_split, NULL, 0, 0},
};
const spark_function_table spark__functions_regex = {rows, sizeof rows / sizeof rows[0]};
