/* Texts of the gRPC-over-HTTP/2 mapping: base64 of "-bin" values, percent-encoded messages, timeouts. */
#include <stdio.h>
#include <time.h>

#include "core/base64.h"
#include "h2.h"

bool trn__h2_base64_decode(const char *text, size_t size, uint8_t *out, size_t *out_size) {
  for (int i = 0; i < 2 && size && text[size - 1] == '=' && (size % 4 == 0 || i == 1); i++) size--;
  return trn__base64_decode(text, size, TRN_BASE64_PLAIN, out, out_size);
}

static bool needs_percent(unsigned char c) {
  return c < 0x20 || c > 0x7e || c == '%';
}

size_t trn__h2_percent_size(const char *text) {
  size_t size = 0;
  for (; *text; text++) size += needs_percent((unsigned char)*text) ? 3 : 1;
  return size;
}

void trn__h2_percent_encode(const char *text, char *out) {
  static const char digits[] = "0123456789ABCDEF";
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (!needs_percent(c)) {
      *out++ = (char)c;
    } else {
      *out++ = '%';
      *out++ = digits[c >> 4];
      *out++ = digits[c & 15];
    }
  }
}

static int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void trn__h2_percent_decode(const char *text, size_t size, char *out) {
  for (size_t i = 0; i < size; i++) {
    int high = text[i] == '%' && i + 2 < size ? hex_value(text[i + 1]) : -1;
    int low = high >= 0 ? hex_value(text[i + 2]) : -1;
    bool is_sequence = low >= 0 && (high || low); /* a NUL would cut the text */
    *out++ = is_sequence ? (char)(high << 4 | low) : text[i];
    if (is_sequence) i += 2;
  }
  *out = 0;
}

/* At most eight digits: the unit grows with the time. Never 0. */
void trn__h2_timeout_print(int64_t timeout_ns, char out[24]) {
  static const struct {
    int64_t ns;
    char unit;
  } units[] = {{1, 'n'}, {1000, 'u'}, {1000000, 'm'}, {1000000000, 'S'}, {60000000000, 'M'}, {3600000000000, 'H'}};
  int64_t value = timeout_ns < 1 ? 1 : timeout_ns;
  size_t i = 0;
  while (i + 1 < sizeof units / sizeof *units && value / units[i].ns > 99999999) i++;
  value = value / units[i].ns;
  snprintf(out, 24, "%lld%c", (long long)(value > 99999999 ? 99999999 : value), units[i].unit);
}

bool trn__h2_timeout_parse(const char *text, size_t size, int64_t *timeout_ns) {
  if (size < 2 || size > 9) return false; /* at most eight digits and the unit */
  int64_t value = 0;
  for (size_t i = 0; i + 1 < size; i++) {
    if (text[i] < '0' || text[i] > '9') return false;
    value = value * 10 + (text[i] - '0');
  }
  int64_t unit;
  switch (text[size - 1]) {
  case 'H': unit = 3600 * INT64_C(1000000000); break;
  case 'M': unit = 60 * INT64_C(1000000000); break;
  case 'S': unit = INT64_C(1000000000); break;
  case 'm': unit = 1000000; break;
  case 'u': unit = 1000; break;
  case 'n': unit = 1; break;
  default: return false;
  }
  *timeout_ns = value > INT64_MAX / 4 / unit ? INT64_MAX / 4 : value * unit;
  return true;
}

bool trn__h2_key_is_binary(const char *key, size_t size) {
  return size >= 4 && memcmp(key + size - 4, "-bin", 4) == 0;
}

/* Keys that are ours or HTTP/2's are not for the frontend to send. */
bool trn__h2_key_is_sendable(const char *key) {
  static const char *const ours[] = {"content-type",      "te",      "connection",       "keep-alive",
                                     "transfer-encoding", "upgrade", "proxy-connection", "content-length"};
  if (strcmp(key, "grpc-retry-pushback-ms") == 0) return true;
  if (!*key || strncmp(key, "grpc-", 5) == 0) return false;
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
    if (strcmp(key, ours[i]) == 0) return false;
  }
  for (; *key; key++) {
    bool ok = (*key >= 'a' && *key <= 'z') || (*key >= '0' && *key <= '9') || *key == '-' || *key == '_' || *key == '.';
    if (!ok) return false;
  }
  return true;
}

bool trn__h2_value_is_sendable(const void *value, size_t size) {
  const unsigned char *bytes = value;
  for (size_t i = 0; i < size; i++) {
    if (bytes[i] < 0x20 || bytes[i] > 0x7e) return false;
  }
  return true;
}

int64_t trn__h2_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
