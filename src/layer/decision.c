/* Questions to the embedder, answered at once or later. A ticket is a number: what is late or comes twice finds nothing. */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "core/query.h"
#include "layer/layer.h"

typedef struct question {
  struct question *next;
  uint64_t id;
  bool is_answered;
  trn_status status;
  trn_error *error;
} question;

struct trn_desk {
  trn_policy_callback callback;
  bool has_callback;
  pthread_mutex_t mu;
  pthread_cond_t answered;
  /* guarded by mu */
  question *open; /* each on the stack of who waits */
  uint64_t next_id;
  atomic_size_t misuses;
};

trn_status trn__desk_create(const trn_policy_callback *given, trn_desk **out, trn_error **error) {
  *out = NULL;
  trn_policy_callback callback = {0};
  if (given) memcpy(&callback, given, trn__struct_size(given->struct_size, sizeof callback));
  if (given && (!callback.decide == !callback.start || (callback.start && !callback.cancel)))
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "a policy's callback has one of decide and start, and cancel with start");
  trn_desk *desk = calloc(1, sizeof *desk);
  if (!desk) return trn__no_memory(error);
  desk->callback = callback;
  desk->has_callback = given != NULL;
  if (!callback.timeout_ms) desk->callback.timeout_ms = TRN_DECISION_WAIT_MS;
  pthread_mutex_init(&desk->mu, NULL);
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&desk->answered, &attributes);
  pthread_condattr_destroy(&attributes);
  *out = desk;
  return TRN_OK;
}

void trn__desk_destroy(trn_desk *desk) {
  if (!desk) return;
  if (desk->callback.destroy) desk->callback.destroy(desk->callback.user);
  pthread_cond_destroy(&desk->answered);
  pthread_mutex_destroy(&desk->mu);
  free(desk);
}

void trn__desk_drop(trn_desk *desk) {
  if (!desk) return;
  desk->callback.destroy = NULL;
  trn__desk_destroy(desk);
}

size_t trn__desk_misuses(const trn_desk *desk) {
  return atomic_load(&desk->misuses);
}

/* locks: desk->mu held */
static void close_question(trn_desk *desk, const question *q) {
  for (question **at = &desk->open; *at; at = &(*at)->next)
    if (*at == q) {
      *at = q->next;
      return;
    }
}

/* Waits; false: it took too long. locks: desk->mu held */
static bool wait_answer(trn_desk *desk, const question *q) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  uint64_t ns = (uint64_t)until.tv_nsec + desk->callback.timeout_ms % 1000 * 1000000;
  until.tv_sec += (time_t)(desk->callback.timeout_ms / 1000 + ns / 1000000000);
  until.tv_nsec = (long)(ns % 1000000000);
  while (!q->is_answered)
    if (pthread_cond_timedwait(&desk->answered, &desk->mu, &until) == ETIMEDOUT) break;
  return q->is_answered;
}

static trn_status ask_later(trn_desk *desk, const trn_access *access, trn_error **error) {
  question q = {0};
  pthread_mutex_lock(&desk->mu);
  q.id = ++desk->next_id;
  q.next = desk->open;
  desk->open = &q;
  pthread_mutex_unlock(&desk->mu);
  trn_decision decision = {desk, q.id};
  trn_error *failure = NULL;
  trn_status status = desk->callback.start(desk->callback.user, access, decision, &failure);
  bool is_late = false;
  pthread_mutex_lock(&desk->mu);
  if (status == TRN_OK) is_late = !wait_answer(desk, &q);
  close_question(desk, &q);
  pthread_mutex_unlock(&desk->mu);
  if (is_late) {
    desk->callback.cancel(desk->callback.user, decision);
    status = trn_error_set(&failure, TRN_DEADLINE_EXCEEDED, NULL, "no decision about '%s' came within %llu ms",
                           access->name ? access->name : "", (unsigned long long)desk->callback.timeout_ms);
  } else if (status == TRN_OK) {
    status = q.status;
    failure = q.error;
  } else {
    trn_error_unref(q.error); /* answered, and then refused to have begun */
  }
  if (error && status)
    *error = failure;
  else
    trn_error_unref(failure);
  return status;
}

trn_status trn__desk_ask(trn_desk *desk, const trn_access *access, trn_error **error) {
  if (!desk->has_callback) return TRN_OK;
  return desk->callback.decide ? desk->callback.decide(desk->callback.user, access, error)
                               : ask_later(desk, access, error);
}

bool trn_decision_answer(trn_decision decision, trn_status status, trn_error *error) {
  trn_desk *desk = decision.owner;
  pthread_mutex_lock(&desk->mu);
  question *q = desk->open;
  while (q && q->id != decision.id) q = q->next;
  bool is_wanted = q && !q->is_answered;
  if (is_wanted) {
    q->is_answered = true;
    q->status = status;
    q->error = error;
    pthread_cond_broadcast(&desk->answered);
  }
  pthread_mutex_unlock(&desk->mu);
  if (is_wanted) return true;
  trn_error_unref(error);
  atomic_fetch_add(&desk->misuses, 1);
  TRN_ASSERT(desk->callback.on_misuse);
  if (desk->callback.on_misuse) desk->callback.on_misuse(desk->callback.user, decision);
  return false;
}
