/* Messages of somebody's own: google.protobuf.Any in a relation, an expression or a command goes to the translator that
 * is registered for its type; this is what the translator sees of us (translator.h). */
#include "core/query.h"
#include "core/registry.h"
#include "frontend/spark/service.h"
#include "frontend/spark/translate/scope.h"
#include "plan/edit.h"
#include "frontend/wire/wire.h"
#include <trunnion/translator.h>

static const trn_position NOWHERE = {-1, -1};

/* The edit numbers columns where the translator does, and back: each function below begins with enter and ends with
 * leave. */
struct trn_translation {
  spark_translator *t;
  trn_edit edit;
  const Spark__Connect__Relation *relation; /* the message stands in; NULL: none */
  const spark_scope *scope;                 /* in force where an expression stands */
  bool has_aggregate;                       /* inside an expression that was translated */
};

static void enter(trn_translation *x) {
  x->t->next_column = x->edit.next_column;
}
static void leave(trn_translation *x) {
  x->edit.next_column = x->t->next_column;
}

/* ---- calling a translator ---- */

/* The one type that is built in. */
static bool is_encoded(const Google__Protobuf__Any *message) {
  const char *slash = message && message->type_url ? strrchr(message->type_url, '/') : NULL;
  return slash && strcmp(slash + 1, "trunnion.EncodedQuery") == 0;
}

static trn_status begin(spark_translator *t, const Google__Protobuf__Any *message, trn_translation *x,
                        const registry_translator **translator, trn_error **error) {
  const char *url = message && message->type_url ? message->type_url : "";
  if (!t->registry)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "This server has no translators of extensions (%s).", url);
  if (t->extension_depth >= TRN_EXTENSION_DEPTH_MAX)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                         "Extensions are nested deeper than TRN_EXTENSION_DEPTH_MAX (%u).", TRN_EXTENSION_DEPTH_MAX);
  trn_status status = is_encoded(message) ? TRN_OK : trn__registry_translator(t->registry, url, translator, error);
  if (status) return status;
  *x = (trn_translation){.t = t, .edit = {.arena = t->arena, .next_column = t->next_column}};
  t->extension_depth++;
  return TRN_OK;
}

/* What a translator said, checked: nothing of it is trusted to be there. */
static trn_status end(trn_translation *x, trn_status status, trn_error **error) {
  x->t->extension_depth--;
  enter(x);
  if (status == TRN_OK && x->edit.failed) return trn__no_memory(error);
  return status;
}

static trn_status bad_answer(const Google__Protobuf__Any *message, const char *what, trn_error **error) {
  return trn_error_set(error, TRN_INTERNAL, NULL, "The translator of '%s' gave %s.", message->type_url, what);
}

static trn_status refused(const Google__Protobuf__Any *message, const char *as, trn_error **error) {
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A message '%s' is no %s.", message->type_url, as);
}

static bool has_column(const trn_rel *rel, uint32_t id) {
  for (uint32_t i = 0; i < rel->column_count; i++)
    if (rel->columns[i].id == id) return true;
  return false;
}

static trn_status take_relation(spark_translator *t, const Google__Protobuf__Any *message, const trn_translated *given,
                                spark_relation *out, trn_error **error) {
  const spark_scope *scope = (const spark_scope *)given->scope;
  if (!given->rel || !scope) return bad_answer(message, "no relation", error);
  for (uint32_t i = 0; i < scope->count; i++)
    if (!has_column(given->rel, scope->columns[i].expr->u.column))
      return bad_answer(message, "a scope with a column that its relation has not", error);
  /* A scope of its own: the child's stays what it is when this one gets a place in the plan. */
  spark_column *columns = trn__arena_copy(t->arena, scope->columns, scope->count * sizeof *columns);
  out->rel = given->rel;
  out->scope = columns ? spark__scope_create(t, columns, scope->count) : NULL;
  return out->scope ? TRN_OK : trn__no_memory(error);
}

/* ---- the built-in one: a query in an encoding ---- */

typedef struct field {
  uint32_t number;
  const uint8_t *data;
  size_t size;
} field;

/* The next length-delimited field; others are skipped. False: the end, or *bad. */
static bool next_field(const uint8_t **at, const uint8_t *end, field *out, bool *bad) {
  while (*at < end) {
    uint64_t tag, value;
    *bad = true;
    if (!trn__wire_varint(at, end, &tag)) return false;
    unsigned wire = tag & 7;
    if (wire == 0) {
      if (!trn__wire_varint(at, end, &value)) return false;
    } else if (wire == 1 || wire == 5) {
      size_t size = wire == 1 ? 8 : 4;
      if ((size_t)(end - *at) < size) return false;
      *at += size;
    } else if (wire == 2) {
      if (!trn__wire_varint(at, end, &value) || value > (size_t)(end - *at)) return false;
      *out = (field){(uint32_t)(tag >> 3), *at, (size_t)value};
      *at += value;
      *bad = false;
      return true;
    } else {
      return false;
    }
    *bad = false;
  }
  return false;
}

static bool read_text(trn_arena *arena, const field *f, const char **out) {
  if (memchr(f->data, 0, f->size) || !trn__utf8_is_valid(f->data, f->size)) return false;
  *out = trn__arena_str(arena, (const char *)f->data, f->size);
  return *out != NULL;
}

static bool read_option(trn_arena *arena, const field *entry, trn_kv *out) {
  const uint8_t *at = entry->data, *end = entry->size ? at + entry->size : at;
  field f;
  bool bad = false;
  *out = (trn_kv){"", ""};
  while (next_field(&at, end, &f, &bad)) {
    if (f.number == 1 && !read_text(arena, &f, &out->key)) return false;
    if (f.number == 2 && !read_text(arena, &f, &out->value)) return false;
  }
  return !bad;
}

static trn_status read_encoded(trn_arena *arena, const void *value, size_t size, trn_plan_input *out,
                               trn_error **error) {
  const uint8_t *at = value, *end = size ? at + size : at;
  trn_kv *options = TRN_NEW_N(arena, trn_kv, TRN_EXTENSION_OPTIONS_MAX);
  field f;
  bool bad = false;
  if (!options) return trn__no_memory(error);
  out->format = "";
  out->options = options;
  while (!bad && next_field(&at, end, &f, &bad)) {
    if (f.number == 1) bad = !read_text(arena, &f, &out->format);
    if (f.number == 2) {
      out->data = f.data;
      out->size = f.size;
    }
    if (f.number != 3) continue;
    bad = out->option_count == TRN_EXTENSION_OPTIONS_MAX || !read_option(arena, &f, &options[out->option_count]);
    out->option_count++;
  }
  return bad ? trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The message trunnion.EncodedQuery cannot be read.")
             : TRN_OK;
}

static trn_status encoded_relation(trn_translation *x, const Google__Protobuf__Any *message, trn_translated *out,
                                   trn_error **error) {
  spark_translator *t = x->t;
  trn_plan_input input = {
      .struct_size = sizeof input, .resolve = trn_session_resolve_table, .resolve_user = t->session, .cancel = t->cancel};
  const trn_decode_options options = {
      .struct_size = sizeof options, .is_cancelled = t->is_cancelled, .user = t->cancel_user};
  trn_plan *plan = NULL;
  trn_status status = read_encoded(t->arena, message->value.data, message->value.len, &input, error);
  if (!status) status = trn_registry_decode(t->registry, t->session, &input, &options, &plan, error);
  if (!status) status = trn_translation_plan(x, plan, out, error);
  trn_plan_unref(plan);
  return status;
}

/* ---- the three places ---- */

trn_status spark__relation_extension(spark_translator *t, const Spark__Connect__Relation *relation, spark_relation *out,
                                     trn_error **error) {
  const Google__Protobuf__Any *message = relation->extension;
  const registry_translator *translator = NULL;
  trn_translation x;
  trn_translated given = {0};
  trn_status status = begin(t, message, &x, &translator, error);
  if (status) return status;
  x.relation = relation;
  if (is_encoded(message))
    status = encoded_relation(&x, message, &given, error);
  else if (translator->ops.relation)
    status = translator->ops.relation(translator->self, &x, message->value.data, message->value.len, &given, error);
  else
    status = refused(message, "relation", error);
  status = end(&x, status, error);
  return status ? status : take_relation(t, message, &given, out, error);
}

trn_status spark__expression_extension(spark_translator *t, const Google__Protobuf__Any *message, trn_position position,
                                       spark_value *out, trn_error **error) {
  const registry_translator *translator = NULL;
  trn_translation x;
  trn_translated_expr given = {.struct_size = sizeof given};
  trn_status status = begin(t, message, &x, &translator, error);
  if (status) return status;
  const spark_context *context = spark__state(t)->context;
  x.scope = context ? context->scope : NULL;
  if (translator && translator->ops.expression)
    status = translator->ops.expression(translator->self, &x, message->value.data, message->value.len, &given, error);
  else
    status = refused(message, "expression", error);
  status = end(&x, status, error);
  if (status) return status;
  if (!given.expr) return bad_answer(message, "no expression", error);
  const char *slash = strrchr(message->type_url, '/');
  *out = (spark_value){.expr = given.expr, .has_aggregate = x.has_aggregate};
  out->name = trn__arena_strdup(t->arena, given.name ? given.name : slash ? slash + 1 : message->type_url);
  (void)position;
  return out->name ? TRN_OK : trn__no_memory(error);
}

trn_status spark__translate_command(spark_translator *t, const Google__Protobuf__Any *message, trn_plan **out,
                                    trn_error **error) {
  const registry_translator *translator = NULL;
  trn_translation x;
  trn_translated given = {0};
  spark_relation relation;
  *out = NULL;
  trn_status status = begin(t, message, &x, &translator, error);
  if (!status) {
    if (translator && translator->ops.command)
      status = translator->ops.command(translator->self, &x, message->value.data, message->value.len, &given, error);
    else
      status = refused(message, "command", error);
    status = end(&x, status, error);
  }
  if (!status && given.rel) status = take_relation(t, message, &given, &relation, error);
  if (!status && given.rel) return spark__relation_plan(t, &relation, out, error);
  trn__arena_unref(t->arena);
  t->arena = NULL;
  return status;
}

/* ---- what translators call ---- */

trn_session *trn_translation_session(trn_translation *x) {
  return x->t->session;
}

trn_edit *trn_translation_edit(trn_translation *x) {
  return &x->edit;
}

bool trn_translation_plan_id(const trn_translation *x, int64_t *out) {
  const Spark__Connect__RelationCommon *common = x->relation ? x->relation->common : NULL;
  if (!common || !common->_plan_id_case) return false;
  *out = common->plan_id;
  return true;
}

trn_status trn_translation_relation(trn_translation *x, const void *message, size_t size, trn_translated *out,
                                    trn_error **error) {
  ProtobufCMessage *decoded = NULL;
  spark_relation relation;
  spark_translator *t = x->t;
  trn_status status =
      spark__wire_decode(t->arena, &spark__connect__relation__descriptor, message, size, &decoded, error);
  if (status) return status;
  enter(x);
  status = spark__relation(t, (const Spark__Connect__Relation *)decoded, &relation, error);
  leave(x);
  if (!status) *out = (trn_translated){relation.rel, (const trn_scope *)relation.scope};
  return status;
}

static trn_status translate_expr(trn_translation *x, const trn_scope *scope, const ProtobufCMessage *message,
                                 spark_value *out, trn_error **error) {
  spark_translator *t = x->t;
  spark_context context;
  if (!scope && !x->scope)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The expression is translated without a scope.");
  if (scope) spark__context_begin(t, &context, (const spark_scope *)scope);
  trn_status status = spark__expression(t, (const Spark__Connect__Expression *)message, out, error);
  if (scope) spark__context_end(t, &context);
  if (!status && scope && out->has_aggregate)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "An aggregate function does not stand alone here.");
  if (!status && out->is_generator)
    status = spark__unimplemented(t, NOWHERE, error, "A generator inside of an extension");
  if (!status && out->is_window_function) status = spark__needs_over(t, out, error);
  return status;
}

trn_status trn_translation_expr(trn_translation *x, const trn_scope *scope, const void *message, size_t size,
                                trn_translated_expr *out, trn_error **error) {
  ProtobufCMessage *decoded = NULL;
  spark_value value;
  trn_status status =
      spark__wire_decode(x->t->arena, &spark__connect__expression__descriptor, message, size, &decoded, error);
  if (status) return status;
  enter(x);
  status = translate_expr(x, scope, decoded, &value, error);
  leave(x);
  if (status) return status;
  x->has_aggregate |= value.has_aggregate;
  const trn_translated_expr result = {.struct_size = sizeof result, .expr = value.expr, .name = value.name};
  memcpy(out, &result, out->struct_size ? trn__struct_size(out->struct_size, sizeof result) : sizeof result);
  return TRN_OK;
}

trn_status trn_translation_plan(trn_translation *x, trn_plan *plan, trn_translated *out, trn_error **error) {
  spark_translator *t = x->t;
  spark_relation relation;
  if (trn_plan_get_kind(plan) != TRN_PLAN_LOGICAL)
    return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "A physical plan cannot stand inside of another plan.");
  const trn_rel *rel = trn_edit_plan(&x->edit, plan);
  if (!rel) return trn__no_memory(error);
  enter(x);
  trn_status status = spark__scope_of(t, rel, plan->fields, NULL, &relation, error);
  leave(x);
  if (!status) *out = (trn_translated){relation.rel, (const trn_scope *)relation.scope};
  return status;
}

/* ---- scopes ---- */

size_t trn_scope_count(const trn_scope *scope) {
  return scope ? ((const spark_scope *)scope)->count : 0;
}

bool trn_scope_get(const trn_scope *given, size_t index, trn_scope_column *out) {
  const spark_scope *scope = (const spark_scope *)given;
  if (!scope || index >= scope->count) return false;
  const spark_column *column = &scope->columns[index];
  const trn_scope_column result = {.struct_size = sizeof result,
                                   .column = column->expr,
                                   .name = column->name,
                                   .qualifier = column->qualifier ? column->qualifier->parts : NULL,
                                   .qualifier_count = column->qualifier ? column->qualifier->count : 0,
                                   .metadata = column->metadata,
                                   .is_hidden = column->hidden};
  memcpy(out, &result, out->struct_size ? trn__struct_size(out->struct_size, sizeof result) : sizeof result);
  return true;
}

const trn_scope *trn_translation_scope(trn_translation *x) {
  return (const trn_scope *)x->scope;
}

static trn_status copy_column(spark_translator *t, const trn_scope_column *given, spark_column *out,
                              trn_error **error) {
  if (!given->name || !given->column || given->column->kind != TRN_EXPR_COLUMN)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The column '%s' of a scope has no name, or is no column.",
                         given->name ? given->name : "");
  if (given->qualifier_count > SPARK_QUALIFIER_PARTS_MAX)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The column '%s' has more than %d parts before its name.",
                         given->name, SPARK_QUALIFIER_PARTS_MAX);
  *out = (spark_column){
      .expr = given->column, .name = trn__arena_strdup(t->arena, given->name), .hidden = given->is_hidden};
  if (given->metadata) out->metadata = trn__arena_strdup(t->arena, given->metadata);
  bool ok = out->name && (out->metadata || !given->metadata);
  if (ok && given->qualifier_count) {
    const char *parts[SPARK_QUALIFIER_PARTS_MAX];
    for (size_t i = 0; i < given->qualifier_count && ok; i++)
      ok = (parts[i] = trn__arena_strdup(t->arena, given->qualifier[i])) != NULL;
    if (ok) out->qualifier = spark__qualifier(t, parts, given->qualifier_count);
    ok = ok && out->qualifier;
  }
  return ok ? TRN_OK : trn__no_memory(error);
}

trn_status trn_translation_new_scope(trn_translation *x, const trn_scope_column *columns, size_t count,
                                     const trn_scope **out, trn_error **error) {
  spark_translator *t = x->t;
  spark_column *copies = TRN_NEW_N(t->arena, spark_column, count);
  if (!copies) return trn__no_memory(error);
  const char *at = (const char *)columns;
  size_t stride = count && columns->struct_size ? columns->struct_size : sizeof *columns;
  for (size_t i = 0; i < count; i++) {
    trn_scope_column column = {0};
    memcpy(&column, at + i * stride, trn__struct_size(stride, sizeof column));
    trn_status status = copy_column(t, &column, &copies[i], error);
    if (status) return status;
  }
  const spark_scope *scope = spark__scope_create(t, copies, count);
  *out = (const trn_scope *)scope;
  return scope ? TRN_OK : trn__no_memory(error);
}

trn_status trn_translation_bind_plan_id(trn_translation *x, int64_t id, const trn_scope *scope, trn_error **error) {
  spark_state *state = spark__state(x->t);
  uint64_t begin_at = ++state->clock;
  if (!scope) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A plan id is bound to a scope.");
  return spark__plan_id_add(x->t, id, (const spark_scope *)scope, begin_at, ++state->clock, error);
}
