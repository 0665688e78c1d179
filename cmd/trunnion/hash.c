/* Lines for files of users and tokens. A secret comes from the terminal, without being shown, or from the standard
 * input: never from the command line, which others can see. */
#include <termios.h>
#include <unistd.h>

#include "program.h"

static bool read_secret(const char *prompt, char *out, size_t size) {
  struct termios before, silent;
  bool is_terminal = tcgetattr(STDIN_FILENO, &before) == 0;
  if (is_terminal) {
    silent = before;
    silent.c_lflag &= ~(tcflag_t)ECHO;
    fprintf(stderr, "%s: ", prompt);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
  }
  bool ok = fgets(out, (int)size, stdin) != NULL;
  if (is_terminal) {
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    putc('\n', stderr);
  }
  if (!ok) return false;
  out[strcspn(out, "\r\n")] = 0;
  return *out != 0;
}

static int print_line(const char *user, const char *hash, trn_status status) {
  if (status) return fail(1, "hash", status, NULL);
  printf("%s%s%s\n", user ? user : "", user ? ":" : "", hash);
  return 0;
}

/* The optional argument; false: it is none. */
static bool user_of(int argc, char **argv, const char **user) {
  *user = argc > 2 ? argv[2] : NULL;
  if (argc <= 3 && !(*user && (strchr(*user, ':') || **user == '-' || **user == '#'))) return true;
  fprintf(stderr, "usage: trunnion %s [USER]; a user has no ':'\n", argv[1]);
  return false;
}

static int hash_with(int argc, char **argv, const char *prompt, trn_status (*make)(const char *secret, char **out)) {
  char secret[4096];
  char *hash = NULL;
  const char *user;
  if (!user_of(argc, argv, &user)) return 2;
  if (!read_secret(prompt, secret, sizeof secret)) {
    fprintf(stderr, "trunnion: the standard input is empty\n");
    return 2;
  }
  trn_status status = make(secret, &hash);
  explicit_bzero(secret, sizeof secret);
  int result = print_line(user, hash, status);
  trn_free(hash);
  return result;
}

int hash_password(int argc, char **argv) {
  return hash_with(argc, argv, "Password", trn_auth_hash_password);
}

int hash_token(int argc, char **argv) {
  return hash_with(argc, argv, "Token", trn_auth_hash_token);
}

int new_token(int argc, char **argv) {
  char *token = NULL, *hash = NULL;
  const char *user;
  if (!user_of(argc, argv, &user)) return 2;
  trn_status status = trn_auth_new_token(&token);
  if (!status) status = trn_auth_hash_token(token, &hash);
  if (!status) {
    fprintf(stderr, "token: %s\n", token);
    explicit_bzero(token, strlen(token));
  }
  int result = print_line(user, hash, status);
  trn_free(token);
  trn_free(hash);
  return result;
}
