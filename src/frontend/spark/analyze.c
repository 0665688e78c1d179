/* AnalyzePlan: questions about plans and types. */
#include <stdio.h>

#include "frontend/spark/service.h"
#include "frontend/spark/sql/sql.h"

enum { ANALYZE_INPUT_FILES_MAX = 10000 };

typedef Spark__Connect__AnalyzePlanResponse analyze_response;

/* Sets the member of the response's oneof: its type's init function and the case. */
#define RESULT(type, init, member, value)                                                                              \
  type result;                                                                                                         \
  init(&result);                                                                                                       \
  response->result_case = SPARK__CONNECT__ANALYZE_PLAN_RESPONSE__RESULT_##value;                                       \
  response->member = &result

static trn_status reply(spark_rpc *rpc, analyze_response *response, trn_error **error) {
  response->session_id = rpc->session->id;
  response->server_side_session_id = (char *)rpc->session->server_id;
  return spark__rpc_reply(rpc, &response->base, error);
}

/* ---- the plan of a request ---- */

static trn_status root_of(const Spark__Connect__Plan *plan, const Spark__Connect__Relation **out, trn_error **error) {
  *out = NULL;
  switch (plan ? plan->op_type_case : SPARK__CONNECT__PLAN__OP_TYPE__NOT_SET) {
  case SPARK__CONNECT__PLAN__OP_TYPE_ROOT: *out = plan->root; return TRN_OK;
  case SPARK__CONNECT__PLAN__OP_TYPE_COMPRESSED_OPERATION:
    return spark__raise(error, TRN_UNIMPLEMENTED, "CONNECT_INVALID_PLAN.CANNOT_PARSE", "errorMsg",
                        "compressed plans are not supported", NULL, NULL, NULL, NULL);
  case SPARK__CONNECT__PLAN__OP_TYPE_COMMAND:
    return spark__error_not_supported(error, &plan->base, (int)plan->op_type_case);
  default: return spark__error_not_set(error, "spark.connect.Plan", "OPTYPE_NOT_SET");
  }
}

/* A plan whose names and types are shown, not run: policies are asked all the same. */
static trn_status plan_to_show(spark_rpc *rpc, const Spark__Connect__Relation *root, trn_plan **out,
                               trn_error **error) {
  trn_status status = spark__plan_relation(rpc, root, out, error);
  if (status == TRN_OK) status = trn_backend_check(rpc->session->session, *out, error);
  if (status == TRN_OK) return TRN_OK;
  trn_plan_unref(*out);
  *out = NULL;
  return status;
}

static trn_status translate(spark_rpc *rpc, const Spark__Connect__Plan *plan, trn_plan **out, trn_error **error) {
  const Spark__Connect__Relation *root;
  *out = NULL;
  trn_status status = root_of(plan, &root, error);
  return status ? status : plan_to_show(rpc, root, out, error);
}

static trn_status catalog_fields(spark_rpc *rpc, const Spark__Connect__Catalog *catalog, const trn_field **fields,
                                 size_t *count, trn_error **error) {
  spark_table table;
  trn_status status = spark__catalog_columns(rpc->arena, catalog, &table, error);
  if (status) return status;
  *fields = table.fields;
  *count = table.column_count;
  return TRN_OK;
}

/* The fields of a plan's result, also of those that are made here. `*plan` may be NULL afterwards; the fields live as
 * long as it and the request. */
static trn_status fields_of(spark_rpc *rpc, const Spark__Connect__Plan *from, trn_plan **plan, const trn_field **fields,
                            size_t *count, trn_error **error) {
  const Spark__Connect__Relation *root;
  *plan = NULL;
  trn_status status = root_of(from, &root, error);
  if (status) return status;
  if (root->rel_type_case == SPARK__CONNECT__RELATION__REL_TYPE_CATALOG && !spark__created_table(root->catalog))
    return catalog_fields(rpc, root->catalog, fields, count, error);
  bool is_show = root->rel_type_case == SPARK__CONNECT__RELATION__REL_TYPE_SHOW_STRING;
  if (is_show || root->rel_type_case == SPARK__CONNECT__RELATION__REL_TYPE_HTML_STRING) {
    trn_field *field = TRN_NEW(rpc->arena, trn_field);
    if (!field) return trn__no_memory(error);
    *field = (trn_field){is_show ? "show_string" : "html_string", trn__type(TRN_TYPE_STRING), false, NULL};
    *fields = field;
    *count = 1;
    return TRN_OK;
  }
  status = plan_to_show(rpc, root, plan, error);
  if (status) return status;
  *fields = (*plan)->fields;
  *count = (*plan)->field_count;
  return TRN_OK;
}

static trn_status answer_schema(spark_rpc *rpc, const Spark__Connect__AnalyzePlanRequest__Schema *request,
                                analyze_response *response, trn_error **error) {
  RESULT(Spark__Connect__AnalyzePlanResponse__Schema, spark__connect__analyze_plan_response__schema__init, schema,
         SCHEMA);
  trn_plan *plan;
  const trn_field *fields;
  size_t count;
  trn_status status = fields_of(rpc, request->plan, &plan, &fields, &count, error);
  if (!status) {
    result.schema = spark__schema_to_proto(rpc->arena, fields, count);
    status = result.schema ? reply(rpc, response, error) : trn__no_memory(error);
  }
  trn_plan_unref(plan);
  return status;
}

/* ---- explain ---- */

static trn_status put_explain(spark_rpc *rpc, trn_plan *plan, const char *title, trn_explain_mode mode, trn_strbuf *out,
                              trn_error **error) {
  char *text = NULL;
  trn_status status = trn_backend_explain(rpc->session->session, plan, mode, &text, error);
  if (status) return status;
  trn__strbuf_printf(out, "== %s ==\n", title);
  trn__strbuf_puts(out, text);
  if (out->size && out->data[out->size - 1] != '\n') trn__strbuf_putc(out, '\n');
  trn__strbuf_putc(out, '\n');
  trn_free(text);
  return TRN_OK;
}

/* The analyzed plan is ours: a resolved plan in its own notation. */
static trn_status put_analyzed(trn_plan *plan, trn_strbuf *out, trn_error **error) {
  char *text = NULL;
  if (trn_plan_print(plan, &text)) return trn__no_memory(error);
  trn__strbuf_puts(out, "== Analyzed Logical Plan ==\n");
  for (uint32_t i = 0; i < plan->field_count; i++) {
    trn__strbuf_printf(out, "%s%s: ", i ? ", " : "", plan->fields[i].name);
    spark__type_simple(out, plan->fields[i].type);
  }
  trn__strbuf_printf(out, "\n%s\n", text);
  trn_free(text);
  return TRN_OK;
}

/* "with_columns" as "WithColumns". */
static void put_camel(trn_strbuf *out, const char *name) {
  if (strncmp(name, "trn_", 4) == 0) name += 4; /* a member of ours */
  bool upper = true;
  for (; *name; name++) {
    if (*name == '_') {
      upper = true;
    } else {
      trn__strbuf_putc(out, (char)(upper && *name >= 'a' && *name <= 'z' ? *name - 32 : *name));
      upper = false;
    }
  }
}

enum { PARSED_DEPTH_MAX = 100 };

/* The relations as they came: their kinds, as a tree. */
static void put_relation_tree(trn_strbuf *out, const ProtobufCMessage *message, unsigned depth) {
  const ProtobufCMessageDescriptor *descriptor = message->descriptor;
  bool is_relation = descriptor == &spark__connect__relation__descriptor;
  if (depth > PARSED_DEPTH_MAX) return;
  for (unsigned i = 0; i < descriptor->n_fields; i++) {
    const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
    const char *at = (const char *)message + field->offset;
    if (field->type != PROTOBUF_C_TYPE_MESSAGE || field->label == PROTOBUF_C_LABEL_REPEATED) continue;
    bool is_oneof = field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
    if (is_oneof && *(const uint32_t *)((const char *)message + field->quantifier_offset) != field->id) continue;
    const ProtobufCMessage *child = *(const ProtobufCMessage *const *)at;
    if (is_relation && is_oneof) {
      for (unsigned j = 1; j < depth; j++) trn__strbuf_puts(out, "   ");
      trn__strbuf_puts(out, depth ? "+- '" : "'");
      put_camel(out, field->name);
      trn__strbuf_putc(out, '\n');
      put_relation_tree(out, child, depth);
    } else if (!is_relation && child && child->descriptor == &spark__connect__relation__descriptor) {
      put_relation_tree(out, child, depth + 1);
    }
  }
}

trn_status spark__explain(spark_rpc *rpc, const Spark__Connect__Relation *relation, const char *mode, trn_strbuf *out,
                          trn_error **error) {
  trn_plan *plan = NULL;
  bool extended = strcmp(mode, "extended") == 0;
  trn_status status = plan_to_show(rpc, relation, &plan, error);
  if (!status && extended) {
    trn__strbuf_puts(out, "== Parsed Logical Plan ==\n");
    put_relation_tree(out, &relation->base, 0);
    trn__strbuf_putc(out, '\n');
    status = put_analyzed(plan, out, error);
  }
  if (!status && (extended || strcmp(mode, "cost") == 0))
    status = put_explain(rpc, plan, "Optimized Logical Plan", TRN_EXPLAIN_OPTIMIZED, out, error);
  if (!status) status = put_explain(rpc, plan, "Physical Plan", TRN_EXPLAIN_PHYSICAL, out, error);
  if (!status && (out->failed || !out->data)) status = trn__no_memory(error);
  trn_plan_unref(plan);
  return status;
}

static trn_status answer_explain(spark_rpc *rpc, const Spark__Connect__AnalyzePlanRequest__Explain *request,
                                 analyze_response *response, trn_error **error) {
  RESULT(Spark__Connect__AnalyzePlanResponse__Explain, spark__connect__analyze_plan_response__explain__init, explain,
         EXPLAIN);
  static const char *const modes[] = {"", "simple", "extended", "codegen", "cost", "formatted"}; /* by ExplainMode */
  size_t mode = (size_t)request->explain_mode;
  if (mode < 1 || mode >= sizeof modes / sizeof *modes)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "Explain mode unspecified.");
  const Spark__Connect__Relation *root;
  trn_strbuf text = {0};
  trn_status status = root_of(request->plan, &root, error);
  if (!status) status = spark__explain(rpc, root, modes[mode], &text, error);
  if (!status) {
    result.explain_string = text.data;
    status = reply(rpc, response, error);
  }
  trn__strbuf_finish(&text);
  return status;
}

/* ---- printSchema ---- */

/* Spark's DataType.typeName. */
static void put_type_name(trn_strbuf *out, const trn_type *type) {
  switch (type->id) {
  case TRN_TYPE_NULL: trn__strbuf_puts(out, "void"); break;
  case TRN_TYPE_BOOL: trn__strbuf_puts(out, "boolean"); break;
  case TRN_TYPE_INT8: trn__strbuf_puts(out, "byte"); break;
  case TRN_TYPE_INT16: trn__strbuf_puts(out, "short"); break;
  case TRN_TYPE_INT32: trn__strbuf_puts(out, "integer"); break;
  case TRN_TYPE_INT64: trn__strbuf_puts(out, "long"); break;
  case TRN_TYPE_ARRAY: trn__strbuf_puts(out, "array"); break;
  case TRN_TYPE_MAP: trn__strbuf_puts(out, "map"); break;
  case TRN_TYPE_STRUCT: trn__strbuf_puts(out, "struct"); break;
  default: spark__type_simple(out, type);
  }
}

typedef struct tree {
  trn_strbuf *out;
  char prefix[8 + 5 * TRN_TYPE_DEPTH_MAX];
} tree;

static void put_tree(tree *t, const trn_type *type, size_t prefix, int32_t levels);

static void put_tree_node(tree *t, const char *name, const trn_type *type, const char *flag, bool value, size_t prefix,
                          int32_t levels) {
  trn__strbuf_add(t->out, t->prefix, prefix);
  trn__strbuf_printf(t->out, "-- %s: ", name);
  put_type_name(t->out, type);
  if (flag) trn__strbuf_printf(t->out, " (%s = %s)", flag, value ? "true" : "false");
  trn__strbuf_putc(t->out, '\n');
  if (levels <= 1 || prefix + 5 > sizeof t->prefix) return;
  memcpy(t->prefix + prefix, "    |", 5);
  put_tree(t, type, prefix + 5, levels - 1);
}

/* The inside of a nested type. */
static void put_tree(tree *t, const trn_type *type, size_t prefix, int32_t levels) {
  if (type->id == TRN_TYPE_ARRAY) {
    put_tree_node(t, "element", type->fields[0].type, "containsNull", type->fields[0].nullable, prefix, levels);
  } else if (type->id == TRN_TYPE_MAP) {
    put_tree_node(t, "key", type->fields[0].type, NULL, false, prefix, levels);
    put_tree_node(t, "value", type->fields[1].type, "valueContainsNull", type->fields[1].nullable, prefix, levels);
  } else if (type->id == TRN_TYPE_STRUCT) {
    for (uint32_t i = 0; i < type->field_count; i++)
      put_tree_node(t, type->fields[i].name, type->fields[i].type, "nullable", type->fields[i].nullable, prefix,
                    levels);
  }
}

static trn_status answer_tree(spark_rpc *rpc, const Spark__Connect__AnalyzePlanRequest__TreeString *request,
                              analyze_response *response, trn_error **error) {
  RESULT(Spark__Connect__AnalyzePlanResponse__TreeString, spark__connect__analyze_plan_response__tree_string__init,
         tree_string, TREE_STRING);
  trn_plan *plan;
  const trn_field *fields;
  size_t count;
  trn_strbuf text = {0};
  trn_status status = fields_of(rpc, request->plan, &plan, &fields, &count, error);
  if (!status) {
    tree t = {.out = &text};
    int32_t levels = request->_level_case && request->level > 0 ? request->level : INT32_MAX;
    memcpy(t.prefix, " |", 2);
    trn__strbuf_puts(&text, "root\n");
    for (size_t i = 0; i < count; i++)
      put_tree_node(&t, fields[i].name, fields[i].type, "nullable", fields[i].nullable, 2, levels);
    result.tree_string = text.data;
    status = text.failed ? trn__no_memory(error) : reply(rpc, response, error);
  }
  trn__strbuf_finish(&text);
  trn_plan_unref(plan);
  return status;
}

/* ---- properties ---- */

/* Rows that travelled with the plan, whatever names they were given. */
static bool is_local(const Spark__Connect__Relation *relation) {
  for (size_t depth = 0; relation && depth < TRN_WIRE_DEPTH_MAX; depth++) {
    if (relation->rel_type_case == SPARK__CONNECT__RELATION__REL_TYPE_LOCAL_RELATION) return true;
    if (relation->rel_type_case != SPARK__CONNECT__RELATION__REL_TYPE_TO_DF) return false;
    relation = relation->to_df->input;
  }
  return false;
}

static trn_status answer_is_local(spark_rpc *rpc, const Spark__Connect__AnalyzePlanRequest__IsLocal *request,
                                  analyze_response *response, trn_error **error) {
  RESULT(Spark__Connect__AnalyzePlanResponse__IsLocal, spark__connect__analyze_plan_response__is_local__init, is_local,
         IS_LOCAL);
  trn_plan *plan = NULL;
  trn_status status = translate(rpc, request->plan, &plan, error);
  trn_plan_unref(plan);
  if (status) return status;
  result.is_local = is_local(request->plan->root);
  return reply(rpc, response, error);
}

static trn_status answer_is_streaming(spark_rpc *rpc, const Spark__Connect__AnalyzePlanRequest__IsStreaming *request,
                                      analyze_response *response, trn_error **error) {
  RESULT(Spark__Connect__AnalyzePlanResponse__IsStreaming, spark__connect__analyze_plan_response__is_streaming__init,
         is_streaming, IS_STREAMING);
  trn_plan *plan = NULL; /* a wrong plan is an error here too; there are no streaming relations */
  trn_status status = translate(rpc, request->plan, &plan, error);
  trn_plan_unref(plan);
  return status ? status : reply(rpc, response, error);
}

typedef struct file_list {
  trn_arena *arena;
  char **files;
  size_t count;
  bool failed;
} file_list;

static void add_paths(file_list *list, const Spark__Connect__Read__DataSource *source) {
  for (size_t i = 0; i < source->n_paths && list->count < ANALYZE_INPUT_FILES_MAX; i++) {
    const char *path = source->paths[i];
    char *copy =
        strstr(path, ":/") ? trn__arena_strdup(list->arena, path) : trn__arena_printf(list->arena, "file://%s", path);
    if (!copy) list->failed = true;
    if (copy) list->files[list->count++] = copy;
  }
}

/* Looks through all messages inside `message` for Read.DataSource. The wire check bounds the depth (big stack). */
static void find_paths(file_list *list, const ProtobufCMessage *message) {
  const ProtobufCMessageDescriptor *descriptor = message->descriptor;
  if (descriptor == &spark__connect__read__data_source__descriptor) {
    add_paths(list, (const Spark__Connect__Read__DataSource *)message);
    return;
  }
  for (unsigned i = 0; i < descriptor->n_fields; i++) {
    const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
    if (field->type != PROTOBUF_C_TYPE_MESSAGE) continue;
    const char *at = (const char *)message + field->offset;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
      size_t count = *(const size_t *)((const char *)message + field->quantifier_offset);
      ProtobufCMessage *const *items = *(ProtobufCMessage *const *const *)at;
      for (size_t j = 0; j < count; j++) find_paths(list, items[j]);
    } else if (!(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) ||
               *(const uint32_t *)((const char *)message + field->quantifier_offset) == field->id) {
      const ProtobufCMessage *child = *(const ProtobufCMessage *const *)at;
      if (child) find_paths(list, child);
    }
  }
}

static trn_status answer_input_files(spark_rpc *rpc, const Spark__Connect__AnalyzePlanRequest__InputFiles *request,
                                     analyze_response *response, trn_error **error) {
  RESULT(Spark__Connect__AnalyzePlanResponse__InputFiles, spark__connect__analyze_plan_response__input_files__init,
         input_files, INPUT_FILES);
  trn_plan *plan = NULL;
  trn_status status = translate(rpc, request->plan, &plan, error);
  trn_plan_unref(plan);
  if (status) return status;
  file_list list = {.arena = rpc->arena, .files = TRN_NEW_N(rpc->arena, char *, ANALYZE_INPUT_FILES_MAX)};
  if (!list.files) return trn__no_memory(error);
  find_paths(&list, &request->plan->base);
  if (list.failed) return trn__no_memory(error);
  result.n_files = list.count;
  result.files = list.files;
  return reply(rpc, response, error);
}

static trn_status answer_version(spark_rpc *rpc, analyze_response *response, trn_error **error) {
  RESULT(Spark__Connect__AnalyzePlanResponse__SparkVersion, spark__connect__analyze_plan_response__spark_version__init,
         spark_version, SPARK_VERSION);
  result.version = SPARK_CONNECT_VERSION;
  return reply(rpc, response, error);
}

/* ---- types as text ---- */

static trn_status answer_ddl_parse(spark_rpc *rpc, const Spark__Connect__AnalyzePlanRequest__DDLParse *request,
                                   analyze_response *response, trn_error **error) {
  RESULT(Spark__Connect__AnalyzePlanResponse__DDLParse, spark__connect__analyze_plan_response__ddlparse__init,
         ddl_parse, DDL_PARSE);
  const char *text = request->ddl_string;
  size_t size = strlen(text);
  rpc->phase = SPARK_PHASE_PARSE;
  rpc->sql = text;
  /* As Spark: a table schema, else a type, else the fields of a struct; the first error counts. */
  trn_status status = spark__sql_parse_schema(rpc->arena, text, size, NULL, &result.parsed, error);
  if (status && spark__sql_parse_type(rpc->arena, text, size, NULL, &result.parsed, NULL) == TRN_OK) status = TRN_OK;
  if (status) {
    char *fields = trn__arena_printf(rpc->arena, "struct<%s>", text);
    if (fields && spark__sql_parse_type(rpc->arena, fields, strlen(fields), NULL, &result.parsed, NULL) == TRN_OK)
      status = TRN_OK;
  }
  if (status) return status;
  if (error && *error) { /* of an attempt that did not count */
    trn_error_unref(*error);
    *error = NULL;
  }
  return reply(rpc, response, error);
}

static void put_identifier(trn_strbuf *out, const char *name) {
  bool plain = *name && !(*name >= '0' && *name <= '9');
  for (const char *c = name; *c; c++)
    if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '_')) plain = false;
  if (plain) {
    trn__strbuf_puts(out, name);
    return;
  }
  trn__strbuf_putc(out, '`');
  for (const char *c = name; *c; c++) {
    if (*c == '`') trn__strbuf_putc(out, '`');
    trn__strbuf_putc(out, *c);
  }
  trn__strbuf_putc(out, '`');
}

static trn_status answer_json_to_ddl(spark_rpc *rpc, const Spark__Connect__AnalyzePlanRequest__JsonToDDL *request,
                                     analyze_response *response, trn_error **error) {
  RESULT(Spark__Connect__AnalyzePlanResponse__JsonToDDL, spark__connect__analyze_plan_response__json_to_ddl__init,
         json_to_ddl, JSON_TO_DDL);
  const trn_type *type = NULL;
  trn_status status =
      spark__schema_from_text(rpc->arena, request->json_string, strlen(request->json_string), &type, error);
  if (status) return status;
  if (type->id != TRN_TYPE_STRUCT)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The JSON text is not that of a struct type");
  trn_strbuf text = {0};
  trn__strbuf_puts(&text, "");
  for (uint32_t i = 0; i < type->field_count; i++) {
    if (i) trn__strbuf_putc(&text, ',');
    put_identifier(&text, type->fields[i].name);
    trn__strbuf_putc(&text, ' ');
    spark__type_sql(&text, type->fields[i].type);
    if (!type->fields[i].nullable) trn__strbuf_puts(&text, " NOT NULL");
  }
  result.ddl_string = text.data ? text.data : "";
  status = text.failed ? trn__no_memory(error) : reply(rpc, response, error);
  trn__strbuf_finish(&text);
  return status;
}

/* ---- semantics ---- */

static trn_status fingerprint_of(spark_rpc *rpc, const Spark__Connect__Plan *from, uint8_t out[16], trn_error **error) {
  trn_plan *plan = NULL;
  trn_status status = translate(rpc, from, &plan, error);
  if (!status) trn_plan_fingerprint(plan, out);
  trn_plan_unref(plan);
  return status;
}

static trn_status answer_same_semantics(spark_rpc *rpc,
                                        const Spark__Connect__AnalyzePlanRequest__SameSemantics *request,
                                        analyze_response *response, trn_error **error) {
  RESULT(Spark__Connect__AnalyzePlanResponse__SameSemantics,
         spark__connect__analyze_plan_response__same_semantics__init, same_semantics, SAME_SEMANTICS);
  uint8_t a[16], b[16];
  trn_status status = fingerprint_of(rpc, request->target_plan, a, error);
  if (!status) status = fingerprint_of(rpc, request->other_plan, b, error);
  if (status) return status;
  result.result = memcmp(a, b, sizeof a) == 0;
  return reply(rpc, response, error);
}

static trn_status answer_semantic_hash(spark_rpc *rpc, const Spark__Connect__AnalyzePlanRequest__SemanticHash *request,
                                       analyze_response *response, trn_error **error) {
  RESULT(Spark__Connect__AnalyzePlanResponse__SemanticHash, spark__connect__analyze_plan_response__semantic_hash__init,
         semantic_hash, SEMANTIC_HASH);
  uint8_t hash[16];
  trn_status status = fingerprint_of(rpc, request->plan, hash, error);
  if (status) return status;
  memcpy(&result.result, hash, sizeof result.result);
  return reply(rpc, response, error);
}

/* ---- persist: remembered by the plan's fingerprint, so that storageLevel tells what was asked for ---- */

enum { LEVEL_DISK = 1, LEVEL_MEMORY = 2, LEVEL_OFF_HEAP = 4, LEVEL_DESERIALIZED = 8, LEVEL_REPLICATION = 16 };

static uintptr_t level_number(const Spark__Connect__StorageLevel *level) {
  if (!level) return LEVEL_DISK | LEVEL_MEMORY | LEVEL_DESERIALIZED | LEVEL_REPLICATION;
  uintptr_t replication = level->replication > 0 && level->replication < 1000 ? (uintptr_t)level->replication : 1;
  return (level->use_disk ? LEVEL_DISK : 0) | (level->use_memory ? LEVEL_MEMORY : 0) |
         (level->use_off_heap ? LEVEL_OFF_HEAP : 0) | (level->deserialized ? LEVEL_DESERIALIZED : 0) |
         replication * LEVEL_REPLICATION;
}

static trn_status storage_key(spark_rpc *rpc, Spark__Connect__Relation *relation, char key[40], trn_error **error) {
  Spark__Connect__Plan plan = SPARK__CONNECT__PLAN__INIT;
  uint8_t hash[16];
  if (relation) {
    plan.op_type_case = SPARK__CONNECT__PLAN__OP_TYPE_ROOT;
    plan.root = relation;
  }
  trn_status status = fingerprint_of(rpc, &plan, hash, error);
  for (size_t i = 0; i < sizeof hash && !status; i++) snprintf(key + 2 * i, 3, "%02x", hash[i]);
  return status;
}

static trn_status answer_persist(spark_rpc *rpc, const Spark__Connect__AnalyzePlanRequest__Persist *request,
                                 analyze_response *response, trn_error **error) {
  RESULT(Spark__Connect__AnalyzePlanResponse__Persist, spark__connect__analyze_plan_response__persist__init, persist,
         PERSIST);
  enum { PERSISTED_MAX = 10000 };
  char key[40];
  trn_status status = storage_key(rpc, request->relation, key, error);
  if (status) return status;
  uintptr_t level = level_number(request->_storage_level_case ? request->storage_level : NULL);
  spark_session *session = rpc->session;
  pthread_mutex_lock(&session->mutex);
  bool room = trn__map_count(session->storage) < PERSISTED_MAX || trn__map_get(session->storage, key, strlen(key));
  bool stored = room && trn__map_set(session->storage, key, strlen(key), (void *)(level + 1), NULL);
  pthread_mutex_unlock(&session->mutex);
  if (!stored)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "The session has persisted %d plans", PERSISTED_MAX);
  return reply(rpc, response, error);
}

static trn_status answer_unpersist(spark_rpc *rpc, const Spark__Connect__AnalyzePlanRequest__Unpersist *request,
                                   analyze_response *response, trn_error **error) {
  RESULT(Spark__Connect__AnalyzePlanResponse__Unpersist, spark__connect__analyze_plan_response__unpersist__init,
         unpersist, UNPERSIST);
  char key[40];
  trn_status status = storage_key(rpc, request->relation, key, error);
  if (status) return status;
  pthread_mutex_lock(&rpc->session->mutex);
  trn__map_remove(rpc->session->storage, key, strlen(key));
  pthread_mutex_unlock(&rpc->session->mutex);
  return reply(rpc, response, error);
}

static trn_status answer_storage_level(spark_rpc *rpc,
                                       const Spark__Connect__AnalyzePlanRequest__GetStorageLevel *request,
                                       analyze_response *response, trn_error **error) {
  RESULT(Spark__Connect__AnalyzePlanResponse__GetStorageLevel,
         spark__connect__analyze_plan_response__get_storage_level__init, get_storage_level, GET_STORAGE_LEVEL);
  Spark__Connect__StorageLevel level = SPARK__CONNECT__STORAGE_LEVEL__INIT;
  char key[40];
  trn_status status = storage_key(rpc, request->relation, key, error);
  if (status) return status;
  pthread_mutex_lock(&rpc->session->mutex);
  uintptr_t stored = (uintptr_t)trn__map_get(rpc->session->storage, key, strlen(key));
  pthread_mutex_unlock(&rpc->session->mutex);
  uintptr_t number = stored ? stored - 1 : LEVEL_REPLICATION;
  level.use_disk = number & LEVEL_DISK;
  level.use_memory = (number & LEVEL_MEMORY) != 0;
  level.use_off_heap = (number & LEVEL_OFF_HEAP) != 0;
  level.deserialized = (number & LEVEL_DESERIALIZED) != 0;
  level.replication = (int32_t)(number / LEVEL_REPLICATION);
  result.storage_level = &level;
  return reply(rpc, response, error);
}

/* ---- which question ---- */

#define ASK(name) SPARK__CONNECT__ANALYZE_PLAN_REQUEST__ANALYZE_##name

trn_status spark__handle_analyze(spark_rpc *rpc, ProtobufCMessage *message, trn_error **error) {
  const Spark__Connect__AnalyzePlanRequest *request = (const Spark__Connect__AnalyzePlanRequest *)message;
  analyze_response response = SPARK__CONNECT__ANALYZE_PLAN_RESPONSE__INIT;
  trn_status status = spark__session_enter(rpc, SPARK_SESSION_KEY(request), true, error);
  if (status) return status;
  switch (request->analyze_case) {
  case ASK(SCHEMA): return answer_schema(rpc, request->schema, &response, error);
  case ASK(EXPLAIN): return answer_explain(rpc, request->explain, &response, error);
  case ASK(TREE_STRING): return answer_tree(rpc, request->tree_string, &response, error);
  case ASK(IS_LOCAL): return answer_is_local(rpc, request->is_local, &response, error);
  case ASK(IS_STREAMING): return answer_is_streaming(rpc, request->is_streaming, &response, error);
  case ASK(INPUT_FILES): return answer_input_files(rpc, request->input_files, &response, error);
  case ASK(SPARK_VERSION): return answer_version(rpc, &response, error);
  case ASK(DDL_PARSE): return answer_ddl_parse(rpc, request->ddl_parse, &response, error);
  case ASK(SAME_SEMANTICS): return answer_same_semantics(rpc, request->same_semantics, &response, error);
  case ASK(SEMANTIC_HASH): return answer_semantic_hash(rpc, request->semantic_hash, &response, error);
  case ASK(PERSIST): return answer_persist(rpc, request->persist, &response, error);
  case ASK(UNPERSIST): return answer_unpersist(rpc, request->unpersist, &response, error);
  case ASK(GET_STORAGE_LEVEL): return answer_storage_level(rpc, request->get_storage_level, &response, error);
  case ASK(JSON_TO_DDL): return answer_json_to_ddl(rpc, request->json_to_ddl, &response, error);
  default: return spark__error_not_set(error, "spark.connect.AnalyzePlanRequest", "ANALYZE_NOT_SET");
  }
}
