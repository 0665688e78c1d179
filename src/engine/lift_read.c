#include "engine/lift_read.h"

#define COLUMNS_MAX (1u << 26) /* ids of one plan */
#define SHARED_MAX (1u << 20)

trn_status trn__lift_invalid(trn_lifting *l, const char *what) {
  return trn_error_set(l->error, TRN_INVALID_ARGUMENT, NULL, "lifted plan, at byte %zu: %s",
                       (size_t)(l->at - (const uint8_t *)l->in->data), what);
}

static trn_status take(trn_lifting *l, size_t size, const uint8_t **out) {
  if ((size_t)(l->end - l->at) < size) return trn__lift_invalid(l, "truncated");
  *out = l->at;
  l->at += size;
  return TRN_OK;
}

trn_status trn__lift_u8(trn_lifting *l, uint8_t *out) {
  const uint8_t *bytes = NULL;
  trn_status status = take(l, 1, &bytes);
  if (!status) *out = *bytes;
  return status;
}

trn_status trn__lift_flag(trn_lifting *l, bool *out) {
  uint8_t value = 0;
  trn_status status = trn__lift_u8(l, &value);
  if (!status && value > 1) status = trn__lift_invalid(l, "a flag that is none");
  *out = value == 1;
  return status;
}

trn_status trn__lift_u64(trn_lifting *l, uint64_t *out) {
  const uint8_t *bytes = NULL;
  trn_status status = take(l, 8, &bytes);
  *out = 0;
  for (unsigned i = 0; !status && i < 8; i++) *out |= (uint64_t)bytes[i] << (8 * i);
  return status;
}

trn_status trn__lift_u32(trn_lifting *l, uint32_t *out) {
  const uint8_t *bytes = NULL;
  trn_status status = take(l, 4, &bytes);
  *out = 0;
  for (unsigned i = 0; !status && i < 4; i++) *out |= (uint32_t)bytes[i] << (8 * i);
  return status;
}

trn_status trn__lift_i64(trn_lifting *l, int64_t *out) {
  uint64_t bits = 0;
  trn_status status = trn__lift_u64(l, &bits);
  memcpy(out, &bits, sizeof bits);
  return status;
}

trn_status trn__lift_f64(trn_lifting *l, double *out) {
  uint64_t bits = 0;
  trn_status status = trn__lift_u64(l, &bits);
  memcpy(out, &bits, sizeof bits);
  return status;
}

trn_status trn__lift_text(trn_lifting *l, const char **out, size_t *size) {
  uint32_t length;
  const uint8_t *bytes = NULL;
  trn_status status = trn__lift_u32(l, &length);
  if (!status) status = take(l, length, &bytes);
  if (!status && !(*out = trn__arena_str(l->arena, (const char *)bytes, length))) status = trn__no_memory(l->error);
  if (!status && size) *size = length;
  return status;
}

trn_status trn__lift_count(trn_lifting *l, size_t size, uint32_t *out) {
  trn_status status = trn__lift_u32(l, out);
  if (!status && *out > (size_t)(l->end - l->at) / size) return trn__lift_invalid(l, "a count of more than there is");
  return status;
}

trn_status trn__lift_flags(trn_lifting *l, uint32_t count, const trn_sort_flags **out) {
  const uint8_t *bytes = NULL;
  trn_status status = take(l, count, &bytes);
  if (status) return status;
  trn_sort_flags *flags = TRN_NEW_N(l->arena, trn_sort_flags, count);
  if (!flags) return trn__no_memory(l->error);
  for (uint32_t i = 0; i < count; i++) flags[i] = (trn_sort_flags){bytes[i] & 1, (bytes[i] & 2) != 0};
  *out = flags;
  return TRN_OK;
}

/* ---- types ---- */

static trn_status read_type(trn_lifting *l, unsigned depth, const trn_type **out);

static trn_status read_fields(trn_lifting *l, uint32_t count, unsigned depth, trn_field **out) {
  trn_field *fields = TRN_NEW_N(l->arena, trn_field, count ? count : 1);
  trn_status status = fields ? TRN_OK : trn__no_memory(l->error);
  for (uint32_t i = 0; !status && i < count; i++) {
    fields[i] = (trn_field){0};
    status = trn__lift_text(l, &fields[i].name, NULL);
    if (!status) status = trn__lift_flag(l, &fields[i].nullable);
    if (!status) status = read_type(l, depth + 1, &fields[i].type);
  }
  *out = fields;
  return status;
}

static trn_status read_nested(trn_lifting *l, uint8_t id, uint32_t count, unsigned depth, const trn_type **out) {
  trn_field *fields = NULL;
  trn_status status = read_fields(l, count, depth, &fields);
  if (status) return status;
  if ((id == TRN_TYPE_ARRAY && count != 1) || (id == TRN_TYPE_MAP && count != 2) || id > TRN_TYPE_STRUCT)
    return trn__lift_invalid(l, "a type with fields that it has not");
  if (id == TRN_TYPE_ARRAY)
    *out = trn__type_array(l->arena, fields[0].type, fields[0].nullable);
  else if (id == TRN_TYPE_MAP)
    *out = trn__type_map(l->arena, fields[0].type, fields[1].type, fields[1].nullable);
  else
    *out = trn__type_struct(l->arena, fields, count);
  return *out ? TRN_OK : trn_error_set(l->error, TRN_RESOURCE_EXHAUSTED, NULL, "a type is too large or too deep");
}

static trn_status read_type(trn_lifting *l, unsigned depth, const trn_type **out) {
  const uint8_t *head = NULL;
  uint32_t count = 0;
  trn_status status = take(l, 8, &head); /* id, precision, scale, variant, length */
  if (!status) status = trn__lift_count(l, 17, &count);
  if (status) return status;
  if (depth > TRN_TYPE_DEPTH_MAX) return trn__lift_invalid(l, "a type that is nested too deep");
  uint8_t id = head[0];
  if (id == TRN_TYPE_OTHER && !count) {
    const char *format;
    size_t size;
    status = trn__lift_text(l, &format, &size);
    if (!status && !(*out = trn__type_other(l->arena, format, size))) status = trn__no_memory(l->error);
    return status;
  }
  if (id >= TRN_TYPE_ARRAY || count) return read_nested(l, id, count, depth, out);
  if (id != TRN_TYPE_DECIMAL) {
    *out = trn__type((trn_type_id)id);
    return TRN_OK;
  }
  int precision = head[1], scale = (int8_t)head[2];
  if (precision < 1 || precision > 38 || scale < 0 || scale > precision) return trn__lift_invalid(l, "a decimal type");
  *out = trn__type_decimal(l->arena, precision, scale);
  return *out ? TRN_OK : trn__no_memory(l->error);
}

trn_status trn__lift_type(trn_lifting *l, const trn_type **out) {
  return read_type(l, 0, out);
}

/* ---- the stack ---- */

static trn_status push(trn_lifting *l, trn_lift_item item) {
  if (l->count == l->capacity) {
    size_t capacity = l->capacity ? 2 * l->capacity : 64;
    trn_lift_item *items = realloc(l->items, capacity * sizeof *items);
    if (!items) return trn__no_memory(l->error);
    l->items = items, l->capacity = capacity;
  }
  l->items[l->count++] = item;
  return TRN_OK;
}

static trn_status know(trn_lifting *l, const trn_column *column) {
  if (column->id >= l->in->next_column || column->id >= COLUMNS_MAX)
    return trn__lift_invalid(l, "a column id beyond all bounds");
  if (column->id >= l->known_capacity) {
    size_t capacity = l->known_capacity ? l->known_capacity : 256;
    while (capacity <= column->id) capacity *= 2;
    trn_column *known = realloc(l->known, capacity * sizeof *known);
    if (!known) return trn__no_memory(l->error);
    memset(known + l->known_capacity, 0, (capacity - l->known_capacity) * sizeof *known);
    l->known = known, l->known_capacity = capacity;
  }
  l->known[column->id] = *column;
  return TRN_OK;
}

trn_status trn__lift_known(trn_lifting *l, uint32_t id, const trn_column **out) {
  if (id >= l->known_capacity || !l->known[id].type) return trn__lift_invalid(l, "a column that no relation has");
  *out = &l->known[id];
  return TRN_OK;
}

trn_status trn__lift_push_rel(trn_lifting *l, const trn_rel *rel) {
  if (!rel) return trn__no_memory(l->error);
  trn_status status = TRN_OK;
  bool passes = rel->input_count && rel->inputs[0]->columns == rel->columns;
  for (uint32_t i = 0; !status && !passes && i < rel->column_count; i++) status = know(l, &rel->columns[i]);
  return status ? status : push(l, (trn_lift_item){.rel = rel});
}

trn_status trn__lift_push_expr(trn_lifting *l, const trn_expr *expr) {
  return expr ? push(l, (trn_lift_item){.expr = expr}) : trn__no_memory(l->error);
}

trn_status trn__lift_pop_rel(trn_lifting *l, const trn_rel **out) {
  if (!l->count || !l->items[l->count - 1].rel) return trn__lift_invalid(l, "a relation is missing");
  *out = l->items[--l->count].rel;
  return TRN_OK;
}

trn_status trn__lift_pop_exprs(trn_lifting *l, uint32_t count, const trn_expr ***out) {
  if (count > l->count) return trn__lift_invalid(l, "operands are missing");
  const trn_expr **exprs = TRN_NEW_N(l->arena, const trn_expr *, count ? count : 1);
  if (!exprs) return trn__no_memory(l->error);
  for (uint32_t i = 0; i < count; i++) {
    exprs[i] = l->items[l->count - count + i].expr;
    if (!exprs[i]) return trn__lift_invalid(l, "an expression is missing");
  }
  l->count -= count;
  *out = exprs;
  return TRN_OK;
}

/* ---- the whole ---- */

static trn_status share(trn_lifting *l, bool again) {
  uint32_t slot;
  trn_status status = trn__lift_u32(l, &slot);
  if (status) return status;
  if (again)
    return slot < l->shared_capacity && l->shared[slot] ? trn__lift_push_rel(l, l->shared[slot])
                                                        : trn__lift_invalid(l, "nothing is shared there");
  if (slot >= SHARED_MAX) return trn__lift_invalid(l, "a slot beyond all bounds");
  if (slot >= l->shared_capacity) {
    size_t capacity = l->shared_capacity ? l->shared_capacity : 16;
    while (capacity <= slot) capacity *= 2;
    const trn_rel **shared = realloc(l->shared, capacity * sizeof *shared);
    if (!shared) return trn__no_memory(l->error);
    memset(shared + l->shared_capacity, 0, (capacity - l->shared_capacity) * sizeof *shared);
    l->shared = shared, l->shared_capacity = capacity;
  }
  if (!l->count || !l->items[l->count - 1].rel) return trn__lift_invalid(l, "a relation is missing");
  l->shared[slot] = l->items[l->count - 1].rel;
  return TRN_OK;
}

static trn_status run(trn_lifting *l) {
  const uint8_t *magic = NULL;
  uint32_t version = 0;
  trn_status status = take(l, 4, &magic);
  if (!status) status = trn__lift_u32(l, &version);
  if (!status && (memcmp(magic, "TRNP", 4) || version != 1)) status = trn__lift_invalid(l, "not a plan");
  while (!status && l->at < l->end) {
    uint8_t op = *l->at++;
    if (op == TRN_OP_SHARE || op == TRN_OP_SHARED)
      status = share(l, op == TRN_OP_SHARED);
    else
      status = op < TRN_OP_SCAN ? trn__lift_expr(l, op) : trn__lift_rel(l, op);
  }
  return status;
}

trn_status trn__lift_columns(trn_arena *arena, const struct ArrowSchema *schema, trn_column **out, trn_error **error) {
  if (schema->n_children < 0 || schema->n_children > UINT32_MAX)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "a schema without children");
  trn_column *columns = TRN_NEW_N(arena, trn_column, (size_t)schema->n_children + 1);
  if (!columns) return trn__no_memory(error);
  for (int64_t i = 0; i < schema->n_children; i++) {
    const struct ArrowSchema *child = schema->children[i];
    columns[i] = (trn_column){.id = (uint32_t)i, .nullable = (child->flags & ARROW_FLAG_NULLABLE) != 0};
    if (trn__type_import(arena, child, &columns[i].type, NULL))
      columns[i].type = trn__type_other(arena, child->format, strlen(child->format));
    if (!columns[i].type) return trn__no_memory(error);
  }
  *out = columns;
  return TRN_OK;
}

trn_status trn__lift_exprs(trn_arena *arena, const void *data, size_t size, const trn_column *columns, uint32_t count,
                           uint32_t expr_count, const trn_expr *const **out, trn_error **error) {
  const trn_lift_input in = {.data = data, .size = size, .next_column = COLUMNS_MAX};
  trn_lifting l = {.in = &in, .arena = arena, .error = error, .at = data, .end = (const uint8_t *)data + size};
  const trn_expr **exprs = NULL;
  trn_status status = TRN_OK;
  for (uint32_t i = 0; !status && i < count; i++) status = know(&l, &columns[i]);
  if (!status) status = run(&l);
  if (!status && l.count != expr_count) status = trn__lift_invalid(&l, "other expressions than were announced");
  if (!status) status = trn__lift_pop_exprs(&l, expr_count, &exprs);
  *out = exprs;
  free(l.items), free(l.shared), free(l.known);
  return status;
}

/* Display names and nullability, from the engine's schema. */
static trn_status root_fields(trn_lifting *l, const trn_rel *root, const trn_field **out) {
  const struct ArrowSchema *schema = l->in->schema;
  if (schema->n_children != root->column_count)
    return trn__lift_invalid(l, "the root has other columns than its schema");
  trn_field *fields = TRN_NEW_N(l->arena, trn_field, root->column_count ? root->column_count : 1);
  if (!fields) return trn__no_memory(l->error);
  for (uint32_t i = 0; i < root->column_count; i++) {
    const struct ArrowSchema *child = schema->children[i];
    fields[i] = (trn_field){.name = trn__arena_strdup(l->arena, child->name ? child->name : ""),
                            .type = root->columns[i].type,
                            .nullable = (child->flags & ARROW_FLAG_NULLABLE) != 0};
    if (!fields[i].name) return trn__no_memory(l->error);
  }
  *out = fields;
  return TRN_OK;
}

trn_status trn__lift(const trn_lift_input *in, trn_plan **out, trn_error **error) {
  trn_lifting l = {.in = in, .error = error, .at = in->data, .end = (const uint8_t *)in->data + in->size};
  const trn_rel *root = NULL;
  const trn_field *fields = NULL;
  const char *sql = NULL;
  l.next = in->next_column;
  l.arena = trn__arena_create(0);
  l.held = calloc(in->source_count + 1, sizeof *l.held);
  trn_status status = l.arena && l.held ? TRN_OK : trn__no_memory(error);
  if (!status) status = run(&l);
  if (!status) status = trn__lift_pop_rel(&l, &root);
  if (!status && l.count) status = trn__lift_invalid(&l, "more than one relation is left");
  if (!status) status = root_fields(&l, root, &fields);
  if (!status && in->sql && !(sql = trn__arena_strdup(l.arena, in->sql))) status = trn__no_memory(error);
  if (status) {
    trn__arena_unref(l.arena);
  } else if (trn__plan_create(l.arena, root, fields, l.next, NULL, sql, out)) {
    status = trn__no_memory(error);
  }
  free(l.items), free(l.shared), free(l.known), free(l.held);
  return status;
}
