/* The limit layer: how many queries run and wait, for whom, how long, how much they give. A slot is taken before the next
 * backend sees the query and comes back when its operation ends, however it ends.
 *
 * A waiting query is a deferred operation. Under the lock a ticket goes WAITING -> GRANTED (it has a slot) or WAITING ->
 * GONE (cancelled, expired); whoever makes the step goes on with it. */
#include <pthread.h>

#include "layer/request.h"

typedef struct pool_config {
  char *name;
  trn_who who;
  int64_t concurrent, queue, weight; /* concurrent 0: no bound of its own */
  uint64_t run_ms, bytes;            /* 0: none */
} pool_config;

typedef struct pool {
  pool_config config;
  uint64_t running, waiting;
} pool;

typedef struct user_state {
  uint64_t running, waiting;
} user_state;

typedef enum ticket_state { TICKET_WAITING = 0, TICKET_GRANTED, TICKET_GONE } ticket_state;

/* What a timer holds on to: outlives the query cheaply. */
typedef struct shell {
  atomic_size_t refs;
  pthread_mutex_t mu;
  trn_operation *operation; /* a reference while it runs; guarded by mu */
  bool is_expired;          /* guarded by mu */
} shell;

typedef struct limit limit;
typedef struct ticket ticket;

/* Of a waiting query; the layer's threads end before the layer does. */
typedef struct wait_timer {
  limit *limit;
  ticket *ticket; /* NULL: it waits no more; guarded by limit->mu */
} wait_timer;

struct ticket {
  atomic_size_t refs;
  limit *limit;
  trn_backend *backend; /* a reference: keeps the layer */
  trn_session *session; /* a reference: keeps the layer's session */
  trn_layer_session *layer_session;
  pool *pool;
  user_state *user;
  trn_execute_request request; /* texts and plan are owned */
  trn_deferred *deferred; /* a reference, until it waits no more: whoever takes it out of the queue takes that, too */
  shell *shell;
  struct ticket *next; /* in the queue; guarded by limit->mu */
  ticket_state state;  /* guarded by limit->mu */
  int64_t since_ns;
  atomic_uint_least64_t bytes;
  bool has_slot; /* guarded by limit->mu */
  trn_deferred *starting; /* of who gave it a slot, until it was told */
  wait_timer *timer; /* while it waits; guarded by limit->mu */
};

struct limit {
  pool *pools; /* the last one is for everybody else */
  size_t pool_count;
  int64_t concurrent, queue, per_user, per_user_queue;
  uint64_t queue_ms;
  pthread_mutex_t mu;
  /* guarded by mu */
  trn_map *users; /* name -> user_state; never removed: users are few, states small */
  ticket *first, **last;
  uint64_t running, waiting, started, refused, expired;
};

/* ---- tickets ---- */

static void shell_unref(shell *s) {
  if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
  trn_operation_unref(s->operation);
  pthread_mutex_destroy(&s->mu);
  free(s);
}

static void ticket_unref(ticket *t) {
  if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1) return;
  trn_deferred_unref(t->deferred);
  shell_unref(t->shell);
  if (t->request.plan) trn__request_finish(&t->request);
  trn_session_unref(t->session);
  trn_backend *backend = t->backend;
  free(t);
  trn_backend_unref(backend);
}

static ticket *ticket_create(limit *l, trn_layer_session *s, const trn_execute_request *request) {
  ticket *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  atomic_init(&t->refs, 1);
  t->limit = l;
  t->backend = trn__layer_ref(trn_layer_session_layer(s));
  t->session = trn_session_ref(trn_layer_session_get(s));
  t->layer_session = s;
  t->since_ns = trn__now_ns();
  t->shell = calloc(1, sizeof *t->shell);
  if (t->shell) {
    atomic_init(&t->shell->refs, 1);
    pthread_mutex_init(&t->shell->mu, NULL);
  }
  if (t->shell && trn__request_copy(&t->request, request)) return t;
  ticket_unref(t);
  return NULL;
}

static ticket *ticket_ref(ticket *t) {
  atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
  return t;
}

/* ---- slots; locks: limit->mu held ---- */

static bool can_run(const limit *l, const pool *p, const user_state *user) {
  return (!l->concurrent || l->running < (uint64_t)l->concurrent) &&
         (!p->config.concurrent || p->running < (uint64_t)p->config.concurrent) &&
         (!l->per_user || user->running < (uint64_t)l->per_user);
}

static void take_slot(limit *l, ticket *t) {
  l->running++, l->started++;
  t->pool->running++;
  t->user->running++;
  t->has_slot = true;
  t->state = TICKET_GRANTED;
}

/* Gives the handle that the ticket had. */
static trn_deferred *leave_queue(limit *l, ticket *t) {
  ticket **at = &l->first;
  while (*at != t) at = &(*at)->next;
  *at = t->next;
  if (!t->next) l->last = at;
  t->next = NULL;
  l->waiting--;
  t->pool->waiting--;
  t->user->waiting--;
  if (t->timer) t->timer->ticket = NULL;
  t->timer = NULL;
  trn_deferred *handle = t->deferred;
  t->deferred = NULL;
  return handle;
}

/* The waiting one whose pool has the smallest share of what runs, then whose user has; else the oldest. */
static ticket *next_waiting(const limit *l) {
  ticket *best = NULL;
  for (ticket *t = l->first; t; t = t->next) {
    if (!can_run(l, t->pool, t->user)) continue;
    if (!best) {
      best = t;
      continue;
    }
    uint64_t mine = t->pool->running * (uint64_t)best->pool->config.weight;
    uint64_t its = best->pool->running * (uint64_t)t->pool->config.weight;
    if (mine < its || (mine == its && t->user->running < best->user->running)) best = t;
  }
  return best;
}

/* ---- slots, given back; locks: none ---- */

static void emit(const ticket *t, const char *action, const char *detail, trn_status status) {
  trn_event event = {.kind = TRN_EVENT_LIMIT,
                     .action = action,
                     .object = t->pool->config.name,
                     .operation_id = t->request.operation_id,
                     .statement = t->request.statement,
                     .protocol = t->request.protocol,
                     .detail = detail,
                     .duration_ns = trn__now_ns() - t->since_ns,
                     .rows = -1,
                     .bytes = -1,
                     .status = status};
  trn__layer_emit(trn_layer_session_layer(t->layer_session), t->layer_session, &event);
}

static void give_back(ticket *t) {
  limit *l = t->limit;
  ticket *taken = NULL; /* nothing is allocated here: a slot that cannot be handed on would be lost */
  pthread_mutex_lock(&l->mu);
  if (t->has_slot) {
    t->has_slot = false;
    l->running--;
    t->pool->running--;
    t->user->running--;
  }
  /* One slot may let several go: of another pool or user that could not before. */
  for (ticket *next; (next = next_waiting(l));) {
    next->starting = leave_queue(l, next);
    take_slot(l, next);
    next->next = taken; /* the queue's reference is ours now */
    taken = next;
  }
  pthread_mutex_unlock(&l->mu);
  while (taken) {
    ticket *next = taken->next;
    trn_deferred *handle = taken->starting;
    taken->starting = NULL;
    trn_deferred_start(handle);
    trn_deferred_unref(handle);
    ticket_unref(taken);
    taken = next;
  }
}

/* ---- running ---- */

static trn_status count_item(void *user, int64_t rows, uint64_t bytes, trn_error **error) {
  ticket *t = user;
  (void)rows;
  uint64_t most = t->pool->config.bytes, sum = atomic_fetch_add(&t->bytes, bytes) + bytes;
  if (!most || sum <= most) return TRN_OK;
  emit(t, "bytes", "a result is larger than result_bytes", TRN_RESOURCE_EXHAUSTED);
  return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                       "The result is larger than the %llu bytes that pool '%s' may read (limit.result_bytes)",
                       (unsigned long long)most, t->pool->config.name);
}

static trn_status tell_failure(void *user, trn_status status, trn_error **error) {
  ticket *t = user;
  pthread_mutex_lock(&t->shell->mu);
  bool is_expired = t->shell->is_expired;
  pthread_mutex_unlock(&t->shell->mu);
  if (!is_expired) return status;
  return trn_error_set(error, TRN_DEADLINE_EXCEEDED, NULL,
                       "The query ran longer than the %llu ms that pool '%s' allows (limit.run_time)",
                       (unsigned long long)t->pool->config.run_ms, t->pool->config.name);
}

static void run_end(void *user, trn_status status, const trn_error *error) {
  ticket *t = user;
  (void)error;
  pthread_mutex_lock(&t->shell->mu);
  trn_operation *operation = t->shell->operation;
  t->shell->operation = NULL;
  pthread_mutex_unlock(&t->shell->mu);
  trn_operation_unref(operation);
  emit(t, "end", NULL, status);
  give_back(t);
}

static void run_destroy(void *user) {
  ticket_unref(user);
}

static void run_expired(void *argument) {
  shell *s = argument;
  pthread_mutex_lock(&s->mu);
  trn_operation *operation = s->operation ? trn_operation_ref(s->operation) : NULL;
  if (operation) s->is_expired = true;
  pthread_mutex_unlock(&s->mu);
  if (operation) trn_operation_cancel(operation);
  trn_operation_unref(operation);
  shell_unref(s);
}

/* A ticket with a slot becomes an operation. On failure the slot is given back. */
static trn_status run(ticket *t, trn_operation **out, trn_error **error) {
  static const trn_watch_hooks hooks = {.struct_size = sizeof hooks,
                                        .item = count_item,
                                        .end = run_end,
                                        .destroy = run_destroy,
                                        .fail = tell_failure};
  trn_operation *inner = NULL;
  trn_status status = trn_next_execute(t->layer_session, &t->request, &inner, error);
  if (status) {
    give_back(t);
    return status;
  }
  t->shell->operation = trn_operation_ref(inner); /* nobody else sees it yet */
  status = trn_operation_watch(inner, &hooks, t, out);
  if (status) {
    trn_operation_cancel(inner);
    trn_operation_unref(inner);
    give_back(t);
    return trn__no_memory(error);
  }
  ticket_ref(t);
  trn_pool *threads = NULL;
  if (!t->pool->config.run_ms || trn__layer_pool(trn_layer_session_layer(t->layer_session), &threads)) return TRN_OK;
  atomic_fetch_add_explicit(&t->shell->refs, 1, memory_order_relaxed);
  if (trn__pool_submit_after(threads, t->pool->config.run_ms, run_expired, t->shell)) shell_unref(t->shell);
  return TRN_OK;
}

/* ---- waiting ---- */

static trn_status start_waiting(void *user, trn_operation **out, trn_error **error) {
  emit(user, "start", "after waiting", TRN_OK);
  return run(user, out, error);
}

static void cancel_waiting(void *user) {
  ticket *t = user;
  limit *l = t->limit;
  pthread_mutex_lock(&l->mu);
  bool was_waiting = t->state == TICKET_WAITING;
  trn_deferred *handle = was_waiting ? leave_queue(l, t) : NULL;
  if (was_waiting) t->state = TICKET_GONE;
  pthread_mutex_unlock(&l->mu);
  if (!was_waiting) give_back(t); /* it had a slot and will not start */
  trn_deferred_unref(handle);
  if (was_waiting) ticket_unref(t); /* the queue's */
}

static void destroy_waiting(void *user) {
  ticket_unref(user);
}

static void wait_expired(void *argument) {
  wait_timer *timer = argument;
  limit *l = timer->limit;
  pthread_mutex_lock(&l->mu);
  ticket *t = timer->ticket;
  trn_deferred *handle = t ? leave_queue(l, t) : NULL;
  if (t) {
    t->state = TICKET_GONE;
    l->expired++;
  }
  pthread_mutex_unlock(&l->mu);
  if (t) {
    trn_error *error = NULL;
    trn_status status = trn_error_set(&error, TRN_RESOURCE_EXHAUSTED, NULL,
                                      "The query waited longer than %llu ms for its turn (limit.queue_timeout)",
                                      (unsigned long long)l->queue_ms);
    emit(t, "expire", NULL, status);
    trn_deferred_fail(handle, status, error);
    trn_error_unref(error);
    ticket_unref(t); /* the queue's */
  }
  trn_deferred_unref(handle);
  free(timer);
}

/* The ticket is in the queue (a reference of its own): it becomes an operation that begins later. */
static trn_status wait_turn(ticket *t, trn_operation **out, trn_error **error) {
  static const trn_deferred_ops ops = {
      .struct_size = sizeof ops, .start = start_waiting, .cancelled = cancel_waiting, .destroy = destroy_waiting};
  trn_layer *layer = trn_layer_session_layer(t->layer_session);
  limit *l = t->limit;
  trn_pool *threads = NULL;
  wait_timer *timer = l->queue_ms ? malloc(sizeof *timer) : NULL;
  if (l->queue_ms && (!timer || trn__layer_pool(layer, &threads))) {
    free(timer);
    return trn__no_memory(error);
  }
  trn_status status = trn_deferred_create(layer, &ops, t, &t->request, &t->deferred, out);
  if (status) {
    free(timer);
    return trn__no_memory(error);
  }
  ticket_ref(t); /* the operation's */
  /* Only now may it be granted: the handle is there. */
  pthread_mutex_lock(&l->mu);
  t->next = NULL;
  *l->last = ticket_ref(t);
  l->last = &t->next;
  l->waiting++;
  t->pool->waiting++;
  t->user->waiting++;
  if (timer) *timer = (wait_timer){l, t};
  t->timer = timer;
  pthread_mutex_unlock(&l->mu);
  emit(t, "wait", NULL, TRN_OK);
  give_back(t); /* a slot may have become free meanwhile */
  if (timer && trn__pool_submit_after(threads, l->queue_ms, wait_expired, timer)) {
    pthread_mutex_lock(&l->mu); /* no timer: it waits as long as it takes */
    if (timer->ticket) timer->ticket->timer = NULL;
    pthread_mutex_unlock(&l->mu);
    free(timer);
  }
  return TRN_OK;
}

/* ---- the layer ---- */

static pool *pool_of(const limit *l, const trn_session *session) {
  for (size_t i = 0; i + 1 < l->pool_count; i++)
    if (trn__who_matches(&l->pools[i].config.who, session)) return &l->pools[i];
  return &l->pools[l->pool_count - 1];
}

/* locks: limit->mu held; NULL: no memory */
static user_state *user_of(limit *l, const char *name) {
  user_state *user = trn__map_get(l->users, name, strlen(name));
  if (user) return user;
  user = calloc(1, sizeof *user);
  if (user && trn__map_set(l->users, name, strlen(name), user, NULL)) return user;
  free(user);
  return NULL;
}

static bool is_full(const limit *l, const ticket *t) {
  return l->waiting >= (uint64_t)l->queue || t->pool->waiting >= (uint64_t)t->pool->config.queue ||
         (l->per_user_queue && t->user->waiting >= (uint64_t)l->per_user_queue);
}

static trn_status execute(void *self, trn_layer_session *s, const trn_execute_request *request, trn_operation **out,
                          trn_error **error) {
  limit *l = self;
  ticket *t = ticket_create(l, s, request);
  if (!t) return trn__no_memory(error);
  t->pool = pool_of(l, t->session);
  bool runs = false, full = false;
  pthread_mutex_lock(&l->mu);
  t->user = user_of(l, trn_session_user(t->session));
  if (t->user) {
    runs = !l->waiting && can_run(l, t->pool, t->user);
    if (!runs && can_run(l, t->pool, t->user)) { /* those who wait may be waiting for something else */
      ticket *other = next_waiting(l);
      runs = !other;
    }
    full = !runs && is_full(l, t);
    if (runs) take_slot(l, t);
    if (full) l->refused++;
  }
  pthread_mutex_unlock(&l->mu);
  trn_status status;
  if (!t->user) {
    status = trn__no_memory(error);
  } else if (full) {
    emit(t, "refuse", "the queue is full", TRN_RESOURCE_EXHAUSTED);
    status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                           "Too many queries run and wait in pool '%s' (limit.concurrent, limit.queue)",
                           t->pool->config.name);
  } else {
    status = runs ? run(t, out, error) : wait_turn(t, out, error);
  }
  ticket_unref(t);
  return status;
}

/* ---- configuration ---- */

static trn_status read_pool(const trn_config *map, pool_config *p, trn_error **error) {
  trn_status status = trn_config_number(map, "concurrent", 1, INT32_MAX, &p->concurrent, error);
  if (status == TRN_OK) status = trn_config_number(map, "queue", 0, INT32_MAX, &p->queue, error);
  if (status == TRN_OK) status = trn_config_number(map, "weight", 1, 1000, &p->weight, error);
  if (status == TRN_OK) status = trn_config_duration(map, "run_time", &p->run_ms, error);
  if (status == TRN_OK) status = trn_config_size(map, "result_bytes", &p->bytes, error);
  return status;
}

static trn_status read_named_pool(const trn_config *map, const pool_config *common, pool_config *p,
                                  trn_error **error) {
  static const char *const keys[] = {TRN_WHO_KEYS, "name",     "concurrent",   "queue",
                                     "weight",     "run_time", "result_bytes", NULL};
  const char *name = NULL;
  p->queue = common->queue, p->weight = 1, p->run_ms = common->run_ms, p->bytes = common->bytes;
  trn_status status = trn_config_check_keys(map, keys, error);
  if (status == TRN_OK) status = trn__who_read(map, &p->who, error);
  if (status == TRN_OK) status = trn_config_text(map, "name", &name, error);
  if (status == TRN_OK && !name)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: a pool has a 'name'", trn_config_origin(map));
  if (status == TRN_OK) status = read_pool(map, p, error);
  if (status == TRN_OK && !(p->name = trn__text_copy(name))) status = trn__no_memory(error);
  return status;
}

static trn_status read_limit(const trn_config *config, limit *l, trn_error **error) {
  static const char *const keys[] = {"concurrent", "queue",        "queue_timeout", "per_user", "per_user_queue",
                                     "run_time",   "result_bytes", "pools",         NULL};
  const trn_config *pools = trn_config_get(config, "pools");
  size_t count = trn_config_count(pools);
  pool_config common = {.queue = 1000, .weight = 1};
  l->queue_ms = 60 * 1000;
  trn_status status = trn_config_check_keys(config, keys, error);
  if (status == TRN_OK) status = read_pool(config, &common, error);
  if (status == TRN_OK) status = trn_config_duration(config, "queue_timeout", &l->queue_ms, error);
  if (status == TRN_OK) status = trn_config_number(config, "per_user", 1, INT32_MAX, &l->per_user, error);
  if (status == TRN_OK) status = trn_config_number(config, "per_user_queue", 1, INT32_MAX, &l->per_user_queue, error);
  if (status == TRN_OK && pools && trn_config_get_kind(pools) != TRN_CONFIG_LIST)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: 'pools' is a list", trn_config_origin(pools));
  l->concurrent = common.concurrent;
  l->queue = common.queue;
  if (status == TRN_OK && !(l->pools = calloc(count + 1, sizeof *l->pools))) status = trn__no_memory(error);
  for (size_t i = 0; i < count && status == TRN_OK; i++) {
    l->pool_count = i + 1;
    status = read_named_pool(trn_config_at(pools, i), &common, &l->pools[i].config, error);
  }
  if (status) return status;
  pool_config *rest = &l->pools[l->pool_count++].config;
  *rest = common;
  rest->concurrent = 0; /* the bound of all is its bound */
  rest->name = trn__text_copy("default");
  return rest->name ? TRN_OK : trn__no_memory(error);
}

static void destroy(void *self) {
  limit *l = self;
  for (size_t i = 0; i < l->pool_count; i++) {
    free(l->pools[i].config.name);
    trn__who_finish(&l->pools[i].config.who);
  }
  free(l->pools);
  trn__map_destroy(l->users, free);
  pthread_mutex_destroy(&l->mu);
  free(l);
}

trn_status trn_limit_create(const trn_limit_options *given, trn_backend *inner, trn_backend **out, trn_error **error) {
  static const trn_layer_ops ops = {.struct_size = sizeof ops,
                                    .name = "limit",
                                    .role = TRN_LAYER_EXECUTE,
                                    .execute = execute,
                                    .destroy = destroy};
  *out = NULL;
  trn_limit_options options = {0};
  if (given) memcpy(&options, given, trn__struct_size(given->struct_size, sizeof options));
  limit *l = calloc(1, sizeof *l);
  if (!l) return trn__no_memory(error);
  pthread_mutex_init(&l->mu, NULL);
  l->last = &l->first;
  l->users = trn__map_create();
  trn_status status = l->users ? read_limit(options.config, l, error) : trn__no_memory(error);
  if (status == TRN_OK) status = trn__layer_make(&ops, l, inner, options.sink, options.sink_user, out, error);
  if (status) destroy(l);
  return status;
}

bool trn_limit_count(trn_backend *backend, trn_limit_counts *out) {
  trn_layer *layer = trn__layer_of(backend);
  if (!layer || !trn__layer_is(layer, destroy)) return false;
  limit *l = trn__layer_self(layer);
  trn_limit_counts counts = {.struct_size = out->struct_size};
  pthread_mutex_lock(&l->mu);
  counts.running = l->running, counts.waiting = l->waiting, counts.started = l->started;
  counts.refused = l->refused, counts.expired = l->expired;
  pthread_mutex_unlock(&l->mu);
  memcpy(out, &counts, trn__struct_size(out->struct_size, sizeof counts));
  return true;
}
