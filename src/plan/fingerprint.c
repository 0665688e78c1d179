/* Fingerprints: every node's digest covers its own members and its children's digests. Column ids count by their first
 * appearance, so that equal plans are equal however they were numbered; what is shared costs nothing twice, and gives
 * the same as a copy would. Positions and the SQL text do not count: they change no result. */
#include "core/blake2b.h"
#include "plan/graph.h"

typedef struct digest {
  uint8_t bytes[16];
} digest;

typedef struct fingerprint {
  trn_stack stack;    /* frame.mark: where the children's digests start */
  trn_ptrmap done;    /* node or nested type -> index in digests */
  trn_ptrmap numbers; /* column id + 1 -> number */
  digest *digests;
  size_t digest_count, digest_capacity;
  digest *results; /* of children, in order */
  size_t count, capacity;
  trn_blake2b hash; /* of the node in work */
  bool failed;
} fingerprint;

static bool digests_push(digest **items, size_t *count, size_t *capacity, const digest *item) {
  if (*count == *capacity) {
    size_t more = *capacity ? *capacity * 2 : 64;
    digest *grown = realloc(*items, more * sizeof *grown);
    if (!grown) return false;
    *items = grown;
    *capacity = more;
  }
  (*items)[(*count)++] = *item;
  return true;
}

static void put_bytes(fingerprint *f, const void *data, size_t size) {
  trn__blake2b_add(&f->hash, data, size);
}

static void put_int(fingerprint *f, uint64_t value) {
  put_bytes(f, &value, sizeof value);
}

static void put_double(fingerprint *f, double value) {
  uint64_t bits;
  memcpy(&bits, &value, 8);
  put_int(f, bits);
}

static void put_sized(fingerprint *f, const void *data, size_t size) {
  put_int(f, size);
  put_bytes(f, data, size);
}

static void put_text(fingerprint *f, const char *text) {
  put_int(f, text != NULL);
  if (text) put_sized(f, text, strlen(text));
}

/* The recursion is bounded: types are, by their constructors. */
static void put_type(fingerprint *f, const trn_type *type) {
  put_int(f, (uint64_t)type->id | (uint64_t)type->precision << 8 | (uint64_t)(uint8_t)type->scale << 16 |
                 (uint64_t)type->variant << 24 | (uint64_t)(uint32_t)type->length << 32);
  if (type->id < TRN_TYPE_ARRAY) return;
  if (type->id == TRN_TYPE_OTHER) {
    put_text(f, type->format);
    return;
  }
  uint64_t index;
  digest own;
  if (trn__ptrmap_get(&f->done, type, NULL, &index)) {
    own = f->digests[index];
  } else {
    trn_blake2b outer = f->hash;
    trn__blake2b_init(&f->hash);
    put_int(f, type->field_count);
    for (uint32_t i = 0; i < type->field_count; i++) {
      put_text(f, type->fields[i].name);
      put_int(f, type->fields[i].nullable);
      put_text(f, type->fields[i].metadata);
      put_type(f, type->fields[i].type);
    }
    trn__blake2b_end(&f->hash, own.bytes);
    f->hash = outer;
    if (!trn__ptrmap_set(&f->done, type, NULL, f->digest_count) ||
        !digests_push(&f->digests, &f->digest_count, &f->digest_capacity, &own))
      f->failed = true;
  }
  put_bytes(f, own.bytes, sizeof own.bytes);
}

static uint64_t column_number(fingerprint *f, uint32_t id) {
  const void *key = (const void *)(((uintptr_t)id + 1) << 4);
  uint64_t number;
  if (trn__ptrmap_get(&f->numbers, key, NULL, &number)) return number;
  number = f->numbers.count;
  if (!trn__ptrmap_set(&f->numbers, key, NULL, number)) f->failed = true;
  return number;
}

static void put_flags(fingerprint *f, const trn_sort_flags *flags, uint32_t count) {
  put_int(f, flags ? count : 0);
  for (uint32_t i = 0; flags && i < count; i++)
    put_int(f, (uint64_t)flags[i].descending | (uint64_t)flags[i].nulls_first << 1);
}

static void put_literal(fingerprint *f, const trn_expr *expr) {
  const trn_literal *literal = &expr->u.literal;
  put_int(f, literal->is_null);
  if (literal->is_null) return;
  switch (expr->type->id) {
  case TRN_TYPE_NULL: break;
  case TRN_TYPE_BOOL: put_int(f, literal->value.boolean); break;
  case TRN_TYPE_FLOAT32:
  case TRN_TYPE_FLOAT64: put_double(f, literal->value.number); break;
  case TRN_TYPE_DECIMAL:
    put_int(f, literal->value.decimal.low);
    put_int(f, (uint64_t)literal->value.decimal.high);
    break;
  case TRN_TYPE_STRING:
  case TRN_TYPE_BINARY: put_sized(f, literal->value.bytes.data, literal->value.bytes.size); break;
  case TRN_TYPE_INTERVAL_CALENDAR:
    put_int(f, (uint64_t)literal->value.interval.months);
    put_int(f, (uint64_t)literal->value.interval.days);
    put_int(f, (uint64_t)literal->value.interval.nanos);
    break;
  case TRN_TYPE_ARRAY:
  case TRN_TYPE_MAP:
  case TRN_TYPE_STRUCT: put_int(f, literal->value.nested.count); break; /* the elements are children */
  default: put_int(f, (uint64_t)literal->value.integer);
  }
}

static void put_window(fingerprint *f, const trn_expr *expr) {
  put_int(f, expr->u.window.partition_count);
  put_int(f, expr->u.window.order_count);
  put_flags(f, expr->u.window.order_flags, expr->u.window.order_count);
  put_int(f, expr->u.window.unit);
  put_int(f, expr->u.window.start_kind);
  put_int(f, expr->u.window.end_kind);
  put_int(f, expr->u.window.start != NULL);
  put_int(f, expr->u.window.end != NULL);
  put_int(f, expr->u.window.ignore_nulls);
}

static void put_expr(fingerprint *f, const trn_expr *expr) {
  put_int(f, (uint64_t)expr->kind | (uint64_t)expr->nullable << 8 | (uint64_t)expr->arg_count << 16);
  put_type(f, expr->type);
  switch (expr->kind) {
  case TRN_EXPR_LITERAL: put_literal(f, expr); break;
  case TRN_EXPR_OUTER:
  case TRN_EXPR_LAMBDA_VARIABLE: put_int(f, column_number(f, expr->u.column)); break;
  case TRN_EXPR_CALL:
    put_int(f, expr->u.call.home);
    put_text(f, expr->u.call.name);
    break;
  case TRN_EXPR_AGGREGATE:
    put_int(f, expr->u.aggregate.home);
    put_text(f, expr->u.aggregate.name);
    put_int(f, expr->u.aggregate.distinct);
    put_int(f, expr->u.aggregate.has_filter);
    put_int(f, expr->u.aggregate.order_count);
    put_flags(f, expr->u.aggregate.order_flags, expr->u.aggregate.order_count);
    break;
  case TRN_EXPR_WINDOW: put_window(f, expr); break;
  case TRN_EXPR_CAST: put_int(f, expr->u.cast.is_try); break;
  case TRN_EXPR_IN_LIST: put_int(f, expr->u.in_list.negated); break;
  case TRN_EXPR_SUBQUERY:
    put_int(f, expr->u.subquery.kind);
    put_int(f, expr->u.subquery.negated);
    break;
  case TRN_EXPR_LAMBDA:
    put_int(f, expr->u.lambda.param_count);
    for (uint32_t i = 0; i < expr->u.lambda.param_count; i++) put_int(f, column_number(f, expr->u.lambda.params[i]));
    break;
  default: break;
  }
}

static void put_scan(fingerprint *f, const trn_rel *rel) {
  uint8_t identity[16];
  bool is_known = rel->u.scan.info && trn_scan_label_identity(rel->u.scan.info, identity);
  put_int(f, is_known);
  if (is_known) { /* the same rows, whatever source each session opened for them */
    put_bytes(f, identity, sizeof identity);
  } else {
    put_int(f, (uintptr_t)rel->u.scan.source);
    put_text(f, rel->u.scan.label);
  }
  for (uint32_t i = 0; i < rel->column_count; i++) put_int(f, rel->u.scan.indexes ? rel->u.scan.indexes[i] : i);
}

static void put_rel_payload(fingerprint *f, const trn_rel *rel) {
  switch (rel->kind) {
  case TRN_REL_SCAN: put_scan(f, rel); break;
  case TRN_REL_LOCAL: put_sized(f, rel->u.local.ipc, rel->u.local.size); break;
  case TRN_REL_VALUES: put_int(f, rel->u.values.row_count); break;
  case TRN_REL_RANGE:
    put_int(f, (uint64_t)rel->u.range.start);
    put_int(f, (uint64_t)rel->u.range.end);
    put_int(f, (uint64_t)rel->u.range.step);
    put_int(f, rel->u.range.partitions);
    break;
  case TRN_REL_JOIN: put_int(f, (uint64_t)rel->u.join.type | (uint64_t)rel->u.join.null_aware << 8); break;
  case TRN_REL_AGGREGATE:
    put_int(f, rel->u.aggregate.group_count);
    put_int(f, rel->u.aggregate.set_count);
    for (uint32_t i = 0; i < rel->u.aggregate.set_count; i++) put_int(f, rel->u.aggregate.sets[i]);
    break;
  case TRN_REL_SORT:
    put_flags(f, rel->u.sort.flags, rel->expr_count);
    put_int(f, (uint64_t)rel->u.sort.fetch);
    put_int(f, rel->u.sort.is_global);
    break;
  case TRN_REL_LIMIT:
    put_int(f, (uint64_t)rel->u.limit.skip);
    put_int(f, (uint64_t)rel->u.limit.fetch);
    break;
  case TRN_REL_SET: put_int(f, (uint64_t)rel->u.set.except | (uint64_t)rel->u.set.all << 1); break;
  case TRN_REL_UNNEST: put_int(f, (uint64_t)rel->u.unnest.outer | (uint64_t)rel->u.unnest.with_position << 1); break;
  case TRN_REL_SAMPLE:
    put_double(f, rel->u.sample.lower);
    put_double(f, rel->u.sample.upper);
    put_int(f, rel->u.sample.with_replacement);
    put_int(f, (uint64_t)rel->u.sample.seed);
    break;
  case TRN_REL_REPARTITION:
    put_int(f, rel->u.repartition.partitions);
    put_int(f, (uint64_t)rel->u.repartition.shuffle | (uint64_t)rel->u.repartition.by_range << 1);
    put_flags(f, rel->u.repartition.flags, rel->expr_count);
    break;
  case TRN_REL_EXTENSION:
    put_text(f, rel->u.extension.name);
    put_sized(f, rel->u.extension.payload, rel->u.extension.size);
    break;
  case TRN_REL_WRITE: /* the directory is another one each time */
    put_text(f, rel->u.write.format);
    put_text(f, rel->u.write.directory);
    break;
  case TRN_REL_OPAQUE: put_text(f, rel->u.opaque.label); break;
  default: break;
  }
}

/* The columns are the first input's: it has said all about them. */
static bool is_pass_through(const trn_rel *rel) {
  if (!rel->input_count) return false;
  const trn_rel *input = rel->inputs[0];
  if (rel->column_count != input->column_count) return false;
  if (rel->columns == input->columns) return true;
  for (uint32_t i = 0; i < rel->column_count; i++) {
    const trn_column *a = &rel->columns[i], *b = &input->columns[i];
    if (a->id != b->id || a->nullable != b->nullable || !trn__type_equal(a->type, b->type)) return false;
  }
  return true;
}

/* A projection that gives its input as it is: some frontends write it, some do not. */
static bool is_identity(const trn_rel *rel) {
  if (rel->kind != TRN_REL_PROJECT || rel->expr_count != rel->column_count || !is_pass_through(rel)) return false;
  for (uint32_t i = 0; i < rel->expr_count; i++)
    if (rel->exprs[i]->kind != TRN_EXPR_COLUMN || rel->exprs[i]->u.column != rel->columns[i].id) return false;
  return true;
}

static void put_rel(fingerprint *f, const trn_rel *rel) {
  put_int(f, (uint64_t)rel->kind | 0x80 | (uint64_t)rel->input_count << 8 | (uint64_t)rel->expr_count << 32);
  put_rel_payload(f, rel);
  bool is_through = is_pass_through(rel);
  put_int(f, is_through);
  if (is_through) return;
  put_int(f, rel->column_count);
  for (uint32_t i = 0; i < rel->column_count; i++) {
    put_int(f, column_number(f, rel->columns[i].id) << 1 | rel->columns[i].nullable);
    put_type(f, rel->columns[i].type);
  }
}

static bool leave(fingerprint *f) {
  trn_frame frame = f->stack.frames[--f->stack.count];
  digest own;
  trn__blake2b_init(&f->hash);
  if (frame.node.is_rel)
    put_rel(f, frame.node.at);
  else
    put_expr(f, frame.node.at);
  bool is_leaf = f->count == frame.mark; /* cheaper done again than remembered */
  if (!is_leaf) put_bytes(f, f->results + frame.mark, (f->count - frame.mark) * sizeof *f->results);
  trn__blake2b_end(&f->hash, own.bytes);
  f->count = frame.mark;
  if (!is_leaf && (!trn__ptrmap_set(&f->done, frame.node.at, NULL, f->digest_count) ||
                   !digests_push(&f->digests, &f->digest_count, &f->digest_capacity, &own)))
    return false;
  return !f->failed && digests_push(&f->results, &f->count, &f->capacity, &own);
}

/* A column is most of what plans consist of: its digest is its number, unhashed. Its type is where it is made. */
static digest column_digest(fingerprint *f, const trn_expr *expr) {
  digest own = {{0xc0, expr->nullable}};
  uint64_t number = column_number(f, expr->u.column);
  for (unsigned i = 0; i < 8; i++) own.bytes[8 + i] = (uint8_t)(number >> (8 * i));
  return own;
}

static bool enter(fingerprint *f, trn_node node) {
  uint64_t index;
  while (node.is_rel && is_identity(node.at)) node.at = ((const trn_rel *)node.at)->inputs[0];
  if (!node.is_rel && ((const trn_expr *)node.at)->kind == TRN_EXPR_COLUMN) {
    digest own = column_digest(f, node.at);
    return digests_push(&f->results, &f->count, &f->capacity, &own);
  }
  if (trn__ptrmap_get(&f->done, node.at, NULL, &index))
    return digests_push(&f->results, &f->count, &f->capacity, &f->digests[index]);
  return trn__stack_push(&f->stack, node, NULL, f->count) == TRN_OK;
}

/* The recursion is bounded as in put_type. */
static bool holds_instants(const trn_type *type) {
  if (type->id == TRN_TYPE_TIMESTAMP) return true;
  if (type->id < TRN_TYPE_ARRAY || type->id == TRN_TYPE_OTHER) return false;
  for (uint32_t i = 0; i < type->field_count; i++)
    if (holds_instants(type->fields[i].type)) return true;
  return false;
}

/* The zone labels the instants of the result, and nothing else: what has none is the same in every zone. */
static const char *zone_of(const trn_plan *plan) {
  for (uint32_t i = 0; i < plan->field_count; i++)
    if (holds_instants(plan->fields[i].type)) return plan->timezone;
  return NULL;
}

static bool compute(const trn_plan *plan, uint8_t out[16]) {
  fingerprint f = {0};
  trn_node child;
  bool ok = enter(&f, (trn_node){plan->root, true});
  while (ok && f.stack.count) {
    trn_frame *top = &f.stack.frames[f.stack.count - 1];
    ok = trn__node_child(top->node, top->next++, &child) ? enter(&f, child) : leave(&f);
  }
  if (ok) {
    trn__blake2b_init(&f.hash);
    put_bytes(&f, f.results, sizeof *f.results);
    put_text(&f, zone_of(plan));
    for (uint32_t i = 0; i < plan->field_count; i++) {
      put_int(&f, column_number(&f, plan->root->columns[i].id));
      put_text(&f, plan->fields[i].name);
      put_int(&f, plan->fields[i].nullable);
      put_text(&f, plan->fields[i].metadata);
      put_type(&f, plan->fields[i].type);
    }
    trn__blake2b_end(&f.hash, out);
    ok = !f.failed;
  }
  trn__stack_finish(&f.stack);
  trn__ptrmap_finish(&f.done);
  trn__ptrmap_finish(&f.numbers);
  free(f.digests);
  free(f.results);
  return ok;
}

void trn_plan_fingerprint(const trn_plan *plan, uint8_t out[16]) {
  trn_plan *cache = (trn_plan *)plan; /* everything else of it stays as it is */
  if (atomic_load_explicit(&cache->has_fingerprint, memory_order_acquire)) {
    memcpy(out, plan->fingerprint, 16);
    return;
  }
  if (!compute(plan, out)) { /* out of memory: equal to nothing is the safe answer */
    char unique[TRN_UUID_SIZE];
    trn__uuid4(unique);
    memcpy(out, unique, 16);
    memcpy(out + 8, unique + 24, 8);
    return;
  }
  if (atomic_flag_test_and_set(&cache->fingerprint_taken)) return;
  memcpy(cache->fingerprint, out, 16);
  atomic_store_explicit(&cache->has_fingerprint, true, memory_order_release);
}
