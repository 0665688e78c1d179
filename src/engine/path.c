/* What text of a path the engine opens. Policies have judged the path as text (layer/config.c: trn__path_normal), so what is
 * opened is what the text says: a path is not a URL's, in which %2e is a dot, and a URL says no more than where it is. */
#include "engine/engine.h"
#include <string.h>

static trn_status refuse(const char *path, const char *why, trn_error **error) {
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "the path %s: %s", path, why);
}

static bool is_letter(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Readers of URLs skip blanks and control characters at the beginning, and tabs and line ends wherever they are. */
static bool is_skipped(unsigned char c, bool at_start) {
  return c == '\t' || c == '\n' || c == '\r' || (at_start && c > 0 && c <= ' ');
}

/* Whether a reader of URLs finds a scheme; *is_local: it is that of this machine's files. */
static bool has_scheme(const char *path, bool *is_local) {
  static const char file[] = "file";
  size_t size = 0;
  bool is_file = true;
  for (const char *p = path; *p; p++) {
    unsigned char c = (unsigned char)*p;
    if (is_skipped(c, size == 0)) continue;
    if (c == ':') return *is_local = is_file && size == sizeof file - 1, size > 0;
    if (!is_letter(c) && !(size && ((c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.'))) return false;
    is_file = is_file && size < sizeof file - 1 && (c | 32) == file[size];
    size++;
  }
  return false;
}

/* Four numbers below 256 as they are written: what else looks like numbers is read as another address than it says. */
static bool is_address(const char *host, size_t size) {
  unsigned labels = 0;
  for (size_t i = 0; i < size; labels++) {
    unsigned value = 0, digits = 0;
    for (; i < size && host[i] >= '0' && host[i] <= '9' && digits < 4; i++, digits++)
      value = value * 10 + (unsigned)(host[i] - '0');
    if (!digits || value > 255 || (digits > 1 && host[i - digits] == '0')) return false;
    if (i < size && (host[i++] != '.' || i == size)) return false;
  }
  return labels == 4;
}

/* A host whose text is its name. */
static bool is_host(const char *host, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (host[i] <= ' ' || host[i] >= 0x7f || host[i] == '@') return false;
  const char *port = host[0] == '[' ? NULL : memchr(host, ':', size);
  if (port) size = (size_t)(port - host);
  size_t last = size;
  while (last && host[last - 1] != '.') last--;
  if (last == size) return false; /* none, or one that ends with a dot */
  return host[last] < '0' || host[last] > '9' || is_address(host, size);
}

/* scheme://host/path, of characters that mean themselves. */
static bool is_plain_url(const char *path) {
  const char *p = path;
  while (is_letter((unsigned char)*p) || (p > path && *p && strchr("0123456789+-.", *p))) p++;
  if (p == path || strncmp(p, "://", 3) != 0) return false;
  p += 3;
  if (!is_host(p, strcspn(p, "/"))) return false;
  for (; *p; p++)
    if ((unsigned char)*p < ' ' || *p == 0x7f || strchr("%?#\\", *p) || (*p == ' ' && !p[1])) return false;
  return true;
}

trn_status trn__path_opened(const char *path, const char **out, trn_error **error) {
  bool is_local = false;
  *out = path;
  if (strncmp(path, "file:", 5) == 0) {
    *out = strncmp(path + 5, "//", 2) == 0 ? path + 7 : path + 5;
    if (**out == '/') return TRN_OK;
    return refuse(path, "behind file: only an absolute path of this machine, as in file:/directory/name", error);
  }
  if (path[0] == '/' || !has_scheme(path, &is_local)) return TRN_OK;
  if (is_local) return refuse(path, "a local file's begins with file: or with a slash", error);
  if (is_plain_url(path)) return TRN_OK;
  return refuse(path, "a URL is scheme://host/path, without user, escapes (%), query (?) and fragment (#)", error);
}
