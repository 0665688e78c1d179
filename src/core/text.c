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
