/* collect_list and collect_set: a group's values one after the other, encoded; a set knows them by hash. Nulls are left
 * out; the result of no values is an empty list. Aggregates that need all values at once (percentile, mode, ...) are
 * lists too, until a scalar function of the list and of the call's literal arguments makes the result of it. */
#include "functions/aggregate.h"
#include "functions/rowcodec.h"
#include <stdlib.h>
#include <string.h>

typedef struct bag {
  fn_bytes values;
  uint32_t count;
  uint32_t *table; /* sets: where values start, plus one; open addressing, at most half full */
  uint32_t table_size;
} bag;

typedef struct collect_state {
  const trn_aggregate_function *function;
  struct ArrowSchema schema; /* of the element */
  fn_groups groups;          /* of bag */
  fn_bytes scratch;
  size_t bytes;
  size_t literal_count; /* of a finished list: what the scalar function takes after the list */
  struct ArrowSchema literal_types[FN_AGGREGATE_ARGS_MAX];
  struct ArrowArray literals[FN_AGGREGATE_ARGS_MAX];
} collect_state;

/* data of collect_list: NULL; of collect_set: &SET; of the rest: the fn_scalar of the list. */
static const char SET = 1;

static bool is_set(const trn_aggregate_function *function) {
  return function->data == &SET;
}

static const fn_scalar *finish_of(const trn_aggregate_function *function) {
  return is_set(function) ? NULL : function->data;
}

static trn_status open_collect(const trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                               int64_t rows, trn_function_error *error, fn_agg_call *call) {
  trn_status status = fn__agg_open(function->name, args, count, false, rows, error, call);
  if (status == TRN_OK && call->count != 1 && !finish_of(function)) {
    error->fail(error->self, TRN_INVALID_ARGUMENT, NULL, "collect takes one argument");
    status = TRN_INVALID_ARGUMENT;
  }
  return status;
}

static trn_status list_schema(const struct ArrowSchema *element, const char *name, struct ArrowSchema *out) {
  struct ArrowSchema child;
  trn_status status = fn__schema_copy(&child, element, "element", false);
  return status == TRN_OK ? fn__schema_nest(out, "+l", name, false, &child, 1) : status;
}

static trn_status collect_bind(const trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                               struct ArrowSchema *out, trn_function_error *error) {
  fn_agg_call call;
  struct ArrowSchema list;
  memset(out, 0, sizeof *out);
  trn_status status = open_collect(function, args, count, 0, error, &call);
  const fn_scalar *finish = finish_of(function);
  if (status != TRN_OK || !finish) return status == TRN_OK ? list_schema(args[0].type, "", out) : status;
  if (list_schema(args[0].type, "", &list) != TRN_OK) return fn__raise_out_of_memory(&call.report);
  trn_function_arg all[FN_AGGREGATE_ARGS_MAX] = {{.type = &list}};
  for (size_t i = 1; i < count; i++) all[i] = args[i];
  trn_scalar_function scalar = {.name = finish->name, .data = finish};
  status = fn__bind(&scalar, all, count, out, error);
  list.release(&list);
  return status;
}

static trn_status collect_state_types(const trn_aggregate_function *function, const trn_function_arg *args,
                                      size_t count, struct ArrowSchema *out, size_t *state_count,
                                      trn_function_error *error) {
  fn_agg_call call;
  *state_count = 0;
  trn_status status = open_collect(function, args, count, 0, error, &call);
  if (status == TRN_OK) status = list_schema(args[0].type, "values", out);
  *state_count = status == TRN_OK;
  return status;
}

static void clear_bag(bag *b) {
  fn__bytes_clear(&b->values);
  free(b->table);
  *b = (bag){0};
}

static void collect_destroy(void *self) {
  collect_state *state = self;
  if (!state) return;
  for (size_t g = 0; g < state->groups.count; g++) clear_bag(&((bag *)state->groups.data)[g]);
  free(state->groups.data);
  fn__bytes_clear(&state->scratch);
  if (state->schema.release) state->schema.release(&state->schema);
  for (size_t i = 0; i < state->literal_count; i++) {
    if (state->literal_types[i].release) state->literal_types[i].release(&state->literal_types[i]);
    if (state->literals[i].release) state->literals[i].release(&state->literals[i]);
  }
  free(state);
}

/* False: no memory, or the argument is no literal. */
static bool keep_literal(collect_state *state, const trn_function_arg *arg) {
  static const int64_t FIRST[1] = {0};
  size_t i = state->literal_count;
  if (!arg->array || arg->array->length < 1) return false;
  if (fn__schema_copy(&state->literal_types[i], arg->type, "", true) != TRN_OK) return false;
  state->literal_count++;
  return fn__take(arg->type, arg->array, FIRST, 1, &state->literals[i]) == TRN_OK;
}

static trn_status collect_create(const trn_aggregate_function *function, const trn_function_arg *args, size_t count,
                                 void **out, trn_function_error *error) {
  fn_agg_call call;
  *out = NULL;
  trn_status status = open_collect(function, args, count, 0, error, &call);
  collect_state *state = status == TRN_OK ? calloc(1, sizeof *state) : NULL;
  if (!state) return status == TRN_OK ? fn__raise_out_of_memory(&call.report) : status;
  state->function = function;
  state->groups.width = sizeof(bag);
  bool good = fn__schema_copy(&state->schema, args[0].type, "element", false) == TRN_OK;
  for (size_t i = 1; i < count && good; i++) good = keep_literal(state, &args[i]);
  if (!good) {
    collect_destroy(state);
    return fn__raise_out_of_memory(&call.report);
  }
  *out = state;
  return TRN_OK;
}

/* In the table every value has its size in front: set values are framed. */
static bool grow_table(bag *b) {
  uint32_t size = b->table_size ? b->table_size * 2 : 16;
  uint32_t *table = calloc(size, sizeof *table);
  if (!table) return false;
  for (size_t at = 0; at < b->values.size;) {
    uint32_t length;
    memcpy(&length, b->values.data + at, sizeof length);
    uint64_t slot = fn__bytes_hash(b->values.data + at + sizeof length, length) & (size - 1);
    while (table[slot]) slot = (slot + 1) & (size - 1);
    table[slot] = (uint32_t)at + 1;
    at += sizeof length + length;
  }
  free(b->table);
  b->table = table;
  b->table_size = size;
  return true;
}

/* Adds the encoded value; a set only when it is new. False: no memory, or the group is beyond 4 GiB. */
static bool add_value(bag *b, const fn_bytes *value, bool set) {
  uint32_t length = (uint32_t)value->size;
  if (value->size > INT32_MAX || b->values.size + value->size + 8 > UINT32_MAX || b->count == INT32_MAX) return false;
  if (set) {
    if ((b->count + 1) * 2 > b->table_size && !grow_table(b)) return false;
    uint64_t slot = fn__bytes_hash(value->data, length) & (b->table_size - 1);
    for (; b->table[slot]; slot = (slot + 1) & (b->table_size - 1)) {
      const char *known = b->values.data + b->table[slot] - 1;
      uint32_t known_length;
      memcpy(&known_length, known, sizeof known_length);
      if (known_length == length && memcmp(known + sizeof length, value->data, length) == 0) return true;
    }
    b->table[slot] = (uint32_t)b->values.size + 1;
  }
  if (!fn__bytes_append(&b->values, &length, sizeof length) || !fn__bytes_append(&b->values, value->data, length))
    return false;
  b->count++;
  return true;
}

static bool add_row(collect_state *state, size_t group, const fn_column *column, int64_t row) {
  bag *b = &((bag *)state->groups.data)[group];
  size_t before = b->values.capacity + b->table_size * sizeof(uint32_t);
  state->scratch.size = 0;
  bool good = fn__encode(column, row, is_set(state->function), &state->scratch) &&
              add_value(b, &state->scratch, is_set(state->function));
  state->bytes += b->values.capacity + b->table_size * sizeof(uint32_t) - before;
  return good;
}

static trn_status collect_update(void *self, const trn_function_arg *args, size_t count, int64_t rows,
                                 const size_t *groups, const uint8_t *filter, size_t group_count,
                                 trn_function_error *error) {
  collect_state *state = self;
  fn_agg_call call;
  trn_status status = open_collect(state->function, args, count, rows, error, &call);
  if (status != TRN_OK) return status;
  bool good = fn__groups_grow(&state->groups, group_count);
  for (int64_t row = 0; row < rows && good; row++)
    if (!fn__skip(&call.columns[0], filter, row)) good = add_row(state, groups[row], &call.columns[0], row);
  return good ? TRN_OK : fn__raise_out_of_memory(&call.report);
}

static trn_status collect_merge(void *self, const struct ArrowArray *const *states, size_t count, int64_t rows,
                                const size_t *groups, size_t group_count, trn_function_error *error) {
  collect_state *state = self;
  fn_report report = {error, -1};
  fn_column list, child;
  struct ArrowSchema schema;
  if (count != 1) return TRN_INVALID_ARGUMENT;
  trn_status status = list_schema(&state->schema, "", &schema);
  if (status != TRN_OK) return fn__raise_out_of_memory(&report);
  status = fn__column_open(&schema, states[0], false, &list);
  if (status == TRN_OK) status = fn__column_child(&list, 0, &child);
  if (status == TRN_OK && !fn__groups_grow(&state->groups, group_count)) status = fn__raise_out_of_memory(&report);
  for (int64_t row = 0; row < rows && status == TRN_OK; row++) {
    if (fn__is_null(&list, row)) continue;
    for (int32_t i = list.offsets[row]; i < list.offsets[row + 1] && status == TRN_OK; i++)
      if (!add_row(state, groups[row], &child, i)) status = fn__raise_out_of_memory(&report);
  }
  schema.release(&schema);
  return status;
}

static trn_status collect_lists(void *self, size_t emit, struct ArrowArray *out, trn_function_error *error) {
  collect_state *state = self;
  fn_report report = {error, -1};
  fn_sink sink;
  fn_builder builder;
  fn_type type = fn__type(FN_LIST);
  struct ArrowArray child;
  memset(out, 0, sizeof *out);
  if (!fn__groups_grow(&state->groups, emit) || !fn__sink_init(&sink, &state->schema))
    return fn__raise_out_of_memory(&report);
  if (!fn__builder_init(&builder, &type, (int64_t)emit)) {
    fn__sink_clear(&sink);
    return fn__raise_out_of_memory(&report);
  }
  for (size_t g = 0; g < emit; g++) {
    const bag *b = &((const bag *)state->groups.data)[g];
    for (size_t at = 0; at < b->values.size;) {
      uint32_t length;
      memcpy(&length, b->values.data + at, sizeof length);
      const char *value = b->values.data + at + sizeof length;
      fn__sink_put(&sink, &value);
      at += sizeof length + length;
    }
    fn__push_list(&builder, sink.rows);
  }
  if (fn__sink_finish(&sink, &child) != TRN_OK) {
    fn__builder_clear(&builder);
    return fn__raise_out_of_memory(&report);
  }
  fn__add_child(&builder, &child);
  if (fn__builder_finish(&builder, out) != TRN_OK) return fn__raise_out_of_memory(&report);
  for (size_t g = 0; g < emit; g++) {
    bag *b = &((bag *)state->groups.data)[g];
    state->bytes -= b->values.capacity + b->table_size * sizeof(uint32_t);
    clear_bag(b);
  }
  fn__groups_drop(&state->groups, emit);
  return TRN_OK;
}

static trn_status collect_evaluate(void *self, size_t emit, struct ArrowArray *out, trn_function_error *error) {
  collect_state *state = self;
  const fn_scalar *finish = finish_of(state->function);
  fn_report report = {error, -1};
  struct ArrowArray lists;
  struct ArrowSchema schema;
  if (!finish) return collect_lists(self, emit, out, error);
  memset(out, 0, sizeof *out);
  trn_status status = collect_lists(self, emit, &lists, error);
  if (status != TRN_OK) return status;
  if (list_schema(&state->schema, "", &schema) != TRN_OK) {
    lists.release(&lists);
    return fn__raise_out_of_memory(&report);
  }
  trn_function_arg args[FN_AGGREGATE_ARGS_MAX] = {{.type = &schema, .array = &lists}};
  for (size_t i = 0; i < state->literal_count; i++)
    args[i + 1] = (trn_function_arg){&state->literal_types[i], &state->literals[i], true};
  trn_scalar_function scalar = {.name = finish->name, .data = finish};
  status = fn__evaluate(&scalar, args, 1 + state->literal_count, (int64_t)emit, out, error);
  schema.release(&schema);
  lists.release(&lists);
  return status;
}

static size_t collect_memory(const void *self) {
  const collect_state *state = self;
  return sizeof *state + state->groups.capacity * sizeof(bag) + state->bytes;
}

#define COLLECT(sql_name, data)                                                                                        \
  {                                                                                                                    \
    sizeof(trn_aggregate_function), sql_name, collect_bind, collect_state_types, collect_create, collect_update,       \
        collect_merge, collect_evaluate, collect_lists, collect_memory, collect_destroy, data                          \
  }
const trn_aggregate_function fn__agg_collect_list = COLLECT("trn.collect_list", NULL);
const trn_aggregate_function fn__agg_collect_set = COLLECT("trn.collect_set", &SET);

trn_aggregate_function fn__agg_of_list(const fn_scalar *finish) {
  return (trn_aggregate_function)COLLECT(finish->name, finish);
}
