/* An event loop: a thread that owns connections, their mail, their deadlines. */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "h2.h"

/* ---- mail from other threads ---- */

/* locks: mutex held */
static bool is_own_thread(const h2_loop *loop) {
  return pthread_equal(loop->self, pthread_self());
}

void trn__h2_loop_mail(h2_loop *loop, h2_stream *stream) {
  atomic_fetch_add_explicit(&stream->refs, 1, memory_order_relaxed);
  pthread_mutex_lock(&loop->mutex);
  bool was_empty = !loop->mail_first;
  stream->mail_next = NULL;
  *loop->mail_end = stream;
  loop->mail_end = &stream->mail_next;
  /* Under the mutex: the loop closes `async` only when no stream is left that could post. On the loop's own thread
   * settle looks at the list before it returns. */
  if (was_empty && !is_own_thread(loop)) uv_async_send(&loop->async);
  pthread_mutex_unlock(&loop->mutex);
}

bool trn__h2_loop_handoff(h2_loop *loop, h2_handoff *handoff) {
  pthread_mutex_lock(&loop->mutex);
  bool takes = !loop->is_finished;
  if (takes) {
    handoff->next = loop->handoffs;
    loop->handoffs = handoff;
    uv_async_send(&loop->async);
  }
  pthread_mutex_unlock(&loop->mutex);
  return takes;
}

void trn__h2_loop_wake(h2_loop *loop) {
  pthread_mutex_lock(&loop->mutex);
  if (!loop->is_finished) uv_async_send(&loop->async);
  pthread_mutex_unlock(&loop->mutex);
}

static bool take_mail(h2_loop *loop) {
  pthread_mutex_lock(&loop->mutex);
  h2_stream *stream = loop->mail_first;
  loop->mail_first = NULL;
  loop->mail_end = &loop->mail_first;
  pthread_mutex_unlock(&loop->mutex);
  bool any = stream != NULL;
  while (stream) {
    h2_stream *next = stream->mail_next; /* before is_listed falls: then it may be listed again */
    trn__h2_stream_mail(stream);
    trn__h2_stream_unref(stream);
    stream = next;
  }
  return any;
}

static void drop_connection(h2_loop *loop, int fd) {
  close(fd);
  atomic_fetch_sub(&loop->base->connection_count, 1);
}

static void take_handoffs(h2_loop *loop) {
  pthread_mutex_lock(&loop->mutex);
  h2_handoff *handoff = loop->handoffs;
  loop->handoffs = NULL;
  pthread_mutex_unlock(&loop->mutex);
  while (handoff) {
    h2_handoff *next = handoff->next;
    if (loop->stage == H2_RUN) {
      trn__h2_conn_open(loop, handoff->fd, &handoff->address);
    } else {
      drop_connection(loop, handoff->fd);
    }
    free(handoff);
    handoff = next;
  }
}

static void finish_if_done(h2_loop *loop);

void trn__h2_loop_settle(h2_loop *loop) {
  for (unsigned i = 0; i < TRN_H2_SETTLE_ROUNDS; i++) {
    bool any = take_mail(loop);
    h2_conn *conn = TAILQ_FIRST(&loop->dirty);
    for (unsigned j = 0; conn && j < TRN_H2_SETTLE_CONNECTIONS; j++) {
      TAILQ_REMOVE(&loop->dirty, conn, dirty_link);
      conn->is_dirty = false;
      trn__h2_conn_work(conn); /* may queue it again, at the end */
      any = true;
      conn = TAILQ_FIRST(&loop->dirty);
    }
    if (!any) {
      finish_if_done(loop);
      return;
    }
  }
  uv_async_send(&loop->async); /* sockets first, then on with it */
}

/* ---- batches ---- */

h2_batch *trn__h2_loop_batch(h2_loop *loop) {
  h2_batch *batch = loop->batches;
  if (batch) {
    loop->batches = NULL;
  } else {
    batch = malloc(sizeof *batch);
    if (!batch) return NULL;
  }
  batch->first = batch->count = batch->bytes = batch->copy_size = batch->hold_count = 0;
  return batch;
}

void trn__h2_loop_batch_return(h2_loop *loop, h2_batch *batch) {
  for (size_t i = 0; i < batch->hold_count; i++) trn__h2_out_unref(batch->holds[i]);
  if (loop->batches) {
    free(batch);
  } else {
    loop->batches = batch;
  }
}

/* ---- deadlines: a binary heap, since most calls end long before theirs ---- */

static void heap_put(h2_loop *loop, size_t at, h2_stream *stream) {
  loop->heap[at] = stream;
  stream->heap_index = at + 1;
}

static void heap_up(h2_loop *loop, size_t at, h2_stream *stream) {
  while (at && loop->heap[(at - 1) / 2]->deadline_ns > stream->deadline_ns) {
    heap_put(loop, at, loop->heap[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  heap_put(loop, at, stream);
}

static void heap_down(h2_loop *loop, size_t at, h2_stream *stream) {
  for (;;) {
    size_t child = at * 2 + 1;
    if (child >= loop->heap_count) break;
    if (child + 1 < loop->heap_count && loop->heap[child + 1]->deadline_ns < loop->heap[child]->deadline_ns) child++;
    if (loop->heap[child]->deadline_ns >= stream->deadline_ns) break;
    heap_put(loop, at, loop->heap[child]);
    at = child;
  }
  heap_put(loop, at, stream);
}

static void on_deadline(uv_timer_t *timer);

/* Sets the timer when the first deadline is earlier than what it is set to; a timer that fires too early does no harm.
 */
static void arm(h2_loop *loop) {
  if (!loop->heap_count) return;
  int64_t first = loop->heap[0]->deadline_ns;
  if (loop->timer_ns && loop->timer_ns <= first) return;
  int64_t wait_ns = first - trn__h2_now_ns();
  uint64_t wait_ms = wait_ns <= 0 ? 0 : (uint64_t)((wait_ns + 999999) / 1000000);
  uv_update_time(&loop->uv);
  loop->timer_ns = first;
  uv_timer_start(&loop->deadline_timer, on_deadline, wait_ms, 0);
}

bool trn__h2_loop_deadline_add(h2_loop *loop, h2_stream *stream) {
  if (loop->heap_count == loop->heap_capacity) {
    size_t capacity = loop->heap_capacity ? loop->heap_capacity * 2 : 64;
    h2_stream **heap = realloc(loop->heap, capacity * sizeof *heap);
    if (!heap) return false;
    loop->heap = heap;
    loop->heap_capacity = capacity;
  }
  heap_up(loop, loop->heap_count++, stream);
  arm(loop);
  return true;
}

void trn__h2_loop_deadline_remove(h2_loop *loop, h2_stream *stream) {
  if (!stream->heap_index) return;
  size_t at = stream->heap_index - 1;
  stream->heap_index = 0;
  h2_stream *last = loop->heap[--loop->heap_count];
  if (last == stream) return;
  if (at && loop->heap[(at - 1) / 2]->deadline_ns > last->deadline_ns) {
    heap_up(loop, at, last);
  } else {
    heap_down(loop, at, last);
  }
}

static void on_deadline(uv_timer_t *timer) {
  h2_loop *loop = timer->data;
  int64_t now = trn__h2_now_ns();
  loop->timer_ns = 0;
  while (loop->heap_count && loop->heap[0]->deadline_ns <= now) {
    h2_stream *stream = loop->heap[0];
    trn__h2_loop_deadline_remove(loop, stream);
    trn__h2_stream_deadline(stream);
  }
  arm(loop);
  trn__h2_loop_settle(loop);
}

/* ---- accepting ---- */

static void on_listen(uv_poll_t *poll, int status, int events);

static void on_accept_again(uv_timer_t *timer) {
  h2_loop *loop = timer->data;
  for (unsigned i = 0; i < loop->listener_count; i++) uv_poll_start(&loop->listeners[i], UV_READABLE, on_listen);
}

static void give_away(h2_loop *loop, int fd, const struct sockaddr_storage *address) {
  trn_server *server = loop->server;
  h2_base *base = loop->base;
  unsigned count = atomic_fetch_add(&base->connection_count, 1);
  h2_loop *to = &base->loops[base->next_loop++ % base->loop_count];
  h2_handoff *handoff = count < server->options.connections_max && to != loop ? malloc(sizeof *handoff) : NULL;
  if (handoff) {
    *handoff = (h2_handoff){.fd = fd, .address = *address};
    if (trn__h2_loop_handoff(to, handoff)) return;
    free(handoff);
    drop_connection(loop, fd);
  } else if (to == loop && count < server->options.connections_max) {
    trn__h2_conn_open(loop, fd, address);
  } else {
    drop_connection(loop, fd);
  }
}

static void on_listen(uv_poll_t *poll, int status, int events) {
  (void)status, (void)events;
  h2_loop *loop = poll->data;
  int listen_fd = loop->server->listen_fds[poll - loop->listeners];
  for (unsigned i = 0; i < 64; i++) { /* then the connections that are there have their turn */
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    int fd = accept4(listen_fd, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      give_away(loop, fd, &address);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      /* The waiting connections stay in the kernel's queue. Accepting goes on later, not never. */
      for (unsigned j = 0; j < loop->listener_count; j++) uv_poll_stop(&loop->listeners[j]);
      uv_timer_start(&loop->accept_timer, on_accept_again, TRN_H2_ACCEPT_PAUSE_MS, 0);
      break;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      break;
    }
  }
  trn__h2_loop_settle(loop);
}

static void stop_listening(h2_loop *loop) {
  if (!loop->listener_count) return;
  trn_server *server = loop->server;
  uv_timer_stop(&loop->accept_timer);
  for (unsigned i = 0; i < loop->listener_count; i++) uv_close((uv_handle_t *)&loop->listeners[i], NULL);
  loop->listener_count = 0;
  for (unsigned i = 0; i < server->listen_count; i++) close(server->listen_fds[i]);
  server->listen_count = 0;
}

static trn_status start_listening(h2_loop *loop) {
  trn_server *server = loop->server;
  for (unsigned i = 0; i < server->listen_count; i++) {
    uv_poll_t *listener = &loop->listeners[i];
    if (uv_poll_init(&loop->uv, listener, server->listen_fds[i]) != 0) return TRN_RESOURCE_EXHAUSTED;
    listener->data = loop;
    loop->listener_count++;
    if (uv_poll_start(listener, UV_READABLE, on_listen) != 0) return TRN_RESOURCE_EXHAUSTED;
  }
  return TRN_OK;
}

/* ---- stages ---- */

static void on_tick(uv_timer_t *timer);

static void each_conn(h2_loop *loop, void (*act)(h2_conn *conn)) {
  h2_conn *conn = TAILQ_FIRST(&loop->conns);
  while (conn) {
    h2_conn *next = TAILQ_NEXT(conn, link); /* act may close conn, and only it */
    act(conn);
    conn = next;
  }
}

static void follow_stage(h2_loop *loop) {
  h2_stage stage = (h2_stage)atomic_load(&loop->base->stage);
  while (loop->stage < stage) {
    loop->stage++;
    if (loop->stage == H2_DRAIN) {
      stop_listening(loop);
      each_conn(loop, trn__h2_conn_leave);
    } else if (loop->stage == H2_CANCEL) {
      each_conn(loop, trn__h2_conn_cancel);
    } else if (loop->stage == H2_KILL) {
      each_conn(loop, trn__h2_conn_close);
    }
  }
}

static void finish_if_done(h2_loop *loop) {
  if (loop->stage == H2_RUN || !TAILQ_EMPTY(&loop->conns) || loop->working || loop->tasks) return;
  pthread_mutex_lock(&loop->mutex);
  bool ends = !loop->is_finished && !loop->handoffs && !loop->mail_first && !loop->new_tasks;
  if (ends) loop->is_finished = true; /* otherwise `async` fires once more */
  pthread_mutex_unlock(&loop->mutex);
  if (!ends) return;
  uv_close((uv_handle_t *)&loop->async, NULL);
  uv_close((uv_handle_t *)&loop->deadline_timer, NULL);
  uv_close((uv_handle_t *)&loop->tick_timer, NULL);
  uv_close((uv_handle_t *)&loop->task_timer, NULL);
  uv_close((uv_handle_t *)&loop->accept_timer, NULL);
}

/* ---- tasks: few at a time, so a list will do ---- */

void trn__h2_loop_post(h2_loop *loop, h2_task *task) {
  pthread_mutex_lock(&loop->mutex);
  H2_ASSERT(!loop->is_finished);
  task->next = loop->new_tasks;
  loop->new_tasks = task;
  uv_async_send(&loop->async);
  pthread_mutex_unlock(&loop->mutex);
}

static void on_task_timer(uv_timer_t *timer);

/* Runs what is due; when the loop ends, everything is. */
static void run_tasks(h2_loop *loop) {
  int64_t now = trn__h2_now_ns(), first = INT64_MAX;
  h2_task *due = NULL, **link = &loop->tasks;
  pthread_mutex_lock(&loop->mutex);
  h2_task *added = loop->new_tasks;
  loop->new_tasks = NULL;
  pthread_mutex_unlock(&loop->mutex);
  while (added) {
    h2_task *next = added->next;
    added->next = loop->tasks;
    loop->tasks = added;
    added = next;
  }
  while (*link) {
    h2_task *task = *link;
    if (task->at_ns <= now || loop->stage != H2_RUN) {
      *link = task->next;
      task->next = due;
      due = task;
    } else {
      if (task->at_ns < first) first = task->at_ns;
      link = &task->next;
    }
  }
  if (first != INT64_MAX) {
    uv_update_time(&loop->uv);
    uv_timer_start(&loop->task_timer, on_task_timer, (uint64_t)((first - now + 999999) / 1000000), 0);
  }
  while (due) {
    h2_task *next = due->next;
    due->run(due);
    due = next;
  }
}

static void on_task_timer(uv_timer_t *timer) {
  h2_loop *loop = timer->data;
  run_tasks(loop);
  trn__h2_loop_settle(loop);
}

static void on_async(uv_async_t *async) {
  h2_loop *loop = async->data;
  take_handoffs(loop);
  run_tasks(loop);
  follow_stage(loop);
  if (loop->stage != H2_RUN && loop->tasks) run_tasks(loop);
  trn__h2_loop_settle(loop);
}

static void on_tick(uv_timer_t *timer) {
  h2_loop *loop = timer->data;
  int64_t now = trn__h2_now_ns();
  h2_conn *conn = TAILQ_FIRST(&loop->conns);
  while (conn) {
    h2_conn *next = TAILQ_NEXT(conn, link);
    trn__h2_conn_tick(conn, now);
    conn = next;
  }
  trn__h2_loop_settle(loop);
}

/* ---- life ---- */

static void on_walk_close(uv_handle_t *handle, void *argument) {
  (void)argument;
  if (!uv_is_closing(handle)) uv_close(handle, NULL);
}

void trn__h2_loop_tick_at_most(h2_loop *loop, unsigned ms) {
  if (ms < TRN_H2_TICK_MIN_MS) ms = TRN_H2_TICK_MIN_MS;
  if (loop->tick_ms <= ms) return;
  loop->tick_ms = ms;
  uv_timer_start(&loop->tick_timer, on_tick, ms, ms);
}

trn_status trn__h2_loop_init(h2_loop *loop, h2_base *base, trn_server *server, bool listens) {
  loop->base = base;
  loop->server = server;
  TAILQ_INIT(&loop->conns);
  TAILQ_INIT(&loop->dirty);
  loop->mail_end = &loop->mail_first;
  if (uv_loop_init(&loop->uv) != 0) return TRN_RESOURCE_EXHAUSTED;
  if (pthread_mutex_init(&loop->mutex, NULL) != 0) {
    uv_loop_close(&loop->uv);
    return TRN_RESOURCE_EXHAUSTED;
  }
  loop->is_initialized = true; /* from here on loop_finish has something to do */
  loop->read_buffer = malloc(TRN_H2_READ_BYTES);
  if (!loop->read_buffer || uv_async_init(&loop->uv, &loop->async, on_async) != 0) return TRN_RESOURCE_EXHAUSTED;
  uv_timer_init(&loop->uv, &loop->deadline_timer);
  uv_timer_init(&loop->uv, &loop->tick_timer);
  uv_timer_init(&loop->uv, &loop->task_timer);
  uv_timer_init(&loop->uv, &loop->accept_timer);
  loop->async.data = loop->deadline_timer.data = loop->tick_timer.data = loop->task_timer.data =
      loop->accept_timer.data = loop;
  loop->tick_ms = UINT32_MAX;
  trn__h2_loop_tick_at_most(loop, base->tick_ms && base->tick_ms < TRN_H2_TICK_MS ? base->tick_ms : TRN_H2_TICK_MS);
  return listens ? start_listening(loop) : TRN_OK;
}

static void *run(void *argument) {
  h2_loop *loop = argument;
  pthread_mutex_lock(&loop->mutex);
  loop->self = pthread_self();
  pthread_mutex_unlock(&loop->mutex);
  uv_run(&loop->uv, UV_RUN_DEFAULT);
  OPENSSL_thread_stop(); /* what OpenSSL keeps per thread, also when this library is unloaded later */
  h2_base *base = loop->base;
  pthread_mutex_lock(&base->mutex);
  base->running--;
  bool frees = base->is_abandoned && !base->running;
  pthread_cond_broadcast(&base->changed);
  pthread_mutex_unlock(&base->mutex);
  if (frees) {
    trn__h2_base_finish(base);
    free(base);
  }
  return NULL;
}

trn_status trn__h2_loop_start(h2_loop *loop) {
  sigset_t all, old;
  sigfillset(&all);
  /* The host's signals are for the host's threads. */
  pthread_mutex_lock(&loop->base->mutex);
  loop->base->running++;
  pthread_mutex_unlock(&loop->base->mutex);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int rc = pthread_create(&loop->thread, NULL, run, loop);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  loop->has_thread = rc == 0;
  if (rc != 0) {
    pthread_mutex_lock(&loop->base->mutex);
    loop->base->running--;
    pthread_mutex_unlock(&loop->base->mutex);
  }
  return rc == 0 ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
}

/* The loop's thread is joined, or was never started. */
void trn__h2_loop_finish(h2_loop *loop) {
  if (!loop->is_initialized) return;
  H2_ASSERT(TAILQ_EMPTY(&loop->conns));
  uv_walk(&loop->uv, on_walk_close, NULL);
  uv_run(&loop->uv, UV_RUN_DEFAULT);
  int rc = uv_loop_close(&loop->uv);
  H2_ASSERT(rc == 0);
  (void)rc;
  pthread_mutex_destroy(&loop->mutex);
  free(loop->batches);
  free(loop->heap);
  free(loop->read_buffer);
}
