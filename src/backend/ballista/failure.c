/* Why a job failed. Ballista tells it as a text; errors of our own functions carry in it what they are, in a form that
 * survives whatever texts are put around it: "[[trn:" hex "]]", where the hex is of lines: status, condition, position,
 * then a key and a value for each parameter, each as hex again, then the message. */
#include "backend/ballista/backend.h"

#define MARK "[[trn:"
enum { PARAMS_MAX = 32, JOB_TEXT_MAX = 2000 };

static int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes hex up to what is none, in place or not; gives where it ended. */
static const char *unhex(const char *at, char *out) {
  for (; digit(at[0]) >= 0 && digit(at[1]) >= 0; at += 2) *out++ = (char)(digit(at[0]) << 4 | digit(at[1]));
  *out = 0;
  return at;
}

/* Cuts the next line off; NULL: there is none. */
static char *next_line(char **at) {
  char *line = *at, *end = line ? strchr(line, '\n') : NULL;
  if (!end) return NULL;
  *end = 0;
  *at = end + 1;
  return line;
}

/* Makes the error of a marked text. False: it is none. `text` is changed. */
static bool read_marked(char *text, trn_status *status, trn_error **error) {
  trn_error_param params[PARAMS_MAX];
  trn_error_spec spec = {.struct_size = sizeof spec, .params = params};
  char *at = text, *number = next_line(&at), *condition = next_line(&at), *position = next_line(&at);
  char *message = next_line(&at), *key, *value;
  if (!number || !condition || !position || !message) return false;
  long code = strtol(number, NULL, 10), long_position = 0;
  if (code <= TRN_OK || code > TRN_UNAUTHENTICATED) return false;
  unhex(message, message);
  while (spec.param_count < PARAMS_MAX && (key = next_line(&at)) && (value = next_line(&at))) {
    unhex(key, key);
    unhex(value, value);
    params[spec.param_count++] = (trn_error_param){key, value};
  }
  long_position = strtol(position, NULL, 10);
  spec.status = *status = (trn_status)code;
  spec.condition = *condition ? condition : NULL;
  spec.message = *message ? message : NULL;
  spec.has_position = long_position >= 0;
  spec.position = (trn_position){(int32_t)(long_position >> 32), (int32_t)(long_position & 0xffffffff)};
  if (error) *error = trn_error_create(&spec);
  return true;
}

trn_status trn__ballista_job_error(const char *job_id, const char *text, trn_error **error) {
  const char *mark = strstr(text, MARK);
  trn_status status = TRN_INTERNAL;
  char *copy = mark ? strdup(mark + strlen(MARK)) : NULL;
  bool is_ours = false;
  if (copy) {
    const char *end = unhex(copy, copy);
    /* `end` is in what was read, behind what was written. */
    is_ours = strncmp(mark + strlen(MARK) + (end - copy), "]]", 2) == 0 && read_marked(copy, &status, error);
  }
  free(copy);
  if (is_ours) return status;
  return trn_error_set(error, TRN_INTERNAL, NULL, "job %s failed on the cluster: %.*s", job_id, JOB_TEXT_MAX, text);
}
