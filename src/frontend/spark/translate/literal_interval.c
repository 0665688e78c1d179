/* INTERVAL forms: numbers with units, 'text' FROM TO, and a text with units inside. */
#include "frontend/spark/translate/values.h"
#include <strings.h>

typedef struct unit {
  const char *name;
  bool months;   /* counts months, else microseconds */
  uint8_t field; /* the field of the type that it sets */
  int64_t size;
} unit;
static const unit units[] = {
    {"year", true, 0, 12},
    {"month", true, 1, 1},
    {"week", false, 0, INT64_C(604800000000)},
    {"day", false, 0, INT64_C(86400000000)},
    {"hour", false, 1, INT64_C(3600000000)},
    {"minute", false, 2, INT64_C(60000000)},
    {"second", false, 3, INT64_C(1000000)},
    {"millisecond", false, 3, 1000},
    {"microsecond", false, 3, 1},
};

static const unit *find_unit(const char *name, size_t size) {
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
    size_t length = strlen(units[i].name);
    bool plural = size == length + 1 && (name[length] == 's' || name[length] == 'S');
    if ((size == length || plural) && !strncasecmp(name, units[i].name, length)) return &units[i];
  }
  return NULL;
}

/* What the parts of an interval add up to. */
typedef struct sum {
  int64_t months, micros;
  bool has_months, has_micros;
  uint8_t first, last;
} sum;

/* ---- errors ---- */
static const char *word_of(spark_translator *t, const char *name) { /* lower case */
  char *copy = trn__arena_strdup(t->arena, name);
  for (char *p = copy; p && *p; p++)
    if (*p >= 'A' && *p <= 'Z') *p = (char)(*p - 'A' + 'a');
  return copy ? copy : "";
}

/* 'text' FROM TO: what the fields should have looked like. */
static trn_status bad_fields(spark_translator *t, const char *text, const unit *from, const unit *to,
                             trn_position position, trn_error **error) {
  static const char *const letters[] = {"d", "h", "m", "s.n"}, *const names[] = {"DAY", "HOUR", "MINUTE", "SECOND"};
  const char *type = trn__arena_printf(t->arena, "interval %s to %s", from->name, to->name), *format;
  if (!type) return trn__no_memory(error);
  if (from->months) {
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "INVALID_INTERVAL_FORMAT.UNMATCHED_FORMAT_STRING", position,
                        "intervalStr", "year-month", "supportedFormat",
                        "`[+|-]y-m`, `INTERVAL [+|-]'[+|-]y-m' YEAR TO MONTH`", "typeName", type, "input", text,
                        (char *)NULL);
  }
  trn_strbuf shape = {0};
  for (uint8_t i = from->field; i <= to->field; i++)
    trn__strbuf_printf(&shape, "%s%s", i == from->field ? "" : i == 1 ? " " : ":", letters[i]);
  const char *fields = spark__finish_text(t, &shape);
  if (!fields) return trn__no_memory(error);
  format = trn__arena_printf(t->arena, "`[+|-]%s`, `INTERVAL [+|-]'[+|-]%s' %s TO %s`", fields, fields,
                             names[from->field], names[to->field]);
  if (!format) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "INVALID_INTERVAL_FORMAT.UNMATCHED_FORMAT_STRING_WITH_NOTICE",
                      position, "intervalStr", "day-time", "supportedFormat", format, "typeName", type, "input", text,
                      (char *)NULL);
}

static trn_status bad_interval(spark_translator *t, const Spark__Connect__TrnInterval *proto, const char *text,
                               trn_position position, trn_error **error) {
  if (proto->n_units == 0) {
    const char *value = trn__arena_printf(t->arena, "'%s'", text);
    if (!value) return trn__no_memory(error);
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "INVALID_TYPED_LITERAL", position, "valueType", "\"INTERVAL\"",
                        "value", value, (char *)NULL);
  }
  for (size_t i = 0; i < proto->n_units; i++)
    if (!find_unit(proto->units[i], strlen(proto->units[i])))
      return spark__error(t, error, TRN_INVALID_ARGUMENT, "INVALID_INTERVAL_FORMAT.INVALID_UNIT", position, "input",
                          text, "unit", word_of(t, proto->units[i]), (char *)NULL);
  if (proto->n_values == 1 && proto->n_units == 2) {
    const unit *from = find_unit(proto->units[0], strlen(proto->units[0])),
               *to = find_unit(proto->units[1], strlen(proto->units[1]));
    if (from->months == to->months && from->field < to->field) return bad_fields(t, text, from, to, position, error);
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "INVALID_INTERVAL_FORMAT.UNSUPPORTED_FROM_TO_EXPRESSION",
                        position, "from", word_of(t, proto->units[0]), "to", word_of(t, proto->units[1]), "input", text,
                        (char *)NULL);
  }
  trn_i128 value;
  int precision, scale;
  if (spark__parse_decimal(text, strlen(text), &value, &precision, &scale) && scale == 0)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "INTERVAL_ARITHMETIC_OVERFLOW.WITHOUT_SUGGESTION", position,
                        (char *)NULL);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "_LEGACY_ERROR_TEMP_0026", position, "value", text, (char *)NULL);
}

static trn_status mixed_units(spark_translator *t, trn_position position, trn_error **error) {
  const char *text = "interval";
  if (t->sql && position.start >= 0 && position.stop >= position.start && (size_t)position.stop < t->sql_size)
    text = trn__arena_str(t->arena, t->sql + position.start, (size_t)(position.stop - position.start) + 1);
  if (!text) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "_LEGACY_ERROR_TEMP_0029", position, "literal", text,
                      (char *)NULL);
}

/* "[+-]digits[.digits]" times the unit; fractions only of seconds. */
static bool add_part(sum *total, const char *text, size_t size, const unit *of) {
  trn_i128 value;
  int precision, scale;
  if (size > 40 || !spark__parse_decimal(text, size, &value, &precision, &scale)) return false;
  for (size_t i = 0; i < size; i++)
    if (text[i] == 'e' || text[i] == 'E') return false;
  if (scale > 0 && (of->size != 1000000 || scale > 9)) return false;
  trn_i128 limit = spark__pow10(20);
  if (value > limit * 1000000000 || value < -limit * 1000000000) return false;
  value = value * of->size / spark__pow10(scale);
  value += of->months ? total->months : total->micros;
  if (value > (of->months ? INT32_MAX : INT64_MAX) || value < (of->months ? INT32_MIN : INT64_MIN)) return false;
  bool any = total->has_months || total->has_micros;
  if (!any || of->field < total->first) total->first = of->field;
  if (!any || of->field > total->last) total->last = of->field;
  if (of->months)
    total->months = (int64_t)value, total->has_months = true;
  else
    total->micros = (int64_t)value, total->has_micros = true;
  return !(total->has_months && total->has_micros);
}

static bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/* '1 day -2 hours', perhaps with the word INTERVAL before. */
static bool add_text(sum *total, const char *text) {
  const char *p = text;
  bool any = false;
  while (is_space(*p)) p++;
  if (!strncasecmp(p, "interval", 8) && is_space(p[8])) p += 8;
  for (;;) {
    while (is_space(*p)) p++;
    if (!*p) return any;
    const char *number = p, *after;
    if (*p == '+' || *p == '-') p++;
    const char *digits = p;
    while (is_space(*p)) p++; /* '- 1 day' */
    bool apart = p != digits;
    const char *first = p;
    while ((*p >= '0' && *p <= '9') || *p == '.') p++;
    after = p;
    if (after == first) return false;
    char text_of[48];
    size_t size = (size_t)(after - first), at = 0;
    if (size > 40) return false;
    if (number != first || apart) text_of[at++] = *number == '-' ? '-' : '+';
    memcpy(text_of + at, first, size);
    while (is_space(*p)) p++;
    const char *word = p;
    while ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z')) p++;
    const unit *of = find_unit(word, (size_t)(p - word));
    if (!of || !add_part(total, text_of, at + size, of)) return false;
    any = true;
  }
}

/* '[+-]1-2' YEAR TO MONTH, '[+-]1 02:03:04.5' DAY TO SECOND: fields from..to. */
static bool add_fields(sum *total, const char *text, const unit *from, const unit *to) {
  const char *p = text;
  bool negative = false;
  if (from->months != to->months || from->field >= to->field) return false;
  while (is_space(*p)) p++;
  if (*p == '+' || *p == '-') negative = *p++ == '-';
  for (uint8_t field = from->field; field <= to->field; field++) {
    const unit *of = NULL;
    for (size_t i = 0; i < sizeof units / sizeof units[0] && !of; i++)
      if (units[i].months == from->months && units[i].field == field && strcmp(units[i].name, "week") != 0)
        of = &units[i];
    const char *first = p;
    while (*p >= '0' && *p <= '9') p++;
    if (p == first) return false;
    if (field == 3 && *p == '.')
      for (p++; *p >= '0' && *p <= '9';) p++;
    char part[48];
    size_t size = (size_t)(p - first);
    if (size > 40 || !of) return false;
    part[0] = negative ? '-' : '+';
    memcpy(part + 1, first, size);
    int64_t value = strtoll(first, NULL, 10);
    if (field > from->field && value >= (from->months ? 12 : field == 1 ? 24 : 60)) return false;
    if (!add_part(total, part, size + 1, of)) return false;
    if (field == to->field) break;
    char separator = from->months ? '-' : field == 0 ? ' ' : ':';
    if (*p != separator && !(separator == ' ' && is_space(*p))) return false;
    while (separator == ' ' && is_space(*p)) p++;
    if (separator != ' ') p++;
  }
  while (is_space(*p)) p++;
  total->first = from->field;
  total->last = to->field;
  return !*p;
}

/* The text of one value of the interval: a string or an integer literal. */
static const char *text_of(spark_translator *t, const spark_value *value) {
  const trn_expr *expr = value->expr;
  if (!spark__is_literal(expr)) return NULL;
  if (spark__is_string(expr->type))
    return trn__arena_str(t->arena, expr->u.literal.value.bytes.data, expr->u.literal.value.bytes.size);
  return trn__type_is_numeric(expr->type) ? spark__literal_name(t, expr) : NULL;
}

static bool add_all(spark_translator *t, const Spark__Connect__TrnInterval *proto, const spark_value *values,
                    size_t count, sum *total, const char **bad) {
  for (size_t i = 0; i < count; i++) {
    const char *text = text_of(t, &values[i]);
    *bad = text ? text : values[i].name;
    if (!text) return false;
    if (proto->n_units == 0) {
      if (count != 1 || !add_text(total, text)) return false;
      continue;
    }
    const unit *of = find_unit(proto->units[i], strlen(proto->units[i]));
    if (!of) return false;
    if (count == 1 && proto->n_units == 2) {
      const unit *to = find_unit(proto->units[1], strlen(proto->units[1]));
      return to && add_fields(total, text, of, to);
    }
    size_t size = strlen(text);
    while (size && is_space(*text)) text++, size--;
    while (size && is_space(text[size - 1])) size--;
    if (!add_part(total, text, size, of)) return false;
  }
  return count > 0;
}

trn_status spark__interval(spark_translator *t, const Spark__Connect__TrnInterval *interval, const spark_value *values,
                           size_t value_count, trn_position position, spark_value *out, trn_error **error) {
  sum total = {0};
  const char *bad = "";
  bool fits =
      interval->n_units == 0 || interval->n_units == value_count || (value_count == 1 && interval->n_units == 2);
  if (!fits || !add_all(t, interval, values, value_count, &total, &bad)) {
    if (total.has_months && total.has_micros) return mixed_units(t, position, error);
    return bad_interval(t, interval, bad, position, error);
  }
  int64_t value = total.has_months ? total.months : total.micros;
  if (interval->negative) {
    if (value == INT64_MIN) return bad_interval(t, interval, bad, position, error);
    value = -value;
  }
  trn_type *type =
      trn__arena_copy(t->arena, trn__type(total.has_months ? TRN_TYPE_INTERVAL_YEAR_MONTH : TRN_TYPE_INTERVAL_DAY_TIME),
                      sizeof(trn_type));
  trn_expr *expr = NULL;
  if (type) {
    type->precision = total.first;
    type->scale = (int8_t)total.last;
    expr = trn__expr_int(t->arena, type, value);
  }
  if (!expr) return trn__no_memory(error);
  expr->position = position;
  *out = (spark_value){.expr = expr, .name = spark__literal_name(t, expr), .is_foldable = true, .is_literal = true};
  return out->name ? TRN_OK : trn__no_memory(error);
}
