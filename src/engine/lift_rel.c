/* Lifting of relations. */
#include "engine/lift_read.h"
#include <trunnion/catalog.h>

static trn_status ids(trn_lifting *l, uint32_t count, uint32_t **out) {
  uint32_t *list = TRN_NEW_N(l->arena, uint32_t, count ? count : 1);
  trn_status status = list ? TRN_OK : trn__no_memory(l->error);
  for (uint32_t i = 0; !status && i < count; i++) status = trn__lift_u32(l, &list[i]);
  *out = list;
  return status;
}

static trn_status new_columns(trn_lifting *l, uint32_t count, trn_column **out) {
  *out = TRN_NEW_N(l->arena, trn_column, count ? count : 1);
  return *out ? TRN_OK : trn__no_memory(l->error);
}

/* ---- tables ---- */

static void release_plan(void *plan) {
  trn_plan_unref(plan);
}
static void release_table(void *table) {
  trn_table_unref(table);
}

static trn_status own(trn_lifting *l, void (*release)(void *), void *object) {
  if (trn__arena_own(l->arena, release, object)) return TRN_OK;
  release(object);
  return trn__no_memory(l->error);
}

/* The plan's references to a source, once. */
static trn_status hold(trn_lifting *l, uint32_t index) {
  const trn_lift_source *s = &l->in->sources[index];
  trn_status status = TRN_OK;
  if (l->held[index]) return TRN_OK;
  if (s->source) status = own(l, l->in->source_release, l->in->source_ref(NULL, s->source));
  if (!status && s->view) status = own(l, release_plan, trn_plan_ref(s->view));
  if (!status && s->table) status = own(l, release_table, trn_table_ref(s->table));
  if (!status) status = trn__label_hold(l->arena, s->label);
  l->held[index] = !status;
  return status;
}

typedef struct scan_parts {
  uint32_t source, count;
  const char *label;
  uint32_t *indexes;
  trn_column *columns;
} scan_parts;

static trn_status read_scan(trn_lifting *l, scan_parts *p) {
  trn_status status = trn__lift_u32(l, &p->source);
  if (!status) status = trn__lift_text(l, &p->label, NULL);
  if (!status) status = trn__lift_count(l, 21, &p->count);
  if (!status && p->source >= l->in->source_count) status = trn__lift_invalid(l, "a source that is not there");
  if (!status) status = new_columns(l, p->count, &p->columns);
  if (!status && !(p->indexes = TRN_NEW_N(l->arena, uint32_t, p->count ? p->count : 1)))
    status = trn__no_memory(l->error);
  for (uint32_t i = 0; !status && i < p->count; i++) {
    status = trn__lift_u32(l, &p->indexes[i]);
    if (!status) status = trn__lift_u32(l, &p->columns[i].id);
    if (!status) status = trn__lift_type(l, &p->columns[i].type);
    if (!status) status = trn__lift_flag(l, &p->columns[i].nullable);
  }
  return status;
}

/* A view's own relations, with ids of this plan, and a projection that picks the columns. */
static trn_status view_rel(trn_lifting *l, const scan_parts *p, const trn_rel **out) {
  const trn_plan *view = l->in->sources[p->source].view;
  const trn_rel *root = NULL;
  uint32_t offset = l->next; /* above all ids that the engine gave */
  if (view->next_column > UINT32_MAX - offset) return trn__lift_invalid(l, "a view with too many columns");
  trn_status status = trn__renumber(l->arena, view->root, offset, &root, l->error);
  l->next += view->next_column;
  const trn_expr **exprs = !status ? TRN_NEW_N(l->arena, const trn_expr *, p->count ? p->count : 1) : NULL;
  if (!status && !exprs) status = trn__no_memory(l->error);
  for (uint32_t i = 0; !status && i < p->count; i++) {
    if (p->indexes[i] >= root->column_count) return trn__lift_invalid(l, "a column that the view has not");
    const trn_column *column = &root->columns[p->indexes[i]];
    exprs[i] = trn__expr_column(l->arena, column);
    if (exprs[i] && !trn__type_same_shape(column->type, p->columns[i].type))
      exprs[i] = trn__expr_cast(l->arena, exprs[i], p->columns[i].type, false);
    if (!exprs[i]) status = trn__no_memory(l->error);
  }
  if (!status && !(*out = trn__rel_project(l->arena, root, exprs, p->columns, p->count)))
    status = trn__no_memory(l->error);
  return status;
}

static trn_status lift_scan(trn_lifting *l) {
  scan_parts p = {0};
  const trn_rel *view = NULL;
  trn_status status = read_scan(l, &p);
  if (!status) status = hold(l, p.source);
  if (status) return status;
  const trn_lift_source *s = &l->in->sources[p.source];
  if (s->view) {
    status = view_rel(l, &p, &view);
    return status ? status : trn__lift_push_rel(l, view);
  }
  if (!s->source) return trn__lift_invalid(l, "a source that cannot be read");
  trn_rel *r = trn__rel_create(l->arena, TRN_REL_SCAN, NULL, 0, NULL, 0, p.columns, p.count);
  if (r) {
    r->u.scan.source = s->source, r->u.scan.indexes = p.indexes, r->u.scan.label = p.label, r->u.scan.info = s->label;
  }
  return trn__lift_push_rel(l, r);
}

static trn_status lift_values(trn_lifting *l) {
  uint32_t rows = 0, count = 0;
  trn_column *columns = NULL;
  const trn_expr **cells = NULL;
  trn_status status = trn__lift_u32(l, &rows);
  if (!status) status = trn__lift_count(l, 17, &count);
  if (!status) status = new_columns(l, count, &columns);
  for (uint32_t i = 0; !status && i < count; i++) {
    status = trn__lift_u32(l, &columns[i].id);
    if (!status) status = trn__lift_type(l, &columns[i].type);
    if (!status) status = trn__lift_flag(l, &columns[i].nullable);
  }
  if (!status && count && rows > UINT32_MAX / count) status = trn__lift_invalid(l, "too many values");
  if (!status) status = trn__lift_pop_exprs(l, rows * count, &cells);
  if (status) return status;
  trn_rel *r = trn__rel_create(l->arena, TRN_REL_VALUES, NULL, 0, cells, (size_t)rows * count, columns, count);
  if (r) r->u.values.row_count = rows;
  return trn__lift_push_rel(l, r);
}

static trn_status lift_range(trn_lifting *l) {
  int64_t start = 0, end = 0, step = 0;
  trn_column column = {.type = trn__type(TRN_TYPE_INT64)};
  uint32_t partitions = 0;
  trn_status status = trn__lift_i64(l, &start);
  if (!status) status = trn__lift_i64(l, &end);
  if (!status) status = trn__lift_i64(l, &step);
  if (!status) status = trn__lift_u32(l, &partitions);
  if (!status) status = trn__lift_u32(l, &column.id);
  if (status) return status;
  trn_rel *r = trn__rel_create(l->arena, TRN_REL_RANGE, NULL, 0, NULL, 0, &column, 1);
  if (r) {
    r->u.range.start = start, r->u.range.end = end, r->u.range.step = step;
    r->u.range.partitions = partitions;
  }
  return trn__lift_push_rel(l, r);
}

/* ---- one input ---- */

static trn_status lift_project(trn_lifting *l) {
  uint32_t count = 0, *list = NULL;
  trn_column *columns = NULL;
  const trn_expr **exprs = NULL;
  const trn_rel *input = NULL;
  trn_status status = trn__lift_count(l, 4, &count);
  if (!status) status = ids(l, count, &list);
  if (!status) status = trn__lift_pop_exprs(l, count, &exprs);
  if (!status) status = trn__lift_pop_rel(l, &input);
  if (!status) status = new_columns(l, count, &columns);
  if (status) return status;
  for (uint32_t i = 0; i < count; i++) columns[i] = (trn_column){list[i], exprs[i]->nullable, exprs[i]->type};
  return trn__lift_push_rel(l, trn__rel_project(l->arena, input, exprs, columns, count));
}

static trn_status lift_filter(trn_lifting *l) {
  const trn_expr **condition = NULL;
  const trn_rel *input = NULL;
  trn_status status = trn__lift_pop_exprs(l, 1, &condition);
  if (!status) status = trn__lift_pop_rel(l, &input);
  return status ? status : trn__lift_push_rel(l, trn__rel_filter(l->arena, input, condition[0]));
}

/* A relation whose columns are its input's. */
static trn_rel *passing(trn_lifting *l, trn_rel_kind kind, const trn_rel *input, const trn_expr *const *exprs,
                        uint32_t count) {
  return trn__rel_create(l->arena, kind, &input, 1, exprs, count, input->columns, input->column_count);
}

static trn_status lift_sort(trn_lifting *l) {
  uint32_t count = 0;
  const trn_sort_flags *flags = NULL;
  int64_t fetch = 0;
  const trn_expr **keys = NULL;
  const trn_rel *input = NULL;
  trn_status status = trn__lift_count(l, 1, &count);
  if (!status) status = trn__lift_flags(l, count, &flags);
  if (!status) status = trn__lift_i64(l, &fetch);
  if (!status) status = trn__lift_pop_exprs(l, count, &keys);
  if (!status) status = trn__lift_pop_rel(l, &input);
  if (status) return status;
  trn_rel *r = passing(l, TRN_REL_SORT, input, keys, count);
  if (r) r->u.sort.flags = flags, r->u.sort.fetch = fetch, r->u.sort.is_global = true;
  return trn__lift_push_rel(l, r);
}

static trn_status lift_limit(trn_lifting *l) {
  int64_t skip = 0, fetch = 0;
  const trn_rel *input = NULL;
  trn_status status = trn__lift_i64(l, &skip);
  if (!status) status = trn__lift_i64(l, &fetch);
  if (!status) status = trn__lift_pop_rel(l, &input);
  if (status) return status;
  trn_rel *r = passing(l, TRN_REL_LIMIT, input, NULL, 0);
  if (r) r->u.limit.skip = skip, r->u.limit.fetch = fetch;
  return trn__lift_push_rel(l, r);
}

static trn_status lift_sample(trn_lifting *l) {
  double lower = 0, upper = 0;
  bool with_replacement = false;
  int64_t seed = 0;
  const trn_rel *input = NULL;
  trn_status status = trn__lift_f64(l, &lower);
  if (!status) status = trn__lift_f64(l, &upper);
  if (!status) status = trn__lift_flag(l, &with_replacement);
  if (!status) status = trn__lift_i64(l, &seed);
  if (!status) status = trn__lift_pop_rel(l, &input);
  if (status) return status;
  trn_rel *r = passing(l, TRN_REL_SAMPLE, input, NULL, 0);
  if (r) {
    r->u.sample.lower = lower, r->u.sample.upper = upper;
    r->u.sample.with_replacement = with_replacement, r->u.sample.seed = seed;
  }
  return trn__lift_push_rel(l, r);
}

static trn_status lift_repartition(trn_lifting *l) {
  uint32_t partitions = 0, count = 0;
  bool shuffle = false, by_range = false;
  const trn_sort_flags *flags = NULL;
  const trn_expr **keys = NULL;
  const trn_rel *input = NULL;
  trn_status status = trn__lift_u32(l, &partitions);
  if (!status) status = trn__lift_flag(l, &shuffle);
  if (!status) status = trn__lift_flag(l, &by_range);
  if (!status) status = trn__lift_count(l, 1, &count);
  if (!status) status = trn__lift_flags(l, count, &flags);
  if (!status) status = trn__lift_pop_exprs(l, count, &keys);
  if (!status) status = trn__lift_pop_rel(l, &input);
  if (status) return status;
  trn_rel *r = passing(l, TRN_REL_REPARTITION, input, keys, count);
  if (r) {
    r->u.repartition.partitions = partitions, r->u.repartition.shuffle = shuffle;
    r->u.repartition.by_range = by_range, r->u.repartition.flags = flags;
  }
  return trn__lift_push_rel(l, r);
}

static trn_status lift_aggregate_rel(trn_lifting *l) {
  uint32_t groups = 0, aggregates = 0, set_count = 0, set_id = 0, *list = NULL;
  trn_column *columns = NULL;
  const trn_expr **exprs = NULL;
  const trn_rel *input = NULL;
  trn_status status = trn__lift_count(l, 4, &groups);
  if (!status) status = trn__lift_count(l, 4, &aggregates);
  uint32_t count = groups + aggregates;
  if (!status) status = ids(l, count, &list);
  if (!status) status = trn__lift_count(l, 8, &set_count);
  uint64_t *sets = !status ? TRN_NEW_N(l->arena, uint64_t, set_count ? set_count : 1) : NULL;
  if (!status && !sets) status = trn__no_memory(l->error);
  for (uint32_t i = 0; !status && i < set_count; i++) status = trn__lift_u64(l, &sets[i]);
  if (!status) status = trn__lift_u32(l, &set_id);
  if (!status) status = trn__lift_pop_exprs(l, count, &exprs);
  if (!status) status = trn__lift_pop_rel(l, &input);
  if (!status) status = new_columns(l, count + 1, &columns);
  if (status) return status;
  for (uint32_t i = 0; i < count; i++) {
    bool is_aggregate = exprs[i]->kind == TRN_EXPR_AGGREGATE;
    if (is_aggregate != (i >= groups)) return trn__lift_invalid(l, "an aggregate where none belongs");
    columns[i] = (trn_column){list[i], exprs[i]->nullable || (set_count && !is_aggregate), exprs[i]->type};
  }
  columns[count] = (trn_column){set_id, false, trn__type(TRN_TYPE_INT64)};
  trn_rel *r = trn__rel_create(l->arena, TRN_REL_AGGREGATE, &input, 1, exprs, count, columns, count + (set_count != 0));
  if (r) {
    r->u.aggregate.group_count = groups, r->u.aggregate.set_count = set_count;
    r->u.aggregate.sets = set_count ? sets : NULL;
  }
  return trn__lift_push_rel(l, r);
}

/* The input's columns, then room for `own` more. */
static trn_status extended(trn_lifting *l, const trn_rel *input, uint32_t own, trn_column **out) {
  if (own > UINT32_MAX - input->column_count) return trn__lift_invalid(l, "too many columns");
  trn_status status = new_columns(l, input->column_count + own, out);
  if (!status && input->column_count) memcpy(*out, input->columns, input->column_count * sizeof **out);
  return status;
}

static trn_status lift_window_rel(trn_lifting *l) {
  uint32_t count = 0, *list = NULL;
  trn_column *columns = NULL;
  const trn_expr **exprs = NULL;
  const trn_rel *input = NULL;
  trn_status status = trn__lift_count(l, 4, &count);
  if (!status) status = ids(l, count, &list);
  if (!status) status = trn__lift_pop_exprs(l, count, &exprs);
  if (!status) status = trn__lift_pop_rel(l, &input);
  if (!status) status = extended(l, input, count, &columns);
  if (status) return status;
  uint32_t before = input->column_count;
  for (uint32_t i = 0; i < count; i++) {
    if (exprs[i]->kind != TRN_EXPR_WINDOW) return trn__lift_invalid(l, "a window function that is none");
    columns[before + i] = (trn_column){list[i], exprs[i]->nullable, exprs[i]->type};
  }
  return trn__lift_push_rel(
      l, trn__rel_create(l->arena, TRN_REL_WINDOW, &input, 1, exprs, count, columns, (size_t)before + count));
}

static trn_status lift_unnest(trn_lifting *l) {
  bool outer = false, with_position = false;
  uint32_t count = 0, *list = NULL;
  trn_column *columns = NULL;
  const trn_expr **value = NULL;
  const trn_rel *input = NULL;
  trn_status status = trn__lift_flag(l, &outer);
  if (!status) status = trn__lift_flag(l, &with_position);
  if (!status) status = trn__lift_count(l, 4, &count);
  if (!status) status = ids(l, count, &list);
  if (!status) status = trn__lift_pop_exprs(l, 1, &value);
  if (!status) status = trn__lift_pop_rel(l, &input);
  if (!status) status = extended(l, input, count, &columns);
  if (status) return status;
  const trn_type *type = value[0]->type;
  uint32_t parts = type->id == TRN_TYPE_MAP ? 2 : type->id == TRN_TYPE_ARRAY ? 1 : 0;
  if (!parts || count != parts + with_position) return trn__lift_invalid(l, "UNNEST of something else");
  for (uint32_t i = 0; i < count; i++) {
    bool is_position = with_position && !i;
    const trn_field *field = is_position ? NULL : &type->fields[i - with_position];
    columns[input->column_count + i] =
        (trn_column){list[i], outer || (field && field->nullable), field ? field->type : trn__type(TRN_TYPE_INT32)};
  }
  trn_rel *r =
      trn__rel_create(l->arena, TRN_REL_UNNEST, &input, 1, value, 1, columns, (size_t)input->column_count + count);
  if (r) r->u.unnest.outer = outer, r->u.unnest.with_position = with_position;
  return trn__lift_push_rel(l, r);
}

/* ---- two and more ---- */

static trn_status lift_join(trn_lifting *l) {
  uint8_t type = 0;
  bool null_aware = false, has_condition = false;
  uint32_t mark = 0;
  const trn_expr **condition = NULL;
  const trn_rel *left = NULL, *right = NULL;
  trn_status status = trn__lift_u8(l, &type);
  if (!status) status = trn__lift_flag(l, &null_aware);
  if (!status) status = trn__lift_flag(l, &has_condition);
  if (!status) status = trn__lift_u32(l, &mark);
  if (!status) status = trn__lift_pop_exprs(l, has_condition, &condition);
  if (!status) status = trn__lift_pop_rel(l, &right);
  if (!status) status = trn__lift_pop_rel(l, &left);
  if (!status && type > TRN_JOIN_LEFT_MARK) status = trn__lift_invalid(l, "a join of no type");
  if (status) return status;
  const trn_expr *on = has_condition ? condition[0] : NULL;
  trn_rel *r = type == TRN_JOIN_LEFT_MARK ? trn__rel_mark_join(l->arena, left, right, on, mark)
                                          : trn__rel_join(l->arena, (trn_join_type)type, left, right, on);
  if (r) r->u.join.null_aware = null_aware;
  return trn__lift_push_rel(l, r);
}

static trn_status pop_rels(trn_lifting *l, uint32_t count, const trn_rel ***out) {
  if (count > l->count) return trn__lift_invalid(l, "inputs are missing");
  const trn_rel **inputs = TRN_NEW_N(l->arena, const trn_rel *, count ? count : 1);
  trn_status status = inputs ? TRN_OK : trn__no_memory(l->error);
  for (uint32_t i = count; !status && i-- > 0;) status = trn__lift_pop_rel(l, &inputs[i]);
  *out = inputs;
  return status;
}

static trn_status lift_union(trn_lifting *l) {
  uint32_t count = 0, width = 0, *list = NULL, *unused = NULL;
  trn_column *columns = NULL;
  const trn_rel **inputs = NULL;
  trn_status status = trn__lift_u32(l, &count);
  if (!status) status = trn__lift_count(l, 4, &width);
  if (!status) status = ids(l, width, &list);
  if (!status) status = pop_rels(l, count, &inputs);
  /* The inputs' ids: lifted relations have their columns in the order of the places. */
  for (uint32_t i = 0; !status && i < count; i++) {
    if (inputs[i]->column_count != width) return trn__lift_invalid(l, "a UNION of different widths");
    status = ids(l, width, &unused);
  }
  if (!status && !count) status = trn__lift_invalid(l, "a UNION of nothing");
  if (!status) status = new_columns(l, width, &columns);
  if (status) return status;
  for (uint32_t c = 0; c < width; c++) {
    columns[c] = (trn_column){list[c], false, inputs[0]->columns[c].type};
    for (uint32_t i = 0; i < count; i++) {
      if (columns[c].type->id == TRN_TYPE_NULL) columns[c].type = inputs[i]->columns[c].type;
      columns[c].nullable |= inputs[i]->columns[c].nullable;
    }
  }
  return trn__lift_push_rel(l, trn__rel_create(l->arena, TRN_REL_UNION, inputs, count, NULL, 0, columns, width));
}

static trn_status lift_opaque(trn_lifting *l) {
  uint32_t index = 0, input_count = 0, count = 0;
  const char *label = NULL;
  trn_column *columns = NULL;
  const trn_rel **inputs = NULL;
  trn_status status = trn__lift_u32(l, &index);
  if (!status) status = trn__lift_text(l, &label, NULL);
  if (!status) status = trn__lift_u32(l, &input_count);
  if (!status) status = trn__lift_count(l, 17, &count);
  if (!status) status = new_columns(l, count, &columns);
  for (uint32_t i = 0; !status && i < count; i++) {
    status = trn__lift_u32(l, &columns[i].id);
    if (!status) status = trn__lift_type(l, &columns[i].type);
    if (!status) status = trn__lift_flag(l, &columns[i].nullable);
  }
  if (!status && index >= l->in->original_count) status = trn__lift_invalid(l, "an original that is not there");
  if (!status) status = pop_rels(l, input_count, &inputs);
  if (!status) status = own(l, l->in->source_release, l->in->source_ref(NULL, l->in->originals[index]));
  if (status) return status;
  trn_rel *r = trn__rel_create(l->arena, TRN_REL_OPAQUE, inputs, input_count, NULL, 0, columns, count);
  if (r) r->u.opaque.original = l->in->originals[index], r->u.opaque.label = label;
  return trn__lift_push_rel(l, r);
}

trn_status trn__lift_rel(trn_lifting *l, uint8_t op) {
  const trn_rel *input = NULL;
  trn_status status;
  switch (op) {
  case TRN_OP_SCAN_TYPED: return lift_scan(l);
  case TRN_OP_VALUES: return lift_values(l);
  case TRN_OP_RANGE: return lift_range(l);
  case TRN_OP_PROJECT: return lift_project(l);
  case TRN_OP_FILTER: return lift_filter(l);
  case TRN_OP_JOIN: return lift_join(l);
  case TRN_OP_AGGREGATE_REL: return lift_aggregate_rel(l);
  case TRN_OP_SORT: return lift_sort(l);
  case TRN_OP_LIMIT: return lift_limit(l);
  case TRN_OP_UNION: return lift_union(l);
  case TRN_OP_WINDOW_REL: return lift_window_rel(l);
  case TRN_OP_UNNEST: return lift_unnest(l);
  case TRN_OP_SAMPLE: return lift_sample(l);
  case TRN_OP_REPARTITION: return lift_repartition(l);
  case TRN_OP_OPAQUE: return lift_opaque(l);
  case TRN_OP_DISTINCT:
    status = trn__lift_pop_rel(l, &input);
    return status ? status : trn__lift_push_rel(l, passing(l, TRN_REL_DISTINCT, input, NULL, 0));
  default: return trn__lift_invalid(l, "an unknown operation");
  }
}
