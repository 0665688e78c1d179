/* The program `trunnion`: a server made from nothing but the public headers.
 *
 *   main.c     the subcommands        options.c  the table of settings: flags, environment, --help, man pages
 *   yaml.c     the file               settings.c file, environment and flags, one over the other
 *   serve.c    running; reloading     build.c    from settings to backend, layers, frontends     hash.c  hash-password
 *   cluster.c  Ballista on this machine      jobs.c   where jobs are kept; trunnion jobs
 * ... */
#ifndef TRUNNION_PROGRAM_H
#define TRUNNION_PROGRAM_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trunnion/catalog.h>
#include <trunnion/client.h>
#include <trunnion/decoder.h>
#include <trunnion/layer.h>
#include <trunnion/plugin.h>
#include <trunnion/registry.h>
#include <trunnion/scheduler.h>
#include <trunnion/server.h>
#include <trunnion/trunnion.h>

#define PROGRAM_FILE_BYTES_MAX (64u << 20) /* of a configuration file */
#define PROGRAM_LISTENERS_MAX 16

/* ---- options.c ---- */
typedef enum option_kind { OPTION_TEXT = 0, OPTION_SWITCH, OPTION_LIST, OPTION_MAP } option_kind;
typedef struct option_row {
  const char *key;      /* path in the configuration */
  const char *flag;     /* without "--"; NULL: none */
  const char *argument; /* what its value is */
  const char *initial;  /* default, for people; NULL: none */
  const char *help;
  option_kind kind;
} option_row;
extern const option_row program_options[];
extern const size_t program_option_count;
int print_usage(FILE *out); /* exit status */
void print_man_program(FILE *out);
void print_man_file(FILE *out);
/* Unknown keys in what is the program's own part of the tree. */
trn_status check_keys(const trn_config *root, trn_error **error);

/* ---- yaml.c ---- */
/* Reads a file into a tree of its own. INVALID_ARGUMENT says "file:line: ...". */
trn_status read_yaml(const char *path, trn_config **out, trn_error **error);

/* ---- settings.c ---- */
typedef struct settings {
  trn_config *root;
  bool only_checks;
  int argc; /* of serve: to be read again */
  char **argv;
} settings;
/* Flags over the environment over the file. Prints what is wrong; false: do not go on, exit with *result. */
bool settings_read(int argc, char **argv, settings *out, int *result);
/* The text of a key of a path of maps, or NULL. */
const char *setting(const trn_config *root, const char *path);

/* ---- jobs.c ---- */
#define JOB_KEY_BYTES 32
typedef struct job_keeping {
  trn_job_store *store;
  trn_scheduler *scheduler; /* NULL: no jobs are kept */
  bool resubmits;
  uint64_t keep_ms, lease_ms;
  int64_t tended_ms, lost_ms;
  struct id_list *lost; /* what was found lost at lost_ms; NULL: nothing was looked for */
  uint8_t key[JOB_KEY_BYTES];
} job_keeping;
/* As the settings say, for frontends that are made from the registry. jobs_close in any case. */
trn_status jobs_open(const trn_config *root, trn_registry *registry, trn_backend *backend, job_keeping *out,
                     trn_error **error);
void jobs_close(job_keeping *jobs);
/* Now and then: runs what others lost, forgets what is old. Blocks for the store. */
void jobs_tend(job_keeping *jobs);
int jobs(int argc, char **argv);
void each_job_flag(void (*each)(FILE *out, const char *flag, const char *argument, const char *help), FILE *out);

/* ---- build.c ---- */
typedef struct building {
  trn_registry *registry;
  trn_backend *backend; /* with its layers */
  trn_routes *routes;
  trn_authenticator *authenticator; /* NULL: none */
  job_keeping jobs;
  const char *backend_name;
  char *frontends; /* names, for people */
} building;
/* Makes everything but servers. building_finish in any case. */
trn_status build(const trn_config *root, building *out, trn_error **error);
void building_finish(building *b);
/* Reads users, tokens and keys again, and takes the policies of `root` (NULL: they stay). Goes on after a failure, and
 * gives the first. */
trn_status building_reload(building *b, const trn_config *root, trn_error **error);

/* ---- serve.c ---- */
int serve(const settings *s);

/* ---- hash.c ---- */
int hash_password(int argc, char **argv);
int hash_token(int argc, char **argv);
int new_token(int argc, char **argv);

/* ---- cluster.c: Ballista on this machine ---- */
extern const option_row cluster_options[];
extern const size_t cluster_option_count;
int cluster(int argc, char **argv);

/* Prints "trunnion: what: message", frees the error, gives `result`. */
int fail(int result, const char *what, trn_status status, trn_error *error);
#endif
