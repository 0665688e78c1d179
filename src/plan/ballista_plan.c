/* What differs between Ballista's plans and DataFusion's, and between its versions:
 *
 * - COPY names its file format by a place in Ballista's list of codecs, DataFusion's by a number of its own.
 * - Before 55, UNNEST had `bool preserve_nulls = 1`; now it has `null_handling = 3`, whose default preserves them: an
 * older "false" would silently read as "true".
 *
 * Both can be anywhere in a plan. Their places are found by a walk over the bytes, along the fields that lead to a
 * plan; the rest is never looked at. What changes is a list of edits: of bytes, and of the lengths around them. */
#include "plan/ballista_plan.h"
#include "core/varint.h"

#include <stdlib.h>
#include <trunnion/decoder.h>

#include "core/query.h"
#include "core/registry.h"

/* ---- the fields that lead to a plan ---- */

enum kind {
  NONE = 0,
  PLAN,
  EXPR,
  /* Messages that hold plans and expressions; which fields do is what tells them apart. */
  IN_1,      /* 1 a plan */
  IN_2,      /* 2 a plan */
  IN_3,      /* 3 a plan */
  IN_1_2,    /* 1, 2 plans */
  IN_2_3,    /* 2, 3 plans */
  IN_2_5,    /* 2, 5 plans */
  PROJECT,   /* 1 a plan, 2 expressions */
  AGGREGATE, /* 1 a plan, 2, 3 expressions */
  JOIN,
  SORT,
  REPARTITION,
  SCAN,
  DISTINCT_ON,
  COPY,
  UNNEST,
  SORT_LIST, /* 1 sort expressions */
  SORT_EXPR, /* 1 an expression */
  X_1,       /* 1 expressions */
  X_2,       /* 2 */
  X_4,       /* 4 */
  X_1_2,     /* 1, 2 */
  X_2_3,     /* 2, 3 */
  X_1_3_4,   /* 1, 3, 4 */
  CASE,
  CALL, /* of an aggregate */
  WINDOW,
  SETS, /* 1 lists of expressions */
  SUBQUERY_EXPR,
  SUBQUERY
};

typedef struct step {
  uint8_t from, field, to;
} step;

/* tests/cluster/test_plan_fields.py compares it with the published definition. */
static const step steps[] = {
    {PLAN, 1, SCAN},
    {PLAN, 3, PROJECT},
    {PLAN, 4, PROJECT},
    {PLAN, 5, IN_1},
    {PLAN, 6, AGGREGATE},
    {PLAN, 7, JOIN},
    {PLAN, 8, SORT},
    {PLAN, 9, REPARTITION},
    {PLAN, 12, IN_1},
    {PLAN, 13, PROJECT},
    {PLAN, 14, IN_1},
    {PLAN, 15, IN_1_2},
    {PLAN, 16, X_2},
    {PLAN, 17, IN_2},
    {PLAN, 19, IN_1},
    {PLAN, 21, IN_1},
    {PLAN, 22, IN_2},
    {PLAN, 23, IN_1},
    {PLAN, 24, IN_2},
    {PLAN, 25, X_4},
    {PLAN, 26, IN_3},
    {PLAN, 28, DISTINCT_ON},
    {PLAN, 29, COPY},
    {PLAN, 30, UNNEST},
    {PLAN, 31, IN_2_3},
    {PLAN, 33, IN_2_5},
    {PLAN, 34, X_4},
    {IN_1, 1, PLAN},
    {IN_2, 2, PLAN},
    {IN_3, 3, PLAN},
    {IN_1_2, 1, PLAN},
    {IN_1_2, 2, PLAN},
    {IN_2_3, 2, PLAN},
    {IN_2_3, 3, PLAN},
    {IN_2_5, 2, PLAN},
    {IN_2_5, 5, PLAN},
    {PROJECT, 1, PLAN},
    {PROJECT, 2, EXPR},
    {AGGREGATE, 1, PLAN},
    {AGGREGATE, 2, EXPR},
    {AGGREGATE, 3, EXPR},
    {JOIN, 1, PLAN},
    {JOIN, 2, PLAN},
    {JOIN, 5, EXPR},
    {JOIN, 6, EXPR},
    {JOIN, 8, EXPR},
    {SORT, 1, PLAN},
    {SORT, 2, SORT_EXPR},
    {REPARTITION, 1, PLAN},
    {REPARTITION, 3, X_1},
    {REPARTITION, 4, SORT_LIST},
    {SCAN, 6, EXPR},
    {SCAN, 13, SORT_LIST},
    {DISTINCT_ON, 1, EXPR},
    {DISTINCT_ON, 2, EXPR},
    {DISTINCT_ON, 3, SORT_EXPR},
    {DISTINCT_ON, 4, PLAN},
    {COPY, 1, PLAN},
    {UNNEST, 1, PLAN},
    {SORT_LIST, 1, SORT_EXPR},
    {SORT_EXPR, 1, EXPR},
    {EXPR, 2, X_1},
    {EXPR, 4, X_1},
    {EXPR, 6, X_1},
    {EXPR, 7, X_1},
    {EXPR, 8, X_1},
    {EXPR, 9, X_1_3_4},
    {EXPR, 10, CASE},
    {EXPR, 11, X_1},
    {EXPR, 13, X_1},
    {EXPR, 14, X_1_2},
    {EXPR, 17, X_1},
    {EXPR, 18, WINDOW},
    {EXPR, 19, CALL},
    {EXPR, 20, X_2},
    {EXPR, 22, SETS},
    {EXPR, 23, X_1},
    {EXPR, 24, X_1},
    {EXPR, 25, X_1},
    {EXPR, 26, X_1},
    {EXPR, 27, X_1},
    {EXPR, 28, X_1},
    {EXPR, 29, X_1},
    {EXPR, 30, X_1},
    {EXPR, 31, X_2_3},
    {EXPR, 32, X_2_3},
    {EXPR, 33, X_2_3},
    {EXPR, 35, X_1},
    {EXPR, 36, SUBQUERY_EXPR},
    {EXPR, 37, X_2},
    {EXPR, 38, X_2},
    {X_1, 1, EXPR},
    {X_2, 2, EXPR},
    {X_4, 4, EXPR},
    {X_1_2, 1, EXPR},
    {X_1_2, 2, EXPR},
    {X_2_3, 2, EXPR},
    {X_2_3, 3, EXPR},
    {X_1_3_4, 1, EXPR},
    {X_1_3_4, 3, EXPR},
    {X_1_3_4, 4, EXPR},
    {CASE, 1, EXPR},
    {CASE, 2, X_1_2},
    {CASE, 3, EXPR},
    {CALL, 2, EXPR},
    {CALL, 3, EXPR},
    {CALL, 4, SORT_EXPR},
    {WINDOW, 4, EXPR},
    {WINDOW, 5, EXPR},
    {WINDOW, 6, SORT_EXPR},
    {WINDOW, 13, EXPR},
    {SETS, 1, X_1},
    {SUBQUERY_EXPR, 1, SUBQUERY},
    {SUBQUERY, 1, PLAN},
    {SUBQUERY, 2, EXPR},
};

static enum kind step_to(enum kind from, uint64_t field) {
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
    if (steps[i].from == from && steps[i].field == field) return (enum kind)steps[i].to;
  return NONE;
}

/* ---- protobuf ---- */

enum { SCAN_FIELD = 1, COPY_FORMAT_FIELD = 3, UNNEST_OPTIONS_FIELD = 7, EXPLAIN_FIELD = 12, COPY_FIELD = 29, DML_FIELD = 33 };

static bool read_varint(const uint8_t *bytes, size_t *at, size_t end, uint64_t *out) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (*at == end) return false;
    uint8_t byte = bytes[(*at)++];
    value |= (uint64_t)(byte & 127) << shift;
    if (!(byte & 128)) {
      *out = value;
      return true;
    }
  }
  return false;
}

/* One field: where it begins, its length's first byte, its value; what is no length-delimited one has no value but in
 * `number`. */
typedef struct field {
  uint64_t id, number;
  bool is_bytes;
  size_t start, size_at, at, end;
} field;

static bool next_field(const uint8_t *bytes, size_t *at, size_t end, field *out) {
  uint64_t tag, size;
  *out = (field){.start = *at};
  if (!read_varint(bytes, at, end, &tag)) return false;
  out->id = tag >> 3;
  switch (tag & 7) {
  case 0: return read_varint(bytes, at, end, &out->number);
  case 1:
  case 5: {
    size_t fixed = (tag & 7) == 1 ? 8 : 4;
    if (end - *at < fixed) return false;
    *at += fixed;
    return true;
  }
  case 2: break;
  default: return false;
  }
  out->size_at = *at;
  if (!read_varint(bytes, at, end, &size) || size > end - *at) return false;
  out->is_bytes = true;
  out->at = *at;
  out->end = *at += size;
  return true;
}

/* ---- edits ---- */

typedef struct edit {
  size_t at, remove, insert;
  uint8_t bytes[TRN_VARINT_SIZE_MAX];
} edit;

typedef struct rewriter {
  const uint8_t *bytes;
  bool is_older;
  unsigned root_depth; /* where a plan may write: at the root, or below EXPLAIN */
  edit *edits;         /* by place */
  size_t count, capacity;
  trn_status status;
  trn_error **error;
} rewriter;

/* Index of a new edit, to be filled in. */
static size_t edit_add(rewriter *r, edit e) {
  if (r->count == r->capacity) {
    size_t capacity = r->capacity ? 2 * r->capacity : 16;
    edit *grown = realloc(r->edits, capacity * sizeof *grown);
    if (!grown) {
      r->status = trn__no_memory(r->error);
      return 0;
    }
    r->edits = grown;
    r->capacity = capacity;
  }
  r->edits[r->count] = e;
  return r->count++;
}

/* ---- the two places ---- */

/* Places in Ballista's list of codecs (parquet, csv, json, arrow, avro), as DataFusion's FileFormatKind. */
static const uint8_t format_kinds[] = {3, 1, 2, 4, 5};

/* Gives by how much the message grows. */
static int64_t copy_format(rewriter *r, size_t at, size_t end) {
  field f, last = {.start = at};
  size_t removed = 0;
  uint64_t place = 0;
  for (size_t next = at; next < end;) {
    if (!next_field(r->bytes, &next, end, &f)) return 0;
    if (f.id != 1 || f.is_bytes) continue;
    last = f;
    removed = next - f.start;
    place = f.number;
  }
  if (place >= sizeof format_kinds) {
    r->status =
        trn_error_set(r->error, TRN_INVALID_ARGUMENT, "PLAN_MALFORMED",
                      "COPY to file format number %llu, which is none of Ballista's", (unsigned long long)place);
    return 0;
  }
  edit_add(r, (edit){.at = last.start, .remove = removed, .insert = 2, .bytes = {0x08, format_kinds[place]}});
  return 2 - (int64_t)removed;
}

static int64_t unnest_options(rewriter *r, size_t at, size_t end) {
  field f;
  bool preserves = false;
  for (size_t next = at; next < end;) {
    if (!next_field(r->bytes, &next, end, &f)) return 0;
    if (f.id == 1 && !f.is_bytes) preserves = f.number != 0;
    if (f.id == 3) return 0;
  }
  if (preserves) return 0;
  edit_add(r, (edit){.at = end, .insert = 2, .bytes = {0x18, 1}}); /* null_handling = DROP */
  return 2;
}

/* ---- the walk ---- */

enum { WALK_DEPTH_MAX = 512 }; /* decoders stop at 100 */

/* Nodes of LogicalPlanNode that do something: only whoever executes them at the root knows of it. */
static const struct writer {
  uint64_t field;
  const char *name;
} writers[] = {{11, "CREATE EXTERNAL TABLE"},
               {18, "CREATE SCHEMA"},
               {20, "CREATE DATABASE"},
               {22, "CREATE VIEW"},
               {27, "DROP VIEW"},
               {COPY_FIELD, "COPY"},
               {DML_FIELD, "INSERT, UPDATE or DELETE"}};

/* Inside another plan it would be taken for a query. */
static void refuse_writers(rewriter *r, uint64_t field) {
  for (size_t i = 0; i < sizeof writers / sizeof *writers; i++)
    if (writers[i].field == field)
      r->status = trn_error_set(r->error, TRN_INVALID_ARGUMENT, "PLAN_MALFORMED",
                                "%s is inside another plan; it is a statement of its own", writers[i].name);
}

static int64_t walk(rewriter *r, enum kind kind, size_t at, size_t end, unsigned depth) {
  bool is_root = kind == PLAN && depth == r->root_depth;
  int64_t grown = 0;
  field f;
  while (at < end && !r->status) {
    if (!next_field(r->bytes, &at, end, &f)) return grown;
    if (is_root)
      r->root_depth = f.id == EXPLAIN_FIELD && f.is_bytes ? depth + 2 : depth;
    else if (kind == PLAN && f.is_bytes)
      refuse_writers(r, f.id);
    if (r->status) break;
    enum kind to = f.is_bytes ? step_to(kind, f.id) : NONE;
    bool is_format = f.is_bytes && kind == COPY && f.id == COPY_FORMAT_FIELD;
    bool is_options = f.is_bytes && kind == UNNEST && f.id == UNNEST_OPTIONS_FIELD && r->is_older;
    if ((to == NONE && !is_format && !is_options) || depth == WALK_DEPTH_MAX) continue;
    size_t mine = edit_add(r, (edit){.at = f.size_at});
    if (r->status) break;
    int64_t inner = is_format    ? copy_format(r, f.at, f.end)
                    : is_options ? unnest_options(r, f.at, f.end)
                                 : walk(r, to, f.at, f.end, depth + 1);
    if (r->count == mine + 1) { /* nothing changes in there */
      r->count = mine;
      continue;
    }
    edit *length = &r->edits[mine];
    length->remove = f.at - f.size_at;
    uint8_t *end = trn__varint_put(length->bytes, (uint64_t)((int64_t)(f.end - f.at) + inner));
    length->insert = (size_t)(end - length->bytes);
    grown += inner + (int64_t)length->insert - (int64_t)length->remove;
  }
  if (is_root) r->root_depth = depth;
  return grown;
}

trn_status trn__ballista_plan(const void *data, size_t size, bool is_older, trn_strbuf *out, bool *changed,
                              trn_error **error) {
  rewriter r = {.bytes = data, .is_older = is_older, .error = error};
  walk(&r, PLAN, 0, size, 0);
  size_t at = 0;
  for (size_t i = 0; i < r.count && !r.status; i++) {
    const edit *e = &r.edits[i];
    trn__strbuf_add(out, r.bytes + at, e->at - at);
    trn__strbuf_add(out, e->bytes, e->insert);
    at = e->at + e->remove;
  }
  *changed = r.count > 0 && !r.status;
  if (*changed) trn__strbuf_add(out, r.bytes + at, size - at);
  free(r.edits);
  if (!r.status && out->failed) r.status = trn__no_memory(error);
  return r.status;
}

/* The one of LogicalPlanNode's members that counts. */
static bool read_root(const uint8_t *bytes, size_t size, field *out) {
  field f;
  *out = (field){0};
  for (size_t at = 0; at < size;) {
    if (!next_field(bytes, &at, size, &f)) return false;
    if (f.is_bytes) *out = f; /* of a oneof the last counts */
  }
  return out->id != 0;
}

static trn_str value_of(const uint8_t *bytes, const field *f) {
  return (trn_str){(const char *)bytes + f->at, f->end - f->at};
}

bool trn__ballista_field(trn_str message, size_t *at, trn_ballista_field *out) {
  const uint8_t *bytes = (const uint8_t *)message.data;
  field f;
  *out = (trn_ballista_field){0};
  if (*at >= message.size || !next_field(bytes, at, message.size, &f)) return false;
  *out = (trn_ballista_field){.id = f.id, .number = f.number, .is_bytes = f.is_bytes};
  if (f.is_bytes) out->bytes = value_of(bytes, &f);
  return true;
}

static void put_partition(trn_ballista_write *out, trn_str name) {
  if (out->partition_count < TRN_BALLISTA_PARTITIONS_MAX) out->partition_by[out->partition_count] = name;
  out->partition_count++;
}

/* CopyToNode. */
static void read_copy(trn_str message, trn_ballista_write *out) {
  trn_ballista_field f;
  trn_str format = {"", 0};
  for (size_t at = 0; trn__ballista_field(message, &at, &f);) {
    if (!f.is_bytes) continue;
    if (f.id == 1) out->input = f.bytes;
    if (f.id == 2) out->location = f.bytes;
    if (f.id == COPY_FORMAT_FIELD) format = f.bytes;
    if (f.id == 7) put_partition(out, f.bytes);
  }
  for (size_t at = 0; trn__ballista_field(format, &at, &f);) {
    if (f.id == 1 && !f.is_bytes) out->format = f.number;
    if (f.id == 2 && f.is_bytes) out->options = f.bytes;
  }
}

/* The last field of a message that has this number. */
static trn_str inner(trn_str message, uint64_t id) {
  trn_ballista_field f;
  trn_str found = {"", 0};
  for (size_t at = 0; trn__ballista_field(message, &at, &f);)
    if (f.id == id && f.is_bytes) found = f.bytes;
  return found;
}

/* ListingTableScanNode: a table is where its files are. */
static void read_listing(trn_str message, trn_ballista_write *out) {
  /* In the order of Ballista's list: the scan's field, and in its message that of the options. */
  static const uint8_t formats[][2] = {{11, 2}, {10, 5}, {15, 1}, {16, 1}, {12, 1}};
  trn_ballista_field f;
  for (size_t at = 0; trn__ballista_field(message, &at, &f);) {
    if (!f.is_bytes) continue;
    if (f.id == 2) out->location = f.bytes, out->location_count++;
    if (f.id == 3) out->file_extension = f.bytes;
    if (f.id == 7) put_partition(out, inner(f.bytes, 1));
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
      if (f.id == formats[i][0]) out->format = i, out->options = inner(f.bytes, formats[i][1]);
  }
}

/* TableReference: {bare {table = 1}}, {partial {schema, table = 2}}, {full {catalog, schema, table = 3}}. */
static trn_str name_of(trn_str reference) {
  trn_ballista_field f;
  trn_str name = {"", 0};
  for (size_t at = 0; trn__ballista_field(reference, &at, &f);)
    if (f.is_bytes && f.id <= 3) name = inner(f.bytes, f.id);
  return name;
}

/* DmlNode. */
static void read_insert(trn_str message, trn_ballista_write *out) {
  trn_ballista_field f;
  out->is_insert = true;
  for (size_t at = 0; trn__ballista_field(message, &at, &f);) {
    if (f.id == 1 && !f.is_bytes) out->operation = f.number;
    if (f.id == 2 && f.is_bytes) out->input = f.bytes;
    if (f.id == 3 && f.is_bytes) out->table = name_of(f.bytes);
    if (f.id != 5 || !f.is_bytes) continue;
    field scan;
    if (read_root((const uint8_t *)f.bytes.data, f.bytes.size, &scan) && scan.id == SCAN_FIELD)
      read_listing(value_of((const uint8_t *)f.bytes.data, &scan), out);
  }
}

bool trn__ballista_written(const void *data, size_t size, trn_ballista_write *out) {
  field root;
  const trn_str none = {"", 0};
  *out = (trn_ballista_write){
      .input = none, .location = none, .options = none, .table = none, .file_extension = none};
  if (!read_root(data, size, &root)) return false;
  if (root.id == COPY_FIELD) read_copy(value_of(data, &root), out);
  if (root.id == DML_FIELD) read_insert(value_of(data, &root), out);
  return out->is_insert || (out->input.size && out->location.size);
}

bool trn__ballista_explained(const void *data, size_t size, trn_str *inner) {
  const uint8_t *bytes = data;
  field f, explain;
  if (!read_root(bytes, size, &explain) || explain.id != EXPLAIN_FIELD) return false;
  *inner = (trn_str){"", 0};
  for (size_t at = explain.at; at < explain.end;) {
    if (!next_field(bytes, &at, explain.end, &f)) return false;
    if (f.id == 1 && f.is_bytes) *inner = value_of(bytes, &f);
  }
  return inner->size > 0;
}

/* ---- the decoder ---- */

/* thread: worker */
static trn_status decode(void *self, trn_session *session, const trn_plan_input *input, trn_plan **out,
                         trn_error **error) {
  bool is_older = false, changed = false;
  trn_strbuf bytes = {0};
  trn_plan_input plain = *input;
  (void)self;
  for (size_t i = 0; i < input->option_count; i++)
    if (strcmp(input->options[i].key, TRN_BALLISTA_CLIENT_OPTION) == 0)
      is_older = input->options[i].value && strcmp(input->options[i].value, "54") == 0;
  trn_status status = trn__ballista_plan(input->data, input->size, is_older, &bytes, &changed, error);
  plain.format = "datafusion.logical.v1";
  plain.options = NULL;
  plain.option_count = 0;
  if (changed) {
    plain.data = bytes.data;
    plain.size = bytes.size;
  }
  if (!status) status = trn_backend_decode(session, &plain, out, error);
  trn__strbuf_finish(&bytes);
  return status;
}

trn_status trn__ballista_decoder_register(trn_registry *registry) {
  static const trn_decoder_ops ops = {.struct_size = sizeof ops, .decode = decode};
  return trn_registry_add_decoder(registry, "ballista.logical.v1", &ops, NULL, NULL);
}
