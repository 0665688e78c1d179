/* Files of users and tokens: user:hash[:group,group] a line. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth.h"

trn_status trn__auth_read_file(const char *path, char **out, size_t *size, trn_error **error) {
  trn_status status = TRN_OK;
  struct stat about;
  char *text = NULL, reason[128];
  size_t have = 0;
  *out = NULL;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 || fstat(fd, &about) != 0) {
    status = errno == ENOENT ? TRN_NOT_FOUND : TRN_INVALID_ARGUMENT;
    trn_error_set(error, status, NULL, "cannot read %s: %s", path, strerror_r(errno, reason, sizeof reason));
  } else if (!S_ISREG(about.st_mode) || about.st_size > TRN_AUTH_FILE_BYTES_MAX) {
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s is no file of up to %u bytes", path,
                           TRN_AUTH_FILE_BYTES_MAX);
  } else if (!(text = malloc((size_t)about.st_size + 1))) {
    status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "no memory for %s", path);
  }
  while (!status && have < (size_t)about.st_size) {
    ssize_t got = read(fd, text + have, (size_t)about.st_size - have);
    if (got == 0) break;
    if (got > 0) have += (size_t)got;
    if (got < 0 && errno != EINTR)
      status = trn_error_set(error, TRN_UNAVAILABLE, NULL, "cannot read %s: %s", path,
                             strerror_r(errno, reason, sizeof reason));
  }
  if (fd >= 0) close(fd);
  if (!status && memchr(text, 0, have))
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s is no text", path);
  if (status) {
    free(text);
    return status;
  }
  text[have] = 0;
  *out = text;
  *size = have;
  return TRN_OK;
}

static trn_status bad_line(const char *path, size_t line, const char *what, trn_error **error) {
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s:%zu: %s", path, line, what);
}

static size_t count_char(const char *text, char c) {
  size_t count = 0;
  for (; *text; text++) count += *text == c;
  return count;
}

/* Cuts "a,b" in place. */
static trn_status parse_groups(char *text, const char **groups, size_t *count) {
  *count = 0;
  for (char *save = NULL, *group = strtok_r(text, ", \t", &save); group; group = strtok_r(NULL, ", \t", &save)) {
    if (*count >= TRN_AUTH_GROUPS_MAX) return TRN_RESOURCE_EXHAUSTED;
    groups[(*count)++] = group;
  }
  return TRN_OK;
}

static trn_status parse_line(const char *path, size_t number, char *line, bool tokens, auth_user *user,
                             const char **groups, size_t *group_count, trn_error **error) {
  char *hash = strchr(line, ':');
  if (!hash || hash == line) return bad_line(path, number, "this is not user:hash[:groups]", error);
  *hash++ = 0;
  char *list = strchr(hash, ':');
  if (list) *list++ = 0;
  user->name = line;
  user->hash = *hash ? hash : NULL;
  /* A hash is not shown: it may be a password that somebody forgot to hash. */
  if (tokens && !(user->hash && trn__auth_token_digest(hash, user->digest)))
    return bad_line(path, number, "the token is not hashed: 'trunnion hash-token' makes sha256$...", error);
  if (!tokens && user->hash && !trn__auth_hash_is_known(hash))
    return bad_line(path, number, "the password is not hashed: 'trunnion hash-password' makes $scrypt$...", error);
  user->groups = groups;
  if (list && parse_groups(list, groups, group_count)) return bad_line(path, number, "too many groups", error);
  user->group_count = *group_count;
  return TRN_OK;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const auth_user *)a)->name, ((const auth_user *)b)->name);
}

trn_status trn__auth_users_read(const char *path, bool tokens, auth_users *out, trn_error **error) {
  auth_users users = {0};
  size_t size = 0, number = 0, group_used = 0;
  trn_status status = trn__auth_read_file(path, &users.text, &size, error);
  if (status) return status;
  size_t lines = count_char(users.text, '\n') + 1,
         commas = count_char(users.text, ',') + count_char(users.text, ' ') + count_char(users.text, '\t');
  users.users = calloc(lines, sizeof *users.users);
  users.groups = calloc(lines + commas, sizeof *users.groups);
  if (!users.users || !users.groups) {
    status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "no memory for %s", path);
  }
  for (char *line = users.text, *next; !status && line; line = next) {
    number++;
    next = strchr(line, '\n');
    if (next) *next++ = 0;
    size_t length = strlen(line);
    while (length && (line[length - 1] == '\r' || line[length - 1] == ' ')) line[--length] = 0;
    if (!length || *line == '#') continue;
    if (users.count >= (tokens ? TRN_AUTH_TOKENS_MAX : TRN_AUTH_ENTRIES_MAX)) {
      status = bad_line(path, number, "too many entries", error);
      break;
    }
    size_t groups = 0;
    status =
        parse_line(path, number, line, tokens, &users.users[users.count], users.groups + group_used, &groups, error);
    group_used += groups;
    users.count++;
  }
  if (!status && !tokens) {
    qsort(users.users, users.count, sizeof *users.users, by_name);
    for (size_t i = 1; i < users.count && !status; i++)
      if (by_name(&users.users[i - 1], &users.users[i]) == 0)
        status =
            trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: user '%s' is there twice", path, users.users[i].name);
  }
  if (status) {
    trn__auth_users_finish(&users);
  } else {
    *out = users;
  }
  return status;
}

void trn__auth_users_finish(auth_users *users) {
  if (users->text) OPENSSL_cleanse(users->text, strlen(users->text));
  free(users->text);
  free(users->users);
  free(users->groups);
  *users = (auth_users){0};
}

const auth_user *trn__auth_user_find(const auth_users *users, const char *name) {
  const auth_user key = {.name = name};
  return users->count ? bsearch(&key, users->users, users->count, sizeof key, by_name) : NULL;
}

const auth_user *trn__auth_token_find(const auth_users *users, const char *token, size_t size) {
  uint8_t digest[32];
  return trn__auth_sha256(token, size, digest) ? trn__auth_token_by_digest(users, digest) : NULL;
}

const auth_user *trn__auth_token_by_digest(const auth_users *users, const uint8_t digest[32]) {
  const auth_user *found = NULL;
  for (size_t i = 0; i < users->count; i++) /* all of them, found or not */
    if (CRYPTO_memcmp(users->users[i].digest, digest, 32) == 0) found = &users->users[i];
  return found;
}
