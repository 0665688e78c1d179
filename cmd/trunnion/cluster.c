/* trunnion cluster up | down | status: Ballista on this machine, to try and to test with. */
#include "cluster.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEAD_MS_MIN = 3000 };

typedef enum cluster_option {
  CLUSTER_EXECUTORS,
  CLUSTER_WORK_DIR,
  CLUSTER_VCORES,
  CLUSTER_MEMORY,
  CLUSTER_STOCK,
  CLUSTER_FUNCTIONS,
  CLUSTER_PROGRAM,
  CLUSTER_PORT,
  CLUSTER_LOG,
  CLUSTER_DEAD,
  CLUSTER_WAIT,
  CLUSTER_GRACE,
  CLUSTER_OPTION_COUNT
} cluster_option;

/* `keys` are the subcommands that take it. */
const option_row cluster_options[] = {
    [CLUSTER_EXECUTORS] = {"up", "executors", "N", "2", "executors", OPTION_TEXT},
    [CLUSTER_WORK_DIR] = {"up down status", "work-dir", "DIR", "trunnion-cluster-UID in TMPDIR or /tmp",
                          "where the cluster's state, logs and results are", OPTION_TEXT},
    [CLUSTER_VCORES] = {"up", "vcores", "N", "cores shared out", "partitions that an executor works on at once",
                        OPTION_TEXT},
    [CLUSTER_MEMORY] = {"up", "executor-memory", "SIZE", "70% of the machine's, shared out",
                        "memory for an executor's queries, e.g. 2GiB", OPTION_TEXT},
    [CLUSTER_STOCK] = {"up", "stock", NULL, "false", "without our functions, as Ballista's own programs run",
                       OPTION_SWITCH},
    [CLUSTER_FUNCTIONS] = {"up", "functions", "FILE", "beside the program", "libtrunnion_functions.so", OPTION_TEXT},
    [CLUSTER_PROGRAM] = {"up", "program", "FILE", "beside this program", "trunnion-ballista", OPTION_TEXT},
    [CLUSTER_PORT] = {"up", "port", "N", "any free one", "of the scheduler", OPTION_TEXT},
    [CLUSTER_LOG] = {"up", "log", "LEVEL", "WARN", "what is logged: ERROR, WARN, INFO or DEBUG", OPTION_TEXT},
    [CLUSTER_DEAD] = {"up", "executor-timeout", "TIME", "3m", "an executor without a sign of life is lost after",
                      OPTION_TEXT},
    [CLUSTER_WAIT] = {"up", "wait", "TIME", "60s", "how long a process may take to be ready", OPTION_TEXT},
    [CLUSTER_GRACE] = {"down", "grace", "TIME", "5s", "how long running tasks may go on", OPTION_TEXT},
};
const size_t cluster_option_count = CLUSTER_OPTION_COUNT;

typedef struct cluster_run {
  const char *values[CLUSTER_OPTION_COUNT];
  char directory[PATH_MAX - 64], program[PATH_MAX], functions[PATH_MAX]; /* functions: empty: not found */
  cluster_state state;
  int lock; /* -1: none */
  long executors, port;
  int64_t wait_ms, grace_ms, dead_ms;
} cluster_run;

/* ---- options ---- */

static int print_cluster_usage(FILE *out) {
  fprintf(out,
          "usage: trunnion cluster up | down | status [options]\n\n"
          "A Ballista scheduler and executors on loopback ports of this machine. 'up' starts them and waits until all\n"
          "are ready; 'down' ends exactly those; 'status' says what runs, with status 0 when all do.\n"
          "Serve it with: trunnion serve --backend ballista://HOST:PORT\n\n");
  for (size_t i = 0; i < cluster_option_count; i++) {
    const option_row *row = &cluster_options[i];
    fprintf(out, "  --%-16s%-6s %s: %s", row->flag, row->argument ? row->argument : "", row->key, row->help);
    fprintf(out, row->kind == OPTION_SWITCH ? "\n" : " (default: %s)\n", row->initial);
  }
  return out == stdout ? 0 : 2;
}

static bool complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool complain(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "trunnion: cluster: ");
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "; see trunnion cluster --help\n");
  va_end(arguments);
  return false;
}

/* "--name value", "--name=value". */
static bool read_arguments(const char *command, int argc, char **argv, cluster_run *run) {
  for (int i = 0; i < argc; i++) {
    const char *name = strncmp(argv[i], "--", 2) == 0 ? argv[i] + 2 : "";
    size_t size = strcspn(name, "="), at = 0;
    while (at < CLUSTER_OPTION_COUNT &&
           (strlen(cluster_options[at].flag) != size || strncmp(cluster_options[at].flag, name, size) != 0))
      at++;
    if (!size || at == CLUSTER_OPTION_COUNT || !strstr(cluster_options[at].key, command))
      return complain("'%s' is no option of %s", argv[i], command);
    bool is_switch = cluster_options[at].kind == OPTION_SWITCH;
    if (name[size] == '=' && is_switch) return complain("--%s has no value", cluster_options[at].flag);
    run->values[at] = is_switch ? "true" : name[size] == '=' ? name + size + 1 : ++i < argc ? argv[i] : NULL;
    if (!run->values[at]) return complain("--%s wants a value", cluster_options[at].flag);
  }
  return true;
}

static bool read_number(const cluster_run *run, cluster_option option, long initial, long least, long most, long *out) {
  const char *text = run->values[option];
  char *end = NULL;
  *out = initial;
  if (!text) return true;
  errno = 0;
  *out = strtol(text, &end, 10);
  if (*text && !*end && !errno && *out >= least && *out <= most) return true;
  return complain("--%s: '%s' is no number from %ld to %ld", cluster_options[option].flag, text, least, most);
}

/* Times as everywhere: through the settings' own reader. */
static bool read_time(const cluster_run *run, cluster_option option, int64_t initial_ms, int64_t *out) {
  const char *text = run->values[option], *name = cluster_options[option].flag;
  trn_error *error = NULL;
  uint64_t ms = (uint64_t)initial_ms;
  *out = initial_ms;
  if (!text) return true;
  trn_config *root = trn_config_create();
  trn_status status = root ? trn_config_set_from(root, name, text, "the command line", &error) : TRN_RESOURCE_EXHAUSTED;
  if (!status) status = trn_config_duration(root, name, &ms, &error);
  trn_config_destroy(root);
  if (!status && ms > INT_MAX) status = TRN_OUT_OF_RANGE;
  *out = (int64_t)ms;
  if (status) fail(2, name, status, error);
  return !status;
}

static bool read_directory(cluster_run *run) {
  const char *asked = run->values[CLUSTER_WORK_DIR], *base = getenv("TMPDIR");
  char text[PATH_MAX];
  if (asked && *asked)
    snprintf(text, sizeof text, "%s", asked);
  else
    snprintf(text, sizeof text, "%s/trunnion-cluster-%u", base && *base ? base : "/tmp", (unsigned)getuid());
  if (mkdir(text, 0700) != 0 && errno != EEXIST) return complain("--work-dir %s: %s", text, strerror(errno));
  char *real = realpath(text, NULL);
  struct stat info;
  bool ok = real && stat(real, &info) == 0 && S_ISDIR(info.st_mode) && strlen(real) < sizeof run->directory;
  /* In a directory that everybody can write to, somebody else may have made it. */
  bool is_mine = ok && info.st_uid == getuid() && !(info.st_mode & (S_IWGRP | S_IWOTH));
  if (ok) snprintf(run->directory, sizeof run->directory, "%s", real);
  free(real);
  if (!ok) return complain("--work-dir %s: no directory that can be used", text);
  return is_mine || complain("--work-dir %s belongs to somebody else, or others can write to it", text);
}

/* ---- up ---- */

/* The arguments of a process: a list that ends with NULL; texts live in `texts`. */
typedef struct cluster_arguments {
  char *items[40];
  size_t count;
  char texts[16][PATH_MAX + 16];
  size_t text_count;
} cluster_arguments;

static void add(cluster_arguments *a, const char *flag, const char *value) {
  const char *both[] = {flag, value};
  for (size_t i = 0; i < 2; i++)
    if (both[i] && a->count + 1 < sizeof a->items / sizeof *a->items) a->items[a->count++] = (char *)both[i];
}

static void add_text(cluster_arguments *a, const char *flag, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void add_text(cluster_arguments *a, const char *flag, const char *format, ...) {
  va_list arguments;
  if (a->text_count == sizeof a->texts / sizeof *a->texts) return;
  char *text = a->texts[a->text_count++];
  va_start(arguments, format);
  vsnprintf(text, sizeof *a->texts, format, arguments);
  va_end(arguments);
  add(a, flag, text);
}

static void add_common(cluster_arguments *a, const cluster_run *run, const char *command) {
  const char *log = run->values[CLUSTER_LOG];
  add(a, run->program, command);
  add(a, "--bind-host", "127.0.0.1");
  add(a, "--external-host", "127.0.0.1");
  add(a, "--log-level-setting", log ? log : "WARN");
  if (run->values[CLUSTER_STOCK]) add(a, "--stock", NULL);
  if (run->values[CLUSTER_FUNCTIONS])
    add(a, "--functions", run->values[CLUSTER_FUNCTIONS]);
  else if (!run->values[CLUSTER_STOCK] && *run->functions)
    add(a, "--functions", run->functions);
}

/* Known to `down` before anything can go wrong with it. */
static trn_status start_one(cluster_run *run, const char *name, cluster_arguments *a, trn_error **error) {
  cluster_process *p = &run->state.processes[run->state.count];
  char log[PATH_MAX];
  int ready_fd = -1;
  snprintf(p->name, sizeof p->name, "%s", name);
  snprintf(log, sizeof log, "%s/%s.log", run->directory, name);
  trn_status status = cluster_start(a->items, log, p, &ready_fd, error);
  if (status) return status;
  run->state.count++;
  status = cluster_write_state(run->directory, &run->state, error);
  if (status) {
    close(ready_fd);
    return status;
  }
  return cluster_wait_ready(p, ready_fd, (int)run->wait_ms, log, error);
}

static long dead_seconds(const cluster_run *run) {
  return (long)((run->dead_ms + 999) / 1000);
}

static trn_status start_scheduler(cluster_run *run, trn_error **error) {
  cluster_arguments a = {0};
  add_common(&a, run, "scheduler");
  add_text(&a, "--bind-port", "%ld", run->port);
  add_text(&a, "--executor-timeout-seconds", "%ld", dead_seconds(run));
  add_text(&a, "--no-executors-grace-period-seconds", "%ld", dead_seconds(run));
  add_text(&a, "--expire-dead-executor-interval-seconds", "%ld", dead_seconds(run) < 60 ? (dead_seconds(run) + 3) / 4 : 15);
  return start_one(run, "scheduler", &a, error);
}

static trn_status start_executor(cluster_run *run, long number, long vcores, trn_error **error) {
  cluster_arguments a = {0};
  char name[32];
  const char *address = run->state.processes[0].address, *port = strrchr(address, ':');
  snprintf(name, sizeof name, "executor-%ld", number);
  add_common(&a, run, "executor");
  add(&a, "--scheduler-host", "127.0.0.1");
  add(&a, "--scheduler-port", port ? port + 1 : "");
  add(&a, "--scheduler-connect-timeout-seconds", "20");
  add(&a, "--bind-port", "0");
  add(&a, "--bind-grpc-port", "0");
  add(&a, "--bind-health-port", "0");
  add_text(&a, "--vcores", "%ld", vcores);
  add_text(&a, "--executor-heartbeat-interval-seconds", "%ld", (dead_seconds(run) + 2) / 3);
  if (run->values[CLUSTER_MEMORY])
    add(&a, "--memory-pool-size", run->values[CLUSTER_MEMORY]);
  else
    add_text(&a, "--memory-pool-fraction", "%.4f", 0.7 / (double)run->executors);
  add_text(&a, "--work-dir", "%s/%s", run->directory, name);
  if (mkdir(a.texts[a.text_count - 1], 0700) != 0 && errno != EEXIST)
    return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "%s: %s", a.texts[a.text_count - 1], strerror(errno));
  return start_one(run, name, &a, error);
}

static void remove_results(const cluster_run *run) {
  char path[PATH_MAX];
  for (size_t i = 1; i < run->state.count; i++) {
    snprintf(path, sizeof path, "%s/%s", run->directory, run->state.processes[i].name);
    cluster_remove_directory(path);
  }
}

/* Ends what the state names, executors first: they tell the scheduler that they go. */
static trn_status end_all(cluster_run *run, trn_error **error) {
  bool all = run->state.count < 2 || cluster_end(run->state.processes + 1, run->state.count - 1, (int)run->grace_ms);
  all = cluster_end(run->state.processes, run->state.count ? 1 : 0, (int)run->grace_ms) && all;
  if (!all)
    return trn_error_set(error, TRN_ABORTED, NULL,
                         "some processes of the cluster in %s are still there; see 'trunnion cluster status'",
                         run->directory);
  remove_results(run);
  return cluster_remove_state(run->directory, error);
}

static trn_status start_all(cluster_run *run, trn_error **error) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN), vcores;
  long share = cores / run->executors > 1 ? cores / run->executors : 1;
  if (!read_number(run, CLUSTER_VCORES, share, 1, 1024, &vcores)) return TRN_INVALID_ARGUMENT;
  trn_status status = start_scheduler(run, error);
  for (long i = 1; i <= run->executors && !status; i++) status = start_executor(run, i, vcores, error);
  if (!status) status = cluster_write_state(run->directory, &run->state, error);
  return status;
}

static trn_status check_free(cluster_run *run, trn_error **error) {
  trn_status status = cluster_read_state(run->directory, &run->state, error);
  for (size_t i = 0; i < run->state.count && !status; i++)
    if (cluster_runs(&run->state.processes[i]))
      status = trn_error_set(error, TRN_ALREADY_EXISTS, NULL,
                             "a cluster runs in %s: end it with 'trunnion cluster down', or take another --work-dir",
                             run->directory);
  if (!status) remove_results(run); /* of one that ended otherwise */
  if (!status) run->state = (cluster_state){.is_stock = run->values[CLUSTER_STOCK] != NULL};
  return status;
}

static void print_processes(const cluster_run *run) {
  for (size_t i = 0; i < run->state.count; i++) {
    const cluster_process *p = &run->state.processes[i];
    printf("%-12s %-22s pid %d%s\n", p->name, p->address, (int)p->pid, cluster_runs(p) ? "" : ", gone");
  }
}

static int up(cluster_run *run) {
  trn_error *error = NULL;
  if (!read_number(run, CLUSTER_EXECUTORS, 2, 1, CLUSTER_EXECUTORS_MAX, &run->executors) ||
      !read_number(run, CLUSTER_PORT, 0, 0, 65535, &run->port) || !read_time(run, CLUSTER_WAIT, 60000, &run->wait_ms) ||
      !read_time(run, CLUSTER_DEAD, 180000, &run->dead_ms))
    return 2;
  if (run->dead_ms < DEAD_MS_MIN) {
    complain("--executor-timeout: at least %d s: executors say that they live once a second at best", DEAD_MS_MIN / 1000);
    return 2;
  }
  if (!cluster_find_program(run->values[CLUSTER_PROGRAM], run->program, sizeof run->program))
    return fail(1, "cluster", TRN_NOT_FOUND,
                trn_error_create(&(trn_error_spec){
                    .struct_size = sizeof(trn_error_spec), .status = TRN_NOT_FOUND, .message = run->program}));
  if (!cluster_find_functions(run->functions, sizeof run->functions)) *run->functions = 0;
  trn_status status = check_free(run, &error);
  if (status) return fail(1, "cluster", status, error);
  status = start_all(run, &error);
  if (status) {
    end_all(run, NULL);
    return status == TRN_INVALID_ARGUMENT && !error ? 2 : fail(1, "cluster", status, error);
  }
  print_processes(run);
  printf("ready: ballista://%s\n", run->state.processes[0].address);
  return 0;
}

/* ---- down, status ---- */

static int down(cluster_run *run) {
  trn_error *error = NULL;
  if (!read_time(run, CLUSTER_GRACE, 5000, &run->grace_ms)) return 2;
  trn_status status = cluster_read_state(run->directory, &run->state, &error);
  if (!status && !run->state.count) {
    printf("no cluster runs in %s\n", run->directory);
    return 0;
  }
  size_t count = 0;
  for (size_t i = 0; i < run->state.count; i++) count += cluster_runs(&run->state.processes[i]);
  if (!status) status = end_all(run, &error);
  if (status) return fail(1, "cluster", status, error);
  printf("%zu processes ended\n", count);
  return 0;
}

static int show(cluster_run *run) {
  trn_error *error = NULL;
  trn_status status = cluster_read_state(run->directory, &run->state, &error);
  if (status) return fail(1, "cluster", status, error);
  bool all = run->state.count > 0;
  for (size_t i = 0; i < run->state.count; i++) all = all && cluster_runs(&run->state.processes[i]);
  print_processes(run);
  if (!run->state.count)
    printf("no cluster runs in %s\n", run->directory);
  else
    printf("%s: ballista://%s%s\n", all ? "ready" : "not all run", run->state.processes[0].address,
           run->state.is_stock ? ", stock" : "");
  return all ? 0 : 1;
}

int cluster(int argc, char **argv) {
  static const struct {
    const char *name;
    int (*run)(cluster_run *run);
  } commands[] = {{"up", up}, {"down", down}, {"status", show}};
  const char *command = argc > 2 ? argv[2] : "";
  cluster_run run = {.lock = -1, .grace_ms = 5000};
  trn_error *error = NULL;
  int result = 2;
  if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0) return print_cluster_usage(stdout);
  for (int i = 3; i < argc; i++)
    if (strcmp(argv[i], "--help") == 0) return print_cluster_usage(stdout);
  size_t at = 0;
  while (at < 3 && strcmp(command, commands[at].name) != 0) at++;
  if (at == 3) {
    if (*command) fprintf(stderr, "trunnion: cluster has no command '%s'\n", command);
    return print_cluster_usage(stderr);
  }
  if (!read_arguments(command, argc - 3, argv + 3, &run) || !read_directory(&run)) return 2;
  run.lock = cluster_lock(run.directory, &error);
  result = run.lock < 0 ? fail(1, "cluster", TRN_ABORTED, error) : commands[at].run(&run);
  if (run.lock >= 0) close(run.lock);
  return result;
}
