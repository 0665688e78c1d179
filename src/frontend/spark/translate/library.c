/* Functions of plugins (trn_registry_add_functions): rows of the function table made when they are called, and tables made
 * of their table functions. */
#include "core/function.h"
#include "frontend/spark/translate/routine.h"
#include "frontend/spark/translate/scope.h"
#include "frontend/spark/translate/values.h"
#include "plan/edit.h"
#include <inttypes.h>

/* ---- values ---- */

static trn_status argument_types(spark_translator *t, const trn_expr *const *args, size_t count, trn_function_arg *out,
                                 struct ArrowSchema *types, trn_error **error) {
  for (size_t i = 0; i < count; i++) {
    if (!args[i]) continue; /* a lambda whose body is not known yet */
    if (trn__type_export(args[i]->type, "", args[i]->nullable, NULL, t->timezone, &types[i]))
      return trn__no_memory(error);
    out[i] = (trn_function_arg){.type = &types[i]};
  }
  return TRN_OK;
}

/* Arguments as a function sees them. Finished also on failure. */
typedef struct arguments {
  struct ArrowSchema *types;
  trn_function_arg *args;
  size_t count;
} arguments;

static trn_status arguments_init(arguments *a, spark_translator *t, const trn_expr *const *args, size_t count,
                                 trn_error **error) {
  *a = (arguments){calloc(count + 1, sizeof *a->types), calloc(count + 1, sizeof *a->args), count};
  return a->types && a->args ? argument_types(t, args, count, a->args, a->types, error) : trn__no_memory(error);
}

static void arguments_finish(arguments *a) {
  for (size_t i = 0; a->types && i < a->count; i++)
    if (a->types[i].release) a->types[i].release(&a->types[i]);
  free(a->types);
  free(a->args);
}

static trn_status bind(spark_builder *b, const trn_found_function *function, trn_field *out) {
  arguments a;
  struct ArrowSchema result = {0};
  trn_status status = arguments_init(&a, b->t, b->args, b->count, b->error);
  if (!status) status = trn__function_bind(function, a.args, b->count, &result, b->error);
  if (!status) status = trn__field_import(b->t->arena, &result, out, b->error);
  if (result.release) result.release(&result);
  arguments_finish(&a);
  return status;
}

trn_status spark__library_parameters(spark_translator *t, const trn_found_function *function,
                                     const trn_expr *const *args, size_t arg_count, size_t index, trn_field **fields,
                                     size_t *count, size_t *least, trn_error **error) {
  arguments a;
  trn_lambda_parameters given = {.struct_size = sizeof given};
  trn_status status = arguments_init(&a, t, args, arg_count, error);
  if (!status) status = trn__function_parameters(function->lambda, a.args, arg_count, index, &given, error);
  if (!status && !(*fields = TRN_NEW_N(t->arena, trn_field, given.count))) status = trn__no_memory(error);
  for (size_t i = 0; i < given.count && !status; i++)
    status = trn__field_import(t->arena, &given.types[i], &(*fields)[i], error);
  *count = given.count;
  *least = given.least;
  trn__lambda_parameters_finish(&given);
  arguments_finish(&a);
  return status;
}

/* Arguments that stand for lambdas and are none. */
static trn_status make_lambdas(spark_builder *b, const trn_found_function *function) {
  trn_status status = TRN_OK;
  for (size_t i = 0; i < b->count && !status; i++) {
    trn_field *fields = NULL;
    size_t count = 0, least = 0;
    if (trn__lambda_letter(function->lambda->arguments, i) != 'l' || b->args[i]->kind == TRN_EXPR_LAMBDA) continue;
    status = spark__library_parameters(b->t, function, b->args, b->count, i, &fields, &count, &least, b->error);
    if (!status) status = spark__as_lambda(b, i, count);
  }
  return status;
}

static trn_status build(spark_builder *b, const trn_expr **out) {
  trn_found_function function;
  trn_field result;
  if (!trn__registry_function(b->t->registry, b->function->name, &function))
    return trn_error_set(b->error, TRN_INTERNAL, NULL, "The function %s is gone", b->function->name);
  trn_status status = function.sort == TRN_SORT_LAMBDA ? make_lambdas(b, &function) : TRN_OK;
  if (!status) status = bind(b, &function, &result);
  if (status) return status;
  if (function.sort == TRN_SORT_AGGREGATE)
    return spark__gives(b, spark__aggregate(b, function.name, result.type, result.nullable, b->args, b->count), out);
  return spark__gives(b,
                      trn__expr_call(b->t->arena, TRN_HOME_LIBRARY, function.name, result.type, result.nullable, b->args,
                                     b->count),
                      out);
}

/* The row's letters: values and lambdas alike may be of any type. */
static const char *letters_of(spark_translator *t, const trn_found_function *function) {
  if (function->sort != TRN_SORT_LAMBDA) return "|a+";
  char *letters = trn__arena_strdup(t->arena, function->lambda->arguments);
  for (char *p = letters; p && *p; p++)
    if (*p == 'v' || *p == 'l') *p = 'a';
  return letters;
}

static unsigned flags_of(const trn_found_function *function) {
  trn_volatility volatility = TRN_IMMUTABLE;
  if (function->sort == TRN_SORT_SCALAR) volatility = function->scalar->volatility;
  if (function->sort == TRN_SORT_LAMBDA) volatility = function->lambda->volatility;
  return volatility == TRN_VOLATILE ? SPARK_VOLATILE : volatility == TRN_STABLE ? SPARK_STABLE : 0;
}

/* One row for each function and plan: what a plan calls is told apart by its row. */
static const spark_function *row_of(spark_translator *t, const trn_found_function *function) {
  spark_state *state = spark__state(t);
  for (spark_library_row *at = state ? state->library_rows : NULL; at; at = at->next)
    if (strcmp(at->row.name, function->name) == 0) return &at->row;
  spark_library_row *made = TRN_NEW(t->arena, spark_library_row);
  char *name = trn__arena_strdup(t->arena, function->name);
  const char *letters = letters_of(t, function);
  if (!made || !name || !letters) return NULL;
  made->row = (spark_function){.name = name, .arguments = letters, .build = build, .flags = flags_of(function)};
  if (function->sort == TRN_SORT_AGGREGATE) made->row.kind = SPARK_FUNCTION_AGGREGATE;
  if (function->sort == TRN_SORT_WINDOW) made->row.kind = SPARK_FUNCTION_WINDOW;
  if (state) made->next = state->library_rows, state->library_rows = made;
  return &made->row;
}

const spark_function *spark__library_find(spark_translator *t, const char *name) {
  trn_found_function function;
  if (!t->registry || !trn__registry_function(t->registry, name, &function) || function.sort == TRN_SORT_TABLE)
    return NULL;
  return row_of(t, &function);
}

bool spark__library_is_aggregate(spark_translator *t, const char *name) {
  trn_found_function function;
  return t->registry && trn__registry_function(t->registry, name, &function) && function.sort == TRN_SORT_AGGREGATE;
}

bool spark__library_has(spark_translator *t, const char *name, bool is_table) {
  trn_found_function function;
  return t->registry && trn__registry_function(t->registry, name, &function) &&
         (function.sort == TRN_SORT_TABLE) == is_table;
}

/* ---- tables: the engine's planner knows them by name ---- */

static void put_text(trn_strbuf *out, const char *data, size_t size) {
  trn__strbuf_putc(out, '\'');
  for (size_t i = 0; i < size; i++) {
    if (data[i] == '\'') trn__strbuf_putc(out, '\'');
    trn__strbuf_putc(out, data[i]);
  }
  trn__strbuf_putc(out, '\'');
}

/* The constant that an argument is: a literal, or one behind the casts that SQL's integers get. */
static trn_status put_argument(spark_translator *t, trn_strbuf *out, const spark_value *value, trn_error **error) {
  const trn_expr *e = value->expr;
  const trn_literal *literal = &e->u.literal;
  static const char *const types[] = {[TRN_TYPE_INT8] = "TINYINT",
                                      [TRN_TYPE_INT16] = "SMALLINT",
                                      [TRN_TYPE_INT32] = "INT",
                                      [TRN_TYPE_INT64] = "BIGINT",
                                      [TRN_TYPE_FLOAT32] = "REAL",
                                      [TRN_TYPE_FLOAT64] = "DOUBLE"};
  if (e->kind != TRN_EXPR_LITERAL)
    return spark__unimplemented(t, e->position, error, "A table function's argument that is no constant (%s)",
                                value->name ? value->name : "");
  switch (e->type->id) {
  case TRN_TYPE_NULL: trn__strbuf_puts(out, "NULL"); return TRN_OK;
  case TRN_TYPE_BOOL:
    trn__strbuf_puts(out, literal->is_null ? "CAST(NULL AS BOOLEAN)" : literal->value.boolean ? "TRUE" : "FALSE");
    return TRN_OK;
  case TRN_TYPE_INT8:
  case TRN_TYPE_INT16:
  case TRN_TYPE_INT32:
  case TRN_TYPE_INT64:
    if (literal->is_null)
      trn__strbuf_printf(out, "CAST(NULL AS %s)", types[e->type->id]);
    else
      trn__strbuf_printf(out, "CAST('%" PRId64 "' AS %s)", literal->value.integer, types[e->type->id]);
    return TRN_OK;
  case TRN_TYPE_FLOAT32:
  case TRN_TYPE_FLOAT64:
    if (literal->is_null)
      trn__strbuf_printf(out, "CAST(NULL AS %s)", types[e->type->id]);
    else
      trn__strbuf_printf(out, "CAST('%.17g' AS %s)", literal->value.number, types[e->type->id]);
    return TRN_OK;
  case TRN_TYPE_STRING:
    if (literal->is_null)
      trn__strbuf_puts(out, "CAST(NULL AS VARCHAR)");
    else
      put_text(out, literal->value.bytes.data, literal->value.bytes.size);
    return TRN_OK;
  default:
    return spark__unimplemented(t, e->position, error, "A table function's argument of this type (%s)",
                                value->name ? value->name : "");
  }
}

/* What a table function gives is nobody's table, and its scan says so. */
static trn_status label_scan(void *user, trn_edit *edit, const trn_rel *rel, const trn_rel **out, trn_error **error) {
  const trn_scan_info info = {.struct_size = sizeof info, .kind = TRN_SCAN_GENERATED, .format = "function"};
  trn_scan_label *label = NULL;
  if (rel->kind != TRN_REL_SCAN) return TRN_OK;
  if (trn_scan_label_create(&info, &label)) return trn__no_memory(error);
  *out = trn_edit_scan(edit, rel, user, rel->u.scan.source, label);
  trn_scan_label_unref(label);
  return TRN_OK;
}

static trn_status table_plan(spark_translator *t, const trn_strbuf *sql, trn_plan **out, trn_error **error) {
  const trn_plan_input input = {.struct_size = sizeof input,
                                .format = "sql",
                                .data = sql->data,
                                .size = sql->size,
                                .cancel = t->cancel};
  const trn_rewriting rewriting = {
      .struct_size = sizeof rewriting, .rel = label_scan, .user = trn_session_backend(t->session)};
  trn_plan *plan = NULL;
  trn_status status = trn_backend_decode(t->session, &input, &plan, error);
  if (!status) status = trn_plan_rewrite(plan, &rewriting, out, error);
  trn_plan_unref(plan);
  return status;
}

static trn_status table_relation(spark_translator *t, trn_plan *plan, spark_relation *out, trn_error **error) {
  trn_edit edit = {.arena = t->arena, .next_column = t->next_column};
  const trn_rel *rel = trn_edit_plan(&edit, plan);
  if (!rel) return trn__no_memory(error);
  t->next_column = edit.next_column;
  return spark__scope_of(t, rel, plan->fields, NULL, out, error);
}

trn_status spark__library_table(spark_translator *t, const char *name, const spark_value *args, size_t count,
                                spark_relation *out, trn_error **error) {
  trn_found_function function;
  trn_strbuf sql = {0};
  trn_plan *plan = NULL;
  if (!t->session || !trn__registry_function(t->registry, name, &function))
    return trn_error_set(error, TRN_INTERNAL, NULL, "The table function %s is gone", name);
  const spark_function *row = row_of(t, &function);
  if (!row || !spark__note_function(t, row)) return trn__no_memory(error);
  /* LATERAL: else the engine's planner takes the quotes for a part of the name. */
  trn__strbuf_printf(&sql, "SELECT * FROM LATERAL \"%s\"(", function.name);
  trn_status status = TRN_OK;
  for (size_t i = 0; i < count && !status; i++) {
    if (i) trn__strbuf_puts(&sql, ", ");
    status = put_argument(t, &sql, &args[i], error);
  }
  trn__strbuf_putc(&sql, ')');
  if (!status && sql.failed) status = trn__no_memory(error);
  if (!status) status = table_plan(t, &sql, &plan, error);
  if (!status) status = table_relation(t, plan, out, error);
  trn_plan_unref(plan);
  trn__strbuf_finish(&sql);
  return status;
}
