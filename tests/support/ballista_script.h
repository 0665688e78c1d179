/* A Ballista scheduler and its executors that do what a test says, as routes of this process. */
#ifndef TRN_TESTS_BALLISTA_SCRIPT_H
#define TRN_TESTS_BALLISTA_SCRIPT_H
#include "support/layer_fixture.h"

#include <lz4frame.h>
#include <trunnion/ballista.h>

#include "arrow/flatbuf.h"
#include "backend/ballista/backend.h"
#include "backend/ballista/wire.h"
#include "support/alone.h"

enum { SCRIPT_STEPS_MAX = 16, SCRIPT_PARTITIONS_MAX = 8 };

/* The thread is the scheduler's or an executor's: what fails on purpose fails elsewhere. */
static _Thread_local bool script_is_at_work;

/* What GetJobStatus answers, in turn; the last one again and again. */
typedef enum script_step {
  STEP_UNKNOWN = 0,
  STEP_QUEUED,
  STEP_RUNNING,
  STEP_FAILED,
  STEP_CANCELLED,
  STEP_DONE,
  STEP_NONSENSE,
  STEP_SILENT /* no answer */
} script_step;

typedef struct cluster_script {
  pthread_mutex_t mu;
  /* set before it is used */
  const char *version; /* of the answer to a query; NULL: none is sent */
  const char *refusal; /* the plan cannot be read */
  script_step steps[SCRIPT_STEPS_MAX];
  const char *failure;
  unsigned partitions, batches, rows; /* of each partition, of each batch */
  bool compresses, wrong_schema, garbage, endless;
  int64_t told_rows;        /* that each partition is said to have; 0: nothing is said */
  bool ends_early;          /* partitions end without a schema, and well */
  int breaks_at;            /* the message of partition 0 after which the executor is gone; 0: never */
  unsigned cancels_to_obey; /* CancelJob so often until it works */
  bool submission_hangs;
  bool takes_names;                   /* for ids, as trunnion-ballista */
  script_step pushes[SCRIPT_STEPS_MAX]; /* what ExecuteQueryPush says, in turn, up to STEP_UNKNOWN */
  bool push_stays;                    /* then it goes on, silent, and is `held` */
  /* guarded by mu */
  unsigned submitted, pushed, asked, cancelled, cleaned, fetched, messages;
  unsigned open; /* calls that are not done */
  unsigned threads; /* that there were before */
  char job_name[64], named_id[64], cancelled_id[64]; /* of the last query; by the last CancelJob */
  trn_call *held; /* a call that is never answered */
} cluster_script;

/* ---- record batches ---- */

/* An encapsulated IPC message as FlightData: header = 2, body = 1000. */
static inline trn_strbuf flight_data(const trn_strbuf *message) {
  trn_strbuf out = {0};
  uint32_t size;
  memcpy(&size, message->data + 4, 4);
  trn__wire_put_bytes(&out, 2, message->data + 8, size);
  if (message->size > 8 + size) trn__wire_put_bytes(&out, 1000, message->data + 8 + size, message->size - 8 - size);
  return out;
}

static inline struct ArrowSchema script_schema(const char *format) {
  struct ArrowSchema schema;
  assert_int_equal(trn__schema_init(&schema, "+s", "", 0, NULL, 0, 1), TRN_OK);
  assert_int_equal(trn__schema_init(schema.children[0], format, "x", ARROW_FLAG_NULLABLE, NULL, 0, 0), TRN_OK);
  return schema;
}

/* A batch of int64 first, first + 1, ..., compressed with LZ4 as Arrow says. */
static inline trn_strbuf compressed_batch(int64_t first, int64_t rows) {
  int64_t *values = malloc((size_t)rows * 8);
  for (int64_t i = 0; i < rows; i++) values[i] = first + i;
  size_t plain = (size_t)rows * 8, room = LZ4F_compressFrameBound(plain, NULL);
  trn_strbuf body = {0}, out = {0};
  int64_t told = (int64_t)plain;
  trn__strbuf_add(&body, &told, 8);
  char *to = trn__strbuf_extend(&body, room);
  size_t size = LZ4F_compressFrame(to, room, values, plain, NULL);
  assert_false(LZ4F_isError(size));
  body.size = 8 + size;
  int64_t buffers[] = {0, 0, 0, (int64_t)body.size}, nodes[] = {rows, 0};
  trn__strbuf_extend(&body, (8 - body.size % 8) % 8);
  trn_fb fb = {0};
  trn__fb_table(&fb, 2); /* BodyCompression, all by default */
  uint32_t compression = trn__fb_table_end(&fb);
  uint32_t buffer_vector = trn__fb_int64s(&fb, buffers, 2, 2), node_vector = trn__fb_int64s(&fb, nodes, 1, 2);
  trn__fb_table(&fb, 5);
  trn__fb_add(&fb, 0, (uint64_t)rows, 8);
  trn__fb_add_offset(&fb, 1, node_vector);
  trn__fb_add_offset(&fb, 2, buffer_vector);
  trn__fb_add_offset(&fb, 3, compression);
  uint32_t header = trn__fb_table_end(&fb);
  trn__fb_table(&fb, 5);
  trn__fb_add(&fb, 3, body.size, 8);
  trn__fb_add_offset(&fb, 2, header);
  trn__fb_add(&fb, 0, 4, 2);
  trn__fb_add(&fb, 1, 3, 1);
  const void *bytes = trn__fb_root(&fb, trn__fb_table_end(&fb));
  uint32_t prefix[2] = {0xffffffffu, (uint32_t)fb.size};
  trn__strbuf_add(&out, prefix, 8);
  trn__strbuf_add(&out, bytes, fb.size);
  trn__strbuf_add(&out, body.data, body.size);
  trn__fb_finish(&fb);
  trn__strbuf_finish(&body);
  free(values);
  return out;
}

static inline trn_strbuf plain_batch(int64_t first, int64_t rows) {
  struct ArrowSchema schema = script_schema("l");
  struct ArrowArray array;
  trn_array_builder *builder;
  trn_strbuf out = {0};
  assert_int_equal(trn__array_builder_create(&schema, &builder), TRN_OK);
  for (int64_t i = 0; i < rows; i++) {
    trn__array_append_int(trn__array_builder_child(builder, 0), first + i);
    trn__array_append_end(builder);
  }
  assert_int_equal(trn__array_builder_finish(builder, &array), TRN_OK);
  assert_int_equal(trn__ipc_write_batch(&schema, &array, &out), TRN_OK);
  trn__array_builder_destroy(builder);
  trn__array_release(&array);
  trn__schema_release(&schema);
  return out;
}

/* ---- answers ---- */

static inline void answer(trn_call *call, trn_strbuf *message) {
  trn_slice slice = {message->data, message->size, free, message->data};
  trn_call_send(call, &slice, 1, 0);
  *message = (trn_strbuf){0};
}

static inline void put_location(trn_strbuf *out, uint32_t partition, int64_t rows) {
  trn_strbuf location = {0}, id = {0}, executor = {0}, stats = {0};
  trn__wire_put_text(&id, 1, "job-1");
  trn__wire_put_number(&id, 2, 3);
  trn__wire_put_number(&id, 4, partition);
  trn__wire_put_text(&executor, 1, "executor-7");
  trn__wire_put_text(&executor, 2, "10.1.2.3");
  trn__wire_put_number(&executor, 3, 50051);
  trn__wire_put_message(&location, 2, &id);
  trn__wire_put_message(&location, 3, &executor);
  trn__wire_put_number(&stats, 1, (uint64_t)rows);
  if (rows) trn__wire_put_message(&location, 4, &stats);
  trn__strbuf_finish(&stats);
  trn__wire_put_message(out, 1, &location);
}

static inline const char *script_id(const cluster_script *s) {
  return s->takes_names ? s->named_id : "job-1";
}

static inline trn_strbuf status_message(const cluster_script *s, script_step step) {
  static const uint32_t fields[] = {0, 1, 2, 3, 3, 4, 0, 0};
  trn_strbuf out = {0}, status = {0}, inner = {0};
  if (step == STEP_NONSENSE) {
    trn__strbuf_puts(&out, "\x0a\xff nonsense");
    return out;
  }
  if (step == STEP_FAILED) trn__wire_put_text(&inner, 1, s->failure);
  if (step == STEP_CANCELLED) trn__wire_put_text(&inner, 1, "Cancelled");
  for (uint32_t i = 0; step == STEP_DONE && i < s->partitions; i++) put_location(&inner, i, s->told_rows);
  trn__wire_put_text(&status, 5, script_id(s));
  if (s->takes_names) trn__wire_put_text(&status, 6, s->job_name);
  if (fields[step]) trn__wire_put_message(&status, fields[step], &inner);
  if (step != STEP_UNKNOWN) trn__wire_put_message(&out, 1, &status);
  trn__strbuf_finish(&status);
  trn__strbuf_finish(&inner);
  return out;
}

/* Takes the query. False: it is held, and never answered. */
static inline bool take_query(trn_call *call, cluster_script *s, unsigned *count, trn_slice message) {
  trn_wire_reader r = trn__wire_reader(message.data, message.size);
  trn_wire_field f, g;
  pthread_mutex_lock(&s->mu);
  ++*count;
  while (trn__wire_next(&r, &f)) {
    trn_wire_reader pair = trn__wire_inside(&f);
    bool is_name = false;
    while (f.number == 4 && trn__wire_next(&pair, &g)) {
      if (g.number == 1) is_name = g.bytes.size == 17 && !memcmp(g.bytes.data, "ballista.job.name", 17);
      if (g.number == 2 && is_name) snprintf(s->job_name, sizeof s->job_name, "%.*s", (int)g.bytes.size, g.bytes.data);
    }
  }
  for (size_t i = 0; i < sizeof s->named_id; i++) {
    char c = s->job_name[i];
    s->named_id[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  }
  if (s->submission_hangs) s->held = trn_call_ref(call);
  pthread_mutex_unlock(&s->mu);
  if (message.release) message.release(message.owner);
  return !s->submission_hangs;
}

static inline void tell_version(trn_call *call, const cluster_script *s) {
  trn_metadata version = {"ballista-version", s->version, s->version ? strlen(s->version) : 0};
  if (s->version) trn_call_set_initial_metadata(call, &version, 1);
}

static inline void on_push_now(trn_call *call, void *user, trn_slice message) {
  cluster_script *s = user;
  if (!take_query(call, s, &s->pushed, message)) return;
  if (s->refusal) {
    trn_call_finish(call, TRN_INVALID_ARGUMENT, s->refusal, NULL, 0, NULL, 0);
    return;
  }
  tell_version(call, s);
  for (int i = 0; i < SCRIPT_STEPS_MAX && s->pushes[i] != STEP_UNKNOWN; i++) {
    trn_strbuf out = status_message(s, s->pushes[i]);
    answer(call, &out);
  }
  if (s->push_stays) {
    pthread_mutex_lock(&s->mu);
    trn_call_unref(s->held);
    s->held = trn_call_ref(call);
    pthread_mutex_unlock(&s->mu);
  } else {
    trn_call_finish(call, TRN_OK, NULL, NULL, 0, NULL, 0);
  }
}

static inline void on_execute_now(trn_call *call, void *user, trn_slice message) {
  cluster_script *s = user;
  trn_strbuf out = {0}, inner = {0};
  if (!take_query(call, s, &s->submitted, message)) return;
  tell_version(call, s);
  trn__wire_put_text(&inner, s->refusal ? 2 : 1, s->refusal ? s->refusal : script_id(s));
  trn__wire_put_message(&out, s->refusal ? 2 : 1, &inner);
  answer(call, &out);
  trn_call_finish(call, TRN_OK, NULL, NULL, 0, NULL, 0);
}

/* The job that is asked for. */
static inline void read_id(trn_slice message, char id[64]) {
  trn_wire_reader r = trn__wire_reader(message.data, message.size);
  trn_wire_field f;
  *id = 0;
  while (trn__wire_next(&r, &f))
    if (f.number == 1) snprintf(id, 64, "%.*s", (int)f.bytes.size, f.bytes.data);
}

static inline void on_status_now(trn_call *call, void *user, trn_slice message) {
  cluster_script *s = user;
  char id[64];
  read_id(message, id);
  if (message.release) message.release(message.owner);
  pthread_mutex_lock(&s->mu);
  bool is_known = strcmp(id, "job-1") == 0 || (s->takes_names && strcmp(id, s->named_id) == 0);
  script_step step = s->steps[s->asked];
  if (s->asked + 1 < SCRIPT_STEPS_MAX && s->steps[s->asked + 1] != STEP_UNKNOWN) s->asked++;
  if (s->cancels_to_obey && s->cancelled >= s->cancels_to_obey) step = STEP_CANCELLED;
  if (step == STEP_SILENT) {
    trn_call_unref(s->held);
    s->held = trn_call_ref(call);
  }
  pthread_mutex_unlock(&s->mu);
  if (step == STEP_SILENT) return;
  trn_strbuf out = status_message(s, is_known ? step : STEP_UNKNOWN);
  answer(call, &out);
  trn_call_finish(call, TRN_OK, NULL, NULL, 0, NULL, 0);
}

static inline void count_and_answer(trn_call *call, cluster_script *s, unsigned *count, trn_slice message) {
  trn_strbuf out = {0};
  if (message.release) message.release(message.owner);
  pthread_mutex_lock(&s->mu);
  ++*count;
  pthread_mutex_unlock(&s->mu);
  trn__wire_put_number(&out, 1, 1);
  answer(call, &out);
  trn_call_finish(call, TRN_OK, NULL, NULL, 0, NULL, 0);
}

static inline void on_cancel_job_now(trn_call *call, void *user, trn_slice message) {
  cluster_script *s = user;
  pthread_mutex_lock(&s->mu);
  read_id(message, s->cancelled_id);
  pthread_mutex_unlock(&s->mu);
  count_and_answer(call, s, &s->cancelled, message);
}

static inline void on_clean_now(trn_call *call, void *user, trn_slice message) {
  count_and_answer(call, user, &((cluster_script *)user)->cleaned, message);
}

static inline void on_metrics_now(trn_call *call, void *user, trn_slice message) {
  trn_strbuf out = {0}, stage = {0}, op = {0}, metric = {0};
  (void)user;
  if (message.release) message.release(message.owner);
  trn__wire_put_number(&metric, 1, 42);
  trn__wire_put_text(&op, 2, "ShuffleWriterExec");
  trn__wire_put_message(&op, 4, &metric);
  trn__wire_put_number(&stage, 1, 3);
  trn__wire_put_message(&stage, 3, &op);
  trn__wire_put_message(&out, 1, &stage);
  answer(call, &out);
  trn_call_finish(call, TRN_OK, NULL, NULL, 0, NULL, 0);
}

/* ---- DoGet: rows partition * 1,000,000 + 0, 1, 2, ... ---- */

typedef struct fetching {
  cluster_script *script;
  unsigned partition, batch;
  bool is_over;
} fetching;

static inline void send_more(trn_call *call, fetching *f) {
  cluster_script *s = f->script;
  bool is_full = false;
  while (!is_full && f->batch < s->batches) {
    if (f->partition == 0 && s->breaks_at && f->batch >= (unsigned)s->breaks_at) {
      trn_call_abort(call, TRN_UNAVAILABLE);
      return;
    }
    int64_t first = f->partition * INT64_C(1000000) + (int64_t)f->batch * s->rows;
    trn_strbuf batch = s->compresses ? compressed_batch(first, s->rows) : plain_batch(first, s->rows);
    trn_strbuf message = flight_data(&batch);
    trn__strbuf_finish(&batch);
    trn_slice slice = {message.data, message.size, free, message.data};
    pthread_mutex_lock(&s->mu);
    s->messages++;
    pthread_mutex_unlock(&s->mu);
    is_full = trn_call_send(call, &slice, 1, 0) != TRN_SEND_READY;
    if (!s->endless) f->batch++;
  }
  if (f->batch >= s->batches && !f->is_over) {
    f->is_over = true;
    trn_call_finish(call, TRN_OK, NULL, NULL, 0, NULL, 0);
  }
}

static inline void fetch_open_now(trn_call *call, void *service) {
  fetching *f = calloc(1, sizeof *f);
  f->script = service;
  pthread_mutex_lock(&f->script->mu);
  f->script->fetched++;
  f->script->open++;
  pthread_mutex_unlock(&f->script->mu);
  trn_call_set_user(call, f);
}

static inline void fetch_message_now(trn_call *call, void *user, trn_slice message) {
  fetching *f = user;
  trn_wire_reader ticket = trn__wire_reader(message.data, message.size);
  trn_wire_field t, a, p;
  while (trn__wire_next(&ticket, &t)) {
    trn_wire_reader action = trn__wire_inside(&t);
    while (trn__wire_next(&action, &a)) {
      trn_wire_reader fetch = trn__wire_inside(&a);
      while (a.number == 3 && trn__wire_next(&fetch, &p))
        if (p.number == 3) f->partition = (unsigned)p.value;
    }
  }
  if (message.release) message.release(message.owner);
  if (f->script->ends_early) {
    f->is_over = true;
    trn_call_finish(call, TRN_OK, NULL, NULL, 0, NULL, 0);
    return;
  }
  struct ArrowSchema schema = script_schema(f->script->wrong_schema ? "u" : "l");
  trn_strbuf bytes = {0};
  assert_int_equal(trn__ipc_write_schema(&schema, &bytes), TRN_OK);
  trn_strbuf out = flight_data(&bytes);
  if (f->script->garbage) memset(out.data, 0xff, out.size);
  answer(call, &out);
  trn__strbuf_finish(&bytes);
  trn__schema_release(&schema);
  send_more(call, f);
}

static inline void fetch_writable(trn_call *call, void *user) {
  script_is_at_work = true;
  send_more(call, user);
  script_is_at_work = false;
}

static inline void fetch_done(trn_call *call, void *user) {
  fetching *f = user;
  (void)call;
  pthread_mutex_lock(&f->script->mu);
  f->script->open--;
  pthread_mutex_unlock(&f->script->mu);
  free(f);
}

#define AT_WORK(name)                                                                                                  \
  static inline void name(trn_call *call, void *user, trn_slice message) {                                             \
    script_is_at_work = true;                                                                                          \
    name##_now(call, user, message);                                                                                   \
    script_is_at_work = false;                                                                                         \
  }
AT_WORK(on_execute)
AT_WORK(on_push)
AT_WORK(on_status)
AT_WORK(on_cancel_job)
AT_WORK(on_clean)
AT_WORK(on_metrics)
AT_WORK(fetch_message)
#undef AT_WORK

static inline void fetch_open(trn_call *call, void *service) {
  script_is_at_work = true;
  fetch_open_now(call, service);
  script_is_at_work = false;
}

static inline void call_open(trn_call *call, void *service) {
  cluster_script *s = service;
  (void)call;
  pthread_mutex_lock(&s->mu);
  s->open++;
  pthread_mutex_unlock(&s->mu);
}

static inline void call_done(trn_call *call, void *user) {
  cluster_script *s = user;
  (void)call;
  pthread_mutex_lock(&s->mu);
  s->open--;
  pthread_mutex_unlock(&s->mu);
}

static inline void script_init(cluster_script *s) {
  *s = (cluster_script){.version = "55.0.0", .partitions = 1, .batches = 1, .rows = 4, .steps = {STEP_DONE}};
  pthread_mutex_init(&s->mu, NULL);
  s->threads = thread_count();
}

static inline trn_routes *script_routes(cluster_script *s) {
#define SCHEDULER "/ballista.protobuf.SchedulerGrpc/"
  trn_method unary = {.struct_size = sizeof unary, .on_open = call_open, .on_done = call_done, .service = s};
  trn_method methods[7] = {unary, unary, unary, unary, unary};
  static const char *const paths[] = {SCHEDULER "ExecuteQuery", SCHEDULER "GetJobStatus", SCHEDULER "CancelJob",
                                      SCHEDULER "CleanJobData", SCHEDULER "GetJobMetrics"};
  void (*const handlers[])(trn_call *, void *, trn_slice) = {on_execute, on_status, on_cancel_job, on_clean,
                                                             on_metrics};
  for (int i = 0; i < 5; i++) methods[i].path = paths[i], methods[i].on_message = handlers[i];
  methods[5] = (trn_method){.struct_size = sizeof unary,
                            .path = "/arrow.flight.protocol.FlightService/DoGet",
                            .kind = TRN_METHOD_SERVER_STREAM,
                            .on_open = fetch_open,
                            .on_message = fetch_message,
                            .on_writable = fetch_writable,
                            .on_done = fetch_done,
                            .service = s};
  methods[6] = unary;
  methods[6].path = SCHEDULER "ExecuteQueryPush";
  methods[6].kind = TRN_METHOD_SERVER_STREAM;
  methods[6].on_message = on_push;
  trn_routes *routes = NULL;
  assert_int_equal(trn_routes_create(&routes), TRN_OK);
  assert_int_equal(trn_routes_add(routes, methods, 7, NULL), TRN_OK);
  return routes;
#undef SCHEDULER
}

static inline unsigned script_count(cluster_script *s, const unsigned *count) {
  pthread_mutex_lock(&s->mu);
  unsigned value = *count;
  pthread_mutex_unlock(&s->mu);
  return value;
}

/* The backend is let go of, whose one reference is the caller's: jobs that were cancelled are followed to their end. */
static inline void script_settle(cluster_script *s, trn_ballista *b) {
  for (int i = 0; i < 30000 && (atomic_load(&b->refs) > 1 || script_count(s, &s->open)); i++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  assert_int_equal(atomic_load(&b->refs), 1); /* no job is followed for ever */
  assert_int_equal(script_count(s, &s->open), 0);
  trn__ballista_unref(b);
}

/* Everything that could use the routes is closed, and its threads end: those of channels by themselves. */
static inline void script_finish(cluster_script *s, trn_routes *routes) {
  trn_call_unref(s->held);
  s->held = NULL;
  assert_true(threads_are_gone(s->threads));
  trn_routes_destroy(routes);
}

/* Waits until it is at least that; false: not within ten seconds. */
static inline bool script_await(cluster_script *s, const unsigned *count, unsigned least) {
  for (int i = 0; i < 10000 && script_count(s, count) < least; i++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  return script_count(s, count) >= least;
}

#endif
