/* The cache's directory when things go wrong: every allocation fails once while it is loaded, read and written; the disk
 * is full at every size; what stands there is no file. Answers are right, and nothing half is left. */
#include "support/layer_fixture.h"
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static atomic_llong countdown = -1; /* < 0: nothing fails; 0: the next one */
static atomic_llong failures;

static bool fails(void) {
  if (atomic_load(&countdown) < 0 || atomic_fetch_sub(&countdown, 1) != 0) return false;
  atomic_fetch_add(&failures, 1);
  return true;
}
void *__wrap_malloc(size_t size) {
  return fails() ? NULL : __real_malloc(size);
}
void *__wrap_calloc(size_t count, size_t size) {
  return fails() ? NULL : __real_calloc(count, size);
}
void *__wrap_realloc(void *memory, size_t size) {
  return fails() ? NULL : __real_realloc(memory, size);
}

enum { ROWS = 3000, RESULTS = 3, FILE_NAME = 300 };

typedef struct kept {
  char name[FILE_NAME];
  char *bytes;
  size_t size;
} kept;

/* A directory with the results of an earlier process, and what it takes to ask for them again. */
typedef struct store {
  bench bench;
  char folder[64];
  trn_config *config;
  trn_plan *plans[RESULTS];
  kept files[RESULTS];
} store;

static size_t each_file(const char *folder, void (*each)(const char *path)) {
  size_t count = 0;
  DIR *directory = opendir(folder);
  assert_non_null(directory);
  for (struct dirent *entry; (entry = readdir(directory));) {
    char path[FILE_NAME + 80];
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (each) each(path);
    count++;
  }
  closedir(directory);
  return count;
}

static void remove_one(const char *path) {
  assert_int_equal(remove(path), 0);
}

static size_t partial_count;
static void count_partial(const char *path) {
  partial_count += strstr(path, ".trnpart") != NULL;
}

static void mark(void *self) {
  atomic_store((atomic_bool *)self, true);
}

/* One process: opens the directory, asks for each result, ends. From its first allocation on the `k`-th fails (-1: none). The
 * first status that was not OK. */
static trn_status process_with(store *s, size_t *wrong, long long k) {
  static const trn_layer_ops below_ops = {.struct_size = sizeof below_ops, .name = "below", .destroy = mark};
  trn_cache_options options = {.struct_size = sizeof options, .config = s->config};
  trn_backend *backend = NULL, *below = NULL;
  trn_session *session = NULL;
  trn_session_request request = {.struct_size = sizeof request, .user = "ann"};
  atomic_bool is_over = false; /* the cache goes, and has written what it writes, before what it is around */
  assert_int_equal(trn_layer_create(&below_ops, &is_over, s->bench.base, &below, NULL), TRN_OK);
  countdown = k;
  trn_status first = trn_cache_create(&options, below, &backend, NULL);
  if (!first) first = trn_session_open(backend, &request, &session, NULL);
  for (size_t i = 0; session && i < RESULTS; i++) {
    trn_operation *operation = NULL;
    trn_status status = begin(session, s->plans[i], &operation, NULL);
    int64_t rows = status ? -1 : read_rows(operation, true, 0, &status, NULL);
    if (!status && rows != ROWS + (int64_t)i) ++*wrong;
    if (status && !first) first = status;
    trn_operation_unref(operation);
  }
  trn_session_unref(session);
  trn_backend_unref(backend);
  trn_backend_unref(below);
  for (int i = 0; i < 20000 && !atomic_load(&is_over); i++) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  assert_true(atomic_load(&is_over)); /* a thread may still have had a hand on it */
  countdown = -1;
  return first;
}

static trn_status process(store *s, size_t *wrong) {
  return process_with(s, wrong, -1);
}

static void store_open(store *s) {
  char lines[160];
  size_t wrong = 0, count = 0;
  *s = (store){.folder = "/tmp/trn-cache-XXXXXX"};
  assert_non_null(mkdtemp(s->folder));
  snprintf(lines, sizeof lines, "directory=%s", s->folder);
  s->config = config_of(lines);
  bench_open(&s->bench, TRN_SCRIPTED_ARRAYS);
  s->bench.has_refused = true; /* pulls without an answer: there was no memory for them */
  for (size_t i = 0; i < RESULTS; i++) s->plans[i] = range_plan(ROWS + (int64_t)i);
  assert_int_equal(process(s, &wrong), TRN_OK);
  assert_int_equal(wrong, 0);
  DIR *directory = opendir(s->folder);
  for (struct dirent *entry; (entry = readdir(directory));) {
    char path[FILE_NAME + 80];
    struct stat info;
    if (entry->d_name[0] == '.' || count == RESULTS) continue;
    kept *file = &s->files[count++];
    snprintf(file->name, sizeof file->name, "%s", entry->d_name);
    snprintf(path, sizeof path, "%s/%s", s->folder, file->name);
    assert_int_equal(stat(path, &info), 0);
    file->size = (size_t)info.st_size;
    file->bytes = malloc(file->size);
    FILE *from = fopen(path, "rb");
    assert_int_equal(fread(file->bytes, 1, file->size, from), file->size);
    fclose(from);
  }
  closedir(directory);
  assert_int_equal(count, RESULTS);
}

/* The directory as the first process left it. */
static void restore(const store *s) {
  each_file(s->folder, remove_one);
  for (size_t i = 0; i < RESULTS; i++) {
    char path[FILE_NAME + 80];
    snprintf(path, sizeof path, "%s/%s", s->folder, s->files[i].name);
    FILE *to = fopen(path, "wb");
    assert_int_equal(fwrite(s->files[i].bytes, 1, s->files[i].size, to), s->files[i].size);
    assert_int_equal(fclose(to), 0);
  }
}

static void store_close(store *s) {
  for (size_t i = 0; i < RESULTS; i++) {
    trn_plan_unref(s->plans[i]);
    free(s->files[i].bytes);
  }
  trn_config_destroy(s->config);
  bench_close(&s->bench);
  each_file(s->folder, remove_one);
  assert_int_equal(rmdir(s->folder), 0);
}

static uint64_t executed(const store *s) {
  return trn__scripted_count(s->bench.control).executed;
}

/* What is in the directory is whole: a process that nothing happens to gets right answers from it. */
static void is_sound(store *s) {
  size_t wrong = 0;
  partial_count = 0;
  each_file(s->folder, count_partial);
  assert_int_equal(partial_count, 0);
  assert_int_equal(process(s, &wrong), TRN_OK);
  assert_int_equal(wrong, 0);
}

static void each_allocation_fails(bool is_filled) {
  store s;
  size_t wrong = 0;
  long long k = 0;
  store_open(&s);
  for (;; k++) {
    assert_true(k < 20000);
    if (is_filled) restore(&s);
    else each_file(s.folder, remove_one);
    uint64_t before = executed(&s);
    failures = 0;
    trn_status status = process_with(&s, &wrong, k);
    assert_int_equal(wrong, 0);
    if (!failures) {
      assert_int_equal(status, TRN_OK);
      assert_int_equal(executed(&s), before + (is_filled ? 0 : RESULTS)); /* from the directory, and into it */
      assert_int_equal(each_file(s.folder, NULL), RESULTS);
      break;
    }
    if (status && status != TRN_RESOURCE_EXHAUSTED) print_error("allocation %lld: %s\n", k, trn_status_name(status));
    assert_true(!status || status == TRN_RESOURCE_EXHAUSTED);
    if (k % 7 == 0) is_sound(&s);
  }
  print_message("%lld allocations\n", k);
  assert_true(k > 30);
  store_close(&s);
}

static void while_it_is_loaded_and_read(void **state) {
  (void)state;
  each_allocation_fails(true);
}

static void while_it_is_filled_and_written(void **state) {
  (void)state;
  each_allocation_fails(false);
}

static void a_full_disk_keeps_nothing_half(void **state) {
  (void)state;
  store s;
  size_t wrong = 0;
  struct rlimit old;
  store_open(&s);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
  signal(SIGXFSZ, SIG_IGN);
  for (size_t room = 0; room < s.files[0].size + 4096; room += room < 256 ? 16 : 1999) {
    each_file(s.folder, remove_one); /* all results are made, and written at the end */
    struct rlimit full = {room, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    trn_status status = process(&s, &wrong);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(status, TRN_OK); /* nobody who asks something sees that the disk is full */
    assert_int_equal(wrong, 0);
    if (room < s.files[0].size / 2) assert_int_equal(each_file(s.folder, NULL), 0);
    is_sound(&s);
  }
  store_close(&s);
}

static void what_is_no_file_of_ours_does_not_matter(void **state) {
  (void)state;
  static const char *const names[] = {"pipe", "folder", "nowhere", "elsewhere", "empty", "short"};
  store s;
  size_t wrong = 0;
  store_open(&s);
  const char *ending = strchr(s.files[0].name, '.');
  char outside[] = "/tmp/trn-outside-XXXXXX", path[6][FILE_NAME + 80];
  int fd = mkstemp(outside);
  assert_true(write(fd, s.files[0].bytes, s.files[0].size) == (ssize_t)s.files[0].size);
  close(fd);
  each_file(s.folder, remove_one);
  for (size_t i = 0; i < 6; i++) /* as long as the ids that files have */
    snprintf(path[i], sizeof path[i], "%s/01234567-89ab-7cde-8f01-23456789ab%02zu%s", s.folder, i, ending);
  assert_int_equal(mkfifo(path[0], 0600), 0);
  assert_int_equal(mkdir(path[1], 0700), 0);
  assert_int_equal(symlink("/tmp/trn-there-is-none", path[2]), 0);
  assert_int_equal(symlink(outside, path[3]), 0);
  fclose(fopen(path[4], "wb"));
  FILE *begun = fopen(path[5], "wb");
  fwrite(s.files[0].bytes, 1, 40, begun);
  fclose(begun);
  uint64_t before = executed(&s);
  assert_int_equal(process(&s, &wrong), TRN_OK);
  assert_int_equal(wrong, 0);
  assert_int_equal(executed(&s), before + RESULTS); /* a link leads to somebody else's file: not taken, not removed */
  assert_int_equal(unlink(outside), 0);
  for (size_t i = 0; i < 6; i++)
    if (i != 1 && access(path[i], F_OK) == 0) print_error("%s is still there\n", names[i]);
  assert_int_equal(each_file(s.folder, NULL), RESULTS + 1); /* and the folder */
  store_close(&s);
}

static void a_directory_that_is_not_there_is_said_at_the_start(void **state) {
  (void)state;
  store s;
  size_t wrong = 0;
  char moved[80];
  store_open(&s);
  snprintf(moved, sizeof moved, "%s-moved", s.folder);
  assert_int_equal(rename(s.folder, moved), 0);
  assert_int_equal(process(&s, &wrong), TRN_INVALID_ARGUMENT);
  assert_int_equal(access(s.folder, F_OK), -1);
  assert_int_equal(rename(moved, s.folder), 0);
  is_sound(&s);
  store_close(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(while_it_is_loaded_and_read),
      cmocka_unit_test(while_it_is_filled_and_written),
      cmocka_unit_test(a_full_disk_keeps_nothing_half),
      cmocka_unit_test(what_is_no_file_of_ours_does_not_matter),
      cmocka_unit_test(a_directory_that_is_not_there_is_said_at_the_start),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
