/* What every scalar function goes through: arguments become columns, nulls and scalars are handled by flags, errors
 * have one way out. A function is a row of its file's table: name, volatility, bind rule, kernel, flags, and a number
 * that tells a family's members apart. */
#ifndef TRN_FUNCTIONS_FRAME_H
#define TRN_FUNCTIONS_FRAME_H
#include "functions/array.h"

/* Where errors go, for scalar functions and aggregates. */
typedef struct fn_report {
  trn_function_error *error;
  int64_t position; /* start << 32 | stop, or -1 */
} fn_report;

typedef struct fn_call fn_call;
typedef struct fn_scalar {
  const char *name;
  uint8_t volatility; /* trn_volatility */
  uint32_t flags;
  int op; /* the kernel's own */
  /* Gives the result's type from call->columns[].type; literals are there (array not NULL). A nested result's schema
   * goes to *schema when that is not NULL (then `out` need not name it). */
  trn_status (*bind)(fn_call *call, fn_type *out, struct ArrowSchema *schema);
  trn_status (*kernel)(fn_call *call); /* fills call->out, which has call->rows rows */
} fn_scalar;

/* flags */
#define FN_STRICT                                                                                                      \
  1u /* a null argument gives null: validity is done before the kernel; the kernel may skip such rows                  \
      */
#define FN_POSITION 2u /* the last argument is the error position; not among call->columns */
#define FN_NULLABLE 4u /* null can come out of arguments that are not */
#define FN_NEVER_NULL 8u

/* evaluation modes of arithmetic, casts, sums */
typedef enum fn_mode { FN_ANSI = 0, FN_TRY = 1, FN_WRAP = 2 } fn_mode;

#define FN_COLUMNS_INLINE 8
struct fn_call {
  const fn_scalar *function;
  fn_column *columns;
  size_t count;
  int64_t rows; /* 1 when all arguments are scalars */
  int nullable; /* bind may say: 1 null can come out, -1 it cannot, 0 by the flags and arguments */
  fn_builder out;
  struct ArrowArray given; /* a kernel may give the whole result here instead of filling `out` */
  fn_report report;
  fn_column inline_columns[FN_COLUMNS_INLINE];
};

/* Fails with a condition and its parameters: key, value, ..., NULL. Gives INVALID_ARGUMENT. */
trn_status fn__raise(const fn_report *report, const char *condition, ...);
/* Adds one more parameter to the error just raised. */
void fn__param(const fn_report *report, const char *key, const char *value, size_t size);
/* Wrong argument types or counts: what a translator of ours must not produce. */
trn_status fn__mismatch(const fn_call *call);
#define FN_CONFIG "\"spark.sql.ansi.enabled\""
trn_status fn__raise_overflow(const fn_report *report, const char *message, const char *hint);
trn_status fn__raise_out_of_memory(const fn_report *report);

/* Bind rules that many share. */
trn_status fn__bind_bool(fn_call *call, fn_type *out, struct ArrowSchema *schema);
trn_status fn__bind_i32(fn_call *call, fn_type *out, struct ArrowSchema *schema);
trn_status fn__bind_i64(fn_call *call, fn_type *out, struct ArrowSchema *schema);
trn_status fn__bind_f64(fn_call *call, fn_type *out, struct ArrowSchema *schema);
trn_status fn__bind_string(fn_call *call, fn_type *out, struct ArrowSchema *schema);
trn_status fn__bind_binary(fn_call *call, fn_type *out, struct ArrowSchema *schema);
trn_status fn__bind_date(fn_call *call, fn_type *out, struct ArrowSchema *schema);
trn_status fn__bind_first(fn_call *call, fn_type *out, struct ArrowSchema *schema); /* the first argument's type */
/* Checks argument kinds by letters: b bool, i int32, l int64, n any integer, g float64, f any float, d decimal, s
 * string, z binary, t string or binary, D date, T timestamp, N timestamp_ntz, M either, L list, Y year-month, I
 * day-time, * anything; a '|' makes the rest optional. */
bool fn__args_are(const fn_call *call, const char *letters);
/* Defines bind_<name>: these argument letters, that result. */
#define FN_BIND(name, letters, result)                                                                                 \
  static trn_status bind_##name(fn_call *call, fn_type *out, struct ArrowSchema *schema) {                             \
    (void)schema;                                                                                                      \
    if (!fn__args_are(call, letters)) return fn__mismatch(call);                                                       \
    *out = result;                                                                                                     \
    return TRN_OK;                                                                                                     \
  }

/* The value of a literal string argument; false when it is null or none. */
bool fn__literal_text(const fn_call *call, size_t index, fn_text *out);

/* The half of reverse that string.c has; arrays are nested_list.c's. */
trn_status fn__reverse_text(fn_call *call);

/* Evaluates and binds any fn_scalar: what library.c puts into each trn_scalar_function (data: the fn_scalar). */
trn_status fn__bind(const struct trn_scalar_function *function, const trn_function_arg *args, size_t count,
                    struct ArrowSchema *out, trn_function_error *error);
trn_status fn__evaluate(const struct trn_scalar_function *function, const trn_function_arg *args, size_t count,
                        int64_t rows, struct ArrowArray *out, trn_function_error *error);

/* The files' tables, ended by a row without a name. */
extern const fn_scalar fn__arithmetic_table[], fn__rounding_table[], fn__cast_table[], fn__datetime_table[],
    fn__datetime_format_table[], fn__interval_table[], fn__string_table[], fn__string_more_table[], fn__math_table[],
    fn__hash_table[], fn__conditional_table[], fn__nested_table[], fn__nested_make_table[], fn__nested_list_table[],
    fn__nested_map_table[], fn__regex_table[], fn__nested_zip_table[], fn__time_make_table[], fn__json_table[],
    fn__json_read_table[], fn__encoding_table[],
    fn__text_format_table[], fn__number_format_table[], fn__random_table[], fn__crypt_table[], fn__vector_table[],
    fn__text_parts_table[], fn__time_span_table[], fn__csv_table[], fn__json_schema_table[],
    fn__chance_table[];
const trn_function_library *fn__library(void);
#endif
