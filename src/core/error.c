/* Error objects: one allocation each, immutable, reference counted. */
#include "core/core.h"

#include <stdio.h>
#include <trunnion/plan.h>
#include <trunnion/trunnion.h>

struct trn_error {
  atomic_size_t refs;
  trn_status status;
  const char *condition, *sqlstate, *message;
  size_t param_count;
  trn_position position;
  bool has_position;
  trn_error *cause;
  trn_error_param params[]; /* the texts follow */
};

static size_t text_size(const char *text) {
  return text ? strlen(text) + 1 : 0;
}

static const char *text_put(char **at, const char *text) {
  if (!text) return NULL;
  size_t size = strlen(text) + 1;
  char *start = memcpy(*at, text, size);
  *at += size;
  return start;
}

trn_error *trn_error_create(const trn_error_spec *given) {
  trn_error_spec spec = {0};
  size_t known = given->struct_size && given->struct_size < sizeof spec ? given->struct_size : sizeof spec;
  memcpy(&spec, given, known);
  if (spec.param_count > SIZE_MAX / 4 / sizeof(trn_error_param)) return NULL;

  size_t size = sizeof(trn_error) + spec.param_count * sizeof(trn_error_param);
  size += text_size(spec.condition) + text_size(spec.sqlstate) + text_size(spec.message);
  for (size_t i = 0; i < spec.param_count; i++) size += text_size(spec.params[i].key) + text_size(spec.params[i].value);
  trn_error *error = calloc(1, size);
  if (!error) return NULL;

  char *at = (char *)(error->params + spec.param_count);
  atomic_init(&error->refs, 1);
  error->status = spec.status == TRN_OK ? TRN_UNKNOWN : spec.status;
  error->condition = text_put(&at, spec.condition);
  error->sqlstate = text_put(&at, spec.sqlstate);
  error->message = text_put(&at, spec.message);
  error->param_count = spec.param_count;
  for (size_t i = 0; i < spec.param_count; i++) {
    error->params[i].key = text_put(&at, spec.params[i].key);
    error->params[i].value = text_put(&at, spec.params[i].value);
  }
  error->has_position = spec.has_position;
  error->position = spec.has_position ? spec.position : (trn_position){-1, -1};
  error->cause = spec.cause ? trn_error_ref(spec.cause) : NULL;
  return error;
}

trn_error *trn_error_ref(trn_error *error) {
  if (error) atomic_fetch_add_explicit(&error->refs, 1, memory_order_relaxed);
  return error;
}

void trn_error_unref(trn_error *error) {
  while (error && atomic_fetch_sub_explicit(&error->refs, 1, memory_order_acq_rel) == 1) {
    trn_error *cause = error->cause; /* a loop: chains of causes have no bound */
    free(error);
    error = cause;
  }
}

trn_status trn_error_set(trn_error **error, trn_status status, const char *condition, const char *format, ...) {
  if (!error) return status;
  *error = NULL;
  char small[512], *message = small, *large = NULL;
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int size = vsnprintf(small, sizeof small, format, args);
  if (size < 0) small[0] = 0;
  if (size >= (int)sizeof small) {
    large = malloc((size_t)size + 1); /* else the message stays cut */
    if (large) {
      vsnprintf(large, (size_t)size + 1, format, again);
      message = large;
    }
  }
  va_end(again);
  va_end(args);
  *error = trn_error_create(&(trn_error_spec){
      .struct_size = sizeof(trn_error_spec), .status = status, .condition = condition, .message = message});
  free(large);
  return status;
}

trn_status trn__no_memory(trn_error **error) {
  return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "out of memory");
}

trn_status trn_error_status(const trn_error *error) {
  return error ? error->status : TRN_UNKNOWN;
}

const char *trn_error_message(const trn_error *error) {
  return error && error->message ? error->message : "";
}

const char *trn_error_condition(const trn_error *error) {
  return error ? error->condition : NULL;
}

const char *trn_error_sqlstate(const trn_error *error) {
  return error ? error->sqlstate : NULL;
}

size_t trn_error_params(const trn_error *error, const trn_error_param **params) {
  if (params) *params = error && error->param_count ? error->params : NULL;
  return error ? error->param_count : 0;
}

bool trn_error_position(const trn_error *error, trn_position *position) {
  if (!error || !error->has_position) return false;
  if (position) *position = error->position;
  return true;
}

const trn_error *trn_error_cause(const trn_error *error) {
  return error ? error->cause : NULL;
}

const char *trn_status_name(trn_status status) {
  static const char *const names[] = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  return (unsigned)status < sizeof names / sizeof *names ? names[status] : "UNKNOWN";
}

void trn_free(void *memory) {
  free(memory);
}

const char *trn_version(void) {
  return TRUNNION_VERSION;
}
