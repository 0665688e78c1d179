/* Types, arithmetic and functions of policy texts. */
#include "plan/text.h"

#include <errno.h>

static trn_status give(text_parser *p, const trn_expr *expr, const trn_expr **out) {
  *out = expr;
  return expr ? TRN_OK : trn__no_memory(p->error);
}

/* ---- numbers ---- */

/* Digits with a point are a decimal, with an exponent (or too many digits) a double. */
trn_status trn__text_number(text_parser *p, text_token at, bool negative, const trn_expr **out) {
  const char *digits = p->text + at.start;
  int precision = 0, scale = 0;
  bool has_point = false, has_exponent = false;
  trn_i128 value = 0;
  for (size_t i = 0; i < at.size; i++) {
    if (digits[i] == '.') {
      has_point = true;
    } else if (digits[i] == 'e' || digits[i] == 'E') {
      has_exponent = true;
      break;
    } else {
      if (precision >= 38) return trn__text_fail(p, at, "a number has more than 38 digits");
      value = value * 10 + (digits[i] - '0');
      precision += value != 0;
      scale += has_point;
    }
  }
  if (negative) value = -value;
  if (has_exponent) {
    char copy[64];
    if (at.size >= sizeof copy) return trn__text_fail(p, at, "a number is too long");
    memcpy(copy, digits, at.size);
    copy[at.size] = 0;
    double number = strtod(copy, NULL);
    return give(p, trn_edit_double(p->edit, negative ? -number : number), out);
  }
  if (!scale && value >= INT32_MIN && value <= INT32_MAX)
    return give(p, trn_edit_int(p->edit, trn__type(TRN_TYPE_INT32), (int64_t)value), out);
  if (!scale && value >= INT64_MIN && value <= INT64_MAX)
    return give(p, trn_edit_int(p->edit, trn__type(TRN_TYPE_INT64), (int64_t)value), out);
  if (precision < scale) precision = scale;
  const trn_type *type = trn_edit_decimal(p->edit, precision ? precision : 1, scale);
  trn_expr *expr = type ? trn__expr_create(p->edit->arena, TRN_EXPR_LITERAL, type, false, NULL, 0) : NULL;
  if (expr) {
    expr->u.literal.value.decimal.low = (uint64_t)value;
    expr->u.literal.value.decimal.high = (int64_t)(value >> 64);
  }
  return give(p, expr, out);
}

/* ---- types ---- */

static bool is_float(const trn_type *type) {
  return type->id == TRN_TYPE_FLOAT32 || type->id == TRN_TYPE_FLOAT64;
}
static bool is_time(const trn_type *type) {
  return type->id == TRN_TYPE_DATE || type->id == TRN_TYPE_TIMESTAMP || type->id == TRN_TYPE_TIMESTAMP_NTZ;
}

/* An integer's digits, a decimal's own. */
static void decimal_of(const trn_type *type, int *precision, int *scale) {
  static const int digits[] = {[TRN_TYPE_INT8] = 3, [TRN_TYPE_INT16] = 5, [TRN_TYPE_INT32] = 10, [TRN_TYPE_INT64] = 19};
  *precision = type->id == TRN_TYPE_DECIMAL ? type->precision : digits[type->id];
  *scale = type->id == TRN_TYPE_DECIMAL ? type->scale : 0;
}

/* The type that holds every value of both; NULL: there is none. */
static const trn_type *common_type(text_parser *p, const trn_type *a, const trn_type *b) {
  if (trn__type_same_shape(a, b)) return a;
  if (a->id == TRN_TYPE_NULL) return b;
  if (b->id == TRN_TYPE_NULL) return a;
  if (trn__type_is_numeric(a) && trn__type_is_numeric(b)) {
    if (is_float(a) || is_float(b)) return trn__type(TRN_TYPE_FLOAT64);
    if (trn__type_is_integer(a) && trn__type_is_integer(b)) return a->id > b->id ? a : b;
    int p1, s1, p2, s2;
    decimal_of(a, &p1, &s1), decimal_of(b, &p2, &s2);
    int scale = s1 > s2 ? s1 : s2, whole = p1 - s1 > p2 - s2 ? p1 - s1 : p2 - s2;
    return whole + scale <= 38 ? trn_edit_decimal(p->edit, whole + scale, scale) : trn__type(TRN_TYPE_FLOAT64);
  }
  if (a->id == TRN_TYPE_STRING && is_time(b)) return b; /* '2024-01-31' beside a date */
  if (b->id == TRN_TYPE_STRING && is_time(a)) return a;
  if (is_time(a) && is_time(b)) return a->id > b->id ? a : b;
  return a->id == TRN_TYPE_STRING && b->id == TRN_TYPE_STRING ? trn__type(TRN_TYPE_STRING) : NULL;
}

trn_status trn__text_unify(text_parser *p, text_token at, const trn_expr **a, const trn_expr **b) {
  const trn_type *type = common_type(p, (*a)->type, (*b)->type);
  if (!type) {
    trn_strbuf left = {0}, right = {0};
    trn__type_print(&left, (*a)->type), trn__type_print(&right, (*b)->type);
    trn_status status = trn__text_fail(p, at, "%s and %s do not go together (cast one)", left.data ? left.data : "?",
                                       right.data ? right.data : "?");
    trn__strbuf_finish(&left), trn__strbuf_finish(&right);
    return status;
  }
  trn_status status = give(p, trn_edit_cast(p->edit, *a, type, false), a);
  return status ? status : give(p, trn_edit_cast(p->edit, *b, type, false), b);
}

trn_status trn__text_cast(text_parser *p, text_token at, const trn_expr *value, const trn_type *type,
                          const trn_expr **out) {
  const trn_type *from = value->type;
  bool is_nested = from->id >= TRN_TYPE_ARRAY || type->id >= TRN_TYPE_ARRAY;
  if (is_nested && from->id != TRN_TYPE_NULL && !trn__type_same_shape(from, type))
    return trn__text_fail(p, at, "nested values are not cast");
  return give(p, trn_edit_cast(p->edit, value, type, false), out);
}

trn_status trn__text_type(text_parser *p, const trn_type **out) {
  static const struct {
    const char *name;
    trn_type_id id;
  } names[] = {{"boolean", TRN_TYPE_BOOL},   {"tinyint", TRN_TYPE_INT8},       {"smallint", TRN_TYPE_INT16},
               {"int", TRN_TYPE_INT32},      {"integer", TRN_TYPE_INT32},      {"bigint", TRN_TYPE_INT64},
               {"float", TRN_TYPE_FLOAT32},  {"double", TRN_TYPE_FLOAT64},     {"string", TRN_TYPE_STRING},
               {"varchar", TRN_TYPE_STRING}, {"binary", TRN_TYPE_BINARY},      {"date", TRN_TYPE_DATE},
               {"timestamp", TRN_TYPE_TIMESTAMP}, {"timestamp_ntz", TRN_TYPE_TIMESTAMP_NTZ}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (trn__text_is(p, names[i].name)) {
      *out = trn__type(names[i].id);
      return trn__text_next(p);
    }
  if (!trn__text_is(p, "decimal")) return trn__text_fail(p, p->token, "a type is missing");
  int numbers[2] = {10, 0};
  trn_status status = trn__text_next(p);
  for (int i = 0; i < 2 && status == TRN_OK && trn__text_is(p, i ? "," : "("); i++) {
    status = trn__text_next(p);
    if (status == TRN_OK && (p->token.kind != TEXT_NUMBER || p->token.size > 2))
      return trn__text_fail(p, p->token, "a number of digits is missing");
    if (status == TRN_OK) numbers[i] = atoi(p->text + p->token.start);
    if (status == TRN_OK) status = trn__text_next(p);
    if (status == TRN_OK && trn__text_is(p, ")")) {
      status = trn__text_next(p);
      break;
    }
  }
  if (status) return status;
  *out = trn_edit_decimal(p->edit, numbers[0], numbers[1]);
  return *out ? TRN_OK : trn__text_fail(p, p->token, "there is no such decimal");
}

/* ---- arithmetic: only where nothing can wrap ---- */

static trn_status double_arithmetic(text_parser *p, char operation, const trn_expr *a, const trn_expr *b,
                                    const trn_expr **out) {
  const char name[2] = {operation, 0};
  const trn_type *type = trn__type(TRN_TYPE_FLOAT64);
  const trn_expr *args[] = {trn_edit_cast(p->edit, a, type, false), trn_edit_cast(p->edit, b, type, false)};
  return give(p, trn_edit_call(p->edit, TRN_HOME_NATIVE, name, type, a->nullable || b->nullable, args, 2), out);
}

trn_status trn__text_arithmetic(text_parser *p, text_token at, char operation, const trn_expr *a, const trn_expr *b,
                                const trn_expr **out) {
  bool a_is_unknown = trn__text_is_unknown(p, a), b_is_unknown = trn__text_is_unknown(p, b);
  if ((!trn__type_is_numeric(a->type) && !a_is_unknown) || (!trn__type_is_numeric(b->type) && !b_is_unknown))
    return trn__text_fail(p, at, "'%c' is for numbers", operation);
  if (a_is_unknown || b_is_unknown) return give(p, a_is_unknown ? a : b, out);
  if (operation == '/' || operation == '%' || is_float(a->type) || is_float(b->type))
    return double_arithmetic(p, operation, a, b, out);
  int p1, s1, p2, s2;
  decimal_of(a->type, &p1, &s1), decimal_of(b->type, &p2, &s2);
  int scale = operation == '*' ? s1 + s2 : s1 > s2 ? s1 : s2;
  int whole = operation == '*' ? p1 - s1 + p2 - s2 : (p1 - s1 > p2 - s2 ? p1 - s1 : p2 - s2) + 1;
  if (operation == '*') whole++;
  if (whole + scale > 38) return double_arithmetic(p, operation, a, b, out);
  const trn_type *type = trn_edit_decimal(p->edit, whole + scale, scale);
  const char name[2] = {operation, 0};
  const trn_expr *args[] = {trn_edit_cast(p->edit, a, trn_edit_decimal(p->edit, p1, s1), false),
                            trn_edit_cast(p->edit, b, trn_edit_decimal(p->edit, p2, s2), false)};
  return give(p, trn_edit_call(p->edit, TRN_HOME_NATIVE, name, type, a->nullable || b->nullable, args, 2), out);
}

/* ---- functions ---- */

/* Arguments: s text, t text or binary, i a number cast to int; '|' makes the rest optional, '+' repeats the last. */
typedef struct text_function {
  const char *name, *library, *args;
  trn_type_id result;
  bool is_nullable; /* null can come out where none went in */
} text_function;

static const text_function functions[] = {{"upper", "trn.upper", "s", TRN_TYPE_STRING, false},
                                          {"lower", "trn.lower", "s", TRN_TYPE_STRING, false},
                                          {"trim", "trn.trim", "s", TRN_TYPE_STRING, false},
                                          {"ltrim", "trn.ltrim", "s", TRN_TYPE_STRING, false},
                                          {"rtrim", "trn.rtrim", "s", TRN_TYPE_STRING, false},
                                          {"length", "trn.length", "t", TRN_TYPE_INT32, false},
                                          {"left", "trn.left", "si", TRN_TYPE_STRING, false},
                                          {"right", "trn.right", "si", TRN_TYPE_STRING, false},
                                          {"substr", "trn.substring", "si|i", TRN_TYPE_STRING, false},
                                          {"substring", "trn.substring", "si|i", TRN_TYPE_STRING, false},
                                          {"repeat", "trn.repeat", "si", TRN_TYPE_STRING, false},
                                          {"replace", "trn.replace", "ss|s", TRN_TYPE_STRING, false},
                                          {"translate", "trn.translate", "sss", TRN_TYPE_STRING, false},
                                          {"concat", "trn.concat", "s+", TRN_TYPE_STRING, false},
                                          {"||", "trn.concat", "ss", TRN_TYPE_STRING, false},
                                          {"instr", "trn.instr", "ss", TRN_TYPE_INT32, false},
                                          {"startswith", "trn.startswith", "ss", TRN_TYPE_BOOL, false},
                                          {"endswith", "trn.endswith", "ss", TRN_TYPE_BOOL, false},
                                          {"contains", "trn.contains", "ss", TRN_TYPE_BOOL, false},
                                          {"md5", "trn.md5", "t", TRN_TYPE_STRING, false},
                                          {"sha1", "trn.sha1", "t", TRN_TYPE_STRING, false},
                                          {"sha2", "trn.sha2", "ti", TRN_TYPE_STRING, true}};

static bool token_is(const text_parser *p, text_token at, const char *word) {
  text_parser other = *p;
  other.token = at;
  return trn__text_is(&other, word);
}

static trn_status argument(text_parser *p, text_token at, char letter, const trn_expr **arg) {
  trn_type_id id = (trn_type_id)(*arg)->type->id;
  if (trn__text_is_unknown(p, *arg)) return TRN_OK;
  if (letter == 'i') {
    if (!trn__type_is_integer((*arg)->type)) return trn__text_fail(p, at, "an argument must be an integer");
    return give(p, trn_edit_cast(p->edit, *arg, trn__type(TRN_TYPE_INT32), false), arg);
  }
  if (id == TRN_TYPE_NULL) return give(p, trn_edit_null(p->edit, trn__type(TRN_TYPE_STRING)), arg);
  if (id == TRN_TYPE_STRING || (letter == 't' && id == TRN_TYPE_BINARY)) return TRN_OK;
  return trn__text_fail(p, at, "an argument must be text (cast it)");
}

static trn_status library_call(text_parser *p, text_token at, const text_function *f, const trn_expr **args,
                               size_t count, const trn_expr **out) {
  size_t letter = 0, least = 0;
  while (f->args[least] && f->args[least] != '|') least++;
  bool repeats = least && f->args[least - 1] == '+';
  if (repeats) least--;
  size_t most = least + (f->args[least] == '|' ? strlen(f->args) - least - 1 : 0);
  if (count < least || (!repeats && count > most))
    return trn__text_fail(p, at, "%s takes %zu to %zu arguments, not %zu", f->name, least, most, count);
  bool nullable = f->is_nullable;
  trn_status status = TRN_OK;
  for (size_t i = 0; i < count && status == TRN_OK; i++) {
    if (f->args[letter] == '|') letter++;
    status = argument(p, at, f->args[letter], &args[i]);
    if (status == TRN_OK) nullable |= args[i]->nullable;
    if (f->args[letter + 1] != '+') letter++;
  }
  if (status) return status;
  const trn_type *type = trn__type(f->result);
  return give(p, trn_edit_call(p->edit, TRN_HOME_LIBRARY, f->library, type, nullable, args, count), out);
}

static bool is_member(const text_parser *p, trn_str name) {
  for (size_t i = 0; p->context && i < p->context->group_count; i++)
    if (strlen(p->context->groups[i]) == name.size && memcmp(p->context->groups[i], name.data, name.size) == 0)
      return true;
  return false;
}

/* coalesce(a, b, ...) as a case: no function of the engine is needed. */
static trn_status coalesce(text_parser *p, text_token at, const trn_expr **args, size_t count, const trn_expr **out) {
  trn_status status = TRN_OK;
  if (!count) return trn__text_fail(p, at, "coalesce takes at least one argument");
  const trn_expr *value = args[count - 1];
  for (size_t i = count - 1; i-- > 0 && status == TRN_OK;) {
    status = trn__text_unify(p, at, &args[i], &value);
    if (status) break;
    const trn_expr *there = trn_edit_call(p->edit, TRN_HOME_NATIVE, "is_not_null", trn__type(TRN_TYPE_BOOL), false,
                                          &args[i], 1);
    const trn_expr *branches[] = {there, args[i], value};
    status = give(p, trn_edit_case(p->edit, branches, 3), &value);
  }
  *out = value;
  return status;
}

static trn_status conditional(text_parser *p, text_token at, const trn_expr **args, size_t count,
                              const trn_expr **out) {
  if (count != 3 || (args[0]->type->id != TRN_TYPE_BOOL && !trn__text_is_unknown(p, args[0])))
    return trn__text_fail(p, at, "if takes a condition and two values");
  trn_status status = trn__text_unify(p, at, &args[1], &args[2]);
  return status ? status : give(p, trn_edit_case(p->edit, args, 3), out);
}

trn_status trn__text_function(text_parser *p, text_token name, const trn_expr **args, size_t count,
                              const trn_expr **out) {
  bool is_user = token_is(p, name, "current_user") || token_is(p, name, "session_user") || token_is(p, name, "user");
  if (is_user && !count) {
    const char *user = p->context && p->context->user ? p->context->user : "";
    return give(p, trn_edit_text(p->edit, user, strlen(user)), out);
  }
  if (token_is(p, name, "is_member")) {
    if (count != 1 || args[0]->kind != TRN_EXPR_LITERAL || args[0]->type->id != TRN_TYPE_STRING)
      return trn__text_fail(p, name, "is_member takes the name of a group");
    return give(p, trn_edit_bool(p->edit, is_member(p, trn_expr_literal_bytes(args[0]))), out);
  }
  if (token_is(p, name, "coalesce")) return coalesce(p, name, args, count, out);
  if (token_is(p, name, "if")) return conditional(p, name, args, count, out);
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if (token_is(p, name, functions[i].name)) return library_call(p, name, &functions[i], args, count, out);
  return trn__text_fail(p, name, "there is no function '%.*s' for policies", (int)name.size, p->text + name.start);
}
