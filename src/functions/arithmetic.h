/* Members of the arithmetic family, and the decimal half of it. */
#ifndef TRN_FUNCTIONS_ARITHMETIC_H
#define TRN_FUNCTIONS_ARITHMETIC_H
#include "functions/decimal.h"
#include "functions/frame.h"

enum { FN_ADD, FN_SUBTRACT, FN_MULTIPLY, FN_DIVIDE, FN_INT_DIVIDE, FN_REMAINDER, FN_PMOD, FN_NEGATE, FN_ABS };
/* A table's op: what to do, and the mode. */
#define FN_OP(what, mode) ((what) | (mode) << 8)
static inline int fn__what(const fn_call *call) {
  return call->function->op & 0xff;
}
static inline int fn__mode(const fn_call *call) {
  return call->function->op >> 8;
}

trn_status fn__decimal_arithmetic(fn_call *call);
trn_status fn__raise_decimal_range(const fn_report *report, fn_i128 value, int value_scale, int precision, int scale);
/* The same for a number known by its text. */
trn_status fn__raise_range(const fn_report *report, const char *value, size_t size, int precision, int scale);
trn_status fn__raise_zero(const fn_call *call, bool remainder);
#endif
