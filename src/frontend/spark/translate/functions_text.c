/* Texts as bytes, URLs, masks and the like. */
#include "frontend/spark/translate/values.h"
#include <strings.h>

/* mask(text [, upper, lower, digit, other]): "X", "x", "n" and nothing unless given. */
static trn_status build_mask(spark_builder *b, const trn_expr **out) {
  static const char *const usual[] = {"", "X", "x", "n", NULL};
  static const char *const names[] = {"mask($1, X, x, n, NULL)", "mask($1, $2, x, n, NULL)",
                                      "mask($1, $2, $3, n, NULL)", "mask($1, $2, $3, $4, NULL)", NULL};
  const trn_type *string = trn__type(TRN_TYPE_STRING);
  const trn_expr *args[5] = {b->args[0]};
  for (size_t i = 1; i < 5; i++) {
    args[i] = i < b->count   ? b->args[i]
              : usual[i]     ? trn__expr_string(b->t->arena, usual[i], strlen(usual[i]))
                             : trn__expr_null(b->t->arena, string);
    if (!args[i]) return trn__no_memory(b->error);
  }
  b->name = names[b->count - 1];
  return spark__gives(b, spark__kernel(b->t, "trn.mask", string, args, 5), out);
}

/* elt(n, inputs...): texts, or binaries when all are. */
static trn_status build_elt(spark_builder *b, const trn_expr **out) {
  bool binary = b->count > 1;
  for (size_t i = 1; i < b->count; i++) binary = binary && b->args[i]->type->id == TRN_TYPE_BINARY;
  const trn_type *type = trn__type(binary ? TRN_TYPE_BINARY : TRN_TYPE_STRING);
  const trn_type *index = spark__implicit_type(b->t, b->args[0]->type, 'i');
  if (!index) return spark__unexpected_input(b, 0, "\"INT\"", b->args[0]->type);
  trn_status status = spark__coerce(b, 0, index);
  for (size_t i = 1; !status && i < b->count; i++) {
    if (!spark__is_atomic(b->args[i]->type) && b->args[i]->type->id != TRN_TYPE_NULL)
      return spark__unexpected_input(b, i, "(\"STRING\" or \"BINARY\")", b->args[i]->type);
    status = spark__coerce(b, i, type);
  }
  if (status) return status;
  return spark__gives(b,
                      b->t->ansi ? spark__kernel_with(b, "trn.elt", type, b->args, b->count, SPARK_POSITION)
                                 : spark__kernel(b->t, "trn.elt_try", type, b->args, b->count),
                      out);
}

/* to_binary(text [, format]): hex unless it says utf-8 or base64. */
static trn_status build_to_binary(spark_builder *b, const trn_expr **out) {
  const trn_type *type = trn__type(TRN_TYPE_BINARY);
  const trn_expr *format = b->count == 2 ? b->args[1] : NULL;
  if (format && format->kind == TRN_EXPR_LITERAL && format->u.literal.is_null)
    return spark__gives(b, trn__expr_null(b->t->arena, type), out);
  if (format && (!spark__is_literal(format) || !spark__is_string(format->type)))
    return spark__not_supported(b, "a format that is not a literal");
  const char *name = format ? format->u.literal.value.bytes.data : "hex";
  trn_status status = spark__coerce(b, 0, trn__type(TRN_TYPE_STRING));
  if (status) return status;
  bool utf8 = !strcasecmp(name, "utf-8") || !strcasecmp(name, "utf8"), tries = b->function->flags & SPARK_TRY;
  bool hex = !strcasecmp(name, "hex"), base64 = !strcasecmp(name, "base64");
  const trn_expr *args[2] = {b->args[0], trn__expr_string(b->t->arena, "utf-8", 5)};
  if (utf8) return spark__gives(b, spark__kernel_with(b, "trn.encode", type, args, 2, SPARK_POSITION), out);
  const char *kernel = hex      ? (tries ? "trn.to_binary_hex_try" : "trn.to_binary_hex")
                       : base64 ? (tries ? "trn.to_binary_base64_try" : "trn.to_binary_base64")
                                : NULL;
  if (kernel) return spark__gives(b, spark__kernel(b->t, kernel, type, args, 1), out);
  if (tries) return spark__gives(b, trn__expr_null(b->t->arena, type), out);
  const char *given = trn__arena_printf(b->t->arena, "'%s'", name);
  if (!given) return trn__no_memory(b->error);
  return spark__mismatch(b, "DATATYPE_MISMATCH.INVALID_ARG_VALUE", "inputName", "fmt", "requireType",
                         "case-insensitive \"STRING\" literal", "validValues", "'hex', 'utf-8', 'utf8', or 'base64'",
                         "inputValue", given, (char *)NULL);
}

static const spark_function rows[] = {
    {"encode", "ss", "b", "trn.encode", NULL, NULL, SPARK_POSITION | SPARK_NULLABLE, 0},
    {"url_encode", "s", "s", "trn.url_encode", NULL, NULL, SPARK_NULLABLE, 0},
    {"url_decode", "s", "s", "trn.url_decode", NULL, NULL, SPARK_POSITION | SPARK_NULLABLE, 0},
    {"try_url_decode", "s", "s", "trn.url_decode_try", NULL, NULL, SPARK_NULLABLE, 0},
    {"parse_url", "ss|s", "s", "trn.parse_url", NULL, NULL, SPARK_POSITION | SPARK_NULLABLE | SPARK_LEGACY_NULL, 0},
    {"try_parse_url", "ss|s", "s", "trn.parse_url_try", NULL, NULL, SPARK_NULLABLE, 0},
    {"find_in_set", "ss", "i", "trn.find_in_set", NULL, NULL, 0, 0},
    {"luhn_check", "s", "B", "trn.luhn_check", NULL, NULL, SPARK_NULLABLE, 0},
    {"quote", "s", "s", "trn.quote", NULL, NULL, SPARK_NULLABLE, 0},
    {"mask", "s|ssss", NULL, NULL, build_mask, NULL, SPARK_NULLABLE, 0},
    {"elt", "aa+", NULL, NULL, build_elt, NULL, SPARK_NULLABLE, 0},
    {"is_valid_utf8", "x", "B", "trn.is_valid_utf8", NULL, NULL, SPARK_NULLABLE, 0},
    {"make_valid_utf8", "x", "s", "trn.make_valid_utf8", NULL, NULL, SPARK_NULLABLE, 0},
    {"validate_utf8", "x", "s", "trn.validate_utf8", NULL, NULL, SPARK_POSITION | SPARK_NULLABLE, 0},
    {"try_validate_utf8", "x", "s", "trn.try_validate_utf8", NULL, NULL, SPARK_NULLABLE, 0},
    {"to_binary", "a|a", NULL, NULL, build_to_binary, NULL, SPARK_NULLABLE, 0},
    {"try_to_binary", "a|a", NULL, NULL, build_to_binary, NULL, SPARK_NULLABLE | SPARK_TRY, 0},
};
const spark_function_table spark__functions_text = {rows, sizeof rows / sizeof rows[0]};
