/* Conditions: when, if, in, null tests, coalesce and kin, like, greatest, errors on purpose. */
#include "frontend/spark/translate/operators.h"
#include "frontend/spark/translate/scope.h"

/* ---- CASE, IF ---- */
static const char *case_text(spark_builder *b) {
  trn_strbuf text = {0};
  const spark_value *args = b->call->args;
  size_t count = b->call->arg_count, i = 0;
  trn__strbuf_puts(&text, "CASE");
  for (; i + 1 < count; i += 2) trn__strbuf_printf(&text, " WHEN %s THEN %s", args[i].name, args[i + 1].name);
  if (i < count) trn__strbuf_printf(&text, " ELSE %s", args[i].name);
  trn__strbuf_puts(&text, " END");
  return spark__finish_text(b->t, &text);
}

/* The values of when1, then1, ..., [else] become one type; conditions must be boolean. */
static trn_status coerce_branches(spark_builder *b, const trn_type **type) {
  size_t count = b->count, values = 0;
  const trn_expr **all = b->args, **some = TRN_NEW_N(b->t->arena, const trn_expr *, count + 1);
  if (!some) return trn__no_memory(b->error);
  for (size_t i = 0; i + 1 < count; i += 2) {
    if (all[i]->type->id == TRN_TYPE_NULL) {
      trn_status status = spark__coerce(b, i, trn__type(TRN_TYPE_BOOL));
      if (status) return status;
    }
    if (all[i]->type->id != TRN_TYPE_BOOL) return spark__unexpected_input(b, i, "\"BOOLEAN\"", all[i]->type);
    some[values++] = all[i + 1];
  }
  if (count % 2) some[values++] = all[count - 1];
  b->args = some;
  b->count = values;
  trn_status status = spark__coerce_common(b, 0, 1, type);
  b->args = all;
  b->count = count;
  if (status) return status;
  for (size_t i = 0, j = 0; i < count; i++)
    if (i % 2 || i + 1 == count) all[i] = some[j++];
  return TRN_OK;
}

static trn_status build_when(spark_builder *b, const trn_expr **out) {
  const trn_type *type = NULL;
  if (!(b->text = case_text(b))) return trn__no_memory(b->error);
  trn_status status = coerce_branches(b, &type);
  if (status) return status;
  return spark__gives(b, spark__case(b->t, b->args, b->count, type), out);
}

static trn_status build_if(spark_builder *b, const trn_expr **out) {
  const trn_type *type = NULL;
  trn_status status = coerce_branches(b, &type);
  if (status) return status;
  return spark__gives(b, spark__case(b->t, b->args, 3, type), out);
}

/* ---- null ---- */
static trn_status build_is_null(spark_builder *b, const trn_expr **out) {
  return spark__gives(b, spark__is_null(b->t, b->args[0], b->function->run[0] == '!'), out);
}

static trn_status build_coalesce(spark_builder *b, const trn_expr **out) {
  const trn_type *type = NULL;
  trn_status status = spark__coerce_common(b, 0, 1, &type);
  if (status) return status;
  bool nullable = true;
  for (size_t i = 0; i < b->count; i++) nullable = nullable && b->args[i]->nullable;
  if (b->count == 1) {
    *out = b->args[0];
    return TRN_OK;
  }
  return spark__gives(b, trn__expr_call(b->t->arena, TRN_HOME_ENGINE, "coalesce", type, nullable, b->args, b->count),
                      out);
}

static trn_status build_nullif(spark_builder *b, const trn_expr **out) {
  const trn_expr *value = b->args[0];
  trn_status status = spark__coerce_comparison(b);
  if (status) return status;
  const trn_expr *args[3] = {spark__compare(b->t, "=", b->args[0], b->args[1]),
                             trn__expr_null(b->t->arena, value->type), value};
  return spark__gives(b, spark__case(b->t, args, 3, value->type), out);
}

/* nvl2(a, b, c): b when a is not null. */
static trn_status build_nvl2(spark_builder *b, const trn_expr **out) {
  const trn_expr *args[3] = {spark__is_null(b->t, b->args[0], true), b->args[1], b->args[2]};
  return spark__gives(b, spark__case(b->t, args, 3, b->args[1]->type), out);
}

/* nullifzero(x) is nullif(x, 0): anything that compares with an int. */
static trn_status build_nullifzero(spark_builder *b, const trn_expr **out) {
  spark_value pair[2] = {b->call->args[0], {.name = "0", .is_literal = true, .is_foldable = true}};
  spark_call call = *b->call;
  spark_builder inner = *b;
  pair[1].expr = b->args[1] = trn__expr_int(b->t->arena, trn__type(TRN_TYPE_INT32), 0);
  if (!b->args[1]) return trn__no_memory(b->error);
  call.args = pair;
  call.arg_count = inner.count = 2;
  inner.call = &call;
  return build_nullif(&inner, out);
}
static trn_status build_zeroifnull(spark_builder *b, const trn_expr **out) {
  const trn_type *type = NULL;
  b->args[1] = trn__expr_int(b->t->arena, trn__type(TRN_TYPE_INT32), 0);
  if (!b->args[1]) return trn__no_memory(b->error);
  b->count = 2;
  trn_status status = spark__coerce_common(b, 0, 1, &type);
  if (status) return status;
  return spark__gives(b, trn__expr_call(b->t->arena, TRN_HOME_ENGINE, "coalesce", type, false, b->args, 2), out);
}

/* ---- in, between ---- */
static trn_status build_in(spark_builder *b, const trn_expr **out) {
  const trn_type *type = NULL;
  trn_status status = spark__coerce_common(b, 0, 1, &type);
  if (status) return status;
  if (!spark__is_orderable(type)) {
    const char *text = spark__quoted_type(b->t, type);
    if (!text) return trn__no_memory(b->error);
    return spark__mismatch(b, "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE", "functionName", "`in`", "dataType", text,
                           (char *)NULL);
  }
  if (spark__is_float(type)) { /* as comparisons, which know that -0.0 is 0.0 */
    const trn_expr *any = NULL;
    for (size_t i = 1; i < b->count; i++) {
      const trn_expr *equal = spark__compare(b->t, "=", b->args[0], b->args[i]), *both[2] = {any, equal};
      any = any ? spark__native(b->t, "or", trn__type(TRN_TYPE_BOOL), both, 2) : equal;
      if (!any) return trn__no_memory(b->error);
    }
    *out = any;
    return TRN_OK;
  }
  return spark__gives(b,
                      trn__expr_create(b->t->arena, TRN_EXPR_IN_LIST, trn__type(TRN_TYPE_BOOL),
                                       spark__any_nullable(b->args, b->count), b->args, b->count),
                      out);
}

static trn_status build_between(spark_builder *b, const trn_expr **out) {
  const trn_expr *value = b->args[0], *bounds[2] = {b->args[1], b->args[2]}, *both[2];
  spark_call pair = *b->call;
  spark_value values[2] = {b->call->args[0], b->call->args[1]};
  for (size_t i = 0; i < 2; i++) {
    const trn_expr *args[2] = {value, bounds[i]};
    spark_builder inner = *b;
    values[1] = b->call->args[i + 1];
    pair.args = values;
    pair.arg_count = 2;
    inner.call = &pair;
    inner.function = spark__function_find(i ? "<=" : ">=", 2);
    inner.args = args;
    inner.count = 2;
    trn_status status = spark__coerce_comparison(&inner);
    if (status) return status;
    both[i] = spark__compare(b->t, i ? "<=" : ">=", args[0], args[1]);
  }
  return spark__gives(b, spark__native(b->t, "and", trn__type(TRN_TYPE_BOOL), both, 2), out);
}

/* ---- like ---- */
static bool is_plain_pattern(const trn_expr *pattern) {
  if (!spark__is_literal(pattern)) return false;
  return !memchr(pattern->u.literal.value.bytes.data, '\\', pattern->u.literal.value.bytes.size);
}

static trn_status build_like(spark_builder *b, const trn_expr **out) {
  const trn_type *boolean = trn__type(TRN_TYPE_BOOL);
  bool ilike = b->function->run[0] == 'i', escape_is_usual = b->count == 2;
  const trn_expr *escape = b->count == 3 ? b->args[2] : trn__expr_string(b->t->arena, "\\", 1);
  if (!escape) return trn__no_memory(b->error);
  if (b->count == 3) {
    size_t size = spark__is_literal(escape) ? escape->u.literal.value.bytes.size : 0;
    const char *text = size ? escape->u.literal.value.bytes.data : "";
    if (size != 1 || (unsigned char)text[0] >= 0x80)
      return spark__error(b->t, b->error, TRN_INVALID_ARGUMENT, "INVALID_ESCAPE_CHAR", b->call->position, "sqlExpr",
                          b->call->args[2].name, (char *)NULL);
    escape_is_usual = text[0] == '\\';
  }
  b->name = ilike ? "ilike($1, $2)" : escape_is_usual ? "$1 LIKE $2" : "$1 LIKE $2 ESCAPE '$3'";
  /* Without any escape in the pattern, arrow's LIKE and Spark's say the same. */
  if (!ilike && escape_is_usual && is_plain_pattern(b->args[1]))
    return spark__gives(b, spark__native(b->t, "like", boolean, b->args, 2), out);
  const trn_expr *args[3] = {b->args[0], b->args[1], escape};
  return spark__gives(b, spark__kernel_with(b, ilike ? "trn.ilike" : "trn.like", boolean, args, 3, SPARK_POSITION),
                      out);
}

/* ---- greatest, least ---- */
static trn_status build_extreme(spark_builder *b, const trn_expr **out) {
  const trn_type *first = b->args[0]->type, *common = first;
  for (size_t i = 1; i < b->count && common; i++) { /* strings are not promoted here */
    const trn_type *type = b->args[i]->type, *next = NULL;
    bool text = (spark__is_string(type) || spark__is_string(common)) && type->id != TRN_TYPE_NULL &&
                common->id != TRN_TYPE_NULL;
    if (!text || type->id == common->id) {
      if (spark__wider_type(b->t, common, type, &next)) return trn__no_memory(b->error);
    }
    common = next;
  }
  if (!common) {
    const char *name = trn__arena_printf(b->t->arena, "`%s`", b->function->name);
    const char *list = spark__quoted_types(b->t, NULL, b->args, b->count);
    if (!name || !list) return trn__no_memory(b->error);
    return spark__mismatch(b, "DATATYPE_MISMATCH.DATA_DIFF_TYPES", "functionName", name, "dataType", list,
                           (char *)NULL);
  }
  if (!spark__is_orderable(common)) {
    const char *name = trn__arena_printf(b->t->arena, "`%s`", b->function->name),
               *text = spark__quoted_type(b->t, common);
    if (!name || !text) return trn__no_memory(b->error);
    return spark__mismatch(b, "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE", "functionName", name, "dataType", text,
                           (char *)NULL);
  }
  bool nullable = true;
  for (size_t i = 0; i < b->count; i++) {
    trn_status status = spark__coerce(b, i, common);
    if (status) return status;
    nullable = nullable && b->args[i]->nullable;
  }
  trn_expr *expr = spark__kernel(b->t, b->function->run, common, b->args, b->count);
  if (expr) expr->nullable = nullable;
  return spark__gives(b, expr, out);
}

static trn_status build_nanvl(spark_builder *b, const trn_expr **out) {
  bool single = b->args[0]->type->id == TRN_TYPE_FLOAT32 && b->args[1]->type->id == TRN_TYPE_FLOAT32;
  for (size_t i = 0; i < 2 && !single; i++) {
    const trn_type *type = spark__implicit_type(b->t, b->args[i]->type, 'd');
    if (!type) return spark__unexpected_input(b, i, "(\"DOUBLE\" or \"FLOAT\")", b->args[i]->type);
    trn_status status = spark__coerce(b, i, type);
    if (status) return status;
  }
  return spark__gives(b, spark__kernel(b->t, "trn.nanvl", b->args[0]->type, b->args, 2), out);
}

static trn_status build_typeof(spark_builder *b, const trn_expr **out) {
  trn_strbuf text = {0};
  spark__type_simple(&text, b->call->args[0].expr->type);
  const char *name = spark__finish_text(b->t, &text);
  return name ? spark__gives(b, trn__expr_string(b->t->arena, name, strlen(name)), out) : trn__no_memory(b->error);
}

/* raise_error(message): of type void; the kernel never returns. */
static trn_status build_raise_error(spark_builder *b, const trn_expr **out) {
  b->name = "raise_error(USER_RAISED_EXCEPTION, map(errorMessage, $1))";
  trn_expr *expr = spark__kernel_with(b, "trn.raise_error", trn__type(TRN_TYPE_NULL), b->args, 1, SPARK_POSITION);
  if (expr) expr->nullable = true;
  return spark__gives(b, expr, out);
}

/* LIKE ALL (constants) and its kin, as the parser names them. */
static trn_status build_like_list(spark_builder *b, const trn_expr **out) {
  bool negated = b->function->name[1] == 'n';
  spark_value all = {0};
  trn_status status = TRN_OK;
  for (size_t i = 1; i < b->count && !status; i++) {
    spark_value pair[2] = {b->call->args[0], b->call->args[i]}, term;
    status = spark__call_by_name(b->t, "like", pair, 2, b->call->position, &term, b->error);
    if (!status && negated) status = spark__call_by_name(b->t, "not", &term, 1, b->call->position, &term, b->error);
    spark_value both[2] = {all, term};
    if (!status && i > 1) status = spark__call_by_name(b->t, b->function->run, both, 2, b->call->position, &all, b->error);
    else all = term;
  }
  b->text = trn__arena_printf(b->t->arena, "%s(%s)", b->function->name + 1, b->call->args[0].name);
  return status ? status : b->text ? spark__gives(b, all.expr, out) : trn__no_memory(b->error);
}

static const spark_function rows[] = {
    {"when", "aa|a+", NULL, NULL, build_when, NULL, 0, 0},
    {"if", "aaa", NULL, NULL, build_if, "(IF($1, $2, $3))", 0, 0},
    {"isnull", "a", NULL, "", build_is_null, "($1 IS NULL)", SPARK_NEVER_NULL, 0},
    {"isnotnull", "a", NULL, "!", build_is_null, "($1 IS NOT NULL)", SPARK_NEVER_NULL, 0},
    {"isnan", "d", "B", "trn.isnan", NULL, NULL, SPARK_NEVER_NULL, 0},
    {"coalesce", "a+", NULL, NULL, build_coalesce, NULL, 0, 0},
    {"nvl", "aa", NULL, NULL, build_coalesce, NULL, 0, 0},
    {"ifnull", "aa", NULL, NULL, build_coalesce, NULL, 0, 0},
    {"nvl2", "acc", NULL, NULL, build_nvl2, NULL, 0, 0},
    {"nullif", "aa", NULL, "=", build_nullif, NULL, SPARK_NULLABLE, 0},
    {"nullifzero", "a", NULL, "=", build_nullifzero, NULL, SPARK_NULLABLE, 0},
    {"zeroifnull", "a", NULL, NULL, build_zeroifnull, NULL, 0, 0},
    {"nanvl", "aa", NULL, NULL, build_nanvl, NULL, 0, 0},
    {"in", "a|a+", NULL, NULL, build_in, "($1 IN ($-))", 0, 0},
    {"between", "aaa", NULL, NULL, build_between, NULL, 0, 0},
    {"like", "ss|s", NULL, "like", build_like, NULL, 0, 0},
    {"ilike", "ss|s", NULL, "ilike", build_like, NULL, 0, 0},
    {"@likeall", "aa|a+", NULL, "and", build_like_list, NULL, SPARK_NULLABLE, 0},
    {"@likeany", "aa|a+", NULL, "or", build_like_list, NULL, SPARK_NULLABLE, 0},
    {"@notlikeall", "aa|a+", NULL, "and", build_like_list, NULL, SPARK_NULLABLE, 0},
    {"@notlikeany", "aa|a+", NULL, "or", build_like_list, NULL, SPARK_NULLABLE, 0},
    {"greatest", "aa|a+", NULL, "trn.greatest", build_extreme, NULL, 0, 0},
    {"least", "aa|a+", NULL, "trn.least", build_extreme, NULL, 0, 0},
    {"typeof", "a", NULL, NULL, build_typeof, NULL, SPARK_NEVER_NULL, 0},
    {"raise_error", "s", NULL, NULL, build_raise_error, NULL, SPARK_NULLABLE | SPARK_VOLATILE, 0},
};
const spark_function_table spark__functions_condition = {rows, sizeof rows / sizeof rows[0]};
