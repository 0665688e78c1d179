/* A scripted backend with a table, plans over it, configurations as text, and everything that events say. */
#ifndef TRN_TESTS_LAYER_FIXTURE_H
#define TRN_TESTS_LAYER_FIXTURE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/scripted/scripted.h"
#include "conformance/puller.h"
#include "core/query.h"
#include "layer/layer.h"

/* ---- configurations: "key=value" lines; a key that ends in [] appends ---- */
static inline trn_config *config_of(const char *lines) {
  trn_config *config = trn_config_create();
  char *copy = strdup(lines), *rest = copy;
  for (char *line; (line = strsep(&rest, "\n"));) {
    while (*line == ' ') line++;
    char *equals = strstr(line, "=");
    if (!equals) continue;
    *equals = 0;
    trn_error *error = NULL;
    trn_status status = trn_config_set(config, line, equals + 1, &error);
    if (status) print_error("config %s: %s\n", line, trn_error_message(error));
    assert_int_equal(status, TRN_OK);
  }
  free(copy);
  return config;
}

/* Lists of maps, which paths of keys cannot say: adds a map to the list `list` of `parent`. */
static inline trn_config *add_map(trn_config *parent, const char *list) {
  trn_config *items = (trn_config *)trn_config_get(parent, list), *map = NULL;
  if (!items) assert_int_equal(trn_config_add(parent, list, TRN_CONFIG_LIST, NULL, "here", &items, NULL), TRN_OK);
  assert_int_equal(trn_config_add(items, NULL, TRN_CONFIG_MAP, NULL, "rules:1", &map, NULL), TRN_OK);
  return map;
}
static inline void put(trn_config *map, const char *key, const char *value) {
  assert_int_equal(trn_config_add(map, key, TRN_CONFIG_TEXT, value, "rules:2", NULL, NULL), TRN_OK);
}
static inline trn_config *put_map(trn_config *map, const char *key) {
  trn_config *inner = NULL;
  assert_int_equal(trn_config_add(map, key, TRN_CONFIG_MAP, NULL, "rules:3", &inner, NULL), TRN_OK);
  return inner;
}
static inline void put_list(trn_config *map, const char *key, const char *const *values) {
  trn_config *list = NULL;
  assert_int_equal(trn_config_add(map, key, TRN_CONFIG_LIST, NULL, "rules:3", &list, NULL), TRN_OK);
  for (; *values; values++)
    assert_int_equal(trn_config_add(list, NULL, TRN_CONFIG_TEXT, *values, "rules:4", NULL, NULL), TRN_OK);
}
#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- events ---- */
typedef struct event_log {
  pthread_mutex_t mu;
  trn_strbuf text; /* "layer action object status\n" */
} event_log;
static inline void log_event(void *user, const trn_event *event) {
  event_log *log = user;
  pthread_mutex_lock(&log->mu);
  trn__strbuf_printf(&log->text, "%s %s %s %s\n", event->layer, event->action ? event->action : "-",
                     event->object ? event->object : "-", trn_status_name(event->status));
  pthread_mutex_unlock(&log->mu);
}
static inline bool log_has(event_log *log, const char *text) {
  pthread_mutex_lock(&log->mu);
  bool has = log->text.data && strstr(log->text.data, text);
  pthread_mutex_unlock(&log->mu);
  return has;
}
static inline size_t log_count(event_log *log, const char *text) {
  size_t count = 0;
  pthread_mutex_lock(&log->mu);
  for (const char *at = log->text.data; at && (at = strstr(at, text)); at++) count++;
  pthread_mutex_unlock(&log->mu);
  return count;
}

/* ---- the backend and its table: id bigint, region string, ssn string; three rows ---- */
typedef struct bench {
  trn_scripted *control;
  trn_backend *base;
  event_log log;
  pthread_mutex_t mu;
  char *seen; /* the plan that reached the backend last, printed; guarded by mu */
  bool has_refused; /* pulls that were not accepted count as pulls only */
  const trn_script *script; /* for every plan; NULL: evaluated */
} bench;

static inline trn_status see_plan(void *user, trn_session *session, trn_plan *plan, trn_script *script) {
  bench *b = user;
  char *text = NULL;
  (void)session;
  if (trn_plan_print(plan, &text)) text = NULL;
  pthread_mutex_lock(&b->mu);
  free(b->seen);
  b->seen = text;
  bool has = b->script != NULL;
  if (has) *script = *b->script;
  pthread_mutex_unlock(&b->mu);
  return has ? TRN_OK : TRN_UNIMPLEMENTED;
}

static inline void table_schema(struct ArrowSchema *schema) {
  static const char *const names[] = {"id", "region", "ssn"}, *const formats[] = {"l", "u", "u"};
  assert_int_equal(trn__schema_init(schema, "+s", "", 0, NULL, 0, 3), TRN_OK);
  for (int i = 0; i < 3; i++)
    assert_int_equal(
        trn__schema_init(schema->children[i], formats[i], names[i], ARROW_FLAG_NULLABLE, NULL, 0, 0), TRN_OK);
}

static inline void bench_open(bench *b, trn_scripted_form form) {
  *b = (bench){0};
  pthread_mutex_init(&b->mu, NULL);
  pthread_mutex_init(&b->log.mu, NULL);
  assert_int_equal(trn__scripted_create(form, &b->control, &b->base), TRN_OK);
  struct ArrowSchema schema;
  table_schema(&schema);
  trn_array_builder *builder;
  assert_int_equal(trn__array_builder_create(&schema, &builder), TRN_OK);
  static const char *const regions[] = {"EU", "US", "EU"}, *const ssns[] = {"111", "222", "333"};
  for (int i = 0; i < 3; i++) {
    trn__array_append_int(trn__array_builder_child(builder, 0), i + 1);
    trn__array_append_bytes(trn__array_builder_child(builder, 1), regions[i], 2);
    trn__array_append_bytes(trn__array_builder_child(builder, 2), ssns[i], 3);
    trn__array_append_end(builder);
  }
  struct ArrowArray array;
  trn_shared_array *shared;
  assert_int_equal(trn__array_builder_finish(builder, &array), TRN_OK);
  trn__array_builder_destroy(builder);
  assert_int_equal(trn__shared_array_create(&array, &shared), TRN_OK);
  assert_int_equal(trn__scripted_add_table(b->control, "/data/sales", &schema, &shared, 1), TRN_OK);
  assert_int_equal(trn__scripted_add_table(b->control, "/data/other", &schema, &shared, 1), TRN_OK);
  trn__shared_array_unref(shared);
  trn__schema_release(&schema);
  trn__scripted_on_plan(b->control, see_plan, b);
}

static inline void bench_close(bench *b) {
  trn_backend_unref(b->base);
  trn_scripted_counts counts = trn__scripted_count(b->control);
  for (int i = 0; i < 2000 && (counts.streams_opened != counts.streams_closed || counts.sessions_opened != counts.sessions_closed); i++) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    counts = trn__scripted_count(b->control);
  }
  assert_int_equal(counts.sessions_opened, counts.sessions_closed);
  assert_int_equal(counts.streams_opened, counts.streams_closed);
  if (!b->has_refused) assert_int_equal(counts.pulls, counts.completions);
  trn__scripted_unref(b->control);
  trn__strbuf_finish(&b->log.text);
  free(b->seen);
}

static inline trn_session *session_of(trn_backend *backend, const char *user, const char *group) {
  trn_session *session = NULL;
  trn_session_request request = {
      .struct_size = sizeof request, .user = user, .groups = &group, .group_count = group ? 1 : 0};
  assert_int_equal(trn_session_open(backend, &request, &session, NULL), TRN_OK);
  return session;
}

/* ---- plans ---- */
typedef struct plan_spec {
  const char *path;  /* of the source */
  const char *table; /* "sales": a table main.shop.sales; NULL: files; "": no label at all */
  const char *version;
  const trn_scan_view *view;
  unsigned columns; /* bits of those that the query selects; 0: all */
} plan_spec;

static const char *const NAMES[] = {"id", "region", "ssn"};

static inline trn_scan_label *label_of(const plan_spec *spec) {
  const trn_type *text = trn__type(TRN_TYPE_STRING);
  trn_scan_column columns[] = {
      {"id", trn__type(TRN_TYPE_INT64), true}, {"region", text, true}, {"ssn", text, true}};
  const char *table = spec->table;
  trn_scan_info info = {.struct_size = sizeof info,
                        .kind = table ? TRN_SCAN_TABLE : TRN_SCAN_FILES,
                        .catalog = table ? "main" : NULL,
                        .database = table ? "shop" : NULL,
                        .table = table,
                        .format = "parquet",
                        .paths = &spec->path,
                        .path_count = 1,
                        .columns = columns,
                        .column_count = 3,
                        .version = spec->version,
                        .files = 2,
                        .bytes = 1000,
                        .views = spec->view,
                        .view_count = spec->view ? 1 : 0};
  trn_scan_label *label;
  assert_int_equal(trn_scan_label_create(&info, &label), TRN_OK);
  return label;
}

static inline trn_status open_scan(trn_session *session, const plan_spec *spec, trn_arena *arena, uint32_t first_id,
                                   const trn_rel **out, trn_error **error) {
  struct ArrowSchema schema = {0};
  trn_source *source = NULL;
  bool has_label = !spec->table || *spec->table;
  trn_scan_label *label = has_label ? label_of(spec) : NULL;
  trn_source_request request = {.struct_size = sizeof request,
                                .format = "parquet",
                                .paths = &spec->path,
                                .path_count = 1,
                                .label = spec->table ? label : NULL};
  trn_status status = trn_backend_open_source(session, &request, &source, &schema, error);
  if (status == TRN_OK) {
    trn_backend *backend = trn_session_backend(session);
    static const uint32_t indexes[] = {0, 1, 2};
    trn_column columns[] = {{first_id, true, trn__type(TRN_TYPE_INT64)},
                            {first_id + 1, true, trn__type(TRN_TYPE_STRING)},
                            {first_id + 2, true, trn__type(TRN_TYPE_STRING)}};
    trn_rel *scan = trn__rel_create(arena, TRN_REL_SCAN, NULL, 0, NULL, 0, columns, 3);
    scan->u.scan.source = source;
    scan->u.scan.indexes = trn__arena_copy(arena, indexes, sizeof indexes);
    scan->u.scan.info = label;
    assert_int_equal(trn__source_hold(arena, backend, source), TRN_OK);
    assert_int_equal(trn__label_hold(arena, label), TRN_OK);
    trn_backend_source_unref(backend, source);
    *out = scan;
  }
  trn_scan_label_unref(label);
  trn__schema_release(&schema);
  return status;
}

static inline trn_plan *plan_end(trn_arena *arena, const trn_rel *root, const char *const *names, uint32_t next) {
  trn_field *fields = TRN_NEW_N(arena, trn_field, root->column_count);
  for (uint32_t i = 0; i < root->column_count; i++)
    fields[i] = (trn_field){.name = names ? names[i] : "c", .type = root->columns[i].type, .nullable = true};
  trn_plan *plan = NULL;
  assert_int_equal(trn__plan_create(arena, root, fields, next, NULL, NULL, &plan), TRN_OK);
  return plan;
}

/* select <columns> from the table */
static inline trn_status plan_of(trn_session *session, const plan_spec *spec, trn_plan **out, trn_error **error) {
  trn_arena *arena = trn__arena_create(0);
  const trn_rel *root = NULL;
  const char *names[3];
  *out = NULL;
  trn_status status = open_scan(session, spec, arena, 10, &root, error);
  if (status) {
    trn__arena_unref(arena);
    return status;
  }
  unsigned wanted = spec->columns ? spec->columns : 7;
  const trn_expr *exprs[3];
  trn_column columns[3];
  uint32_t count = 0;
  for (uint32_t i = 0; i < 3; i++) {
    if (!(wanted >> i & 1)) continue;
    names[count] = NAMES[i];
    exprs[count] = trn__expr_column(arena, &root->columns[i]);
    columns[count++] = root->columns[i];
  }
  root = trn__rel_project(arena, root, exprs, columns, count);
  *out = plan_end(arena, root, names, 20);
  return TRN_OK;
}

static inline trn_plan *range_plan(int64_t rows) {
  trn_arena *arena = trn__arena_create(0);
  trn_column column = {.id = 1, .type = trn__type(TRN_TYPE_INT64)};
  trn_rel *range = trn__rel_create(arena, TRN_REL_RANGE, NULL, 0, NULL, 0, &column, 1);
  range->u.range.end = rows;
  range->u.range.step = 1;
  return plan_end(arena, range, NULL, 2);
}

/* ---- running ---- */
static inline trn_status begin(trn_session *session, trn_plan *plan, trn_operation **out, trn_error **error) {
  trn_execute_request request = {.struct_size = sizeof request, .plan = plan, .protocol = "test"};
  return trn_backend_execute(session, &request, out, error);
}

/* Rows of the whole result; -1: failed with *error. */
static inline int64_t read_rows(trn_operation *operation, bool as_ipc, size_t bytes_max, trn_status *status,
                                trn_error **error) {
  trn_stream *stream = NULL;
  int64_t rows = 0;
  *status = trn_operation_result_stream(operation, &stream, error);
  if (*status) return -1;
  puller p;
  puller_init(&p);
  for (;;) {
    bool is_end = false;
    if (as_ipc) {
      trn_ipc_piece piece;
      *status = pull_ipc(&p, stream, bytes_max, &piece);
      is_end = *status || !piece.release;
      rows += is_end ? 0 : piece.rows;
      if (!is_end) piece.release(piece.owner);
    } else {
      struct ArrowArray array;
      *status = pull_array(&p, stream, &array);
      is_end = *status || !array.release;
      rows += is_end ? 0 : array.length;
      trn__array_release(&array);
    }
    if (is_end) break;
  }
  if (*status && error && !*error) trn_error_set(error, *status, NULL, "%s", p.message);
  puller_finish(&p);
  trn_stream_unref(stream);
  return *status ? -1 : rows;
}

/* Takes the plan. */
static inline int64_t run_plan(trn_session *session, trn_plan *plan, trn_status *status, trn_error **error) {
  trn_operation *operation = NULL;
  *status = begin(session, plan, &operation, error);
  trn_plan_unref(plan);
  if (*status) return -1;
  int64_t rows = read_rows(operation, false, 0, status, error);
  trn_operation_unref(operation);
  return rows;
}

#endif
