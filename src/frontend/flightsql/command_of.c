/* What a text is: a query, or a statement that changes things, as a command. The dialect's planner tells it; what the engine's
 * has no word for (foreign keys, temporary tables) is read here and cut from the text that it gets. */
#include "frontend/flightsql/flightsql.h"
#include "frontend/spark/decode_sql.h"
#include "plan/plan.h"

/* ---- cutting ---- */

size_t flightsql__temporary_at(const flightsql_text *text) {
  size_t at = 1;
  if (!flightsql__token_is(text, 0, "create")) return 0;
  if (flightsql__token_is(text, 1, "or") && flightsql__token_is(text, 2, "replace")) at = 3;
  bool is_temporary = flightsql__token_is(text, at, "temporary") || flightsql__token_is(text, at, "temp");
  bool is_known = flightsql__token_is(text, at + 1, "table") || flightsql__token_is(text, at + 1, "view");
  return is_temporary && is_known ? at : 0;
}

/* Where the definitions of CREATE TABLE name (..) begin; 0: it has none, or is another statement. */
static size_t definitions_at(const flightsql_text *text) {
  size_t at = 1;
  if (!flightsql__token_is(text, 0, "create")) return 0;
  while (at < text->count && !flightsql__token_is(text, at, "table")) {
    if (flightsql__token_is(text, at, "(") || flightsql__token_is(text, at, "as")) return 0;
    at++;
  }
  while (at < text->count && !flightsql__token_is(text, at, "(")) {
    if (flightsql__token_is(text, at, "as")) return 0;
    at++;
  }
  return at < text->count ? at : 0;
}

/* Behind the definition that begins at `at`: at its comma, or at the bracket that ends them all. */
static size_t definition_end(const flightsql_text *text, size_t at) {
  for (size_t depth = 0; at < text->count; at++) {
    if (flightsql__token_is(text, at, "(")) depth++;
    if (depth == 0 && (flightsql__token_is(text, at, ",") || flightsql__token_is(text, at, ")"))) return at;
    if (flightsql__token_is(text, at, ")")) depth--;
  }
  return at;
}

static bool is_foreign_key(const flightsql_text *text, size_t at) {
  if (flightsql__token_is(text, at, "constraint")) at += 2;
  return flightsql__token_is(text, at, "foreign") && flightsql__token_is(text, at + 1, "key");
}

static void keep(trn_strbuf *out, trn_arena *arena, const flightsql_text *text, size_t from, size_t to,
                 const char *const *literals) {
  if (from >= to) return;
  char *part = flightsql__text_slice(arena, text, from, to, literals);
  if (!part) out->failed = true;
  else trn__strbuf_printf(out, "%s%s", out->size ? " " : "", part);
}

/* Temporary things that are no tables: the planner would make lasting ones of them. */
static trn_status check_temporary(const flightsql_text *text, trn_error **error) {
  size_t at = flightsql__token_is(text, 1, "or") ? 3 : 1;
  bool is_temporary = flightsql__token_is(text, at, "temporary") || flightsql__token_is(text, at, "temp");
  if (!flightsql__token_is(text, 0, "create") || !is_temporary || flightsql__temporary_at(text)) return TRN_OK;
  return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Of CREATE TEMPORARY, TABLE and VIEW are supported");
}

/* The statement as the engine's planner takes it. */
static char *engine_text(trn_arena *arena, const flightsql_text *text, const char *const *literals) {
  size_t temporary = flightsql__temporary_at(text), at = definitions_at(text), from = 0;
  trn_strbuf out = {0};
  bool makes = flightsql__token_is(text, 0, "create") || flightsql__token_is(text, 0, "drop");
  if (makes && flightsql__token_is(text, 1, "database")) { /* another word for a schema; the planner's is a catalog */
    keep(&out, arena, text, 0, 1, literals);
    trn__strbuf_puts(&out, " SCHEMA");
    from = 2;
  } else if (temporary) {
    keep(&out, arena, text, 0, temporary, literals);
    from = temporary + 1;
  }
  for (bool more = at != 0; more;) { /* `at` is the comma or the bracket before a definition */
    size_t end = definition_end(text, at + 1);
    if (is_foreign_key(text, at + 1)) {
      bool is_first = flightsql__token_is(text, at, "("), is_last = !flightsql__token_is(text, end, ",");
      keep(&out, arena, text, from, is_first ? at + 1 : at, literals);
      from = is_first && !is_last ? end + 1 : end;
    }
    more = flightsql__token_is(text, end, ",");
    at = end;
  }
  keep(&out, arena, text, from, text->count, literals);
  char *copy = out.failed || !out.data ? NULL : trn__arena_str(arena, out.data, out.size);
  trn__strbuf_finish(&out);
  return copy;
}

/* ---- what it is ---- */

static trn_status decode(flightsql_session *session, trn_arena *arena, const flightsql_text *text, const char *const *literals,
                         trn_statement *out, bool *saw_temporary, trn_error **error) {
  bool is_engine = flightsql__dialect(session) == FLIGHTSQL_ENGINE;
  trn_status status = is_engine ? check_temporary(text, error) : TRN_OK;
  if (status) return status;
  char *sql = is_engine ? engine_text(arena, text, literals) : flightsql__text_slice(arena, text, 0, text->count, literals);
  return sql ? flightsql__decode(session, sql, out, saw_temporary, error) : trn__no_memory(error);
}

static flightsql_kind kind_of(const trn_statement *statement) {
  if (statement->kind == TRN_STATEMENT_QUERY) return FLIGHTSQL_QUERY;
  if (statement->kind != TRN_STATEMENT_COMMAND) return FLIGHTSQL_DDL;
  switch (statement->command->kind) {
  case TRN_COMMAND_INSERT:
  case TRN_COMMAND_DELETE:
  case TRN_COMMAND_UPDATE:
  case TRN_COMMAND_COPY: return FLIGHTSQL_DML;
  default: return FLIGHTSQL_DDL;
  }
}

trn_status flightsql__classify(flightsql_session *session, trn_arena *arena, const flightsql_text *text,
                               const char *const *literals, flightsql_kind *kind, trn_plan **plan,
                               struct ArrowSchema *parameters, trn_error **error) {
  trn_statement decoded = {0};
  bool saw_temporary = false;
  *plan = NULL;
  if (parameters) *parameters = (struct ArrowSchema){0};
  trn_status status = decode(session, arena, text, literals, &decoded, &saw_temporary, error);
  if (status) return status;
  *kind = kind_of(&decoded);
  if (*kind == FLIGHTSQL_QUERY) *plan = trn_plan_ref(decoded.plan);
  if (parameters && decoded.parameters && trn__schema_copy(decoded.parameters, parameters)) {
    trn_plan_unref(*plan);
    *plan = NULL;
    status = trn__no_memory(error);
  }
  if (decoded.release) decoded.release(&decoded);
  return status;
}

/* ---- commands ---- */

/* What only the engine's texts can say. */
static trn_status add_to_table(trn_arena *arena, const flightsql_text *text, bool saw_temporary, flightsql_command *out,
                               trn_error **error) {
  bool creates = out->command.kind == TRN_COMMAND_CREATE_TABLE || out->command.kind == TRN_COMMAND_CREATE_VIEW;
  out->is_temporary = creates && flightsql__temporary_at(text) != 0;
  if (out->command.kind == TRN_COMMAND_CREATE_VIEW && saw_temporary && !out->is_temporary)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The view %s would outlive the temporary tables or views that it reads",
                         out->command.name[out->command.name_count - 1]);
  if (out->command.kind != TRN_COMMAND_CREATE_TABLE || !definitions_at(text)) return TRN_OK;
  trn_constraint *constraints = NULL;
  size_t count = 0;
  trn_status status = flightsql__parse_constraints(arena, text, &constraints, &count, error);
  if (!count) return status;
  out->table.constraints = constraints;
  out->table.constraint_count = count;
  return status;
}

static trn_status command_of(flightsql_session *session, trn_arena *arena, const flightsql_text *text,
                             const char *const *literals, flightsql_command *out, trn_error **error) {
  bool saw_temporary = false;
  trn_status status = decode(session, arena, text, literals, &out->decoded, &saw_temporary, error);
  if (status) return status;
  if (out->decoded.kind != TRN_STATEMENT_COMMAND && out->decoded.kind != TRN_STATEMENT_QUERY) {
    out->spoken = out->decoded.kind;
    return TRN_OK;
  }
  if (out->decoded.kind != TRN_STATEMENT_COMMAND)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The text is a query: it changes nothing");
  out->command = *out->decoded.command;
  out->short_name = spark__decoded_short_name(&out->decoded);
  if (out->command.plan) out->plan = trn_plan_ref(out->command.plan);
  if (!out->command.table) return TRN_OK;
  out->table = *out->command.table;
  out->command.table = &out->table;
  if (out->command.kind == TRN_COMMAND_CREATE_TABLE && !out->table.format) out->table.format = "parquet";
  return flightsql__dialect(session) == FLIGHTSQL_ENGINE ? add_to_table(arena, text, saw_temporary, out, error) : TRN_OK;
}

trn_status flightsql__command(flightsql_session *session, trn_arena *arena, const flightsql_text *text,
                              const char *const *literals, flightsql_command *out, trn_error **error) {
  *out = (flightsql_command){0};
  trn_status status = command_of(session, arena, text, literals, out, error);
  if (status) flightsql__command_finish(out);
  return status;
}

void flightsql__command_finish(flightsql_command *command) {
  trn_plan_unref(command->plan);
  command->plan = NULL;
  trn__schema_release(&command->schema);
  if (command->decoded.release) command->decoded.release(&command->decoded);
  command->decoded = (trn_statement){0};
}
