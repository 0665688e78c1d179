/* A plugin with one of each: translators of messages of its own (sample.proto), a decoder whose plan is a join, a
 * layer that rewrites what is scanned, and functions (functions.c). Built against an installed Trunnion; docs/plugins.md goes through it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trunnion/build.h>
#include <trunnion/catalog.h>
#include <trunnion/decoder.h>
#include <trunnion/layer.h>
#include <trunnion/plugin.h>
#include <trunnion/translator.h>

#include "functions.h"
#include "wire.h"

TRN_PLUGIN("sample", "1.0")

static trn_status bad_message(const char *type, trn_error **error) {
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "the message %s cannot be read", type);
}

static trn_status no_memory(trn_error **error) {
  return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "out of memory");
}

static char *text_of(piece field) {
  char *text = malloc(field.size + 1);
  if (!text) return NULL;
  memcpy(text, field.data, field.size);
  text[field.size] = 0;
  return text;
}

/* ---- translators ---- */

/* Projects the child's columns, under the ids that they have, and the value; then says what all of them are called. */
static trn_status project_with(trn_translation *translation, const trn_translated *child, const trn_expr *value,
                               const char *name, trn_translated *out, trn_error **error) {
  trn_edit *edit = trn_translation_edit(translation);
  size_t count = trn_scope_count(child->scope);
  const trn_expr **exprs = calloc(count + 1, sizeof *exprs);
  trn_scope_column *columns = calloc(count + 1, sizeof *columns);
  trn_status status = TRN_OK;
  if (!exprs || !columns) status = no_memory(error);
  for (size_t i = 0; i < count && !status; i++) {
    columns[i].struct_size = sizeof columns[i];
    trn_scope_get(child->scope, i, &columns[i]);
    exprs[i] = columns[i].column;
  }
  if (!status) {
    exprs[count] = value;
    out->rel = trn_edit_project(edit, child->rel, exprs, count + 1, true);
    columns[count].struct_size = sizeof columns[count];
    columns[count].name = name;
    columns[count].column = trn_edit_column(edit, out->rel, count);
    if (!columns[count].column) status = no_memory(error);
  }
  if (!status) status = trn_translation_new_scope(translation, columns, count + 1, &out->scope, error);
  free(columns);
  free(exprs);
  return status;
}

static trn_status add_column(void *self, trn_translation *translation, const void *message, size_t size,
                             trn_translated *out, trn_error **error) {
  piece fields[4];
  trn_translated child;
  trn_translated_expr value = {0};
  (void)self;
  value.struct_size = sizeof value;
  if (!wire_read(message, size, fields, 4)) return bad_message("sample.AddColumn", error);
  trn_status status = trn_translation_relation(translation, fields[1].data, fields[1].size, &child, error);
  if (!status) status = trn_translation_expr(translation, child.scope, fields[3].data, fields[3].size, &value, error);
  if (status) return status;
  char *name = text_of(fields[2]);
  if (!name) return no_memory(error);
  status = project_with(translation, &child, value.expr, name, out, error);
  free(name);
  return status;
}

/* '<' || child || '>', with the engine's own function. */
static trn_status bracket(void *self, trn_translation *translation, const void *message, size_t size,
                          trn_translated_expr *out, trn_error **error) {
  piece fields[2];
  trn_translated_expr child = {0};
  trn_edit *edit = trn_translation_edit(translation);
  (void)self;
  child.struct_size = sizeof child;
  if (!wire_read(message, size, fields, 2)) return bad_message("sample.Bracket", error);
  trn_status status = trn_translation_expr(translation, NULL, fields[1].data, fields[1].size, &child, error);
  if (status) return status;
  if (trn_type_get_id(trn_expr_get_type(child.expr)) != TRN_TYPE_STRING)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "sample.Bracket is for texts");
  const trn_expr *args[3] = {trn_edit_text(edit, "<", 1), child.expr, trn_edit_text(edit, ">", 1)};
  out->expr = trn_edit_call(edit, TRN_HOME_LIBRARY, "trn.concat", trn_edit_type(edit, TRN_TYPE_STRING),
                            trn_expr_is_nullable(child.expr), args, 3);
  out->name = "bracket";
  return out->expr ? TRN_OK : no_memory(error);
}

/* sample.count_where(list, x -> x > bound). */
static trn_status count_over(void *self, trn_translation *translation, const void *message, size_t size,
                             trn_translated_expr *out, trn_error **error) {
  piece fields[3];
  trn_translated_expr list = {0}, bound = {0};
  trn_edit *edit = trn_translation_edit(translation);
  (void)self;
  list.struct_size = bound.struct_size = sizeof list;
  if (!wire_read(message, size, fields, 3)) return bad_message("sample.CountOver", error);
  trn_status status = trn_translation_expr(translation, NULL, fields[1].data, fields[1].size, &list, error);
  if (!status) status = trn_translation_expr(translation, NULL, fields[2].data, fields[2].size, &bound, error);
  if (status) return status;
  const trn_type *type = trn_expr_get_type(list.expr);
  if (trn_type_get_id(type) != TRN_TYPE_ARRAY || !trn_type_is_equal(trn_type_field_type(type, 0), trn_expr_get_type(bound.expr)))
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "sample.CountOver is for a list and a value like its elements");
  const trn_expr *x = trn_edit_lambda_variable(edit, trn_type_field_type(type, 0), true);
  const trn_expr *sides[2] = {x, bound.expr};
  const trn_expr *is_over = trn_edit_call(edit, TRN_HOME_NATIVE, ">", trn_edit_type(edit, TRN_TYPE_BOOL), true, sides, 2);
  const trn_expr *args[2] = {list.expr, trn_edit_lambda(edit, &x, 1, is_over)};
  out->expr = trn_edit_call(edit, TRN_HOME_LIBRARY, "sample.count_where", trn_edit_type(edit, TRN_TYPE_INT64),
                            trn_expr_is_nullable(list.expr), args, 2);
  out->name = "count_over";
  return out->expr ? TRN_OK : no_memory(error);
}

static trn_status echo(void *self, trn_translation *translation, const void *message, size_t size, trn_translated *out,
                       trn_error **error) {
  piece fields[2];
  trn_edit *edit = trn_translation_edit(translation);
  trn_scope_column column = {0};
  (void)self;
  if (!wire_read(message, size, fields, 2)) return bad_message("sample.Echo", error);
  const trn_expr *text = trn_edit_text(edit, (const char *)fields[1].data, fields[1].size);
  out->rel = trn_edit_values(edit, &text, 1, 1);
  column.struct_size = sizeof column;
  column.name = "echo";
  column.column = trn_edit_column(edit, out->rel, 0);
  return column.column ? trn_translation_new_scope(translation, &column, 1, &out->scope, error) : no_memory(error);
}

/* ---- a decoder ---- */

typedef struct join_tables {
  const trn_plan_input *input;
  trn_session *session;
  char *names[2], *column;
  const char **columns; /* of the result; borrowed from the schemas */
  size_t column_count, key[2];
  trn_resolved_table tables[2];
} join_tables;

static void join_finish(join_tables *j) {
  for (int side = 0; side < 2; side++) {
    if (j->tables[side].source) trn_backend_source_unref(trn_session_backend(j->session), j->tables[side].source);
    if (j->tables[side].schema.release) j->tables[side].schema.release(&j->tables[side].schema);
    trn_plan_unref(j->tables[side].plan);
    trn_scan_label_unref(j->tables[side].label);
    trn_table_unref(j->tables[side].table);
    free(j->names[side]);
  }
  free(j->column);
  free(j->columns);
}

/* "a.b" -> its parts; the name is cut in place. */
static trn_status resolve(join_tables *j, int side, trn_error **error) {
  const char *parts[3];
  size_t count = 0;
  char *save = NULL;
  if (!j->input->resolve) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "there are no tables here");
  for (char *part = strtok_r(j->names[side], ".", &save); part && count < 3; part = strtok_r(NULL, ".", &save))
    parts[count++] = part;
  return j->input->resolve(j->input->resolve_user, parts, count, &j->tables[side], error);
}

static trn_status find_column(join_tables *j, int side, const struct ArrowSchema *schema, trn_error **error) {
  const char **columns = realloc(j->columns, (j->column_count + (size_t)schema->n_children) * sizeof *columns);
  if (!columns) return no_memory(error);
  j->columns = columns;
  j->key[side] = (size_t)schema->n_children;
  for (size_t i = 0; i < (size_t)schema->n_children; i++) {
    j->columns[j->column_count++] = schema->children[i]->name;
    if (strcmp(schema->children[i]->name, j->column) == 0) j->key[side] = i;
  }
  if (j->key[side] < (size_t)schema->n_children) return TRN_OK;
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "table %s has no column %s", j->names[side], j->column);
}

static trn_status build_join(void *user, trn_edit *edit, const trn_rel **root, const char *const **names,
                             trn_error **error) {
  join_tables *j = user;
  const trn_rel *sides[2];
  for (int side = 0; side < 2; side++) {
    trn_resolved_table *table = &j->tables[side];
    if (table->plan) {
      if (!table->schema.release && trn_plan_schema(table->plan, &table->schema)) return no_memory(error);
      sides[side] = trn_edit_plan(edit, table->plan);
    } else {
      sides[side] = trn_edit_read(edit, j->session, table->source, &table->schema, table->label);
    }
    trn_status status = find_column(j, side, &table->schema, error);
    if (status) return status;
  }
  const trn_expr *keys[2] = {trn_edit_column(edit, sides[0], j->key[0]), trn_edit_column(edit, sides[1], j->key[1])};
  const trn_expr *equal = trn_edit_call(edit, TRN_HOME_NATIVE, "=", trn_edit_type(edit, TRN_TYPE_BOOL), true, keys, 2);
  *root = trn_edit_join(edit, TRN_JOIN_INNER, sides[0], sides[1], equal);
  *names = j->columns;
  return *root ? TRN_OK : no_memory(error);
}

static trn_status decode_join(void *self, trn_session *session, const trn_plan_input *input, trn_plan **out,
                              trn_error **error) {
  piece fields[4];
  join_tables j = {0};
  (void)self;
  if (!wire_read(input->data, input->size, fields, 4)) return bad_message("sample.Join", error);
  j.input = input;
  j.session = session;
  j.names[0] = text_of(fields[1]);
  j.names[1] = text_of(fields[2]);
  j.column = text_of(fields[3]);
  trn_status status = j.names[0] && j.names[1] && j.column ? TRN_OK : no_memory(error);
  for (int side = 0; side < 2 && !status; side++) status = resolve(&j, side, error);
  if (!status) status = trn_plan_build(build_join, &j, out, error);
  join_finish(&j);
  return status;
}

/* ---- a layer: at most `rows` rows of each scan ---- */

typedef struct head_layer {
  int64_t rows;
} head_layer;

static trn_status limit_scan(void *user, trn_edit *edit, const trn_rel *rel, const trn_rel **out, trn_error **error) {
  (void)error;
  if (trn_rel_get_kind(rel) == TRN_REL_SCAN) *out = trn_edit_limit(edit, rel, 0, ((head_layer *)user)->rows);
  return TRN_OK;
}

static trn_status head_execute(void *self, trn_layer_session *session, const trn_execute_request *request,
                               trn_operation **out, trn_error **error) {
  trn_rewriting rewriting = {0};
  trn_execute_request changed = *request;
  rewriting.struct_size = sizeof rewriting;
  rewriting.rel = limit_scan;
  rewriting.user = self;
  trn_status status = trn_plan_rewrite(request->plan, &rewriting, &changed.plan, error);
  if (status) return status;
  status = trn_next_execute(session, &changed, out, error);
  trn_plan_unref(changed.plan);
  return status;
}

static trn_status make_head(void *user, const trn_registry *registry, const trn_config *config, trn_backend *inner,
                            trn_backend **out, trn_error **error) {
  static const char *const keys[] = {"rows", NULL};
  trn_layer_ops ops = {0};
  head_layer *layer = calloc(1, sizeof *layer);
  (void)user, (void)registry;
  if (!layer) return no_memory(error);
  layer->rows = 10;
  ops.struct_size = sizeof ops;
  ops.name = "sample.head";
  ops.role = TRN_LAYER_ANY;
  ops.execute = head_execute;
  ops.destroy = free;
  trn_status status = trn_config_check_keys(config, keys, error);
  if (!status) status = trn_config_number(config, "rows", 0, INT64_MAX, &layer->rows, error);
  if (!status) status = trn_layer_create(&ops, layer, inner, out, error);
  if (status) free(layer);
  return status;
}

/* ---- the entry point ---- */

trn_status trn_plugin_init(trn_registry *registry, const trn_config *config, trn_error **error) {
  static const char *const keys[] = {NULL};
  trn_translator_ops relation = {0}, expression = {0}, lambda = {0}, command = {0};
  trn_decoder_ops decoder = {0};
  relation.struct_size = expression.struct_size = lambda.struct_size = command.struct_size = sizeof relation;
  relation.relation = add_column;
  expression.expression = bracket;
  lambda.expression = count_over;
  command.command = echo;
  decoder.struct_size = sizeof decoder;
  decoder.decode = decode_join;
  trn_status status = trn_config_check_keys(config, keys, error);
  if (!status) status = trn_registry_add_translator(registry, "sample.AddColumn", &relation, NULL, error);
  if (!status) status = trn_registry_add_translator(registry, "sample.Bracket", &expression, NULL, error);
  if (!status) status = trn_registry_add_translator(registry, "sample.CountOver", &lambda, NULL, error);
  if (!status) status = trn_registry_add_translator(registry, "sample.Echo", &command, NULL, error);
  if (!status) status = trn_registry_add_decoder(registry, "sample.join.v1", &decoder, NULL, error);
  if (!status) status = trn_registry_add_layer(registry, "sample.head", make_head, NULL, error);
  if (!status) status = trn_registry_add_functions(registry, &sample_functions, error);
  return status;
}
