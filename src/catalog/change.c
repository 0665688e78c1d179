/* The frame of everything that reads or changes a warehouse: whose view of it, one transaction of SQLite (or a part of the
 * session's own), and who may write. Writers of one process queue here and hold nothing meanwhile, so that readers go on
 * while a session's transaction has the one right to write. */
#include <errno.h>
#include <time.h>

#include "catalog/warehouse.h"

enum { BUSY_PAUSE_MS = 5 };

static trn_warehouse *base_of(trn_warehouse *view) { return view->base ? view->base : view; }

/* ---- who may write ---- */

static trn_status busy(trn_warehouse *w, trn_error **error) {
  return trn_error_set(error, TRN_UNAVAILABLE, NULL, "The warehouse %s is busy: another transaction is writing",
                       w->in_memory ? "in memory" : w->directory);
}

/* locks: none. A view that may write already keeps the right. */
static trn_status take_turn(trn_warehouse *view, int64_t deadline_ns, trn_error **error) {
  trn_warehouse *base = base_of(view);
  struct timespec until = {deadline_ns / 1000000000, deadline_ns % 1000000000};
  pthread_mutex_lock(&base->turn_mu);
  if (base->writer == view && view->base) {
    pthread_mutex_unlock(&base->turn_mu);
    return TRN_OK;
  }
  int code = 0;
  while (base->writer && code != ETIMEDOUT) code = pthread_cond_timedwait(&base->turn, &base->turn_mu, &until);
  bool mine = !base->writer;
  if (mine) base->writer = view;
  pthread_mutex_unlock(&base->turn_mu);
  return mine ? TRN_OK : busy(base, error);
}

void trn__turn_end(trn_warehouse *view) {
  trn_warehouse *base = base_of(view);
  pthread_mutex_lock(&base->turn_mu);
  if (base->writer == view) base->writer = NULL;
  pthread_cond_signal(&base->turn);
  pthread_mutex_unlock(&base->turn_mu);
}

/* ---- frames ---- */

/* Another process may be writing: waits without the lock. locks: takes mu, keeps it on success */
static trn_status begin_alone(trn_warehouse *w, bool writes, int64_t deadline_ns, trn_error **error) {
  for (;;) {
    trn_error *own = NULL;
    pthread_mutex_lock(&w->mu);
    trn_status status = trn__sql_begin(w, writes, &own);
    if (!status) return TRN_OK;
    pthread_mutex_unlock(&w->mu);
    if (status != TRN_UNAVAILABLE || trn__now_ns() >= deadline_ns) {
      if (error) *error = own;
      else trn_error_unref(own);
      return status;
    }
    trn_error_unref(own);
    const struct timespec pause = {.tv_nsec = BUSY_PAUSE_MS * 1000000};
    nanosleep(&pause, NULL);
  }
}

trn_status trn__change_begin(trn_change *c, trn_warehouse *self, trn_session *session, bool writes, trn_error **error) {
  *c = (trn_change){.writes = writes, .arena = trn__arena_create(0)};
  if (!c->arena) return trn__no_memory(error);
  bool is_over;
  c->w = trn__transaction_view(self, session, &is_over);
  int64_t deadline_ns = trn__now_ns() + (int64_t)base_of(self)->lock_ms * 1000000;
  trn_status status = TRN_OK;
  if (writes && is_over) status = trn_error_set(error, TRN_ABORTED, NULL, "The transaction is over");
  else if (writes) status = take_turn(c->w, deadline_ns, error);
  bool has_turn = writes && !status, keeps = false;
  if (!status && c->w->base) {
    pthread_mutex_lock(&c->w->mu);
    status = trn__transaction_enter(c->w, error);
    keeps = c->w->has_written && !c->w->is_ended; /* its end gives the turn back; one that is over never would */
    if (status) pthread_mutex_unlock(&c->w->mu);
  } else if (!status) {
    status = begin_alone(c->w, writes, deadline_ns, error);
  }
  c->is_open = !status;
  if (!status && writes) {
    status = trn__sql_sequence(c->w, true, &c->sequence, error);
    if (status) return trn__change_end(c, status, error);
  }
  if (!status) return TRN_OK;
  if (has_turn && !keeps) trn__turn_end(c->w);
  trn__warehouse_unref(c->w);
  trn__arena_unref(c->arena);
  c->w = NULL;
  return status;
}

trn_status trn__change_end(trn_change *c, trn_status status, trn_error **error) {
  trn_warehouse *w = c->w;
  if (!w) return status;
  status = w->base ? trn__transaction_leave(w, c->sequence, status, error) : trn__sql_end(w, status, error);
  bool keeps_turn = w->base && w->has_written;
  pthread_mutex_unlock(&w->mu);
  if (c->writes && !keeps_turn) trn__turn_end(w);
  if (c->sweeps && !status) trn__sweep(w);
  trn__warehouse_unref(w);
  trn__arena_unref(c->arena);
  *c = (trn_change){0};
  return status;
}
