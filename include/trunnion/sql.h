/* Plans as SQL text for databases of one's own: a dialect is a table of how a database writes what databases write
 * differently. trn_plan_to_sql (plan.h) has the bundled ones by name; a program describes another one, or changes a copy of
 * a bundled one, and prints with trn_plan_print_sql. */
#ifndef TRUNNION_SQL_H
#define TRUNNION_SQL_H
#include <trunnion/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Forms are texts in which these stand for something: $1 .. $9 the arguments (also twice), $t the name of the result's type,
 * $p and $s its precision and scale, $m ten to the power of the larger scale of the arguments, $u ten to that of the result's scale and one, $d a decimal one that has the scale as digits
 * behind its point ("0.01"), $$ a dollar. A form has to mean exactly what its comment says; NULL: there is no such form, and
 * plans that need it are refused by name. */

/** A type and its name, a form ("DECIMAL($p, $s)"). Frozen layout. */
typedef struct trn_sql_type {
  trn_type_id id;
  const char *name;
} trn_sql_type;

/** A function of plans (trn_expr_function, "trn.replace") with so many arguments. Frozen layout. */
typedef struct trn_sql_function {
  const char *name;
  size_t arg_count;
  const char *form;
} trn_sql_function;

/** A dialect: standard SQL with common table expressions and window functions, in which a value of a type is what the
 *  database has by the type's name; arithmetic of integers raises errors where it overflows; decimals are exact, casts to a
 *  smaller scale round half away from zero, casts to too few digits raise errors. NULL, zero: not there. */
typedef struct trn_sql_dialect {
  size_t struct_size;
  const char *title; /**< in messages: "PostgreSQL" */
  char name_quote;   /**< around names, doubled inside; 0: " */
  const trn_sql_type *types;
  size_t type_count;
  unsigned decimal_digits; /**< most digits of a decimal: what could leave them is refused; 0: 38 */
  /** Functions: these first, then those that standard SQL has. */
  const trn_sql_function *functions;
  size_t function_count;
  const char *text_column;    /**< a text of a table as one that compares by bytes; NULL: it does */
  const char *is_distinct;    /**< null-safe inequality; NULL: ($1 IS DISTINCT FROM $2) */
  const char *like;           /**< LIKE with '\' as its escape; NULL: ($1 LIKE $2 ESCAPE '\') */
  const char *divide_double;  /**< raises an error for a divisor of zero, also of no row that a CASE keeps from it */
  const char *divide_decimal; /**< to $s digits, half away from zero; raises an error for zero. The arguments are decimals */
  const char *divide_whole;   /**< towards zero; raises an error for zero */
  const char *remainder;      /**< of integers, with the dividend's sign; raises an error for zero */
  const char *series;         /**< a table with one column: whole numbers $1, $1 + $3 .. $2, which is one; NULL: recursion */
  bool lacks_filter;          /**< aggregates have no FILTER: CASE does it */
  bool lacks_correlation;     /**< EXISTS reads its table once for each row, or not at all, unless it is an equality */
} trn_sql_dialect;

/** The bundled dialect of that name, to print with or to copy: "postgresql", "duckdb". NULL: none ("sqlite" keeps values in
 *  its own way and is no such table). Lives for ever. Since 0.1. */
TRN_API const trn_sql_dialect *trn_sql_dialect_find(const char *name);
/** As trn_plan_to_sql, in a dialect of one's own, which is borrowed. INVALID_ARGUMENT: a form has an unknown "$". Threads:
 *  any. Blocks: no. Since 0.1. */
TRN_API trn_status trn_plan_print_sql(const trn_plan *plan, const trn_sql_dialect *dialect, char **out,
                                      trn_error **error);

#ifdef __cplusplus
}
#endif
#endif
