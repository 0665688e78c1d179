/* Statements that write rows: the plan that writes, and the operation that commits when its counts are read. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "arrow/arrow_util.h"
#include "catalog/command.h"
#include "catalog/directory_write.h"
#include "catalog/warehouse.h"
#include "plan/plan.h"

/* ---- the plan ---- */

typedef struct planning {
  trn_arena *arena;
  trn_plan *plan;
  const trn_table_info *table;
  const trn_command *command;
  const trn_write_target *write;
  trn_error **error;
  uint32_t next;
  const trn_expr **exprs; /* the table's columns, then the texts of partition columns */
  const char **names;
  uint32_t *places;
  size_t count;
} planning;

static void drop_plan(void *plan) {
  trn_plan_unref(plan);
}

static const char *static_value(const planning *p, const char *name, bool *found) {
  *found = false;
  for (size_t i = 0; i < p->command->partition_count; i++)
    if (strcmp(p->command->partition[i].key, name) == 0) {
      *found = true;
      return p->command->partition[i].value;
    }
  return NULL;
}

/* The place of a table's column in the plan's rows; SIZE_MAX: it is not among them. */
static size_t place_of(const planning *p, const char *name, size_t index) {
  bool is_static = false;
  static_value(p, name, &is_static);
  if (is_static) return SIZE_MAX;
  for (size_t i = 0; i < p->command->column_count; i++)
    if (strcmp(p->command->columns[i], name) == 0) return i;
  if (p->command->column_count) return SIZE_MAX;
  size_t place = 0;
  for (size_t i = 0; i < index; i++) {
    static_value(p, p->table->schema->children[i]->name, &is_static);
    place += !is_static;
  }
  return place;
}

static trn_status cast_to(planning *p, const trn_expr *value, const trn_type *type, const trn_expr **out) {
  bool same = value->type == type || trn__type_equal(value->type, type);
  *out = same ? value : trn__expr_cast(p->arena, value, type, false);
  return *out ? TRN_OK : trn__no_memory(p->error);
}

static trn_status column(planning *p, size_t index, const trn_field *field, const trn_expr **out) {
  const trn_rel *root = p->plan->root;
  bool is_static = false;
  const char *text = static_value(p, field->name, &is_static);
  size_t place = place_of(p, field->name, index);
  if (place != SIZE_MAX && place >= root->column_count)
    return trn_error_set(p->error, TRN_INVALID_ARGUMENT, NULL, "The rows for %s have %u columns, too few",
                         p->table->name, root->column_count);
  if (place == SIZE_MAX && !is_static && !field->nullable)
    return trn_error_set(p->error, TRN_INVALID_ARGUMENT, NULL, "The column %s of %s cannot be null, and gets no value",
                         field->name, p->table->name);
  const trn_expr *value = place != SIZE_MAX  ? trn__expr_column(p->arena, &root->columns[place])
                          : is_static && text ? trn__expr_string(p->arena, text, strlen(text))
                                              : trn__expr_null(p->arena, field->type);
  return value ? cast_to(p, value, field->type, out) : trn__no_memory(p->error);
}

/* What the engine's cast to text gives is what directories are named by, but for these. */
static trn_status partition_text(planning *p, const trn_expr *value, const char *name, const trn_expr **out) {
  switch (value->type->id) {
  case TRN_TYPE_FLOAT32:
  case TRN_TYPE_FLOAT64:
  case TRN_TYPE_BINARY:
  case TRN_TYPE_TIMESTAMP:
  case TRN_TYPE_TIMESTAMP_NTZ:
  case TRN_TYPE_ARRAY:
  case TRN_TYPE_MAP:
  case TRN_TYPE_STRUCT:
    return trn_error_set(p->error, TRN_UNIMPLEMENTED, NULL,
                         "The column %s has a type that this statement cannot partition by", name);
  default: break;
  }
  const trn_expr *text = NULL;
  trn_status status = cast_to(p, value, trn__type(TRN_TYPE_STRING), &text);
  if (status) return status;
  trn_expr *empty = trn__expr_string(p->arena, "", 0);
  trn_expr *none = trn__expr_string(p->arena, TRN_NULL_PARTITION, strlen(TRN_NULL_PARTITION));
  const trn_expr *both[] = {text, empty};
  const trn_type *boolean = trn__type(TRN_TYPE_BOOL);
  trn_expr *is_null = trn__expr_call(p->arena, TRN_HOME_NATIVE, "is_null", boolean, false, &text, 1);
  trn_expr *is_empty = empty ? trn__expr_call(p->arena, TRN_HOME_NATIVE, "=", boolean, true, both, 2) : NULL;
  if (!none || !is_null || !is_empty) return trn__no_memory(p->error);
  const trn_expr *args[] = {is_null, none, is_empty, none, text};
  *out = trn__expr_create(p->arena, TRN_EXPR_CASE, trn__type(TRN_TYPE_STRING), false, args, 5);
  return *out ? TRN_OK : trn__no_memory(p->error);
}

static size_t column_index(const struct ArrowSchema *schema, const char *name) {
  for (int64_t i = 0; i < schema->n_children; i++)
    if (strcmp(schema->children[i]->name, name) == 0) return (size_t)i;
  return SIZE_MAX;
}

static trn_status check_columns(const planning *p) {
  for (size_t i = 0; i < p->command->column_count; i++)
    if (column_index(p->table->schema, p->command->columns[i]) == SIZE_MAX)
      return trn_error_set(p->error, TRN_NOT_FOUND, NULL, "The table %s has no column %s", p->table->name,
                           p->command->columns[i]);
  for (size_t i = 0; i < p->command->partition_count; i++) {
    size_t k = 0;
    while (k < p->table->partition_column_count &&
           strcmp(p->table->partition_columns[k], p->command->partition[i].key) != 0)
      k++;
    if (k == p->table->partition_column_count)
      return trn_error_set(p->error, TRN_INVALID_ARGUMENT, NULL, "%s is no partition column of %s",
                           p->command->partition[i].key, p->table->name);
  }
  size_t given = 0;
  for (int64_t i = 0; i < p->table->schema->n_children; i++)
    given += place_of(p, p->table->schema->children[i]->name, (size_t)i) != SIZE_MAX;
  if (given == p->plan->root->column_count) return TRN_OK;
  return trn_error_set(p->error, TRN_INVALID_ARGUMENT, NULL, "The rows for %s have %u columns, not %zu", p->table->name,
                       p->plan->root->column_count, given);
}

/* Levels of directories, of columns that are there already. */
static trn_status put_levels(planning *p, size_t own) {
  trn_status status = TRN_OK;
  p->count = own;
  for (size_t i = 0; !status && i < p->write->partition_column_count; i++) {
    const char *name = p->write->partition_columns[i];
    size_t source = 0, before = 0;
    while (source < own && strcmp(p->names[source], name) != 0) source++;
    while (strcmp(p->write->partition_columns[before], name) != 0) before++;
    if (source == own)
      return trn_error_set(p->error, TRN_INVALID_ARGUMENT, NULL, "The partition column %s is no column", name);
    if (before < i)
      return trn_error_set(p->error, TRN_INVALID_ARGUMENT, NULL, "%s is a partition column twice", name);
    /* Files that keep the column have it under its name: the level has another, which is not used. */
    size_t at = p->write->keeps_partition_columns ? p->count++ : source;
    p->names[at] = p->write->keeps_partition_columns ? trn__arena_printf(p->arena, "partition %zu", i) : p->names[at];
    p->places[i] = (uint32_t)at;
    if (!p->names[at]) return trn__no_memory(p->error);
    status = partition_text(p, p->exprs[source], p->names[source], &p->exprs[at]);
  }
  if (!status && !p->table && !p->write->keeps_partition_columns && own && p->write->partition_column_count == own)
    return trn_error_set(p->error, TRN_INVALID_ARGUMENT, NULL, "No column is left for files: all are partition columns");
  return status;
}

static bool make_columns(planning *p, size_t own) {
  size_t levels = p->write->partition_column_count;
  p->exprs = TRN_NEW_N(p->arena, const trn_expr *, own + levels);
  p->names = TRN_NEW_N(p->arena, const char *, own + levels);
  p->places = TRN_NEW_N(p->arena, uint32_t, levels);
  return p->exprs && p->names && p->places;
}

static trn_status columns_of_table(planning *p) {
  const struct ArrowSchema *schema = p->table->schema;
  size_t own = (size_t)schema->n_children;
  if (!make_columns(p, own)) return trn__no_memory(p->error);
  trn_status status = check_columns(p);
  for (size_t i = 0; !status && i < own; i++) {
    trn_field field;
    status = trn__field_import_any(p->arena, schema->children[i], &field, p->error);
    p->names[i] = field.name;
    if (!status) status = column(p, i, &field, &p->exprs[i]);
  }
  return status ? status : put_levels(p, own);
}

/* COPY: the columns are the plan's. */
static trn_status columns_of_plan(planning *p) {
  size_t own = p->plan->root->column_count;
  if (!make_columns(p, own)) return trn__no_memory(p->error);
  for (size_t i = 0; i < own; i++) {
    p->exprs[i] = trn__expr_column(p->arena, &p->plan->root->columns[i]);
    p->names[i] = trn__arena_strdup(p->arena, p->plan->fields[i].name);
    if (!p->exprs[i] || !p->names[i]) return trn__no_memory(p->error);
  }
  return put_levels(p, own);
}

static trn_status write_root(planning *p, const trn_rel **out) {
  trn_column *columns = TRN_NEW_N(p->arena, trn_column, p->count);
  trn_kv *options = TRN_NEW_N(p->arena, trn_kv, p->write->option_count);
  if (!columns || !options) return trn__no_memory(p->error);
  for (size_t i = 0; i < p->count; i++)
    columns[i] = (trn_column){.id = p->next++, .type = p->exprs[i]->type, .nullable = p->exprs[i]->nullable};
  const trn_rel *input = trn__rel_project(p->arena, p->plan->root, p->exprs, columns, p->count);
  const trn_column count = {.id = p->next++, .type = trn__type(TRN_TYPE_INT64)};
  trn_rel *rel = input ? trn__rel_create(p->arena, TRN_REL_WRITE, &input, 1, NULL, 0, &count, 1) : NULL;
  if (!rel) return trn__no_memory(p->error);
  for (size_t i = 0; i < p->write->option_count; i++) {
    options[i].key = trn__arena_strdup(p->arena, p->write->options[i].key);
    options[i].value = trn__arena_strdup(p->arena, p->write->options[i].value);
    if (!options[i].key || !options[i].value) return trn__no_memory(p->error);
  }
  rel->u.write.format = trn__arena_strdup(p->arena, p->write->format);
  rel->u.write.directory = trn__arena_strdup(p->arena, p->write->directory);
  rel->u.write.options = options;
  rel->u.write.option_count = (uint32_t)p->write->option_count;
  rel->u.write.names = p->names;
  rel->u.write.partition_by = p->places;
  rel->u.write.partition_count = (uint32_t)p->write->partition_column_count;
  if (p->table) {
    const trn_scan_info info = {.struct_size = sizeof info,
                                .kind = TRN_SCAN_TABLE,
                                .catalog = p->table->catalog,
                                .database = p->table->database,
                                .table = p->table->name,
                                .format = p->write->format};
    trn_status status = trn_scan_label_create(&info, &rel->u.write.info);
    if (!status) status = trn__label_hold(p->arena, rel->u.write.info);
    trn_scan_label_unref(rel->u.write.info);
    if (status) return trn__no_memory(p->error);
  }
  *out = rel;
  return rel->u.write.format && rel->u.write.directory ? TRN_OK : trn__no_memory(p->error);
}

trn_status trn__write_plan(trn_plan *plan, const trn_table_info *table, const trn_command *command,
                           const trn_write_target *write, trn_plan **out, trn_error **error) {
  planning p = {.plan = plan, .table = table, .command = command, .write = write, .error = error,
                .next = plan->next_column, .arena = trn__arena_create(0)};
  const trn_rel *root = NULL;
  *out = NULL;
  if (!p.arena) return trn__no_memory(error);
  trn_status status = TRN_OK;
  if (!trn__arena_own(p.arena, drop_plan, trn_plan_ref(plan))) {
    trn_plan_unref(plan);
    status = trn__no_memory(error);
  }
  if (!status) status = table ? columns_of_table(&p) : columns_of_plan(&p);
  if (!status) status = write_root(&p, &root);
  trn_field *field = status ? NULL : TRN_NEW(p.arena, trn_field);
  if (!status && !field) status = trn__no_memory(error);
  if (status) {
    trn__arena_unref(p.arena);
    return status;
  }
  *field = (trn_field){.name = "count", .type = trn__type(TRN_TYPE_INT64)};
  status = trn__plan_create(p.arena, root, field, p.next, plan->timezone, plan->sql, out);
  return status ? trn__no_memory(error) : TRN_OK;
}

trn_status trn__rows_plan(trn_plan *plan, const trn_table_info *table, const trn_command *command, trn_plan **out,
                          trn_error **error) {
  static const trn_write_target nothing = {.struct_size = sizeof nothing};
  planning p = {.plan = plan, .table = table, .command = command, .write = &nothing, .error = error,
                .next = plan->next_column, .arena = trn__arena_create(0)};
  *out = NULL;
  if (!p.arena) return trn__no_memory(error);
  trn_status status = TRN_OK;
  if (!trn__arena_own(p.arena, drop_plan, trn_plan_ref(plan))) {
    trn_plan_unref(plan);
    status = trn__no_memory(error);
  }
  if (!status) status = columns_of_table(&p);
  trn_column *columns = status ? NULL : TRN_NEW_N(p.arena, trn_column, p.count);
  trn_field *fields = columns ? TRN_NEW_N(p.arena, trn_field, p.count) : NULL;
  for (size_t i = 0; fields && !status && i < p.count; i++) {
    columns[i] = (trn_column){.id = p.next++, .type = p.exprs[i]->type, .nullable = p.exprs[i]->nullable};
    status = trn__field_import_any(p.arena, table->schema->children[i], &fields[i], error);
  }
  const trn_rel *root = fields && !status ? trn__rel_project(p.arena, plan->root, p.exprs, columns, p.count) : NULL;
  if (!status && !root) status = trn__no_memory(error);
  if (status) {
    trn__arena_unref(p.arena);
    return status;
  }
  status = trn__plan_create(p.arena, root, fields, p.next, plan->timezone, plan->sql, out);
  return status ? trn__no_memory(error) : TRN_OK;
}

/* ---- the operation ---- */

typedef struct writing {
  atomic_uint refs;
  trn_operation *inner;
  trn_pool *pool; /* for the commit, which blocks */
  atomic_bool is_read;
  _Atomic(trn_operation_state) state;
  pthread_mutex_t mu;
  trn_table_write *write; /* until it ends; guarded by mu */
  trn_stream *stream;     /* of the counts */
  int64_t count;
  bool is_over; /* the row was given; only the puller touches it */
  trn_array_done done;
  void *user;
} writing;

static writing *writing_ref(writing *w) {
  atomic_fetch_add_explicit(&w->refs, 1, memory_order_relaxed);
  return w;
}

static trn_table_write *take_write(writing *w) {
  pthread_mutex_lock(&w->mu);
  trn_table_write *write = w->write;
  w->write = NULL;
  pthread_mutex_unlock(&w->mu);
  return write;
}

static void abort_later(void *write) {
  trn_table_write_abort(write);
}

static void writing_unref(void *self) {
  writing *w = self;
  if (!w || atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) != 1) return;
  trn_stream_unref(w->stream);
  if (w->inner) trn_operation_cancel(w->inner);
  trn_operation_unref(w->inner);
  trn_table_write *write = take_write(w); /* removing files blocks: not on a thread that only drops something */
  if (write && (!w->pool || trn__pool_submit(w->pool, abort_later, write))) trn_table_write_abort(write);
  trn__pool_destroy(w->pool);
  pthread_mutex_destroy(&w->mu);
  free(w);
}

static trn_status count_schema(void *self, struct ArrowSchema *out, trn_error **error) {
  (void)self;
  trn_status status = trn__schema_init(out, "+s", "", 0, NULL, 0, 1);
  if (!status && (status = trn__schema_init(out->children[0], "l", "count", 0, NULL, 0, 0))) trn__schema_release(out);
  return status ? trn__no_memory(error) : TRN_OK;
}

static trn_status count_row(int64_t count, struct ArrowArray *out) {
  struct ArrowSchema schema = {0};
  trn_array_builder *builder = NULL;
  struct ArrowArray column = {0};
  trn_status status = trn__schema_init(&schema, "l", "count", 0, NULL, 0, 0);
  if (!status) status = trn__array_builder_create(&schema, &builder);
  if (!status) trn__array_append_int(builder, count);
  if (!status) status = trn__array_builder_finish(builder, &column);
  if (!status) status = trn__array_struct(&column, 1, 1, out);
  trn__array_builder_destroy(builder);
  trn__schema_release(&schema);
  return status;
}

/* Answers the pull. */
static void answer(writing *w, trn_status status, const trn_error *error, struct ArrowArray *array) {
  trn_array_done done = w->done;
  void *user = w->user;
  struct ArrowArray none = {0};
  done(user, status, error, array ? array : &none);
}

/* thread: the pool's */
static void finish(void *argument) {
  writing *w = argument;
  trn_error *error = NULL;
  struct ArrowArray row = {0};
  trn_table_write *write = take_write(w);
  trn_status status = write ? count_row(w->count, &row) : TRN_CANCELLED;
  if (status)
    trn_table_write_abort(write); /* no row to answer with: nothing happened */
  else
    status = trn_table_write_commit(write, w->count, &error);
  if (status) trn__array_release(&row);
  atomic_store(&w->state, status == TRN_OK          ? TRN_OPERATION_FINISHED
                          : status == TRN_CANCELLED ? TRN_OPERATION_CANCELLED
                                                    : TRN_OPERATION_FAILED);
  w->is_over = true;
  answer(w, status, error, status ? NULL : &row);
  trn_error_unref(error);
  writing_unref(w);
}

static void on_counts(void *user, trn_status status, const trn_error *error, struct ArrowArray *array);

/* Pulls on; an error is answered. */
static void pull(writing *w) {
  trn_error *error = NULL;
  trn_status status = trn_stream_next_array(w->stream, on_counts, w, &error);
  if (!status) return;
  answer(w, status, error, NULL);
  trn_error_unref(error);
  writing_unref(w);
}

static void on_counts(void *user, trn_status status, const trn_error *error, struct ArrowArray *array) {
  writing *w = user;
  if (!status && array && array->release) {
    for (int64_t i = 0; array->n_children == 1 && i < array->length; i++)
      w->count += trn__array_int(array->children[0], "l", i + array->offset);
    array->release(array);
    pull(w);
    return;
  }
  if (!status && trn__pool_submit(w->pool, finish, w) == TRN_OK) return;
  if (!status) {
    finish(w); /* no thread can be had: here and now */
    return;
  }
  atomic_store(&w->state, status == TRN_CANCELLED ? TRN_OPERATION_CANCELLED : TRN_OPERATION_FAILED);
  answer(w, status, error, NULL);
  writing_unref(w);
}

/* The end after the one row: never inline. */
typedef struct end_pull {
  trn_array_done done;
  void *user;
} end_pull;

static void give_end(void *argument) {
  end_pull *end = argument;
  struct ArrowArray none = {0};
  end->done(end->user, TRN_OK, NULL, &none);
  free(end);
}

static trn_status stream_next(void *self, trn_array_done done, void *user, trn_error **error) {
  writing *w = self;
  if (!w->is_over) {
    w->done = done, w->user = user;
    trn_status status = trn_stream_next_array(w->stream, on_counts, writing_ref(w), error);
    if (status) writing_unref(w);
    return status;
  }
  end_pull *end = malloc(sizeof *end);
  if (!end) return trn__no_memory(error);
  *end = (end_pull){done, user};
  trn_status status = trn__pool_submit(w->pool, give_end, end);
  if (status) free(end);
  return status ? trn__no_memory(error) : TRN_OK;
}

static void stream_cancel(void *self) {
  writing *w = self;
  trn_stream_cancel(w->stream);
}

static const trn_stream_ops stream_ops = {.struct_size = sizeof(trn_stream_ops),
                                          .schema = count_schema,
                                          .next_array = stream_next,
                                          .cancel = stream_cancel,
                                          .destroy = writing_unref};

static trn_operation_state operation_state(void *self) {
  return atomic_load(&((writing *)self)->state);
}

static void operation_cancel(void *self) {
  trn_operation_cancel(((writing *)self)->inner);
}

static trn_status operation_stream(void *self, trn_stream **out, trn_error **error) {
  writing *w = self;
  if (atomic_exchange(&w->is_read, true))
    return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "the result of a write is read once");
  trn_status status = trn_stream_create(&stream_ops, writing_ref(w), out);
  if (status) writing_unref(w);
  return status ? trn__no_memory(error) : TRN_OK;
}

static trn_status operation_metrics(void *self, char **out) {
  return trn_operation_metrics(((writing *)self)->inner, out);
}

static const trn_operation_ops operation_ops = {.struct_size = sizeof(trn_operation_ops),
                                                .state = operation_state,
                                                .cancel = operation_cancel,
                                                .result_stream = operation_stream,
                                                .metrics = operation_metrics,
                                                .destroy = writing_unref};

trn_status trn__write_operation(trn_session *session, trn_plan *plan, trn_table_write *write, const char *id,
                                trn_cancel *cancel, trn_operation **out, trn_error **error) {
  *out = NULL;
  writing *w = calloc(1, sizeof *w);
  if (!w) {
    trn_table_write_abort(write);
    return trn__no_memory(error);
  }
  atomic_init(&w->refs, 1), atomic_init(&w->is_read, false), atomic_init(&w->state, TRN_OPERATION_RUNNING);
  pthread_mutex_init(&w->mu, NULL);
  w->write = write;
  const trn_execute_request request = {.struct_size = sizeof request, .plan = plan, .operation_id = id, .cancel = cancel};
  trn_status status = trn__pool_create(1, &w->pool) ? trn__no_memory(error) : TRN_OK;
  if (!status) status = trn_backend_execute(session, &request, &w->inner, error);
  if (!status) status = trn_operation_result_stream(w->inner, &w->stream, error);
  if (!status && trn_operation_create(&operation_ops, w, trn_operation_id(w->inner), out)) status = trn__no_memory(error);
  if (status) writing_unref(w);
  return status;
}

/* ---- what is written where ---- */

static trn_write_mode mode_of(const trn_command *c) {
  if (c->kind == TRN_COMMAND_CREATE_TABLE) return TRN_WRITE_CREATE;
  return c->kind == TRN_COMMAND_INSERT ? c->mode : TRN_WRITE_OVERWRITE;
}

static trn_status begin(const trn_command_target *t, trn_table_info *info, trn_table **table, trn_table_write **out,
                        trn_error **error) {
  const trn_command *c = t->command;
  bool rewrites = c->kind == TRN_COMMAND_DELETE || c->kind == TRN_COMMAND_UPDATE;
  trn_write_request request = {.struct_size = sizeof request,
                               .database = t->database,
                               .name = t->name,
                               .mode = mode_of(c),
                               .replace = c->or_replace,
                               .partition = c->partition,
                               .partition_count = c->partition_count};
  trn_status status = TRN_OK;
  if (c->kind == TRN_COMMAND_CREATE_TABLE) {
    *info = (trn_table_info){.row_count = -1, .byte_count = -1};
    memcpy(info, c->table, c->table->struct_size < sizeof *info ? c->table->struct_size : sizeof *info);
    info->struct_size = sizeof *info;
    info->catalog = trn_catalog_name(t->catalog), info->database = t->database, info->name = t->name;
    request.create = info;
  } else {
    status = trn_catalog_get_table(t->catalog, t->session, t->database, t->name, table, error);
    if (status) return status;
    *info = *trn_table_get_info(*table);
    request.expected_identity = info->identity;
    if (rewrites) request.expected_version = c->expected_version ? c->expected_version : info->version;
    if (rewrites && info->kind != TRN_TABLE_MANAGED)
      return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Rows of %s cannot be changed: it is no managed table",
                           t->name);
  }
  return trn_catalog_begin_write(t->catalog, t->session, &request, out, error);
}

static trn_status begin_copy(const trn_command *c, trn_table_write **out, trn_write_target *target, trn_error **error) {
  trn_directory_write *write = NULL;
  const char *path = c->location;
  trn_strbuf ending = {0};
  if (!path || !c->format) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "COPY needs a location and a format");
  if (strncmp(path, "file:", 5) == 0) path += 5;
  while (path[0] == '/' && path[1] == '/') path++;
  if (*path != '/')
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Writing to %s is not supported: only to local absolute paths",
                         c->location);
  trn__strbuf_printf(&ending, ".%s", c->format);
  trn_status status = ending.failed ? trn__no_memory(error)
                                    : trn__directory_write_create(path, ending.data, c->partition_by_count,
                                                                  c->mode == TRN_WRITE_OVERWRITE ? TRN_DIRECTORY_OVERWRITE
                                                                                                 : TRN_DIRECTORY_APPEND,
                                                                  &write, error);
  trn__strbuf_finish(&ending);
  if (!status) write->has_numbered_levels = c->keeps_partition_columns;
  if (!status) status = trn__directory_write_set_partitions(write, c->partition_by, error);
  if (!status) status = trn__directory_write_prepare(write, error);
  if (status) {
    trn__directory_write_abort(write);
    return status;
  }
  *target = (trn_write_target){.struct_size = sizeof *target,
                               .directory = write->staging,
                               .format = c->format,
                               .options = c->options,
                               .option_count = c->option_count,
                               .partition_columns = c->partition_by,
                               .partition_column_count = c->partition_by_count,
                               .keeps_partition_columns = c->keeps_partition_columns};
  return trn__directory_write_wrap(write, out, error);
}

trn_status trn__command_write(const trn_command_target *t, trn_operation **out, trn_error **error) {
  const trn_command *c = t->command;
  trn_table_info info;
  trn_write_target copy;
  trn_table *table = NULL;
  trn_table_write *write = NULL;
  trn_plan *plan = NULL;
  bool is_copy = c->kind == TRN_COMMAND_COPY;
  if (!c->plan) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "the statement has no rows");
  trn_status status = is_copy ? begin_copy(c, &write, &copy, error) : begin(t, &info, &table, &write, error);
  const trn_write_target *target = status ? NULL : is_copy ? &copy : trn_table_write_target(write);
  if (!status && !target->directory)
    status = trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Rows cannot be given to this catalog's tables yet");
  if (!status) status = trn__write_plan(c->plan, is_copy ? NULL : &info, c, target, &plan, error);
  if (status)
    trn_table_write_abort(write);
  else
    status = trn__write_operation(t->session, plan, write, c->operation_id, c->cancel, out, error);
  trn_plan_unref(plan);
  trn_table_unref(table);
  return status;
}
