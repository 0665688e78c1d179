/* The job store in SQL. Whoever may write is said by each statement's own condition, so that it needs no lock but the
 * row's. */
#include <stdio.h>

#include "scheduler/store_sql.h"

enum { FORMAT_VERSION = 1, PARAMETERS_MAX = 32, STALE_OWNER_MS = 24 * 3600 * 1000 };

typedef struct sql_store {
  const trn_sql_driver *driver;
  void *driver_self;
} sql_store;

#define DEAD_OWNER                                                                                                     \
  "NOT EXISTS(SELECT 1 FROM trunnion_job_owners o WHERE o.owner = trunnion_jobs.owner AND o.until_ms > %s)"
/* state < 2: QUEUED and RUNNING */
static const char columns[] =
    "id, name, user_name, session_id, state, attempt, owner, is_cancelled, is_released, backend_id, submitted_ms,"
    " started_ms, ended_ms, stages, stages_done, tasks, tasks_done, row_count, byte_count, is_authenticated, format,"
    " error_status, error_condition, error_message, metrics, details, locations, result_schema";
static const char column_kinds[] = "tttt"
                                   "ii"
                                   "t"
                                   "ii"
                                   "t"
                                   "iiiiiiiii"
                                   "i"
                                   "t"
                                   "i"
                                   "ttt"
                                   "bbb";
enum { COLUMN_ALIVE = sizeof column_kinds - 1 }; /* then: whether the owner lives; the query */

/* ---- values ---- */

static trn_sql_value number(int64_t value) {
  return (trn_sql_value){.kind = TRN_SQL_INT, .number = value};
}

static trn_sql_value text(const char *value) {
  if (!value) return (trn_sql_value){0};
  return (trn_sql_value){.kind = TRN_SQL_TEXT, .data = value, .size = strlen(value)};
}

static trn_sql_value bytes(const void *data, size_t size) {
  if (!data && size == 0) return (trn_sql_value){0};
  return (trn_sql_value){.kind = TRN_SQL_BYTES, .data = data, .size = size};
}

static trn_sql_value bytes_of(const trn_strbuf *buffer) {
  return bytes(buffer->data ? buffer->data : "", buffer->size);
}

trn_status trn__sql_failed(trn_error **error, trn_status status, const char *message) {
  int size = (int)strcspn(message, "\n");
  return trn_error_set(error, status, NULL, "The job store: %.*s", size < 500 ? size : 500, message);
}

/* ---- reading a row ---- */

typedef struct reading {
  trn_arena *arena;
  trn_vec records; /* of trn_job_record */
  trn_status status;
} reading;

static const char *text_at(trn_arena *arena, const trn_sql_value *value, trn_status *status) {
  if (value->kind == TRN_SQL_NULL) return NULL;
  const char *copy = trn__arena_str(arena, value->data, value->size);
  if (!copy) *status = TRN_RESOURCE_EXHAUSTED;
  return copy;
}

static trn_status read_lists(trn_arena *arena, const trn_sql_value *details, const trn_sql_value *locations,
                             trn_job_record *r) {
  trn_bytes_reader from = {details->data, details->size, 0};
  trn_status status = trn__texts_decode(arena, &from, &r->tags, &r->tag_count);
  if (!status) status = trn__texts_decode(arena, &from, &r->groups, &r->group_count);
  if (!status) status = trn__kvs_decode(arena, &from, &r->settings, &r->setting_count);
  if (!status) status = trn__kvs_decode(arena, &from, &r->query_options, &r->query_option_count);
  from = (trn_bytes_reader){locations->data, locations->size, 0};
  if (!status && locations->size) status = trn__locations_decode(arena, &from, &r->locations, &r->location_count);
  return status;
}

static trn_status read_record(trn_arena *arena, const trn_sql_value *v, size_t count, trn_job_record *r) {
  trn_status status = TRN_OK;
  const char **texts[] = {&r->id, &r->name, &r->user, &r->session_id};
  for (size_t i = 0; i < 4; i++) *texts[i] = text_at(arena, &v[i], &status);
  r->struct_size = sizeof *r;
  r->state = (trn_job_state)v[4].number;
  r->attempt = (uint64_t)v[5].number;
  r->owner = text_at(arena, &v[6], &status);
  r->is_cancelled = v[7].number != 0;
  r->is_released = v[8].number != 0;
  r->backend_id = text_at(arena, &v[9], &status);
  r->submitted_ms = v[10].number, r->started_ms = v[11].number, r->ended_ms = v[12].number;
  r->stages = (uint32_t)v[13].number, r->stages_done = (uint32_t)v[14].number;
  r->tasks = (uint32_t)v[15].number, r->tasks_done = (uint32_t)v[16].number;
  r->rows = v[17].number, r->bytes = v[18].number;
  r->is_authenticated = v[19].number != 0;
  r->format = text_at(arena, &v[20], &status);
  r->error_status = (trn_status)v[21].number;
  r->error_condition = text_at(arena, &v[22], &status);
  r->error_message = text_at(arena, &v[23], &status);
  r->metrics = text_at(arena, &v[24], &status);
  if (!status) status = read_lists(arena, &v[25], &v[26], r);
  if (!status && v[27].kind != TRN_SQL_NULL) {
    r->schema_size = v[27].size;
    r->schema = trn__arena_copy(arena, v[27].data, r->schema_size);
    if (!r->schema) status = TRN_RESOURCE_EXHAUSTED;
  }
  r->is_owner_alive = v[COLUMN_ALIVE].number != 0;
  if (!status && count > COLUMN_ALIVE + 1 && v[COLUMN_ALIVE + 1].kind != TRN_SQL_NULL) {
    r->query_size = v[COLUMN_ALIVE + 1].size;
    r->query = trn__arena_copy(arena, v[COLUMN_ALIVE + 1].data, r->query_size);
    if (!r->query) status = TRN_RESOURCE_EXHAUSTED;
  }
  if (!status &&
      (!r->id || !r->name || !r->user || !r->session_id || !r->owner || (unsigned)r->state > TRN_JOB_CANCELLED))
    status = TRN_DATA_LOSS;
  return status;
}

static bool on_record(void *user, const trn_sql_value *values, size_t count) {
  reading *r = user;
  trn_job_record *record = TRN_NEW(r->arena, trn_job_record);
  r->status = record ? read_record(r->arena, values, count, record) : TRN_RESOURCE_EXHAUSTED;
  if (!r->status && !trn__vec_push(&r->records, record)) r->status = TRN_RESOURCE_EXHAUSTED;
  return !r->status;
}

/* ---- running ---- */

static trn_status run(sql_store *s, trn_error **error, const char *sql, const trn_sql_value *parameters, size_t count,
                      int64_t *changed) {
  return s->driver->run(s->driver_self, sql, parameters, count, "", NULL, NULL, changed, error);
}

/* One statement that changes, as a transaction. */
static trn_status change(sql_store *s, trn_error **error, const trn_strbuf *sql, const trn_sql_value *parameters,
                         size_t count, int64_t *changed) {
  if (sql->failed) return trn__no_memory(error);
  trn_status status = s->driver->begin(s->driver_self, true, error);
  if (status) return status;
  status = run(s, error, sql->data, parameters, count, changed);
  return s->driver->end(s->driver_self, true, status, error);
}

/* Records are read first and told afterwards: `each` may ask the store. */
static trn_status read_all(sql_store *s, const trn_strbuf *sql, const trn_sql_value *parameters, size_t count,
                           bool with_query, trn_job_each each, void *user, size_t *found, trn_error **error) {
  char kinds[sizeof column_kinds + 2];
  snprintf(kinds, sizeof kinds, "%si%s", column_kinds, with_query ? "b" : "");
  reading r = {.arena = trn__arena_create(0)};
  trn_status status = sql->failed || !r.arena ? trn__no_memory(error) : s->driver->begin(s->driver_self, false, error);
  if (!status) {
    status = s->driver->run(s->driver_self, sql->data, parameters, count, kinds, on_record, &r, NULL, error);
    status = s->driver->end(s->driver_self, false, status, error);
    if (!status && r.status) status = trn_error_set(error, r.status, NULL, "A record of the job store cannot be read");
  }
  *found = r.records.count;
  for (size_t i = 0; i < r.records.count && !status; i++)
    if (!each(user, r.records.items[i])) break;
  trn__vec_finish(&r.records);
  trn__arena_unref(r.arena);
  return status;
}

static trn_status not_found(trn_error **error, const char *id) {
  return trn_error_set(error, TRN_NOT_FOUND, "JOB_NOT_FOUND", "There is no job %s", id);
}

/* ---- insert ---- */

static trn_status insert_tags(sql_store *s, const trn_job_record *r, trn_error **error) {
  trn_status status = TRN_OK;
  for (size_t i = 0; i < r->tag_count && !status; i++) {
    trn_sql_value values[] = {text(r->tags[i]), number(r->submitted_ms), text(r->id)};
    status =
        run(s, error, "INSERT INTO trunnion_job_tags(tag, submitted_ms, id) VALUES($1, $2, $3) ON CONFLICT DO NOTHING",
            values, 3, NULL);
  }
  return status;
}

static trn_status insert_row(sql_store *s, const trn_job_record *r, trn_error **error) {
  trn_strbuf details = {0};
  trn__texts_encode(&details, r->tags, r->tag_count);
  trn__texts_encode(&details, r->groups, r->group_count);
  trn__kvs_encode(&details, r->settings, r->setting_count);
  trn__kvs_encode(&details, r->query_options, r->query_option_count);
  trn_sql_value values[] = {text(r->id),         text(r->name),           text(r->user),
                            text(r->session_id), number(r->state),        number((int64_t)r->attempt),
                            text(r->owner),      number(r->submitted_ms), number(r->is_authenticated),
                            text(r->format),     bytes_of(&details),      bytes(r->query, r->query_size)};
  trn_status status =
      details.failed
          ? trn__no_memory(error)
          : run(s, error,
                "INSERT INTO trunnion_jobs(id, name, user_name, session_id, state, attempt, owner, submitted_ms,"
                " is_authenticated, format, details, query) VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
                values, sizeof values / sizeof *values, NULL);
  trn__strbuf_finish(&details);
  return status;
}

static trn_status store_insert(void *self, const trn_job_record *record, trn_error **error) {
  sql_store *s = self;
  trn_error *failure = NULL;
  trn_status status = s->driver->begin(s->driver_self, true, error);
  if (status) return status;
  status = insert_row(s, record, &failure);
  if (!status) status = insert_tags(s, record, &failure);
  status = s->driver->end(s->driver_self, true, status, &failure);
  if (status == TRN_ALREADY_EXISTS) {
    trn_error_set(error, status, "JOB_ALREADY_EXISTS", "There is a job %s already", record->id);
    trn_error_unref(failure);
  } else if (error) {
    *error = failure;
  } else {
    trn_error_unref(failure);
  }
  return status;
}

/* ---- get, list ---- */

static void select_from(sql_store *s, trn_strbuf *sql, bool with_query) {
  trn__strbuf_printf(sql,
                     "SELECT %s, EXISTS(SELECT 1 FROM trunnion_job_owners o WHERE o.owner = trunnion_jobs.owner AND"
                     " o.until_ms > %s)%s FROM trunnion_jobs",
                     columns, s->driver->now, with_query ? ", query" : "");
}

static trn_status store_get(void *self, const char *id, bool with_query, trn_job_each each, void *user,
                            trn_error **error) {
  sql_store *s = self;
  trn_strbuf sql = {0};
  size_t found = 0;
  trn_sql_value values[] = {text(id)};
  select_from(s, &sql, with_query);
  trn__strbuf_puts(&sql, " WHERE id = $1");
  trn_status status = read_all(s, &sql, values, 1, with_query, each, user, &found, error);
  trn__strbuf_finish(&sql);
  return status || found ? status : not_found(error, id);
}

typedef struct clauses {
  trn_strbuf *sql;
  trn_sql_value values[PARAMETERS_MAX];
  size_t count;
} clauses;

/* "... %d ..." with the number of the parameter. */
static void clause(clauses *c, const char *before, trn_sql_value value, const char *after) {
  c->values[c->count] = value;
  trn__strbuf_printf(c->sql, " AND %s$%zu%s", before, ++c->count, after);
}

static void state_clauses(sql_store *s, clauses *c, uint32_t states) {
  const uint32_t active = 1u << TRN_JOB_QUEUED | 1u << TRN_JOB_RUNNING, lost = 1u << TRN_JOB_LOST;
  if (!states) return;
  bool is_first = true;
  if (!(states & ~(active | lost))) trn__strbuf_puts(c->sql, " AND state < 2"); /* there is an index of these */
  if (states == active) return;
  trn__strbuf_puts(c->sql, " AND (");
  for (unsigned state = 0; state <= TRN_JOB_CANCELLED; state++) {
    if (!(states & 1u << state)) continue;
    trn__strbuf_printf(c->sql, "%sstate = %u", is_first ? "" : " OR ", state);
    is_first = false;
  }
  if (states & lost)
    trn__strbuf_printf(c->sql, "%s(state < 2 AND " DEAD_OWNER ")", is_first ? "" : " OR ", s->driver->now);
  trn__strbuf_putc(c->sql, ')');
}

static void filter_clauses(sql_store *s, clauses *c, const trn_job_filter *f) {
  state_clauses(s, c, f->states);
  if (f->user) clause(c, "user_name = ", text(f->user), "");
  if (f->session_id) clause(c, "session_id = ", text(f->session_id), "");
  if (f->name) clause(c, "name = ", text(f->name), "");
  if (f->owner) clause(c, "owner = ", text(f->owner), "");
  if (f->since_ms) clause(c, "submitted_ms >= ", number(f->since_ms), "");
  if (f->until_ms) clause(c, "submitted_ms < ", number(f->until_ms), "");
  if (f->tag) clause(c, "id IN (SELECT t.id FROM trunnion_job_tags t WHERE t.tag = ", text(f->tag), ")");
  if (f->after_id)
    clause(c, "(submitted_ms, id) < (SELECT a.submitted_ms, a.id FROM trunnion_jobs a WHERE a.id = ", text(f->after_id),
           ")");
}

static trn_status store_list(void *self, const trn_job_filter *given, trn_job_each each, void *user,
                             trn_error **error) {
  sql_store *s = self;
  trn_strbuf sql = {0};
  clauses c = {.sql = &sql};
  trn_job_filter f = {0};
  size_t found = 0;
  if (given) memcpy(&f, given, trn__struct_size(given->struct_size, sizeof f));
  size_t limit = f.limit ? f.limit : 100;
  select_from(s, &sql, false);
  trn__strbuf_puts(&sql, " WHERE TRUE");
  filter_clauses(s, &c, &f);
  trn__strbuf_printf(&sql, " ORDER BY submitted_ms DESC, id DESC LIMIT %zu",
                     limit < TRN_JOB_LIST_MAX ? limit : (size_t)TRN_JOB_LIST_MAX);
  trn_status status = read_all(s, &sql, c.values, c.count, false, each, user, &found, error);
  trn__strbuf_finish(&sql);
  return status;
}

/* ---- changes while it runs ---- */

static trn_status store_update(void *self, const trn_job_record *r, trn_error **error) {
  sql_store *s = self;
  trn_strbuf sql = {0}, locations = {0};
  int64_t changed = 0;
  trn__locations_encode(&locations, r->locations, r->location_count);
  trn_sql_value values[] = {number(r->state),
                            text(r->backend_id),
                            number(r->started_ms),
                            number(r->ended_ms),
                            number(r->stages),
                            number(r->stages_done),
                            number(r->tasks),
                            number(r->tasks_done),
                            number(r->rows),
                            number(r->bytes),
                            number(r->error_status),
                            text(r->error_condition),
                            text(r->error_message),
                            text(r->metrics),
                            bytes_of(&locations),
                            bytes(r->schema, r->schema_size),
                            text(r->id),
                            number((int64_t)r->attempt),
                            text(r->owner)};
  trn__strbuf_puts(&sql,
                   "UPDATE trunnion_jobs SET state = $1, backend_id = $2, started_ms = $3, ended_ms = $4,"
                   " stages = $5, stages_done = $6, tasks = $7, tasks_done = $8, row_count = $9, byte_count = $10,"
                   " error_status = $11, error_condition = $12, error_message = $13, metrics = $14,"
                   " locations = $15, result_schema = $16 WHERE id = $17 AND attempt = $18 AND owner = $19 AND"
                   " state < 2");
  trn_status status = locations.failed ? trn__no_memory(error)
                                       : change(s, error, &sql, values, sizeof values / sizeof *values, &changed);
  trn__strbuf_finish(&sql);
  trn__strbuf_finish(&locations);
  if (!status && !changed)
    status = trn_error_set(error, TRN_ABORTED, NULL, "Job %s is not this scheduler's any more", r->id);
  return status;
}

static trn_status give_up(sql_store *s, const char *id, uint64_t attempt, trn_error **error) {
  trn_strbuf sql = {0};
  int64_t changed = 0;
  trn_sql_value values[] = {text(id), number((int64_t)attempt)};
  trn__strbuf_puts(&sql, "UPDATE trunnion_jobs SET owner = '' WHERE id = $1 AND attempt = $2 AND state < 2");
  trn_status status = change(s, error, &sql, values, 2, &changed);
  trn__strbuf_finish(&sql);
  return status || changed ? status : trn_error_set(error, TRN_ABORTED, NULL, "Job %s is somebody else's", id);
}

static trn_status store_take(void *self, const char *id, uint64_t attempt, const char *owner, bool is_new_run,
                             trn_error **error) {
  sql_store *s = self;
  trn_strbuf sql = {0};
  int64_t changed = 0;
  if (!owner) return give_up(s, id, attempt, error);
  trn_sql_value values[] = {text(owner), text(id), number((int64_t)attempt)};
  trn__strbuf_printf(&sql,
                     "UPDATE trunnion_jobs SET owner = $1, attempt = attempt + 1%s WHERE id = $2 AND attempt = $3 AND"
                     " state < 2 AND (owner = $1 OR " DEAD_OWNER ")",
                     is_new_run
                         ? ", state = 0, backend_id = NULL, started_ms = 0, stages = 0, stages_done = 0, tasks = 0,"
                           " tasks_done = 0, row_count = 0, byte_count = 0"
                         : "",
                     s->driver->now);
  trn_status status = change(s, error, &sql, values, 3, &changed);
  trn__strbuf_finish(&sql);
  if (!status && !changed) status = trn_error_set(error, TRN_ABORTED, NULL, "Job %s is somebody else's", id);
  return status;
}

/* ---- leases ---- */

static bool on_cancelled(void *user, const trn_sql_value *values, size_t count) {
  reading *r = user;
  (void)count;
  trn_job_record *record = TRN_NEW(r->arena, trn_job_record);
  if (record) {
    record->struct_size = sizeof *record;
    record->id = text_at(r->arena, &values[0], &r->status);
    record->attempt = (uint64_t)values[1].number;
  }
  if (!record || r->status || !trn__vec_push(&r->records, record)) r->status = TRN_RESOURCE_EXHAUSTED;
  return !r->status;
}

static trn_status store_renew(void *self, const char *owner, uint64_t lease_ms, trn_job_each each, void *user,
                              trn_error **error) {
  sql_store *s = self;
  trn_strbuf sql = {0};
  reading r = {.arena = trn__arena_create(0)};
  trn_sql_value values[] = {text(owner), number(lease_ms < INT32_MAX ? (int64_t)lease_ms : INT32_MAX)};
  trn__strbuf_printf(&sql,
                     "INSERT INTO trunnion_job_owners(owner, until_ms) VALUES($1, %s + CAST($2 AS BIGINT))"
                     " ON CONFLICT(owner) DO UPDATE SET until_ms = excluded.until_ms",
                     s->driver->now);
  trn_status status = r.arena ? change(s, error, &sql, values, 2, NULL) : trn__no_memory(error);
  if (!status) status = s->driver->begin(s->driver_self, false, error);
  if (!status) {
    status = s->driver->run(s->driver_self,
                            "SELECT id, attempt FROM trunnion_jobs WHERE owner = $1 AND state < 2 AND is_cancelled = 1",
                            values, 1, "ti", on_cancelled, &r, NULL, error);
    status = s->driver->end(s->driver_self, false, status, error);
    if (!status && r.status) status = trn__no_memory(error);
  }
  for (size_t i = 0; i < r.records.count && !status; i++)
    if (!each(user, r.records.items[i])) break;
  trn__vec_finish(&r.records);
  trn__arena_unref(r.arena);
  trn__strbuf_finish(&sql);
  return status;
}

/* ---- what does not need the owner ---- */

static bool on_any(void *user, const trn_sql_value *values, size_t count) {
  (void)count;
  *(int64_t *)user = values[0].number;
  return false;
}

/* Does `sql`; when no row was changed, finds out why: `*state` is the job's, or NOT_FOUND. */
static trn_status change_job(sql_store *s, const char *id, const char *sql, bool *changed, int64_t *state,
                             trn_error **error) {
  int64_t count = 0;
  trn_sql_value values[] = {text(id)};
  *state = -1;
  trn_status status = s->driver->begin(s->driver_self, true, error);
  if (status) return status;
  status = run(s, error, sql, values, 1, &count);
  if (!status && !count)
    status = s->driver->run(s->driver_self, "SELECT state FROM trunnion_jobs WHERE id = $1", values, 1, "i", on_any,
                            state, NULL, error);
  status = s->driver->end(s->driver_self, true, status, error);
  *changed = count != 0;
  return status || count || *state >= 0 ? status : not_found(error, id);
}

static trn_status not_ended(trn_error **error, const char *id) {
  return trn_error_set(error, TRN_FAILED_PRECONDITION, "JOB_NOT_ENDED", "Job %s has not ended", id);
}

static trn_status store_cancel(void *self, const char *id, trn_error **error) {
  bool changed;
  int64_t state;
  return change_job(self, id, "UPDATE trunnion_jobs SET is_cancelled = 1 WHERE id = $1 AND state < 2", &changed, &state,
                    error);
}

static trn_status store_release(void *self, const char *id, trn_error **error) {
  bool changed;
  int64_t state;
  trn_status status =
      change_job(self, id, "UPDATE trunnion_jobs SET is_released = 1, locations = NULL WHERE id = $1 AND state >= 2",
                 &changed, &state, error);
  return status || changed ? status : not_ended(error, id);
}

static trn_status store_remove(void *self, const char *id, trn_error **error) {
  bool changed;
  int64_t state;
  trn_sql_value values[] = {text(id)};
  sql_store *s = self;
  trn_strbuf sql = {0};
  trn_status status =
      change_job(s, id, "DELETE FROM trunnion_jobs WHERE id = $1 AND state >= 2", &changed, &state, error);
  if (!status && !changed) status = not_ended(error, id);
  /* A tag without its job is found by nobody. */
  trn__strbuf_puts(&sql, "DELETE FROM trunnion_job_tags WHERE id = $1 AND"
                         " NOT EXISTS(SELECT 1 FROM trunnion_jobs j WHERE j.id = trunnion_job_tags.id)");
  if (!status) status = change(s, error, &sql, values, 1, NULL);
  trn__strbuf_finish(&sql);
  return status;
}

void *trn__sql_job_store_driver(void *self) {
  return ((sql_store *)self)->driver_self;
}

static void store_destroy(void *self) {
  sql_store *s = self;
  s->driver->destroy(s->driver_self);
  free(s);
}

static const trn_job_store_ops store_ops = {.struct_size = sizeof(trn_job_store_ops),
                                            .insert = store_insert,
                                            .get = store_get,
                                            .update = store_update,
                                            .take = store_take,
                                            .renew = store_renew,
                                            .cancel = store_cancel,
                                            .release = store_release,
                                            .remove = store_remove,
                                            .list = store_list,
                                            .destroy = store_destroy};

/* ---- the tables ---- */

static const char *const indexes[] = {
    "CREATE INDEX IF NOT EXISTS trunnion_jobs_newest ON trunnion_jobs(submitted_ms, id)",
    "CREATE INDEX IF NOT EXISTS trunnion_jobs_user ON trunnion_jobs(user_name, submitted_ms, id)",
    "CREATE INDEX IF NOT EXISTS trunnion_jobs_session ON trunnion_jobs(session_id, submitted_ms, id)",
    "CREATE INDEX IF NOT EXISTS trunnion_jobs_name ON trunnion_jobs(name, submitted_ms, id)",
    "CREATE INDEX IF NOT EXISTS trunnion_jobs_owner ON trunnion_jobs(owner, submitted_ms, id)",
    "CREATE INDEX IF NOT EXISTS trunnion_jobs_state ON trunnion_jobs(state, submitted_ms, id)",
    "CREATE INDEX IF NOT EXISTS trunnion_jobs_active ON trunnion_jobs(submitted_ms, id) WHERE state < 2",
    "CREATE INDEX IF NOT EXISTS trunnion_jobs_cancelled ON trunnion_jobs(owner) WHERE state < 2 AND is_cancelled = 1"};

static void jobs_table(const trn_sql_driver *d, trn_strbuf *sql) {
  trn__strbuf_printf(
      sql,
      "CREATE TABLE IF NOT EXISTS trunnion_jobs(id TEXT%s PRIMARY KEY, name TEXT NOT NULL, user_name TEXT NOT NULL,"
      " session_id TEXT NOT NULL, state BIGINT NOT NULL, attempt BIGINT NOT NULL, owner TEXT NOT NULL,"
      " is_cancelled BIGINT NOT NULL DEFAULT 0, is_released BIGINT NOT NULL DEFAULT 0, backend_id TEXT,"
      " submitted_ms BIGINT NOT NULL, started_ms BIGINT NOT NULL DEFAULT 0, ended_ms BIGINT NOT NULL DEFAULT 0,"
      " stages BIGINT NOT NULL DEFAULT 0, stages_done BIGINT NOT NULL DEFAULT 0, tasks BIGINT NOT NULL DEFAULT 0,"
      " tasks_done BIGINT NOT NULL DEFAULT 0, row_count BIGINT NOT NULL DEFAULT 0, byte_count BIGINT NOT NULL DEFAULT "
      "0,"
      " is_authenticated BIGINT NOT NULL, format TEXT, error_status BIGINT NOT NULL DEFAULT 0, error_condition TEXT,"
      " error_message TEXT, metrics TEXT, details %s NOT NULL, locations %s, result_schema %s, query %s)",
      d->binary, d->bytes_type, d->bytes_type, d->bytes_type, d->bytes_type);
}

static trn_status make_tables(sql_store *s, trn_error **error) {
  const trn_sql_driver *d = s->driver;
  trn_strbuf sql = {0};
  int64_t format = 0;
  trn_status status =
      run(s, error, "CREATE TABLE IF NOT EXISTS trunnion_job_format(format BIGINT PRIMARY KEY)", NULL, 0, NULL);
  if (!status)
    status = d->run(s->driver_self, "SELECT MAX(format) FROM trunnion_job_format", NULL, 0, "i", on_any, &format, NULL,
                    error);
  if (!status && format > FORMAT_VERSION)
    status = trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "The job store was written by a newer version");
  if (status || format) return status;
  jobs_table(d, &sql);
  status = sql.failed ? trn__no_memory(error) : run(s, error, sql.data, NULL, 0, NULL);
  trn__strbuf_finish(&sql);
  trn__strbuf_printf(&sql,
                     "CREATE TABLE IF NOT EXISTS trunnion_job_tags(tag TEXT%s NOT NULL, submitted_ms BIGINT NOT NULL,"
                     " id TEXT%s NOT NULL, PRIMARY KEY(tag, submitted_ms, id))",
                     d->binary, d->binary);
  if (!status) status = sql.failed ? trn__no_memory(error) : run(s, error, sql.data, NULL, 0, NULL);
  trn__strbuf_finish(&sql);
  if (!status)
    status = run(s, error, "CREATE INDEX IF NOT EXISTS trunnion_job_tags_id ON trunnion_job_tags(id)", NULL, 0, NULL);
  if (!status)
    status = run(s, error,
                 "CREATE TABLE IF NOT EXISTS trunnion_job_owners(owner TEXT PRIMARY KEY, until_ms BIGINT NOT NULL)",
                 NULL, 0, NULL);
  for (size_t i = 0; i < sizeof indexes / sizeof *indexes && !status; i++)
    status = run(s, error, indexes[i], NULL, 0, NULL);
  trn_sql_value version[] = {number(FORMAT_VERSION)};
  if (!status) status = run(s, error, "INSERT INTO trunnion_job_format VALUES($1)", version, 1, NULL);
  return status;
}

static trn_status forget_owners(sql_store *s, trn_error **error) {
  trn_strbuf sql = {0};
  trn_sql_value values[] = {number(STALE_OWNER_MS)};
  trn__strbuf_printf(&sql, "DELETE FROM trunnion_job_owners WHERE until_ms < %s - CAST($1 AS BIGINT)", s->driver->now);
  trn_status status = change(s, error, &sql, values, 1, NULL);
  trn__strbuf_finish(&sql);
  return status;
}

trn_status trn__sql_job_store_create(const trn_sql_driver *driver, void *self, trn_job_store **out, trn_error **error) {
  *out = NULL;
  sql_store *s = malloc(sizeof *s);
  if (!s) {
    driver->destroy(self);
    return trn__no_memory(error);
  }
  *s = (sql_store){driver, self};
  trn_status status = driver->begin(self, true, error);
  if (!status) status = driver->end(self, true, make_tables(s, error), error);
  if (!status) status = forget_owners(s, error);
  if (!status && trn_job_store_create(&store_ops, s, out)) status = trn__no_memory(error);
  if (status) store_destroy(s);
  return status;
}
