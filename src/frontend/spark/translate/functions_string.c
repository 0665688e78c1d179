/* Strings, binaries, hashes. */
#include "frontend/spark/translate/values.h"

/* An argument that is there, or the default; with the name that shows it. */
static const trn_expr *argument_or(spark_builder *b, size_t index, const trn_expr *otherwise) {
  return b->count > index ? b->args[index] : otherwise;
}
static const trn_expr *text(spark_builder *b, const char *value) {
  return trn__expr_string(b->t->arena, value, strlen(value));
}
static const trn_expr *number(spark_builder *b, int64_t value) {
  return trn__expr_int(b->t->arena, trn__type(TRN_TYPE_INT32), value);
}
static const char *named(spark_builder *b, const char *format) {
  return trn__arena_printf(b->t->arena, "%s%s", b->function->name, format);
}

static trn_status build_substring(spark_builder *b, const trn_expr **out) {
  if (b->count == 2 && !(b->name = named(b, "($1, $2, 2147483647)"))) return trn__no_memory(b->error);
  const trn_expr *args[3] = {b->args[0], b->args[1], argument_or(b, 2, number(b, INT32_MAX))};
  return spark__gives(b, spark__kernel(b->t, "trn.substring", b->args[0]->type, args, 3), out);
}

/* trim(s), trim(chars, s): as the wire and the parser send them. */
static trn_status build_trim(spark_builder *b, const trn_expr **out) {
  char side = b->function->run[0];
  const char *kernel = side == 'l' ? "trn.ltrim" : side == 'r' ? "trn.rtrim" : "trn.trim";
  const trn_expr *args[2] = {b->args[b->count - 1], b->args[0]};
  if (b->count == 2)
    b->name = side == 'l'   ? "TRIM(LEADING $1 FROM $2)"
              : side == 'r' ? "TRIM(TRAILING $1 FROM $2)"
                            : "TRIM(BOTH $1 FROM $2)";
  return spark__gives(b, spark__kernel(b->t, kernel, trn__type(TRN_TYPE_STRING), args, b->count), out);
}
static trn_status build_btrim(spark_builder *b, const trn_expr **out) {
  return spark__gives(b, spark__kernel(b->t, "trn.trim", trn__type(TRN_TYPE_STRING), b->args, b->count), out);
}

/* A binary is filled with zeros, or with another binary; with a text both are texts. */
static trn_status pad_binary(spark_builder *b, const trn_expr **out) {
  const trn_type *type = trn__type(TRN_TYPE_BINARY);
  trn_expr *zero = trn__expr_string(b->t->arena, "\0", 1);
  if (zero) zero->type = type;
  if (b->count == 3 && b->args[2]->type->id != TRN_TYPE_BINARY) {
    trn_status status = spark__coerce(b, 0, trn__type(TRN_TYPE_STRING));
    return status ? status
                  : spark__gives(b, spark__kernel(b->t, b->function->run, b->args[0]->type, b->args, 3), out);
  }
  if (b->count == 2) b->name = named(b, "($1, $2, X'00')");
  const trn_expr *args[3] = {b->args[0], b->args[1], b->count == 3 ? b->args[2] : zero};
  bool left = b->function->run[4] == 'l';
  if (b->count == 2 && !b->name) return trn__no_memory(b->error);
  return spark__gives(b, spark__kernel(b->t, left ? "trn.lpad_binary" : "trn.rpad_binary", type, args, 3), out);
}

static trn_status build_pad(spark_builder *b, const trn_expr **out) {
  if (b->args[0]->type->id == TRN_TYPE_BINARY) return pad_binary(b, out);
  if (b->count == 2 && !(b->name = named(b, "($1, $2,  )"))) return trn__no_memory(b->error);
  const trn_expr *args[3] = {b->args[0], b->args[1], argument_or(b, 2, text(b, " "))};
  return spark__gives(b, spark__kernel(b->t, b->function->run, trn__type(TRN_TYPE_STRING), args, 3), out);
}

static trn_status build_length(spark_builder *b, const trn_expr **out) {
  bool bytes = b->args[0]->type->id == TRN_TYPE_BINARY;
  const char *kernel = bytes ? "trn.octet_length" : "trn.length";
  return spark__gives(b, spark__kernel(b->t, kernel, trn__type(TRN_TYPE_INT32), b->args, 1), out);
}

static trn_status build_locate(spark_builder *b, const trn_expr **out) {
  if (b->count == 2 && !(b->name = named(b, "($1, $2, 1)"))) return trn__no_memory(b->error);
  const trn_expr *args[3] = {b->args[0], b->args[1], argument_or(b, 2, number(b, 1))};
  return spark__gives(b, spark__kernel(b->t, "trn.locate", trn__type(TRN_TYPE_INT32), args, 3), out);
}

static trn_status build_replace(spark_builder *b, const trn_expr **out) {
  if (b->count == 2) b->name = "replace($1, $2, )";
  const trn_expr *args[3] = {b->args[0], b->args[1], argument_or(b, 2, text(b, ""))};
  return spark__gives(b, spark__kernel(b->t, "trn.replace", trn__type(TRN_TYPE_STRING), args, 3), out);
}

static trn_status build_overlay(spark_builder *b, const trn_expr **out) {
  if (b->count == 3) b->name = "overlay($1, $2, $3, -1)";
  bool binary = b->args[0]->type->id == TRN_TYPE_BINARY && b->args[1]->type->id == TRN_TYPE_BINARY;
  for (size_t i = 0; i < 2 && !binary; i++) {
    trn_status status = spark__coerce(b, i, trn__type(TRN_TYPE_STRING));
    if (status) return status;
  }
  const trn_expr *args[4] = {b->args[0], b->args[1], b->args[2], argument_or(b, 3, number(b, -1))};
  return spark__gives(b, spark__kernel(b->t, "trn.overlay", b->args[0]->type, args, 4), out);
}

/* ---- concat: of binaries, of arrays, else of strings ---- */
static bool all_are(const spark_builder *b, trn_type_id id) {
  for (size_t i = 0; i < b->count; i++)
    if (b->args[i]->type->id != id) return false;
  return b->count > 0;
}

static trn_status build_concat(spark_builder *b, const trn_expr **out) {
  const trn_type *type = trn__type(TRN_TYPE_STRING), *common = NULL;
  static const char required[] = "(\"STRING\" or \"BINARY\" or \"ARRAY\")";
  trn_status status = TRN_OK;
  bool arrays = all_are(b, TRN_TYPE_ARRAY), any_array = false;
  if (!b->count) return spark__gives(b, text(b, ""), out);
  for (size_t i = 0; i < b->count; i++) {
    const trn_type *given = b->args[i]->type;
    any_array = any_array || given->id == TRN_TYPE_ARRAY;
    bool fits = given->id == TRN_TYPE_ARRAY || given->id == TRN_TYPE_NULL || spark__is_atomic(given) ||
                given->id == TRN_TYPE_INTERVAL_CALENDAR;
    if (!fits) return spark__unexpected_input(b, i, required, given);
  }
  if (arrays) {
    if ((status = spark__coerce_common(b, 0, 1, &common))) return status;
    return spark__gives(b, spark__kernel(b->t, "trn.array_concat", common, b->args, b->count), out);
  }
  if (any_array) {
    const char *list = spark__quoted_types(b->t, NULL, b->args, b->count);
    if (!list) return trn__no_memory(b->error);
    return spark__mismatch(b, "DATATYPE_MISMATCH.DATA_DIFF_TYPES", "functionName", "`concat`", "dataType", list,
                           (char *)NULL);
  }
  if (all_are(b, TRN_TYPE_BINARY)) type = trn__type(TRN_TYPE_BINARY);
  for (size_t i = 0; i < b->count; i++)
    if ((status = spark__coerce(b, i, type))) return status;
  return spark__gives(b, spark__kernel(b->t, "trn.concat", type, b->args, b->count), out);
}

static trn_status build_concat_ws(spark_builder *b, const trn_expr **out) {
  for (size_t i = 0; i < b->count; i++) {
    const trn_type *type = b->args[i]->type;
    if (i > 0 && type->id == TRN_TYPE_ARRAY && spark__is_string(type->fields[0].type))
      continue; /* its elements are joined too */
    if (!spark__is_atomic(type) && type->id != TRN_TYPE_NULL)
      return spark__unexpected_input(b, i, i ? "(\"ARRAY<STRING>\" or \"STRING\")" : "\"STRING\"", type);
    trn_status status = spark__coerce(b, i, trn__type(TRN_TYPE_STRING));
    if (status) return status;
  }
  trn_expr *expr = spark__kernel(b->t, "trn.concat_ws", trn__type(TRN_TYPE_STRING), b->args, b->count);
  if (expr) expr->nullable = b->args[0]->nullable;
  return spark__gives(b, expr, out);
}

static trn_status build_reverse(spark_builder *b, const trn_expr **out) {
  if (b->args[0]->type->id == TRN_TYPE_ARRAY)
    return spark__gives(b, spark__kernel(b->t, "trn.reverse", b->args[0]->type, b->args, 1), out);
  if (b->args[0]->type->id == TRN_TYPE_BINARY)
    return spark__gives(b, spark__kernel(b->t, "trn.reverse_binary", b->args[0]->type, b->args, 1), out);
  const trn_type *type = spark__implicit_type(b->t, b->args[0]->type, 's');
  if (!type) return spark__unexpected_input(b, 0, "(\"STRING\" or \"ARRAY\")", b->args[0]->type);
  trn_status status = spark__coerce(b, 0, type);
  if (status) return status;
  return spark__gives(b, spark__kernel(b->t, "trn.reverse", b->args[0]->type, b->args, 1), out);
}

/* contains, startswith, endswith: two strings or two binaries. */
static trn_status build_inside(spark_builder *b, const trn_expr **out) {
  bool binary = b->args[0]->type->id == TRN_TYPE_BINARY && b->args[1]->type->id == TRN_TYPE_BINARY;
  for (size_t i = 0; i < 2 && !binary; i++) {
    trn_status status = spark__coerce(b, i, trn__type(TRN_TYPE_STRING));
    if (status) return status;
  }
  trn_expr *expr = spark__kernel(b->t, b->function->run, trn__type(TRN_TYPE_BOOL), b->args, 2);
  if (expr && binary) expr->nullable = true;
  return spark__gives(b, expr, out);
}

static trn_status build_hex(spark_builder *b, const trn_expr **out) {
  const trn_type *type = b->args[0]->type;
  if (type->id != TRN_TYPE_BINARY && !spark__is_string(type)) {
    const trn_type *target = spark__implicit_type(b->t, type, 'l');
    if (!target || !trn__type_is_numeric(type))
      return spark__unexpected_input(b, 0, "(\"BIGINT\" or \"BINARY\" or \"STRING\")", type);
    trn_status status = spark__coerce(b, 0, target);
    if (status) return status;
  }
  return spark__gives(b, spark__kernel(b->t, "trn.hex", trn__type(TRN_TYPE_STRING), b->args, 1), out);
}

/* java.text.DecimalFormat's patterns of digits: "#,##0.00". False: another pattern. */
static bool read_pattern(const char *p, int64_t sizes[4]) {
  int64_t most = 0, least = 0, whole = 0, group = 0, since = 0;
  bool point = false, grouped = false;
  for (; *p; p++) {
    if (*p == '.' && !point) {
      point = true;
    } else if (*p == ',' && !point) {
      grouped = true;
      since = 0;
    } else if (*p == '#' || *p == '0') {
      most += point;
      least = point && *p == '0' ? most : least;
      whole += !point && *p == '0';
      since += !point;
    } else {
      return false;
    }
  }
  if (grouped) group = since;
  sizes[0] = most, sizes[1] = least, sizes[2] = whole ? whole : 1, sizes[3] = group;
  return most <= 300 && sizes[2] <= 300;
}

static trn_status format_by_pattern(spark_builder *b, const trn_expr **out) {
  const trn_expr *pattern = b->args[1], *args[5] = {b->args[0]};
  int64_t sizes[4];
  if (!spark__is_literal(pattern)) return spark__not_supported(b, "a pattern that is not a literal");
  if (!read_pattern(pattern->u.literal.value.bytes.data, sizes)) return spark__not_supported(b, "this pattern");
  for (size_t i = 0; i < 4; i++) args[1 + i] = trn__expr_int(b->t->arena, trn__type(TRN_TYPE_INT32), sizes[i]);
  return spark__gives(b, spark__kernel(b->t, "trn.format_number", trn__type(TRN_TYPE_STRING), args, 5), out);
}

static trn_status build_format_number(spark_builder *b, const trn_expr **out) {
  const trn_type *format = b->args[1]->type;
  if (spark__is_string(format)) return format_by_pattern(b, out);
  const trn_type *digits = spark__implicit_type(b->t, format, 'i');
  if (!digits) return spark__unexpected_input(b, 1, "(\"INT\" or \"STRING\")", format);
  trn_status status = spark__coerce(b, 1, digits);
  if (status) return status;
  return spark__gives(b, spark__kernel(b->t, "trn.format_number", trn__type(TRN_TYPE_STRING), b->args, 2), out);
}

/* hash functions take anything; nulls are skipped, so that the result never is. */
static trn_status build_hash(spark_builder *b, const trn_expr **out) {
  for (size_t i = 0; i < b->count; i++)
    if (b->args[i]->type->id == TRN_TYPE_MAP)
      return spark__mismatch(b, "DATATYPE_MISMATCH.HASH_MAP_TYPE", "functionName",
                             b->function->run[4] == 'h' ? "`hash`" : "`xxhash64`", (char *)NULL);
  const trn_type *type = trn__type(b->function->run[4] == 'h' ? TRN_TYPE_INT32 : TRN_TYPE_INT64);
  return spark__gives(b, spark__kernel(b->t, b->function->run, type, b->args, b->count), out);
}

static const spark_function rows[] = {
    {"upper", "s", "s", "trn.upper", NULL, NULL, 0, 0},
    {"ucase", "s", "s", "trn.upper", NULL, NULL, 0, 0},
    {"lower", "s", "s", "trn.lower", NULL, NULL, 0, 0},
    {"lcase", "s", "s", "trn.lower", NULL, NULL, 0, 0},
    {"initcap", "s", "s", "trn.initcap", NULL, NULL, 0, 0},
    {"substring", "xi|i", NULL, NULL, build_substring, NULL, 0, 0},
    {"substr", "xi|i", NULL, NULL, build_substring, NULL, 0, 0},
    {"left", "xi", "1", "trn.left", NULL, NULL, 0, 0},
    {"right", "si", "s", "trn.right", NULL, NULL, SPARK_NULLABLE, 0},
    {"trim", "s|s", NULL, "b", build_trim, NULL, 0, 0},
    {"ltrim", "s|s", NULL, "l", build_trim, NULL, 0, 0},
    {"rtrim", "s|s", NULL, "r", build_trim, NULL, 0, 0},
    {"btrim", "s|s", NULL, NULL, build_btrim, NULL, 0, 0},
    {"lpad", "xi|x", NULL, "trn.lpad", build_pad, NULL, 0, 0},
    {"rpad", "xi|x", NULL, "trn.rpad", build_pad, NULL, 0, 0},
    {"length", "x", NULL, NULL, build_length, NULL, 0, 0},
    {"len", "x", NULL, NULL, build_length, NULL, 0, 0},
    {"char_length", "x", NULL, NULL, build_length, NULL, 0, 0},
    {"character_length", "x", NULL, NULL, build_length, NULL, 0, 0},
    {"octet_length", "x", "i", "trn.octet_length", NULL, NULL, 0, 0},
    {"bit_length", "x", "i", "trn.bit_length", NULL, NULL, 0, 0},
    {"concat", "|a+", NULL, NULL, build_concat, NULL, 0, 0},
    {"||", "aa", NULL, NULL, build_concat, "=concat", 0, 0},
    {"concat_ws", "a|a+", NULL, NULL, build_concat_ws, NULL, 0, 0},
    {"contains", "xx", NULL, "trn.contains", build_inside, NULL, 0, 0},
    {"startswith", "xx", NULL, "trn.startswith", build_inside, NULL, 0, 0},
    {"endswith", "xx", NULL, "trn.endswith", build_inside, NULL, 0, 0},
    {"instr", "ss", "i", "trn.instr", NULL, NULL, 0, 0},
    {"locate", "ss|i", NULL, NULL, build_locate, NULL, 0, 0},
    {"position", "ss|i", NULL, NULL, build_locate, NULL, 0, 0},
    {"replace", "ss|s", NULL, NULL, build_replace, NULL, 0, 0},
    {"translate", "sss", "s", "trn.translate", NULL, NULL, 0, 0},
    {"repeat", "si", "s", "trn.repeat", NULL, NULL, 0, 0},
    {"reverse", "a", NULL, NULL, build_reverse, NULL, 0, 0},
    {"space", "i", "s", "trn.space", NULL, NULL, 0, 0},
    {"ascii", "s", "i", "trn.ascii", NULL, NULL, 0, 0},
    {"chr", "l", "s", "trn.chr", NULL, NULL, 0, 0},
    {"char", "l", "s", "trn.chr", NULL, NULL, 0, 0},
    {"base64", "b", "s", "trn.base64", NULL, NULL, 0, 0},
    {"unbase64", "s", "b", "trn.unbase64", NULL, NULL, 0, 0},
    {"hex", "a", NULL, NULL, build_hex, NULL, 0, 0},
    {"unhex", "s", "b", "trn.unhex", NULL, NULL, SPARK_NULLABLE, 0},
    {"soundex", "s", "s", "trn.soundex", NULL, NULL, 0, 0},
    {"levenshtein", "ss|i", "i", "trn.levenshtein", NULL, NULL, 0, 0},
    {"split_part", "ssi", "s", "trn.split_part", NULL, NULL, SPARK_POSITION | SPARK_NULLABLE, 0},
    {"substring_index", "ssi", "s", "trn.substring_index", NULL, NULL, 0, 0},
    {"overlay", "xxi|i", NULL, NULL, build_overlay, NULL, 0, 0},
    {"format_number", "na", NULL, NULL, build_format_number, NULL, SPARK_NULLABLE, 0},
    {"md5", "b", "s", "trn.md5", NULL, NULL, 0, 0},
    {"sha", "b", "s", "trn.sha1", NULL, NULL, 0, 0},
    {"sha1", "b", "s", "trn.sha1", NULL, NULL, 0, 0},
    {"sha2", "bi", "s", "trn.sha2", NULL, NULL, SPARK_NULLABLE, 0},
    {"crc32", "b", "l", "trn.crc32", NULL, NULL, 0, 0},
    {"hash", "a+", NULL, "trn.hash", build_hash, NULL, SPARK_NEVER_NULL, 0},
    {"xxhash64", "a+", NULL, "trn.xxhash64", build_hash, NULL, SPARK_NEVER_NULL, 0},
};
const spark_function_table spark__functions_string = {rows, sizeof rows / sizeof rows[0]};
