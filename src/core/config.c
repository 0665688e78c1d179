/* Configuration: a tree of texts, lists and maps, each node with the place where it was written. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "core/core.h"

#include <trunnion/config.h>

struct trn_config {
  trn_config_kind kind;
  char *key; /* in a map */
  char *text;
  char *origin;
  trn_config *parent;
  trn_vec items; /* trn_config */
  trn_map *by_key;
  size_t node_count; /* of the root: in the whole tree */
};

/* ---- making ---- */

static void node_destroy(trn_config *node) {
  if (!node) return;
  /* Nesting is bounded by TRN_CONFIG_DEPTH_MAX. */
  for (size_t i = 0; i < node->items.count; i++) node_destroy(node->items.items[i]);
  trn__vec_finish(&node->items);
  trn__map_destroy(node->by_key, NULL);
  free(node->key);
  free(node->text);
  free(node->origin);
  free(node);
}

static trn_config *node_create(trn_config_kind kind, const char *key, const char *text, const char *origin) {
  trn_config *node = calloc(1, sizeof *node);
  if (!node) return NULL;
  node->kind = kind;
  if ((key && !(node->key = strdup(key))) || (text && !(node->text = strdup(text))) ||
      (origin && *origin && !(node->origin = strdup(origin))) ||
      (kind == TRN_CONFIG_MAP && !(node->by_key = trn__map_create()))) {
    node_destroy(node);
    return NULL;
  }
  return node;
}

trn_config *trn_config_create(void) {
  return node_create(TRN_CONFIG_MAP, NULL, NULL, NULL);
}

void trn_config_destroy(trn_config *root) {
  node_destroy(root);
}

static trn_status check_room(trn_config *parent, const char *origin, trn_error **error) {
  unsigned depth = 0;
  trn_config *root = parent;
  for (; root->parent; root = root->parent) depth++;
  if (depth + 1 >= TRN_CONFIG_DEPTH_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "%s: more than %u levels of nesting", origin,
                         TRN_CONFIG_DEPTH_MAX);
  if (root->node_count >= TRN_CONFIG_NODES_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "%s: more than %u values", origin, TRN_CONFIG_NODES_MAX);
  root->node_count++;
  return TRN_OK;
}

static trn_status add_node(trn_config *parent, const char *key, trn_config_kind kind, const char *text,
                           const char *origin, trn_config **out, trn_error **error) {
  trn_status status = check_room(parent, origin ? origin : "configuration", error);
  if (status) return status;
  trn_config *node = node_create(kind, key, text, origin);
  if (!node || !trn__vec_push(&parent->items, node)) {
    node_destroy(node);
    return trn__no_memory(error);
  }
  node->parent = parent;
  if (key && !trn__map_set(parent->by_key, key, strlen(key), node, NULL)) {
    parent->items.count--;
    node_destroy(node);
    return trn__no_memory(error);
  }
  if (out) *out = node;
  return TRN_OK;
}

trn_status trn_config_add(trn_config *parent, const char *key, trn_config_kind kind, const char *text,
                          const char *origin, trn_config **out, trn_error **error) {
  if (!parent || (parent->kind == TRN_CONFIG_MAP) != (key != NULL) ||
      (parent->kind != TRN_CONFIG_MAP && parent->kind != TRN_CONFIG_LIST) ||
      (kind == TRN_CONFIG_TEXT) != (text != NULL))
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A map takes values with keys, a list takes them without");
  const trn_config *taken = key ? trn_config_get(parent, key) : NULL;
  if (taken)
    return trn_error_set(error, TRN_ALREADY_EXISTS, NULL, "%s: '%s' is there twice, first at %s",
                         origin ? origin : "configuration", key, trn_config_origin(taken));
  return add_node(parent, key, kind, text, origin, out, error);
}

static trn_status in_the_way(const trn_config *node, const char *path, const char *origin, trn_error **error) {
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s%s'%s' cannot be set: '%s' is already something else%s%s",
                       origin, *origin ? ": " : "", path, node->key ? node->key : "", node->origin ? ", set at " : "",
                       trn_config_origin(node));
}

/* Sets what the last key of a path names. */
static trn_status set_last(trn_config *map, const char *key, const char *value, const char *path, const char *origin,
                           trn_error **error) {
  size_t size = strlen(key);
  bool appends = size > 2 && strcmp(key + size - 2, "[]") == 0;
  if (appends) size -= 2;
  trn_config *node = trn__map_get(map->by_key, key, size);
  char name[TRN_CONFIG_NAME_MAX];
  if (!size || size >= sizeof name)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "'%s' is not a path of keys", path);
  memcpy(name, key, size);
  name[size] = 0;
  if (appends) {
    trn_status status = TRN_OK;
    if (!node) status = add_node(map, name, TRN_CONFIG_LIST, NULL, origin, &node, error);
    if (!status && node->kind == TRN_CONFIG_NONE) node->kind = TRN_CONFIG_LIST;
    if (!status && node->kind != TRN_CONFIG_LIST) status = in_the_way(node, path, origin, error);
    return status ? status : add_node(node, NULL, TRN_CONFIG_TEXT, value, origin, NULL, error);
  }
  if (!node) return add_node(map, name, TRN_CONFIG_TEXT, value, origin, NULL, error);
  if (node->kind != TRN_CONFIG_TEXT && node->kind != TRN_CONFIG_NONE) return in_the_way(node, path, origin, error);
  char *text = strdup(value), *from = strdup(origin);
  if (!text || !from) {
    free(text);
    free(from);
    return trn__no_memory(error);
  }
  free(node->text);
  free(node->origin);
  node->kind = TRN_CONFIG_TEXT;
  node->text = text;
  node->origin = from;
  return TRN_OK;
}

trn_status trn_config_set_from(trn_config *root, const char *path, const char *value, const char *origin,
                               trn_error **error) {
  if (!root || root->kind != TRN_CONFIG_MAP || !path || !value)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A path and a value are set in a map");
  if (!origin) origin = "";
  trn_config *map = root;
  const char *key = path;
  for (const char *dot; (dot = strchr(key, '.')); key = dot + 1) {
    char name[TRN_CONFIG_NAME_MAX];
    size_t size = (size_t)(dot - key);
    if (!size || size >= sizeof name)
      return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "'%s' is not a path of keys", path);
    memcpy(name, key, size);
    name[size] = 0;
    trn_config *next = trn__map_get(map->by_key, name, size);
    if (!next) {
      trn_status status = add_node(map, name, TRN_CONFIG_MAP, NULL, origin, &next, error);
      if (status) return status;
    } else if (next->kind == TRN_CONFIG_NONE) {
      if (!(next->by_key = trn__map_create())) return trn__no_memory(error);
      next->kind = TRN_CONFIG_MAP;
    } else if (next->kind != TRN_CONFIG_MAP) {
      return in_the_way(next, path, origin, error);
    }
    map = next;
  }
  return set_last(map, key, value, path, origin, error);
}

trn_status trn_config_set(trn_config *root, const char *path, const char *value, trn_error **error) {
  return trn_config_set_from(root, path, value, "", error);
}

/* ---- reading ---- */

trn_config_kind trn_config_get_kind(const trn_config *node) {
  return node ? node->kind : TRN_CONFIG_NONE;
}

size_t trn_config_count(const trn_config *node) {
  return node ? node->items.count : 0;
}

const trn_config *trn_config_at(const trn_config *node, size_t index) {
  return node && index < node->items.count ? node->items.items[index] : NULL;
}

const char *trn_config_key_at(const trn_config *node, size_t index) {
  const trn_config *item = trn_config_at(node, index);
  return item ? item->key : NULL;
}

const trn_config *trn_config_get(const trn_config *node, const char *key) {
  return node && node->kind == TRN_CONFIG_MAP ? trn__map_get(node->by_key, key, strlen(key)) : NULL;
}

const char *trn_config_origin(const trn_config *node) {
  return node && node->origin ? node->origin : "";
}

const char *trn_config_value(const trn_config *node) {
  return node && node->kind == TRN_CONFIG_TEXT ? node->text : NULL;
}

/* ---- typed reads ---- */

static trn_status bad_value(const trn_config *node, const char *key, const char *wanted, trn_error **error) {
  static const char *const kinds[] = {"nothing", "a text", "a list", "a map"};
  const char *origin = trn_config_origin(node);
  if (node->kind == TRN_CONFIG_TEXT)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s%s%s: '%s' is not %s", origin, *origin ? ": " : "", key,
                         node->text, wanted);
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s%s%s: %s is given where %s is wanted", origin,
                       *origin ? ": " : "", key, kinds[node->kind], wanted);
}

/* The text of a key; *text NULL: not there. */
static trn_status read_text(const trn_config *map, const char *key, const char *wanted, const trn_config **node,
                            const char **text, trn_error **error) {
  *text = NULL;
  *node = trn_config_get(map, key);
  if (!*node || (*node)->kind == TRN_CONFIG_NONE) return TRN_OK;
  if ((*node)->kind != TRN_CONFIG_TEXT) return bad_value(*node, key, wanted, error);
  *text = (*node)->text;
  return TRN_OK;
}

trn_status trn_config_text(const trn_config *map, const char *key, const char **out, trn_error **error) {
  const trn_config *node;
  const char *text;
  trn_status status = read_text(map, key, "a text", &node, &text, error);
  if (!status && text) *out = text;
  return status;
}

trn_status trn_config_bool(const trn_config *map, const char *key, bool *out, trn_error **error) {
  static const char *const words[] = {"true", "yes", "on", "1", "false", "no", "off", "0"};
  const trn_config *node;
  const char *text;
  trn_status status = read_text(map, key, "true or false", &node, &text, error);
  if (status || !text) return status;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (strcasecmp(text, words[i]) != 0) continue;
    *out = i < 4;
    return TRN_OK;
  }
  return bad_value(node, key, "true or false", error);
}

trn_status trn_config_number(const trn_config *map, const char *key, int64_t minimum, int64_t maximum, int64_t *out,
                             trn_error **error) {
  char wanted[96];
  const trn_config *node;
  const char *text;
  snprintf(wanted, sizeof wanted, "a number from %lld to %lld", (long long)minimum, (long long)maximum);
  trn_status status = read_text(map, key, wanted, &node, &text, error);
  if (status || !text) return status;
  char *end;
  errno = 0;
  long long number = strtoll(text, &end, 10);
  if (errno || end == text || *end || number < minimum || number > maximum) return bad_value(node, key, wanted, error);
  *out = number;
  return TRN_OK;
}

typedef struct unit {
  const char *name;
  uint64_t factor;
} unit;

/* A number with a unit; no sign, no fraction. */
static bool parse_units(const char *text, const unit *units, uint64_t *out) {
  char *end;
  errno = 0;
  if (*text < '0' || *text > '9') return false;
  unsigned long long number = strtoull(text, &end, 10);
  if (errno) return false;
  while (*end == ' ') end++;
  for (; units->name; units++) {
    if (strcasecmp(end, units->name) != 0) continue;
    if (number > UINT64_MAX / units->factor) return false;
    *out = number * units->factor;
    return true;
  }
  return false;
}

trn_status trn_config_size(const trn_config *map, const char *key, uint64_t *out, trn_error **error) {
  static const unit units[] = {{"", 1},
                               {"K", 1ull << 10},
                               {"M", 1ull << 20},
                               {"G", 1ull << 30},
                               {"T", 1ull << 40},
                               {"KiB", 1ull << 10},
                               {"MiB", 1ull << 20},
                               {"GiB", 1ull << 30},
                               {"TiB", 1ull << 40},
                               {NULL, 0}};
  const trn_config *node;
  const char *text;
  trn_status status = read_text(map, key, "a number of bytes such as 512M", &node, &text, error);
  if (status || !text) return status;
  return parse_units(text, units, out) ? TRN_OK : bad_value(node, key, "a number of bytes such as 512M", error);
}

trn_status trn_config_duration(const trn_config *map, const char *key, uint64_t *out_ms, trn_error **error) {
  static const unit units[] = {{"", 1},        {"ms", 1},       {"s", 1000}, {"m", 60000},
                               {"h", 3600000}, {"d", 86400000}, {NULL, 0}};
  const trn_config *node;
  const char *text;
  trn_status status = read_text(map, key, "a time such as 500ms or 2m", &node, &text, error);
  if (status || !text) return status;
  return parse_units(text, units, out_ms) ? TRN_OK : bad_value(node, key, "a time such as 500ms or 2m", error);
}

/* ---- unknown keys ---- */

const char *trn_config_nearest(const char *name, const char *const *names) {
  const char *best = NULL;
  size_t size = strlen(name), least = size / 2 + 1; /* half of it must be right */
  if (size > TRN_CONFIG_NAME_MAX) return NULL;
  for (; *names; names++) {
    if (strlen(*names) > TRN_CONFIG_NAME_MAX) continue;
    size_t distance = trn__edit_distance(name, *names);
    if (distance >= least) continue;
    least = distance;
    best = *names;
  }
  return best;
}

trn_status trn_config_check_keys(const trn_config *map, const char *const *keys, trn_error **error) {
  if (!map || map->kind == TRN_CONFIG_NONE) return TRN_OK;
  if (map->kind != TRN_CONFIG_MAP) return bad_value(map, map->key ? map->key : "configuration", "a map", error);
  for (size_t i = 0; i < map->items.count; i++) {
    const trn_config *item = map->items.items[i];
    const char *const *known = keys;
    while (*known && strcmp(*known, item->key) != 0) known++;
    if (*known) continue;
    const char *origin = trn_config_origin(item), *nearest = trn_config_nearest(item->key, keys);
    trn_strbuf list = {0};
    if (!nearest)
      for (known = keys; *known; known++) trn__strbuf_printf(&list, "%s%s", known == keys ? "" : ", ", *known);
    trn_status status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s%sunknown key '%s'%s%s%s; %s%s%s", origin,
                                      *origin ? ": " : "", item->key, map->key ? " in '" : "", map->key ? map->key : "",
                                      map->key ? "'" : "", nearest ? "did you mean '" : "known are: ",
                                      nearest     ? nearest
                                      : list.data ? list.data
                                                  : "none",
                                      nearest ? "'?" : "");
    trn__strbuf_finish(&list);
    return status;
  }
  return TRN_OK;
}
