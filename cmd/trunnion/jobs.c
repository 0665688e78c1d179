/* Jobs that outlive the server: where `serve` keeps them, and `trunnion jobs`, which looks at them. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

enum { TEND_MS = 1000, TEND_JOBS_MAX = 1000, CANCEL_WAIT_MS = 15000, KEEP_HOURS = 24, LEASE_MS = 10000 };
#define KEY_NAME "/.tickets" /* no job is called so: ids begin with a letter or digit */

/* ---- settings ---- */

typedef struct job_settings {
  const char *store, *output, *lost;
  uint64_t keep_ms, lease_ms;
  int64_t running;
} job_settings;

/* `store` NULL: no jobs are kept. */
static trn_status read_settings(const trn_config *root, job_settings *out, trn_error **error) {
  const trn_config *map = trn_config_get(root, "jobs");
  *out = (job_settings){.lost = "report", .keep_ms = KEEP_HOURS * UINT64_C(3600000), .lease_ms = LEASE_MS};
  trn_status status = trn_config_text(map, "store", &out->store, error);
  if (!status) status = trn_config_text(map, "output", &out->output, error);
  if (!status) status = trn_config_text(map, "lost", &out->lost, error);
  if (!status) status = trn_config_duration(map, "keep", &out->keep_ms, error);
  if (!status) status = trn_config_duration(map, "lease", &out->lease_ms, error);
  if (!status) status = trn_config_number(map, "running", 1, 10000, &out->running, error);
  if (status || trn_config_get_kind(map) == TRN_CONFIG_NONE) return status;
  if (!out->store || !out->output)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: jobs: 'store' and 'output' go together",
                         trn_config_origin(map));
  if (strcmp(out->lost, "report") != 0 && strcmp(out->lost, "resubmit") != 0)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: jobs.lost is 'report' or 'resubmit', not '%s'",
                         trn_config_origin(trn_config_get(map, "lost")), out->lost);
  return TRN_OK;
}

static trn_status open_store(const char *where, trn_job_store **out, trn_error **error) {
  bool is_postgres = strncmp(where, "postgresql://", 13) == 0 || strncmp(where, "postgres://", 11) == 0;
  return is_postgres ? trn_postgres_job_store_open(where, out, error) : trn_sqlite_job_store_open(where, out, error);
}

static trn_status open_scheduler(const job_settings *s, trn_registry *registry, trn_backend *backend, job_keeping *out,
                                 trn_error **error) {
  const trn_scheduler_options options = {.struct_size = sizeof options,
                                         .store = out->store,
                                         .output_directory = s->output,
                                         .registry = registry,
                                         .name = "trunnion",
                                         .lease_ms = s->lease_ms,
                                         .jobs_running_max = (unsigned)s->running};
  return trn_scheduler_create(&options, backend, &out->scheduler, error);
}

/* ---- the key of tickets ---- */

static bool read_key(const char *path, uint8_t *key) {
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  bool is_read = file >= 0 && read(file, key, JOB_KEY_BYTES) == JOB_KEY_BYTES;
  if (file >= 0) close(file);
  return is_read;
}

static bool write_key(const char *path, const uint8_t *key) {
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  bool is_written = file >= 0 && write(file, key, JOB_KEY_BYTES) == JOB_KEY_BYTES && fsync(file) == 0;
  if (file >= 0) close(file);
  return is_written;
}

/* Whoever comes first makes it; it is there whole, or not at all. Process ids would not tell apart who makes one: each
 * container has its own. */
static trn_status find_key(const char *directory, uint8_t *key, trn_error **error) {
  char *path = NULL, *own = NULL;
  bool is_found = false;
  uint64_t name = 0;
  bool is_random = getrandom(&name, sizeof name, 0) == (ssize_t)sizeof name;
  errno = 0;
  if (asprintf(&path, "%s" KEY_NAME, directory) < 0) path = NULL;
  if (!is_random || asprintf(&own, "%s" KEY_NAME ".%016llx", directory, (unsigned long long)name) < 0) own = NULL;
  if (path && own && !(is_found = read_key(path, key)) && errno == ENOENT) {
    bool is_made = getrandom(key, JOB_KEY_BYTES, 0) == JOB_KEY_BYTES && write_key(own, key);
    if (is_made && link(own, path) != 0 && errno != EEXIST) is_made = false;
    unlink(own);
    if (is_made) errno = 0;
    is_found = is_made && read_key(path, key);
  }
  trn_status status = TRN_OK;
  if (!is_found)
    status = trn_error_set(error, TRN_PERMISSION_DENIED, NULL, "jobs.output: the key of tickets, %s: %s",
                           path ? path : directory, errno ? strerror(errno) : "it is no key");
  free(path);
  free(own);
  return status;
}

/* ---- serve ---- */

trn_status jobs_open(const trn_config *root, trn_registry *registry, trn_backend *backend, job_keeping *out,
                     trn_error **error) {
  job_settings s;
  *out = (job_keeping){0};
  trn_status status = read_settings(root, &s, error);
  if (status || !s.store) return status;
  status = open_store(s.store, &out->store, error);
  if (!status) status = open_scheduler(&s, registry, backend, out, error);
  if (!status) status = find_key(s.output, out->key, error);
  out->resubmits = strcmp(s.lost, "resubmit") == 0;
  out->keep_ms = s.keep_ms;
  out->lease_ms = s.lease_ms;
  const trn_registry_jobs jobs = {.struct_size = sizeof jobs,
                                  .scheduler = out->scheduler,
                                  .ticket_key = out->key,
                                  .ticket_key_size = sizeof out->key,
                                  .resubmits_lost = out->resubmits};
  if (!status) trn_registry_set_jobs(registry, &jobs);
  return status;
}

void jobs_close(job_keeping *jobs) {
  trn_scheduler_unref(jobs->scheduler);
  trn_job_store_unref(jobs->store);
  free(jobs->lost);
  explicit_bzero(jobs->key, sizeof jobs->key);
}

static int64_t wall_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

typedef struct id_list {
  char ids[TEND_JOBS_MAX][129];
  size_t count, seen;
  int64_t ended_before_ms; /* 0: any */
  char last[129];          /* that is none of them */
} id_list;

static bool collect(void *user, const trn_job_record *r) {
  id_list *list = user;
  list->seen++;
  int64_t since_ms = r->ended_ms ? r->ended_ms : r->submitted_ms;
  bool is_old = !list->ended_before_ms || since_ms < list->ended_before_ms;
  snprintf(is_old ? list->ids[list->count++] : list->last, sizeof list->last, "%s", r->id);
  return list->count < TEND_JOBS_MAX;
}

static bool list_lost(const job_keeping *jobs, id_list *list, int64_t until_ms) {
  const trn_job_filter filter = {
      .struct_size = sizeof filter, .states = 1u << TRN_JOB_LOST, .limit = TEND_JOBS_MAX, .until_ms = until_ms};
  list->count = list->seen = 0;
  list->ended_before_ms = 0;
  return trn_scheduler_list(jobs->scheduler, &filter, collect, list, NULL) == TRN_OK; /* else the next time */
}

/* Jobs that nobody runs run here. */
static void run_lost(const job_keeping *jobs, id_list *list) {
  const trn_recover_options resubmit = {.struct_size = sizeof resubmit, .resubmit = true};
  if (!list_lost(jobs, list, 0)) return;
  for (size_t i = 0; i < list->count; i++) {
    trn_job *job = NULL;
    (void)trn_scheduler_recover(jobs->scheduler, list->ids[i], &resubmit, &job, NULL);
    trn_job_unref(job);
  }
}

static void give_up(const job_keeping *jobs, const char *id) {
  trn_job *job = NULL;
  trn_job_status now = {.struct_size = sizeof now};
  if (trn_scheduler_job(jobs->scheduler, id, &job, NULL)) return;
  if (!trn_job_get_status(job, &now, NULL, NULL) && now.state == TRN_JOB_LOST) (void)trn_job_cancel(job, NULL);
  trn_job_unref(job);
}

/* Or they are given up once they are old, and were lost a lease ago, too: whoever was only slow has renewed its own. */
static void give_up_lost(job_keeping *jobs, int64_t now_ms, int64_t old_ms) {
  if (jobs->lost && now_ms - jobs->lost_ms <= (int64_t)jobs->lease_ms) return;
  id_list *list = malloc(sizeof *list);
  if (!list || !list_lost(jobs, list, old_ms)) {
    free(list);
    return;
  }
  for (size_t i = 0; jobs->lost && i < jobs->lost->count; i++)
    for (size_t k = 0; k < list->count; k++)
      if (strcmp(jobs->lost->ids[i], list->ids[k]) == 0) give_up(jobs, list->ids[k]);
  free(jobs->lost);
  jobs->lost = list;
  jobs->lost_ms = wall_ms();
}

static void tend_old(const job_keeping *jobs, id_list *list, int64_t old_ms) {
  trn_job_filter filter = {.struct_size = sizeof filter,
                           .states = 1u << TRN_JOB_SUCCEEDED | 1u << TRN_JOB_FAILED | 1u << TRN_JOB_CANCELLED,
                           .until_ms = old_ms,
                           .limit = TEND_JOBS_MAX};
  char after[sizeof list->last];
  do {
    list->count = list->seen = 0;
    list->ended_before_ms = old_ms;
    *list->last = 0;
    if (trn_scheduler_list(jobs->scheduler, &filter, collect, list, NULL)) return;
    bool are_gone = true;
    for (size_t i = 0; i < list->count; i++) {
      trn_status status = trn_scheduler_forget(jobs->scheduler, list->ids[i], NULL);
      if (status && status != TRN_NOT_FOUND) are_gone = false;
    }
    if (!are_gone) return; /* they would be listed again: the next time, then */
    /* What was forgotten is no place to go on from: the last one that is too young is. */
    if (*list->last) snprintf(after, sizeof after, "%s", list->last), filter.after_id = after;
  } while (list->seen == TEND_JOBS_MAX);
}

void jobs_tend(job_keeping *jobs) {
  int64_t now_ms = wall_ms(), old_ms = now_ms - (int64_t)jobs->keep_ms;
  if (!jobs->scheduler || now_ms - jobs->tended_ms < TEND_MS) return;
  id_list *list = malloc(sizeof *list);
  if (!list) return;
  if (jobs->resubmits)
    run_lost(jobs, list);
  else if (jobs->keep_ms)
    give_up_lost(jobs, now_ms, old_ms);
  if (jobs->keep_ms) tend_old(jobs, list, old_ms);
  jobs->tended_ms = now_ms;
  free(list);
}

/* ---- trunnion jobs ---- */

typedef struct job_command {
  const char *command, *id;
  const char *state, *user, *name, *limit, *to; /* flags of its own */
  trn_scheduler *scheduler;
} job_command;

static const struct job_flag {
  const char *flag, *argument, *help;
  size_t place;
} job_flags[] = {
    {"state", "NAME", "list: queued, running, succeeded, failed, cancelled or lost ones only",
     offsetof(job_command, state)},
    {"user", "NAME", "list: of this user only", offsetof(job_command, user)},
    {"name", "NAME", "list: with this name only", offsetof(job_command, name)},
    {"limit", "N", "list: the newest N (default: 100)", offsetof(job_command, limit)},
    {"to", "FILE", "output: into a file (default: the standard output)", offsetof(job_command, to)},
};
enum { JOB_FLAG_COUNT = sizeof job_flags / sizeof *job_flags };

void each_job_flag(void (*each)(FILE *out, const char *flag, const char *argument, const char *help), FILE *out) {
  for (size_t i = 0; i < JOB_FLAG_COUNT; i++) each(out, job_flags[i].flag, job_flags[i].argument, job_flags[i].help);
}

static void print_flag(FILE *out, const char *flag, const char *argument, const char *help) {
  fprintf(out, "  --%-13s%-10s %s\n", flag, argument, help);
}

static int print_jobs_usage(FILE *out) {
  fprintf(out,
          "usage: trunnion jobs list | status ID | cancel ID | output ID [options]\n\n"
          "Looks at the jobs that servers keep: 'list' them, newest first; 'status' says all about one; 'cancel' asks\n"
          "whoever runs it to end it; 'output' writes its rows as an Arrow IPC stream. Where they are is said as for\n"
          "'serve': --config FILE, or --jobs-store and --jobs-output.\n\n");
  each_job_flag(print_flag, out);
  return out == stdout ? 0 : 2;
}

/* A text of somebody else's, for a terminal. */
static void print_text(const char *text) {
  for (; *text; text++) putchar((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text);
}

static void print_time(const char *label, int64_t ms) {
  time_t seconds = (time_t)(ms / 1000);
  struct tm parts;
  char text[32] = "-";
  if (ms && gmtime_r(&seconds, &parts)) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  printf("%s%s", label, text);
}

static bool print_row(void *user, const trn_job_record *r) {
  (void)user;
  printf("%s\t%s\t", r->id, trn_job_state_name(r->state));
  print_time("", r->submitted_ms);
  printf("\t%lld\t", (long long)r->rows);
  print_text(r->user);
  putchar('\t');
  print_text(r->name);
  putchar('\n');
  return true;
}

static bool print_all(void *user, const trn_job_record *r) {
  (void)user;
  printf("id         %s\nstate      %s\nname       ", r->id, trn_job_state_name(r->state));
  print_text(r->name);
  printf("\nuser       ");
  print_text(r->user);
  printf("\nattempt    %llu\nowner      ", (unsigned long long)r->attempt);
  print_text(r->owner ? r->owner : "");
  print_time("\nsubmitted  ", r->submitted_ms);
  print_time("\nstarted    ", r->started_ms);
  print_time("\nended      ", r->ended_ms);
  printf("\nrows       %lld\nbytes      %lld\n", (long long)r->rows, (long long)r->bytes);
  if (r->stages)
    printf("stages     %u of %u\ntasks      %u of %u\n", r->stages_done, r->stages, r->tasks_done, r->tasks);
  if (r->is_cancelled) printf("cancelled  yes\n");
  if (r->is_released) printf("released   yes\n");
  if (r->state == TRN_JOB_FAILED) {
    printf("error      %s: ", trn_status_name(r->error_status));
    print_text(r->error_message ? r->error_message : "");
    putchar('\n');
  }
  for (size_t i = 0; i < r->location_count; i++) {
    printf("location   ");
    print_text(r->locations[i].uri);
    putchar('\n');
  }
  return true;
}

static trn_status list(const job_command *c, trn_error **error) {
  trn_job_filter filter = {.struct_size = sizeof filter, .user = c->user, .name = c->name};
  if (c->limit) filter.limit = strtoul(c->limit, NULL, 10);
  for (int state = TRN_JOB_QUEUED; c->state && state <= TRN_JOB_LOST; state++)
    if (strcmp(c->state, trn_job_state_name((trn_job_state)state)) == 0) filter.states = 1u << state;
  if (c->state && !filter.states)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "there is no state '%s'", c->state);
  return trn_scheduler_list(c->scheduler, &filter, print_row, NULL, error);
}

static trn_status cancel(trn_job *job, trn_error **error) {
  trn_job_status now = {.struct_size = sizeof now};
  trn_status status = trn_job_cancel(job, error);
  if (status) return status;
  status = trn_job_wait(job, CANCEL_WAIT_MS, &now, NULL, NULL);
  if (status == TRN_DEADLINE_EXCEEDED) status = trn_job_get_status(job, &now, NULL, error);
  if (!status)
    printf("%s\t%s%s\n", trn_job_id(job), trn_job_state_name(now.state),
           now.state > TRN_JOB_RUNNING ? "" : ", asked to end");
  return status;
}

/* ---- output ---- */

typedef struct piece_wait {
  pthread_mutex_t mu;
  pthread_cond_t changed;
  bool is_there;
  trn_status status;
  trn_error *error;
  trn_ipc_piece piece;
} piece_wait;

static void on_piece(void *user, trn_status status, const trn_error *error, trn_ipc_piece *piece) {
  piece_wait *w = user;
  pthread_mutex_lock(&w->mu);
  w->status = status;
  w->error = error ? trn_error_ref((trn_error *)error) : NULL;
  w->piece = piece && !status ? *piece : (trn_ipc_piece){0};
  w->is_there = true;
  pthread_cond_signal(&w->changed);
  pthread_mutex_unlock(&w->mu);
}

static trn_status next_piece(trn_stream *stream, piece_wait *w, trn_error **error) {
  w->is_there = false;
  trn_status status = trn_stream_next_ipc(stream, 0, on_piece, w, error);
  if (status) return status;
  pthread_mutex_lock(&w->mu);
  while (!w->is_there) pthread_cond_wait(&w->changed, &w->mu);
  pthread_mutex_unlock(&w->mu);
  if (w->status) *error = w->error;
  return w->status;
}

static trn_status copy_stream(trn_stream *stream, FILE *to, trn_error **error) {
  static const uint8_t end[8] = {0xff, 0xff, 0xff, 0xff};
  piece_wait w = {.mu = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
  trn_slice schema = {0};
  trn_status status = trn_stream_schema_ipc(stream, &schema, error);
  if (status) return status;
  bool is_written = fwrite(schema.data, 1, schema.size, to) == schema.size;
  while (is_written && !(status = next_piece(stream, &w, error)) && w.piece.release) {
    for (size_t i = 0; i < w.piece.slice_count; i++)
      is_written &= fwrite(w.piece.slices[i].data, 1, w.piece.slices[i].size, to) == w.piece.slices[i].size;
    w.piece.release(w.piece.owner);
  }
  if (!status && is_written) is_written = fwrite(end, 1, sizeof end, to) == sizeof end && fflush(to) == 0;
  if (!status && !is_written)
    status = trn_error_set(error, TRN_UNAVAILABLE, NULL, "the output cannot be written: %s", strerror(errno));
  return status;
}

static trn_status output(const job_command *c, trn_job *job, trn_error **error) {
  trn_stream *stream = NULL;
  if (!c->to && isatty(STDOUT_FILENO))
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "rows are no text for a terminal: --to FILE");
  trn_status status = trn_job_output(job, &stream, error);
  if (status) return status;
  FILE *to = c->to ? fopen(c->to, "wbx") : stdout; /* nothing is written over */
  if (!to) status = trn_error_set(error, TRN_PERMISSION_DENIED, NULL, "%s: %s", c->to, strerror(errno));
  if (!status) status = copy_stream(stream, to, error);
  trn_stream_unref(stream);
  if (to && c->to && fclose(to) != 0 && !status)
    status = trn_error_set(error, TRN_UNAVAILABLE, NULL, "%s: %s", c->to, strerror(errno));
  if (to && c->to && status) unlink(c->to); /* half of an output is none */
  return status;
}

/* ---- running it ---- */

static trn_status run(const job_command *c, trn_error **error) {
  trn_job *job = NULL;
  if (strcmp(c->command, "list") == 0) return list(c, error);
  trn_status status = trn_scheduler_job(c->scheduler, c->id, &job, error);
  if (status) return status;
  if (strcmp(c->command, "status") == 0)
    status = trn_job_read(job, print_all, NULL, error);
  else if (strcmp(c->command, "cancel") == 0)
    status = cancel(job, error);
  else
    status = output(c, job, error);
  trn_job_unref(job);
  return status;
}

static trn_status no_session(void *self, trn_session *session, void **state, trn_error **error) {
  (void)self, (void)session, (void)state;
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "this program runs no jobs");
}

static trn_status no_execute(void *self, void *state, const trn_execute_request *request, trn_operation **out,
                             trn_error **error) {
  (void)self, (void)state, (void)request, (void)out;
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "this program runs no jobs");
}

/* A scheduler that looks at jobs, and runs none. */
static trn_status with_scheduler(const trn_config *root, job_command *c, trn_error **error) {
  static const trn_backend_ops ops = {.struct_size = sizeof ops, .open_session = no_session, .execute = no_execute};
  trn_backend *backend = NULL;
  job_keeping jobs = {0};
  job_settings s;
  trn_status status = read_settings(root, &s, error);
  if (!status && !s.store)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                           "no jobs are kept: --jobs-store and --jobs-output, or 'jobs' in the file");
  if (!status) status = trn_backend_create(&ops, NULL, &backend);
  if (!status) status = open_store(s.store, &jobs.store, error);
  if (!status) status = open_scheduler(&s, NULL, backend, &jobs, error);
  c->scheduler = jobs.scheduler;
  if (!status) status = run(c, error);
  jobs_close(&jobs);
  trn_backend_unref(backend);
  return status;
}

/* Takes flags of its own out of the list. False: one has no value. */
static bool take_flags(int *argc, char **argv, job_command *c) {
  int kept = 1;
  for (int i = 1; i < *argc; i++) {
    size_t k = 0, size = 0;
    for (; k < JOB_FLAG_COUNT; k++) {
      size = strlen(job_flags[k].flag);
      if (strncmp(argv[i], "--", 2) == 0 && strncmp(argv[i] + 2, job_flags[k].flag, size) == 0 &&
          (!argv[i][2 + size] || argv[i][2 + size] == '='))
        break;
    }
    if (k == JOB_FLAG_COUNT) {
      argv[kept++] = argv[i];
      continue;
    }
    const char *value = argv[i][2 + size] ? argv[i] + 3 + size : i + 1 < *argc ? argv[++i] : NULL;
    if (!value) {
      fprintf(stderr, "trunnion jobs: --%s wants a value\n", job_flags[k].flag);
      return false;
    }
    memcpy((char *)c + job_flags[k].place, &value, sizeof value);
  }
  argv[kept] = NULL;
  *argc = kept;
  return true;
}

int jobs(int argc, char **argv) {
  static const char *const commands[] = {"list", "status", "cancel", "output"};
  job_command c = {.command = argc > 2 ? argv[2] : ""};
  size_t which = 0;
  if (!strcmp(c.command, "--help") || !strcmp(c.command, "-h")) return print_jobs_usage(stdout);
  while (which < 4 && strcmp(commands[which], c.command) != 0) which++;
  if (which == 4) return print_jobs_usage(stderr);
  int used = 3;
  if (which > 0) c.id = argc > used && argv[used][0] != '-' ? argv[used++] : NULL;
  if (which > 0 && !c.id) {
    fprintf(stderr, "trunnion jobs %s: which job? Its id is wanted\n", c.command);
    return 2;
  }
  int rest = argc - used + 1, result = 2;
  char **list = argv + used - 1; /* the first is not read */
  settings s = {0};
  trn_error *error = NULL;
  if (!take_flags(&rest, list, &c)) return 2;
  if (settings_read(rest, list, &s, &result)) {
    trn_status status = with_scheduler(s.root, &c, &error);
    result = status ? fail(status == TRN_INVALID_ARGUMENT ? 2 : 1, "jobs", status, error) : 0;
  }
  trn_config_destroy(s.root);
  return result;
}
