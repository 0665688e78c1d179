/* The YAML file, event by event, without recursion. Anchors, aliases and tags are refused: a setting says what it is
 * where it stands. */
#include <errno.h>
#include <yaml.h>

#include "program.h"

#define YAML_DEPTH_MAX 64

typedef struct reader {
  const char *path;
  yaml_parser_t parser;
  yaml_event_t event;
  trn_config *root;
  trn_config *open[YAML_DEPTH_MAX];
  size_t depth;
  char *key; /* of the map's next value */
  bool is_done;
} reader;

static trn_status say(const reader *r, const char *what, trn_error **error) {
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s:%zu: %s", r->path, r->event.start_mark.line + 1, what);
}

static bool is_nothing(const yaml_event_t *event) {
  const char *text = (const char *)event->data.scalar.value;
  if (event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return false;
  return !*text || strcmp(text, "~") == 0 || strcmp(text, "null") == 0;
}

/* A value of the open node. `backend: name` is short for a map of that name, an address for one of `ballista`. */
static trn_status add(reader *r, trn_config_kind kind, const char *text, trn_config **out, trn_error **error) {
  char origin[4096];
  snprintf(origin, sizeof origin, "%s:%zu", r->path, r->event.start_mark.line + 1);
  trn_config *parent = r->open[r->depth - 1];
  trn_status status;
  if (r->depth == 1 && kind == TRN_CONFIG_TEXT && r->key && strcmp(r->key, "backend") == 0) {
    trn_config *backend = NULL;
    status = trn_config_add(parent, r->key, TRN_CONFIG_MAP, NULL, origin, &backend, error);
    if (!status && strncmp(text, "ballista://", 11) == 0) {
      status = trn_config_add(backend, "ballista", TRN_CONFIG_MAP, NULL, origin, &backend, error);
      if (!status) status = trn_config_add(backend, "scheduler", kind, text, origin, out, error);
    } else if (!status) {
      status = trn_config_add(backend, text, TRN_CONFIG_NONE, NULL, origin, out, error);
    }
  } else {
    status = trn_config_add(parent, r->key, kind, text, origin, out, error);
  }
  free(r->key);
  r->key = NULL;
  return status;
}

static trn_status scalar(reader *r, trn_error **error) {
  const char *text = (const char *)r->event.data.scalar.value;
  if (r->event.data.scalar.anchor ||
      (r->event.data.scalar.tag && r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE))
    return say(r, "anchors and tags are not supported", error);
  if (strlen(text) != r->event.data.scalar.length) return say(r, "a text with a zero byte", error);
  if (!r->depth) return is_nothing(&r->event) ? TRN_OK : say(r, "the file is no map of settings", error);
  bool in_map = trn_config_get_kind(r->open[r->depth - 1]) == TRN_CONFIG_MAP;
  if (in_map && !r->key) {
    r->key = strdup(text);
    return r->key ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
  }
  bool nothing = is_nothing(&r->event);
  return add(r, nothing ? TRN_CONFIG_NONE : TRN_CONFIG_TEXT, nothing ? NULL : text, NULL, error);
}

static trn_status begin(reader *r, trn_config_kind kind, bool has_anchor, trn_error **error) {
  if (has_anchor) return say(r, "anchors and tags are not supported", error);
  if (r->depth == YAML_DEPTH_MAX) return say(r, "nested too deep", error);
  if (!r->depth) {
    if (kind != TRN_CONFIG_MAP) return say(r, "the file is no map of settings", error);
    r->open[r->depth++] = r->root;
    return TRN_OK;
  }
  if (trn_config_get_kind(r->open[r->depth - 1]) == TRN_CONFIG_MAP && !r->key) return say(r, "a key is a text", error);
  trn_config *node = NULL;
  trn_status status = add(r, kind, NULL, &node, error);
  if (!status) r->open[r->depth++] = node;
  return status;
}

static trn_status take(reader *r, trn_error **error) {
  const yaml_event_t *event = &r->event;
  switch (event->type) {
  case YAML_SCALAR_EVENT: return scalar(r, error);
  case YAML_MAPPING_START_EVENT:
    return begin(r, TRN_CONFIG_MAP, event->data.mapping_start.anchor || event->data.mapping_start.tag, error);
  case YAML_SEQUENCE_START_EVENT:
    return begin(r, TRN_CONFIG_LIST, event->data.sequence_start.anchor || event->data.sequence_start.tag, error);
  case YAML_MAPPING_END_EVENT:
  case YAML_SEQUENCE_END_EVENT: r->depth--; return TRN_OK;
  case YAML_ALIAS_EVENT: return say(r, "aliases are not supported", error);
  case YAML_DOCUMENT_START_EVENT:
    if (r->is_done) return say(r, "a second document", error);
    r->is_done = true;
    return TRN_OK;
  default: return TRN_OK;
  }
}

static trn_status parse_error(const reader *r, trn_error **error) {
  const yaml_parser_t *p = &r->parser;
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s:%zu: %s%s%s", r->path, p->problem_mark.line + 1,
                       p->problem ? p->problem : "this is no YAML", p->context ? ", " : "",
                       p->context ? p->context : "");
}

trn_status read_yaml(const char *path, trn_config **out, trn_error **error) {
  reader r = {.path = path};
  trn_status status = TRN_OK;
  FILE *file = fopen(path, "rb");
  if (!file) return trn_error_set(error, TRN_NOT_FOUND, NULL, "cannot read %s: %s", path, strerror(errno));
  if (!yaml_parser_initialize(&r.parser)) {
    fclose(file);
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "no memory for %s", path);
  }
  yaml_parser_set_input_file(&r.parser, file);
  r.root = trn_config_create();
  if (!r.root) status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "no memory for %s", path);
  for (bool ended = false; !status && !ended;) {
    if (!yaml_parser_parse(&r.parser, &r.event)) {
      status = parse_error(&r, error);
      break;
    }
    if (r.event.start_mark.index > PROGRAM_FILE_BYTES_MAX) {
      status = say(&r, "the file is too long", error);
    } else {
      status = take(&r, error);
    }
    ended = r.event.type == YAML_STREAM_END_EVENT;
    yaml_event_delete(&r.event);
  }
  yaml_parser_delete(&r.parser);
  free(r.key);
  fclose(file);
  if (status) {
    trn_config_destroy(r.root);
  } else {
    *out = r.root;
  }
  return status;
}
