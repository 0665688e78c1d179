/* Lowering: a resolved plan becomes the postfix program of engine_abi.h, in one pass, children first. */
#include "engine/engine.h"
#include "plan/graph.h"

typedef struct slot {
  const trn_rel *rel;
  uint32_t uses, slot; /* slot: 0 until written, then 1 + number */
} slot;

typedef struct lowering {
  trn_lowered *out;
  trn_error **error;
  bool with_names;
  unsigned depth;
  slot *slots; /* open addressing over relations, to find those used more than once */
  size_t slot_count, slot_capacity;
  uint32_t shared;
} lowering;

/* ---- writing ---- */

static void u8(lowering *l, unsigned v) { trn__strbuf_putc(&l->out->bytes, (char)v); }

static void le(lowering *l, uint64_t v, unsigned size) {
  unsigned char bytes[8];
  for (unsigned i = 0; i < size; i++) bytes[i] = (unsigned char)(v >> (8 * i));
  trn__strbuf_add(&l->out->bytes, bytes, size);
}

static void u32(lowering *l, uint32_t v) { le(l, v, 4); }
static void i64(lowering *l, int64_t v) { le(l, (uint64_t)v, 8); }

static void f64(lowering *l, double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  le(l, bits, 8);
}

static void str(lowering *l, const char *data, size_t size) {
  u32(l, (uint32_t)size);
  trn__strbuf_add(&l->out->bytes, data, size);
}

static void flag(lowering *l, trn_sort_flags f) { u8(l, (f.descending ? 1 : 0) | (f.nulls_first ? 2 : 0)); }

static trn_status too_deep(lowering *l) {
  return trn_error_set(l->error, TRN_RESOURCE_EXHAUSTED, NULL, "the plan is nested deeper than %d", TRN_PLAN_DEPTH_MAX);
}

static trn_status type(lowering *l, const trn_type *t, unsigned depth) {
  if (depth > TRN_TYPE_DEPTH_MAX)
    return trn_error_set(l->error, TRN_RESOURCE_EXHAUSTED, NULL, "a type is nested deeper than %d", TRN_TYPE_DEPTH_MAX);
  u8(l, t->id), u8(l, t->precision), u8(l, (unsigned char)t->scale), u8(l, t->variant);
  u32(l, (uint32_t)t->length), u32(l, t->field_count);
  if (t->id == TRN_TYPE_OTHER) str(l, t->format, strlen(t->format));
  for (uint32_t i = 0; i < t->field_count; i++) {
    str(l, t->fields[i].name, strlen(t->fields[i].name));
    u8(l, 1); /* the engine's arrays carry no such promise: literals, unions and kernels differ in it */
    trn_status status = type(l, t->fields[i].type, depth + 1);
    if (status) return status;
  }
  return TRN_OK;
}

/* ---- expressions ---- */

static trn_status expr(lowering *l, const trn_expr *e);

static trn_status exprs(lowering *l, const trn_expr *const *items, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    trn_status status = expr(l, items[i]);
    if (status) return status;
  }
  return TRN_OK;
}

static trn_status literal(lowering *l, const trn_expr *e) {
  const trn_literal *v = &e->u.literal;
  bool nested = e->type->id >= TRN_TYPE_ARRAY && !v->is_null;
  trn_status status = nested ? exprs(l, v->value.nested.items, v->value.nested.count) : TRN_OK;
  u8(l, TRN_OP_LITERAL);
  if (!status) status = type(l, e->type, 0);
  u8(l, v->is_null);
  if (status || v->is_null) return status;
  switch (e->type->id) {
  case TRN_TYPE_BOOL: u8(l, v->value.boolean); break;
  case TRN_TYPE_FLOAT32:
  case TRN_TYPE_FLOAT64: f64(l, v->value.number); break;
  case TRN_TYPE_DECIMAL: le(l, v->value.decimal.low, 8), i64(l, v->value.decimal.high); break;
  case TRN_TYPE_STRING:
  case TRN_TYPE_BINARY: str(l, v->value.bytes.data, v->value.bytes.size); break;
  case TRN_TYPE_INTERVAL_CALENDAR:
    u32(l, (uint32_t)v->value.interval.months), u32(l, (uint32_t)v->value.interval.days), i64(l, v->value.interval.nanos);
    break;
  case TRN_TYPE_ARRAY:
  case TRN_TYPE_MAP:
  case TRN_TYPE_STRUCT: u32(l, v->value.nested.count); break;
  default: i64(l, v->value.integer);
  }
  return TRN_OK;
}

static trn_status aggregate(lowering *l, const trn_expr *e) {
  u8(l, TRN_OP_AGGREGATE), u8(l, e->u.aggregate.home);
  str(l, e->u.aggregate.name, strlen(e->u.aggregate.name));
  u8(l, e->u.aggregate.distinct), u8(l, e->u.aggregate.has_filter), u32(l, e->u.aggregate.order_count);
  for (uint32_t i = 0; i < e->u.aggregate.order_count; i++) flag(l, e->u.aggregate.order_flags[i]);
  u32(l, e->arg_count - e->u.aggregate.order_count - e->u.aggregate.has_filter);
  return type(l, e->type, 0);
}

/* args[0] is the function, whose own args are the operands; then partition keys, order keys. */
static trn_status window(lowering *l, const trn_expr *e) {
  const trn_expr *f = e->args[0];
  bool is_aggregate = f->kind == TRN_EXPR_AGGREGATE;
  const char *name = is_aggregate ? f->u.aggregate.name : f->u.call.name;
  trn_status status = exprs(l, f->args, f->arg_count);
  if (!status) status = exprs(l, e->args + 1, e->arg_count - 1);
  if (!status && e->u.window.start) status = expr(l, e->u.window.start);
  if (!status && e->u.window.end) status = expr(l, e->u.window.end);
  if (status) return status;
  u8(l, TRN_OP_WINDOW), u8(l, is_aggregate), u8(l, is_aggregate ? f->u.aggregate.home : f->u.call.home);
  str(l, name, strlen(name));
  u8(l, is_aggregate && f->u.aggregate.distinct), u8(l, e->u.window.ignore_nulls), u32(l, f->arg_count);
  u32(l, e->u.window.partition_count), u32(l, e->u.window.order_count);
  for (uint32_t i = 0; i < e->u.window.order_count; i++) flag(l, e->u.window.order_flags[i]);
  u8(l, e->u.window.unit), u8(l, e->u.window.start_kind), u8(l, e->u.window.end_kind);
  u8(l, e->u.window.start != NULL), u8(l, e->u.window.end != NULL);
  return type(l, e->type, 0);
}

static trn_status expr_body(lowering *l, const trn_expr *e) {
  if (e->kind == TRN_EXPR_LITERAL) return literal(l, e);
  if (e->kind == TRN_EXPR_WINDOW) return window(l, e);
  trn_status status = exprs(l, e->args, e->arg_count);
  if (status) return status;
  switch (e->kind) {
  case TRN_EXPR_COLUMN: u8(l, TRN_OP_COLUMN), u32(l, e->u.column); return TRN_OK;
  case TRN_EXPR_CALL:
    u8(l, TRN_OP_CALL), u8(l, e->u.call.home), str(l, e->u.call.name, strlen(e->u.call.name)), u32(l, e->arg_count);
    status = type(l, e->type, 0);
    u8(l, e->nullable);
    return status;
  case TRN_EXPR_AGGREGATE: return aggregate(l, e);
  case TRN_EXPR_CAST:
    u8(l, TRN_OP_CAST);
    status = type(l, e->type, 0);
    u8(l, e->u.cast.is_try);
    return status;
  case TRN_EXPR_CASE: u8(l, TRN_OP_CASE), u32(l, e->arg_count); return TRN_OK;
  case TRN_EXPR_IN_LIST: u8(l, TRN_OP_IN_LIST), u32(l, e->arg_count), u8(l, e->u.in_list.negated); return TRN_OK;
  case TRN_EXPR_LAMBDA:
    u8(l, TRN_OP_LAMBDA), u32(l, e->u.lambda.param_count);
    for (uint32_t i = 0; i < e->u.lambda.param_count; i++) u32(l, e->u.lambda.params[i]);
    return TRN_OK;
  case TRN_EXPR_LAMBDA_VARIABLE: u8(l, TRN_OP_LAMBDA_VARIABLE), u32(l, e->u.column); return type(l, e->type, 0);
  default:
    return trn_error_set(l->error, TRN_INTERNAL, NULL, "expression kind %d reached the engine", (int)e->kind);
  }
}

static trn_status expr(lowering *l, const trn_expr *e) {
  if (++l->depth > TRN_PLAN_DEPTH_MAX) return too_deep(l);
  trn_status status = expr_body(l, e);
  l->depth--;
  return status;
}

/* ---- relations used more than once ---- */

static slot *find_slot(lowering *l, const trn_rel *rel) {
  size_t mask = l->slot_capacity - 1, i = (size_t)(((uintptr_t)rel >> 4) * 0x9E3779B97F4A7C15ull >> 20) & mask;
  while (l->slots[i].rel && l->slots[i].rel != rel) i = (i + 1) & mask;
  return &l->slots[i];
}

static bool grow_slots(lowering *l) {
  slot *old = l->slots;
  size_t capacity = l->slot_capacity;
  l->slot_capacity = capacity ? 2 * capacity : 64;
  if (!(l->slots = calloc(l->slot_capacity, sizeof *l->slots))) return l->slots = old, l->slot_capacity = capacity, false;
  for (size_t i = 0; i < capacity; i++)
    if (old[i].rel) *find_slot(l, old[i].rel) = old[i];
  free(old);
  return true;
}

static trn_status count_uses(lowering *l, const trn_rel *rel) {
  if (2 * (l->slot_count + 1) > l->slot_capacity && !grow_slots(l)) return trn__no_memory(l->error);
  if (++l->depth > TRN_PLAN_DEPTH_MAX) return too_deep(l);
  slot *s = find_slot(l, rel);
  trn_status status = TRN_OK;
  if (!s->rel) {
    *s = (slot){.rel = rel, .uses = 1};
    l->slot_count++;
    for (uint32_t i = 0; !status && i < rel->input_count; i++) status = count_uses(l, rel->inputs[i]);
  } else {
    s->uses++;
  }
  l->depth--;
  return status;
}

/* ---- relations ---- */

static void ids(lowering *l, const trn_column *columns, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) u32(l, columns[i].id);
}

/* Whether the type promises that something inside of it is never null (besides keys of maps, which never are). */
static bool promises_inside(const trn_type *t) {
  for (uint32_t i = 0; i < t->field_count; i++) {
    if (!t->fields[i].nullable && !(t->id == TRN_TYPE_MAP && i == 0)) return true;
    if (promises_inside(t->fields[i].type)) return true;
  }
  return false;
}

/* A source's columns as the types that the plan lowers to: without promises inside. */
static trn_status scan_without_promises(lowering *l, const trn_rel *r) {
  bool any = false;
  for (uint32_t i = 0; i < r->column_count; i++) any |= promises_inside(r->columns[i].type);
  if (!any) return TRN_OK;
  for (uint32_t i = 0; i < r->column_count; i++) {
    u8(l, TRN_OP_COLUMN), u32(l, r->columns[i].id);
    if (!promises_inside(r->columns[i].type)) continue;
    u8(l, TRN_OP_CAST);
    trn_status status = type(l, r->columns[i].type, 0);
    if (status) return status;
    u8(l, false);
  }
  u8(l, TRN_OP_PROJECT), u32(l, r->column_count), ids(l, r->columns, r->column_count);
  return TRN_OK;
}

/* The recursion is bounded: types are, by their constructors. */
static bool holds_other(const trn_type *t) {
  if (t->id == TRN_TYPE_OTHER) return true;
  for (uint32_t i = 0; i < t->field_count; i++)
    if (holds_other(t->fields[i].type)) return true;
  return false;
}

static trn_status opaque(lowering *l, const trn_rel *r) {
  trn_vec *originals = &l->out->originals;
  if (!r->u.opaque.original) return trn_error_set(l->error, TRN_INTERNAL, NULL, "an operator without its original");
  if (!trn__vec_push(originals, r->u.opaque.original)) return trn__no_memory(l->error);
  u8(l, TRN_OP_OPAQUE), u32(l, (uint32_t)originals->count - 1), u32(l, 0), u32(l, r->input_count), u32(l, r->column_count);
  for (uint32_t i = 0; i < r->column_count; i++) {
    u32(l, r->columns[i].id);
    trn_status status = type(l, r->columns[i].type, 0);
    if (status) return status;
    u8(l, r->columns[i].nullable);
  }
  return TRN_OK;
}

/* The parts of a table's name, with a separator that names do not have; "": it has none. */
static void table_name(lowering *l, const trn_scan_label *label) {
  const trn_scan_info *info = label ? trn_scan_label_info(label) : NULL;
  trn_strbuf name = {0};
  if (l->with_names && info && info->kind == TRN_SCAN_TABLE && info->table)
    trn__strbuf_printf(&name, "%s%s%s%s%s", info->catalog ? info->catalog : "", info->catalog ? "\x1f" : "",
                       info->database ? info->database : "", info->database ? "\x1f" : "", info->table);
  l->out->bytes.failed |= name.failed;
  str(l, name.data ? name.data : "", name.size);
  trn__strbuf_finish(&name);
}

static trn_status scan(lowering *l, const trn_rel *r) {
  trn_vec *sources = &l->out->sources;
  size_t index = 0;
  while (index < sources->count && sources->items[index] != (void *)r->u.scan.source) index++;
  if (index == sources->count && !trn__vec_push(sources, r->u.scan.source)) return trn__no_memory(l->error);
  /* Exact: the engine's own types are wanted, not those that it is told to make of them. */
  bool is_exact = l->with_names;
  for (uint32_t i = 0; i < r->column_count; i++) is_exact |= holds_other(r->columns[i].type);
  u8(l, is_exact ? TRN_OP_SCAN_TYPED : TRN_OP_SCAN), u32(l, (uint32_t)index);
  if (is_exact) table_name(l, r->u.scan.info);
  u32(l, r->column_count);
  for (uint32_t i = 0; i < r->column_count; i++) {
    u32(l, r->u.scan.indexes[i]), u32(l, r->columns[i].id);
    trn_status status = is_exact ? type(l, r->columns[i].type, 0) : TRN_OK;
    if (status) return status;
    if (is_exact) u8(l, r->columns[i].nullable);
  }
  return scan_without_promises(l, r);
}

static trn_status values(lowering *l, const trn_rel *r) {
  u8(l, TRN_OP_VALUES), u32(l, r->u.values.row_count), u32(l, r->column_count);
  for (uint32_t i = 0; i < r->column_count; i++) {
    u32(l, r->columns[i].id);
    trn_status status = type(l, r->columns[i].type, 0);
    if (status) return status;
    u8(l, r->columns[i].nullable);
  }
  return TRN_OK;
}

static void join(lowering *l, const trn_rel *r) {
  bool mark = r->u.join.type == TRN_JOIN_LEFT_MARK;
  u8(l, TRN_OP_JOIN), u8(l, r->u.join.type), u8(l, r->u.join.null_aware), u8(l, r->expr_count != 0);
  u32(l, mark ? r->columns[r->column_count - 1].id : 0);
}

static void aggregate_rel(lowering *l, const trn_rel *r) {
  uint32_t groups = r->u.aggregate.group_count;
  u8(l, TRN_OP_AGGREGATE_REL), u32(l, groups), u32(l, r->expr_count - groups);
  ids(l, r->columns, r->expr_count);
  u32(l, r->u.aggregate.set_count);
  for (uint32_t i = 0; i < r->u.aggregate.set_count; i++) le(l, r->u.aggregate.sets[i], 8);
  u32(l, r->u.aggregate.set_count ? r->columns[r->column_count - 1].id : 0);
}

static void set(lowering *l, const trn_rel *r) {
  u8(l, TRN_OP_SET), u8(l, r->u.set.except), u8(l, r->u.set.all), u32(l, r->column_count);
  ids(l, r->columns, r->column_count);
  for (uint32_t i = 0; i < 2; i++) ids(l, r->inputs[i]->columns, r->column_count);
}

static void text(lowering *l, const char *value) { str(l, value, strlen(value)); }

static void write_rel(lowering *l, const trn_rel *r) {
  uint32_t names = r->inputs[0]->column_count;
  u8(l, TRN_OP_WRITE), u32(l, r->columns[0].id), text(l, r->u.write.format), text(l, r->u.write.directory);
  u32(l, r->u.write.option_count);
  for (uint32_t i = 0; i < r->u.write.option_count; i++)
    text(l, r->u.write.options[i].key), text(l, r->u.write.options[i].value);
  u32(l, names);
  for (uint32_t i = 0; i < names; i++) text(l, r->u.write.names[i]);
  u32(l, r->u.write.partition_count);
  for (uint32_t i = 0; i < r->u.write.partition_count; i++) u32(l, r->u.write.partition_by[i]);
}

static trn_status rel_op(lowering *l, const trn_rel *r) {
  if (!trn__rel_fits(r)) return trn__rel_misfit(l->error);
  switch (r->kind) {
  case TRN_REL_SCAN: return scan(l, r);
  case TRN_REL_VALUES: return values(l, r);
  case TRN_REL_RANGE:
    u8(l, TRN_OP_RANGE), i64(l, r->u.range.start), i64(l, r->u.range.end), i64(l, r->u.range.step);
    u32(l, r->u.range.partitions), u32(l, r->columns[0].id);
    return TRN_OK;
  case TRN_REL_PROJECT: u8(l, TRN_OP_PROJECT), u32(l, r->column_count), ids(l, r->columns, r->column_count); return TRN_OK;
  case TRN_REL_FILTER: u8(l, TRN_OP_FILTER); return TRN_OK;
  case TRN_REL_JOIN: join(l, r); return TRN_OK;
  case TRN_REL_AGGREGATE: aggregate_rel(l, r); return TRN_OK;
  case TRN_REL_SORT:
    u8(l, TRN_OP_SORT), u32(l, r->expr_count);
    for (uint32_t i = 0; i < r->expr_count; i++) flag(l, r->u.sort.flags[i]);
    i64(l, r->u.sort.fetch);
    return TRN_OK;
  case TRN_REL_LIMIT: u8(l, TRN_OP_LIMIT), i64(l, r->u.limit.skip), i64(l, r->u.limit.fetch); return TRN_OK;
  case TRN_REL_UNION:
    u8(l, TRN_OP_UNION), u32(l, r->input_count), u32(l, r->column_count), ids(l, r->columns, r->column_count);
    for (uint32_t i = 0; i < r->input_count; i++) ids(l, r->inputs[i]->columns, r->column_count);
    return TRN_OK;
  case TRN_REL_DISTINCT: u8(l, TRN_OP_DISTINCT); return TRN_OK;
  case TRN_REL_SET: set(l, r); return TRN_OK;
  case TRN_REL_WINDOW:
    u8(l, TRN_OP_WINDOW_REL), u32(l, r->expr_count), ids(l, r->columns + (r->column_count - r->expr_count), r->expr_count);
    return TRN_OK;
  case TRN_REL_UNNEST: {
    uint32_t own = r->column_count - r->inputs[0]->column_count;
    u8(l, TRN_OP_UNNEST), u8(l, r->u.unnest.outer), u8(l, r->u.unnest.with_position), u32(l, own);
    ids(l, r->columns + r->inputs[0]->column_count, own);
    return TRN_OK;
  }
  case TRN_REL_SAMPLE:
    u8(l, TRN_OP_SAMPLE), f64(l, r->u.sample.lower), f64(l, r->u.sample.upper), u8(l, r->u.sample.with_replacement);
    i64(l, r->u.sample.seed);
    return TRN_OK;
  case TRN_REL_REPARTITION:
    u8(l, TRN_OP_REPARTITION), u32(l, r->u.repartition.partitions), u8(l, r->u.repartition.shuffle);
    u8(l, r->u.repartition.by_range), u32(l, r->expr_count);
    for (uint32_t i = 0; i < r->expr_count; i++)
      flag(l, r->u.repartition.flags ? r->u.repartition.flags[i] : (trn_sort_flags){0});
    return TRN_OK;
  case TRN_REL_WRITE: write_rel(l, r); return TRN_OK;
  case TRN_REL_OPAQUE: return opaque(l, r);
  case TRN_REL_EXTENSION:
    u8(l, TRN_OP_EXTENSION), text(l, r->u.extension.name), str(l, r->u.extension.payload, r->u.extension.size);
    u32(l, r->input_count), u32(l, r->column_count), ids(l, r->columns, r->column_count);
    return TRN_OK;
  default:
    return trn_error_set(l->error, TRN_UNIMPLEMENTED, NULL, "relation kind %d cannot be run by this engine", (int)r->kind);
  }
}

static trn_status rel(lowering *l, const trn_rel *r) {
  slot *s = find_slot(l, r);
  if (s->slot) {
    u8(l, TRN_OP_SHARED), u32(l, s->slot - 1);
    return TRN_OK;
  }
  if (++l->depth > TRN_PLAN_DEPTH_MAX) return too_deep(l);
  trn_status status = TRN_OK;
  for (uint32_t i = 0; !status && i < r->input_count; i++) status = rel(l, r->inputs[i]);
  if (!status) status = exprs(l, r->exprs, r->expr_count);
  if (!status) status = rel_op(l, r);
  if (!status && s->uses > 1) {
    s->slot = ++l->shared;
    u8(l, TRN_OP_SHARE), u32(l, s->slot - 1);
  }
  l->depth--;
  return status;
}

trn_status trn__lower(const trn_rel *root, bool with_names, trn_lowered *out, trn_error **error) {
  lowering l = {.out = out, .error = error, .with_names = with_names};
  *out = (trn_lowered){0};
  trn_status status = count_uses(&l, root);
  l.depth = 0;
  if (!status) {
    trn__strbuf_puts(&out->bytes, "TRNP");
    u32(&l, 1);
    status = rel(&l, root);
  }
  if (!status && out->bytes.failed) status = trn__no_memory(error);
  free(l.slots);
  if (status) trn__lowered_finish(out);
  return status;
}

void trn__lowered_finish(trn_lowered *lowered) {
  trn__strbuf_finish(&lowered->bytes);
  trn__vec_finish(&lowered->sources);
  trn__vec_finish(&lowered->originals);
  *lowered = (trn_lowered){0};
}
