/* What layers read from their configuration: lists of patterns, who is meant; and paths in one form. */
#include "layer/layer.h"

#include <limits.h>

/* ---- texts ---- */

void trn__texts_finish(trn_texts *texts) {
  for (size_t i = 0; i < texts->count; i++) free(texts->items[i]);
  free(texts->items);
  *texts = (trn_texts){0};
}

trn_status trn__texts_read(const trn_config *map, const char *key, trn_texts *out, trn_error **error) {
  *out = (trn_texts){0};
  const trn_config *list = trn_config_get(map, key);
  trn_config_kind kind = trn_config_get_kind(list);
  if (kind == TRN_CONFIG_NONE) return TRN_OK;
  if (kind == TRN_CONFIG_MAP)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: '%s' must be a list of texts", trn_config_origin(list),
                         key);
  size_t count = kind == TRN_CONFIG_TEXT ? 1 : trn_config_count(list);
  out->items = calloc(count ? count : 1, sizeof *out->items);
  if (!out->items) return trn__no_memory(error);
  trn_status status = TRN_OK;
  while (status == TRN_OK && out->count < count) {
    const trn_config *item = kind == TRN_CONFIG_TEXT ? list : trn_config_at(list, out->count);
    const char *text = trn_config_value(item);
    if (!text) {
      status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: '%s' must be a list of texts",
                             trn_config_origin(item), key);
    } else if (!(out->items[out->count] = trn__text_copy(text))) {
      status = trn__no_memory(error);
    } else {
      out->count++;
    }
  }
  if (status) trn__texts_finish(out);
  return status;
}

bool trn__texts_match(const trn_texts *patterns, const char *text, bool ignore_case) {
  for (size_t i = 0; i < patterns->count; i++)
    if (trn_pattern_matches(patterns->items[i], text, ignore_case)) return true;
  return false;
}

/* ---- who ---- */

void trn__who_finish(trn_who *who) {
  trn__texts_finish(&who->users);
  trn__texts_finish(&who->groups);
  trn__texts_finish(&who->except_users);
  trn__texts_finish(&who->except_groups);
}

trn_status trn__who_read(const trn_config *map, trn_who *out, trn_error **error) {
  *out = (trn_who){0};
  trn_status status = trn__texts_read(map, "users", &out->users, error);
  if (status == TRN_OK) status = trn__texts_read(map, "groups", &out->groups, error);
  if (status == TRN_OK) status = trn__texts_read(map, "except_users", &out->except_users, error);
  if (status == TRN_OK) status = trn__texts_read(map, "except_groups", &out->except_groups, error);
  if (status) trn__who_finish(out);
  return status;
}

static bool in_group(const trn_texts *patterns, const trn_session *session) {
  const char *const *groups;
  size_t count = trn_session_groups(session, &groups);
  for (size_t i = 0; i < count; i++)
    if (trn__texts_match(patterns, groups[i], false)) return true;
  return false;
}

bool trn__who_matches(const trn_who *who, const trn_session *session) {
  const char *user = trn_session_user(session);
  if (trn__texts_match(&who->except_users, user, false) || in_group(&who->except_groups, session)) return false;
  if (!who->users.count && !who->groups.count) return true;
  return trn__texts_match(&who->users, user, false) || in_group(&who->groups, session);
}

/* ---- paths ---- */

/* Takes away "", "." and ".." between slashes, in place; `text` begins with a slash. */
static void clean(char *text) {
  char *to = text;
  for (const char *at = text; *at;) {
    while (*at == '/') at++;
    const char *end = at;
    while (*end && *end != '/') end++;
    size_t size = (size_t)(end - at);
    if (size == 2 && at[0] == '.' && at[1] == '.') {
      while (to > text && *--to != '/') continue;
    } else if (size && !(size == 1 && at[0] == '.')) {
      *to++ = '/';
      memmove(to, at, size);
      to += size;
    }
    at = end;
  }
  if (to == text) *to++ = '/';
  *to = 0;
}

static char *url_normal(const char *url, const char *after) {
  char *copy = trn__text_copy(url);
  if (!copy) return NULL;
  char *path = strchr(copy + (after - url), '/'); /* behind the host */
  for (char *c = copy; c < copy + (after - url); c++)
    if (*c >= 'A' && *c <= 'Z') *c = (char)(*c + 32); /* the scheme */
  if (path) clean(path);
  return copy;
}

/* The longest part that exists, links followed, then the rest. */
static char *follow(char *path) {
  char *rest = path + strlen(path);
  while (rest > path) {
    char saved = *rest;
    *rest = 0;
    char *real = realpath(path, NULL);
    *rest = saved;
    if (real) {
      trn_strbuf text = {0};
      trn__strbuf_puts(&text, strcmp(real, "/") == 0 && saved ? "" : real);
      trn__strbuf_puts(&text, rest);
      free(real);
      free(path);
      if (!text.failed) return text.data;
      trn__strbuf_finish(&text);
      return NULL;
    }
    while (rest > path && *--rest != '/') continue;
  }
  return path;
}

char *trn__path_normal(const char *path, bool follows) {
  if (strncmp(path, "file:", 5) == 0) {
    path += 5;
    if (strncmp(path, "//", 2) == 0 && path[2] == '/') path += 2;
  }
  size_t scheme = strspn(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-.");
  if (scheme && strncmp(path + scheme, "://", 3) == 0) return url_normal(path, path + scheme + 3);
  trn_strbuf text = {0};
  if (path[0] != '/') { /* as the process would take it */
    char *here = realpath(".", NULL);
    trn__strbuf_printf(&text, "%s/", here ? here : "");
    free(here);
  }
  trn__strbuf_puts(&text, path);
  if (text.failed || !text.data) {
    trn__strbuf_finish(&text);
    return NULL;
  }
  /* Links before "..": as the system walks them. */
  char *whole = follows ? realpath(text.data, NULL) : NULL;
  if (whole) {
    trn__strbuf_finish(&text);
    return whole;
  }
  clean(text.data);
  return follows ? follow(text.data) : text.data;
}
