/* What a scheduler says of jobs, read without trust. */
#include "backend/ballista/client.h"

#include <inttypes.h>

trn_ballista_job *trn__ballista_job_ref(trn_ballista_job *job) {
  atomic_fetch_add_explicit(&job->refs, 1, memory_order_relaxed);
  return job;
}

void trn__ballista_job_unref(trn_ballista_job *job) {
  if (job && atomic_fetch_sub_explicit(&job->refs, 1, memory_order_acq_rel) == 1) trn__arena_unref(job->arena);
}

/* ---- status ---- */

/* Reading of one message: memory and what went wrong. */
typedef struct parse {
  trn_arena *arena;
  bool is_bad, is_out_of_memory;
} parse;

static const char *text_of(parse *p, const trn_wire_field *field) {
  if (field->type != 2) {
    p->is_bad = true;
    return "";
  }
  const char *text = trn__arena_str(p->arena, field->bytes.data, field->bytes.size);
  p->is_out_of_memory |= !text;
  return text ? text : "";
}

/* ExecutorMetadata { id = 1, host = 2, port = 3 } */
static void parse_executor(parse *p, trn_wire_reader r, trn_ballista_location *out) {
  trn_wire_field f;
  while (trn__wire_next(&r, &f)) {
    if (f.number == 1) out->executor_id = text_of(p, &f);
    if (f.number == 2) out->host = text_of(p, &f);
    if (f.number == 3) out->port = (uint32_t)f.value;
  }
  p->is_bad |= r.is_bad || out->port > UINT16_MAX;
}

/* PartitionId { job_id = 1, stage_id = 2, partition_id = 4 } */
static void parse_partition(parse *p, trn_wire_reader r, trn_ballista_location *out) {
  trn_wire_field f;
  while (trn__wire_next(&r, &f)) {
    if (f.number == 1) out->job_id = text_of(p, &f);
    if (f.number == 2) out->stage_id = (uint32_t)f.value;
    if (f.number == 4) out->partition_id = (uint32_t)f.value;
  }
  p->is_bad |= r.is_bad;
}

/* PartitionStats { num_rows = 1, num_batches = 2, num_bytes = 3 }: -1 is unknown, and so is what is not there. */
static void parse_statistics(parse *p, trn_wire_reader r, trn_ballista_location *out) {
  trn_wire_field f;
  out->rows = out->bytes = 0;
  while (trn__wire_next(&r, &f)) {
    if (f.number == 1) out->rows = (int64_t)f.value;
    if (f.number == 3) out->bytes = (int64_t)f.value;
  }
  if (out->rows < 0) out->rows = -1;
  if (out->bytes < 0) out->bytes = -1;
  p->is_bad |= r.is_bad;
}

/* PartitionLocation { partition_id = 2, executor_meta = 3, partition_stats = 4, file_id = 6, is_sort_shuffle = 7 } */
static void parse_location(parse *p, trn_wire_reader r, trn_ballista_location *out) {
  trn_wire_field f;
  *out = (trn_ballista_location){.job_id = "", .executor_id = "", .host = "", .rows = -1, .bytes = -1};
  while (trn__wire_next(&r, &f)) {
    if (f.number == 2) parse_partition(p, trn__wire_inside(&f), out);
    if (f.number == 3) parse_executor(p, trn__wire_inside(&f), out);
    if (f.number == 4) parse_statistics(p, trn__wire_inside(&f), out);
    if (f.number == 6) out->has_file_id = true, out->file_id = f.value;
    if (f.number == 7) out->is_sort_shuffle = f.value != 0;
  }
  p->is_bad |= r.is_bad;
}

static size_t count_fields(trn_wire_reader r, uint32_t number) {
  trn_wire_field f;
  size_t count = 0;
  while (trn__wire_next(&r, &f)) count += f.number == number && f.type == 2;
  return count;
}

/* SuccessfulJob { partition_location = 1, queued_at = 2, started_at = 3, ended_at = 4 } */
static void parse_successful(parse *p, trn_wire_reader r, trn_ballista_job *job) {
  size_t count = count_fields(r, 1);
  trn_wire_field f;
  if (count > TRN_BALLISTA_LOCATIONS_MAX) {
    p->is_bad = true;
    return;
  }
  trn_ballista_location *locations = TRN_NEW_N(p->arena, trn_ballista_location, count);
  if (!locations) {
    p->is_out_of_memory = true;
    return;
  }
  job->locations = locations;
  while (trn__wire_next(&r, &f)) {
    if (f.number == 1 && f.type == 2 && job->location_count < count)
      parse_location(p, trn__wire_inside(&f), &locations[job->location_count++]);
    if (f.number == 2) job->queued_at_ms = f.value;
    if (f.number == 3) job->started_at_ms = f.value;
    if (f.number == 4) job->ended_at_ms = f.value;
  }
  p->is_bad |= r.is_bad;
}

/* FailedJob { error = 1, queued_at = 2, started_at = 3, ended_at = 4 }; the other two have less of it: a queued job's
 * time is field 1, a running one's are fields 1 and 2. */
static void parse_times(parse *p, trn_wire_reader r, trn_ballista_job *job) {
  unsigned first = job->state == TRN_BALLISTA_FAILED ? 2 : 1;
  trn_wire_field f;
  while (trn__wire_next(&r, &f)) {
    if (f.number == 1 && first == 2) job->error = text_of(p, &f);
    if (f.number == first) job->queued_at_ms = f.value;
    if (f.number == first + 1) job->started_at_ms = f.value;
    if (f.number == first + 2 && f.type == 0) job->ended_at_ms = f.value;
  }
  if (job->state == TRN_BALLISTA_FAILED && strcmp(job->error, "Cancelled") == 0) job->state = TRN_BALLISTA_CANCELLED;
  p->is_bad |= r.is_bad;
}

/* JobStatus { job_id = 5, job_name = 6, oneof { queued = 1, running = 2, failed = 3, successful = 4 } } */
static void parse_status(parse *p, trn_wire_reader r, trn_ballista_job *job) {
  static const trn_ballista_state states[] = {TRN_BALLISTA_UNKNOWN, TRN_BALLISTA_QUEUED, TRN_BALLISTA_RUNNING,
                                              TRN_BALLISTA_FAILED, TRN_BALLISTA_SUCCESSFUL};
  trn_wire_field f;
  while (trn__wire_next(&r, &f)) {
    if (f.number == 5) job->id = text_of(p, &f);
    if (f.number == 6) job->name = text_of(p, &f);
    if (f.number < 1 || f.number > 4 || f.type != 2) continue;
    if (job->state) { /* a oneof is there once */
      p->is_bad = true;
      return;
    }
    job->state = states[f.number];
    if (job->state == TRN_BALLISTA_SUCCESSFUL)
      parse_successful(p, trn__wire_inside(&f), job);
    else
      parse_times(p, trn__wire_inside(&f), job);
  }
  p->is_bad |= r.is_bad;
}

/* GetJobStatusResult { status = 1, oneof flight_proxy { bool local = 2, string external = 3 } } */
trn_status trn__ballista_job_parse(const void *data, size_t size, trn_ballista_job **out, trn_error **error) {
  parse p = {.arena = trn__arena_create(0)};
  trn_ballista_job *job = p.arena ? TRN_NEW(p.arena, trn_ballista_job) : NULL;
  trn_wire_reader r = trn__wire_reader(data, size);
  trn_wire_field f;
  trn_status status = TRN_OK;
  *out = NULL;
  if (!job) {
    trn__arena_unref(p.arena);
    return trn__no_memory(error);
  }
  atomic_init(&job->refs, 1);
  job->arena = p.arena, job->id = job->name = job->error = job->proxy = "";
  while (trn__wire_next(&r, &f)) {
    if (f.number == 1 && f.type == 2) parse_status(&p, trn__wire_inside(&f), job);
    if (f.number == 2 && f.type == 0 && f.value) job->is_proxied = true;
    if (f.number == 3) job->proxy = text_of(&p, &f), job->is_proxied = true;
  }
  if (p.is_out_of_memory)
    status = trn__no_memory(error);
  else if (p.is_bad || r.is_bad)
    status = trn_error_set(error, TRN_DATA_LOSS, NULL, "not the status of a Ballista job");
  if (status)
    trn__ballista_job_unref(job);
  else
    *out = job;
  return status;
}

/* ---- metrics ---- */

static void put_json_text(trn_strbuf *out, trn_str text) {
  trn__strbuf_putc(out, '"');
  for (size_t i = 0; i < text.size; i++) {
    unsigned char c = (unsigned char)text.data[i];
    if (c == '"' || c == '\\') trn__strbuf_putc(out, '\\');
    if (c < 0x20)
      trn__strbuf_printf(out, "\\u%04x", c);
    else
      trn__strbuf_putc(out, (char)c);
  }
  trn__strbuf_putc(out, '"');
}

/* NamedCount, NamedGauge, NamedTime { name = 1, value = 2 }; the first number of pruning and ratio likewise. */
static bool put_named(trn_wire_reader r, trn_strbuf *out) {
  trn_str name = {"", 0};
  uint64_t value = 0;
  trn_wire_field f;
  while (trn__wire_next(&r, &f)) {
    if (f.number == 1 && f.type == 2) name = f.bytes;
    if (f.number == 2) value = f.value;
  }
  put_json_text(out, name);
  trn__strbuf_printf(out, ":%" PRIu64, value);
  return !r.is_bad;
}

/* OperatorMetric: a oneof of numbers with names of their own, and of named ones. */
static bool put_metric(trn_wire_reader r, trn_strbuf *out) {
  static const char *const names[16] = {
      [1] = "output_rows",          [2] = "elapsed_compute", [3] = "spill_count",    [4] = "spilled_bytes",
      [5] = "current_memory_usage", [9] = "start_timestamp", [10] = "end_timestamp", [11] = "spilled_rows",
      [12] = "output_bytes",        [15] = "output_batches"};
  trn_wire_field f;
  bool ok = true, any = false;
  while (trn__wire_next(&r, &f)) {
    if (any || f.number > 15) continue;
    if (f.type == 0 && names[f.number]) {
      trn__strbuf_printf(out, "\"%s\":%" PRIu64, names[f.number], f.value);
      any = true;
    } else if (f.type == 2) {
      ok = put_named(trn__wire_inside(&f), out);
      any = true;
    }
  }
  if (!any) trn__strbuf_puts(out, "\"unknown\":0");
  return ok && !r.is_bad;
}

/* OperatorWithMetrics { depth = 1, operator_type = 2, operator_desc = 3, metrics = 4 } */
static bool put_operator(trn_wire_reader r, trn_strbuf *out) {
  trn_str name = {"", 0}, description = {"", 0};
  uint64_t depth = 0;
  trn_wire_field f;
  trn_wire_reader again = r;
  bool ok = true, first = true;
  while (trn__wire_next(&r, &f)) {
    if (f.number == 1) depth = f.value;
    if (f.number == 2 && f.type == 2) name = f.bytes;
    if (f.number == 3 && f.type == 2) description = f.bytes;
  }
  trn__strbuf_printf(out, "{\"depth\":%" PRIu64 ",\"name\":", depth);
  put_json_text(out, name);
  trn__strbuf_puts(out, ",\"description\":");
  put_json_text(out, description);
  trn__strbuf_puts(out, ",\"metrics\":{");
  while (ok && trn__wire_next(&again, &f)) {
    if (f.number != 4 || f.type != 2) continue;
    if (!first) trn__strbuf_putc(out, ',');
    first = false;
    ok = put_metric(trn__wire_inside(&f), out);
  }
  trn__strbuf_puts(out, "}}");
  return ok && !r.is_bad;
}

/* JobStageMetrics { stage_id = 1, partitions = 2, operators = 3 } */
static bool put_stage(trn_wire_reader r, trn_strbuf *out) {
  uint64_t id = 0, partitions = 0;
  trn_wire_field f;
  trn_wire_reader again = r;
  bool ok = true, first = true;
  while (trn__wire_next(&r, &f)) {
    if (f.number == 1) id = f.value;
    if (f.number == 2) partitions = f.value;
  }
  trn__strbuf_printf(out, "{\"stage\":%" PRIu64 ",\"partitions\":%" PRIu64 ",\"operators\":[", id, partitions);
  while (ok && trn__wire_next(&again, &f)) {
    if (f.number != 3 || f.type != 2) continue;
    if (!first) trn__strbuf_putc(out, ',');
    first = false;
    ok = put_operator(trn__wire_inside(&f), out);
  }
  trn__strbuf_puts(out, "]}");
  return ok && !r.is_bad;
}

trn_status trn__ballista_metrics_parse(const void *data, size_t size, trn_strbuf *out, trn_error **error) {
  trn_wire_reader r = trn__wire_reader(data, size);
  trn_wire_field f;
  bool ok = true, first = true;
  trn__strbuf_putc(out, '[');
  while (ok && trn__wire_next(&r, &f)) {
    if (f.number != 1 || f.type != 2) continue;
    if (!first) trn__strbuf_putc(out, ',');
    first = false;
    ok = put_stage(trn__wire_inside(&f), out);
  }
  trn__strbuf_putc(out, ']');
  if (!ok || r.is_bad) return trn_error_set(error, TRN_DATA_LOSS, NULL, "not the metrics of a Ballista job");
  return out->failed ? trn__no_memory(error) : TRN_OK;
}
