/* Arrow IPC messages from a client: parameters of statements. The input is a header of the length that its first two
 * bytes say, and a body. A fixed schema reads batches too. What must hold: what is accepted can be read to its last
 * byte. */
#include <stdlib.h>

#include "arrow/ipc_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink;

static void read_column(const struct ArrowArray *array, const char *format) {
  for (int64_t row = 0; row < array->length; row++) {
    if (trn__array_is_null(array, row)) continue;
    if ((format[0] == 'u' || format[0] == 'z') && array->n_buffers == 3) {
      const int32_t *offsets = array->buffers[1];
      const uint8_t *bytes = array->buffers[2];
      int64_t at = row + array->offset;
      for (int32_t i = offsets[at]; i < offsets[at + 1]; i++) sink += bytes[i];
    } else if (format[0] == 'l' && array->n_buffers == 2) {
      sink += (uint64_t)((const int64_t *)array->buffers[1])[row + array->offset];
    }
  }
}

static void read_batch(const struct ArrowSchema *schema, const uint8_t *header, size_t header_size, const uint8_t *body,
                       size_t body_size) {
  struct ArrowArray array = {0};
  trn_error *error = NULL;
  if (trn__ipc_read_batch(schema, header, header_size, body, body_size, &array, &error) == TRN_OK) {
    for (int64_t i = 0; i < array.n_children; i++) read_column(array.children[i], schema->children[i]->format);
    array.release(&array);
  }
  trn_error_unref(error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  size_t header_size = (size_t)data[0] << 8 | data[1];
  if (header_size > size - 2) header_size = size - 2;
  const uint8_t *header = data + 2, *body = header + header_size;
  size_t body_size = size - 2 - header_size;
  size_t fields_count = 0;
  struct ArrowSchema schema = {0}, *children[2],
                     fields[2] = {{.format = "l", .name = "a", .flags = 2}, {.format = "u", .name = "b", .flags = 2}};
  trn_ipc_kind kind;
  int64_t announced = 0;
  trn_error *error = NULL;
  trn__ipc_read_kind(header, header_size, &kind, &announced, &error);
  trn_error_unref(error);
  error = NULL;
  if (trn__ipc_read_schema(header, header_size, &schema, &fields_count, &error) == TRN_OK) {
    for (int64_t i = 0; i < schema.n_children; i++)
      sink += (uint64_t)schema.children[i]->format[0] + (uint64_t)schema.children[i]->name[0];
    schema.release(&schema);
  }
  trn_error_unref(error);
  children[0] = &fields[0];
  children[1] = &fields[1];
  struct ArrowSchema own = {.format = "+s", .name = "", .n_children = 2, .children = children};
  read_batch(&own, header, header_size, body, body_size);
  return 0;
}
