/* The library's only export: all tables of this folder as one list. */
#include "functions/aggregate.h"
#include <threads.h>

#define SCALARS_MAX 1024
#define AGGREGATES_MAX 128

/* Filled once, from the constant tables, then never changed: the ABI wants one array of pointers, and C has no way to
 * join the files' tables at compile time. Guarded by call_once, so it is a constant to everyone who can see it. */
static trn_scalar_function scalars[SCALARS_MAX];
static const trn_scalar_function *pointers[SCALARS_MAX];
static const trn_aggregate_function *aggregates[AGGREGATES_MAX];
static trn_aggregate_function listed[AGGREGATES_MAX];
static trn_function_library library;
static once_flag once = ONCE_FLAG_INIT;

static const fn_scalar *const TABLES[] = {
    fn__arithmetic_table,  fn__rounding_table, fn__cast_table,        fn__datetime_table,    fn__datetime_format_table,
    fn__interval_table,    fn__string_table,   fn__string_more_table, fn__math_table,        fn__hash_table,
    fn__conditional_table, fn__nested_table,   fn__nested_make_table, fn__nested_list_table, fn__nested_map_table,
    fn__regex_table,       fn__nested_zip_table, fn__time_make_table,   fn__json_table,
    fn__json_read_table,   fn__encoding_table, fn__text_format_table, fn__number_format_table, fn__random_table,
    fn__crypt_table, fn__vector_table, fn__text_parts_table, fn__time_span_table, fn__csv_table,
    fn__json_schema_table, fn__chance_table,
};

static const trn_aggregate_function *const AGGREGATES[] = {
    &fn__agg_sum,         &fn__agg_sum_try,   &fn__agg_sum_wrap,         &fn__agg_avg,
    &fn__agg_avg_try,     &fn__agg_first,     &fn__agg_first_ignore,     &fn__agg_last,
    &fn__agg_last_ignore, &fn__agg_any_value, &fn__agg_any_value_ignore, &fn__agg_single,
    &fn__agg_min,         &fn__agg_max,       &fn__agg_min_by,           &fn__agg_max_by,
    &fn__agg_bool_and,    &fn__agg_bool_or,   &fn__agg_count_if,         &fn__agg_collect_list,
    &fn__agg_collect_set, &fn__agg_approx_count_distinct,
};

static const fn_scalar *const LISTED[] = {fn__list_statistics_table, fn__list_pick_table, fn__list_sketch_table};

static void fill(void) {
  size_t count = 0;
  for (size_t t = 0; t < sizeof TABLES / sizeof TABLES[0]; t++)
    for (const fn_scalar *row = TABLES[t]; row->name && count < SCALARS_MAX; row++) {
      scalars[count] = (trn_scalar_function){.struct_size = sizeof(trn_scalar_function),
                                             .name = row->name,
                                             .volatility = (trn_volatility)row->volatility,
                                             .bind = fn__bind,
                                             .evaluate = fn__evaluate,
                                             .data = row};
      pointers[count] = &scalars[count];
      count++;
    }
  size_t aggregate_count = 0;
  for (size_t i = 0; i < sizeof AGGREGATES / sizeof AGGREGATES[0]; i++) aggregates[aggregate_count++] = AGGREGATES[i];
  for (size_t i = 0; i < fn__agg_moments_count && aggregate_count < AGGREGATES_MAX; i++)
    aggregates[aggregate_count++] = &fn__agg_moments[i];
  for (size_t t = 0, n = 0; t < sizeof LISTED / sizeof LISTED[0]; t++)
    for (const fn_scalar *row = LISTED[t]; row->name && aggregate_count < AGGREGATES_MAX; row++, n++) {
      listed[n] = fn__agg_of_list(row);
      aggregates[aggregate_count++] = &listed[n];
    }
  library = (trn_function_library){.struct_size = sizeof library,
                                   .abi = TRN_FUNCTION_ABI,
                                   .name = "trn",
                                   .version = TRUNNION_VERSION,
                                   .scalars = pointers,
                                   .scalar_count = count,
                                   .aggregates = aggregates,
                                   .aggregate_count = aggregate_count,
                                   .flags = TRN_FUNCTIONS_HIDDEN};
}

const trn_function_library *fn__library(void) {
  call_once(&once, fill);
  return &library;
}
