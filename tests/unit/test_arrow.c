/* Schemas, builders, slices, streams, and the IPC writer (which tests/arrow/check_ipc.py reads with pyarrow too). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "arrow/arrow_util.h"
#include "arrow/ipc_batch.h"
#include "conformance/puller.h"

/* "+s" of an int32 "a", a string "b", a list of int64 "c". */
static void make_schema(struct ArrowSchema *out) {
  trn_kv metadata = {"key", "value"};
  assert_int_equal(trn__schema_init(out, "+s", "", 0, &metadata, 1, 3), TRN_OK);
  assert_int_equal(trn__schema_init(out->children[0], "i", "a", ARROW_FLAG_NULLABLE, NULL, 0, 0), TRN_OK);
  assert_int_equal(trn__schema_init(out->children[1], "u", "b", ARROW_FLAG_NULLABLE, NULL, 0, 0), TRN_OK);
  assert_int_equal(trn__schema_init(out->children[2], "+l", "c", ARROW_FLAG_NULLABLE, NULL, 0, 1), TRN_OK);
  assert_int_equal(trn__schema_init(out->children[2]->children[0], "l", "item", 0, NULL, 0, 0), TRN_OK);
}

/* Row i: (i or null at each third, "s<i>" or null at each fifth, i % 4 numbers). */
static void make_array(const struct ArrowSchema *schema, int rows, struct ArrowArray *out) {
  trn_array_builder *builder;
  assert_int_equal(trn__array_builder_create(schema, &builder), TRN_OK);
  trn_array_builder *a = trn__array_builder_child(builder, 0), *b = trn__array_builder_child(builder, 1),
                    *c = trn__array_builder_child(builder, 2);
  for (int i = 0; i < rows; i++) {
    char text[16];
    int size = snprintf(text, sizeof text, "s%d", i);
    if (i % 3 == 0)
      trn__array_append_null(a);
    else
      trn__array_append_int(a, i);
    if (i % 5 == 0)
      trn__array_append_null(b);
    else
      trn__array_append_bytes(b, text, (size_t)size);
    for (int k = 0; k < i % 4; k++) trn__array_append_int(trn__array_builder_child(c, 0), 100 * i + k);
    trn__array_append_end(c);
    trn__array_append_end(builder);
  }
  assert_int_equal(trn__array_builder_length(builder), rows);
  assert_int_equal(trn__array_builder_finish(builder, out), TRN_OK);
  assert_int_equal(trn__array_builder_length(builder), 0);
  trn__array_builder_destroy(builder);
}

static void check_rows(const struct ArrowArray *array, int first, int rows) {
  assert_int_equal(array->length, rows);
  int64_t at = array->offset;
  for (int i = 0; i < rows; i++) {
    int n = first + i;
    const struct ArrowArray *a = array->children[0], *b = array->children[1], *c = array->children[2];
    assert_int_equal(trn__array_is_null(a, at + i), n % 3 == 0);
    if (n % 3) assert_int_equal(trn__array_int(a, "i", at + i), n);
    assert_int_equal(trn__array_is_null(b, at + i), n % 5 == 0);
    if (n % 5) {
      char text[16];
      trn_str got = trn__array_bytes(b, "u", at + i);
      assert_int_equal(got.size, snprintf(text, sizeof text, "s%d", n));
      assert_memory_equal(got.data, text, got.size);
    }
    const int32_t *offsets = (const int32_t *)c->buffers[1] + c->offset + at + i;
    assert_int_equal(offsets[1] - offsets[0], n % 4);
    if (n % 4) assert_int_equal(trn__array_int(c->children[0], "l", offsets[0]), 100 * n);
  }
}

static void schemas_copy_with_metadata(void **state) {
  (void)state;
  struct ArrowSchema schema, copy;
  make_schema(&schema);
  assert_int_equal(trn__schema_copy(&schema, &copy), TRN_OK);
  trn__schema_release(&schema);
  trn__schema_release(&schema);
  trn__schema_release(NULL);
  size_t size;
  const char *value = trn__schema_metadata(&copy, "key", &size);
  assert_int_equal(size, 5);
  assert_memory_equal(value, "value", 5);
  assert_null(trn__schema_metadata(&copy, "ke", &size));
  assert_null(trn__schema_metadata(copy.children[0], "key", &size));
  assert_string_equal(copy.children[2]->children[0]->name, "item");
  /* A child may be moved out; the rest is released without it. */
  struct ArrowSchema moved = *copy.children[1];
  copy.children[1]->release = NULL;
  trn__schema_release(&copy);
  assert_string_equal(moved.name, "b");
  trn__schema_release(&moved);
}

static void builders_make_what_was_appended(void **state) {
  (void)state;
  struct ArrowSchema schema;
  struct ArrowArray array;
  make_schema(&schema);
  make_array(&schema, 1000, &array);
  check_rows(&array, 0, 1000);
  assert_int_equal(array.children[0]->null_count, 334);
  struct ArrowArray moved = *array.children[1];
  array.children[1]->release = NULL;
  trn__array_release(&array);
  assert_memory_equal(trn__array_bytes(&moved, "u", 7).data, "s7", 2);
  trn__array_release(&moved);
  make_array(&schema, 0, &array);
  check_rows(&array, 0, 0);
  trn__array_release(&array);
  trn__schema_release(&schema);
}

static void builders_refuse_unknown_formats_and_uneven_children(void **state) {
  (void)state;
  static const char *const formats[] = {"vu", "+r", "", "e", "d:5", "d:5,2,100"};
  trn_array_builder *builder;
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    struct ArrowSchema schema = {.format = formats[i]};
    assert_int_equal(trn__array_builder_create(&schema, &builder), TRN_UNIMPLEMENTED);
    assert_null(builder);
  }
  struct ArrowSchema schema;
  struct ArrowArray array;
  make_schema(&schema);
  assert_int_equal(trn__array_builder_create(&schema, &builder), TRN_OK);
  trn__array_append_int(trn__array_builder_child(builder, 0), 1);
  trn__array_append_end(builder);
  assert_int_equal(trn__array_builder_finish(builder, &array), TRN_INTERNAL);
  assert_null(array.release);
  trn__array_builder_destroy(builder);
  trn__array_builder_destroy(NULL);
  trn__schema_release(&schema);
}

static void fixed_widths_keep_their_values(void **state) {
  (void)state;
  static const struct {
    const char *format;
    int64_t value;
  } cases[] = {{"c", -128},       {"C", 255},       {"s", -32768}, {"S", 65535},    {"i", INT32_MIN},
               {"I", 4294967295}, {"l", INT64_MIN}, {"tdD", -1},   {"tsu:UTC", -5}, {"tts", 7},
               {"ttn", 7},        {"tiM", -3},      {"tDu", -9}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct ArrowSchema schema = {.format = cases[i].format};
    struct ArrowArray array;
    trn_array_builder *builder;
    assert_int_equal(trn__array_builder_create(&schema, &builder), TRN_OK);
    trn__array_append_null(builder);
    trn__array_append_int(builder, cases[i].value);
    assert_int_equal(trn__array_builder_finish(builder, &array), TRN_OK);
    assert_true(trn__array_is_null(&array, 0));
    assert_true(trn__array_int(&array, cases[i].format, 1) == cases[i].value);
    trn__array_release(&array);
    trn__array_builder_destroy(builder);
  }
}

static void slices_share_and_outlive_their_array(void **state) {
  (void)state;
  struct ArrowSchema schema;
  struct ArrowArray array, one, two, column;
  trn_shared_array *shared;
  make_schema(&schema);
  make_array(&schema, 100, &array);
  assert_int_equal(trn__shared_array_create(&array, &shared), TRN_OK);
  assert_null(array.release);
  assert_int_equal(trn__shared_array_slice(shared, 13, 40, &one), TRN_OK);
  assert_int_equal(trn__shared_array_slice(shared, 0, 100, &two), TRN_OK);
  assert_int_equal(trn__shared_array_column(shared, 1, 50, 2, &column), TRN_OK);
  assert_ptr_equal(one.children[0]->buffers[1], two.children[0]->buffers[1]);
  trn__shared_array_unref(shared);
  trn__array_release(&two);
  check_rows(&one, 13, 40);
  assert_int_equal(column.length, 2);
  assert_memory_equal(trn__array_bytes(&column, "u", 1).data, "s51", 3);
  trn__array_release(&one);
  trn__array_release(&column);
  trn__schema_release(&schema);
}

static void streams_give_their_arrays_once(void **state) {
  (void)state;
  struct ArrowSchema schema, again;
  struct ArrowArray arrays[3], next;
  struct ArrowArrayStream stream;
  make_schema(&schema);
  for (int i = 0; i < 3; i++) make_array(&schema, i + 1, &arrays[i]);
  assert_int_equal(trn__arrow_stream(&schema, arrays, 3, &stream), TRN_OK);
  assert_null(schema.release);
  assert_int_equal(stream.get_schema(&stream, &again), 0);
  trn__schema_release(&again);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(stream.get_next(&stream, &next), 0);
    check_rows(&next, 0, i + 1);
    trn__array_release(&next);
  }
  stream.release(&stream); /* one was not read */
  assert_null(stream.release);
}

/* ---- IPC ---- */

static void ipc_batches_hold_slices_from_zero(void **state) {
  (void)state;
  struct ArrowSchema schema;
  struct ArrowArray array, slice;
  trn_shared_array *shared;
  make_schema(&schema);
  make_array(&schema, 200, &array);
  assert_int_equal(trn__shared_array_create(&array, &shared), TRN_OK);
  for (int first = 0; first < 200; first += 7) {
    int rows = first + 50 <= 200 ? 50 : 200 - first;
    trn_strbuf out = {0};
    assert_int_equal(trn__shared_array_slice(shared, first, rows, &slice), TRN_OK);
    assert_int_equal(trn__ipc_write_batch(&schema, &slice, &out), TRN_OK);
    trn__array_release(&slice);
    trn_slice bytes = {.data = out.data, .size = out.size};
    trn_ipc_piece piece = {.slices = &bytes, .slice_count = 1, .size = out.size, .rows = rows};
    ipc_batch batch;
    assert_true(ipc_batch_read(&piece, &batch));
    assert_int_equal(batch.buffer_count, 2 + 3 + 2 + 2);
    int64_t size;
    const uint8_t *valid = ipc_batch_buffer(&batch, 0, &size);
    assert_int_equal(size, (rows + 7) / 8);
    const int32_t *values = ipc_batch_buffer(&batch, 1, &size);
    assert_int_equal(size, 4 * rows);
    const int32_t *offsets = ipc_batch_buffer(&batch, 3, &size);
    const char *text = ipc_batch_buffer(&batch, 4, &size);
    const int32_t *lists = ipc_batch_buffer(&batch, 6, &size);
    const int64_t *items = ipc_batch_buffer(&batch, 8, &size);
    assert_int_equal(size, 8 * lists[rows]);
    assert_int_equal(offsets[0], 0);
    for (int i = 0; i < rows; i++) {
      int n = first + i;
      assert_int_equal(valid[i / 8] >> (i % 8) & 1, n % 3 != 0);
      if (n % 3) assert_int_equal(values[i], n);
      char expected[16];
      int length = n % 5 ? snprintf(expected, sizeof expected, "s%d", n) : 0;
      assert_int_equal(offsets[i + 1] - offsets[i], length);
      if (length) assert_memory_equal(text + offsets[i], expected, (size_t)length);
      if (n % 4) assert_int_equal(items[lists[i]], 100 * n);
    }
    free(batch.bytes);
    trn__strbuf_finish(&out);
  }
  trn__shared_array_unref(shared);
  trn__schema_release(&schema);
}

static void ipc_refuses_what_does_not_fit(void **state) {
  (void)state;
  struct ArrowSchema schema, narrow;
  struct ArrowArray array;
  trn_strbuf out = {0};
  trn__strbuf_puts(&out, "before");
  make_schema(&schema);
  make_array(&schema, 10, &array);
  assert_int_equal(trn__schema_init(&narrow, "+s", "", 0, NULL, 0, 1), TRN_OK);
  assert_int_equal(trn__schema_init(narrow.children[0], "i", "a", 0, NULL, 0, 0), TRN_OK);
  assert_int_equal(trn__ipc_write_batch(&narrow, &array, &out), TRN_INVALID_ARGUMENT);
  array.length = 11; /* more than the columns have */
  assert_int_equal(trn__ipc_write_batch(&schema, &array, &out), TRN_INVALID_ARGUMENT);
  array.length = 10;
  assert_string_equal(out.data, "before"); /* nothing half written */
  struct ArrowSchema view = {.format = "vu", .name = "v"}, *child = &view;
  struct ArrowSchema views = {.format = "+s", .name = "", .n_children = 1, .children = &child};
  assert_int_equal(trn__ipc_write_schema(&views, &out), TRN_UNIMPLEMENTED);
  struct ArrowSchema loop = {.format = "+s", .name = "", .n_children = 1}, *self = &loop;
  loop.children = &self;
  assert_int_equal(trn__ipc_write_schema(&loop, &out), TRN_RESOURCE_EXHAUSTED);
  assert_string_equal(out.data, "before");
  trn__strbuf_finish(&out);
  trn__array_release(&array);
  trn__schema_release(&narrow);
  trn__schema_release(&schema);
}

static void ipc_schema_and_end_are_encapsulated(void **state) {
  (void)state;
  struct ArrowSchema schema;
  trn_strbuf out = {0};
  make_schema(&schema);
  assert_int_equal(trn__ipc_write_schema(&schema, &out), TRN_OK);
  assert_int_equal(ipc_message_kind(out.data, out.size), 1);
  assert_int_equal(out.size % 8, 0);
  size_t before = out.size;
  trn__ipc_eos(&out);
  assert_int_equal(out.size, before + 8);
  assert_memory_equal(out.data + before, "\xff\xff\xff\xff\0\0\0\0", 8);
  trn__strbuf_finish(&out);
  trn__schema_release(&schema);
}

/* A list of so many rows that the size of its offsets wraps to 0. */
static void ipc_refuses_offsets_whose_size_wraps(void **state) {
  (void)state;
  static const char *const formats[] = {"+l", "+L", "u", "U"};
  for (int i = 0; i < 4; i++) {
    struct ArrowSchema schema;
    struct ArrowArray array;
    int64_t rows = (i % 2 ? INT64_C(1) << 61 : INT64_C(1) << 62) - 1;
    int64_t nodes[] = {rows, 0, 0, 0}, buffers[8] = {0};
    const trn_ipc_batch batch = {.rows = rows,
                                 .nodes = nodes,
                                 .buffers = buffers,
                                 .node_count = i < 2 ? 2 : 1,
                                 .buffer_count = i < 2 ? 4 : 3};
    void *body = malloc(8); /* a sanitizer sees who reads on */
    assert_non_null(body);
    assert_int_equal(trn__schema_init(&schema, "+s", "", 0, NULL, 0, 1), TRN_OK);
    assert_int_equal(trn__schema_init(schema.children[0], formats[i], "a", 0, NULL, 0, i < 2), TRN_OK);
    if (i < 2) assert_int_equal(trn__schema_init(schema.children[0]->children[0], "l", "item", 0, NULL, 0, 0), TRN_OK);
    trn_slice owner = {body, 0, free, body};
    assert_int_equal(trn__ipc_batch_import(&batch, &schema, body, 0, owner, &array, NULL), TRN_DATA_LOSS);
    trn__schema_release(&schema);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(schemas_copy_with_metadata),
      cmocka_unit_test(builders_make_what_was_appended),
      cmocka_unit_test(builders_refuse_unknown_formats_and_uneven_children),
      cmocka_unit_test(fixed_widths_keep_their_values),
      cmocka_unit_test(slices_share_and_outlive_their_array),
      cmocka_unit_test(streams_give_their_arrays_once),
      cmocka_unit_test(ipc_batches_hold_slices_from_zero),
      cmocka_unit_test(ipc_refuses_what_does_not_fit),
      cmocka_unit_test(ipc_schema_and_end_are_encapsulated),
      cmocka_unit_test(ipc_refuses_offsets_whose_size_wraps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
