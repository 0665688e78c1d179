/* What the layers share. Internal. */
#ifndef TRN_LAYER_LAYER_H
#define TRN_LAYER_LAYER_H
#include "core/core.h"
#include "core/query.h"
#include "plan/plan.h"
#include <trunnion/layer.h>

/* Adds every layer of this folder by its name. */
trn_status trn__layers_register(trn_registry *registry, trn_error **error);

/* ---- the layer itself (layer.c) ---- */
/* The layer that a backend is; NULL: it is none. */
trn_layer *trn__layer_of(trn_backend *backend);
const char *trn__layer_name(const trn_layer *layer);
trn_layer_role trn__layer_role(const trn_layer *layer);
void *trn__layer_self(const trn_layer *layer);
/* TRN_OK when the layer takes no settings while it runs. */
trn_status trn__layer_reload(trn_layer *layer, const trn_config *config, trn_error **error);
bool trn__layer_reloads(const trn_layer *layer);
bool trn__layer_is(const trn_layer *layer, void (*destroy)(void *self)); /* told by its destructor */
/* Where events go. Before the backend is shared. */
void trn__layer_set_sink(trn_layer *layer, trn_event_sink sink, void *user);
/* Likewise, of a layer that has a sink already; `release(user)` when the layer goes. */
void trn__layer_redirect(trn_layer *layer, trn_event_sink sink, void *user, void (*release)(void *user));
/* What another layer tells goes to the files of a trace layer, and on to its sink. False: `trace` is none. */
bool trn__trace_adopt(trn_layer *trace, trn_layer *other);
void trn__trace_forward(trn_layer *trace, trn_event_sink sink, void *user); /* where those go on to */
bool trn__layer_has_sink(const trn_layer *layer);
/* `event`: kind, action, object, detail, ... ; layer, user and session are filled in. thread: any */
void trn__layer_emit(const trn_layer *layer, const trn_layer_session *session, trn_event *event);
void *trn__layer_session_inner(const trn_layer_session *session); /* the next backend's state */
/* A reference to the layer's backend, which keeps the layer. */
trn_backend *trn__layer_ref(trn_layer *layer);
/* The worker threads of a layer: made with the first use, joined by its end. */
trn_status trn__layer_pool(trn_layer *layer, trn_pool **out);
/* Makes a layer whose `name` and destructor tell it; for the layers here: sink and registration in one. */
trn_status trn__layer_make(const trn_layer_ops *ops, void *self, trn_backend *inner, trn_event_sink sink,
                           void *sink_user, trn_backend **out, trn_error **error);

trn_deferred *trn__deferred_ref(trn_deferred *handle);
/* About what an array's rows take. */
uint64_t trn__array_size(const struct ArrowSchema *schema, const struct ArrowArray *array);

/* ---- lists of texts from configurations (config.c) ---- */
typedef struct trn_texts {
  char **items;
  size_t count;
} trn_texts;
void trn__texts_finish(trn_texts *texts);
/* A list of texts, or one text; absent: nothing. INVALID_ARGUMENT names key and origin. */
trn_status trn__texts_read(const trn_config *map, const char *key, trn_texts *out, trn_error **error);
bool trn__texts_match(const trn_texts *patterns, const char *text, bool ignore_case);

/* Who: users, groups, and those that are excepted. All empty: everybody. */
typedef struct trn_who {
  trn_texts users, groups, except_users, except_groups;
} trn_who;
void trn__who_finish(trn_who *who);
trn_status trn__who_read(const trn_config *map, trn_who *out, trn_error **error);
bool trn__who_matches(const trn_who *who, const trn_session *session);
#define TRN_WHO_KEYS "users", "groups", "except_users", "except_groups"

/* A path or URL as rules see it: absolute, without "." and "..", without "file:"; links are followed when `follows`. Gives
 * text (free), or NULL: out of memory. */
char *trn__path_normal(const char *path, bool follows);

/* ---- questions to the embedder (decision.c) ---- */
typedef struct trn_desk trn_desk; /* asks, waits, takes answers */
/* `callback` NULL: everything is allowed. Takes callback->user on success. */
trn_status trn__desk_create(const trn_policy_callback *callback, trn_desk **out, trn_error **error);
void trn__desk_destroy(trn_desk *desk);
void trn__desk_drop(trn_desk *desk); /* likewise, but callback->user goes back to who gave it */
/* Blocks until there is an answer. */
trn_status trn__desk_ask(trn_desk *desk, const trn_access *access, trn_error **error);
size_t trn__desk_misuses(const trn_desk *desk);

/* ---- what a plan reads and uses (uses.c) ---- */
/* Ids of columns that something needs: the root, conditions, what has an effect. */
typedef struct trn_live {
  uint64_t *bits;
  uint32_t count; /* ids below */
} trn_live;
trn_status trn__live_columns(const trn_plan *plan, trn_live *out);
static inline bool trn__is_live(const trn_live *live, uint32_t id) {
  return id < live->count && (live->bits[id >> 6] >> (id & 63) & 1);
}
void trn__live_finish(trn_live *live);

/* Names of tables and paths that a plan reads, comma separated, for logs. Gives text (free); NULL: out of memory. */
char *trn__plan_objects(const trn_plan *plan);
/* "query", "write", "physical" */
const char *trn__plan_statement(const trn_plan *plan);

#endif
