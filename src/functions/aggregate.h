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
/* The aggregate that collects its first argument and gives the scalar function's value of the list and of the call's
 * other arguments, which are literals. */
trn_aggregate_function fn__agg_of_list(const fn_scalar *finish);
/* Tables of such scalar functions, ended by a row without a name; they are no scalar functions of the library. */
extern const fn_scalar fn__list_statistics_table[], fn__list_pick_table[], fn__list_sketch_table[];
/* Numbers, dates, timestamps and intervals as doubles, and back as Spark's percentiles go back. */
bool fn__has_number(const fn_type *type);
double fn__number_at(const fn_column *column, int64_t row);
void fn__number_put(fn_builder *builder, int64_t row, double value);
/* Bind and results of functions (list of numbers, fraction or list of fractions, ...): one value or a list of them. */
trn_status fn__bind_fractions(fn_call *call, const struct ArrowSchema *element, fn_type *out,
                              struct ArrowSchema *schema);
typedef struct fn_fractions {
  size_t count;
  bool many;
  const double *values;
  double one;
} fn_fractions;
bool fn__fractions_open(const fn_call *call, fn_fractions *out);
/* Gives the results, `made` of them in `values`: one for each row that is not null, or lists of fractions->count. */
trn_status fn__fractions_give(fn_call *call, const fn_fractions *fractions, const double *values, int64_t made,
                              const fn_type *element);
/* Distinct counts: registers instead of values (aggregate_distinct.c). */
extern const trn_aggregate_function fn__agg_approx_count_distinct;
#endif
