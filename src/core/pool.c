/* The worker pool. Workers start when there is work and nobody idle, and leave after a while without any. One small
 * timer thread, there while something is delayed and a while longer, moves what is due into the queue. */
#include "core/core.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

enum { POOL_IDLE_MS = 5000, POOL_RETRY_MS = 100, POOL_TIMER_STACK = 256 << 10 };

typedef struct pool_task {
  struct pool_task *next;
  void (*run)(void *argument);
  void *argument;
  int64_t due_ns;    /* of a delayed one */
  uint64_t sequence; /* delayed tasks that are due together keep their order */
} pool_task;

typedef struct pool_thread {
  struct pool_thread *next;
  pthread_t id;
  trn_pool *pool;
} pool_thread;

struct trn_pool {
  pthread_mutex_t mu;
  pthread_cond_t work;  /* a task was queued, or the end came */
  pthread_cond_t timer; /* the heap changed, or the end came */
  pthread_cond_t gone;  /* a thread left */
  unsigned threads_max, threads, idle;
  size_t queued;
  pool_task *first, **last;
  pool_task **heap; /* by due_ns, sequence */
  size_t heap_count, heap_capacity;
  uint64_t sequence;
  bool has_timer, stopping;
  bool is_orphan;      /* destroyed from one of its own threads: the last one out frees it */
  pool_thread *active; /* running */
  pool_thread *left;   /* ended, to be joined */
};

/* ---- threads ---- */

static trn_status thread_start(pthread_t *id, size_t stack, void *(*run)(void *), void *argument) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes)) return TRN_RESOURCE_EXHAUSTED;
  trn_status status = TRN_OK;
  if (pthread_attr_setstacksize(&attributes, stack) || pthread_create(id, &attributes, run, argument))
    status = TRN_RESOURCE_EXHAUSTED;
  pthread_attr_destroy(&attributes);
  return status;
}

static void pool_free(trn_pool *pool) {
  pthread_cond_destroy(&pool->work);
  pthread_cond_destroy(&pool->timer);
  pthread_cond_destroy(&pool->gone);
  pthread_mutex_destroy(&pool->mu);
  free(pool->heap);
  free(pool);
}

/* locks: takes over pool->mu held and releases it; thread: one of the pool's, as the last thing it does. */
static void thread_leave(pool_thread *thread) {
  trn_pool *pool = thread->pool;
  pool_thread **at = &pool->active;
  while (*at != thread) at = &(*at)->next;
  *at = thread->next;
  if (!pool->is_orphan) {
    thread->next = pool->left;
    pool->left = thread;
    pthread_cond_broadcast(&pool->gone);
    pthread_mutex_unlock(&pool->mu);
    return;
  }
  bool is_last = !pool->active;
  pthread_detach(thread->id);
  free(thread);
  pthread_mutex_unlock(&pool->mu);
  if (is_last) pool_free(pool);
}

/* locks: none. Joins a list of threads that have left. */
static void threads_join(pool_thread *thread) {
  while (thread) {
    pool_thread *next = thread->next;
    pthread_join(thread->id, NULL);
    free(thread);
    thread = next;
  }
}

/* locks: pool->mu held */
static trn_status thread_add(trn_pool *pool, size_t stack, void *(*run)(void *)) {
  pool_thread *thread = calloc(1, sizeof *thread);
  if (!thread) return TRN_RESOURCE_EXHAUSTED;
  thread->pool = pool;
  trn_status status = thread_start(&thread->id, stack, run, thread); /* it waits for the lock first */
  if (status) {
    free(thread);
    return status;
  }
  thread->next = pool->active;
  pool->active = thread;
  return TRN_OK;
}

/* locks: mu held. False: timed out. */
static bool wait_until(pthread_cond_t *cond, pthread_mutex_t *mu, int64_t due_ns) {
  struct timespec due = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
  return pthread_cond_timedwait(cond, mu, &due) != ETIMEDOUT;
}

/* ---- workers ---- */

/* thread: worker; locks: pool->mu held. NULL: leave. */
static pool_task *worker_next(trn_pool *pool) {
  int64_t leave_ns = trn__now_ns() + (int64_t)POOL_IDLE_MS * 1000000;
  while (!pool->first) {
    if (pool->stopping) return NULL;
    pool->idle++;
    bool woken = wait_until(&pool->work, &pool->mu, leave_ns);
    pool->idle--;
    if (!woken && !pool->first) return NULL;
  }
  pool_task *task = pool->first;
  pool->first = task->next;
  if (!pool->first) pool->last = &pool->first;
  pool->queued--;
  return task;
}

static void *worker_run(void *argument) {
  pool_thread *thread = argument;
  trn_pool *pool = thread->pool;
  pthread_mutex_lock(&pool->mu);
  pool_task *task;
  while ((task = worker_next(pool))) {
    pthread_mutex_unlock(&pool->mu);
    task->run(task->argument);
    free(task);
    pthread_mutex_lock(&pool->mu);
  }
  pool->threads--;
  thread_leave(thread);
  return NULL;
}

/* locks: pool->mu held. False: nobody is there who could run what is queued. */
static bool worker_provide(trn_pool *pool) {
  /* A woken worker counts as idle until it has the lock: hence the comparison with what is queued. */
  if (pool->idle < pool->queued && pool->threads < pool->threads_max &&
      thread_add(pool, TRN_STACK_BYTES, worker_run) == TRN_OK)
    pool->threads++;
  return pool->threads > 0;
}

/* locks: pool->mu held */
static void queue_push(trn_pool *pool, pool_task *task) {
  task->next = NULL;
  *pool->last = task;
  pool->last = &task->next;
  pool->queued++;
  pthread_cond_signal(&pool->work);
}

/* ---- delayed tasks ---- */

static bool is_before(const pool_task *a, const pool_task *b) {
  return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->sequence < b->sequence;
}

/* locks: pool->mu held */
static bool heap_push(trn_pool *pool, pool_task *task) {
  if (pool->heap_count == pool->heap_capacity) {
    size_t capacity = pool->heap_capacity ? pool->heap_capacity * 2 : 16;
    pool_task **heap = realloc(pool->heap, capacity * sizeof *heap);
    if (!heap) return false;
    pool->heap = heap;
    pool->heap_capacity = capacity;
  }
  size_t at = pool->heap_count++;
  for (; at && is_before(task, pool->heap[(at - 1) / 2]); at = (at - 1) / 2) pool->heap[at] = pool->heap[(at - 1) / 2];
  pool->heap[at] = task;
  return true;
}

/* locks: pool->mu held; the heap is not empty */
static pool_task *heap_pop(trn_pool *pool) {
  pool_task *top = pool->heap[0], *moved = pool->heap[--pool->heap_count];
  size_t at = 0;
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= pool->heap_count) break;
    if (child + 1 < pool->heap_count && is_before(pool->heap[child + 1], pool->heap[child])) child++;
    if (!is_before(pool->heap[child], moved)) break;
    pool->heap[at] = pool->heap[child];
    at = child;
  }
  if (pool->heap_count) pool->heap[at] = moved;
  return top;
}

static void *timer_run(void *argument) {
  pool_thread *thread = argument;
  trn_pool *pool = thread->pool;
  pthread_mutex_lock(&pool->mu);
  for (bool is_late = false; !is_late;) {
    int64_t now_ns = trn__now_ns();
    while (pool->heap_count && pool->heap[0]->due_ns <= now_ns) {
      queue_push(pool, heap_pop(pool));
      worker_provide(pool);
    }
    /* When no worker can be had the queue waits: later it is tried again. */
    bool is_stuck = pool->queued && !worker_provide(pool);
    bool is_idle = !pool->heap_count && !is_stuck;
    if (pool->stopping) break;
    int64_t due_ns = now_ns + (int64_t)(is_idle ? POOL_IDLE_MS : POOL_RETRY_MS) * 1000000;
    if (pool->heap_count && (!is_stuck || pool->heap[0]->due_ns < due_ns)) due_ns = pool->heap[0]->due_ns;
    is_late = !wait_until(&pool->timer, &pool->mu, due_ns) && is_idle && !pool->heap_count;
  }
  pool->has_timer = false;
  thread_leave(thread);
  return NULL;
}

/* ---- the pool ---- */

trn_status trn__pool_create(unsigned threads_max, trn_pool **out) {
  *out = NULL;
  trn_pool *pool = calloc(1, sizeof *pool);
  if (!pool) return TRN_RESOURCE_EXHAUSTED;
  pool->threads_max = threads_max ? threads_max : 1;
  pool->last = &pool->first;
  pthread_condattr_t monotonic;
  if (pthread_condattr_init(&monotonic)) {
    free(pool);
    return TRN_RESOURCE_EXHAUSTED;
  }
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_mutex_init(&pool->mu, NULL);
  pthread_cond_init(&pool->work, &monotonic);
  pthread_cond_init(&pool->timer, &monotonic);
  pthread_cond_init(&pool->gone, &monotonic);
  pthread_condattr_destroy(&monotonic);
  *out = pool;
  return TRN_OK;
}

trn_status trn__pool_submit(trn_pool *pool, void (*run)(void *argument), void *argument) {
  pool_task *task = calloc(1, sizeof *task);
  if (!task) return TRN_RESOURCE_EXHAUSTED;
  task->run = run;
  task->argument = argument;
  trn_status status = TRN_OK;
  pthread_mutex_lock(&pool->mu);
  pool_thread *left = pool->left;
  pool->left = NULL;
  pool->queued++; /* as if it were in: so that a worker is provided for it before it is promised */
  bool is_possible = worker_provide(pool);
  pool->queued--;
  if (is_possible) {
    queue_push(pool, task);
  } else {
    free(task);
    status = TRN_RESOURCE_EXHAUSTED;
  }
  pthread_mutex_unlock(&pool->mu);
  threads_join(left);
  return status;
}

trn_status trn__pool_submit_after(trn_pool *pool, uint64_t delay_ms, void (*run)(void *argument), void *argument) {
  pool_task *task = calloc(1, sizeof *task);
  if (!task) return TRN_RESOURCE_EXHAUSTED;
  task->run = run;
  task->argument = argument;
  uint64_t delay_ns = delay_ms < INT64_MAX / 4000000 ? delay_ms * 1000000 : INT64_MAX / 4;
  task->due_ns = trn__now_ns() + (int64_t)delay_ns;
  trn_status status = TRN_OK;
  pthread_mutex_lock(&pool->mu);
  pool_thread *left = pool->left;
  pool->left = NULL;
  task->sequence = pool->sequence++;
  if (pool->stopping) { /* from a task that runs during the end: a worker is there, itself */
    queue_push(pool, task);
  } else {
    if (!pool->has_timer) {
      status = thread_add(pool, POOL_TIMER_STACK, timer_run);
      pool->has_timer = status == TRN_OK;
    }
    if (status == TRN_OK && !heap_push(pool, task)) status = TRN_RESOURCE_EXHAUSTED;
    if (status)
      free(task);
    else
      pthread_cond_signal(&pool->timer);
  }
  pthread_mutex_unlock(&pool->mu);
  threads_join(left);
  return status;
}

/* locks: pool->mu held */
static bool is_own_thread(const trn_pool *pool) {
  for (const pool_thread *thread = pool->active; thread; thread = thread->next)
    if (pthread_equal(thread->id, pthread_self())) return true;
  return false;
}

void trn__pool_destroy(trn_pool *pool) {
  if (!pool) return;
  pthread_mutex_lock(&pool->mu);
  pool->stopping = true;
  while (pool->heap_count) queue_push(pool, heap_pop(pool));
  bool is_possible = !pool->first || worker_provide(pool);
  pthread_cond_broadcast(&pool->work);
  pthread_cond_broadcast(&pool->timer);
  if (is_own_thread(pool)) {
    pool->is_orphan = true;
    pool_thread *left = pool->left;
    pool->left = NULL;
    pthread_mutex_unlock(&pool->mu);
    threads_join(left);
    return;
  }
  while (!is_possible && pool->first) { /* no thread can be had: here, then */
    pool_task *task = worker_next(pool);
    pthread_mutex_unlock(&pool->mu);
    task->run(task->argument);
    free(task);
    pthread_mutex_lock(&pool->mu);
  }
  while (pool->active) pthread_cond_wait(&pool->gone, &pool->mu);
  pool_thread *left = pool->left;
  pthread_mutex_unlock(&pool->mu);
  threads_join(left);
  pool_free(pool);
}

/* ---- one fresh big stack ---- */

typedef struct big_stack {
  void (*run)(void *argument);
  void *argument;
} big_stack;

static void *big_stack_run(void *argument) {
  big_stack *job = argument;
  job->run(job->argument);
  return NULL;
}

trn_status trn__run_on_big_stack(void (*run)(void *argument), void *argument) {
  big_stack job = {run, argument};
  pthread_t id;
  trn_status status = thread_start(&id, TRN_STACK_BYTES, big_stack_run, &job);
  if (status == TRN_OK) pthread_join(id, NULL);
  return status;
}
