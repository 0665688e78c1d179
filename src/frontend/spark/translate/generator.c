/* Generators: explode and kin, in select lists and lateral views. */
#include "frontend/spark/translate/routine.h"
#include "frontend/spark/translate/values.h"
#include <stdio.h>
#include <strings.h>

static const trn_position NOWHERE = {-1, -1};

enum { INLINE_FIELDS_MAX = 1000 };

typedef struct spark_generated {
  trn_column columns[3]; /* of UNNEST */
  size_t column_count;
  bool outer, with_position;
  spark_value values[2 + INLINE_FIELDS_MAX]; /* what the generator gives, in order */
  size_t count;
} generated;

typedef struct generator_kind {
  const char *name;
  bool position, inlined;
} generator_kind;

static const generator_kind kinds[] = {{"explode", false, false}, {"posexplode", true, false}, {"inline", false, true},
                                       {"stack", false, true},    {"json_tuple", false, true}};

static const generator_kind *kind_of(const trn_expr *call, bool *outer) {
  const char *name = call->kind == TRN_EXPR_CALL ? call->u.call.name : "";
  if (strncmp(name, "trn.", 4) == 0) name += 4;
  size_t size = strlen(name);
  *outer = size > 6 && strcasecmp(name + size - 6, "_outer") == 0;
  if (*outer) size -= 6;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strlen(kinds[i].name) == size && strncasecmp(kinds[i].name, name, size) == 0) return &kinds[i];
  return NULL;
}

static trn_status push(spark_translator *t, generated *out, const trn_column *column, const char *name,
                       trn_error **error) {
  out->values[out->count] =
      (spark_value){.expr = trn__expr_column(t->arena, column), .name = name, .is_attribute = true};
  return out->values[out->count++].expr ? TRN_OK : trn__no_memory(error);
}

/* inline: the element is a struct, its fields are the columns. */
static trn_status inline_fields(spark_translator *t, generated *out, trn_error **error) {
  const trn_expr *element = out->values[0].expr;
  trn_status status = TRN_OK;
  if (element->type->id != TRN_TYPE_STRUCT || element->type->field_count > INLINE_FIELDS_MAX)
    return spark__unimplemented(t, NOWHERE, error, "inline of something else than structs");
  out->count = 0;
  for (uint32_t i = 0; i < element->type->field_count && status == TRN_OK; i++) {
    char *part = (char *)element->type->fields[i].name;
    spark_value *value = &out->values[out->count++];
    *value = (spark_value){.is_alias = true, .name = part};
    status = spark__nested_fields(t, element, &part, 1, NOWHERE, &value->expr, &value->name, error);
    value->name = part;
  }
  return status;
}

/* What the generator gives: the columns of an UNNEST, which is made later. */
static trn_status prepare(spark_translator *t, const spark_value *generator, bool force_outer, generated *out,
                          trn_error **error) {
  const trn_expr *call = generator->expr;
  const generator_kind *kind = kind_of(call, &out->outer);
  bool outer = out->outer |= force_outer;
  if (!kind || call->arg_count == 0)
    return spark__unimplemented(t, call->position, error, "The generator %s", generator->name ? generator->name : "");
  const trn_expr *arg = call->args[0];
  bool map = arg->type->id == TRN_TYPE_MAP;
  if (!map && arg->type->id != TRN_TYPE_ARRAY)
    return spark__unimplemented(t, call->position, error, "A generator over this type");
  out->with_position = kind->position;
  trn_column *columns = out->columns;
  size_t count = 0;
  if (kind->position) columns[count++] = (trn_column){t->next_column++, outer, trn__type(TRN_TYPE_INT32)};
  columns[count++] =
      (trn_column){t->next_column++, outer || (!map && arg->type->fields[0].nullable), arg->type->fields[0].type};
  if (map)
    columns[count++] =
        (trn_column){t->next_column++, outer || arg->type->fields[1].nullable, arg->type->fields[1].type};
  out->column_count = count;
  size_t at = 0;
  trn_status status = kind->position ? push(t, out, &columns[at++], "pos", error) : TRN_OK;
  if (status == TRN_OK) status = push(t, out, &columns[at++], map ? "key" : "col", error);
  if (status == TRN_OK && map) status = push(t, out, &columns[at++], "value", error);
  return status == TRN_OK && kind->inlined ? inline_fields(t, out, error) : status;
}

/* UNNEST over the relation; its columns stay, the generator's come behind. */
static trn_status unnest(spark_translator *t, const trn_rel **rel, const spark_value *generator, const generated *made,
                         trn_error **error) {
  const trn_rel *input = *rel;
  size_t count = input->column_count;
  trn_column *columns = TRN_NEW_N(t->arena, trn_column, count + made->column_count);
  if (!columns) return trn__no_memory(error);
  if (count) memcpy(columns, input->columns, count * sizeof *columns);
  memcpy(columns + count, made->columns, made->column_count * sizeof *columns);
  trn_rel *out = trn__rel_create(t->arena, TRN_REL_UNNEST, &input, 1, generator->expr->args, 1, columns,
                                 count + made->column_count);
  if (!out) return trn__no_memory(error);
  out->u.unnest.outer = made->outer;
  out->u.unnest.with_position = made->with_position;
  *rel = out;
  return TRN_OK;
}

static trn_status name_generated(spark_translator *t, generated *out, const char *const *names, size_t count,
                                 trn_error **error) {
  if (count == 0) return TRN_OK;
  if (count != out->count) {
    char size[24];
    trn_strbuf list = {0};
    snprintf(size, sizeof size, "%zu", out->count);
    for (size_t i = 0; i < count; i++) trn__strbuf_printf(&list, "%s%s", i ? "," : "", names[i]);
    const char *text = spark__finish_text(t, &list);
    if (!text) return trn__no_memory(error);
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "UDTF_ALIAS_NUMBER_MISMATCH", NOWHERE, "aliasesSize", size,
                        "aliasesNames", text, NULL);
  }
  for (size_t i = 0; i < count; i++) {
    out->values[i].name = names[i];
    out->values[i].is_alias = true;
    out->values[i].is_attribute = false;
  }
  return TRN_OK;
}

static bool is_generator_call(void *user, const trn_expr *expr) {
  (void)user;
  if (expr->kind != TRN_EXPR_CALL) return false;
  const spark_function *row = spark__function_find(expr->u.call.name, strlen(expr->u.call.name));
  return row && row->kind == SPARK_FUNCTION_GENERATOR;
}

bool spark__holds_generator(spark_translator *t, const trn_expr *expr) {
  return spark__state(t)->has_generators && spark__expr_find(expr, is_generator_call, NULL) != NULL;
}

static bool holds_nested(spark_translator *t, const spark_value *value) {
  if (!value->is_generator) return spark__holds_generator(t, value->expr);
  for (uint32_t k = 0; k < value->expr->arg_count; k++)
    if (spark__holds_generator(t, value->expr->args[k])) return true;
  return false;
}

trn_status spark__refuse_nested_generators(spark_translator *t, const spark_value *values, size_t count,
                                           trn_error **error) {
  for (size_t i = 0; i < count && spark__state(t)->has_generators; i++) {
    if (!holds_nested(t, &values[i])) continue;
    const char *text = spark__sql_text(t, values[i].name);
    if (!text) return trn__no_memory(error);
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNSUPPORTED_GENERATOR.NESTED_IN_EXPRESSIONS",
                        values[i].expr->position, "expression", text, NULL);
  }
  return TRN_OK;
}

trn_status spark__refuse_generators(spark_translator *t, const spark_value *value, const char *plan, trn_error **error) {
  if (!spark__holds_generator(t, value->expr)) return TRN_OK;
  const char *text = trn__arena_printf(t->arena, plan, value->name ? value->name : "");
  if (!text) return trn__no_memory(error);
  return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNSUPPORTED_GENERATOR.OUTSIDE_SELECT", value->expr->position,
                      "plan", text, NULL);
}

/* What the generator gives, under the names that it has there. */
static trn_status prepare_named(spark_translator *t, const spark_value *generator, generated **out, trn_error **error) {
  generated *made = *out = TRN_NEW(t->arena, generated);
  if (!made) return trn__no_memory(error);
  trn_status status = prepare(t, generator, false, made, error);
  if (status == TRN_OK && generator->alias_count)
    return name_generated(t, made, generator->aliases, generator->alias_count, error);
  return status == TRN_OK && generator->is_alias ? name_generated(t, made, &generator->name, 1, error) : status;
}

trn_status spark__declare_generator(spark_translator *t, spark_context *context, spark_value *generator,
                                    trn_error **error) {
  const spark_scope *before = context->generated;
  size_t count = before ? before->count : 0;
  if (holds_nested(t, generator)) return TRN_OK; /* refused later, by its name */
  trn_status status = prepare_named(t, generator, &generator->generated, error);
  if (status != TRN_OK) return status;
  const generated *made = generator->generated;
  spark_column *columns = TRN_NEW_N(t->arena, spark_column, count + made->count);
  if (!columns) return trn__no_memory(error);
  if (count) memcpy(columns, before->columns, count * sizeof *columns);
  for (size_t i = 0; i < made->count; i++)
    columns[count++] = (spark_column){.expr = made->values[i].expr, .name = made->values[i].name};
  context->generated = spark__scope_create(t, columns, count);
  return context->generated ? TRN_OK : trn__no_memory(error);
}

/* Lateral aliases become columns above the generator: inside of it they are what they stand for. */
static trn_status without_laterals(spark_translator *t, const spark_context *context, spark_value *generator,
                                   trn_error **error) {
  trn_status status = TRN_OK;
  for (uint32_t i = context && context->lateral_used ? context->lateral_count : 0; i-- > 0 && status == TRN_OK;) {
    const spark_lateral *lateral = &context->laterals[i];
    if (lateral->column)
      status = spark__substitute(t, generator->expr, (const trn_expr **)&lateral->column,
                                 (const trn_expr **)&lateral->value, 1, &generator->expr, error);
  }
  return status;
}

/* The generator at `at` becomes columns. */
static trn_status expand(spark_translator *t, spark_relation *input, const spark_value **values, size_t *count, size_t at,
                         const spark_context *context, trn_error **error) {
  const spark_value *generator = &(*values)[at];
  generated *made = generator->generated;
  trn_status status = made ? TRN_OK : prepare_named(t, generator, &made, error);
  spark_value over = *generator;
  if (status == TRN_OK) status = without_laterals(t, context, &over, error);
  if (status == TRN_OK) status = unnest(t, &input->rel, &over, made, error);
  if (status != TRN_OK) return status;
  spark_value *all = TRN_NEW_N(t->arena, spark_value, *count + made->count);
  if (!all) return trn__no_memory(error);
  if (at) memcpy(all, *values, at * sizeof *all);
  if (made->count) memcpy(all + at, made->values, made->count * sizeof *all);
  memcpy(all + at + made->count, *values + at + 1, (*count - at - 1) * sizeof *all);
  for (uint32_t i = 0; context && i < context->lateral_count; i++)
    if (context->laterals[i].item > at) context->laterals[i].item += (uint32_t)made->count - 1;
  *count += made->count - 1;
  *values = all;
  return TRN_OK;
}

trn_status spark__expand_generators(spark_translator *t, spark_relation *input, const spark_value **values,
                                    size_t *count, const spark_context *context, trn_error **error) {
  if (!spark__state(t)->has_generators) return TRN_OK;
  trn_status status = spark__refuse_nested_generators(t, *values, *count, error);
  for (size_t at = 0; status == TRN_OK; at++) { /* each over the rows of those before */
    while (at < *count && !(*values)[at].is_generator) at++;
    if (at == *count) break;
    status = expand(t, input, values, count, at, context, error);
  }
  return status;
}
trn_status spark__relation_lateral_view(spark_translator *t, const Spark__Connect__TrnLateralViewOf *node,
                                        spark_relation *out, trn_error **error) {
  spark_relation input;
  spark_context context;
  spark_value generator, *values = NULL;
  size_t count = 0;
  const Spark__Connect__TrnLateralView *view = node->view;
  if (!view) return spark__unimplemented(t, NOWHERE, error, "A lateral view without a generator");
  trn_status status = spark__relation(t, node->input, &input, error);
  if (status != TRN_OK) return status;
  spark__context_begin(t, &context, input.scope);
  status = spark__expression(t, view->generator, &generator, error);
  spark__context_end(t, &context);
  if (status != TRN_OK) return status;
  if (!generator.is_generator)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNSUPPORTED_GENERATOR.NOT_GENERATOR",
                        spark__position(t, view->generator), "functionName", generator.name ? generator.name : "",
                        "classCanonicalName", "", NULL);
  generated *made = TRN_NEW(t->arena, generated);
  const spark_qualifier *qualifier =
      spark__qualifier(t, (const char *const *)&view->alias, view->alias && *view->alias ? 1 : 0);
  if (!made || !qualifier) return trn__no_memory(error);
  status = prepare(t, &generator, view->outer, made, error);
  if (status == TRN_OK) status = unnest(t, &input.rel, &generator, made, error);
  if (status == TRN_OK) status = name_generated(t, made, (const char *const *)view->columns, view->n_columns, error);
  if (status == TRN_OK) status = spark__scope_values(t, input.scope, &values, &count, error);
  spark_value *all = TRN_NEW_N(t->arena, spark_value, count + made->count);
  if (status != TRN_OK) return status;
  if (!all) return trn__no_memory(error);
  if (count) memcpy(all, values, count * sizeof *all);
  for (size_t i = 0; i < made->count; i++) {
    all[count] = made->values[i];
    all[count].is_alias = false;
    all[count].is_attribute = true;
    all[count++].qualifier = qualifier;
  }
  return spark__project(t, &input, all, count, NULL, out, error);
}

/* ---- functions as tables ---- */
static trn_status constant_int(spark_translator *t, const spark_value *value, int64_t *out, trn_error **error) {
  const trn_expr *expr = value->expr;
  trn_status status =
      spark__cast(t, expr, trn__type(TRN_TYPE_INT64), SPARK_CAST_IMPLICIT, expr->position, &expr, error);
  if (status != TRN_OK) return status;
  if (expr->kind == TRN_EXPR_CAST ||
      (expr->kind == TRN_EXPR_CALL && expr->arg_count > 0 && trn__type_is_integer(expr->args[0]->type)))
    expr = expr->args[0]; /* the cast of an integer literal */
  if (expr->kind != TRN_EXPR_LITERAL || expr->u.literal.is_null || !trn__type_is_integer(expr->type))
    return spark__unimplemented(t, expr->position, error, "range with a bound that is no constant");
  *out = expr->u.literal.value.integer;
  return TRN_OK;
}

/* range(end), range(start, end[, step[, partitions]]) */
static trn_status table_range(spark_translator *t, const spark_value *args, size_t count, spark_relation *out,
                              trn_error **error) {
  int64_t numbers[4] = {0, 0, 1, 0};
  trn_status status = TRN_OK;
  if (count == 0 || count > 4)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "WRONG_NUM_ARGS.WITHOUT_SUGGESTION", NOWHERE, "functionName",
                        "`range`", "expectedNum", "[1, 2, 3, 4]", "actualNum", count ? "5" : "0", "docroot",
                        "https://spark.apache.org/docs/latest", NULL);
  for (size_t i = 0; i < count && status == TRN_OK; i++)
    status = constant_int(t, &args[i], &numbers[count == 1 ? 1 : i], error);
  if (status != TRN_OK) return status;
  Spark__Connect__Range range = SPARK__CONNECT__RANGE__INIT;
  Spark__Connect__Relation relation = SPARK__CONNECT__RELATION__INIT;
  range._start_case = SPARK__CONNECT__RANGE___START_START;
  range.start = numbers[0];
  range.end = numbers[1];
  range.step = numbers[2];
  relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_RANGE;
  relation.range = &range;
  return spark__relation(t, &relation, out, error);
}

trn_status spark__relation_table_function(spark_translator *t,
                                          const Spark__Connect__UnresolvedTableValuedFunction *node,
                                          spark_relation *out, trn_error **error) {
  spark_relation row;
  spark_context context;
  spark_value *args = NULL, value;
  size_t count = 0;
  const char *name = node->function_name ? node->function_name : "";
  bool is_range = strcasecmp(name, "range") == 0;
  if (!is_range && !spark__function_exists(name)) {
    const char *behind = NULL;
    trn_status found = spark__routine_alias(t, name, &behind, error);
    if (found) return found;
    if (behind) name = behind;
  }
  bool is_library = !is_range && spark__library_has(t, name, true);
  bool is_routine = !is_range && !is_library && !spark__function_exists(name) && spark__routine_exists(t, name, true);
  trn_status status = spark__one_row(t, &row, error);
  if (status != TRN_OK) return status;
  spark__context_begin(t, &context, row.scope);
  if (is_range || is_routine || is_library)
    status = spark__expressions(t, node->arguments, node->n_arguments, &args, &count, error);
  else
    status =
        spark__function_call(t, name, node->arguments, node->n_arguments, false, false, NULL, NOWHERE, &value, error);
  spark__context_end(t, &context);
  if (status == TRN_OK && is_range) return table_range(t, args, count, out, error);
  if (status == TRN_OK && is_library) return spark__library_table(t, name, args, count, out, error);
  if (status == TRN_OK && is_routine) {
    bool found = false;
    return spark__routine_table(t, name, args, count, NOWHERE, out, &found, error);
  }
  if (status == TRN_OK && !value.is_generator)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "UNRESOLVABLE_TABLE_VALUED_FUNCTION", NOWHERE, "name", name,
                        NULL);
  return status == TRN_OK ? spark__project(t, &row, &value, 1, NULL, out, error) : status;
}
