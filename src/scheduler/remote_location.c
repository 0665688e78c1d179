/* Where outputs on a cluster are and what they look like, as records have it. */
#include "scheduler/remote.h"

#include "backend/ballista/wire.h"

static const char scheme[] = "grpc://";

/* ---- writing: Action { fetch_partition = 3 { job_id = 1, stage_id = 2, partition_id = 3, host = 5, port = 6, file_id
 * = 7, layout = 9 } } ---- */

static trn_strbuf ticket_of(const trn_ballista_location *l) {
  trn_strbuf fetch = {0}, action = {0};
  trn__wire_put_text(&fetch, 1, l->job_id);
  trn__wire_put_number(&fetch, 2, l->stage_id);
  trn__wire_put_number(&fetch, 3, l->partition_id);
  trn__wire_put_text(&fetch, 5, l->host);
  trn__wire_put_number(&fetch, 6, l->port);
  if (l->has_file_id) trn__wire_put_number(&fetch, 7, l->file_id);
  if (l->is_sort_shuffle) trn__wire_put_number(&fetch, 9, 1);
  trn__wire_put_message(&action, 3, &fetch);
  return action;
}

static char *uri_of(trn_arena *arena, const trn_ballista_client *client, const trn_ballista_job *job,
                    const trn_ballista_location *l) {
  bool is_v6 = strchr(l->host, ':') && l->host[0] != '[';
  if (job->is_proxied)
    return trn__arena_printf(arena, "%s%s", scheme, *job->proxy ? job->proxy : trn__ballista_client_target(client));
  return trn__arena_printf(arena, is_v6 ? "%s[%s]:%u" : "%s%s:%u", scheme, l->host, l->port);
}

trn_status trn__remote_locations(trn_arena *arena, const trn_ballista_client *client, const trn_ballista_job *job,
                                 trn_job_location **out) {
  trn_job_location *items = TRN_NEW_N(arena, trn_job_location, job->location_count);
  bool ok = items != NULL;
  for (size_t i = 0; i < job->location_count && ok; i++) {
    const trn_ballista_location *l = &job->locations[i];
    trn_strbuf ticket = ticket_of(l);
    items[i] = (trn_job_location){.struct_size = sizeof *items,
                                  .uri = uri_of(arena, client, job, l),
                                  .ticket_size = ticket.size,
                                  .rows = l->rows,
                                  .bytes = l->bytes};
    items[i].ticket = ticket.failed ? NULL : trn__arena_copy(arena, ticket.data, ticket.size);
    ok = items[i].uri && items[i].ticket;
    trn__strbuf_finish(&ticket);
  }
  *out = items;
  return ok ? TRN_OK : TRN_RESOURCE_EXHAUSTED;
}

/* ---- schemas ---- */

trn_status trn__remote_schema(trn_plan *plan, trn_strbuf *out, trn_error **error) {
  struct ArrowSchema schema = {0};
  trn_status status = trn_plan_schema(plan, &schema);
  if (!status) status = trn__ipc_write_schema(&schema, out);
  trn__schema_release(&schema);
  return status ? trn_error_set(error, status, NULL, "the result's schema cannot be written as Arrow IPC") : TRN_OK;
}

/* ---- reading ---- */

static bool read_partition(trn_arena *arena, trn_wire_reader r, trn_ballista_location *l) {
  trn_wire_field f;
  bool ok = true;
  l->job_id = l->host = l->executor_id = "";
  while (trn__wire_next(&r, &f)) {
    const char *text = f.type == 2 ? trn__arena_str(arena, f.bytes.data, f.bytes.size) : NULL;
    if (f.type == 2 && !text) ok = false;
    if (f.number == 1 && text) l->job_id = text;
    if (f.number == 2) l->stage_id = (uint32_t)f.value;
    if (f.number == 3) l->partition_id = (uint32_t)f.value;
    if (f.number == 5 && text) l->host = text;
    if (f.number == 6) l->port = (uint32_t)f.value;
    if (f.number == 7) l->has_file_id = true, l->file_id = f.value;
    if (f.number == 9) l->is_sort_shuffle = f.value != 0;
  }
  return ok && !r.is_bad;
}

static bool read_ticket(trn_arena *arena, const trn_job_location *from, trn_ballista_location *l) {
  trn_wire_reader r = trn__wire_reader(from->ticket, from->ticket_size);
  trn_wire_field f;
  bool found = false;
  while (trn__wire_next(&r, &f))
    if (f.number == 3 && f.type == 2) found = read_partition(arena, trn__wire_inside(&f), l);
  l->rows = from->rows;
  l->bytes = from->bytes;
  return found && !r.is_bad;
}

trn_status trn__remote_location(const trn_job_record *record, size_t index, trn_ballista_job **out, trn_error **error) {
  const trn_job_location *from = &record->locations[index];
  *out = NULL;
  trn_arena *arena = trn__arena_create(0);
  trn_ballista_job *job = arena ? TRN_NEW(arena, trn_ballista_job) : NULL;
  trn_ballista_location *location = job ? TRN_NEW(arena, trn_ballista_location) : NULL;
  const char *address = strncmp(from->uri, scheme, sizeof scheme - 1) == 0 ? from->uri + sizeof scheme - 1 : NULL;
  char *proxy = location && address ? trn__arena_strdup(arena, address) : NULL;
  trn_status status = proxy ? TRN_OK : address ? trn__no_memory(error) : TRN_DATA_LOSS;
  if (!status && !read_ticket(arena, from, location)) status = TRN_DATA_LOSS;
  if (status == TRN_DATA_LOSS)
    trn_error_set(error, status, "JOB_OUTPUT_LOST", "The location %s of job %s is none", from->uri, record->id);
  if (status) {
    trn__arena_unref(arena);
    return status;
  }
  atomic_init(&job->refs, 1);
  job->arena = arena;
  job->id = location->job_id;
  job->name = job->error = "";
  job->state = TRN_BALLISTA_SUCCESSFUL;
  job->locations = location;
  job->location_count = 1;
  job->is_proxied = true;
  job->proxy = proxy;
  *out = job;
  return TRN_OK;
}
