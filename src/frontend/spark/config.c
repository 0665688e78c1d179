/* Settings of a Spark session: what was set lives in the trn_session; defaults are a table. */
#include <strings.h>

#include "frontend/spark/service.h"

enum { CONFIG_TEXT_MAX = 1 << 20, CONFIG_FALLBACKS_MAX = 8 };

static const spark_config_default defaults[] = {
#include "config_defaults.inc"
};

static int compare_key(const void *key, const void *row) {
  return strcmp(key, ((const spark_config_default *)row)->key);
}

const spark_config_default *spark__config_default(const char *key) {
  return bsearch(key, defaults, sizeof defaults / sizeof *defaults, sizeof *defaults, compare_key);
}

/* ---- reading ---- */

/* "<value of other.key>": the other key (not NUL-terminated), or NULL. */
static const char *fallback_key(const char *value, size_t *size) {
  static const char head[] = "<value of ";
  size_t length = value ? strlen(value) : 0;
  if (length <= sizeof head || strncmp(value, head, sizeof head - 1) != 0 || value[length - 1] != '>') return NULL;
  *size = length - sizeof head;
  return value + sizeof head - 1;
}

bool spark__config_get(spark_session *session, const char *key, char **out) {
  char other[256];
  *out = NULL;
  for (int step = 0; step < CONFIG_FALLBACKS_MAX; step++) {
    *out = trn_session_get(session->session, key);
    if (*out) return true;
    const spark_config_default *row = spark__config_default(key);
    if (!row) return step > 0; /* a fallback that has no default itself: known, without a value */
    size_t size;
    const char *next = fallback_key(row->value, &size);
    if (!next || size >= sizeof other) {
      *out = row->value ? strdup(row->value) : NULL;
      return true;
    }
    memcpy(other, next, size);
    other[size] = 0;
    key = other;
  }
  return true;
}

bool spark__config_bool(spark_session *session, const char *key) {
  char *value = NULL;
  spark__config_get(session, key, &value);
  bool is_true = value && strcasecmp(value, "true") == 0;
  free(value);
  return is_true;
}

/* ---- checking ---- */

static bool is_number(const char *text, bool may_have_point) {
  const char *at = text;
  if (*at == '-' || *at == '+') at++;
  size_t digits = strspn(at, "0123456789");
  at += digits;
  if (may_have_point && *at == '.') {
    size_t more = strspn(++at, "0123456789");
    at += more;
    digits += more;
  }
  if (may_have_point && digits && (*at == 'e' || *at == 'E')) {
    at++;
    if (*at == '-' || *at == '+') at++;
    at += strspn(at, "0123456789");
  }
  return digits > 0 && *at == 0;
}

/* NULL: the value fits; else what it should have been. */
static const char *type_mismatch(const spark_config_default *row, const char *value) {
  switch (row->type) {
  case 'b': return strcasecmp(value, "true") == 0 || strcasecmp(value, "false") == 0 ? NULL : "boolean";
  case 'i': return is_number(value, false) ? NULL : "int";
  case 'd': return is_number(value, true) ? NULL : "double";
  default: return NULL;
  }
}

/* The form of a zone id: a region, or an offset. Whether the region exists shows when it is used. */
static bool is_zone(const char *value) {
  return *value &&
         strspn(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/:") == strlen(value);
}

static trn_status quoted_error(trn_error **error, trn_status status, const char *condition, const char *param,
                               const char *key) {
  trn_strbuf quoted = {0};
  trn__strbuf_printf(&quoted, "\"%s\"", key);
  status = quoted.failed ? trn__no_memory(error)
                         : spark__raise(error, status, condition, param, quoted.data, NULL, NULL, NULL, NULL);
  trn__strbuf_finish(&quoted);
  return status;
}

static trn_status check_settable(const char *key, trn_error **error) {
  const spark_config_default *row = spark__config_default(key);
  if (!row || !row->is_static) return TRN_OK;
  return quoted_error(error, TRN_FAILED_PRECONDITION, "CANNOT_MODIFY_STATIC_CONFIG", "key", key);
}

/* Spark's words for keys that mean nothing to Connect clients. */
static const char *unsupported_warning(const char *key) {
  static const struct {
    const char *key, *warning;
  } rows[] = {
#define UNSUPPORTED(key) {key, "The SQL config '" key "' is NOT supported in Spark Connect"}
      UNSUPPORTED("spark.sql.execution.arrow.enabled"),
      UNSUPPORTED("spark.sql.execution.arrow.pyspark.enabled"),
      UNSUPPORTED("spark.sql.execution.arrow.pyspark.fallback.enabled"),
#undef UNSUPPORTED
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].key, key) == 0) return rows[i].warning;
  return NULL;
}

trn_status spark__config_set(spark_session *session, const char *key, const char *value, const char **warning,
                             trn_error **error) {
  if (warning) *warning = unsupported_warning(key);
  if (!*key || strlen(key) + strlen(value) > CONFIG_TEXT_MAX)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A setting needs a key, and at most %d bytes",
                         CONFIG_TEXT_MAX);
  trn_status status = check_settable(key, error);
  if (status) return status;
  const spark_config_default *row = spark__config_default(key);
  const char *type = row ? type_mismatch(row, value) : NULL;
  if (type)
    return spark__raise(error, TRN_INVALID_ARGUMENT, "INVALID_CONF_VALUE.TYPE_MISMATCH", "confValue", value, "confName",
                        key, "confType", type);
  if (strcmp(key, "spark.sql.session.timeZone") == 0 && !is_zone(value))
    return spark__raise(error, TRN_INVALID_ARGUMENT, "INVALID_CONF_VALUE.TIME_ZONE", "confValue", value, "confName",
                        key, NULL, NULL);
  status = trn_session_client_check(session->session, key, value, TRN_SETTING_SET, error);
  if (status) return status;
  status = trn_session_set(session->session, key, value);
  if (status) return trn_error_set(error, status, NULL, "The setting \"%s\" cannot be kept", key);
  return TRN_OK;
}

trn_status spark__config_unset(spark_session *session, const char *key, trn_error **error) {
  trn_status status = check_settable(key, error);
  if (!status) status = trn_session_client_set(session->session, key, NULL, error);
  return status;
}

/* ---- the RPC ---- */

typedef struct config_reply {
  spark_rpc *rpc;
  Spark__Connect__ConfigResponse *response;
  size_t pair_capacity;
  const char *prefix; /* of getAll */
  size_t prefix_size;
  trn_status status;
} config_reply;

/* Texts are copied. */
static trn_status add_pair(config_reply *reply, const char *key, const char *value) {
  trn_arena *arena = reply->rpc->arena;
  Spark__Connect__ConfigResponse *response = reply->response;
  if (response->n_pairs == reply->pair_capacity) {
    size_t capacity = reply->pair_capacity ? reply->pair_capacity * 2 : 16;
    Spark__Connect__KeyValue **pairs = TRN_NEW_N(arena, Spark__Connect__KeyValue *, capacity);
    if (!pairs) return TRN_RESOURCE_EXHAUSTED;
    if (response->n_pairs) memcpy(pairs, response->pairs, response->n_pairs * sizeof *pairs);
    response->pairs = pairs;
    reply->pair_capacity = capacity;
  }
  Spark__Connect__KeyValue *pair = TRN_NEW(arena, Spark__Connect__KeyValue);
  if (!pair) return TRN_RESOURCE_EXHAUSTED;
  spark__connect__key_value__init(pair);
  pair->key = trn__arena_strdup(arena, key);
  if (!pair->key) return TRN_RESOURCE_EXHAUSTED;
  if (value) {
    pair->_value_case = SPARK__CONNECT__KEY_VALUE___VALUE_VALUE;
    pair->value = trn__arena_strdup(arena, value);
    if (!pair->value) return TRN_RESOURCE_EXHAUSTED;
  }
  response->pairs[response->n_pairs++] = pair;
  return TRN_OK;
}

static void add_warning(config_reply *reply, const char *warning) {
  Spark__Connect__ConfigResponse *response = reply->response;
  if (!warning) return;
  char **warnings = TRN_NEW_N(reply->rpc->arena, char *, response->n_warnings + 1);
  if (!warnings) return; /* only the warning is lost */
  if (response->n_warnings) memcpy(warnings, response->warnings, response->n_warnings * sizeof *warnings);
  warnings[response->n_warnings++] = (char *)warning;
  response->warnings = warnings;
}

static trn_status run_set(config_reply *reply, const Spark__Connect__ConfigRequest__Set *set, trn_error **error) {
  bool silent = set->_silent_case && set->silent;
  for (size_t i = 0; i < set->n_pairs; i++) {
    const Spark__Connect__KeyValue *pair = set->pairs[i];
    const char *warning = NULL;
    trn_status status = spark__config_set(reply->rpc->session, pair->key, pair->_value_case ? pair->value : "",
                                          &warning, silent ? NULL : error);
    if (status && !silent) return status;
    add_warning(reply, warning);
  }
  return TRN_OK;
}

static trn_status run_get(config_reply *reply, char *const *keys, size_t count, bool optional, trn_error **error) {
  for (size_t i = 0; i < count; i++) {
    char *value;
    trn_status allowed = trn_session_client_check(reply->rpc->session->session, keys[i], NULL, TRN_SETTING_GET, error);
    if (allowed) return allowed;
    if (!spark__config_get(reply->rpc->session, keys[i], &value) && !optional)
      return quoted_error(error, TRN_NOT_FOUND, "SQL_CONF_NOT_FOUND", "sqlConf", keys[i]);
    trn_status status = add_pair(reply, keys[i], value);
    free(value);
    if (status) return trn__no_memory(error);
    add_warning(reply, unsupported_warning(keys[i]));
  }
  return TRN_OK;
}

static trn_status run_get_with_default(config_reply *reply, const Spark__Connect__ConfigRequest__GetWithDefault *get,
                                       trn_error **error) {
  for (size_t i = 0; i < get->n_pairs; i++) {
    const Spark__Connect__KeyValue *pair = get->pairs[i];
    char *value = NULL;
    trn_status allowed = trn_session_client_get(reply->rpc->session->session, pair->key, &value, error);
    if (allowed) return allowed;
    /* As in Spark the caller's default wins over ours; except here: call sites would only make plans larger. */
    if (!value && strcmp(pair->key, "spark.python.sql.dataFrameDebugging.enabled") == 0) value = strdup("false");
    trn_status status = add_pair(reply, pair->key, value ? value : pair->_value_case ? pair->value : NULL);
    free(value);
    if (status) return trn__no_memory(error);
    add_warning(reply, unsupported_warning(pair->key));
  }
  return TRN_OK;
}

static void add_set_pair(void *user, const char *key, const char *value) {
  config_reply *reply = user;
  if (reply->status || strncmp(key, reply->prefix, reply->prefix_size) != 0) return;
  reply->status = add_pair(reply, key + reply->prefix_size, value);
}

static trn_status run_get_all(config_reply *reply, const Spark__Connect__ConfigRequest__GetAll *get,
                              trn_error **error) {
  reply->prefix = get->_prefix_case ? get->prefix : "";
  reply->prefix_size = strlen(reply->prefix);
  trn_status status = trn_session_client_each(reply->rpc->session->session, add_set_pair, reply);
  if (!status) status = reply->status;
  return status ? trn__no_memory(error) : TRN_OK;
}

static trn_status run_unset(config_reply *reply, const Spark__Connect__ConfigRequest__Unset *unset, trn_error **error) {
  for (size_t i = 0; i < unset->n_keys; i++) {
    trn_status status = spark__config_unset(reply->rpc->session, unset->keys[i], error);
    if (status) return status;
    add_warning(reply, unsupported_warning(unset->keys[i]));
  }
  return TRN_OK;
}

static trn_status run_is_modifiable(config_reply *reply, const Spark__Connect__ConfigRequest__IsModifiable *ask,
                                    trn_error **error) {
  for (size_t i = 0; i < ask->n_keys; i++) {
    const char *key = ask->keys[i];
    const spark_config_default *row = spark__config_default(key);
    bool is_sql = strncmp(key, "spark.sql.", 10) == 0 || strncmp(key, "spark.connect.", 14) == 0;
    if (add_pair(reply, key, row && is_sql && !row->is_static ? "true" : "false")) return trn__no_memory(error);
  }
  return TRN_OK;
}

static trn_status run(config_reply *reply, const Spark__Connect__ConfigRequest__Operation *operation,
                      trn_error **error) {
  switch (operation ? operation->op_type_case : SPARK__CONNECT__CONFIG_REQUEST__OPERATION__OP_TYPE__NOT_SET) {
  case SPARK__CONNECT__CONFIG_REQUEST__OPERATION__OP_TYPE_SET: return run_set(reply, operation->set, error);
  case SPARK__CONNECT__CONFIG_REQUEST__OPERATION__OP_TYPE_GET:
    return run_get(reply, operation->get->keys, operation->get->n_keys, false, error);
  case SPARK__CONNECT__CONFIG_REQUEST__OPERATION__OP_TYPE_GET_WITH_DEFAULT:
    return run_get_with_default(reply, operation->get_with_default, error);
  case SPARK__CONNECT__CONFIG_REQUEST__OPERATION__OP_TYPE_GET_OPTION:
    return run_get(reply, operation->get_option->keys, operation->get_option->n_keys, true, error);
  case SPARK__CONNECT__CONFIG_REQUEST__OPERATION__OP_TYPE_GET_ALL: return run_get_all(reply, operation->get_all, error);
  case SPARK__CONNECT__CONFIG_REQUEST__OPERATION__OP_TYPE_UNSET: return run_unset(reply, operation->unset, error);
  case SPARK__CONNECT__CONFIG_REQUEST__OPERATION__OP_TYPE_IS_MODIFIABLE:
    return run_is_modifiable(reply, operation->is_modifiable, error);
  default: return trn_error_set(error, TRN_UNIMPLEMENTED, NULL, " not supported.");
  }
}

trn_status spark__handle_config(spark_rpc *rpc, ProtobufCMessage *message, trn_error **error) {
  const Spark__Connect__ConfigRequest *request = (const Spark__Connect__ConfigRequest *)message;
  trn_status status = spark__session_enter(rpc, SPARK_SESSION_KEY(request), true, error);
  if (status) return status;
  Spark__Connect__ConfigResponse response = SPARK__CONNECT__CONFIG_RESPONSE__INIT;
  response.session_id = rpc->session->id;
  response.server_side_session_id = (char *)rpc->session->server_id;
  config_reply reply = {.rpc = rpc, .response = &response};
  status = run(&reply, request->operation, error);
  return status ? status : spark__rpc_reply(rpc, &response.base, error);
}
