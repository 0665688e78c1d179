/* The subcommands. */
#include "program.h"

int fail(int result, const char *what, trn_status status, trn_error *error) {
  const char *message = error ? trn_error_message(error) : "";
  fprintf(stderr, "trunnion: %s: %s\n", what, *message ? message : trn_status_name(status));
  trn_error_unref(error);
  return result;
}

static int run_serve(int argc, char **argv) {
  settings s = {0};
  int result = 2;
  if (settings_read(argc - 1, argv + 1, &s, &result)) result = serve(&s);
  trn_config_destroy(s.root);
  return result;
}

static int run_man(int argc, char **argv) {
  if (argc > 2 && strcmp(argv[2], "5") == 0)
    print_man_file(stdout);
  else
    print_man_program(stdout);
  return 0;
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
  } commands[] = {{"serve", run_serve},
                  {"hash-password", hash_password},
                  {"hash-token", hash_token},
                  {"new-token", new_token},
                  {"cluster", cluster},
                  {"jobs", jobs},
                  {"--man", run_man}};
  const char *command = argc > 1 ? argv[1] : "";
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (strcmp(command, commands[i].name) == 0) return commands[i].run(argc, argv);
  if (strcmp(command, "--version") == 0) {
    printf("trunnion %s\n", trn_version());
    return 0;
  }
  if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0) return print_usage(stdout);
  if (*command) fprintf(stderr, "trunnion: there is no command '%s'\n", command);
  return print_usage(stderr);
}
