/* Literals and refusals that the dialects of SQL write alike. */
#include "plan/sql_print.h"

trn_status trn__sql_refuse_type(sql_printer *p, const trn_type *type) {
  trn_strbuf text = {0};
  trn__type_print(&text, type);
  trn_status status = trn__sql_refuse(p, "the type %s", text.data ? text.data : "");
  trn__strbuf_finish(&text);
  return status;
}

trn_status trn__sql_date(sql_printer *p, int64_t days) {
  enum { FIRST = -719528, LAST = 2932896 }; /* 0000-01-01, 9999-12-31 */
  if (days < FIRST || days > LAST) return trn__sql_refuse(p, "a date outside of the years 0 to 9999");
  int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097, of_era = z - era * 146097;
  int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  int64_t of_year = of_era - (365 * year + year / 4 - year / 100), month = (5 * of_year + 2) / 153;
  int day = (int)(of_year - (153 * month + 2) / 5) + 1;
  month = month < 10 ? month + 3 : month - 9;
  trn__sql_printf(p, "%04d-%02d-%02d", (int)(year + era * 400 + (month <= 2)), (int)month, day);
  return TRN_OK;
}

void trn__sql_quoted(sql_printer *p, const char *data, size_t size) {
  trn__strbuf_putc(p->out, '\'');
  for (size_t i = 0; i < size; i++) {
    if (data[i] == '\'') trn__strbuf_putc(p->out, '\'');
    trn__strbuf_putc(p->out, data[i]);
  }
  trn__strbuf_putc(p->out, '\'');
}

void trn__sql_hex(sql_printer *p, const char *data, size_t size) {
  trn__sql_puts(p, "x'");
  for (size_t i = 0; i < size; i++) trn__sql_printf(p, "%02x", (unsigned char)data[i]);
  trn__sql_puts(p, "'");
}

trn_status trn__sql_refuse_cast(sql_printer *p, const trn_type *from, const trn_type *to) {
  trn_strbuf text = {0};
  trn__strbuf_puts(&text, "a cast from ");
  trn__type_print(&text, from);
  trn__strbuf_puts(&text, " to ");
  trn__type_print(&text, to);
  trn_status status = trn__sql_refuse(p, "%s", text.data ? text.data : "a cast");
  trn__strbuf_finish(&text);
  return status;
}

/* ---- arguments ---- */

const trn_literal *trn__sql_text_argument(const trn_expr *e, uint32_t index) {
  const trn_expr *arg = index < e->arg_count ? e->args[index] : NULL;
  bool is_text = arg && arg->kind == TRN_EXPR_LITERAL && arg->type->id == TRN_TYPE_STRING && !arg->u.literal.is_null;
  return is_text ? &arg->u.literal : NULL;
}

bool trn__sql_escapes_plainly(const trn_expr *like) {
  const trn_literal *escape = trn__sql_text_argument(like, 2);
  return escape && escape->value.bytes.size == 1 && escape->value.bytes.data[0] == '\\';
}

bool trn__sql_whole_argument(const trn_expr *e, uint32_t index, int64_t *out) {
  const trn_expr *arg = index < e->arg_count ? e->args[index] : NULL;
  bool is_whole = arg && arg->kind == TRN_EXPR_LITERAL && trn__type_is_integer(arg->type) && !arg->u.literal.is_null;
  if (is_whole) *out = arg->u.literal.value.integer;
  return is_whole;
}

bool trn__sql_is_family(const char *name, const char *stem, bool *is_try) {
  size_t size = strlen(stem);
  if (strncmp(name, stem, size) != 0) return false;
  *is_try = strcmp(name + size, "_try") == 0;
  return name[size] == 0 || *is_try;
}

