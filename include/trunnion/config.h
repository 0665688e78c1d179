/* Configuration as a tree of named values: what a file, the environment and flags say, and what factories of frontends,
 * backends, layers and catalogs are given (registry.h). */
#ifndef TRUNNION_CONFIG_H
#define TRUNNION_CONFIG_H
#include <trunnion/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A node of the tree: text, a list of nodes, or a map from keys to nodes. Immutable once handed out; borrowed from its
 *  root. All functions accept NULL as "not there". Threads: any. */
typedef struct trn_config trn_config;

typedef enum trn_config_kind { TRN_CONFIG_NONE = 0, TRN_CONFIG_TEXT, TRN_CONFIG_LIST, TRN_CONFIG_MAP } trn_config_kind;

/** An empty map, to be filled from code before it is handed out. NULL: out of memory. */
TRN_API trn_config *trn_config_create(void);
TRN_API void trn_config_destroy(trn_config *root); /**< the root only; NULL is accepted */
/** Sets the value at a path of keys joined by dots ("auth.tokens"), making maps on the way; "name[]" appends to a list.
 *  Copies. INVALID_ARGUMENT when a value is in the way. */
TRN_API trn_status trn_config_set(trn_config *root, const char *path, const char *value, trn_error **error);
/** As trn_config_set, with the origin that messages name. Copies. A text that is there is replaced: how the environment
 *  and flags go over a file. */
TRN_API trn_status trn_config_set_from(trn_config *root, const char *path, const char *value, const char *origin,
                                       trn_error **error);
/** For readers of files, whose keys may have dots: adds a node to a map under `key`, or to a list (`key` NULL). `text`
 *  for TEXT only. Copies. Gives `*out` (borrowed from the root; may be NULL). ALREADY_EXISTS names a key that is there;
 *  RESOURCE_EXHAUSTED over the limits of nesting and number. Since 0.1. */
TRN_API trn_status trn_config_add(trn_config *parent, const char *key, trn_config_kind kind, const char *text,
                                  const char *origin, trn_config **out, trn_error **error);

TRN_API trn_config_kind trn_config_get_kind(const trn_config *node);
TRN_API size_t trn_config_count(const trn_config *node); /**< items of a list, keys of a map, else 0 */
TRN_API const trn_config *trn_config_at(const trn_config *node, size_t index);      /**< an item, or the value of a key */
TRN_API const char *trn_config_key_at(const trn_config *node, size_t index);        /**< maps, in the file's order */
TRN_API const trn_config *trn_config_get(const trn_config *node, const char *key);  /**< NULL: not there */
/** Where the node was written, for messages: "trunnion.yaml:12", "--listen", "TRUNNION_LISTEN"; "" when made by code. */
TRN_API const char *trn_config_origin(const trn_config *node);

/** Typed reads of a map's key. Absent: `*out` keeps what it has, TRN_OK. A value of another kind: INVALID_ARGUMENT that
 *  names origin, key and value. Text is borrowed. Sizes take K, M, G, T; durations ms, s, m, h, d (a bare number is ms). */
TRN_API trn_status trn_config_text(const trn_config *map, const char *key, const char **out, trn_error **error);
TRN_API trn_status trn_config_bool(const trn_config *map, const char *key, bool *out, trn_error **error);
TRN_API trn_status trn_config_number(const trn_config *map, const char *key, int64_t minimum, int64_t maximum,
                                     int64_t *out, trn_error **error);
TRN_API trn_status trn_config_size(const trn_config *map, const char *key, uint64_t *out, trn_error **error);
TRN_API trn_status trn_config_duration(const trn_config *map, const char *key, uint64_t *out_ms, trn_error **error);
/** The text of a TEXT node, else NULL. */
TRN_API const char *trn_config_value(const trn_config *node);
/** INVALID_ARGUMENT when the map has a key that is not in `keys` (ends with NULL); names it and the nearest known one. */
TRN_API trn_status trn_config_check_keys(const trn_config *map, const char *const *keys, trn_error **error);
/** The one of `names` (ends with NULL) that `name` was most likely meant to be, or NULL. */
TRN_API const char *trn_config_nearest(const char *name, const char *const *names);

#ifdef __cplusplus
}
#endif
#endif
