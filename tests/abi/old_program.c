/* A program built against the headers of the previous version (before/): smaller structs, fewer slots. It loads the
 * library of today, mounts Spark Connect on a backend of its own, is its own host, runs a query, and unloads the
 * library; several times, without keeping memory. usage: old_program LIBRARY */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trunnion/trunnion.h>

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                  \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

/* The functions of the library: members of the same names. */
typedef struct library {
  void *handle;
#define FUNCTIONS(X)                                                                                                   \
  X(trn_version)                                                                                                       \
  X(trn_backend_create) X(trn_backend_unref) X(trn_operation_create) X(trn_stream_create) X(trn_spark_frontend_create) \
      X(trn_frontend_register) X(trn_frontend_destroy) X(trn_routes_create) X(trn_routes_find) X(trn_routes_destroy)   \
          X(trn_call_create) X(trn_call_unref) X(trn_call_deliver_open) X(trn_call_deliver_message)                    \
              X(trn_call_deliver_half_close) X(trn_call_deliver_done) X(trn_error_set)
#define MEMBER(name) __typeof__(&name) name;
  FUNCTIONS(MEMBER)
} library;

static library lib;

static void load(const char *path) {
  lib.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!lib.handle) fprintf(stderr, "%s\n", dlerror());
  CHECK(lib.handle);
#define RESOLVE(name) CHECK((*(void **)&lib.name = dlsym(lib.handle, #name)));
  FUNCTIONS(RESOLVE)
}

static void unload(const char *path) {
  CHECK(dlclose(lib.handle) == 0);
  void *still = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  CHECK(!still); /* really gone */
  memset(&lib, 0, sizeof lib);
}

/* ---- a stream of one batch: three int64 ---- */

static const char *const FORMATS[] = {"+s", "l"};

static void schema_release(struct ArrowSchema *schema) {
  for (int64_t i = 0; i < schema->n_children; i++) {
    schema->children[i]->release(schema->children[i]);
    free(schema->children[i]);
  }
  free(schema->children);
  schema->release = NULL;
}

static void column_release(struct ArrowSchema *schema) {
  schema->release = NULL;
}

static trn_status stream_schema(void *self, struct ArrowSchema *out, trn_error **error) {
  (void)self, (void)error;
  *out = (struct ArrowSchema){.format = FORMATS[0], .name = "", .n_children = 1, .release = schema_release};
  out->children = malloc(sizeof *out->children);
  out->children[0] = malloc(sizeof **out->children);
  *out->children[0] = (struct ArrowSchema){.format = FORMATS[1], .name = "id", .release = column_release};
  return TRN_OK;
}

static const int64_t VALUES[3] = {0, 1, 2};

static void array_release(struct ArrowArray *array) {
  for (int64_t i = 0; i < array->n_children; i++) {
    if (array->children[i]->release) array->children[i]->release(array->children[i]);
    free(array->children[i]);
  }
  free(array->children);
  free(array->buffers);
  array->release = NULL;
}

static void make_batch(struct ArrowArray *out) {
  *out = (struct ArrowArray){.length = 3, .n_buffers = 1, .n_children = 1, .release = array_release};
  out->buffers = calloc(1, sizeof *out->buffers);
  out->children = malloc(sizeof *out->children);
  struct ArrowArray *column = out->children[0] = malloc(sizeof *column);
  *column = (struct ArrowArray){.length = 3, .n_buffers = 2, .release = array_release};
  column->buffers = calloc(2, sizeof *column->buffers);
  column->buffers[1] = VALUES;
}

typedef struct rows {
  int pulls;
  trn_array_done done;
  void *user;
  struct rows *next;
} rows;

/* The thread from which completions come: never inline, as the contract has it. It is joined before the library goes,
 * since it returns through it. */
static struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  pthread_t thread;
  rows *first;
  bool stops;
} worker = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *work(void *argument) {
  (void)argument;
  pthread_mutex_lock(&worker.mutex);
  for (;;) {
    while (!worker.first && !worker.stops) pthread_cond_wait(&worker.changed, &worker.mutex);
    rows *r = worker.first;
    if (!r) break;
    worker.first = r->next;
    pthread_mutex_unlock(&worker.mutex);
    struct ArrowArray batch = {0};
    if (r->pulls == 1) make_batch(&batch);
    r->done(r->user, TRN_OK, NULL, &batch);
    pthread_mutex_lock(&worker.mutex);
  }
  pthread_mutex_unlock(&worker.mutex);
  return NULL;
}

static trn_status stream_next(void *self, trn_array_done done, void *user, trn_error **error) {
  rows *r = self;
  (void)error;
  pthread_mutex_lock(&worker.mutex);
  r->pulls++;
  r->done = done;
  r->user = user;
  r->next = worker.first;
  worker.first = r;
  pthread_cond_signal(&worker.changed);
  pthread_mutex_unlock(&worker.mutex);
  return TRN_OK;
}

static void worker_start(void) {
  worker.stops = false;
  CHECK(pthread_create(&worker.thread, NULL, work, NULL) == 0);
}

static void worker_stop(void) {
  pthread_mutex_lock(&worker.mutex);
  worker.stops = true;
  pthread_cond_signal(&worker.changed);
  pthread_mutex_unlock(&worker.mutex);
  pthread_join(worker.thread, NULL);
}

static void stream_cancel(void *self) {
  (void)self;
}

static void stream_destroy(void *self) {
  free(self);
}

/* ---- a backend with the slots of then ---- */

static trn_status open_session(void *self, trn_session *session, void **state, trn_error **error) {
  (void)session, (void)error;
  *state = self;
  return TRN_OK;
}

static void close_session(void *self, void *state) {
  CHECK(self == state);
}

static trn_operation_state state_of(void *self) {
  (void)self;
  return TRN_OPERATION_RUNNING;
}

static void operation_cancel(void *self) {
  (void)self;
}

static trn_status result_stream(void *self, trn_stream **out, trn_error **error) {
  const trn_stream_ops ops = {.struct_size = sizeof ops,
                              .schema = stream_schema,
                              .next_array = stream_next,
                              .cancel = stream_cancel,
                              .destroy = stream_destroy};
  (void)self, (void)error;
  return lib.trn_stream_create(&ops, calloc(1, sizeof(rows)), out);
}

static void operation_destroy(void *self) {
  free(self);
}

static trn_status execute(void *self, void *state, const trn_execute_request *request, trn_operation **out,
                          trn_error **error) {
  const trn_operation_ops ops = {.struct_size = sizeof ops,
                                 .state = state_of,
                                 .cancel = operation_cancel,
                                 .result_stream = result_stream,
                                 .destroy = operation_destroy};
  (void)self, (void)state, (void)error;
  return lib.trn_operation_create(&ops, malloc(1), request->operation_id, out);
}

static void backend_destroy(void *self) {
  ++*(int *)self;
}

/* ---- a host ---- */

typedef struct host {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int messages;
  bool has_values; /* the batch's bytes came by */
  bool finished, destroyed;
  trn_status status;
  char text[200];
} host;

static trn_send_result host_send(void *self, const trn_slice *slices, size_t count, unsigned flags) {
  host *h = self;
  (void)flags;
  pthread_mutex_lock(&h->mutex);
  h->messages++;
  for (size_t i = 0; i < count; i++) {
    if (memmem(slices[i].data, slices[i].size, VALUES, sizeof VALUES)) h->has_values = true;
    if (slices[i].release) slices[i].release(slices[i].owner);
  }
  pthread_mutex_unlock(&h->mutex);
  return TRN_SEND_READY;
}

static void host_finish(void *self, trn_status status, const char *message, const void *details, size_t details_size,
                        const trn_metadata *trailing, size_t trailing_count) {
  host *h = self;
  (void)details, (void)details_size, (void)trailing, (void)trailing_count;
  pthread_mutex_lock(&h->mutex);
  h->finished = true;
  h->status = status;
  snprintf(h->text, sizeof h->text, "%s", message ? message : "");
  pthread_cond_broadcast(&h->changed);
  pthread_mutex_unlock(&h->mutex);
}

static void host_destroy(void *self) {
  host *h = self;
  pthread_mutex_lock(&h->mutex);
  h->destroyed = true;
  pthread_cond_broadcast(&h->changed);
  pthread_mutex_unlock(&h->mutex);
}

/* ExecutePlanRequest: session, user "ann", root: range(0, 3). */
static const char REQUEST[] =
    "\n$00112233-4455-6677-8899-aabbccddeeff\022\005\n\003ann\032\010\n\006z\004\020\003\030\001";

static void run_query(const trn_routes *routes) {
  static const char path[] = "/spark.connect.SparkConnectService/ExecutePlan";
  const trn_call_host ops = {
      .struct_size = sizeof ops, .send = host_send, .finish = host_finish, .destroy = host_destroy};
  const trn_metadata metadata = {"user-agent", "old", 3};
  const trn_call_request request = {.struct_size = sizeof request,
                                    .method = lib.trn_routes_find(routes, path, sizeof path - 1),
                                    .metadata = &metadata,
                                    .metadata_count = 1,
                                    .peer = "inproc:"};
  host h = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  trn_call *call = NULL;
  CHECK(request.method);
  CHECK(lib.trn_call_create(&request, &ops, &h, &call) == TRN_OK);
  lib.trn_call_deliver_open(call);
  lib.trn_call_deliver_message(call, (trn_slice){.data = REQUEST, .size = sizeof REQUEST - 1});
  lib.trn_call_deliver_half_close(call);
  pthread_mutex_lock(&h.mutex);
  while (!h.finished) pthread_cond_wait(&h.changed, &h.mutex);
  pthread_mutex_unlock(&h.mutex);
  lib.trn_call_deliver_done(call);
  pthread_mutex_lock(&h.mutex);
  while (!h.destroyed) pthread_cond_wait(&h.changed, &h.mutex);
  pthread_mutex_unlock(&h.mutex);
  if (h.status) fprintf(stderr, "status %d: %s\n", h.status, h.text);
  CHECK(h.status == TRN_OK && h.messages >= 2 && h.has_values);
}

/* Everything from loading to unloading. */
static void cycle(const char *path) {
  int destroyed = 0;
  const trn_backend_ops ops = {.struct_size = sizeof ops,
                               .open_session = open_session,
                               .close_session = close_session,
                               .execute = execute,
                               .destroy = backend_destroy};
  const trn_spark_options options = {.struct_size = sizeof options, .workers = 2};
  trn_backend *backend = NULL;
  trn_frontend *spark = NULL;
  trn_routes *routes = NULL;
  load(path);
  CHECK(*lib.trn_version());
  CHECK(lib.trn_backend_create(&ops, &destroyed, &backend) == TRN_OK);
  CHECK(lib.trn_spark_frontend_create(&options, &spark) == TRN_OK);
  CHECK(lib.trn_routes_create(&routes) == TRN_OK);
  CHECK(lib.trn_frontend_register(spark, routes, backend, NULL) == TRN_OK);
  lib.trn_frontend_destroy(spark);
  lib.trn_backend_unref(backend);
  worker_start();
  run_query(routes);
  run_query(routes);
  lib.trn_routes_destroy(routes);
  worker_stop();
  CHECK(destroyed == 1);
  unload(path);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  enum { ROUNDS = 240, FIRST = 40, NOISE = 100 /* bytes per round, of the C library's threads and caches */ };
  size_t before = 0;
  for (int i = 0; i < ROUNDS; i++) {
    cycle(argv[1]);
    if (i == FIRST) before = mallinfo2().uordblks;
  }
  size_t after = mallinfo2().uordblks, kept = after > before ? after - before : 0;
  printf("%d rounds, %zu bytes kept by the last %d\n", ROUNDS, kept, ROUNDS - FIRST);
  CHECK(kept < (size_t)(ROUNDS - FIRST) * NOISE); /* a leak is one in each round: of a session, a call, a plan */
  return 0;
}
