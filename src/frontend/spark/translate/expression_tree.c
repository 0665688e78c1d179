/* Resolved expressions as trees: comparing, copying with other children, replacing columns. */
#include "frontend/spark/translate/scope.h"

trn_status spark__expr_with_args(spark_translator *t, const trn_expr *expr, const trn_expr *const *args,
                                 const trn_expr **out, trn_error **error) {
  *out = expr;
  bool same = true;
  for (uint32_t i = 0; i < expr->arg_count && same; i++) same = args[i] == expr->args[i];
  if (same) return TRN_OK;
  trn_expr *copy =
      trn__expr_create(t->arena, (trn_expr_kind)expr->kind, expr->type, expr->nullable, args, expr->arg_count);
  if (!copy) return trn__no_memory(error);
  copy->u = expr->u;
  copy->position = expr->position;
  *out = copy;
  return TRN_OK;
}

static bool same_literal(const trn_expr *a, const trn_expr *b) {
  const trn_literal *x = &a->u.literal, *y = &b->u.literal;
  if (x->is_null || y->is_null) return x->is_null == y->is_null;
  switch ((trn_type_id)a->type->id) {
  case TRN_TYPE_NULL: return true;
  case TRN_TYPE_BOOL: return x->value.boolean == y->value.boolean;
  case TRN_TYPE_FLOAT32:
  case TRN_TYPE_FLOAT64: return memcmp(&x->value.number, &y->value.number, sizeof(double)) == 0;
  case TRN_TYPE_DECIMAL:
    return x->value.decimal.low == y->value.decimal.low && x->value.decimal.high == y->value.decimal.high;
  case TRN_TYPE_STRING:
  case TRN_TYPE_BINARY:
    return x->value.bytes.size == y->value.bytes.size &&
           (x->value.bytes.size == 0 || memcmp(x->value.bytes.data, y->value.bytes.data, x->value.bytes.size) == 0);
  case TRN_TYPE_INTERVAL_CALENDAR:
    return x->value.interval.months == y->value.interval.months && x->value.interval.days == y->value.interval.days &&
           x->value.interval.nanos == y->value.interval.nanos;
  case TRN_TYPE_ARRAY:
  case TRN_TYPE_MAP:
  case TRN_TYPE_STRUCT:
    if (x->value.nested.count != y->value.nested.count) return false;
    for (uint32_t i = 0; i < x->value.nested.count; i++)
      if (!spark__expr_same(x->value.nested.items[i], y->value.nested.items[i])) return false;
    return true;
  default: return x->value.integer == y->value.integer;
  }
}

static bool same_flags(const trn_sort_flags *a, const trn_sort_flags *b, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (a[i].descending != b[i].descending || a[i].nulls_first != b[i].nulls_first) return false;
  return true;
}

static bool same_optional(const trn_expr *a, const trn_expr *b) {
  return a == b || (a && b && spark__expr_same(a, b));
}

/* The node itself, without its children. */
static bool same_node(const trn_expr *a, const trn_expr *b) {
  switch ((trn_expr_kind)a->kind) {
  case TRN_EXPR_LITERAL: return same_literal(a, b);
  case TRN_EXPR_COLUMN:
  case TRN_EXPR_OUTER:
  case TRN_EXPR_LAMBDA_VARIABLE: return a->u.column == b->u.column;
  case TRN_EXPR_CALL:
    return a->u.call.home == b->u.call.home && a->u.call.volatility < 2 && strcmp(a->u.call.name, b->u.call.name) == 0;
  case TRN_EXPR_AGGREGATE:
    return strcmp(a->u.aggregate.name, b->u.aggregate.name) == 0 && a->u.aggregate.home == b->u.aggregate.home &&
           a->u.aggregate.distinct == b->u.aggregate.distinct &&
           a->u.aggregate.has_filter == b->u.aggregate.has_filter &&
           a->u.aggregate.order_count == b->u.aggregate.order_count &&
           same_flags(a->u.aggregate.order_flags, b->u.aggregate.order_flags, a->u.aggregate.order_count);
  case TRN_EXPR_WINDOW:
    return a->u.window.partition_count == b->u.window.partition_count &&
           a->u.window.order_count == b->u.window.order_count && a->u.window.unit == b->u.window.unit &&
           a->u.window.start_kind == b->u.window.start_kind && a->u.window.end_kind == b->u.window.end_kind &&
           a->u.window.ignore_nulls == b->u.window.ignore_nulls &&
           same_flags(a->u.window.order_flags, b->u.window.order_flags, a->u.window.order_count) &&
           same_optional(a->u.window.start, b->u.window.start) && same_optional(a->u.window.end, b->u.window.end);
  case TRN_EXPR_CAST: return a->u.cast.is_try == b->u.cast.is_try;
  case TRN_EXPR_CASE: return true;
  case TRN_EXPR_IN_LIST: return a->u.in_list.negated == b->u.in_list.negated;
  case TRN_EXPR_SUBQUERY: /* the same one in two places, not two that say the same */
    return a->u.subquery.rel == b->u.subquery.rel && a->u.subquery.kind == b->u.subquery.kind &&
           a->u.subquery.negated == b->u.subquery.negated;
  default: return false; /* lambdas: never known to be the same */
  }
}

/* Kernels that can fail have where they stand in the text as an argument; the same expression elsewhere is the same.
 * Parts that a function is made of have the position of the whole. */
static bool is_position(const trn_expr *literal, trn_position position) {
  if (literal->kind != TRN_EXPR_LITERAL || literal->type->id != TRN_TYPE_INT64 || literal->u.literal.is_null)
    return false;
  int64_t here = position.start < 0 ? -1 : ((int64_t)position.start << 32) | (uint32_t)position.stop;
  return literal->u.literal.value.integer == here || literal->u.literal.value.integer == -1;
}

/* Shared parts make trees out of DAGs that are exponentially larger: beyond the budget two expressions count as
 * different. */
enum { VISITS_MAX = 100000 };

/* a + b is b + a: of what Spark reorders before it compares. */
static bool commutes(const trn_expr *expr) {
  static const char *const names[] = {"+",       "*",      "and",    "or", "=", "is_not_distinct_from",
                                      "bit_and", "bit_or", "bit_xor"};
  if (expr->kind != TRN_EXPR_CALL || expr->arg_count < 2) return false;
  const char *name = expr->u.call.name;
  if (expr->u.call.home == TRN_HOME_LIBRARY) return strcmp(name, "trn.add") == 0 || strcmp(name, "trn.multiply") == 0;
  for (size_t i = 0; expr->u.call.home == TRN_HOME_NATIVE && i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

static bool same_at(const trn_expr *a, const trn_expr *b, trn_position a_at, trn_position b_at, int *budget) {
  if (a == b) return true;
  if (--*budget < 0) return false;
  if (a->kind != b->kind || a->arg_count != b->arg_count || !trn__type_equal(a->type, b->type)) return false;
  if (!same_node(a, b)) return false;
  if (a->position.start >= 0) a_at = a->position;
  if (b->position.start >= 0) b_at = b->position;
  bool kernel = (a->kind == TRN_EXPR_CALL && a->u.call.home == TRN_HOME_LIBRARY) || a->kind == TRN_EXPR_AGGREGATE;
  uint32_t swapped = 0; /* operands that were compared the other way round */
  if (commutes(a) && !same_at(a->args[0], b->args[0], a_at, b_at, budget)) {
    if (!same_at(a->args[0], b->args[1], a_at, b_at, budget) || !same_at(a->args[1], b->args[0], a_at, b_at, budget))
      return false;
    if (a->arg_count == 2) return true;
    swapped = 2;
  }
  for (uint32_t i = swapped; i < a->arg_count; i++) {
    if (kernel && is_position(a->args[i], a_at) && is_position(b->args[i], b_at)) continue;
    if (!same_at(a->args[i], b->args[i], a_at, b_at, budget)) return false;
  }
  return true;
}

bool spark__expr_same(const trn_expr *a, const trn_expr *b) {
  int budget = VISITS_MAX;
  return same_at(a, b, (trn_position){-1, -1}, (trn_position){-1, -1}, &budget);
}

/* Deep enough to tell calls apart, and small where parts are shared. */
enum { FINGERPRINT_DEPTH = 5 };

static uint64_t mix(uint64_t hash) {
  return trn__hash(&hash, sizeof hash, 0);
}

static uint64_t fingerprint_at(const trn_expr *expr, unsigned depth) {
  uint64_t hash = mix(((uint64_t)expr->kind << 40) ^ ((uint64_t)expr->type->id << 32) ^ expr->arg_count);
  const char *name = expr->kind == TRN_EXPR_CALL ? expr->u.call.name : NULL;
  if (expr->kind == TRN_EXPR_AGGREGATE) name = expr->u.aggregate.name;
  if (name) hash = trn__hash(name, strlen(name), hash);
  if (expr->kind == TRN_EXPR_COLUMN || expr->kind == TRN_EXPR_OUTER) hash = mix(hash ^ expr->u.column);
  if (expr->kind == TRN_EXPR_LITERAL && !expr->u.literal.is_null) {
    const trn_literal *literal = &expr->u.literal;
    if (expr->type->id == TRN_TYPE_INT32 || expr->type->id == TRN_TYPE_INT64)
      hash = mix(hash ^ (uint64_t)literal->value.integer);
    else if (expr->type->id == TRN_TYPE_STRING && literal->value.bytes.size)
      hash = trn__hash(literal->value.bytes.data, literal->value.bytes.size, hash);
  }
  if (depth == 0) return hash;
  bool kernel = expr->kind == TRN_EXPR_CALL && expr->u.call.home == TRN_HOME_LIBRARY;
  bool swaps = commutes(expr);
  for (uint32_t i = 0; i < expr->arg_count; i++) {
    const trn_expr *arg = expr->args[i];
    /* may be a position, which does not count: a kernel's is behind its other arguments */
    bool may_be_position = (kernel && i + 1 == expr->arg_count) || expr->kind == TRN_EXPR_AGGREGATE;
    if (may_be_position && arg->kind == TRN_EXPR_LITERAL && arg->type->id == TRN_TYPE_INT64) continue;
    uint64_t part = fingerprint_at(arg, depth - 1);
    hash = swaps && i < 2 ? hash + part : mix(hash ^ part);
  }
  return hash;
}

static uint64_t fingerprint(const trn_expr *expr) {
  return fingerprint_at(expr, FINGERPRINT_DEPTH);
}

/* ---- sets ---- */
enum { SET_LINEAR_MAX = 6 }; /* so many are compared one by one */

static void put_slot(spark_expr_set *set, uint32_t index) {
  uint32_t mask = set->capacity * 2 - 1, slot = (uint32_t)set->hashes[index] & mask;
  while (set->slots[slot]) slot = (slot + 1) & mask;
  set->slots[slot] = index + 1;
}

uint32_t spark__expr_set_find(const spark_expr_set *set, const trn_expr *expr) {
  if (set->count <= SET_LINEAR_MAX) {
    for (uint32_t i = 0; i < set->count; i++)
      if (spark__expr_same(set->items[i], expr)) return i;
    return UINT32_MAX;
  }
  uint64_t hash = fingerprint(expr);
  uint32_t mask = set->capacity * 2 - 1;
  for (uint32_t slot = (uint32_t)hash & mask; set->slots[slot]; slot = (slot + 1) & mask) {
    uint32_t index = set->slots[slot] - 1;
    if (set->hashes[index] == hash && spark__expr_same(set->items[index], expr)) return index;
  }
  return UINT32_MAX;
}

static bool set_grow(spark_translator *t, spark_expr_set *set) {
  uint32_t capacity = set->capacity ? set->capacity * 2 : 8;
  const trn_expr **items = TRN_NEW_N(t->arena, const trn_expr *, capacity);
  uint64_t *hashes = TRN_NEW_N(t->arena, uint64_t, capacity);
  uint32_t *slots = TRN_NEW_N(t->arena, uint32_t, (size_t)capacity * 2); /* zeros */
  if (!items || !hashes || !slots) return false;
  if (set->count) {
    memcpy(items, set->items, set->count * sizeof *items);
    memcpy(hashes, set->hashes, set->count * sizeof *hashes);
  }
  set->items = items;
  set->hashes = hashes;
  set->slots = slots;
  set->capacity = capacity;
  for (uint32_t i = 0; i < set->count; i++) put_slot(set, i);
  return true;
}

bool spark__expr_set_add(spark_translator *t, spark_expr_set *set, const trn_expr *expr) {
  if (set->count == set->capacity && !set_grow(t, set)) return false;
  set->items[set->count] = expr;
  set->hashes[set->count] = fingerprint(expr);
  put_slot(set, set->count++);
  return true;
}

/* ---- searching ---- */
typedef struct search {
  spark_expr_test test;
  void *user;
  const trn_expr *found;
} search;

static trn_walk search_node(void *user, const trn_expr *expr, const trn_rel *holder) {
  search *s = user;
  (void)holder;
  if (!s->test(s->user, expr)) return TRN_WALK_ON;
  s->found = expr;
  return TRN_WALK_STOP;
}

static trn_walk skip_relation(void *user, const trn_rel *rel) {
  (void)user, (void)rel;
  return TRN_WALK_SKIP;
}

static const trn_expr *find_within(const trn_expr *expr, spark_expr_test test, void *user, int *budget) {
  if (--*budget < 0) return NULL;
  if (test(user, expr)) return expr;
  const trn_expr *found = NULL;
  for (uint32_t i = 0; i < expr->arg_count && !found; i++) found = find_within(expr->args[i], test, user, budget);
  return found;
}

const trn_expr *spark__expr_find(const trn_expr *expr, spark_expr_test test, void *user) {
  int budget = VISITS_MAX;
  const trn_expr *found = find_within(expr, test, user, &budget);
  if (found || budget >= 0) return found;
  search s = {.test = test, .user = user}; /* large, or with shared parts: each node once */
  trn_visitor visitor = {.rel = skip_relation, .expr = search_node, .user = &s};
  trn_status status = trn__expr_walk(expr, &visitor);
  return s.found ? s.found : status == TRN_OK ? NULL : expr; /* without memory: the careful answer */
}

static bool is_kind(void *user, const trn_expr *expr) {
  return expr->kind == *(const trn_expr_kind *)user;
}

bool spark__expr_contains(const trn_expr *expr, trn_expr_kind kind) {
  return spark__expr_find(expr, is_kind, &kind) != NULL;
}

typedef struct column_set {
  const trn_expr *const *columns;
  size_t count;
} column_set;

static bool is_in_set(void *user, const trn_expr *expr) {
  const column_set *set = user;
  for (size_t i = 0; expr->kind == TRN_EXPR_COLUMN && i < set->count; i++)
    if (set->columns[i] && set->columns[i]->u.column == expr->u.column) return true;
  return false;
}

bool spark__expr_uses(const trn_expr *expr, const trn_expr *const *columns, size_t count) {
  column_set set = {columns, count};
  return spark__expr_find(expr, is_in_set, &set) != NULL;
}

trn_status spark__substitute(spark_translator *t, const trn_expr *expr, const trn_expr *const *columns,
                             const trn_expr *const *values, size_t count, const trn_expr **out, trn_error **error) {
  *out = expr;
  if (expr->kind == TRN_EXPR_COLUMN) {
    for (size_t i = 0; i < count; i++)
      if (columns[i] && columns[i]->kind == TRN_EXPR_COLUMN && columns[i]->u.column == expr->u.column) *out = values[i];
    return TRN_OK;
  }
  if (expr->arg_count == 0) return TRN_OK;
  const trn_expr **args = TRN_NEW_N(t->arena, const trn_expr *, expr->arg_count);
  if (!args) return trn__no_memory(error);
  trn_status status = spark__enter(t, error);
  if (status != TRN_OK) return status;
  for (uint32_t i = 0; i < expr->arg_count && status == TRN_OK; i++)
    status = spark__substitute(t, expr->args[i], columns, values, count, &args[i], error);
  spark__leave(t);
  return status == TRN_OK ? spark__expr_with_args(t, expr, args, out, error) : status;
}
