/* cache: what is kept, who shares it, when it goes. */
#include "support/layer_fixture.h"
#include <dirent.h>

typedef struct cached {
  bench bench;
  trn_backend *backend;
  trn_session *ann, *bob;
} cached;

static void cached_open(cached *c, const char *lines, trn_scripted_form form) {
  trn_config *config = config_of(lines);
  bench_open(&c->bench, form);
  trn_cache_options options = {
      .struct_size = sizeof options, .config = config, .sink = log_event, .sink_user = &c->bench.log};
  trn_error *error = NULL;
  trn_status status = trn_cache_create(&options, c->bench.base, &c->backend, &error);
  if (status) print_error("%s\n", trn_error_message(error));
  assert_int_equal(status, TRN_OK);
  trn_config_destroy(config);
  c->ann = session_of(c->backend, "ann", NULL);
  c->bob = session_of(c->backend, "bob", NULL);
}

static void cached_close(cached *c) {
  trn_session_unref(c->ann);
  trn_session_unref(c->bob);
  trn_backend_unref(c->backend);
  bench_close(&c->bench);
}

static trn_cache_counts counts_of(const cached *c) {
  trn_cache_counts counts = {.struct_size = sizeof counts};
  assert_true(trn_cache_count(c->backend, &counts));
  return counts;
}

static uint64_t executed(const cached *c) {
  return trn__scripted_count(c->bench.control).executed;
}

static const plan_spec SALES = {.path = "/data/sales", .table = "sales", .version = "v1"};

static int64_t query(trn_session *session, const plan_spec *spec, bool as_ipc, char **metrics) {
  trn_plan *plan = NULL;
  trn_operation *operation = NULL;
  trn_status status;
  assert_int_equal(plan_of(session, spec, &plan, NULL), TRN_OK);
  assert_int_equal(begin(session, plan, &operation, NULL), TRN_OK);
  trn_plan_unref(plan);
  int64_t rows = read_rows(operation, as_ipc, 0, &status, NULL);
  assert_int_equal(status, TRN_OK);
  if (metrics) assert_int_equal(trn_operation_metrics(operation, metrics), TRN_OK);
  trn_operation_unref(operation);
  return rows;
}

static void the_second_query_is_answered_from_the_store(void **state) {
  (void)state;
  for (int ipc = 0; ipc < 2; ipc++) {
    cached c;
    char *metrics = NULL;
    cached_open(&c, "", TRN_SCRIPTED_ARRAYS);
    assert_int_equal(query(c.ann, &SALES, ipc, &metrics), 3);
    assert_null(strstr(metrics, "hit"));
    trn_free(metrics);
    assert_int_equal(query(c.ann, &SALES, ipc, NULL), 3);
    assert_int_equal(query(c.bob, &SALES, ipc, &metrics), 3); /* another session, another source */
    assert_non_null(strstr(metrics, "\"hit\":1"));
    trn_free(metrics);
    assert_int_equal(executed(&c), 1);
    assert_int_equal(counts_of(&c).hits, 2);
    assert_true(log_has(&c.bench.log, "cache hit main.shop.sales"));
    cached_close(&c);
  }
}

static void the_same_bytes_come_again(void **state) {
  (void)state;
  cached c;
  cached_open(&c, "", TRN_SCRIPTED_ARRAYS);
  char *copies[2];
  size_t sizes[2];
  for (int i = 0; i < 2; i++) {
    trn_plan *plan = NULL;
    trn_operation *operation = NULL;
    trn_stream *stream = NULL;
    trn_ipc_piece piece;
    trn_slice schema;
    puller p;
    puller_init(&p);
    assert_int_equal(plan_of(c.ann, &SALES, &plan, NULL), TRN_OK);
    assert_int_equal(begin(c.ann, plan, &operation, NULL), TRN_OK);
    assert_int_equal(trn_operation_result_stream(operation, &stream, NULL), TRN_OK);
    assert_int_equal(trn_stream_schema_ipc(stream, &schema, NULL), TRN_OK);
    assert_int_equal(ipc_message_kind(schema.data, schema.size), 1);
    assert_int_equal(pull_ipc(&p, stream, 0, &piece), TRN_OK);
    copies[i] = malloc(piece.size);
    sizes[i] = 0;
    for (size_t k = 0; k < piece.slice_count; k++) {
      memcpy(copies[i] + sizes[i], piece.slices[k].data, piece.slices[k].size);
      sizes[i] += piece.slices[k].size;
    }
    piece.release(piece.owner);
    assert_int_equal(pull_ipc(&p, stream, 0, &piece), TRN_OK);
    assert_null(piece.release);
    puller_finish(&p);
    trn_stream_unref(stream);
    trn_operation_unref(operation);
    trn_plan_unref(plan);
  }
  assert_int_equal(executed(&c), 1);
  assert_int_equal(sizes[0], sizes[1]);
  assert_memory_equal(copies[0], copies[1], sizes[0]);
  free(copies[0]);
  free(copies[1]);
  cached_close(&c);
}

static void another_form_or_a_smaller_piece_runs_again_and_is_right(void **state) {
  (void)state;
  cached c;
  trn_status status;
  cached_open(&c, "", TRN_SCRIPTED_ARRAYS);
  assert_int_equal(query(c.ann, &SALES, true, NULL), 3);
  assert_int_equal(query(c.ann, &SALES, false, NULL), 3); /* kept as IPC, wanted as arrays */
  trn_plan *plan = range_plan(50000);
  for (int i = 0; i < 2; i++) {
    trn_operation *operation = NULL;
    assert_int_equal(begin(c.ann, plan, &operation, NULL), TRN_OK);
    assert_int_equal(read_rows(operation, true, i ? 5000 : 0, &status, NULL), 50000);
    trn_operation_unref(operation);
  }
  trn_plan_unref(plan);
  cached_close(&c);
}

static void what_makes_a_difference_is_in_the_key(void **state) {
  (void)state;
  cached c;
  cached_open(&c, "settings[]=datafusion.*", TRN_SCRIPTED_ARRAYS);
  plan_spec other = SALES, newer = SALES;
  other.table = "other";
  newer.version = "v2";
  query(c.ann, &SALES, false, NULL);
  query(c.ann, &other, false, NULL);
  query(c.ann, &newer, false, NULL);
  assert_int_equal(executed(&c), 3);
  trn_session_set(c.ann, "datafusion.execution.batch_size", "7");
  query(c.ann, &SALES, false, NULL);
  assert_int_equal(executed(&c), 4);
  trn_session_set(c.ann, "spark.app.name", "x"); /* changes no result */
  query(c.ann, &SALES, false, NULL);
  assert_int_equal(executed(&c), 4);
  trn_plan *plan = NULL;
  trn_operation *operation = NULL;
  trn_status status;
  assert_int_equal(plan_of(c.ann, &SALES, &plan, NULL), TRN_OK);
  trn_execute_request request = {.struct_size = sizeof request, .plan = plan, .policy = "masked"};
  assert_int_equal(trn_backend_execute(c.ann, &request, &operation, NULL), TRN_OK);
  read_rows(operation, false, 0, &status, NULL);
  assert_int_equal(executed(&c), 5);
  trn_operation_unref(operation);
  trn_plan_unref(plan);
  cached_close(&c);
}

static void what_is_not_known_or_changes_is_not_kept(void **state) {
  (void)state;
  cached c;
  cached_open(&c, "", TRN_SCRIPTED_ARRAYS);
  plan_spec unversioned = SALES;
  unversioned.version = NULL;
  for (int i = 0; i < 2; i++) query(c.ann, &unversioned, false, NULL);
  assert_int_equal(executed(&c), 2);
  for (int i = 0; i < 2; i++) { /* now() was called, whatever became of it */
    trn_plan *plan = range_plan(3);
    const char *names[] = {"upper", "now"};
    trn__plan_set_functions(plan, trn__arena_copy(plan->arena, names, sizeof names), 2);
    trn_status status;
    assert_int_equal(run_plan(c.ann, plan, &status, NULL), 3);
  }
  assert_int_equal(executed(&c), 4);
  assert_int_equal(counts_of(&c).entries, 0);
  cached_close(&c);
}

static void results_that_fail_or_are_not_read_to_their_end_are_not_kept(void **state) {
  (void)state;
  cached c;
  trn_status status;
  cached_open(&c, "", TRN_SCRIPTED_ARRAYS);
  trn_script breaks = {.fail_status = TRN_ABORTED, .fail_at = 1};
  trn_plan *plan = range_plan(20000);
  for (int i = 0; i < 3; i++) {
    trn_operation *operation = NULL;
    c.bench.script = i == 0 ? &breaks : NULL;
    assert_int_equal(begin(c.ann, plan, &operation, NULL), TRN_OK);
    trn_stream *stream = NULL;
    if (i == 0) assert_int_equal(read_rows(operation, false, 0, &status, NULL), -1);
    if (i == 1) assert_int_equal(trn_operation_result_stream(operation, &stream, NULL), TRN_OK);
    trn_stream_unref(stream);
    if (i == 2) assert_int_equal(read_rows(operation, false, 0, &status, NULL), 20000);
    trn_operation_unref(operation);
    assert_int_equal(executed(&c), i + 1);
  }
  assert_int_equal(counts_of(&c).stores, 1);
  trn_plan_unref(plan);
  cached_close(&c);
}

static void files_that_change_are_read_again(void **state) {
  (void)state;
  cached c;
  char path[] = "/tmp/trn-cache-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0 && write(fd, "a", 1) == 1);
  cached_open(&c, "", TRN_SCRIPTED_ARRAYS);
  struct ArrowSchema schema;
  table_schema(&schema);
  assert_int_equal(trn__scripted_add_table(c.bench.control, path, &schema, NULL, 0), TRN_OK);
  trn__schema_release(&schema);
  plan_spec spec = {.path = path, .version = "the one of the plan"};
  for (int i = 0; i < 2; i++) query(c.ann, &spec, false, NULL);
  assert_int_equal(executed(&c), 1);
  assert_int_equal(write(fd, "b", 1), 1);
  query(c.ann, &spec, false, NULL);
  assert_int_equal(executed(&c), 2);
  close(fd);
  unlink(path);
  cached_close(&c);
}

static trn_plan *write_plan(const char *path) {
  trn_arena *arena = trn__arena_create(0);
  trn_column column = {.id = 1, .type = trn__type(TRN_TYPE_INT64)}, count = {.id = 2, .type = column.type};
  const trn_rel *range = trn__rel_create(arena, TRN_REL_RANGE, NULL, 0, NULL, 0, &column, 1);
  trn_rel *write = trn__rel_create(arena, TRN_REL_WRITE, &range, 1, NULL, 0, &count, 1);
  write->u.write.format = "parquet";
  write->u.write.directory = "/staging";
  trn_scan_info info = {.struct_size = sizeof info, .kind = TRN_SCAN_FILES, .paths = &path, .path_count = 1};
  assert_int_equal(trn_scan_label_create(&info, &write->u.write.info), TRN_OK);
  assert_int_equal(trn__label_hold(arena, write->u.write.info), TRN_OK);
  trn_scan_label_unref(write->u.write.info);
  return plan_end(arena, write, NULL, 3);
}

static void a_write_forgets_exactly_what_it_touches(void **state) {
  (void)state;
  cached c;
  trn_status status;
  cached_open(&c, "", TRN_SCRIPTED_ARRAYS);
  plan_spec other = {.path = "/data/other", .table = "other", .version = "v1"};
  query(c.ann, &SALES, false, NULL);
  query(c.ann, &other, false, NULL);
  assert_int_equal(counts_of(&c).entries, 2);
  trn_script done = {.fail_status = TRN_OK, .schema = NULL};
  struct ArrowSchema schema;
  table_schema(&schema);
  done.schema = &schema;
  c.bench.script = &done;
  run_plan(c.ann, write_plan("/data/sales/part=1"), &status, NULL); /* below */
  assert_int_equal(status, TRN_OK);
  assert_int_equal(counts_of(&c).entries, 1);
  run_plan(c.ann, write_plan("/data/oth"), &status, NULL); /* another name */
  assert_int_equal(counts_of(&c).entries, 1);
  run_plan(c.ann, write_plan("/data"), &status, NULL); /* above */
  assert_int_equal(counts_of(&c).entries, 0);
  assert_int_equal(counts_of(&c).invalidations, 2);
  c.bench.script = NULL;
  trn__schema_release(&schema);
  cached_close(&c);
}

static void the_oldest_go_first_and_the_largest_are_not_kept(void **state) {
  (void)state;
  cached c;
  trn_status status;
  cached_open(&c, "memory=200K\nentry=90K", TRN_SCRIPTED_ARRAYS);
  for (int i = 1; i <= 4; i++) assert_int_equal(run_plan(c.ann, range_plan(8000 + i), &status, NULL), 8000 + i);
  assert_true(counts_of(&c).bytes <= 200 << 10);
  assert_true(counts_of(&c).evictions >= 1);
  assert_int_equal(run_plan(c.ann, range_plan(8004), &status, NULL), 8004);
  assert_int_equal(executed(&c), 4);
  run_plan(c.ann, range_plan(8001), &status, NULL);
  assert_int_equal(executed(&c), 5);
  uint64_t entries = counts_of(&c).entries;
  assert_int_equal(run_plan(c.ann, range_plan(50000), &status, NULL), 50000); /* too large for an entry */
  assert_int_equal(counts_of(&c).entries, entries);
  trn_cache_clear(c.backend);
  assert_int_equal(counts_of(&c).entries, 0);
  assert_int_equal(counts_of(&c).bytes, 0);
  cached_close(&c);
}

static int64_t run_ipc(trn_session *session, int64_t rows, bool *first_is_right) {
  trn_plan *plan = range_plan(rows);
  trn_operation *operation = NULL;
  trn_stream *stream = NULL;
  trn_ipc_piece piece;
  int64_t sum = 0;
  puller p;
  puller_init(&p);
  assert_int_equal(begin(session, plan, &operation, NULL), TRN_OK);
  assert_int_equal(trn_operation_result_stream(operation, &stream, NULL), TRN_OK);
  while (pull_ipc(&p, stream, 0, &piece) == TRN_OK && piece.release) {
    ipc_batch batch;
    int64_t size, value;
    assert_true(ipc_batch_read(&piece, &batch));
    memcpy(&value, ipc_batch_buffer(&batch, 1, &size), 8);
    *first_is_right = value == sum;
    free(batch.bytes);
    sum += piece.rows;
    piece.release(piece.owner);
  }
  assert_int_equal(p.status, TRN_OK);
  puller_finish(&p);
  trn_stream_unref(stream);
  trn_operation_unref(operation);
  trn_plan_unref(plan);
  return sum;
}

static void what_does_not_fit_goes_to_disk_and_comes_back(void **state) {
  (void)state;
  cached c;
  char folder[] = "/tmp/trn-cache-XXXXXX", lines[128];
  bool right = false;
  assert_non_null(mkdtemp(folder));
  snprintf(lines, sizeof lines, "memory=100K\nentry=1M\ndisk=10M\ndirectory=%s", folder);
  cached_open(&c, lines, TRN_SCRIPTED_ARRAYS);
  assert_int_equal(run_ipc(c.ann, 9000, &right), 9000);
  assert_int_equal(run_ipc(c.ann, 9001, &right), 9001);
  for (int i = 0; i < 5000 && !counts_of(&c).disk_bytes; i++) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  assert_true(counts_of(&c).disk_bytes > 0);
  assert_int_equal(run_ipc(c.ann, 9000, &right), 9000);
  assert_true(right);
  assert_int_equal(executed(&c), 2);
  assert_int_equal(counts_of(&c).disk_hits, 1);
  trn_cache_clear(c.backend);
  cached_close(&c);
  assert_int_equal(rmdir(folder), 0); /* nothing is left */
}

/* ---- what an earlier process left in the directory ---- */

static size_t files_in(const char *folder, void (*each)(const char *path)) {
  size_t count = 0;
  DIR *directory = opendir(folder);
  for (struct dirent *entry; (entry = readdir(directory));) {
    char path[400];
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (each) each(path);
    count++;
  }
  closedir(directory);
  return count;
}

static void remove_file(const char *path) {
  assert_int_equal(unlink(path), 0);
}

/* Fills a directory with three results. */
static void leave_results(char *folder, char *lines, size_t size, const char *more) {
  cached c;
  bool right = false;
  assert_non_null(mkdtemp(folder));
  snprintf(lines, size, "directory=%s%s", folder, more);
  cached_open(&c, lines, TRN_SCRIPTED_ARRAYS);
  assert_int_equal(query(c.ann, &SALES, true, NULL), 3);
  assert_int_equal(run_ipc(c.ann, 9000, &right), 9000);
  assert_int_equal(run_ipc(c.ann, 9001, &right), 9001);
  assert_int_equal(counts_of(&c).disk_bytes, 0); /* all are in memory */
  cached_close(&c);
}

static void results_outlive_the_process(void **state) {
  (void)state;
  cached c;
  char folder[] = "/tmp/trn-cache-XXXXXX", lines[128];
  bool right = false;
  leave_results(folder, lines, sizeof lines, "");
  assert_int_equal(files_in(folder, NULL), 3);
  cached_open(&c, lines, TRN_SCRIPTED_ARRAYS);
  assert_int_equal(counts_of(&c).entries, 3);
  assert_true(counts_of(&c).disk_bytes > 9000 * 8);
  assert_int_equal(run_ipc(c.ann, 9000, &right), 9000);
  assert_true(right);
  assert_int_equal(query(c.bob, &SALES, true, NULL), 3);
  assert_int_equal(executed(&c), 0);
  assert_int_equal(counts_of(&c).disk_hits, 2);
  plan_spec later = SALES;
  later.version = "v2"; /* the table has changed meanwhile */
  assert_int_equal(query(c.ann, &later, true, NULL), 3);
  assert_int_equal(executed(&c), 1);
  cached_close(&c);
  assert_int_equal(files_in(folder, NULL), 4);
  cached_open(&c, lines, TRN_SCRIPTED_ARRAYS); /* a write forgets it by the names that the file has */
  trn_status status;
  struct ArrowSchema schema;
  table_schema(&schema);
  trn_script done = {.schema = &schema};
  c.bench.script = &done;
  run_plan(c.ann, write_plan("/data/sales/part=1"), &status, NULL);
  assert_int_equal(status, TRN_OK);
  c.bench.script = NULL;
  trn__schema_release(&schema);
  assert_int_equal(counts_of(&c).invalidations, 2);
  cached_close(&c);
  assert_int_equal(files_in(folder, remove_file), 2);
  assert_int_equal(rmdir(folder), 0);
}

static void flip_a_byte(const char *path) {
  FILE *file = fopen(path, "r+b");
  assert_int_equal(fseek(file, -9, SEEK_END), 0);
  int byte = fgetc(file);
  assert_int_equal(fseek(file, -9, SEEK_END), 0);
  fputc(byte ^ 0x20, file);
  fclose(file);
}

static void cut(const char *path) {
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  assert_int_equal(truncate(path, info.st_size / 2), 0);
}

static void nonsense(const char *path) {
  FILE *file = fopen(path, "wb");
  fputs("TRNCACH2 and then something else", file);
  fclose(file);
}

static void spoiled_files_are_no_results(void **state) {
  (void)state;
  static void (*const ways[])(const char *) = {flip_a_byte, cut, nonsense};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    cached c;
    char folder[] = "/tmp/trn-cache-XXXXXX", lines[128];
    bool right = false;
    leave_results(folder, lines, sizeof lines, "");
    files_in(folder, ways[i]);
    cached_open(&c, lines, TRN_SCRIPTED_ARRAYS);
    assert_int_equal(run_ipc(c.ann, 9000, &right), 9000);
    assert_int_equal(run_ipc(c.ann, 9000, &right), 9000);
    assert_true(right);
    assert_int_equal(query(c.ann, &SALES, true, NULL), 3);
    assert_int_equal(counts_of(&c).disk_hits, 0);
    assert_true(executed(&c) >= 2);
    cached_close(&c);
    files_in(folder, remove_file);
    assert_int_equal(rmdir(folder), 0);
  }
}

static void files_grow_old_and_have_no_more_room_than_before(void **state) {
  (void)state;
  cached c;
  char folder[] = "/tmp/trn-cache-XXXXXX", other[] = "/tmp/trn-cache-XXXXXX", lines[160];
  leave_results(folder, lines, sizeof lines, "\nttl=50ms");
  nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
  cached_open(&c, lines, TRN_SCRIPTED_ARRAYS);
  assert_int_equal(counts_of(&c).entries, 0);
  assert_int_equal(files_in(folder, NULL), 0);
  cached_close(&c);
  assert_int_equal(rmdir(folder), 0);
  leave_results(other, lines, sizeof lines, "");
  snprintf(lines, sizeof lines, "directory=%s\ndisk=100K", other);
  cached_open(&c, lines, TRN_SCRIPTED_ARRAYS);
  assert_in_range(counts_of(&c).disk_bytes, 1, 100 * 1024);
  cached_close(&c);
  files_in(other, remove_file);
  assert_int_equal(rmdir(other), 0);
}

static void what_is_old_goes(void **state) {
  (void)state;
  cached c;
  cached_open(&c, "ttl=20ms", TRN_SCRIPTED_ARRAYS);
  query(c.ann, &SALES, false, NULL);
  query(c.ann, &SALES, false, NULL);
  assert_int_equal(executed(&c), 1);
  nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
  query(c.ann, &SALES, false, NULL);
  assert_int_equal(executed(&c), 2);
  cached_close(&c);
}

/* ---- single flight ---- */

typedef struct racer {
  trn_session *session;
  int64_t rows;
} racer;
static void *race(void *argument) {
  racer *r = argument;
  r->rows = query(r->session, &SALES, true, NULL);
  return NULL;
}

static void many_at_once_are_one_query(void **state) {
  (void)state;
  enum { RACERS = 12 };
  cached c;
  pthread_t threads[RACERS];
  racer racers[RACERS];
  cached_open(&c, "", TRN_SCRIPTED_ARRAYS);
  trn_plan *plan = NULL;
  trn_operation *leader = NULL;
  trn_status status;
  assert_int_equal(plan_of(c.ann, &SALES, &plan, NULL), TRN_OK);
  assert_int_equal(begin(c.ann, plan, &leader, NULL), TRN_OK); /* fills it, and has not begun to read */
  for (int i = 0; i < RACERS; i++) {
    racers[i] = (racer){i % 2 ? c.ann : c.bob, 0};
    pthread_create(&threads[i], NULL, race, &racers[i]);
  }
  for (int i = 0; i < 5000 && counts_of(&c).waits < RACERS; i++) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  assert_int_equal(read_rows(leader, true, 0, &status, NULL), 3);
  for (int i = 0; i < RACERS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < RACERS; i++) assert_int_equal(racers[i].rows, 3);
  assert_int_equal(executed(&c), 1);
  trn_operation_unref(leader);
  trn_plan_unref(plan);
  cached_close(&c);
}

static void who_waits_for_nobody_goes_on(void **state) {
  (void)state;
  for (int slow = 0; slow < 2; slow++) { /* the leader gives up; the leader is too slow */
    cached c;
    cached_open(&c, slow ? "wait=20ms" : "wait=10m", TRN_SCRIPTED_ARRAYS);
    trn_plan *plan = NULL;
    trn_operation *leader = NULL;
    pthread_t thread;
    racer r = {c.bob, 0};
    assert_int_equal(plan_of(c.ann, &SALES, &plan, NULL), TRN_OK);
    assert_int_equal(begin(c.ann, plan, &leader, NULL), TRN_OK);
    pthread_create(&thread, NULL, race, &r);
    for (int i = 0; i < 5000 && !counts_of(&c).waits; i++) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (!slow) trn_operation_unref(leader);
    pthread_join(thread, NULL);
    assert_int_equal(r.rows, 3);
    assert_int_equal(executed(&c), 2);
    if (slow) trn_operation_unref(leader);
    trn_plan_unref(plan);
    if (!slow) trn_cache_clear(c.backend);
    cached_close(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_second_query_is_answered_from_the_store),
      cmocka_unit_test(the_same_bytes_come_again),
      cmocka_unit_test(another_form_or_a_smaller_piece_runs_again_and_is_right),
      cmocka_unit_test(what_makes_a_difference_is_in_the_key),
      cmocka_unit_test(what_is_not_known_or_changes_is_not_kept),
      cmocka_unit_test(results_that_fail_or_are_not_read_to_their_end_are_not_kept),
      cmocka_unit_test(files_that_change_are_read_again),
      cmocka_unit_test(a_write_forgets_exactly_what_it_touches),
      cmocka_unit_test(the_oldest_go_first_and_the_largest_are_not_kept),
      cmocka_unit_test(what_does_not_fit_goes_to_disk_and_comes_back),
      cmocka_unit_test(results_outlive_the_process),
      cmocka_unit_test(spoiled_files_are_no_results),
      cmocka_unit_test(files_grow_old_and_have_no_more_room_than_before),
      cmocka_unit_test(what_is_old_goes),
      cmocka_unit_test(many_at_once_are_one_query),
      cmocka_unit_test(who_waits_for_nobody_goes_on),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
