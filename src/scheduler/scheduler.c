/* Schedulers: their life, and submitting. */
#include "scheduler/scheduler.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

enum { LEASE_MS = 10000, POLL_MS = 100, RUNNING_MAX = 16, QUEUED_MAX = 10000, WORKERS = 4 };

/* ---- waiting ---- */

trn_status trn__condition_init(pthread_cond_t *condition) {
  pthread_condattr_t monotonic;
  if (pthread_condattr_init(&monotonic)) return TRN_RESOURCE_EXHAUSTED;
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  int code = pthread_cond_init(condition, &monotonic);
  pthread_condattr_destroy(&monotonic);
  return code ? TRN_RESOURCE_EXHAUSTED : TRN_OK;
}

bool trn__wait_until(pthread_cond_t *changed, pthread_mutex_t *mu, int64_t due_ns) {
  struct timespec due = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
  return pthread_cond_timedwait(changed, mu, &due) != ETIMEDOUT;
}

/* ---- life ---- */

static void fill(trn_scheduler *s, const trn_scheduler_options *o) {
  s->lease_ms = o->lease_ms ? o->lease_ms : LEASE_MS;
  s->poll_ms = o->poll_ms ? o->poll_ms : POLL_MS;
  s->running_max = o->jobs_running_max ? o->jobs_running_max : RUNNING_MAX;
  s->queued_max = o->jobs_queued_max ? o->jobs_queued_max : QUEUED_MAX;
  s->registry = o->registry;
}

static char *make_owner(const char *name) {
  char id[TRN_UUID_SIZE];
  trn_strbuf owner = {0};
  trn__uuid7(id);
  trn__strbuf_printf(&owner, "%.64s%s%s", name ? name : "", name ? "-" : "", id);
  if (!owner.failed) return owner.data;
  trn__strbuf_finish(&owner);
  return NULL;
}

static void scheduler_free(trn_scheduler *s) {
  if (s->runner) s->runner->destroy(s->runner_self);
  trn__map_destroy(s->jobs, NULL);
  trn__pool_destroy(s->pool);
  trn_job_store_unref(s->store);
  trn_backend_unref(s->backend);
  pthread_cond_destroy(&s->changed);
  pthread_mutex_destroy(&s->mu);
  free(s->owner);
  free(s);
}

trn_status trn__scheduler_create(const trn_scheduler_options *given, trn_backend *backend, const trn_runner_ops *runner,
                                 void *self, trn_scheduler **out, trn_error **error) {
  trn_scheduler_options o = {0};
  *out = NULL;
  memcpy(&o, given, trn__struct_size(given->struct_size, sizeof o));
  trn_scheduler *s = o.store ? calloc(1, sizeof *s) : NULL;
  if (!s || trn__condition_init(&s->changed)) {
    free(s);
    runner->destroy(self);
    return o.store ? trn__no_memory(error)
                   : trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "a scheduler needs a store");
  }
  pthread_mutex_init(&s->mu, NULL);
  atomic_init(&s->users, 1);
  atomic_init(&s->refs, 1);
  fill(s, &o);
  s->runner = runner;
  s->runner_self = self;
  s->store = trn_job_store_ref(o.store);
  s->backend = trn_backend_ref(backend);
  s->jobs = trn__map_create();
  s->owner = make_owner(o.name);
  trn_status status = !s->jobs || !s->owner || trn__pool_create(o.workers ? o.workers : WORKERS, &s->pool)
                          ? TRN_RESOURCE_EXHAUSTED
                          : TRN_OK;
  if (status) {
    scheduler_free(s);
    return trn__no_memory(error);
  }
  *out = s;
  return TRN_OK;
}

void trn__scheduler_let_go(trn_scheduler *s) {
  if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1) scheduler_free(s);
}

trn_scheduler *trn_scheduler_ref(trn_scheduler *s) {
  atomic_fetch_add_explicit(&s->users, 1, memory_order_relaxed);
  return s;
}

static bool tell_nobody(void *user, const trn_job_record *record) {
  (void)user;
  (void)record;
  return false;
}

/* One of the active jobs, with a reference, which was not looked at yet. locks: none */
static trn_job *next_to_abandon(trn_scheduler *s) {
  trn_job *found = NULL;
  pthread_mutex_lock(&s->mu);
  for (trn_job *job = s->active_jobs; job && !found; job = job->next_active)
    if (!job->is_stopped) found = job;
  if (found) {
    found->is_stopped = true;
    found->refs++;
  }
  pthread_mutex_unlock(&s->mu);
  return found;
}

static void stop(trn_scheduler *s) {
  trn_job *job;
  pthread_mutex_lock(&s->mu);
  s->is_stopping = true;
  bool has_keeper = s->has_keeper;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->mu);
  if (has_keeper) pthread_join(s->keeper, NULL);
  while ((job = next_to_abandon(s))) {
    trn__job_abandon(job);
    trn_job_unref(job);
  }
  pthread_mutex_lock(&s->mu);
  while (s->active) pthread_cond_wait(&s->changed, &s->mu);
  bool was_leased = s->leased_until_ns != 0;
  trn_pool *pool = s->pool;
  s->pool = NULL;
  pthread_mutex_unlock(&s->mu);
  trn__pool_destroy(pool);
  if (s->runner->stop) s->runner->stop(s->runner_self);
  void *self;
  const trn_job_store_ops *ops = trn_job_store_get_ops(s->store, &self);
  if (was_leased) (void)ops->renew(self, s->owner, 0, tell_nobody, NULL, NULL);
}

void trn_scheduler_unref(trn_scheduler *s) {
  if (!s || atomic_fetch_sub_explicit(&s->users, 1, memory_order_acq_rel) != 1) return;
  stop(s);
  trn__scheduler_let_go(s);
}

const char *trn_scheduler_owner(const trn_scheduler *s) {
  return s->owner;
}

trn_status trn_scheduler_create_session(trn_scheduler *s, const trn_session_request *request, trn_session **out,
                                        trn_error **error) {
  return trn_session_open(s->backend, request, out, error);
}

/* ---- the lease ---- */

static bool cancel_each(void *user, const trn_job_record *record) {
  trn_job *job = trn__job_find(user, record->id);
  if (job) trn__job_cancel_here(job);
  trn_job_unref(job);
  return true;
}

trn_status trn__scheduler_lease(trn_scheduler *s, bool always, trn_error **error) {
  int64_t now_ns = trn__now_ns(), lease_ns = (int64_t)s->lease_ms * 1000000;
  pthread_mutex_lock(&s->mu);
  bool is_good = s->leased_until_ns - now_ns > lease_ns / 2;
  pthread_mutex_unlock(&s->mu);
  if (is_good && !always) return TRN_OK;
  void *self;
  const trn_job_store_ops *ops = trn_job_store_get_ops(s->store, &self);
  trn_status status = ops->renew(self, s->owner, s->lease_ms, cancel_each, s, error);
  if (status) return status;
  pthread_mutex_lock(&s->mu);
  s->leased_until_ns = now_ns + lease_ns;
  pthread_mutex_unlock(&s->mu);
  return TRN_OK;
}

/* ---- submit ---- */

typedef struct settings_list {
  trn_arena *arena;
  trn_kv *items;
  size_t count, capacity;
  bool failed;
} settings_list;

static void put_setting(void *user, const char *key, const char *value) {
  settings_list *list = user;
  size_t at = 0;
  while (at < list->count && strcmp(list->items[at].key, key) != 0) at++;
  if (at == list->capacity) {
    size_t capacity = list->capacity ? list->capacity * 2 : 16;
    trn_kv *items = TRN_NEW_N(list->arena, trn_kv, capacity);
    if (items && list->count) memcpy(items, list->items, list->count * sizeof *items);
    list->failed |= !items;
    if (!items) return;
    list->items = items;
    list->capacity = capacity;
  }
  trn_kv item = {trn__arena_strdup(list->arena, key), value ? trn__arena_strdup(list->arena, value) : NULL};
  list->failed |= !item.key || (value && !item.value);
  if (list->failed) return;
  list->items[at] = item;
  if (at == list->count) list->count++;
}

static trn_status check_request(const trn_scheduler *s, const trn_submit_request *r, trn_error **error) {
  if (r->requested_job_id && !trn__job_id_is_valid(r->requested_job_id))
    return trn_error_set(error, TRN_INVALID_ARGUMENT, "INVALID_JOB_ID",
                         "A job's id has 1 to %u of A-Z, a-z, 0-9, '.', '_' and '-', and begins with a letter or digit",
                         TRN_JOB_ID_BYTES_MAX);
  if (!r->session || (!r->plan && !r->input))
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "a job needs a session, and a plan or an encoded query");
  if (trn_session_backend(r->session) != s->backend)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "the session is not one of the scheduler's backend");
  if (r->input && (r->input->resolve || r->input->parameters || r->input->parameter_schema))
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "a job's query has tables of its session, and no parameters");
  if (r->input && r->input->size > TRN_JOB_QUERY_BYTES_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "The query of a job has more than %u bytes",
                         TRN_JOB_QUERY_BYTES_MAX);
  bool is_long = r->name && strlen(r->name) > TRN_JOB_TEXT_BYTES_MAX;
  for (size_t i = 0; i < r->tag_count; i++) is_long |= strlen(r->tags[i]) > TRN_JOB_TEXT_BYTES_MAX;
  if (is_long || r->tag_count > TRN_JOB_TAGS_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                         "A job has too many tags, or too long ones, or such a name");
  return TRN_OK;
}

/* What is recorded of the query: as it came, or encoded. A plan that has no encoding runs only once. */
static void describe_query(const trn_submit_request *r, trn_job_record *record, trn_bytes *encoded) {
  if (r->input) {
    record->format = r->input->format;
    record->query = r->input->data ? r->input->data : "";
    record->query_size = r->input->size;
    record->query_options = r->input->options;
    record->query_option_count = r->input->option_count;
  } else if (!trn_backend_encode(r->session, r->plan, "datafusion.logical.v1", encoded, NULL)) {
    bool fits = encoded->size <= TRN_JOB_QUERY_BYTES_MAX;
    record->format = fits ? "datafusion.logical.v1" : NULL;
    record->query = fits ? encoded->data : NULL;
    record->query_size = fits ? encoded->size : 0;
  }
}

/* Into the arena; `encoded` is to be kept as long as `out`. */
static trn_status describe(trn_scheduler *s, const trn_submit_request *r, trn_arena *arena, trn_job_record *out,
                           trn_bytes *encoded, trn_error **error) {
  settings_list settings = {.arena = arena};
  char *id = trn__arena_alloc(arena, TRN_UUID_SIZE);
  if (!id) return trn__no_memory(error);
  trn__uuid7(id);
  if (r->requested_job_id) id = (char *)r->requested_job_id;
  *out = (trn_job_record){.struct_size = sizeof *out,
                          .id = id,
                          .name = r->name ? r->name : id,
                          .user = trn_session_user(r->session),
                          .session_id = trn_session_id(r->session),
                          .attempt = 1,
                          .owner = s->owner,
                          .is_owner_alive = true,
                          .submitted_ms = trn__wall_ms(),
                          .tags = r->tags,
                          .tag_count = r->tag_count,
                          .is_authenticated = trn_session_is_authenticated(r->session)};
  out->group_count = trn_session_groups(r->session, &out->groups);
  trn_status status = trn_session_each(r->session, put_setting, &settings);
  for (size_t i = 0; i < r->setting_count; i++) put_setting(&settings, r->settings[i].key, r->settings[i].value);
  if (status || settings.failed) return trn__no_memory(error);
  out->settings = settings.items;
  out->setting_count = settings.count;
  describe_query(r, out, encoded);
  return TRN_OK;
}

static trn_status check_room(trn_scheduler *s, trn_error **error) {
  pthread_mutex_lock(&s->mu);
  bool is_full = s->active >= s->running_max + s->queued_max, is_stopping = s->is_stopping;
  pthread_mutex_unlock(&s->mu);
  if (is_stopping) return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "the scheduler has stopped");
  if (!is_full) return TRN_OK;
  return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, "TOO_MANY_JOBS", "The scheduler has %zu jobs that have not ended",
                       s->running_max + s->queued_max);
}

/* After an insert of which nobody can say whether it was done: when it was, nobody will run the job, and its record
 * says so. What cannot be written now is LOST when this scheduler ends. */
static void undo_insert(trn_scheduler *s, const trn_job_record *record) {
  void *self;
  const trn_job_store_ops *ops = trn_job_store_get_ops(s->store, &self);
  trn_job_record end = *record;
  end.state = TRN_JOB_FAILED;
  end.ended_ms = trn__wall_ms();
  end.error_status = TRN_UNAVAILABLE;
  end.error_message = "The job was not accepted: the store did not answer";
  (void)ops->update(self, &end, NULL);
}

static trn_status insert(trn_scheduler *s, const trn_submit_request *r, const trn_job_record *record, trn_job **out,
                         trn_error **error) {
  void *self;
  const trn_job_store_ops *ops = trn_job_store_get_ops(s->store, &self);
  trn_job_copy copy = {0};
  trn_job *job = NULL;
  trn_status status = trn__job_copy_init(&copy, record); /* all that can fail, before it is recorded */
  if (!status) status = trn__job_create(s, record, &job);
  if (status) trn__no_memory(error);
  if (!status) {
    status = ops->insert(self, record, error);
    if (status == TRN_UNAVAILABLE) undo_insert(s, record);
    if (!status && (status = trn__job_enter(job, NULL))) {
      undo_insert(s, record);
      trn__no_memory(error);
    }
  }
  if (status) {
    trn__job_copy_finish(&copy);
    trn_job_unref(job);
    return status;
  }
  /* With settings of its own, it gets a session of its own, as it would when it runs again. */
  trn_session *session = r->setting_count ? NULL : trn_session_ref(r->session);
  trn__job_begin(job, &copy, session, r->plan ? trn_plan_ref(r->plan) : NULL, false);
  *out = job;
  return TRN_OK;
}

trn_status trn_scheduler_submit(trn_scheduler *s, const trn_submit_request *given, trn_job **out, trn_error **error) {
  trn_submit_request r = {0};
  trn_job_record record;
  trn_bytes encoded = {0};
  *out = NULL;
  memcpy(&r, given, trn__struct_size(given->struct_size, sizeof r));
  trn_status status = check_request(s, &r, error);
  if (status || (status = check_room(s, error))) return status;
  trn_arena *arena = trn__arena_create(0);
  status = arena ? describe(s, &r, arena, &record, &encoded, error) : trn__no_memory(error);
  if (!status) status = trn__keeper_start(s, error);
  if (!status) status = trn__scheduler_lease(s, false, error);
  if (!status) status = insert(s, &r, &record, out, error);
  if (encoded.release) encoded.release(encoded.owner);
  trn__arena_unref(arena);
  return status;
}
