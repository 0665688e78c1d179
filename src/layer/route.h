/* Parts of the route layer. Internal to src/layer. */
#ifndef TRN_LAYER_ROUTE_H
#define TRN_LAYER_ROUTE_H
#include <pthread.h>

#include "core/query.h"
#include "layer/request.h"
#include "plan/graph.h"

typedef struct route_target {
  char *name;
  trn_backend *backend; /* a reference */
  const trn_backend_ops *ops;
  void *self;
  trn_texts functions; /* what it can run; none: everything */
  bool (*is_healthy)(void *user);
  void *user;
  /* judged by failures; guarded by route->mu */
  unsigned failures;
  int64_t sick_until_ns;
} route_target;

typedef struct route_rule {
  trn_who who;
  trn_texts tags, tables, paths, functions, statements;
  char *setting, *setting_value; /* a key, and a pattern for its value */
  uint64_t bytes_min, bytes_max; /* of what is scanned; 0: none */
  size_t target;
} route_rule;

typedef struct route {
  route_target *targets; /* [0]: "default", the backend inside */
  size_t target_count;
  route_rule *rules;
  size_t rule_count;
  size_t *fallback; /* targets, in order */
  size_t fallback_count;
  bool sticks;
  unsigned failures_max;
  uint64_t rest_ms;
  trn_route_choice choose;
  void *choose_user;
  pthread_mutex_t mu;
  trn_ptrmap sources; /* route_source that are alive; guarded by mu */
} route;

/* A session at all targets. */
typedef struct route_session {
  pthread_mutex_t mu;
  void **states; /* of the targets that were opened; guarded by mu */
  bool *is_open;
  size_t stuck; /* target of the session + 1; 0: none yet; guarded by mu */
} route_session;

/* ---- choosing (route_choose.c) ---- */
trn_status route__read(const trn_config *config, const trn_registry *registry, route *out, trn_error **error);
void route__finish(route *r);
/* Candidates in order of preference; `order` has room for all targets. Gives how many. */
size_t route__candidates(route *r, trn_layer_session *s, const trn_execute_request *request, size_t *order,
                         const char **reason);
/* The first function of the plan that the target cannot run; NULL: it runs all. */
const char *route__cannot_run(const route_target *target, const trn_plan *plan);
void route__report(route *r, size_t target, trn_status status);
bool route__is_healthy(route *r, size_t target);

#endif
