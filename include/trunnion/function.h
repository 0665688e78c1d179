/* The function library's ABI: scalar and aggregate functions as C kernels over whole Arrow arrays. A library is a shared
 * object that exports `trn_function_library`. The engine (and, on clusters, each executor) loads it and registers every
 * function under its name. Kernels are stateless: time zone, ANSI mode and error position are literal arguments. */
#ifndef TRUNNION_FUNCTION_H
#define TRUNNION_FUNCTION_H
#include <trunnion/arrow.h>
#include <trunnion/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRN_FUNCTION_ABI 1

/** Where a kernel reports a failure. `add_param` and `fail` copy. Belongs to the caller; used on the calling thread. */
typedef struct trn_function_error {
  size_t struct_size;
  void *self;
  /** Sets status, condition and (for conditions without a template) message; call before add_param. */
  void (*fail)(void *self, trn_status status, const char *condition, const char *message);
  void (*add_param)(void *self, const char *key, const char *value, size_t value_size);
  /** The literal position argument (see trn_function): start << 32 | stop, or -1. */
  void (*set_position)(void *self, int64_t position);
} trn_function_error;

/** One argument of a scalar call. `is_scalar`: `array` has one element that stands for all rows. */
typedef struct trn_function_arg {
  const struct ArrowSchema *type;
  const struct ArrowArray *array; /**< bind: NULL unless the argument is a literal (then a one-element array) */
  bool is_scalar;
} trn_function_arg;

typedef enum trn_volatility { TRN_IMMUTABLE = 0, TRN_STABLE = 1, TRN_VOLATILE = 2 } trn_volatility;

/** A scalar function. Functions whose errors carry a position take it as their last argument: an int64 literal. */
typedef struct trn_scalar_function {
  size_t struct_size;
  const char *name; /**< unique, "trn.add" ... */
  trn_volatility volatility;
  /** Gives the result's type for these argument types (INVALID_ARGUMENT when there is none). The nullable flag of `out`
   *  says whether a null can come out. */
  trn_status (*bind)(const struct trn_scalar_function *function, const trn_function_arg *args, size_t count,
                     struct ArrowSchema *out, trn_function_error *error);
  /** Computes `rows` values. Borrows the arguments; gives `out` (of the type that bind gave; its length is `rows`, or 1
   *  when every argument is scalar and the function is not volatile). Offsets of arrays may be non-zero. */
  trn_status (*evaluate)(const struct trn_scalar_function *function, const trn_function_arg *args, size_t count,
                         int64_t rows, struct ArrowArray *out, trn_function_error *error);
  const void *data; /**< the function's own */
} trn_scalar_function;

/** An aggregate function over groups 0..n-1 (DataFusion's GroupsAccumulator; one group: an ungrouped aggregate). */
typedef struct trn_aggregate_function {
  size_t struct_size;
  const char *name;
  trn_status (*bind)(const struct trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                     struct ArrowSchema *out, trn_function_error *error);
  /** Types of the intermediate state, `*state_count` of them (at most 8). */
  trn_status (*state_types)(const struct trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                            struct ArrowSchema *out, size_t *state_count, trn_function_error *error);
  trn_status (*create)(const struct trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                       void **state, trn_function_error *error);
  /** args[i].array has `rows` elements (or is_scalar); groups[r] is row r's group; filter: NULL or a byte per row (0:
   *  skip the row); group_count: groups known so far. */
  trn_status (*update)(void *state, const trn_function_arg *args, size_t count, int64_t rows, const size_t *groups,
                       const uint8_t *filter, size_t group_count, trn_function_error *error);
  /** Like update, with arrays of the state types. */
  trn_status (*merge)(void *state, const struct ArrowArray *const *states, size_t count, int64_t rows,
                      const size_t *groups, size_t group_count, trn_function_error *error);
  /** Gives the results of the first `emit` groups and forgets them (later groups move down). */
  trn_status (*evaluate)(void *state, size_t emit, struct ArrowArray *out, trn_function_error *error);
  /** Gives the state arrays of the first `emit` groups and forgets them. */
  trn_status (*emit_state)(void *state, size_t emit, struct ArrowArray *out, trn_function_error *error);
  size_t (*memory)(const void *state); /**< bytes held */
  void (*destroy)(void *state);
  const void *data;
} trn_aggregate_function;

enum { TRN_LAMBDA_PARAMETERS_MAX = 8 };

/** What a lambda is given. Zeroed by the caller. A type is given, or without `release`: then it is a copy of the struct of
 *  (a part of) an argument's type, or of a constant. */
typedef struct trn_lambda_parameters {
  size_t struct_size;
  size_t count;                                        /**< of parameters that it may have */
  size_t least;                                        /**< of those that it has to have: the others may be left out */
  struct ArrowSchema types[TRN_LAMBDA_PARAMETERS_MAX]; /**< names do not matter; what is not flagged nullable is promised
                                                            not to be null */
} trn_lambda_parameters;

/** A lambda while a function is evaluated. Lives until `evaluate` returns; used on the calling thread. */
typedef struct trn_lambda {
  size_t struct_size;
  void *self;
  /** Computes the lambda's body for `rows` rows at once. `params` are arrays of `rows` values, of the types that
   *  `parameters` gave, all `count` of them whether or not the lambda names each. `origins[i]`: the row of the call that
   *  row i belongs to, whose columns the lambda sees; NULL: row i belongs to row i. Takes the arrays of `params` (also on
   *  failure). Gives `out`: `rows` values of the type that the lambda's argument has. May be called any number of times.
   *  Errors: what the body meets, which is in `error` already: return the status. */
  trn_status (*invoke)(const struct trn_lambda *lambda, struct ArrowArray *params, size_t count, int64_t rows,
                       const uint32_t *origins, struct ArrowArray *out, trn_function_error *error);
  /** Gives a second array over the buffers of one of the call's arguments, or of a child at any depth of one, which are not
   *  copied: it may be given to invoke, or become a part of the result. Its `offset`, `length` and `null_count` may be
   *  changed, within what it had. */
  trn_status (*share)(const struct trn_lambda *lambda, const struct ArrowArray *array, struct ArrowArray *out,
                      trn_function_error *error);
} trn_lambda;

/** A function with lambda arguments (a higher-order function). In `args` a lambda's `array` is NULL and its `type` is that
 *  of the lambda's body, or NULL as long as that is not known. */
typedef struct trn_lambda_function {
  size_t struct_size;
  const char *name;
  trn_volatility volatility;
  /** A letter for each argument: 'v' a value, 'l' a lambda. What follows '|' may be left out; '+' at the end: any number of
   *  the last. "vl", "vvl|l". */
  const char *arguments;
  /** Gives what the lambda `args[index]` is given. Lambdas are asked about from left to right: the types of those before are
   *  known. Parameters may be null inside, and do not keep the names of list elements. */
  trn_status (*parameters)(const struct trn_lambda_function *function, const trn_function_arg *args, size_t count,
                           size_t index, trn_lambda_parameters *out, trn_function_error *error);
  /** As of scalar functions, once the types of all lambdas are known. */
  trn_status (*bind)(const struct trn_lambda_function *function, const trn_function_arg *args, size_t count,
                     struct ArrowSchema *out, trn_function_error *error);
  /** Gives `rows` values. The arguments have `rows` elements, also constants; a list that is null is empty. `lambdas[i]` is
   *  NULL for values. */
  trn_status (*evaluate)(const struct trn_lambda_function *function, const trn_function_arg *args,
                         const trn_lambda *const *lambdas, size_t count, int64_t rows, struct ArrowArray *out,
                         trn_function_error *error);
  const void *data;
} trn_lambda_function;

/** A window function: values for the rows of a partition, which come in the window's order. */
typedef struct trn_window_function {
  size_t struct_size;
  const char *name;
  bool uses_frame; /**< false: the frame that a query names does not matter, as for rank() */
  trn_status (*bind)(const struct trn_window_function *function, const trn_function_arg *args, size_t count,
                     struct ArrowSchema *out, trn_function_error *error);
  /** The arguments have `rows` elements, a whole partition. Gives `value_count` values: without frames one per row
   *  (`starts`, `ends` NULL); else value i is that of a row whose frame is [starts[i], ends[i]). */
  trn_status (*evaluate)(const struct trn_window_function *function, const trn_function_arg *args, size_t count,
                         int64_t rows, int64_t value_count, const size_t *starts, const size_t *ends,
                         struct ArrowArray *out, trn_function_error *error);
  const void *data;
} trn_window_function;

/** A table function: rows made from constants. */
typedef struct trn_table_function {
  size_t struct_size;
  const char *name;
  /** Every argument is a literal. Gives the columns: a struct. */
  trn_status (*bind)(const struct trn_table_function *function, const trn_function_arg *args, size_t count,
                     struct ArrowSchema *out, trn_function_error *error);
  /** Gives the rows, of the types that bind gave. */
  trn_status (*open)(const struct trn_table_function *function, const trn_function_arg *args, size_t count,
                     struct ArrowArrayStream *out, trn_function_error *error);
  const void *data;
} trn_table_function;

typedef enum trn_distribution {
  TRN_DISTRIBUTION_ANY = 0,
  TRN_DISTRIBUTION_SINGLE, /**< all rows in one partition */
  TRN_DISTRIBUTION_KEYS    /**< rows with equal keys in the same partition */
} trn_distribution;

/** What an operator needs of an input. The arrays live as long as the payload. */
typedef struct trn_operator_requirement {
  size_t struct_size;
  trn_distribution distribution;
  const uint32_t *keys; /**< places of columns */
  size_t key_count;
  const uint32_t *order;      /**< places of columns that each partition's rows are sorted by; none: any order */
  const uint8_t *order_flags; /**< of each: bit 0 descending, bit 1 nulls first */
  size_t order_count;
} trn_operator_requirement;

/** A relational operator, which an EXTENSION relation names: rows of its inputs in, rows out. One state per partition;
 *  push and pull of one state do not overlap, may come on different threads, and may block. */
typedef struct trn_operator {
  size_t struct_size;
  const char *name;
  /** Gives the columns of the result: a struct. `payload`: the relation's. */
  trn_status (*bind)(const struct trn_operator *op, const void *payload, size_t size,
                     const struct ArrowSchema *const *inputs, size_t input_count, struct ArrowSchema *out,
                     trn_function_error *error);
  /** Optional: nothing is needed. `out` is zeroed. */
  trn_status (*require)(const struct trn_operator *op, const void *payload, size_t size, size_t input,
                        trn_operator_requirement *out, trn_function_error *error);
  trn_status (*create)(const struct trn_operator *op, const void *payload, size_t size,
                       const struct ArrowSchema *const *inputs, size_t input_count, uint32_t partition, void **state,
                       trn_function_error *error);
  /** Takes `rows` (a struct array; also on failure); release NULL: this input is over. The inputs come one after the
   *  other, the first one first. */
  trn_status (*push)(void *state, size_t input, struct ArrowArray *rows, trn_function_error *error);
  /** Gives rows; release NULL: none until more is pushed, or after the end of the last input none at all. */
  trn_status (*pull)(void *state, struct ArrowArray *out, trn_function_error *error);
  void (*destroy)(void *state);
  const void *data;
} trn_operator;

enum {
  TRN_FUNCTIONS_HIDDEN = 1 /**< for plans only: the engine's SQL does not know their names */
};

typedef struct trn_function_library {
  size_t struct_size;
  uint32_t abi; /**< TRN_FUNCTION_ABI */
  const char *name, *version;
  const trn_scalar_function *const *scalars;
  size_t scalar_count;
  const trn_aggregate_function *const *aggregates;
  size_t aggregate_count;
  /* Each pair is read when struct_size covers it. */
  const trn_window_function *const *windows;
  size_t window_count;
  const trn_table_function *const *tables;
  size_t table_count;
  const trn_operator *const *operators;
  size_t operator_count;
  const trn_lambda_function *const *lambdas;
  size_t lambda_count;
  uint32_t flags; /**< TRN_FUNCTIONS_* */
} trn_function_library;

/** The only export of a library that is a shared object of its own: a constant. A plugin adds its library with
 *  trn_registry_add_functions (plugin.h). */
typedef const trn_function_library *(*trn_function_library_fn)(void);

#ifdef __cplusplus
}
#endif
#endif
