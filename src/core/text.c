/* Small things about texts. */
#include "core/core.h"

#include <stdlib.h>

char *trn__text_copy(const char *text) {
  if (!text) return NULL;
  size_t size = strlen(text) + 1;
  char *copy = malloc(size);
  return copy ? memcpy(copy, text, size) : NULL;
}

size_t trn__edit_distance(const char *a, const char *b) {
  size_t n = strlen(a), m = strlen(b), row[TRN_EDIT_DISTANCE_BYTES_MAX + 1];
  if (n > TRN_EDIT_DISTANCE_BYTES_MAX || m > TRN_EDIT_DISTANCE_BYTES_MAX) return n > m ? n : m;
  for (size_t j = 0; j <= m; j++) row[j] = j;
  for (size_t i = 1; i <= n; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= m; j++) {
      size_t best = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      row[j] = best;
    }
  }
  return row[m];
}

/* Length of the sequence that starts at `at`, 0 when it is invalid: overlong, a surrogate, over U+10FFFF, cut off. */
static size_t utf8_sequence(const uint8_t *at, size_t size) {
  uint8_t c = at[0];
  size_t need = c < 0x80 ? 1 : c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xF0 && c < 0xF5 ? 4 : 0;
  if (!need || need > size) return 0;
  for (size_t i = 1; i < need; i++)
    if ((at[i] & 0xC0) != 0x80) return 0;
  if ((c == 0xE0 && at[1] < 0xA0) || (c == 0xED && at[1] > 0x9F) || (c == 0xF0 && at[1] < 0x90) ||
      (c == 0xF4 && at[1] > 0x8F))
    return 0;
  return need;
}

bool trn__utf8_is_valid(const void *data, size_t size) {
  const uint8_t *at = data;
  while (size) {
    size_t step = utf8_sequence(at, size);
    if (!step) return false;
    at += step;
    size -= step;
  }
  return true;
}
