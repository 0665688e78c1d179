/* Window functions (the engine's, by their own names) and generators, which relation.c expands. */
#include "frontend/spark/translate/values.h"

static trn_status window_call(spark_builder *b, const trn_type *type, bool nullable, const trn_expr *const *args,
                              size_t count, const trn_expr **out) {
  for (size_t i = 0; i < count; i++)
    if (!args[i]) return trn__no_memory(b->error);
  return spark__gives(b, trn__expr_call(b->t->arena, TRN_HOME_ENGINE, b->function->run, type, nullable, args, count),
                      out);
}

static trn_status build_rank(spark_builder *b,
                             const trn_expr **out) { /* rank(a, b): what is ranked is the window's order */
  return window_call(b, trn__type(TRN_TYPE_INT32), false, NULL, 0, out);
}
static trn_status build_share(spark_builder *b, const trn_expr **out) {
  return window_call(b, trn__type(TRN_TYPE_FLOAT64), false, NULL, 0, out);
}

static trn_status build_ntile(spark_builder *b, const trn_expr **out) {
  const trn_expr *buckets = b->count ? b->args[0] : trn__expr_int(b->t->arena, trn__type(TRN_TYPE_INT32), 1);
  if (!b->count) b->name = "ntile(1)";
  return window_call(b, trn__type(TRN_TYPE_INT32), false, &buckets, 1, out);
}

/* lag, lead(x [, offset [, default]]). */
static trn_status build_offset(spark_builder *b, const trn_expr **out) {
  const trn_type *type = b->args[0]->type;
  const trn_expr *args[3] = {b->args[0], NULL, NULL};
  if (b->count < 3) {
    b->name = trn__arena_printf(b->t->arena, b->count == 2 ? "%s($1, $2, NULL)" : "%s($1, 1, NULL)", b->function->name);
    if (!b->name) return trn__no_memory(b->error);
  }
  if (b->count > 1) {
    trn_status status = spark__coerce(b, 1, trn__type(TRN_TYPE_INT64));
    if (status) return status;
    args[1] = b->args[1];
  } else {
    args[1] = trn__expr_int(b->t->arena, trn__type(TRN_TYPE_INT64), 1);
  }
  if (b->count > 2) {
    const trn_type *given = b->args[2]->type;
    if (given->id != TRN_TYPE_NULL && !trn__type_same_shape(given, type)) {
      const trn_type *common = NULL;
      if (spark__wider_type(b->t, type, given, &common)) return trn__no_memory(b->error);
      if (!common || !trn__type_same_shape(common, type)) return spark__not_supported(b, "a default of another type");
    }
    trn_status status = spark__coerce(b, 2, type);
    if (status) return status;
    args[2] = b->args[2];
  } else {
    args[2] = trn__expr_null(b->t->arena, type);
  }
  bool nullable = args[2] ? args[0]->nullable || args[2]->nullable : true;
  return window_call(b, type, nullable, args, 3, out);
}

static trn_status build_nth_value(spark_builder *b, const trn_expr **out) {
  trn_status status = spark__coerce(b, 1, trn__type(TRN_TYPE_INT64));
  if (status) return status;
  if (b->count == 3) {
    bool flag = spark__is_literal(b->args[2]) && b->args[2]->type->id == TRN_TYPE_BOOL;
    if (!flag || b->args[2]->u.literal.value.boolean) return spark__not_supported(b, "ignoreNulls as an argument");
    b->name = "nth_value($1, $2)";
  }
  return window_call(b, b->args[0]->type, true, b->args, 2, out);
}

/* ---- generators: the CALL carries the collection; its type is the row, or the one column, that comes out ---- */
static trn_status build_explode(spark_builder *b, const trn_expr **out) {
  const trn_type *type = b->args[0]->type, *row;
  bool position = strstr(b->function->name, "pos") != NULL, outer = strstr(b->function->name, "outer") != NULL;
  size_t count = 0;
  trn_field fields[3];
  if (type->id != TRN_TYPE_ARRAY && type->id != TRN_TYPE_MAP)
    return spark__unexpected_input(b, 0, "(\"ARRAY\" or \"MAP\")", type);
  if (position) fields[count++] = (trn_field){.name = "pos", .type = trn__type(TRN_TYPE_INT32), .nullable = outer};
  for (uint32_t i = 0; i < type->field_count; i++) {
    const char *name = type->id == TRN_TYPE_ARRAY ? "col" : i ? "value" : "key";
    fields[count++] =
        (trn_field){.name = name, .type = type->fields[i].type, .nullable = outer || type->fields[i].nullable};
  }
  row = count == 1 ? fields[0].type : trn__type_struct(b->t->arena, fields, count);
  if (!row) return trn__no_memory(b->error);
  return spark__gives(
      b, trn__expr_call(b->t->arena, TRN_HOME_LIBRARY, b->function->name, row, fields[0].nullable, b->args, 1), out);
}

static trn_status build_inline(spark_builder *b, const trn_expr **out) {
  const trn_type *type = b->args[0]->type;
  if (type->id != TRN_TYPE_ARRAY || type->fields[0].type->id != TRN_TYPE_STRUCT)
    return spark__unexpected_input(b, 0, "\"ARRAY<STRUCT>\"", type);
  bool nullable = type->fields[0].nullable || strstr(b->function->name, "outer") != NULL;
  return spark__gives(
      b, trn__expr_call(b->t->arena, TRN_HOME_LIBRARY, b->function->name, type->fields[0].type, nullable, b->args, 1),
      out);
}

#define WINDOW SPARK_FUNCTION_WINDOW
#define GENERATOR SPARK_FUNCTION_GENERATOR
static const spark_function rows[] = {
    {"row_number", "", NULL, "row_number", build_rank, NULL, 0, WINDOW},
    {"rank", "|a+", NULL, "rank", build_rank, "RANK()", 0, WINDOW},
    {"dense_rank", "|a+", NULL, "dense_rank", build_rank, "DENSE_RANK()", 0, WINDOW},
    {"percent_rank", "|a+", NULL, "percent_rank", build_share, "PERCENT_RANK()", 0, WINDOW},
    {"cume_dist", "", NULL, "cume_dist", build_share, NULL, 0, WINDOW},
    {"ntile", "|i", NULL, "ntile", build_ntile, NULL, 0, WINDOW},
    {"lag", "a|aa", NULL, "lag", build_offset, NULL, 0, WINDOW},
    {"lead", "a|aa", NULL, "lead", build_offset, NULL, 0, WINDOW},
    {"nth_value", "aa|a", NULL, "nth_value", build_nth_value, NULL, 0, WINDOW},
    {"explode", "a", NULL, NULL, build_explode, NULL, 0, GENERATOR},
    {"explode_outer", "a", NULL, NULL, build_explode, NULL, 0, GENERATOR},
    {"posexplode", "a", NULL, NULL, build_explode, NULL, 0, GENERATOR},
    {"posexplode_outer", "a", NULL, NULL, build_explode, NULL, 0, GENERATOR},
    {"inline", "a", NULL, NULL, build_inline, NULL, 0, GENERATOR},
    {"inline_outer", "a", NULL, NULL, build_inline, NULL, 0, GENERATOR},
};
const spark_function_table spark__functions_window = {rows, sizeof rows / sizeof rows[0]};
