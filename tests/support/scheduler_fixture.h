/* Schedulers over the scripted backend, for tests: a folder with a store and outputs, queries as text ("rows 100",
 * "hang", "fail", "slow 100") in a format of their own. Everything is static inline: a program includes it. */
#ifndef TRN_TESTS_SCHEDULER_FIXTURE_H
#define TRN_TESTS_SCHEDULER_FIXTURE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/scripted/scripted.h"
#include "conformance/puller.h"
#include "scheduler/scheduler.h"

#define QUERY_FORMAT "test.query.v1"
enum { HANGING = 1000001, FAILING = 1000002, SLOW_ID = 7, WAIT_MS = 20000, LEASE_MS = 20000, SHORT_LEASE_MS = 300 };

/* ---- queries ---- */

/* NULL: no memory. */
static inline trn_plan *range_with(int64_t rows, uint32_t id) {
  trn_arena *arena = trn__arena_create(0);
  const trn_column column = {.id = id, .type = trn__type(TRN_TYPE_INT64)};
  trn_field *field = arena ? TRN_NEW(arena, trn_field) : NULL;
  trn_rel *rel = field ? trn__rel_create(arena, TRN_REL_RANGE, NULL, 0, NULL, 0, &column, 1) : NULL;
  trn_plan *plan = NULL;
  if (rel) {
    *field = (trn_field){.name = "id", .type = column.type};
    rel->u.range.end = rows;
    rel->u.range.step = 1;
  }
  if (!rel)
    trn__arena_unref(arena);
  else if (trn__plan_create(arena, rel, field, id + 1, NULL, NULL, &plan)) /* takes the arena */
    plan = NULL;
  return plan;
}

static inline trn_plan *range_of(int64_t rows) {
  return range_with(rows, 1);
}

static inline trn_status decode_query(void *self, trn_session *session, const trn_plan_input *input, trn_plan **out,
                                      trn_error **error) {
  long long rows = 0;
  char text[64];
  (void)self, (void)session;
  snprintf(text, sizeof text, "%.*s", (int)input->size, (const char *)input->data);
  if (sscanf(text, "rows %lld", &rows) == 1)
    *out = range_of(rows);
  else if (sscanf(text, "slow %lld", &rows) == 1)
    *out = range_with(rows, SLOW_ID);
  else if (!strcmp(text, "hang"))
    *out = range_of(HANGING);
  else if (!strcmp(text, "fail"))
    *out = range_of(FAILING);
  else
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "no query: %s", text);
  return *out ? TRN_OK : trn__no_memory(error);
}

/* What the plan says: the second batch never comes, or fails; each takes a while. */
static inline trn_status script_of(void *user, trn_session *session, trn_plan *plan, trn_script *script) {
  (void)user, (void)session;
  int64_t rows = plan->root->u.range.end;
  if (rows == HANGING) *script = (trn_script){.is_hanging = true, .hang_at = 1};
  if (rows == FAILING)
    *script =
        (trn_script){.fail_status = TRN_DATA_LOSS, .fail_at = 1, .condition = "LOST_ROWS", .message = "as scripted"};
  bool is_slow = plan->root->columns[0].id == SLOW_ID;
  if (is_slow) *script = (trn_script){.pull_delay_ms = 20};
  return rows >= HANGING || is_slow ? TRN_OK : TRN_UNIMPLEMENTED;
}

/* ---- a process's worth: backend, store, scheduler ---- */

typedef struct node {
  trn_scripted *control;
  trn_backend *backend;
  trn_registry *registry;
  trn_job_store *store;
  trn_scheduler *scheduler;
  trn_session *session;
} node;

static inline char *in_folder(const char *folder, const char *name) {
  char *path = malloc(strlen(folder) + strlen(name) + 2);
  assert_non_null(path);
  if (path) sprintf(path, "%s/%s", folder, name);
  return path;
}

static inline void node_open_with(node *n, const char *folder, trn_job_store *store,
                                  const trn_scheduler_options *more) {
  trn_error *error = NULL;
  static const trn_decoder_ops decoder = {.struct_size = sizeof decoder, .decode = decode_query};
  *n = (node){.store = store};
  assert_int_equal(trn__scripted_create(TRN_SCRIPTED_ARRAYS, &n->control, &n->backend), TRN_OK);
  trn__scripted_on_plan(n->control, script_of, NULL);
  assert_int_equal(trn_registry_create(&n->registry), TRN_OK);
  assert_int_equal(trn_registry_add_decoder(n->registry, QUERY_FORMAT, &decoder, NULL, NULL), TRN_OK);
  char *outputs = in_folder(folder, "outputs");
  trn_scheduler_options options = more ? *more : (trn_scheduler_options){0};
  options.struct_size = sizeof options;
  options.store = store;
  options.output_directory = outputs;
  options.registry = n->registry;
  if (!options.lease_ms) options.lease_ms = LEASE_MS;
  if (!options.poll_ms) options.poll_ms = 10;
  trn_status status = trn_scheduler_create(&options, n->backend, &n->scheduler, &error);
  if (status) print_error("%s\n", trn_error_message(error));
  assert_int_equal(status, TRN_OK);
  trn_session_request request = {.struct_size = sizeof request, .user = "ann"};
  assert_int_equal(trn_scheduler_create_session(n->scheduler, &request, &n->session, NULL), TRN_OK);
  free(outputs);
}

static inline trn_job_store *open_store(const char *folder) {
  trn_error *error = NULL;
  trn_job_store *store = NULL;
  char *path = in_folder(folder, "jobs.sqlite");
  trn_status status = trn_sqlite_job_store_open(path, &store, &error);
  if (status) print_error("%s\n", trn_error_message(error));
  assert_int_equal(status, TRN_OK);
  free(path);
  return store;
}

static inline void node_open(node *n, const char *folder) {
  node_open_with(n, folder, open_store(folder), NULL);
}

static inline void node_close(node *n) {
  trn_session_unref(n->session);
  trn_scheduler_unref(n->scheduler);
  trn_job_store_unref(n->store);
  trn_backend_unref(n->backend);
  trn__scripted_unref(n->control);
  trn_registry_destroy(n->registry);
  *n = (node){0};
}

static inline char *make_folder_for_test(void) {
  /* In memory where that is to be had: every commit is synced, and other tests keep the disk busy. */
  const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");
  char *path = in_folder(base && *base ? base : "/tmp", "trunnion-jobs-XXXXXX");
  assert_non_null(mkdtemp(path));
  return path;
}

static inline void remove_folder_of_test(char *folder) {
  char command[512];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  assert_int_equal(system(command), 0);
  free(folder);
}

/* One process's worth in a folder of its own. Gives the folder. */
static inline char *node_open_alone(node *n) {
  char *folder = make_folder_for_test();
  node_open(n, folder);
  return folder;
}

static inline void node_close_alone(node *n, char *folder) {
  node_close(n);
  remove_folder_of_test(folder);
}

/* ---- steps ---- */

static inline trn_status submit_with(node *n, const char *id, const char *query, const char *tag, trn_job **job,
                                     trn_error **error) {
  trn_plan_input input = {.struct_size = sizeof input, .format = QUERY_FORMAT, .data = query, .size = strlen(query)};
  trn_submit_request request = {.struct_size = sizeof request,
                                .requested_job_id = id,
                                .session = n->session,
                                .input = &input,
                                .tags = &tag,
                                .tag_count = tag ? 1 : 0};
  return trn_scheduler_submit(n->scheduler, &request, job, error);
}

static inline trn_job *submit(node *n, const char *id, const char *query) {
  trn_job *job = NULL;
  trn_error *error = NULL;
  trn_status status = submit_with(n, id, query, NULL, &job, &error);
  if (status) print_error("%s\n", trn_error_message(error));
  assert_int_equal(status, TRN_OK);
  return job;
}

static inline trn_job_status status_of(trn_job *job) {
  trn_job_status status = {.struct_size = sizeof status};
  trn_error *error = NULL;
  trn_status result = trn_job_get_status(job, &status, NULL, &error);
  if (result) print_error("%s\n", trn_error_message(error));
  assert_int_equal(result, TRN_OK);
  return status;
}

static inline trn_job_state wait_for_end(trn_job *job) {
  trn_job_status status = {.struct_size = sizeof status};
  trn_error *failure = NULL;
  assert_int_equal(trn_job_wait(job, WAIT_MS, &status, &failure, NULL), TRN_OK);
  if (failure && status.state == TRN_JOB_FAILED)
    print_message("job %s: %s\n", trn_job_id(job), trn_error_message(failure));
  trn_error_unref(failure);
  return status.state;
}

static inline void wait_for_state(trn_job *job, trn_job_state state) {
  for (int i = 0; i < WAIT_MS / 2 && status_of(job).state != state; i++)
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  assert_int_equal(status_of(job).state, state);
}

/* The rows of its output, each checked: 0, 1, 2, ...; a status instead when there is none. */
static inline trn_status read_output(trn_job *job, int64_t *rows, trn_error **error) {
  trn_stream *stream = NULL;
  puller p;
  struct ArrowArray array;
  *rows = 0;
  trn_status status = trn_job_output(job, &stream, error);
  if (status) return status;
  puller_init(&p);
  while (!(status = pull_array(&p, stream, &array)) && array.release) {
    const int64_t *values = array.children[0]->buffers[1];
    for (int64_t i = 0; i < array.length; i++) assert_int_equal(values[array.children[0]->offset + i], (*rows)++);
    array.release(&array);
  }
  if (status) trn_error_set(error, status, NULL, "%s", p.message);
  puller_finish(&p);
  trn_stream_unref(stream);
  return status;
}

static inline void output_is(trn_job *job, int64_t expected) {
  int64_t rows;
  trn_error *error = NULL;
  trn_status status = read_output(job, &rows, &error);
  if (status) print_error("%s\n", trn_error_message(error));
  assert_int_equal(status, TRN_OK);
  assert_int_equal(rows, expected);
}

#endif
