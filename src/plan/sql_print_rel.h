/* The printer of relations: what its files share. Internal to src/plan. */
#ifndef TRN_PLAN_SQL_PRINT_REL_H
#define TRN_PLAN_SQL_PRINT_REL_H
#include "plan/sql_print.h"

/* Makes the relation a common table expression, once. Bounded recursion. */
trn_status trn__sql_relation(sql_printer *p, const trn_rel *rel);
void trn__sql_cte_name(sql_printer *p, const trn_rel *rel); /* of one that was made */
/* ", <head><number><columns> AS <hint>(<text>)" */
void trn__sql_cte_add(sql_printer *p, const char *head, uint32_t number, const char *columns, const trn_strbuf *text,
                      const char *hint);
void trn__sql_columns(sql_printer *p, const trn_column *columns, uint32_t count);
trn_status trn__sql_named(sql_printer *p, const trn_expr *const *exprs, const trn_column *columns, uint32_t count);

/* sql_print_join.c: semi, anti and mark joins. */
trn_status trn__sql_existence(sql_printer *p, const trn_rel *rel);
/* An equivalent plan for them. */
trn_status trn__sql_lower_filters(trn_arena *arena, const trn_rel *root, const trn_rel **out, trn_error **error);

#endif
