/* Records of text files: however the file is cut, compressed, encoded or damaged, reading ends and says what it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <bzlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "frontend/spark/translate/infer.h"

static char folder[] = "/tmp/trn-records-XXXXXX";

static int set_up(void **state) {
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  return rmdir(folder);
}

/* Its path, in the caller's room. */
static const char *put(char *path, size_t room, const char *name, const void *data, size_t size) {
  snprintf(path, room, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, size, file), size);
  fclose(file);
  return path;
}

/* All records, joined by '|'; *failure: why they end. */
static void read_all(const char *path, const spark_text_options *options, spark_cut cut, char *out, size_t room, spark_records_failure *failure) {
  spark_records records;
  const char *text;
  size_t size, at = 0;
  assert_true(spark__records_open(&records, path, options, cut));
  while (spark__records_next(&records, &text, &size)) {
    assert_true(at + size + 2 < room);
    memcpy(out + at, text, size);
    out[at + size] = '|';
    at += size + 1;
  }
  out[at] = 0;
  *failure = records.failure;
  spark__records_close(&records);
}

static void assert_records(const char *data, size_t size, const char *name, const spark_text_options *options, spark_cut cut, const char *expected) {
  char path[256], out[4096];
  spark_records_failure failure;
  read_all(put(path, sizeof path, name, data, size), options, cut, out, sizeof out, &failure);
  assert_string_equal(out, expected);
  assert_int_equal(failure, SPARK_RECORDS_GOOD);
  unlink(path);
}

#define CSV_OPTIONS .separator = ",", .quote = '"', .escape = '\\'

static void lines_end_in_three_ways(void **state) {
  const spark_text_options plain = {CSV_OPTIONS}, bar = {CSV_OPTIONS, .line_separator = "||"};
  (void)state;
  assert_records("a\nb\r\nc\rd", 8, "l.txt", &plain, SPARK_CUT_LINES, "a|b|c|d|");
  assert_records("a\r\n\r\nb\n", 7, "l.txt", &plain, SPARK_CUT_LINES, "a||b|");
  assert_records("a||b||", 6, "l.txt", &bar, SPARK_CUT_LINES, "a|b|");
  assert_records("\xEF\xBB\xBFx\n", 5, "l.txt", &plain, SPARK_CUT_LINES, "x|");
  assert_records("", 0, "l.txt", &plain, SPARK_CUT_LINES, "");
  assert_records("a\nb\n", 4, "l.txt", &plain, SPARK_CUT_FILE, "a\nb\n|");
}

static void quotes_go_over_lines(void **state) {
  const spark_text_options csv = {CSV_OPTIONS}, comments = {CSV_OPTIONS, .comment = '#'};
  (void)state;
  assert_records("1,\"a\nb\"\n2,c\n", 12, "q.csv", &csv, SPARK_CUT_CSV, "1,\"a\nb\"|2,c|");
  assert_records("1,\"a\r\nb\"\r\n2,c", 13, "q.csv", &csv, SPARK_CUT_CSV, "1,\"a\nb\"|2,c|");
  assert_records("1,\"a\\\"\nb\"\n2", 11, "q.csv", &csv, SPARK_CUT_CSV, "1,\"a\\\"\nb\"|2|");
  assert_records("1,\"a\"x\nb\n", 9, "q.csv", &csv, SPARK_CUT_CSV, "1,\"a\"x|b|");
  assert_records("1,\"a\n2", 6, "q.csv", &csv, SPARK_CUT_CSV, "1,\"a\n2|");
  assert_records("#\"\n1\n", 5, "q.csv", &comments, SPARK_CUT_CSV, "#\"|1|");
}

static void long_records_grow(void **state) {
  enum { SIZE = 300000 };
  const spark_text_options csv = {CSV_OPTIONS};
  char path[256], *data = malloc(SIZE), *out = malloc(SIZE + 8);
  spark_records_failure failure;
  (void)state;
  memset(data, 'x', SIZE);
  data[0] = '"', data[SIZE / 2] = '\n', data[SIZE - 2] = '"', data[SIZE - 1] = '\n';
  read_all(put(path, sizeof path, "long.csv", data, SIZE), &csv, SPARK_CUT_CSV, out, SIZE + 8, &failure);
  assert_int_equal(strlen(out), SIZE);
  assert_int_equal(out[SIZE / 2], '\n');
  unlink(path);
  free(data);
  free(out);
}

/* The first line's end is that of all: behind, or over, what is read at once. */
static void long_heads_have_an_end(void **state) {
  enum { ONCE = 64 << 10 };
  const spark_text_options csv = {CSV_OPTIONS};
  char path[256], *data = malloc(2 * ONCE), *out = malloc(2 * ONCE);
  spark_records_failure failure;
  (void)state;
  for (size_t head = ONCE - 1; head < ONCE + 40; head += 20) { /* at first \r is the last byte */
    memset(data, 'x', head);
    memcpy(data + head, "\r\n1,2\r\n", 7);
    read_all(put(path, sizeof path, "h.csv", data, head + 7), &csv, SPARK_CUT_CSV, out, 2 * ONCE, &failure);
    assert_string_equal(out + head, "|1,2|");
    memcpy(data + head, "\r1,2\r", 5);
    read_all(put(path, sizeof path, "h.csv", data, head + 5), &csv, SPARK_CUT_CSV, out, 2 * ONCE, &failure);
    assert_string_equal(out + head, "|1,2|");
  }
  read_all(put(path, sizeof path, "h.csv", data, ONCE + 1), &csv, SPARK_CUT_CSV, out, 2 * ONCE, &failure);
  assert_int_equal(strlen(out), ONCE + 2);
  assert_records("x\r", 2, "h.csv", &csv, SPARK_CUT_CSV, "x|");
  assert_records("", 0, "h.csv", &csv, SPARK_CUT_CSV, "");
  unlink(path);
  free(data);
  free(out);
}

/* Behind a long record the buffer stays large: its size is not to be looked through for each line. */
static void carriage_returns_are_not_quadratic(void **state) {
  enum { SIZE = 16 << 20 };
  const spark_text_options plain = {CSV_OPTIONS};
  char path[256], *data = malloc(SIZE);
  spark_records records;
  const char *text;
  size_t size, count = 0;
  (void)state;
  memset(data, 'a', SIZE / 2);
  memset(data + SIZE / 2, '\r', SIZE / 2);
  assert_true(spark__records_open(&records, put(path, sizeof path, "r.csv", data, SIZE), &plain, SPARK_CUT_LINES));
  while (spark__records_next(&records, &text, &size)) assert_int_equal(size, count++ ? 0 : SIZE / 2);
  assert_int_equal(count, SIZE / 2);
  assert_int_equal(records.failure, SPARK_RECORDS_GOOD);
  spark__records_close(&records);
  unlink(path);
  free(data);
}

static void a_cancelled_thread_reads_no_more(void **state) {
  const spark_text_options plain = {CSV_OPTIONS};
  char path[256];
  spark_records records;
  const char *text;
  size_t size;
  trn_cancel *cancel;
  (void)state;
  assert_int_equal(trn_cancel_create(&cancel), TRN_OK);
  trn_cancel *before = trn_cancel_work_for(cancel);
  assert_true(spark__records_open(&records, put(path, sizeof path, "x.txt", "a\nb\n", 4), &plain, SPARK_CUT_LINES));
  assert_true(spark__records_next(&records, &text, &size));
  trn_cancel_request(cancel);
  assert_false(spark__records_next(&records, &text, &size));
  assert_int_equal(records.failure, SPARK_RECORDS_CANCELLED);
  spark__records_close(&records);
  trn_cancel_work_for(before);
  trn_cancel_unref(cancel);
  unlink(path);
}

/* What each compression makes of a text. */
static size_t compress_as(const char *ending, const char *text, char *out, size_t room) {
  size_t size = strlen(text);
  unsigned made = (unsigned)room;
  if (!strcmp(ending, ".bz2")) {
    assert_int_equal(BZ2_bzBuffToBuffCompress(out, &made, (char *)text, (unsigned)size, 9, 0, 0), BZ_OK);
    return made;
  }
  if (!strcmp(ending, ".zst")) return ZSTD_compress(out, room, text, size, 3);
  z_stream z = {0};
  assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, strcmp(ending, ".gz") == 0 ? 31 : 15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  z.next_in = (Bytef *)text, z.avail_in = (uInt)size;
  z.next_out = (Bytef *)out, z.avail_out = (uInt)room;
  assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
  size_t total = room - z.avail_out;
  deflateEnd(&z);
  return total;
}

static const char *const endings[] = {".gz", ".bz2", ".zst", ".deflate"};

static void compressed_files_are_texts(void **state) {
  const spark_text_options plain = {CSV_OPTIONS};
  char name[32], data[4096];
  (void)state;
  for (size_t i = 0; i < 4; i++) {
    size_t size = compress_as(endings[i], "one\ntwo\n", data, sizeof data);
    snprintf(name, sizeof name, "c%s", endings[i]);
    assert_records(data, size, name, &plain, SPARK_CUT_LINES, "one|two|");
    if (i == 3) continue;
    size += compress_as(endings[i], "three", data + size, sizeof data - size); /* members follow each other */
    assert_records(data, size, name, &plain, SPARK_CUT_LINES, "one|two|three|");
  }
}

/* Cut at each byte: an error. Each byte changed: an error, or some text; reading ends. */
static void damaged_files_end(void **state) {
  const spark_text_options plain = {CSV_OPTIONS};
  char name[32], path[256], data[4096], broken[4096], out[70000];
  spark_records_failure failure;
  (void)state;
  for (size_t i = 0; i < 4; i++) {
    size_t size = compress_as(endings[i], "one\ntwo\nthree three three three three\n", data, sizeof data);
    snprintf(name, sizeof name, "d%s", endings[i]);
    for (size_t at = 1; at < size; at++) {
      read_all(put(path, sizeof path, name, data, at), &plain, SPARK_CUT_LINES, out, sizeof out, &failure);
      assert_int_equal(failure, SPARK_RECORDS_UNREADABLE);
      memcpy(broken, data, size);
      broken[at] = (char)~broken[at];
      read_all(put(path, sizeof path, name, broken, size), &plain, SPARK_CUT_LINES, out, sizeof out, &failure);
    }
    unlink(path);
  }
}

static void encodings_become_utf8(void **state) {
  const spark_text_options latin = {CSV_OPTIONS, .charset = "ISO-8859-1"}, wide = {CSV_OPTIONS, .charset = "UTF-16"};
  const spark_text_options ascii = {CSV_OPTIONS, .charset = "US-ASCII"}, found = {CSV_OPTIONS, .finds_charset = true};
  (void)state;
  assert_records("\xE9t\xE9\n", 4, "e.txt", &latin, SPARK_CUT_LINES, "\xC3\xA9t\xC3\xA9|");
  assert_records("\xFF\xFEx\0\n\0", 6, "e.txt", &wide, SPARK_CUT_LINES, "x|");
  assert_records("\0x\0\n\0", 5, "e.txt", &wide, SPARK_CUT_LINES, "x|\xEF\xBF\xBD|"); /* big endian; half a character at the end */
  assert_records("a\x80""b", 3, "e.txt", &ascii, SPARK_CUT_LINES, "a\xEF\xBF\xBD""b|");
  assert_records("{\0}\0", 4, "e.json", &found, SPARK_CUT_FILE, "{}|");
  assert_records("\0\0\0{\0\0\0}", 8, "e.json", &found, SPARK_CUT_FILE, "{}|");
  assert_records("{}", 2, "e.json", &found, SPARK_CUT_FILE, "{}|");
}

/* A half of a surrogate pair is one character that is none; one over the end of what is read at once is whole. */
static void characters_that_are_none_stay_alone(void **state) {
  enum { SIZE = (64 << 10) + 2 };
  const spark_text_options big = {CSV_OPTIONS, .charset = "UTF-16BE"}, wide = {CSV_OPTIONS, .charset = "UTF-16"};
  const spark_text_options wider = {CSV_OPTIONS, .charset = "UTF-32LE"}, ascii = {CSV_OPTIONS, .charset = "US-ASCII"};
  char path[256], *data = malloc(SIZE), *out = malloc(3 * SIZE + 8);
  spark_records_failure failure;
  (void)state;
  assert_records("\0a\xD8\x3D\0b\0\n\0c", 10, "e.txt", &big, SPARK_CUT_LINES, "a\xEF\xBF\xBD""b|c|");
  assert_records("\0a\xDC\x3D\0b\0\n\0c", 10, "e.txt", &big, SPARK_CUT_LINES, "a\xEF\xBF\xBD""b|c|");
  assert_records("a\0\0\0\0\0\x11\0b\0\0\0", 12, "e.txt", &wider, SPARK_CUT_LINES, "a\xEF\xBF\xBD""b|");
  for (size_t i = 0; i < SIZE; i += 2) data[i] = 0, data[i + 1] = 'x';
  memcpy(data + SIZE - 4, "\xD8\x3D\xDE\0", 4);
  read_all(put(path, sizeof path, "pair.txt", data, SIZE), &wide, SPARK_CUT_LINES, out, 3 * SIZE + 8, &failure);
  assert_int_equal(strlen(out), SIZE / 2 - 2 + 5);
  assert_string_equal(out + SIZE / 2 - 2, "\xF0\x9F\x98\x80|");
  memset(data, 0xFF, SIZE);
  read_all(put(path, sizeof path, "pair.txt", data, SIZE), &ascii, SPARK_CUT_LINES, out, 3 * SIZE + 8, &failure);
  assert_int_equal(strlen(out), 3 * SIZE + 1);
  unlink(path);
  free(data);
  free(out);
}

static trn_status take_size(void *user, const char *text, size_t size) {
  (void)text;
  *(size_t *)user += size;
  return TRN_OK;
}

static void comments_without_an_end_are_not_quadratic(void **state) {
  enum { SIZE = 6 << 20 };
  const spark_text_options json = {.comments = true, .multi_line = true};
  spark_translator t = {0};
  char *data = malloc(SIZE);
  size_t taken = 0;
  trn_error *error = NULL;
  (void)state;
  for (size_t i = 0; i < SIZE; i++) data[i] = "/*a"[i % 3];
  assert_int_equal(spark__json_records(&t, &json, data, SIZE, take_size, &taken, &error), TRN_OK);
  assert_int_equal(taken, SIZE);
  free(data);
  taken = 0;
  assert_int_equal(spark__json_records(&t, &json, "/*x*/{}/*", 9, take_size, &taken, &error), TRN_OK);
  assert_int_equal(taken, 2);
}

/* The column `a` has the type, or the file is none of records. */
static void assert_inferred(trn_arena *arena, const char *data, size_t size, trn_type_id type) {
  const spark_text_options json = {.multi_line = true, .corrupt = "bad"};
  spark_translator t = {.arena = arena};
  char path[256];
  trn_vec files = {0};
  const trn_type *found = NULL;
  assert_true(trn__vec_push(&files, (void *)put(path, sizeof path, "x.json", data, size)));
  assert_int_equal(spark__infer_json(&t, &files, &json, &found, NULL), TRN_OK);
  assert_int_equal(found->field_count, 1);
  assert_string_equal(found->fields[0].name, type == TRN_TYPE_NULL ? "bad" : "a");
  if (type != TRN_TYPE_NULL) assert_int_equal(found->fields[0].type->id, type);
  trn__vec_finish(&files);
  unlink(path);
}

static void assert_inferred_text(trn_arena *arena, const char *text, trn_type_id type) {
  assert_inferred(arena, text, strlen(text), type);
}

static void elements_of_large_arrays_are_not_kept(void **state) {
  enum { COUNT = 200000, EACH = 9 };
  char *data = malloc(COUNT * EACH);
  trn_arena *arena = trn__arena_create(0);
  (void)state;
  for (size_t i = 0; i < COUNT; i++) memcpy(data + i * EACH, i ? ",{\"a\":1} " : "[{\"a\":1} ", EACH);
  memcpy(data + (COUNT - 1) * EACH, ",null   ]", EACH);
  assert_inferred(arena, data, COUNT * EACH, TRN_TYPE_INT64);
  assert_true(trn__arena_bytes(arena) < 64 << 10);
  assert_inferred_text(arena, "[{\"a\":1},{\"a\":1.5}] behind", TRN_TYPE_FLOAT64);
  assert_inferred_text(arena, "[{\"a\":1},{\"a\":\"x\"}]", TRN_TYPE_STRING);
  assert_inferred_text(arena, "[{\"a\":1},{\"b\":}]", TRN_TYPE_NULL);
  assert_inferred_text(arena, "[{\"a\":1},2]", TRN_TYPE_NULL);
  assert_inferred_text(arena, "[[{\"a\":1}]]", TRN_TYPE_NULL);
  trn__arena_unref(arena);
  free(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lines_end_in_three_ways), cmocka_unit_test(quotes_go_over_lines),  cmocka_unit_test(long_records_grow),
      cmocka_unit_test(compressed_files_are_texts), cmocka_unit_test(damaged_files_end), cmocka_unit_test(encodings_become_utf8),
      cmocka_unit_test(carriage_returns_are_not_quadratic), cmocka_unit_test(a_cancelled_thread_reads_no_more),
      cmocka_unit_test(characters_that_are_none_stay_alone), cmocka_unit_test(comments_without_an_end_are_not_quadratic),
      cmocka_unit_test(elements_of_large_arrays_are_not_kept), cmocka_unit_test(long_heads_have_an_end),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
