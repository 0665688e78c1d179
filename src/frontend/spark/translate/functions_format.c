/* Values as text and back by formats, encryption, and numbers by chance. */
#include "frontend/spark/translate/scope.h"
#include <ctype.h>
#include <stdio.h>
#include <strings.h>

/* ---- format_string, printf ---- */
static trn_status build_format_string(spark_builder *b, const trn_expr **out) {
  const trn_type *text = trn__type(TRN_TYPE_STRING);
  if (!spark__is_string(b->args[0]->type) && b->args[0]->type->id != TRN_TYPE_NULL)
    return spark__unexpected_input(b, 0, "\"STRING\"", b->args[0]->type);
  for (size_t i = 1; i < b->count; i++) {
    const trn_type *type = b->args[i]->type;
    if (type->field_count || type->id == TRN_TYPE_BINARY || type->id == TRN_TYPE_INTERVAL_CALENDAR ||
        type->id == TRN_TYPE_STRUCT)
      return spark__not_supported(b, "a value of this type");
  }
  trn_status status = spark__coerce(b, 0, text);
  if (status) return status;
  trn_expr *expr = spark__kernel(b->t, "trn.format_string", text, b->args, b->count);
  if (expr) expr->nullable = b->args[0]->nullable;
  return spark__gives(b, expr, out);
}

/* ---- formats of numbers ---- */
typedef struct number_format {
  const char *text; /* in capitals */
  int whole, fraction;
} number_format;

static trn_status bad_format(spark_builder *b, const number_format *f, const char *condition, const char *token) {
  const char *shown = trn__arena_printf(b->t->arena, "'%s'", f->text);
  char name[64];
  snprintf(name, sizeof name, "INVALID_FORMAT.%s", condition);
  if (!shown) return trn__no_memory(b->error);
  return spark__error(b->t, b->error, TRN_INVALID_ARGUMENT, name, b->call->position, "format", shown, "token", token,
                      (char *)NULL);
}

/* Reads tokens in order; `unexpected` is where the order is none that Spark knows. */
static trn_status check_order(spark_builder *b, const number_format *f) {
  enum { SIGN, CURRENCY, WHOLE, POINT, FRACTION, AFTER_CURRENCY, END_SIGN, END } at = SIGN;
  for (const char *p = f->text; *p;) {
    char c = *p;
    char token[24];
    snprintf(token, sizeof token, "character '%c''", c);
    if (c == '0' || c == '9' || c == ',' || c == 'G') {
      while (*p == '0' || *p == '9' || *p == ',' || *p == 'G') p++;
      if (at > FRACTION) return bad_format(b, f, "UNEXPECTED_TOKEN", "digit sequence");
      at = at >= POINT ? AFTER_CURRENCY : POINT;
      if (at == AFTER_CURRENCY) at = FRACTION + 1;
      continue;
    }
    p++;
    if (c == '.' || c == 'D') {
      if (at > POINT) return bad_format(b, f, "UNEXPECTED_TOKEN", ".");
      at = FRACTION;
    } else if (c == '$' || c == 'L') {
      if (at > CURRENCY && at != AFTER_CURRENCY) return bad_format(b, f, "UNEXPECTED_TOKEN", "$");
      at = at <= CURRENCY ? WHOLE : END_SIGN;
    } else if (c == 'S' || (c == 'M' && *p == 'I')) {
      if (c == 'M') p++;
      if (at != SIGN && at < POINT) return bad_format(b, f, "UNEXPECTED_TOKEN", c == 'M' ? "MI" : "S");
      if (at == END) return bad_format(b, f, "UNEXPECTED_TOKEN", c == 'M' ? "MI" : "S");
      at = at == SIGN ? CURRENCY : END;
    } else if (c == 'P' && *p == 'R') {
      p++;
      at = END;
    } else {
      return bad_format(b, f, "UNEXPECTED_TOKEN", token);
    }
  }
  return TRN_OK;
}

static trn_status check_format(spark_builder *b, number_format *f) {
  size_t points = 0, currencies = 0, signs = 0, minus = 0, brackets = 0;
  bool group_open = false, late_comma = false, loose_comma = false, late_currency = false;
  f->whole = f->fraction = 0;
  if (!f->text[0]) return bad_format(b, f, "EMPTY", NULL);
  for (const char *p = f->text; *p; p++) {
    bool digit = *p == '0' || *p == '9', comma = *p == ',' || *p == 'G';
    if (digit) *(points ? &f->fraction : &f->whole) += 1;
    if (comma) {
      late_comma |= points > 0;
      loose_comma |= !group_open || (p[1] != '0' && p[1] != '9');
    }
    group_open = digit;
    points += *p == '.' || *p == 'D';
    currencies += *p == '$' || *p == 'L';
    late_currency |= (*p == '$' || *p == 'L') && f->whole + f->fraction > 0;
    signs += *p == 'S';
    minus += *p == 'M';
    brackets += *p == 'P';
  }
  if (f->whole + f->fraction == 0) return bad_format(b, f, "WRONG_NUM_DIGIT", NULL);
  if (late_comma) return bad_format(b, f, "THOUSANDS_SEPS_MUST_BEFORE_DEC", NULL);
  if (loose_comma) return bad_format(b, f, "CONT_THOUSANDS_SEPS", NULL);
  if (late_currency) return bad_format(b, f, "CUR_MUST_BEFORE_DIGIT", NULL);
  const char *twice = points > 1       ? ". or D"
                      : currencies > 1 ? "$"
                      : signs > 1      ? "S"
                      : minus > 1      ? "MI"
                      : brackets > 1   ? "PR"
                                       : NULL;
  if (twice) return bad_format(b, f, "WRONG_NUM_TOKEN", twice);
  return check_order(b, f);
}

/* The format argument; *literal NULL: it is null. */
static trn_status format_of(spark_builder *b, number_format *f, const trn_expr **literal) {
  const trn_type *type = trn__type(TRN_TYPE_STRING);
  spark_value value = b->call->args[1];
  if (!value.is_foldable) {
    const char *name = trn__arena_printf(b->t->arena, "\"%s\"", value.name);
    if (!name) return trn__no_memory(b->error);
    return spark__mismatch(b, "DATATYPE_MISMATCH.NON_FOLDABLE_INPUT", "inputName", "`format`", "inputType",
                           "\"STRING\"", "inputExpr", name, (char *)NULL);
  }
  trn_status status = spark__coerce(b, 1, type);
  value.expr = b->args[1];
  if (!status && value.expr->kind != TRN_EXPR_LITERAL) status = spark__evaluate(b->t, &value, &value.expr, b->error);
  if (status) return status;
  *literal = value.expr->u.literal.is_null ? NULL : value.expr;
  if (!*literal) return TRN_OK;
  size_t size = value.expr->u.literal.value.bytes.size;
  char *text = trn__arena_str(b->t->arena, value.expr->u.literal.value.bytes.data, size);
  if (!text) return trn__no_memory(b->error);
  for (size_t i = 0; i < size; i++) text[i] = (char)toupper((unsigned char)text[i]);
  f->text = text;
  return TRN_OK;
}

/* to_char by another function, whose name it takes. */
static trn_status by_other(spark_builder *b, const char *name, size_t count, const trn_expr **out) {
  spark_value value;
  trn_status status =
      spark__call_by_name(b->t, name, b->call->args, count, b->call->position, &value, b->error);
  if (status) return status;
  bool date = strcmp(name, "date_format") == 0, plain = strcmp(b->function->name, "to_varchar") == 0;
  if (date || !plain) b->text = value.name;
  if (!date && plain) b->name = count == 1 ? "to_varchar($1)" : "to_varchar($1, $2)";
  *out = value.expr;
  return TRN_OK;
}

static trn_status binary_to_char(spark_builder *b, const number_format *f, const trn_expr **out) {
  if (strcasecmp(f->text, "base64") == 0) return by_other(b, "base64", 1, out);
  if (strcasecmp(f->text, "hex") == 0) return by_other(b, "hex", 1, out);
  if (strcasecmp(f->text, "utf-8") == 0) return by_other(b, "decode", 2, out);
  const char *name = trn__arena_printf(b->t->arena, "`%s`", b->function->name);
  const char *given = trn__arena_printf(b->t->arena, "'%s'", b->call->args[1].name);
  if (!name || !given) return trn__no_memory(b->error);
  return spark__error(b->t, b->error, TRN_INVALID_ARGUMENT, "INVALID_PARAMETER_VALUE.BINARY_FORMAT", b->call->position,
                      "parameter", "`format`", "functionName", name, "invalidFormat", given, (char *)NULL);
}

static trn_status build_to_char(spark_builder *b, const trn_expr **out) {
  const trn_type *type = b->args[0]->type, *text = trn__type(TRN_TYPE_STRING);
  const trn_expr *literal = NULL;
  number_format f = {0};
  if (type->id == TRN_TYPE_DATE || spark__is_timestamp(type)) return by_other(b, "date_format", 2, out);
  trn_status status = format_of(b, &f, &literal);
  if (status) return status;
  if (!literal) return spark__gives(b, trn__expr_null(b->t->arena, text), out);
  if (type->id == TRN_TYPE_BINARY) return binary_to_char(b, &f, out);
  const trn_type *decimal = spark__implicit_type(b->t, type, 'm');
  if (!decimal) return spark__unexpected_input(b, 0, "\"DECIMAL\"", type);
  status = spark__coerce(b, 0, decimal);
  if (!status) status = check_format(b, &f);
  const trn_expr *args[2] = {b->args[0], literal};
  return status ? status : spark__gives(b, spark__kernel(b->t, "trn.to_char", text, args, 2), out);
}

static trn_status build_to_number(spark_builder *b, const trn_expr **out) {
  const trn_expr *literal = NULL;
  number_format f = {0};
  const trn_type *text = spark__implicit_type(b->t, b->args[0]->type, 's');
  if (!text) return spark__unexpected_input(b, 0, "\"STRING\"", b->args[0]->type);
  trn_status status = spark__coerce(b, 0, text);
  if (!status) status = format_of(b, &f, &literal);
  if (status) return status;
  if (!literal) return spark__gives(b, trn__expr_null(b->t->arena, trn__type_decimal(b->t->arena, 10, 0)), out);
  if ((status = check_format(b, &f))) return status;
  if (f.whole + f.fraction > 38) return spark__not_supported(b, "more than 38 digits");
  const trn_type *type = trn__type_decimal(b->t->arena, f.whole + f.fraction, f.fraction);
  const trn_expr *args[2] = {b->args[0], literal};
  const char *name = b->function->flags & SPARK_TRY ? "trn.to_number_try" : "trn.to_number";
  return spark__gives(b, type ? spark__kernel(b->t, name, type, args, 2) : NULL, out);
}

/* ---- aes ---- */
static trn_status build_aes(spark_builder *b, const trn_expr **out) {
  bool encrypts = b->function->run[0] == 'e';
  size_t most = encrypts ? 6 : 5;
  const trn_expr *args[6];
  trn_strbuf text = {0};
  trn__strbuf_printf(&text, "%s(", b->function->name);
  for (size_t i = 0; i < most; i++) {
    bool is_text = i == 2 || i == 3;
    const trn_type *type = trn__type(is_text ? TRN_TYPE_STRING : TRN_TYPE_BINARY);
    const char *usual = i == 2 ? "GCM" : i == 3 ? "DEFAULT" : "";
    trn__strbuf_printf(&text, "%s%s", i ? ", " : "", i < b->count ? b->call->args[i].name : usual);
    if (i < b->count) {
      const trn_type *fits = spark__implicit_type(b->t, b->args[i]->type, is_text ? 's' : 'b');
      if (!fits) {
        trn__strbuf_finish(&text);
        return spark__unexpected_input(b, i, is_text ? "\"STRING\"" : "\"BINARY\"", b->args[i]->type);
      }
      trn_status status = spark__coerce(b, i, fits);
      if (status) {
        trn__strbuf_finish(&text);
        return status;
      }
      args[i] = b->args[i];
      continue;
    }
    trn_expr *literal = trn__expr_string(b->t->arena, usual, strlen(usual));
    if (literal) literal->type = type;
    args[i] = literal;
  }
  trn__strbuf_putc(&text, ')');
  if (!(b->text = spark__finish_text(b->t, &text))) return trn__no_memory(b->error);
  const char *name = encrypts                             ? "trn.aes_encrypt"
                     : b->function->flags & SPARK_TRY ? "trn.aes_decrypt_try"
                                                          : "trn.aes_decrypt";
  return spark__gives(b, spark__kernel(b->t, name, trn__type(TRN_TYPE_BINARY), args, most), out);
}

/* ---- chance ---- */
/* The seed as a bigint literal; null is 0. */
static trn_status seed_of(spark_builder *b, size_t index, const trn_expr **out) {
  const trn_type *wide = trn__type(TRN_TYPE_INT64), *given = b->args[index]->type;
  spark_value value = b->call->args[index];
  if (!value.is_foldable) {
    const char *seed = trn__arena_printf(b->t->arena, "\"%s\"", value.name), *shown = spark__call_name(b);
    shown = shown ? trn__arena_printf(b->t->arena, "\"%s\"", shown) : NULL;
    if (!seed || !shown) return trn__no_memory(b->error);
    return spark__error(b->t, b->error, TRN_INVALID_ARGUMENT, "SEED_EXPRESSION_IS_UNFOLDABLE", b->call->position,
                        "seedExpr", seed, "exprWithSeed", shown, (char *)NULL);
  }
  if (!trn__type_is_integer(given) && given->id != TRN_TYPE_NULL)
    return spark__unexpected_input(b, index, "(\"INT\" or \"BIGINT\")", given);
  trn_status status = spark__coerce(b, index, wide);
  value.expr = b->args[index];
  if (!status && value.expr->kind != TRN_EXPR_LITERAL) status = spark__evaluate(b->t, &value, &value.expr, b->error);
  if (status) return status;
  *out = value.expr->u.literal.is_null ? trn__expr_int(b->t->arena, wide, 0) : value.expr;
  return *out ? TRN_OK : trn__no_memory(b->error);
}

static trn_status row_number(spark_builder *b, const trn_expr **out) {
  spark_value value;
  trn_status status = spark__sequence_id(b->t, &value, b->error);
  *out = status ? NULL : value.expr;
  return status;
}

/* A uniform double: of the seed at `index`, or any. */
static trn_status uniform(spark_builder *b, size_t index, const char *kernel, const trn_expr **out) {
  const trn_type *type = trn__type(TRN_TYPE_FLOAT64);
  const trn_expr *args[2];
  if (b->count <= index) {
    trn_expr *any = trn__expr_call(b->t->arena, TRN_HOME_ENGINE, "random", type, false, NULL, 0);
    if (any) any->u.call.volatility = 2;
    return spark__gives(b, any, out);
  }
  trn_status status = seed_of(b, index, &args[0]);
  if (!status) status = row_number(b, &args[1]);
  return status ? status : spark__gives(b, spark__kernel(b->t, kernel, type, args, 2), out);
}

static trn_status build_rand(spark_builder *b, const trn_expr **out) {
  return uniform(b, 0, "trn.rand", out);
}

/* randn() without a seed: some seed. */
static trn_status build_randn(spark_builder *b, const trn_expr **out) {
  const trn_type *type = trn__type(TRN_TYPE_FLOAT64);
  if (b->count) return uniform(b, 0, "trn.randn", out);
  /* Box and Muller, of two uniform numbers. */
  const trn_expr *any[2];
  trn_status status = uniform(b, 0, "", &any[0]);
  if (!status) status = uniform(b, 0, "", &any[1]);
  if (status) return status;
  const trn_expr *one = spark__double_literal(b->t, 1, type), *turn = spark__double_literal(b->t, 6.283185307179586, type),
                 *two = spark__double_literal(b->t, -2, type);
  const trn_expr *rest[2] = {one, any[0]}, *positive = one ? spark__native(b->t, "-", type, rest, 2) : NULL;
  const trn_expr *log = spark__kernel(b->t, "trn.log", type, &positive, 1), *scaled[2] = {two, log};
  const trn_expr *square = spark__native(b->t, "*", type, scaled, 2);
  const trn_expr *factor = spark__kernel(b->t, "trn.sqrt", type, &square, 1), *angle[2] = {turn, any[1]};
  const trn_expr *around = spark__native(b->t, "*", type, angle, 2);
  const trn_expr *both[2] = {factor, spark__kernel(b->t, "trn.cos", type, &around, 1)};
  trn_expr *expr = spark__native(b->t, "*", type, both, 2);
  if (expr) expr->nullable = false;
  return spark__gives(b, expr, out);
}

/* uniform(min, max [, seed]): min + (max - min) * rand, cast to what the two are. */
static trn_status build_uniform(spark_builder *b, const trn_expr **out) {
  const trn_type *wide = trn__type(TRN_TYPE_FLOAT64), *type = NULL;
  const trn_expr *bounds[2], *chance = NULL;
  bool any_double = false, any_float = false, any_null = false;
  for (size_t i = 0; i < 2; i++) {
    const trn_type *given = b->args[i]->type;
    if (!trn__type_is_numeric(given) && given->id != TRN_TYPE_NULL)
      return spark__unexpected_input(b, i, "integer or floating-point", given);
    if (!b->call->args[i].is_foldable) return spark__not_supported(b, "a bound that is no constant");
    any_double |= given->id == TRN_TYPE_FLOAT64;
    any_float |= given->id == TRN_TYPE_FLOAT32;
    any_null |= given->id == TRN_TYPE_NULL;
    trn_status status =
        spark__cast(b->t, b->args[i], wide, SPARK_CAST_IMPLICIT, b->call->position, &bounds[i], b->error);
    if (status) return status;
  }
  if (any_null) return spark__gives(b, trn__expr_null(b->t->arena, trn__type(TRN_TYPE_NULL)), out);
  if (any_double || any_float)
    type = trn__type(any_double ? TRN_TYPE_FLOAT64 : TRN_TYPE_FLOAT32);
  else if (spark__wider_type(b->t, b->args[0]->type, b->args[1]->type, &type))
    return trn__no_memory(b->error);
  trn_status status = uniform(b, 2, "trn.rand", &chance);
  if (status) return status;
  const trn_expr *sides[2] = {bounds[1], bounds[0]}, *span = spark__native(b->t, "-", wide, sides, 2);
  const trn_expr *scaled[2] = {span, chance}, *part = spark__native(b->t, "*", wide, scaled, 2);
  const trn_expr *sum[2] = {part, bounds[0]}, *value = spark__native(b->t, "+", wide, sum, 2);
  if (!value || !type) return trn__no_memory(b->error);
  return spark__cast(b->t, value, type, SPARK_CAST_IMPLICIT, b->call->position, out, b->error);
}

static trn_status build_randstr(spark_builder *b, const trn_expr **out) {
  const trn_expr *args[3];
  const trn_type *type = spark__implicit_type(b->t, b->args[0]->type, 'i');
  if (!type || b->args[0]->type->id == TRN_TYPE_NULL)
    return spark__unexpected_input(b, 0, "INT or SMALLINT", b->args[0]->type);
  if (b->count == 1) return spark__not_supported(b, "no seed");
  trn_status status = spark__coerce(b, 0, type);
  spark_value length = b->call->args[0];
  length.expr = b->args[0];
  if (!status && !length.is_foldable) return spark__not_supported(b, "a length that is no constant");
  if (!status && length.expr->kind != TRN_EXPR_LITERAL) status = spark__evaluate(b->t, &length, &length.expr, b->error);
  if (!status) status = seed_of(b, 1, &args[1]);
  if (!status) status = row_number(b, &args[2]);
  if (status) return status;
  int64_t size = length.expr->u.literal.is_null ? 0 : length.expr->u.literal.value.integer;
  if (size < 0) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)size);
    return spark__error(b->t, b->error, TRN_INVALID_ARGUMENT, "INVALID_PARAMETER_VALUE.LENGTH",
                        (trn_position){-1, -1}, "parameter", "`length`", "length", text, "functionName", "`randstr`",
                        (char *)NULL);
  }
  args[0] = length.expr;
  return spark__gives(b, spark__kernel(b->t, "trn.randstr", trn__type(TRN_TYPE_STRING), args, 3), out);
}

/* ---- vectors ---- */
static trn_status build_vector(spark_builder *b, const trn_expr **out) {
  bool pair = b->function->run[0] == '2', list = b->function->run[0] == 'l';
  const trn_type *single = trn__type(TRN_TYPE_FLOAT32);
  const trn_expr *args[2] = {b->args[0], NULL};
  for (size_t i = 0; i < (pair ? 2u : 1u); i++)
    if (b->args[i]->type->id != TRN_TYPE_ARRAY || b->args[i]->type->fields[0].type->id != TRN_TYPE_FLOAT32)
      return spark__unexpected_input(b, i, "\"ARRAY<FLOAT>\"", b->args[i]->type);
  if (!pair && b->count == 2 && b->args[1]->type->id != TRN_TYPE_FLOAT32)
    return spark__unexpected_input(b, 1, "\"FLOAT\"", b->args[1]->type);
  args[1] = b->count == 2 ? b->args[1] : spark__double_literal(b->t, 2, single);
  const char *kernel = trn__arena_printf(b->t->arena, "trn.%s", b->function->name);
  if (b->count == 1) b->name = trn__arena_printf(b->t->arena, "%s($1, 2.0)", b->function->name);
  const trn_type *type = list ? trn__type_array(b->t->arena, single, true) : single;
  if (!kernel || (b->count == 1 && !b->name)) return trn__no_memory(b->error);
  trn_expr *expr = spark__kernel(b->t, kernel, type, args, 2);
  if (expr) expr->nullable = true;
  return spark__gives(b, expr, out);
}

/* shuffle(list [, seed]), uuid(seed). */
static trn_status build_shuffle(spark_builder *b, const trn_expr **out) {
  const trn_expr *args[2] = {b->args[0], NULL};
  const trn_type *type = b->args[0]->type;
  if (type->id != TRN_TYPE_ARRAY) return spark__unexpected_input(b, 0, "\"ARRAY\"", type);
  b->name = "shuffle($1)";
  if (b->count == 1) {
    trn_expr *any = trn__expr_call(b->t->arena, TRN_HOME_ENGINE, "random", trn__type(TRN_TYPE_FLOAT64), false, NULL, 0);
    if (!any) return trn__no_memory(b->error);
    any->u.call.volatility = 2;
    const trn_expr *scaled[2] = {any, spark__double_literal(b->t, 9007199254740992.0, trn__type(TRN_TYPE_FLOAT64))};
    const trn_expr *number = spark__native(b->t, "*", trn__type(TRN_TYPE_FLOAT64), scaled, 2);
    if (!number) return trn__no_memory(b->error);
    args[1] = trn__expr_cast(b->t->arena, number, trn__type(TRN_TYPE_INT64), false);
  } else {
    trn_status status = seed_of(b, 1, &args[1]);
    if (status) return status;
  }
  trn_expr *expr = args[1] ? spark__kernel(b->t, "trn.shuffle", type, args, 2) : NULL;
  if (expr) expr->nullable = b->args[0]->nullable;
  return spark__gives(b, expr, out);
}

static trn_status build_uuid(spark_builder *b, const trn_expr **out) {
  const trn_type *text = trn__type(TRN_TYPE_STRING);
  const trn_expr *args[2];
  b->name = "uuid()";
  if (!b->count) return spark__gives(b, trn__expr_call(b->t->arena, TRN_HOME_ENGINE, "uuid", text, false, NULL, 0), out);
  trn_status status = seed_of(b, 0, &args[0]);
  if (!status) status = row_number(b, &args[1]);
  return status ? status : spark__gives(b, spark__kernel(b->t, "trn.random_uuid", text, args, 2), out);
}

#define CHANCE (SPARK_VOLATILE | SPARK_NEVER_NULL)
static const spark_function rows[] = {
    {"format_string", "a|a+", NULL, NULL, build_format_string, NULL, 0, 0},
    {"printf", "a|a+", NULL, NULL, build_format_string, NULL, 0, 0},
    {"to_char", "aa", NULL, NULL, build_to_char, NULL, 0, 0},
    {"to_varchar", "aa", NULL, NULL, build_to_char, "=to_char", 0, 0},
    {"to_number", "aa", NULL, NULL, build_to_number, NULL, 0, 0},
    {"try_to_number", "aa", NULL, NULL, build_to_number, NULL, SPARK_NULLABLE | SPARK_TRY, 0},
    {"aes_encrypt", "aa|aaaa", NULL, "e", build_aes, NULL, SPARK_NULLABLE, 0},
    {"aes_decrypt", "aa|aaa", NULL, "d", build_aes, NULL, SPARK_NULLABLE, 0},
    {"try_aes_decrypt", "aa|aaa", NULL, "d", build_aes, NULL, SPARK_NULLABLE | SPARK_TRY, 0},
    {"rand", "|a", NULL, NULL, build_rand, NULL, CHANCE, 0},
    {"random", "|a", NULL, NULL, build_rand, "=rand", CHANCE, 0},
    {"randn", "|a", NULL, NULL, build_randn, NULL, CHANCE, 0},
    {"shuffle", "a|a", NULL, NULL, build_shuffle, NULL, SPARK_VOLATILE, 0},
    {"uuid", "|a", NULL, NULL, build_uuid, NULL, CHANCE, 0},
    {"uniform", "aa|a", NULL, NULL, build_uniform, NULL, SPARK_VOLATILE, 0},
    {"randstr", "a|a", NULL, NULL, build_randstr, NULL, SPARK_VOLATILE, 0},
    {"vector_inner_product", "aa", NULL, "2", build_vector, NULL, 0, 0},
    {"vector_l2_distance", "aa", NULL, "2", build_vector, NULL, 0, 0},
    {"vector_cosine_similarity", "aa", NULL, "2", build_vector, NULL, 0, 0},
    {"vector_norm", "a|a", NULL, "1", build_vector, NULL, 0, 0},
    {"vector_normalize", "a|a", NULL, "list", build_vector, NULL, 0, 0},
    {"bitmap_bit_position", "l", "l", "trn.bitmap_bit_position", NULL, NULL, 0, 0},
    {"bitmap_bucket_number", "l", "l", "trn.bitmap_bucket_number", NULL, NULL, 0, 0},
    {"bitmap_count", "b", "l", "trn.bitmap_count", NULL, NULL, 0, 0},
};
const spark_function_table spark__functions_format = {rows, sizeof rows / sizeof rows[0]};
