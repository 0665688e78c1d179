/* The Spark SQL parser on TPC-H, deep and long texts, broken texts, and little memory. */
#include "frontend/spark/sql/sql.h"
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h> /* needs what is above */

enum { QUERIES = 22 };

static char *read_query(int number, size_t *size) {
  char path[512];
  snprintf(path, sizeof(path), "%s/tpch/q%02d.sql", TRUNNION_TEST_DATA, number);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  char *text = malloc(1 << 16);
  assert_non_null(text);
  *size = fread(text, 1, 1 << 16, file);
  fclose(file);
  return text;
}

static trn_status parse(const char *text, size_t size, size_t bytes_max) {
  trn_arena *arena = trn__arena_create(bytes_max);
  trn_error *error = NULL;
  spark_sql_statement out;
  if (arena == NULL) return TRN_RESOURCE_EXHAUSTED;
  trn_status status = spark__sql_parse_statement(arena, text, size, NULL, &out, &error);
  if (status == TRN_OK) assert_true(out.relation != NULL || out.command != NULL || out.kind >= SPARK_SQL_SET);
  if (status != TRN_OK && error != NULL) assert_int_equal(trn_error_status(error), status);
  trn_error_unref(error);
  trn__arena_unref(arena);
  return status;
}

static void tpch_parses(void **state) {
  (void)state;
  for (int number = 1; number <= QUERIES; number++) {
    size_t size;
    char *text = read_query(number, &size);
    assert_true(size > 100);
    assert_int_equal(parse(text, size, 0), TRN_OK);
    free(text);
  }
}

/* prefix, n times `open`, middle, n times `close` */
static trn_status nested(const char *prefix, const char *open, int n, const char *middle, const char *close) {
  trn_strbuf text = {0};
  trn__strbuf_puts(&text, prefix);
  for (int i = 0; i < n; i++) trn__strbuf_puts(&text, open);
  trn__strbuf_puts(&text, middle);
  for (int i = 0; i < n; i++) trn__strbuf_puts(&text, close);
  assert_false(text.failed);
  trn_status status = parse(text.data, text.size, 0);
  trn__strbuf_finish(&text);
  return status;
}

static void deep_and_long_texts_parse(void **state) {
  (void)state;
  assert_int_equal(nested("select ", "(", 3000, "1", ")"), TRN_OK);
  assert_int_equal(nested("select a = 1 ", "or a = 2 ", 1000, "", ""), TRN_OK);
  assert_int_equal(nested("select 1", " + a", 600, "", ""), TRN_OK);
  assert_int_equal(nested("select 1", " + a", 20000, "", ""), TRN_OK);
  assert_int_equal(nested("select ", "not ", 20000, "a", ""), TRN_OK);
  assert_int_equal(nested("select ", "- ", 20000, "a", ""), TRN_OK);
  assert_int_equal(nested("select ", "f(", 1000, "1", ")"), TRN_OK);
  assert_int_equal(nested("select ", "case when ", 1000, "1", " then 1 end"), TRN_OK);
  assert_int_equal(nested("select * from ", "(select * from ", 200, "t", ")"), TRN_OK);
  assert_int_equal(nested("select * from t", " join t", 20000, "", ""), TRN_OK);
  assert_int_equal(nested("select 1", " union select 1", 20000, "", ""), TRN_OK);
  assert_int_equal(nested("select a in (1", ", 1", 100000, ")", ""), TRN_OK);
  assert_int_equal(nested("select 1 ", "/* ", 20000, "", "*/"), TRN_OK);
  assert_int_equal(nested("select a", ".b", 10000, "", ""), TRN_OK);
}

static void what_nests_too_deep_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *prefix, *open, *middle, *close;
  } cases[] = {
      {"select ", "(", "1", ")"},
      {"select ", "f(", "1", ")"},
      {"select ", "a[", "1", "]"},
      {"select ", "f(x -> ", "1", ")"},
      {"select ", "case when ", "1", " then 1 end"},
      {"select ", "cast(", "1", " as int)"},
      {"select ", "a in (", "1", ")"},
      {"select ", "(select ", "1", ")"},
      {"select ", "f() over (order by ", "1", ")"},
      {"select cast(a as ", "array<", "int", ">"},
      {"select cast(a as ", "struct<a:", "int", ">"},
      {"select a from ", "(", "t", ")"},
      {"select a from ", "(select a from ", "t", ")"},
      {"", "(", "select 1", ")"},
      {"", "with a as (", "select 1", ") select 1"},
      {"select a from t group by grouping sets(", "grouping sets(", "a", ")"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    assert_int_equal(nested(cases[i].prefix, cases[i].open, 20000, cases[i].middle, cases[i].close),
                     TRN_RESOURCE_EXHAUSTED);
  }
  assert_int_equal(nested("select ", "(", 100000, "", ""), TRN_RESOURCE_EXHAUSTED);
  assert_int_equal(nested("begin ", "declare a condition; ", 1001, "end", ""), TRN_RESOURCE_EXHAUSTED);
  assert_int_equal(nested("begin declare exit handler for a", ", b", 1000, " select 1; end", ""), TRN_RESOURCE_EXHAUSTED);
  assert_int_not_equal(nested("begin declare exit handler for a", ", b", 999, " select 1; end", ""), TRN_RESOURCE_EXHAUSTED);
  assert_int_equal(nested("select a from t group by cube((a, b)", ", a", 12, ")", ""), TRN_RESOURCE_EXHAUSTED);
  assert_int_equal(nested("select a from t group by a", ", rollup(a, b, c)", 20, "", ""), TRN_RESOURCE_EXHAUSTED);
}

/* Small and portable, so that a failure comes again. */
static uint32_t next_random(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 8;
}

/* The end of the word, number or single character at `at`. */
static size_t token_end(const char *text, size_t size, size_t at) {
  size_t end = at;
  while (end < size && (text[end] == '_' || isalnum((unsigned char)text[end]))) end++;
  return end > at ? end : at + 1;
}

/* Deletes, doubles or replaces a few tokens; returns the new size. `out` has room for twice the text. */
static size_t mutate(const char *text, size_t size, char *out, uint32_t *seed) {
  static const char *const snippets[] = {
      "(",     ")",  ",",        " select ", " from ",  " case ", "'",   "`",        " interval ", " in ", "->",
      " not ", "::", "<",        ">",        "/*+ ",    "[",      ".",   " values ", " over ",     "*",    "|>",
      "\\",    "$$", "\xC3\xA9", "\x80",     " array<", "1e",     " r'", "?",        ":a",         "--",   " with "};
  memcpy(out, text, size);
  for (uint32_t n = next_random(seed) % 4 + 1; n > 0 && size > 4; n--) {
    size_t at = next_random(seed) % size, end = token_end(out, size, at), width = end - at;
    uint32_t what = next_random(seed) % 3;
    if (what == 0) {
      memmove(out + at, out + end, size - end);
      size -= width;
    } else if (what == 1 && width < 32) {
      memmove(out + end, out + at, size - at);
      size += width;
    } else {
      const char *snippet = snippets[next_random(seed) % (sizeof(snippets) / sizeof(snippets[0]))];
      size_t add = strlen(snippet);
      memmove(out + at + add, out + at, size - at);
      memcpy(out + at, snippet, add);
      size += add;
    }
  }
  return size;
}

static void broken_texts_give_a_status(void **state) {
  (void)state;
  static const char *const others[] = {
      "with recursive r(x) as (select 1 union all select x + 1 from r where x < 5) select * from r",
      "select transform(xs, (x, i) -> x.y + i), map('a', array(1, 2))[0], cast(a as map<string, array<struct<b: "
      "int>>>) from t",
      "select interval '1-2' year to month, date '2020-01-01', x'1F', 1.5e3, r'\\n', $$a$$ from values (1, 2), (3, 4) "
      "as v(a, b)",
      "table t |> where a > 1 |> extend b as c |> set c = 1 |> aggregate sum(a) group by b |> order by b |> limit 3",
      "select sum(a) filter (where b) over (partition by c order by d range between interval 1 day preceding and "
      "unbounded following) from t",
      "select a from t lateral view outer explode(b) v as c group by grouping sets ((a), rollup(a, b)) having c window "
      "w as (order by a)",
      "select * from a natural left join b pivot (sum(x) for k in (1 as one)) tablesample (10 percent) unpivot (v for "
      "n in (c))",
      "create or replace global temp view v as select :a, ?, * except (b) from identifier('a.b') where x like any "
      "('a', 'b') escape '!'",
      "create or replace table a.b (x int not null default 1 + 1, y array<string> comment 'c') using parquet options "
      "(a.b 1, 'c' = 'd') "
      "partitioned by (days(x), z string) clustered by (x) sorted by (y desc) into 4 buckets comment 'x' tblproperties "
      "('k' = 'v') as select 1",
      "with c as (select 1) insert overwrite table t partition (a = 1, b) if not exists (x, y) select * from c",
      "alter table t add columns (a int after b, c string first) ; describe extended t partition (a = 1) a.b",
      "explain extended update t as x set a = b + 1, c.d = 2 where identifier('a' || 'b') > 1",
      "execute immediate 'a' || b into x, y.z using (1 as a, b) ; declare or replace variable a, b int default 1 ; set "
      "var (a) = (select 1)",
      "show table extended in db like 'x*' partition (a = 1)",
  };
  size_t parsed = 0, refused = 0;
  uint32_t seed = 42;
  char *out = malloc(1 << 18);
  assert_non_null(out);
  for (int round = 0; round < 40; round++) {
    for (int number = 1; number <= QUERIES; number++) {
      size_t size;
      char *text = read_query(number, &size);
      *(parse(out, mutate(text, size, out, &seed), 0) == TRN_OK ? &parsed : &refused) += 1;
      free(text);
    }
    for (size_t i = 0; i < 8 * sizeof(others) / sizeof(others[0]); i++) {
      const char *text = others[i % (sizeof(others) / sizeof(others[0]))];
      *(parse(out, mutate(text, strlen(text), out, &seed), 0) == TRN_OK ? &parsed : &refused) += 1;
    }
  }
  free(out);
  assert_true(parsed > 50); /* some mutations are harmless, most are not */
  assert_true(refused > 1000);
}

/* Every prefix of a text ends somewhere else. */
static void every_prefix_gives_a_status(void **state) {
  (void)state;
  for (int number = 1; number <= QUERIES; number++) {
    size_t size;
    char *text = read_query(number, &size);
    for (size_t n = 0; n < size; n += 3) {
      char *copy = malloc(n + 1); /* its own block: reading behind the end shows */
      assert_non_null(copy);
      memcpy(copy, text, n);
      trn_status status = parse(copy, n, 0);
      assert_true(status == TRN_OK || status == TRN_INVALID_ARGUMENT || status == TRN_UNIMPLEMENTED);
      free(copy);
    }
    free(text);
  }
}

static void too_little_memory_is_a_status(void **state) {
  (void)state;
  size_t size;
  char *text = read_query(21, &size);
  size_t failed = 0;
  for (size_t bytes = 256; bytes < 1 << 17; bytes += 512) {
    trn_status status = parse(text, size, bytes);
    assert_true(status == TRN_OK || status == TRN_RESOURCE_EXHAUSTED);
    failed += status != TRN_OK;
  }
  assert_true(failed > 5);
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tpch_parses),
      cmocka_unit_test(deep_and_long_texts_parse),
      cmocka_unit_test(what_nests_too_deep_is_refused),
      cmocka_unit_test(broken_texts_give_a_status),
      cmocka_unit_test(every_prefix_gives_a_status),
      cmocka_unit_test(too_little_memory_is_a_status),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
