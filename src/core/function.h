/* Functions of the libraries that a registry holds (plugin.h). Internal. */
#ifndef TRN_CORE_FUNCTION_H
#define TRN_CORE_FUNCTION_H
#include "core/registry.h"
#include <trunnion/function.h>

typedef enum trn_function_sort {
  TRN_SORT_SCALAR = 0,
  TRN_SORT_AGGREGATE,
  TRN_SORT_WINDOW,
  TRN_SORT_TABLE,
  TRN_SORT_LAMBDA,
  TRN_FUNCTION_SORTS
} trn_function_sort;

/* A function that was found. One of the pointers is set. */
typedef struct trn_found_function {
  trn_function_sort sort;
  const char *name; /* as its library has it */
  const trn_scalar_function *scalar;
  const trn_aggregate_function *aggregate;
  const trn_window_function *window;
  const trn_table_function *table;
  const trn_lambda_function *lambda;
} trn_found_function;

/* By name, without regard to the case of ASCII letters. False: no library has it. */
bool trn__registry_function(const trn_registry *registry, const char *name, trn_found_function *out);
/* What the function gives for these arguments: its bind. Gives `*out`. Errors: the function's own. */
trn_status trn__function_bind(const trn_found_function *function, const trn_function_arg *args, size_t count,
                              struct ArrowSchema *out, trn_error **error);
/* What the lambda args[index] is given; `out` is finished also on failure. Errors: the function's own; INTERNAL. */
trn_status trn__function_parameters(const trn_lambda_function *function, const trn_function_arg *args, size_t count,
                                    size_t index, trn_lambda_parameters *out, trn_error **error);
void trn__lambda_parameters_finish(trn_lambda_parameters *parameters);
/* What an argument is by trn_lambda_function.arguments: 'v', 'l', or 0: there is none at this place. */
char trn__lambda_letter(const char *arguments, size_t index);
/* The libraries, for backends. The array lives as long as the registry. */
const trn_function_library *const *trn__registry_libraries(const trn_registry *registry, size_t *count);

#endif
