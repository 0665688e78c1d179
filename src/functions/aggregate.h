/* What aggregates share: a state header, growth by groups, results as arrays. */
#ifndef TRN_FUNCTIONS_AGGREGATE_H
#define TRN_FUNCTIONS_AGGREGATE_H
#include "functions/decimal.h"
#include "functions/frame.h"

#define FN_AGGREGATE_ARGS_MAX 4

/* Arguments as columns; the position literal, where the function takes one, is split off. */
typedef struct fn_agg_call {
  fn_column columns[FN_AGGREGATE_ARGS_MAX];
  size_t count;
  int64_t rows;
  fn_report report;
} fn_agg_call;
trn_status fn__agg_open(const char *name, const trn_function_arg *args, size_t count, bool has_position, int64_t rows,
                        trn_function_error *error, fn_agg_call *out);

/* Per-group memory: `width` bytes a group, zeroed. */
typedef struct fn_groups {
  char *data;
  size_t count, capacity, width;
} fn_groups;
bool fn__groups_grow(fn_groups *groups, size_t count);
void fn__groups_drop(fn_groups *groups, size_t emit); /* the first ones; later ones move down */

/* Is the row one to skip: filtered out, or the column null there. */
static inline bool fn__skip(const fn_column *column, const uint8_t *filter, int64_t row) {
  return (filter && !filter[row]) || fn__is_null(column, row);
}

extern const trn_aggregate_function fn__agg_sum, fn__agg_sum_try, fn__agg_sum_wrap, fn__agg_avg, fn__agg_avg_try,
    fn__agg_first, fn__agg_first_ignore, fn__agg_last, fn__agg_last_ignore, fn__agg_any_value, fn__agg_any_value_ignore,
    fn__agg_single, fn__agg_min, fn__agg_max, fn__agg_min_by, fn__agg_max_by, fn__agg_bool_and, fn__agg_bool_or,
    fn__agg_count_if, fn__agg_collect_list, fn__agg_collect_set;
/* One function per row of a table: dispersion, shape, covariance (aggregate_moments.c). */
extern const trn_aggregate_function fn__agg_moments[];
extern const size_t fn__agg_moments_count;
#endif
