/* Spark Connect messages as a DataFrame client sends them, built by hand. Everything lives in one arena. */
#ifndef TRN_TESTS_SPARK_MESSAGES_H
#define TRN_TESTS_SPARK_MESSAGES_H
#include "core/core.h"
#include "spark_connect.pb-c.h"
#include <assert.h>

typedef Spark__Connect__Relation msg_rel;
typedef Spark__Connect__Expression msg_expr;

#define MSG_NEW(arena, type, ...) ((type *)msg_copy((arena), &(type)__VA_ARGS__, sizeof(type)))
static inline void *msg_copy(trn_arena *arena, const void *data, size_t size) {
  void *copy = trn__arena_copy(arena, data, size);
  assert(copy);
  return copy;
}

/* ---- expressions ---- */
static inline msg_expr *msg_name(trn_arena *arena, const char *name, int64_t plan_id /* 0: none */) {
  msg_expr *e = MSG_NEW(arena, msg_expr, SPARK__CONNECT__EXPRESSION__INIT);
  e->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_ATTRIBUTE;
  e->unresolved_attribute = MSG_NEW(arena, Spark__Connect__Expression__UnresolvedAttribute,
                                    SPARK__CONNECT__EXPRESSION__UNRESOLVED_ATTRIBUTE__INIT);
  e->unresolved_attribute->unparsed_identifier = (char *)name;
  if (plan_id) {
    e->unresolved_attribute->_plan_id_case = SPARK__CONNECT__EXPRESSION__UNRESOLVED_ATTRIBUTE___PLAN_ID_PLAN_ID;
    e->unresolved_attribute->plan_id = plan_id;
  }
  return e;
}

static inline msg_expr *msg_int(trn_arena *arena, int32_t value) {
  msg_expr *e = MSG_NEW(arena, msg_expr, SPARK__CONNECT__EXPRESSION__INIT);
  e->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_LITERAL;
  e->literal = MSG_NEW(arena, Spark__Connect__Expression__Literal, SPARK__CONNECT__EXPRESSION__LITERAL__INIT);
  e->literal->literal_type_case = SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_INTEGER;
  e->literal->integer = value;
  return e;
}

static inline msg_expr *msg_call(trn_arena *arena, const char *name, msg_expr *a, msg_expr *b) {
  msg_expr *e = MSG_NEW(arena, msg_expr, SPARK__CONNECT__EXPRESSION__INIT);
  msg_expr *args[2] = {a, b};
  e->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_FUNCTION;
  e->unresolved_function = MSG_NEW(arena, Spark__Connect__Expression__UnresolvedFunction,
                                   SPARK__CONNECT__EXPRESSION__UNRESOLVED_FUNCTION__INIT);
  e->unresolved_function->function_name = (char *)name;
  e->unresolved_function->n_arguments = a ? (b ? 2 : 1) : 0;
  e->unresolved_function->arguments = msg_copy(arena, args, sizeof args);
  return e;
}

static inline msg_expr *msg_as(trn_arena *arena, msg_expr *expr, const char *name) {
  msg_expr *e = MSG_NEW(arena, msg_expr, SPARK__CONNECT__EXPRESSION__INIT);
  char *names[1] = {(char *)name};
  e->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_ALIAS;
  e->alias = MSG_NEW(arena, Spark__Connect__Expression__Alias, SPARK__CONNECT__EXPRESSION__ALIAS__INIT);
  e->alias->expr = expr;
  e->alias->n_name = 1;
  e->alias->name = msg_copy(arena, names, sizeof names);
  return e;
}

static inline msg_expr *msg_star(trn_arena *arena, int64_t plan_id) {
  msg_expr *e = MSG_NEW(arena, msg_expr, SPARK__CONNECT__EXPRESSION__INIT);
  e->expr_type_case = SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_STAR;
  e->unresolved_star =
      MSG_NEW(arena, Spark__Connect__Expression__UnresolvedStar, SPARK__CONNECT__EXPRESSION__UNRESOLVED_STAR__INIT);
  if (plan_id) {
    e->unresolved_star->_plan_id_case = SPARK__CONNECT__EXPRESSION__UNRESOLVED_STAR___PLAN_ID_PLAN_ID;
    e->unresolved_star->plan_id = plan_id;
  }
  return e;
}

/* ---- relations ---- */
static inline msg_rel *msg_relation(trn_arena *arena, int kind, void *member, int64_t plan_id) {
  msg_rel *r = MSG_NEW(arena, msg_rel, SPARK__CONNECT__RELATION__INIT);
  r->rel_type_case = (Spark__Connect__Relation__RelTypeCase)kind;
  r->read = member; /* members of the union are all pointers */
  r->common = MSG_NEW(arena, Spark__Connect__RelationCommon, SPARK__CONNECT__RELATION_COMMON__INIT);
  if (plan_id) {
    r->common->_plan_id_case = SPARK__CONNECT__RELATION_COMMON___PLAN_ID_PLAN_ID;
    r->common->plan_id = plan_id;
  }
  return r;
}

static inline msg_rel *msg_table(trn_arena *arena, const char *name, int64_t plan_id) {
  Spark__Connect__Read *read = MSG_NEW(arena, Spark__Connect__Read, SPARK__CONNECT__READ__INIT);
  read->read_type_case = SPARK__CONNECT__READ__READ_TYPE_NAMED_TABLE;
  read->named_table = MSG_NEW(arena, Spark__Connect__Read__NamedTable, SPARK__CONNECT__READ__NAMED_TABLE__INIT);
  read->named_table->unparsed_identifier = (char *)name;
  return msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_READ, read, plan_id);
}

static inline msg_rel *msg_project(trn_arena *arena, msg_rel *input, msg_expr *a, msg_expr *b, int64_t plan_id) {
  Spark__Connect__Project *project = MSG_NEW(arena, Spark__Connect__Project, SPARK__CONNECT__PROJECT__INIT);
  msg_expr *list[2] = {a, b};
  project->input = input;
  project->n_expressions = b ? 2 : 1;
  project->expressions = msg_copy(arena, list, sizeof list);
  return msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_PROJECT, project, plan_id);
}

static inline msg_rel *msg_filter(trn_arena *arena, msg_rel *input, msg_expr *condition, int64_t plan_id) {
  Spark__Connect__Filter *filter = MSG_NEW(arena, Spark__Connect__Filter, SPARK__CONNECT__FILTER__INIT);
  filter->input = input;
  filter->condition = condition;
  return msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_FILTER, filter, plan_id);
}

static inline msg_rel *msg_join(trn_arena *arena, msg_rel *left, msg_rel *right, msg_expr *condition,
                                const char *using_column, Spark__Connect__Join__JoinType type, int64_t plan_id) {
  Spark__Connect__Join *join = MSG_NEW(arena, Spark__Connect__Join, SPARK__CONNECT__JOIN__INIT);
  char *names[1] = {(char *)using_column};
  join->left = left;
  join->right = right;
  join->join_condition = condition;
  join->join_type = type;
  join->n_using_columns = using_column ? 1 : 0;
  join->using_columns = msg_copy(arena, names, sizeof names);
  return msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_JOIN, join, plan_id);
}

static inline msg_rel *msg_sort(trn_arena *arena, msg_rel *input, msg_expr *key, int64_t plan_id) {
  Spark__Connect__Sort *sort = MSG_NEW(arena, Spark__Connect__Sort, SPARK__CONNECT__SORT__INIT);
  Spark__Connect__Expression__SortOrder *order =
      MSG_NEW(arena, Spark__Connect__Expression__SortOrder, SPARK__CONNECT__EXPRESSION__SORT_ORDER__INIT);
  order->child = key;
  sort->input = input;
  sort->n_order = 1;
  sort->order = msg_copy(arena, &order, sizeof order);
  return msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_SORT, sort, plan_id);
}

static inline msg_rel *msg_aggregate(trn_arena *arena, msg_rel *input, msg_expr *key, msg_expr *call, int64_t plan_id) {
  Spark__Connect__Aggregate *aggregate = MSG_NEW(arena, Spark__Connect__Aggregate, SPARK__CONNECT__AGGREGATE__INIT);
  aggregate->input = input;
  aggregate->group_type = SPARK__CONNECT__AGGREGATE__GROUP_TYPE__GROUP_TYPE_GROUPBY;
  aggregate->n_grouping_expressions = key ? 1 : 0;
  aggregate->grouping_expressions = msg_copy(arena, &key, sizeof key);
  aggregate->n_aggregate_expressions = 1;
  aggregate->aggregate_expressions = msg_copy(arena, &call, sizeof call);
  return msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_AGGREGATE, aggregate, plan_id);
}

static inline msg_rel *msg_union(trn_arena *arena, msg_rel *left, msg_rel *right, bool by_name, bool allow_missing,
                                 int64_t plan_id) {
  Spark__Connect__SetOperation *set = MSG_NEW(arena, Spark__Connect__SetOperation, SPARK__CONNECT__SET_OPERATION__INIT);
  set->left_input = left;
  set->right_input = right;
  set->set_op_type = SPARK__CONNECT__SET_OPERATION__SET_OP_TYPE__SET_OP_TYPE_UNION;
  set->_is_all_case = SPARK__CONNECT__SET_OPERATION___IS_ALL_IS_ALL;
  set->is_all = true;
  set->_by_name_case = SPARK__CONNECT__SET_OPERATION___BY_NAME_BY_NAME;
  set->by_name = by_name;
  set->_allow_missing_columns_case = SPARK__CONNECT__SET_OPERATION___ALLOW_MISSING_COLUMNS_ALLOW_MISSING_COLUMNS;
  set->allow_missing_columns = allow_missing;
  return msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_SET_OP, set, plan_id);
}

static inline msg_rel *msg_with_column(trn_arena *arena, msg_rel *input, const char *name, msg_expr *expr,
                                       int64_t plan_id) {
  Spark__Connect__WithColumns *with = MSG_NEW(arena, Spark__Connect__WithColumns, SPARK__CONNECT__WITH_COLUMNS__INIT);
  Spark__Connect__Expression__Alias *alias = msg_as(arena, expr, name)->alias;
  with->input = input;
  with->n_aliases = 1;
  with->aliases = msg_copy(arena, &alias, sizeof alias);
  return msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_WITH_COLUMNS, with, plan_id);
}

static inline msg_rel *msg_rename(trn_arena *arena, msg_rel *input, const char *from, const char *to, int64_t plan_id) {
  Spark__Connect__WithColumnsRenamed *node =
      MSG_NEW(arena, Spark__Connect__WithColumnsRenamed, SPARK__CONNECT__WITH_COLUMNS_RENAMED__INIT);
  Spark__Connect__WithColumnsRenamed__Rename *rename =
      MSG_NEW(arena, Spark__Connect__WithColumnsRenamed__Rename, SPARK__CONNECT__WITH_COLUMNS_RENAMED__RENAME__INIT);
  rename->col_name = (char *)from;
  rename->new_col_name = (char *)to;
  node->input = input;
  node->n_renames = 1;
  node->renames = msg_copy(arena, &rename, sizeof rename);
  return msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_WITH_COLUMNS_RENAMED, node, plan_id);
}

static inline msg_rel *msg_drop(trn_arena *arena, msg_rel *input, const char *name, msg_expr *expr, int64_t plan_id) {
  Spark__Connect__Drop *node = MSG_NEW(arena, Spark__Connect__Drop, SPARK__CONNECT__DROP__INIT);
  char *names[1] = {(char *)name};
  node->input = input;
  node->n_column_names = name ? 1 : 0;
  node->column_names = msg_copy(arena, names, sizeof names);
  node->n_columns = expr ? 1 : 0;
  node->columns = msg_copy(arena, &expr, sizeof expr);
  return msg_relation(arena, SPARK__CONNECT__RELATION__REL_TYPE_DROP, node, plan_id);
}

#endif
