/* Decoding: query texts become resolved plans, or commands. */
#include "backend/embedded.h"
#include "engine/lift.h"
#include <trunnion/catalog.h>

/* ---- tables ---- */

/* What a resolver gave; by the number that the engine has for it. */
typedef struct found {
  trn_resolved_table table;
  trn_engine_plan *plan; /* the view, lowered */
} found;

typedef struct decoding {
  trn_embedded *backend;
  trn_engine_session *session;
  const trn_plan_input *input;
  trn_vec found;    /* of found */
  trn_error *error; /* the resolver's last one */
  trn_status status;
} decoding;

static void found_destroy(decoding *d, found *f) {
  if (!f) return;
  if (f->plan) d->backend->engine->plan_release(f->plan);
  if (f->table.schema.release) f->table.schema.release(&f->table.schema);
  trn__embedded_source_release(f->table.source);
  trn_plan_unref(f->table.plan);
  trn_table_unref(f->table.table);
  trn_scan_label_unref(f->table.label);
  free(f);
}

static void decoding_finish(decoding *d) {
  for (size_t i = 0; i < d->found.count; i++) found_destroy(d, d->found.items[i]);
  trn__vec_finish(&d->found);
  trn_error_unref(d->error);
}

/* The engine asks on the thread that decodes. */
static int32_t resolve(void *user, const char *const *parts, size_t count, trn_engine_table *out) {
  decoding *d = user;
  trn_error_unref(d->error);
  d->error = NULL;
  found *f = calloc(1, sizeof *f);
  trn_status status = f ? TRN_OK : trn__no_memory(&d->error);
  if (!status) status = d->input->resolve(d->input->resolve_user, parts, count, &f->table, &d->error);
  trn__embedded_watch(d->backend, d->input->cancel); /* a view's text was decoded meanwhile, under a watch of its own */
  if (!status && !f->table.source && !f->table.plan)
    status = trn_error_set(&d->error, TRN_INTERNAL, NULL, "a table was found that is neither a source nor a view");
  if (!status && f->table.plan) {
    status = trn__embedded_lower(d->backend, d->session, f->table.plan, d->input->cancel, &f->plan, &d->error);
    if (!status && trn_plan_schema(f->table.plan, &out->schema)) status = trn__no_memory(&d->error);
  } else if (!status) {
    out->schema = f->table.schema;
    f->table.schema.release = NULL;
  }
  if (!status && !trn__vec_push(&d->found, f)) status = trn__no_memory(&d->error);
  if (status) {
    found_destroy(d, f);
    d->status = status;
    return (int32_t)status;
  }
  out->source = f->table.source ? f->table.source->source : NULL;
  out->plan = f->plan;
  return TRN_OK;
}

/* The engine's failure as ours; what a resolver said is said as it was. */
static trn_status failed(decoding *d, trn_engine_error *failure, trn_error **error) {
  if (!failure->condition || strcmp(failure->condition, TRN_ENGINE_RESOLVER) || !d->status)
    return trn__engine_error(failure, error);
  if (failure->release) failure->release(failure->self);
  if (error) {
    *error = d->error;
    d->error = NULL;
  }
  return d->status;
}

/* ---- what the engine's own tables are ---- */

/* "format\0path\0path\0": gives the paths in the arena, which borrow from the text. */
static trn_status about_files(trn_arena *arena, const char *text, size_t size, trn_scan_info *out) {
  const char *end = text + size;
  size_t count = 0;
  for (const char *at = text; at < end; at++) count += !*at;
  const char **paths = TRN_NEW_N(arena, const char *, count + 1);
  if (!paths) return TRN_RESOURCE_EXHAUSTED;
  out->kind = TRN_SCAN_FILES;
  out->format = text;
  for (const char *at = text + strlen(text) + 1; at < end; at += strlen(at) + 1) paths[out->path_count++] = at;
  out->paths = paths;
  return TRN_OK;
}

static trn_status about_columns(trn_arena *arena, const struct ArrowSchema *schema, trn_scan_info *out) {
  trn_scan_column *columns = TRN_NEW_N(arena, trn_scan_column, (size_t)schema->n_children + 1);
  if (!columns) return TRN_RESOURCE_EXHAUSTED;
  for (int64_t i = 0; i < schema->n_children; i++) {
    trn_field field;
    trn_status status = trn__field_import_any(arena, schema->children[i], &field, NULL);
    if (status) return status;
    columns[i] = (trn_scan_column){field.name, field.type, field.nullable};
  }
  out->columns = columns;
  out->column_count = (size_t)schema->n_children;
  return TRN_OK;
}

/* The label of a table that came inside a plan: files that a client names, rows that it sent. NULL: nobody knows what it is,
 * which policies refuse. */
static trn_status about_source(const trn_engine *engine, trn_engine_source *source, trn_scan_label **out, trn_error **error) {
  trn_engine_error failure = {.position = -1};
  trn_engine_bytes bytes = {0};
  struct ArrowSchema schema = {0};
  trn_scan_info info = {.struct_size = sizeof info};
  *out = NULL;
  if (!TRN_ENGINE_HAS(engine, source_about)) return TRN_OK;
  if (engine->source_about(source, &bytes, &schema, &failure)) return trn__engine_error(&failure, error);
  trn_arena *arena = trn__arena_create(0);
  const char *text = bytes.data;
  /* The last byte ends a text, or there is none. */
  bool is_whole = bytes.size == 1 || (bytes.size > 1 && !text[bytes.size - 1]);
  trn_status status = arena && is_whole ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
  if (!status && *text == TRN_ENGINE_ABOUT_FILES) status = about_files(arena, text + 1, bytes.size - 1, &info);
  if (!status && *text == TRN_ENGINE_ABOUT_ROWS) info.kind = TRN_SCAN_LOCAL;
  if (!status && *text == TRN_ENGINE_ABOUT_GENERATED) info.kind = TRN_SCAN_GENERATED;
  if (!status && info.kind != TRN_SCAN_UNKNOWN) status = about_columns(arena, &schema, &info);
  if (!status && info.kind != TRN_SCAN_UNKNOWN) status = trn_scan_label_create(&info, out);
  trn__arena_unref(arena);
  if (schema.release) schema.release(&schema);
  if (bytes.release) bytes.release(bytes.self);
  return status ? trn_error_set(error, status, NULL, "A table inside the plan cannot be described") : TRN_OK;
}

/* ---- lifting ---- */

typedef struct lifting {
  trn_engine_lifted lifted;
  trn_lift_source *sources;
  trn_scan_label **labels; /* of sources that nobody had: one reference each, or NULL */
  trn_source **made; /* sources and originals that nobody had: one reference each */
  size_t made_count;
} lifting;

static void lifting_finish(lifting *l) {
  for (size_t i = 0; i < l->made_count; i++) trn__embedded_source_release(l->made[i]);
  for (size_t i = 0; l->labels && i < l->lifted.source_count; i++) trn_scan_label_unref(l->labels[i]);
  free(l->made), free(l->sources), free(l->labels);
  if (l->lifted.release) l->lifted.release(l->lifted.self);
}

static trn_status make(lifting *l, const trn_engine *engine, trn_engine_source *source, trn_engine_original *original,
                       trn_source **out, trn_error **error) {
  *out = trn__embedded_source_create(engine, source, original);
  if (!*out) return trn__no_memory(error);
  l->made[l->made_count++] = *out;
  return TRN_OK;
}

static trn_status gather(decoding *d, lifting *l, trn_source ***originals, trn_error **error) {
  const trn_engine_lifted *lifted = &l->lifted;
  trn_status status = TRN_OK;
  l->sources = calloc(lifted->source_count + 1, sizeof *l->sources);
  l->made = calloc(lifted->source_count + lifted->original_count + 1, sizeof *l->made);
  l->labels = calloc(lifted->source_count + 1, sizeof *l->labels);
  *originals = calloc(lifted->original_count + 1, sizeof **originals);
  if (!l->sources || !l->made || !l->labels || !*originals) return trn__no_memory(error);
  for (size_t i = 0; !status && i < lifted->source_count; i++) {
    trn_lift_source *s = &l->sources[i];
    if (lifted->numbers[i] == TRN_ENGINE_NO_NUMBER) {
      status = make(l, d->backend->engine, lifted->sources[i], NULL, &s->source, error);
      if (!status) status = about_source(d->backend->engine, lifted->sources[i], &l->labels[i], error);
      s->label = l->labels[i];
    } else if (lifted->numbers[i] >= d->found.count) {
      status = trn_error_set(error, TRN_INTERNAL, NULL, "the engine has a table that was not given");
    } else {
      const found *f = d->found.items[lifted->numbers[i]];
      *s = (trn_lift_source){f->table.source, f->table.plan, f->table.label, f->table.table};
    }
  }
  for (size_t i = 0; !status && i < lifted->original_count; i++)
    status = make(l, d->backend->engine, NULL, lifted->originals[i], &(*originals)[i], error);
  return status;
}

static trn_status lift(decoding *d, trn_engine_plan *plan, const char *sql, trn_plan **out, trn_error **error) {
  const trn_engine *engine = d->backend->engine;
  trn_engine_error failure = {.position = -1};
  lifting l = {0};
  trn_source **originals = NULL;
  struct ArrowSchema schema = {0};
  trn_status status = TRN_OK;
  if (engine->lift(plan, &l.lifted, &failure) || engine->plan_schema(plan, &schema, &failure))
    status = trn__engine_error(&failure, error);
  if (!status) status = gather(d, &l, &originals, error);
  if (!status) {
    const trn_lift_input input = {.data = l.lifted.data,
                                  .size = l.lifted.size,
                                  .sources = l.sources,
                                  .source_count = l.lifted.source_count,
                                  .originals = originals,
                                  .original_count = l.lifted.original_count,
                                  .next_column = l.lifted.next_column,
                                  .schema = &schema,
                                  .sql = sql,
                                  .source_ref = trn__embedded_source_ref,
                                  .source_release = trn__embedded_source_release};
    status = trn__lift(&input, out, error);
  }
  if (schema.release) schema.release(&schema);
  free(originals);
  lifting_finish(&l);
  return status;
}

/* ---- statements ---- */

/* A statement and all that its command points at. */
typedef struct decoded {
  trn_command command;
  trn_table_info table;
  trn_database_info database;
  trn_engine_statement raw;
  trn_plan *plan;
  char *catalog_name, *database_name; /* where a view's names are looked up */
  trn_kv *options;                    /* of the table or COPY: the engine's "format.x" is x for everybody else */
  struct ArrowSchema inferred;        /* of an external table without columns */
} decoded;

static void decoded_destroy(decoded *s) {
  if (!s) return;
  if (s->raw.schema.release) s->raw.schema.release(&s->raw.schema);
  if (s->raw.parameters.release) s->raw.parameters.release(&s->raw.parameters);
  if (s->raw.release) s->raw.release(s->raw.self);
  trn_plan_unref(s->plan);
  if (s->inferred.release) s->inferred.release(&s->inferred);
  free(s->catalog_name), free(s->database_name), free(s->options);
  free(s);
}

static void release_statement(trn_statement *statement) {
  decoded_destroy(statement->owner);
  *statement = (trn_statement){0};
}

static trn_status options_of(decoded *s, trn_error **error) {
  const trn_engine_statement *raw = &s->raw;
  s->options = calloc(raw->option_count + 1, sizeof *s->options);
  if (!s->options) return trn__no_memory(error);
  for (size_t i = 0; i < raw->option_count; i++) {
    s->options[i] = raw->options[i];
    if (!strncmp(s->options[i].key, "format.", 7)) s->options[i].key += 7;
  }
  return TRN_OK;
}

/* The columns of an external table that were not written down: those that its files have. */
static trn_status infer(decoded *s, trn_session *session, trn_error **error) {
  const trn_engine_statement *raw = &s->raw;
  trn_kv *options = calloc(raw->option_count + raw->column_count + 1, sizeof *options);
  trn_source *source = NULL;
  if (!options) return trn__no_memory(error);
  memcpy(options, s->options, raw->option_count * sizeof *options);
  for (size_t i = 0; i < raw->column_count; i++)
    options[raw->option_count + i] = (trn_kv){"partition_column", raw->columns[i]};
  const trn_source_request request = {.struct_size = sizeof request,
                                      .format = raw->format,
                                      .paths = &raw->location,
                                      .path_count = 1,
                                      .options = options,
                                      .option_count = raw->option_count + raw->column_count};
  trn_status status = trn_backend_open_source(session, &request, &source, &s->inferred, error);
  if (source) trn_backend_source_unref(trn_session_backend(session), source);
  free(options);
  return status;
}

/* The catalog's word for the one option that all makers of tables have. */
static void rename_header(decoded *s) {
  for (size_t i = 0; i < s->raw.option_count; i++)
    if (!strcmp(s->options[i].key, "has_header")) s->options[i].key = "header";
}

/* What CREATE TABLE and CREATE VIEW say of the table. */
static trn_status table_of(decoded *s, trn_session *session, trn_error **error) {
  const trn_engine_statement *raw = &s->raw;
  trn_table_info *t = &s->table;
  bool is_view = s->command.kind == TRN_COMMAND_CREATE_VIEW;
  *t = (trn_table_info){.struct_size = sizeof *t, .row_count = -1, .byte_count = -1};
  t->kind = is_view ? TRN_TABLE_VIEW : raw->flags & TRN_ENGINE_EXTERNAL ? TRN_TABLE_EXTERNAL : TRN_TABLE_MANAGED;
  t->schema = raw->schema.release && raw->schema.n_children ? &raw->schema : NULL;
  t->format = raw->format, t->location = raw->location;
  s->command.table = t;
  if (!is_view) {
    trn_status status = options_of(s, error);
    if (!status && !t->schema && t->kind == TRN_TABLE_EXTERNAL && t->location && t->format) {
      status = infer(s, session, error);
      t->schema = &s->inferred;
    }
    if (status) return status;
    rename_header(s);
    t->options = s->options, t->option_count = raw->option_count;
    t->partition_columns = raw->columns, t->partition_column_count = raw->column_count;
    return TRN_OK;
  }
  t->view_text = raw->text, t->view_dialect = "sql";
  t->view_columns = raw->column_count ? raw->columns : NULL, t->view_column_count = raw->column_count;
  trn_status status = trn_session_namespace(session, &s->catalog_name, &s->database_name, error);
  t->view_catalog = s->catalog_name, t->view_database = s->database_name;
  return status;
}

static trn_status command_of(decoded *s, trn_session *session, trn_error **error) {
  const trn_engine_statement *raw = &s->raw;
  trn_command *c = &s->command;
  *c = (trn_command){.struct_size = sizeof *c,
                     .kind = (trn_command_kind)raw->kind,
                     .name = raw->name,
                     .name_count = raw->name_count,
                     .to = raw->to,
                     .to_count = raw->to_count,
                     .if_exists = (raw->flags & TRN_ENGINE_IF_EXISTS) != 0,
                     .if_not_exists = (raw->flags & TRN_ENGINE_IF_NOT_EXISTS) != 0,
                     .or_replace = (raw->flags & TRN_ENGINE_OR_REPLACE) != 0,
                     .cascade = (raw->flags & TRN_ENGINE_CASCADE) != 0,
                     .is_catalog = (raw->flags & TRN_ENGINE_IS_CATALOG) != 0};
  switch (c->kind) {
  case TRN_COMMAND_CREATE_DATABASE:
    s->database = (trn_database_info){.struct_size = sizeof s->database};
    s->database.name = raw->name_count ? raw->name[raw->name_count - 1] : NULL;
    c->database = &s->database;
    break;
  case TRN_COMMAND_CREATE_VIEW: return table_of(s, session, error);
  case TRN_COMMAND_CREATE_TABLE: c->plan = s->plan; return table_of(s, session, error);
  case TRN_COMMAND_INSERT:
    c->mode = raw->flags & TRN_ENGINE_OVERWRITE ? TRN_WRITE_OVERWRITE : TRN_WRITE_APPEND;
    c->plan = s->plan;
    break;
  case TRN_COMMAND_DELETE:
  case TRN_COMMAND_UPDATE: c->plan = s->plan; break;
  case TRN_COMMAND_COPY: {
    if (raw->column_count)
      return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "COPY with PARTITIONED BY is not supported yet");
    c->plan = s->plan;
    c->format = raw->format, c->location = raw->location;
    trn_status status = options_of(s, error);
    c->options = s->options, c->option_count = raw->option_count;
    return status;
  }
  case TRN_COMMAND_SET:
    c->columns = raw->columns, c->column_count = raw->column_count;
    c->comment = raw->text;
    break;
  default: break;
  }
  return TRN_OK;
}

static trn_status statement_of(decoded *s, trn_session *session, trn_statement *out, trn_error **error) {
  trn_status status = TRN_OK;
  out->struct_size = sizeof *out;
  switch (s->raw.kind) {
  case 0:
    out->kind = TRN_STATEMENT_QUERY;
    out->plan = s->plan;
    break;
  case TRN_ENGINE_BEGIN: out->kind = TRN_STATEMENT_BEGIN; break;
  case TRN_ENGINE_COMMIT: out->kind = TRN_STATEMENT_COMMIT; break;
  case TRN_ENGINE_ROLLBACK: out->kind = TRN_STATEMENT_ROLLBACK; break;
  default:
    out->kind = TRN_STATEMENT_COMMAND;
    out->command = &s->command;
    status = command_of(s, session, error);
  }
  if (s->raw.parameters.release) out->parameters = &s->raw.parameters;
  out->owner = s, out->release = release_statement;
  return status;
}

static trn_status decode_sql(trn_embedded_session *session, const trn_plan_input *input, trn_statement *out,
                             trn_error **error) {
  trn_embedded *b = session->backend;
  decoding d = {.backend = b, .input = input};
  trn_engine_error failure = {.position = -1};
  char *sql = strndup(input->data ? input->data : "", input->size);
  decoded *s = calloc(1, sizeof *s);
  trn_status status = sql && s ? TRN_OK : trn__no_memory(error);
  if (!status) status = trn__embedded_engine_session(session, &d.session, error);
  if (!status) {
    const trn_engine_statement_input text = {.struct_size = sizeof text,
                                             .sql = input->data,
                                             .size = input->size,
                                             .resolve = input->resolve ? resolve : NULL,
                                             .user = &d,
                                             .parameter_schema = input->parameter_schema,
                                             .parameters = input->parameters,
                                             .parameter_row = input->parameter_row};
    if (b->engine->statement(d.session, &text, &s->raw, &failure)) status = failed(&d, &failure, error);
  }
  if (!status && s->raw.plan) status = lift(&d, s->raw.plan, sql, &s->plan, error);
  if (s && s->raw.plan) b->engine->plan_release(s->raw.plan);
  if (!status) status = statement_of(s, session->session, out, error);
  if (status) {
    decoded_destroy(s);
    *out = (trn_statement){0};
  }
  decoding_finish(&d);
  if (d.session) b->engine->session_release(d.session);
  free(sql);
  return status;
}

/* A plan in another encoding is a query. */
static trn_status decode_plan(trn_embedded_session *session, const trn_plan_input *input, trn_statement *out,
                              trn_error **error) {
  trn_embedded *b = session->backend;
  decoding d = {.backend = b, .input = input};
  trn_engine_error failure = {.position = -1};
  trn_engine_plan *plan = NULL;
  if (!TRN_ENGINE_HAS(b->engine, decode))
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "this engine does not decode plans of format '%s'",
                         input->format);
  decoded *s = calloc(1, sizeof *s);
  trn_status status = s ? trn__embedded_engine_session(session, &d.session, error) : trn__no_memory(error);
  if (!status && b->engine->decode(d.session, input->format, input->data, input->size, input->resolve ? resolve : NULL,
                                   &d, &plan, &failure))
    status = failed(&d, &failure, error);
  if (!status) status = lift(&d, plan, NULL, &s->plan, error);
  if (!status && !strcmp(input->format, "datafusion.physical.v1")) s->plan->kind = TRN_PLAN_PHYSICAL;
  if (plan) b->engine->plan_release(plan);
  if (!status) status = statement_of(s, session->session, out, error);
  if (status) {
    decoded_destroy(s);
    *out = (trn_statement){0};
  }
  decoding_finish(&d);
  if (d.session) b->engine->session_release(d.session);
  return status;
}

static bool is_plan_format(const char *format) {
  return !strcmp(format, "datafusion.logical.v1") || !strcmp(format, "datafusion.physical.v1") ||
         !strcmp(format, "substrait.plan.v1");
}

/* ---- slots ---- */

trn_status trn__embedded_decode_statement(void *self, void *state, const trn_plan_input *input, trn_statement *out,
                                          trn_error **error) {
  bool is_sql = !strcmp(input->format, "sql");
  *out = (trn_statement){0};
  if (is_sql && input->size > TRN_SQL_BYTES_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "the text has %zu bytes, at most TRN_SQL_BYTES_MAX (%u)",
                         input->size, TRN_SQL_BYTES_MAX);
  if (!is_sql && !is_plan_format(input->format))
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "the embedded backend does not decode plans of format '%s'",
                         input->format);
  trn__embedded_watch(self, input->cancel);
  trn_status status = (is_sql ? decode_sql : decode_plan)(state, input, out, error);
  trn__embedded_watch(self, NULL);
  return status ? trn__embedded_why(status, input->cancel, error) : TRN_OK;
}

trn_status trn__embedded_decode(void *self, void *state, const trn_plan_input *input, trn_plan **out,
                                trn_error **error) {
  trn_statement statement = {0};
  trn_status status = trn__embedded_decode_statement(self, state, input, &statement, error);
  if (status) return status;
  if (statement.kind == TRN_STATEMENT_QUERY)
    *out = trn_plan_ref(statement.plan);
  else
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "the text is a statement, where a query is needed");
  statement.release(&statement);
  return status;
}
