/* PRIMARY KEY, UNIQUE, FOREIGN KEY of CREATE TABLE, for who takes them: Spark's tables over files do not. */
#include "frontend/spark/sql/parser.h"
#include <trunnion/catalog.h>

static trn_constraint *add(sql_parser *p, trn_constraint_kind kind, const char *name, const sql_list *columns) {
  trn_constraint *constraint = sql__alloc(p, sizeof *constraint);
  *constraint = (trn_constraint){.kind = kind, .name = name, .columns = (const char *const *)columns->items,
                                 .column_count = columns->count};
  sql__push(p, &p->constraints, constraint);
  return constraint;
}

/* [NOT] ENFORCED, RELY, NORELY: nothing is enforced. */
static void characteristics(sql_parser *p) {
  while (sql__accept2(p, KW_NOT, KW_ENFORCED) || sql__accept(p, KW_RELY) || sql__accept(p, KW_NORELY)) {}
}

/* REFERENCES t [(a, b)] */
static void references(sql_parser *p, trn_constraint *constraint) {
  sql_list path = {0}, columns = {0};
  sql__expect(p, KW_REFERENCES);
  sql__path(p, &path);
  if (sql__kind(p) == SQL_LEFT_PAREN) sql__identifier_list(p, &columns);
  if (columns.count != constraint->column_count) sql__fail_syntax(p);
  constraint->target_table = path.items[path.count - 1];
  constraint->target_database = path.count > 1 ? path.items[path.count - 2] : NULL;
  constraint->target_columns = (const char *const *)columns.items;
}

bool sql__table_constraint(sql_parser *p) {
  sql_kind kind = sql__kind(p), next = sql__ahead(p, 1);
  sql_list columns = {0};
  char *name = NULL;
  size_t start = p->at;
  bool is_named = kind == KW_CONSTRAINT && sql__is_identifier(p, p->at + 1) && sql__is_keyword(sql__ahead(p, 2));
  if (!is_named && !(kind == KW_CHECK && next == SQL_LEFT_PAREN) && !(kind == KW_UNIQUE && next == SQL_LEFT_PAREN) &&
      !(kind == KW_PRIMARY && next == KW_KEY) && !(kind == KW_FOREIGN && next == KW_KEY))
    return false;
  if (!p->options.takes_constraints) sql__fail_unimplemented(p, start, "table constraints");
  if (is_named) {
    sql__advance(p);
    name = sql__identifier(p);
  }
  if (sql__accept2(p, KW_PRIMARY, KW_KEY)) {
    sql__identifier_list(p, &columns);
    add(p, TRN_CONSTRAINT_PRIMARY_KEY, name, &columns);
  } else if (sql__accept(p, KW_UNIQUE)) {
    sql__identifier_list(p, &columns);
    add(p, TRN_CONSTRAINT_UNIQUE, name, &columns);
  } else if (sql__accept2(p, KW_FOREIGN, KW_KEY)) {
    sql__identifier_list(p, &columns);
    references(p, add(p, TRN_CONSTRAINT_FOREIGN_KEY, name, &columns));
  } else {
    sql__fail_unimplemented(p, start, "CHECK constraints");
  }
  characteristics(p);
  return true;
}

bool sql__column_constraint(sql_parser *p, char *column) {
  sql_kind kind = sql__kind(p);
  sql_list columns = {0};
  char *name = NULL;
  size_t start = p->at;
  if (kind != KW_CONSTRAINT && kind != KW_CHECK && kind != KW_UNIQUE && kind != KW_PRIMARY && kind != KW_REFERENCES) return false;
  if (!p->options.takes_constraints) sql__fail_unimplemented(p, start, "constraints of columns");
  if (sql__accept(p, KW_CONSTRAINT)) name = sql__identifier(p);
  sql__push(p, &columns, column);
  if (sql__accept2(p, KW_PRIMARY, KW_KEY)) {
    add(p, TRN_CONSTRAINT_PRIMARY_KEY, name, &columns);
  } else if (sql__accept(p, KW_UNIQUE)) {
    add(p, TRN_CONSTRAINT_UNIQUE, name, &columns);
  } else if (sql__kind(p) == KW_REFERENCES) {
    references(p, add(p, TRN_CONSTRAINT_FOREIGN_KEY, name, &columns));
  } else {
    sql__fail_unimplemented(p, start, "CHECK constraints");
  }
  characteristics(p);
  return true;
}
