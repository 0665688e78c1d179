/* What a scheduler and its executors say to the Ballista backend. The first byte says what follows: 'j' a job's status, 'm' a job's
 * metrics, 's' a schema message, 'b' a record batch (u16: the flatbuffer's size; it; the body), 'f' an IPC stream that becomes a
 * file. What must hold: what is accepted can be read to its last byte and value. */
#include <stdlib.h>

#include "arrow/ipc_batch.h"
#include "arrow/ipc_file.h"
#include "backend/ballista/backend.h"
#include "backend/ballista/client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BATCH_BYTES_MAX = 1 << 20 };
static volatile uint64_t sink;

static void touch(const void *data, size_t size) {
  for (size_t i = 0; i < size; i++) sink += ((const uint8_t *)data)[i];
}

static void read_job(const uint8_t *data, size_t size) {
  trn_ballista_job *job = NULL;
  if (trn__ballista_job_parse(data, size, &job, NULL)) return;
  for (size_t i = 0; i < job->location_count; i++) {
    touch(job->locations[i].job_id, strlen(job->locations[i].job_id));
    touch(job->locations[i].executor_id, strlen(job->locations[i].executor_id));
    touch(job->locations[i].host, strlen(job->locations[i].host));
  }
  trn_error *error = NULL;
  if (!trn__ballista_job_error(job->id, job->error, &error)) __builtin_trap(); /* a failure is no success */
  trn_error_unref(error);
  trn__ballista_job_unref(job);
}

static void read_metrics(const uint8_t *data, size_t size) {
  trn_strbuf text = {0};
  if (!trn__ballista_metrics_parse(data, size, &text, NULL)) touch(text.data, text.size);
  trn__strbuf_finish(&text);
}

/* i: bigint, t: text, l: list of int, d: decimal, b: boolean */
static void make_schema(struct ArrowSchema *out) {
  static const char *const formats[] = {"l", "u", "+l", "d:10,2", "b"};
  if (trn__schema_init(out, "+s", "", 0, NULL, 0, 5)) abort();
  for (int i = 0; i < 5; i++)
    if (trn__schema_init(out->children[i], formats[i], "c", ARROW_FLAG_NULLABLE, NULL, 0, i == 2)) abort();
  if (trn__schema_init(out->children[2]->children[0], "i", "item", ARROW_FLAG_NULLABLE, NULL, 0, 0)) abort();
}

/* Every value of a column, as whoever is given it reads them. */
static void read_column(const struct ArrowSchema *schema, const struct ArrowArray *array) {
  for (int64_t i = 0; i < array->length; i++) {
    if (trn__array_is_null(array, i)) continue;
    if (schema->format[0] == 'u') {
      trn_str text = trn__array_bytes(array, "u", i);
      touch(text.data, text.size);
    } else if (schema->format[0] == 'b') {
      sink += trn__array_bool(array, i);
    } else if (schema->format[0] == 'd') {
      touch((const uint8_t *)array->buffers[1] + 16 * i, 16);
    } else if (schema->format[0] == '+') {
      const int32_t *offsets = array->buffers[1];
      for (int32_t k = offsets[i]; k < offsets[i + 1]; k++)
        if (!trn__array_is_null(array->children[0], k)) sink += (uint64_t)trn__array_int(array->children[0], "i", k);
    } else {
      sink += (uint64_t)trn__array_int(array, schema->format, i);
    }
  }
}

static void read_batch(const uint8_t *data, size_t size, const struct ArrowSchema *schema) {
  size_t header_size = size < 2 ? 0 : data[0] | (size_t)data[1] << 8;
  trn_ipc_batch batch;
  struct ArrowArray array;
  if (size < 2 || header_size > size - 2) return;
  const uint8_t *header = data + 2, *from = header + header_size;
  size_t body_size = size - 2 - header_size;
  if (trn__ipc_batch_parse(header, header_size, body_size, &batch, NULL)) return;
  void *body = NULL;
  if (batch.codec) {
    if (trn__ipc_batch_inflate(&batch, from, body_size, BATCH_BYTES_MAX, &body, &body_size, NULL)) body = NULL;
  } else if ((body = malloc(body_size ? body_size : 1)) && body_size) {
    memcpy(body, from, body_size);
  }
  trn_strbuf head = {0};
  if (body && !trn__ipc_batch_head(&batch, body_size, &head)) touch(head.data, head.size);
  trn__strbuf_finish(&head);
  if (body && !trn__ipc_batch_import(&batch, schema, body, body_size, (trn_slice){body, body_size, free, body}, &array, NULL)) {
    for (int64_t i = 0; i < array.n_children; i++) {
      if (array.children[i]->length != array.length) __builtin_trap();
      if (array.length <= 100000) read_column(schema->children[i], array.children[i]);
    }
    trn__array_release(&array);
  }
  trn__ipc_batch_finish(&batch);
}

static void make_file(const uint8_t *data, size_t size) {
  trn_strbuf tail = {0};
  if (!trn__ipc_file_tail(data, size, &tail, NULL)) {
    touch(tail.data, tail.size);
    if (tail.size < 10 || memcmp(tail.data + tail.size - 6, "ARROW1", 6) != 0) __builtin_trap();
  }
  trn__strbuf_finish(&tail);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct ArrowSchema schema = {0};
  if (size == 0) return 0;
  make_schema(&schema);
  switch (data[0]) {
  case 'j': read_job(data + 1, size - 1); break;
  case 'm': read_metrics(data + 1, size - 1); break;
  case 's': trn__ipc_schema_check(data + 1, size - 1, &schema, NULL); break;
  case 'b': read_batch(data + 1, size - 1, &schema); break;
  case 'f': make_file(data + 1, size - 1); break;
  default: break;
  }
  schema.release(&schema);
  return 0;
}
