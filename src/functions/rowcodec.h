/* Values of any type as bytes: what aggregates keep of single rows, compare, hash, and give back as arrays. */
#ifndef TRN_FUNCTIONS_ROWCODEC_H
#define TRN_FUNCTIONS_ROWCODEC_H
#include "functions/array.h"

typedef struct fn_bytes {
  char *data;
  size_t size, capacity;
} fn_bytes;

bool fn__bytes_append(fn_bytes *bytes, const void *data, size_t size);
void fn__bytes_clear(fn_bytes *bytes);
/* Appends the value (null too). `canonical`: equal values get equal bytes (-0.0 as 0.0, one NaN). False: no memory. */
bool fn__encode(const fn_column *column, int64_t row, bool canonical, fn_bytes *out);
/* -1, 0, 1 in Spark's order (null first, NaN last, -0.0 equal to 0.0); both pointers move over the values. */
int fn__encoded_compare(const fn_type *type, const char **a, const char **b);
uint64_t fn__bytes_hash(const char *data, size_t size);

/* Building an array of any type from encoded values. */
typedef struct fn_sink {
  fn_type type;
  int64_t rows, capacity; /* capacity in rows */
  char *data;             /* values, or int32 offsets with a first 0 */
  uint8_t *valid;
  fn_bytes text;
  struct fn_sink *children;
  int64_t child_count;
  bool failed;
} fn_sink;
bool fn__sink_init(fn_sink *sink, const struct ArrowSchema *schema);
void fn__sink_put(fn_sink *sink, const char **at);
void fn__sink_put_null(fn_sink *sink);
void fn__sink_put_value(fn_sink *sink, const fn_column *column, int64_t row, fn_bytes *scratch);
void fn__sink_clear(fn_sink *sink);
trn_status fn__sink_finish(fn_sink *sink, struct ArrowArray *out); /* clears */
#endif
