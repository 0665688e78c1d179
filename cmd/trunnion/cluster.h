/* trunnion cluster: a Ballista scheduler and executors on this machine, as processes of their own that outlive the
 * command.
 *
 *   cluster.c          the subcommands, and their options       cluster_process.c  starting and ending one process
 *   cluster_state.c    the file that says what runs */
#ifndef TRUNNION_CLUSTER_H
#define TRUNNION_CLUSTER_H
#include <limits.h>
#include <sys/types.h>

#include "program.h"

#define CLUSTER_EXECUTORS_MAX 64
#define CLUSTER_ADDRESS_BYTES 280 /* host:port */
#define CLUSTER_LINE_BYTES 1024   /* of what a process says when it is ready, and of the state file */

/* A process, which its start time tells from a later one with the same id. */
typedef struct cluster_process {
  pid_t pid;
  unsigned long long started; /* in ticks since the machine was started */
  char name[32];              /* "scheduler", "executor-1" */
  char address[CLUSTER_ADDRESS_BYTES];
} cluster_process;

typedef struct cluster_state {
  cluster_process processes[CLUSTER_EXECUTORS_MAX + 1]; /* the scheduler first */
  size_t count;
  bool is_stock;
} cluster_state;

/* ---- cluster_process.c ---- */
/* The program trunnion-ballista: `asked`, or that beside this one, or the installed one. False: `out` says where it was
 * looked for. */
bool cluster_find_program(const char *asked, char *out, size_t size);
/* The function library beside this program; false: the other program looks for it itself. */
bool cluster_find_functions(char *out, size_t size);
/* Starts argv[0] with standard output into *ready_fd and standard error into the file `log`. Sets pid and started. */
trn_status cluster_start(char *const *argv, const char *log, cluster_process *out, int *ready_fd, trn_error **error);
/* Reads the line "... ready on ADDRESS" within the time, and closes the descriptor. */
trn_status cluster_wait_ready(cluster_process *p, int ready_fd, int timeout_ms, const char *log, trn_error **error);
bool cluster_runs(const cluster_process *p);
/* SIGTERM, and SIGKILL to those that are still there after the time. True: all are gone. */
bool cluster_end(const cluster_process *processes, size_t count, int grace_ms);

/* ---- cluster_state.c ---- */
/* Not there: no processes. */
trn_status cluster_read_state(const char *directory, cluster_state *out, trn_error **error);
/* Whole or not at all. */
trn_status cluster_write_state(const char *directory, const cluster_state *state, trn_error **error);
trn_status cluster_remove_state(const char *directory, trn_error **error);
/* One command at a time works on a directory: a descriptor that holds the lock, or -1. */
int cluster_lock(const char *directory, trn_error **error);
/* Removes a directory that we made, with what is in it; follows no links. */
void cluster_remove_directory(const char *path);
#endif
