/* Datetime patterns ("yyyy-MM-dd HH:mm:ss"): the subset of java.time's letters that Spark takes. */
#ifndef TRN_FUNCTIONS_PATTERN_H
#define TRN_FUNCTIONS_PATTERN_H
#include "functions/calendar.h"

#define FN_PATTERN_PARTS_MAX 64
typedef struct fn_pattern_part {
  char letter; /* 0: literal text; '[' and ']': an optional section */
  uint8_t count;
  uint16_t start, size; /* of the literal, in the pattern's text */
} fn_pattern_part;
typedef struct fn_pattern {
  fn_pattern_part parts[FN_PATTERN_PARTS_MAX];
  int count;
  char text[512]; /* literals, quotes resolved */
} fn_pattern;

bool fn__pattern_compile(fn_text text, fn_pattern *out); /* false: letters that Spark refuses, or too long */
/* Appends to the row being made. `offset`: seconds east of UTC at that instant. */
void fn__pattern_format(const fn_pattern *pattern, int64_t local_us, int32_t offset, fn_text zone_name,
                        fn_builder *out);
typedef struct fn_pattern_result {
  int64_t local_us;
  bool has_offset, has_zone;
  int32_t offset;
  fn_zone zone;
  size_t error_index; /* where it failed, in bytes */
  bool is_bad_date;   /* all fields read, but there is no such day or time */
} fn_pattern_result;
bool fn__pattern_parse(const fn_pattern *pattern, fn_text text, fn_pattern_result *out);
#endif
