/* Function libraries of a registry: how their functions are called, and what they give. */
#include "core/function.h"
#include <strings.h>

/* ---- the tables of a library as one ---- */

/* An older library ends earlier. */
#define COUNT_IN(library, member)                                                                                      \
  ((library)->struct_size >= offsetof(trn_function_library, member) + sizeof (library)->member ? (library)->member : 0)

static size_t count_of(const trn_function_library *library, trn_function_sort sort) {
  switch (sort) {
  case TRN_SORT_SCALAR: return library->scalar_count;
  case TRN_SORT_AGGREGATE: return library->aggregate_count;
  case TRN_SORT_WINDOW: return COUNT_IN(library, window_count);
  case TRN_SORT_TABLE: return COUNT_IN(library, table_count);
  case TRN_SORT_LAMBDA: return COUNT_IN(library, lambda_count);
  default: return 0;
  }
}

/* False: there is a hole in the table. */
static bool function_at(const trn_function_library *library, trn_function_sort sort, size_t index,
                        trn_found_function *out) {
  *out = (trn_found_function){.sort = sort};
  switch (sort) {
  case TRN_SORT_SCALAR:
    if ((out->scalar = library->scalars ? library->scalars[index] : NULL)) out->name = out->scalar->name;
    break;
  case TRN_SORT_AGGREGATE:
    if ((out->aggregate = library->aggregates ? library->aggregates[index] : NULL)) out->name = out->aggregate->name;
    break;
  case TRN_SORT_WINDOW:
    if ((out->window = library->windows ? library->windows[index] : NULL)) out->name = out->window->name;
    break;
  case TRN_SORT_LAMBDA:
    if ((out->lambda = library->lambdas ? library->lambdas[index] : NULL)) out->name = out->lambda->name;
    break;
  default:
    if ((out->table = library->tables ? library->tables[index] : NULL)) out->name = out->table->name;
  }
  return out->name != NULL;
}

/* ---- adding ---- */

static bool is_word(const char *text, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (!((text[i] >= 'a' && text[i] <= 'z') || text[i] == '_' || (i && text[i] >= '0' && text[i] <= '9')))
      return false;
  return size > 0;
}

/* "library.word": such a name is none of Spark's, none of the engine's, none of another library's. SQL does not say which
 * sort of function it means, so a name stands for one. */
static trn_status check_function(const trn_function_library *library, const trn_found_function *function,
                                 trn_map *names, trn_error **error) {
  size_t size = strlen(library->name), length = strlen(function->name);
  bool is_own = strncmp(function->name, library->name, size) == 0 && function->name[size] == '.';
  if (!is_own || length > TRN_REGISTRY_NAME_MAX || !is_word(function->name + size + 1, length - size - 1))
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "The function '%s' of the library '%s' has to be called %s.<word of small letters>",
                         function->name, library->name, library->name);
  if (trn__map_get(names, function->name, length))
    return trn_error_set(error, TRN_ALREADY_EXISTS, NULL, "The library '%s' has two functions '%s'", library->name,
                         function->name);
  return trn__map_set(names, function->name, length, (void *)function->name, NULL) ? TRN_OK : trn__no_memory(error);
}

char trn__lambda_letter(const char *arguments, size_t index) {
  char last = 0;
  for (const char *p = arguments; *p; p++) {
    if (*p == '|') continue;
    if (*p == '+') return last;
    last = *p;
    if (index-- == 0) return last;
  }
  return 0;
}

static bool is_layout(const char *text) {
  bool has_bar = false, has_lambda = false, has_letter = false;
  if (!text || strlen(text) > TRN_LAMBDA_LAYOUT_MAX) return false;
  for (; *text; text++) {
    if (*text == '|') {
      if (has_bar) return false;
      has_bar = true;
    } else if (*text == '+') {
      return has_letter && !text[1] && has_lambda;
    } else {
      if (*text != 'v' && *text != 'l') return false;
      has_letter = true;
      has_lambda = has_lambda || *text == 'l';
    }
  }
  return has_lambda;
}

/* Slots that are called without a look. */
static trn_status check_lambda(const trn_lambda_function *f, trn_error **error) {
  if (!is_layout(f->arguments))
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "The arguments of the function '%s' are letters v and l, as in \"vl\" and \"vvl|l\", not \"%s\"",
                         f->name, f->arguments ? f->arguments : "");
  if (!f->parameters || !f->bind || !f->evaluate)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "The function '%s' lacks one of parameters, bind and evaluate", f->name);
  return TRN_OK;
}

static trn_status check_functions(const trn_function_library *library, trn_error **error) {
  trn_map *names = trn__map_create();
  trn_status status = names ? TRN_OK : trn__no_memory(error);
  trn_found_function function;
  for (trn_function_sort sort = TRN_SORT_SCALAR; sort < TRN_FUNCTION_SORTS; sort++)
    for (size_t i = 0; i < count_of(library, sort) && !status; i++) {
      status = function_at(library, sort, i, &function)
                   ? check_function(library, &function, names, error)
                   : trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The library '%s' has a function without a name",
                                   library->name);
      if (!status && sort == TRN_SORT_LAMBDA) status = check_lambda(function.lambda, error);
    }
  trn__map_destroy(names, NULL);
  return status;
}

trn_status trn_registry_add_functions(trn_registry *registry, const trn_function_library *library, trn_error **error) {
  if (!library || library->struct_size < offsetof(trn_function_library, windows) || library->abi != TRN_FUNCTION_ABI)
    return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "That is no function library of version %d",
                         TRN_FUNCTION_ABI);
  if (!library->name || !is_word(library->name, strlen(library->name)) || strcmp(library->name, "trn") == 0)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "A function library is called by a word of small letters that is not 'trn', not '%s'",
                         library->name ? library->name : "");
  const registry_entry entry = {.object = (void *)library};
  trn_status status = check_functions(library, error);
  if (!status && !trn__vec_push(&registry->libraries, (void *)library)) return trn__no_memory(error);
  if (!status && (status = trn__registry_add(registry, REGISTRY_FUNCTIONS, library->name, &entry, error)))
    registry->libraries.count--;
  return status;
}

const char *trn_registry_functions_at(const trn_registry *registry, size_t index) {
  return trn__registry_name_at(registry, REGISTRY_FUNCTIONS, index);
}

const trn_function_library *const *trn__registry_libraries(const trn_registry *registry, size_t *count) {
  *count = registry->libraries.count;
  return (const trn_function_library *const *)registry->libraries.items;
}

/* ---- finding and binding ---- */

bool trn__registry_function(const trn_registry *registry, const char *name, trn_found_function *out) {
  for (size_t i = 0; i < registry->libraries.count; i++) {
    const trn_function_library *library = registry->libraries.items[i];
    size_t size = strlen(library->name);
    if (strncasecmp(name, library->name, size) != 0 || name[size] != '.') continue;
    for (trn_function_sort sort = TRN_SORT_SCALAR; sort < TRN_FUNCTION_SORTS; sort++)
      for (size_t k = 0; k < count_of(library, sort); k++)
        if (function_at(library, sort, k, out) && strcasecmp(out->name, name) == 0) return true;
  }
  return false;
}

enum { PARAMS_MAX = 8 };

/* What a function says of its failure. A parameter that finds no room or no memory is left out. */
typedef struct failure {
  trn_status status;
  char *condition, *message, *keys[PARAMS_MAX], *values[PARAMS_MAX];
  size_t count;
} failure;

static void failure_fail(void *self, trn_status status, const char *condition, const char *message) {
  failure *f = self;
  free(f->condition);
  free(f->message);
  f->status = status;
  f->condition = condition ? strdup(condition) : NULL;
  f->message = message ? strdup(message) : NULL;
}

static void failure_param(void *self, const char *key, const char *value, size_t size) {
  failure *f = self;
  if (f->count == PARAMS_MAX) return;
  f->keys[f->count] = strdup(key);
  f->values[f->count] = strndup(value, size);
  if (f->keys[f->count] && f->values[f->count]) {
    f->count++;
    return;
  }
  free(f->keys[f->count]);
  free(f->values[f->count]);
}

/* Binding has no place in a text. */
static void failure_position(void *self, int64_t position) {
  (void)self, (void)position;
}

static trn_status failure_finish(failure *f, trn_status status, const char *name, trn_error **error) {
  trn_error_param params[PARAMS_MAX];
  for (size_t i = 0; i < f->count; i++) params[i] = (trn_error_param){f->keys[i], f->values[i]};
  trn_error_spec spec = {.struct_size = sizeof spec,
                         .status = status,
                         .condition = f->condition,
                         .message = f->message,
                         .params = params,
                         .param_count = f->count};
  if (status && (f->condition || f->message)) {
    if (error) *error = trn_error_create(&spec);
  } else if (status) {
    trn_error_set(error, status, NULL, "The function %s does not take these arguments", name);
  }
  for (size_t i = 0; i < f->count; i++) free(f->keys[i]), free(f->values[i]);
  free(f->condition);
  free(f->message);
  return status;
}

trn_status trn__function_bind(const trn_found_function *function, const trn_function_arg *args, size_t count,
                              struct ArrowSchema *out, trn_error **error) {
  failure f = {0};
  trn_function_error sink = {sizeof sink, &f, failure_fail, failure_param, failure_position};
  trn_status status = TRN_INTERNAL;
  switch (function->sort) {
  case TRN_SORT_SCALAR: status = function->scalar->bind(function->scalar, args, count, out, &sink); break;
  case TRN_SORT_AGGREGATE: status = function->aggregate->bind(function->aggregate, args, count, out, &sink); break;
  case TRN_SORT_WINDOW: status = function->window->bind(function->window, args, count, out, &sink); break;
  case TRN_SORT_LAMBDA: status = function->lambda->bind(function->lambda, args, count, out, &sink); break;
  default: status = function->table->bind(function->table, args, count, out, &sink);
  }
  return failure_finish(&f, status, function->name, error);
}

trn_status trn__function_parameters(const trn_lambda_function *function, const trn_function_arg *args, size_t count,
                                    size_t index, trn_lambda_parameters *out, trn_error **error) {
  failure f = {0};
  trn_function_error sink = {sizeof sink, &f, failure_fail, failure_param, failure_position};
  *out = (trn_lambda_parameters){.struct_size = sizeof *out};
  trn_status status = function->parameters(function, args, count, index, out, &sink);
  status = failure_finish(&f, status, function->name, error);
  if (status || (out->count > 0 && out->count <= TRN_LAMBDA_PARAMETERS_MAX && out->least <= out->count)) return status;
  return trn_error_set(error, TRN_INTERNAL, NULL, "The function %s gives a lambda %zu parameters, %zu at least",
                       function->name, out->count, out->least);
}

void trn__lambda_parameters_finish(trn_lambda_parameters *parameters) {
  for (size_t i = 0; i < TRN_LAMBDA_PARAMETERS_MAX; i++)
    if (parameters->types[i].release) parameters->types[i].release(&parameters->types[i]);
}
