/* The value half of the translator, inside: what call.c, functions_*.c, coerce.c, cast.c, literal.c, names.c and type.c
 * share. Expressions are built in t->arena; every function here may fail for want of memory only, unless it says more.
 */
#ifndef TRN_FRONTEND_SPARK_VALUES_H
#define TRN_FRONTEND_SPARK_VALUES_H
#include "frontend/spark/translate/translate.h"

/* ---- the function table ---- */
typedef enum spark_function_kind {
  SPARK_FUNCTION_SCALAR = 0,
  SPARK_FUNCTION_AGGREGATE,
  SPARK_FUNCTION_WINDOW,
  SPARK_FUNCTION_GENERATOR
} spark_function_kind;

enum {                            /* spark_function.flags */
       SPARK_POSITION = 1 << 0,   /* the kernel's last argument is the position in the SQL text */
       SPARK_ZONE = 1 << 1,       /* the session zone is an argument, before the position */
       SPARK_NULLABLE = 1 << 2,   /* can be null whatever the arguments are */
       SPARK_NEVER_NULL = 1 << 3, /* cannot be null whatever the arguments are */
       SPARK_MODE = 1 << 4,       /* the kernel has the forms _wrap (ANSI off) and none (ANSI; with position) */
       SPARK_STABLE = 1 << 5,
       SPARK_VOLATILE = 1 << 6,
       SPARK_TRY = 1 << 7,        /* a try_ function: errors are nulls */
       SPARK_NO_NAMES = 1 << 8,   /* an operator only: not a function name that a client may look up */
       SPARK_LEGACY_NULL = 1 << 9 /* with ANSI off it gives null where it else raises */
};

typedef struct spark_function spark_function;
typedef struct spark_builder {
  spark_translator *t;
  const spark_call *call;
  const spark_function *function;
  const trn_expr **args; /* coerced by the row's argument letters; `count` of them; a builder may replace them */
  size_t count;
  const char *name; /* display of this call; NULL: the row's */
  const char *text; /* the whole generated name; NULL: by display */
  trn_error **error;
} spark_builder;
typedef trn_status (*spark_build)(spark_builder *b, const trn_expr **out);

/* One row of the table. `arguments`: one letter per argument, after '|' the optional ones, '+' at the end: the last
 * letter repeats (one or more). Letters, each with its implicit cast:
 *   a any   b binary   B boolean   c all 'c' arguments get their common type   d double   D date   i int   I integral
 *   l bigint   m decimal   n numeric   o orderable   s string   t timestamp   T timestamp or timestamp_ntz   x string
 * or binary   k array or map   A array   M map   R struct   y year-month interval   Y day-time interval `result`: a
 * letter as above (concrete ones), '1'..'9' the type of that argument, 'c' the common type, 'e' the element of the
 * first; NULL: the builder decides. `run`: "=..." native, "@..." engine, else a kernel; with `build` it is whatever the
 * builder takes. */
struct spark_function {
  const char *name;
  const char *arguments;
  const char *result;
  const char *run;
  spark_build build;
  const char *display; /* "$1 + $2" in parentheses and the like; NULL: name(arguments); "=x": x(arguments) */
  uint16_t flags;
  uint8_t kind;
};
typedef struct spark_function_table {
  const spark_function *rows;
  size_t count;
} spark_function_table;
extern const spark_function_table spark__functions_operator;
extern const spark_function_table spark__functions_aggregate;
extern const spark_function_table spark__functions_list;
extern const spark_function_table spark__functions_various;
extern const spark_function_table spark__functions_format;
extern const spark_function_table spark__functions_time_window;
extern const spark_function_table spark__functions_condition;
extern const spark_function_table spark__functions_string;
extern const spark_function_table spark__functions_math;
extern const spark_function_table spark__functions_date;
extern const spark_function_table spark__functions_nested;
extern const spark_function_table spark__functions_window;
extern const spark_function_table spark__functions_more;
extern const spark_function_table spark__functions_regex;
extern const spark_function_table spark__functions_array;
extern const spark_function_table spark__functions_lambda;
extern const spark_function_table spark__functions_time;
extern const spark_function_table spark__functions_text;
extern const spark_function_table spark__functions_json;

/* NULL: there is no such row. The name is compared without case. */
const spark_function *spark__function_find(const char *name, size_t size);
/* Notes for policies that the plan calls it. False: out of memory. */
bool spark__note_function(spark_translator *t, const spark_function *row);

/* ---- library.c: functions of plugins, "library.word"; NULL, false: there is none of the name ---- */
struct trn_found_function;
typedef struct spark_library_row {
  spark_function row;
  struct spark_library_row *next;
} spark_library_row;
const spark_function *spark__library_find(spark_translator *t, const char *name); /* NULL also: out of memory */
/* WRONG_NUM_ARGS, unless the row takes as many arguments as the call has. */
trn_status spark__argument_count(spark_translator *t, const spark_function *row, const spark_call *call,
                                 trn_error **error);
/* A function that is no lambda is one that looks at none of its parameters. */
trn_status spark__as_lambda(spark_builder *b, size_t index, size_t parameters);
/* What args[index], a lambda of a plugin's function, is given: `*fields`, `*count` of them; at least `*least` are named.
 * Arguments without an expression are lambdas that are not translated yet. */
trn_status spark__library_parameters(spark_translator *t, const struct trn_found_function *function,
                                     const trn_expr *const *args, size_t arg_count, size_t index, trn_field **fields,
                                     size_t *count, size_t *least, trn_error **error);
bool spark__library_is_aggregate(spark_translator *t, const char *name);
bool spark__library_has(spark_translator *t, const char *name, bool is_table);

/* Whether real Spark has a builtin of this name (functions_names.c), with a row here or not. */
bool spark__function_is_known(const char *name);

/* ---- building (call.c) ---- */
const trn_expr *spark__position_literal(spark_translator *t, trn_position position);
/* A kernel call with the session zone (SPARK_ZONE) and the position (SPARK_POSITION) appended. */
trn_expr *spark__kernel_with(spark_builder *b, const char *name, const trn_type *type, const trn_expr *const *args,
                             size_t count, unsigned flags);
/* An AGGREGATE node with the call's order keys and filter; `run` as in a row. */
trn_expr *spark__aggregate(spark_builder *b, const char *run, const trn_type *type, bool nullable,
                           const trn_expr *const *args, size_t count);
/* Stores what is not NULL; else out of memory. */
trn_status spark__gives(spark_builder *b, const trn_expr *expr, const trn_expr **out);
const trn_expr *spark__zone_literal(spark_translator *t);
/* Calls; nullable when an argument is. NULL: out of memory. `name` must be static or of the arena. */
trn_expr *spark__native(spark_translator *t, const char *name, const trn_type *type, const trn_expr *const *args,
                        size_t count);
trn_expr *spark__kernel(spark_translator *t, const char *name, const trn_type *type, const trn_expr *const *args,
                        size_t count);
/* By mode: "trn.add" with the position when ANSI, "trn.add_wrap" when not, "trn.add_try" in rows with SPARK_TRY. */
trn_expr *spark__moded(spark_builder *b, const char *stem, const trn_type *type, const trn_expr *const *args,
                       size_t count);
bool spark__any_nullable(const trn_expr *const *args, size_t count);
trn_status spark__out_of_memory(trn_error **error);
/* CASE WHEN args... as a node; nullable by its branches. */
trn_expr *spark__case(spark_translator *t, const trn_expr *const *args, size_t count, const trn_type *type);
trn_expr *spark__is_null(spark_translator *t, const trn_expr *expr, bool negated);

/* ---- errors (names.c) ---- */
/* DATATYPE_MISMATCH.* and others: params are key, value pairs ending with NULL. The builder's sqlExpr comes first when
 * the condition is a DATATYPE_MISMATCH. */
trn_status spark__mismatch(spark_builder *b, const char *condition, ...);
trn_status spark__error(spark_translator *t, trn_error **error, trn_status status, const char *condition,
                        trn_position position, ...);
trn_status spark__unexpected_input(spark_builder *b, size_t index, const char *required, const trn_type *given);
trn_status spark__not_supported(spark_builder *b, const char *what);
/* "\"INT\"" for messages; NULL: out of memory. */
const char *spark__quoted_type(spark_translator *t, const trn_type *type);
const char *spark__quoted_types(spark_translator *t, const spark_value *values, const trn_expr *const *args,
                                size_t count); /* ("INT" or "STRING"), each once */

/* ---- names (names.c) ---- */
/* The generated name of the builder's call from its arguments' names. */
const char *spark__call_name(spark_builder *b);
/* A literal as Spark shows it in a column's name. */
const char *spark__literal_name(spark_translator *t, const trn_expr *literal);
void spark__double_text(trn_strbuf *out, double value); /* as Java's Double.toString */
void spark__float_text(trn_strbuf *out, float value);
void spark__decimal_text(trn_strbuf *out, trn_i128 unscaled, int scale); /* as java.math.BigDecimal.toString */
const char *spark__finish_text(spark_translator *t,
                               trn_strbuf *text); /* copies into the arena, frees; NULL: no memory */

/* ---- types (type.c, coerce.c) ---- */
bool spark__is_string(const trn_type *type);
bool spark__is_float(const trn_type *type);     /* both float types */
bool spark__is_interval(const trn_type *type);  /* the two ANSI ones */
bool spark__is_timestamp(const trn_type *type); /* with or without zone */
bool spark__is_atomic(const trn_type *type);
bool spark__is_orderable(const trn_type *type);
unsigned spark__type_depth(const trn_type *type);
const trn_type *spark__decimal_for(spark_translator *t,
                                   const trn_type *type); /* of an integer type; decimals themselves */
const trn_type *spark__decimal_bounded(spark_translator *t, int precision, int scale);  /* clipped to 38 */
const trn_type *spark__decimal_adjusted(spark_translator *t, int precision, int scale); /* allowPrecisionLoss */
const trn_type *spark__day_time(spark_translator *t, int start, int end);

/* The one type both are, without any loss; NULL in *out: none. */
trn_status spark__tightest_type(spark_translator *t, const trn_type *a, const trn_type *b, const trn_type **out);
trn_status spark__wider_type(spark_translator *t, const trn_type *a, const trn_type *b, const trn_type **out);
/* What an argument of type `from` becomes for letter `letter`; NULL: it may not. */
const trn_type *spark__implicit_type(spark_translator *t, const trn_type *from, char letter);
const char *spark__letter_text(char letter); /* as UNEXPECTED_INPUT_TYPE names what is required */
/* Casts both operands (args[0], args[1]) of a binary operator as the analyzer does before type checks. */
trn_status spark__coerce_operands(spark_builder *b, bool comparison);
/* Casts args[first..] to their common type; DATATYPE_MISMATCH.DATA_DIFF_TYPES when there is none. */
trn_status spark__coerce_common(spark_builder *b, size_t first, size_t step, const trn_type **type);
trn_status spark__coerce(spark_builder *b, size_t index, const trn_type *type);

/* ---- literals (literal.c, fold.c) ---- */
bool spark__is_literal(const trn_expr *expr); /* a non-null LITERAL */
trn_i128 spark__decimal_value(const trn_literal *literal);
trn_expr *spark__decimal_literal(spark_translator *t, trn_i128 unscaled, const trn_type *type);
trn_expr *spark__double_literal(spark_translator *t, double value, const trn_type *type);
/* Digits of 10^n; n 0..38. */
trn_i128 spark__pow10(int n);
bool spark__parse_decimal(const char *text, size_t size, trn_i128 *unscaled, int *precision, int *scale);
bool spark__parse_date(const char *text, size_t size, int64_t *days);
/* Local microseconds; *offset_us is INT64_MIN without a zone in the text; false also for named zones. */
bool spark__parse_timestamp(const char *text, size_t size, int64_t *micros, int64_t *offset_us);
bool spark__parse_time(const char *text, size_t size, int64_t *nanos, int *digits);
bool spark__zone_is_utc(const char *zone);
/* Whether the zone has one offset for ever, and which. */
bool spark__fixed_zone(const char *zone, int64_t *offset_us);
/* The literal cast exactly to `target`, or NULL when that cannot be said here. */
const trn_expr *spark__fold_cast(spark_translator *t, const trn_expr *literal, const trn_type *target);
/* Days since the epoch <-> civil date (proleptic Gregorian). */
int64_t spark__days_from_civil(int64_t year, unsigned month, unsigned day);
void spark__civil_from_days(int64_t days, int64_t *year, unsigned *month, unsigned *day);

#endif
