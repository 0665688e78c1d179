/* Every allocation of a function made to fail, one after the other: the call reports it, gives nothing and leaks
 * nothing. The allocator's names are taken over for the whole process; a sanitizer does that itself, so there is
 * nothing to do then. */
#include "functions/harness.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
int main(void) {
  return 0;
}
#else

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *memory);

static long left = -1; /* allocations until one fails; -1: none does */
static bool counting;
static long live;

static bool fails(void) {
  return counting && left >= 0 && left-- == 0;
}
static void *counted(void *memory) {
  live += counting && memory;
  return memory;
}

void *malloc(size_t size) {
  return fails() ? NULL : counted(__libc_malloc(size));
}
void *calloc(size_t count, size_t size) {
  return fails() ? NULL : counted(__libc_calloc(count, size));
}
void *aligned_alloc(size_t alignment, size_t size) {
  return fails() ? NULL : counted(__libc_memalign(alignment, size));
}
void *realloc(void *old, size_t size) {
  if (fails()) return NULL;
  return old ? __libc_realloc(old, size) : counted(__libc_realloc(old, size));
}
void free(void *memory) {
  live -= counting && memory;
  __libc_free(memory);
}

#define ROWS 200
#define POSITION "l|7"

/* ---- scalar functions ---- */
typedef struct call {
  const char *name, *args[H_ARGS_MAX];
} call;

static trn_status run_scalar(const trn_scalar_function *function, const trn_function_arg *args, size_t count) {
  h_error e;
  trn_function_error error = h_sink(&e);
  struct ArrowSchema schema;
  struct ArrowArray out;
  trn_function_arg types[H_ARGS_MAX];
  for (size_t i = 0; i < count; i++) {
    types[i] = args[i];
    if (!args[i].is_scalar) types[i].array = NULL;
  }
  trn_status status = function->bind(function, types, count, &schema, &error);
  if (status != TRN_OK) return status;
  status = function->evaluate(function, args, count, ROWS, &out, &error);
  if (status == TRN_OK) out.release(&out);
  schema.release(&schema);
  return status;
}

static void scalars_survive(void **state) {
  (void)state;
  static const call CALLS[] = {
      {"trn.add", {"i|1", "i|2", "=" POSITION}},
      {"trn.cast", {"D|2020-02-03", "=u|~", "=u|UTC", "=" POSITION}},
      {"trn.cast", {"u|2020-02-03 01:02:03", "=T|~", "=u|Asia/Tokyo", "=" POSITION}},
      {"trn.cast", {"Li|1,~,3", "=Lu|~", "=u|UTC", "=" POSITION}},
      {"trn.cast", {"Li|1,~,3", "=u|~", "=u|UTC", "=" POSITION}},
      {"trn.concat", {"u|abc", "u|def"}},
      {"trn.upper", {"u|\xc3\xa4"}},
      {"trn.like", {"u|abc", "=u|a_c", "=u|\\", "=" POSITION}},
      {"trn.rlike", {"u|aaaabc", "=u|(a|b)*c", "=" POSITION}},
      {"trn.split", {"u|a,b,c", "=u|,", "=i|-1", "=" POSITION}},
      {"trn.greatest", {"u|a", "u|b"}},
      {"trn.array_get", {"Lu|a,b", "i|1", "=" POSITION}},
      {"trn.array_concat", {"Lu|a,b", "Lu|c"}},
      {"trn.map_from_arrays", {"Li|1,2,3", "Lu|a,b,c", "=" POSITION}},
      {"trn.array_contains", {"Lu|a,b", "u|b"}},
      {"trn.array_union", {"Lu|a,b,a", "Lu|c"}},
      {"trn.sort_array", {"Lu|b,a"}},
      {"trn.levenshtein", {"u|kitten", "u|sitting"}},
      {"trn.date_format", {"T|2020-01-01 00:00:00", "=u|yyyy-MM-dd", "=u|UTC"}},
      {"trn.format_string", {"=u|%5d|%-5s", "i|42", "u|ab"}},
      {"trn.to_char", {"d:6,1|-12454.8", "=u|99G999D9S"}},
      {"trn.to_number", {"u|12,454.8-", "=u|99,999.9S"}},
      {"trn.csv_field", {"u|\"a\\\"b\",c", "=i|0", "=u|,", "=u|\"", "=u|\\"}},
      {"trn.csv_quote", {"u|x,y", "=u|,", "=b|false"}},
      {"trn.schema_of_json", {"u|[{\"a\":1},{\"b\":\"x\"}]"}},
      {"trn.json_field", {"u|{\"a\":[1, 2]}", "u|a"}},
      {"trn.sentences", {"u|Hi there! Good morning."}},
      {"trn.text_pairs", {"Lu|a:1,b", "=u|:"}},
      {"trn.to_binary_base64", {"u|U3Bhcms="}},
      {"trn.lpad_binary", {"z|ab", "=i|5", "=z|12"}},
      {"trn.sequence_time", {"D|2018-01-01", "D|2018-03-01", "=Y|1", "=u|UTC"}},
      {"trn.time_windows", {"T|2018-01-01", "=l|600000000", "=l|300000000", "=l|0"}},
      {"trn.vector_normalize", {"Lf|3,4", "=f|2"}},
      {"trn.shuffle", {"Li|1,2,3", "=l|7"}},
      {"trn.random_uuid", {"=l|0", "l|1"}},
      {"trn.randstr", {"=i|3", "=l|0", "l|2"}},
      {"trn.aes_decrypt_try", {"z|sixteen bytes...", "=z|0000111122223333", "=u|ECB",
                               "=u|DEFAULT", "=z|"}},
  };
  for (size_t c = 0; c < sizeof CALLS / sizeof CALLS[0]; c++) {
    const trn_scalar_function *function = h_find(CALLS[c].name);
    h_array arrays[H_ARGS_MAX];
    trn_function_arg args[H_ARGS_MAX];
    size_t count = 0;
    for (; CALLS[c].args[count]; count++) {
      bool literal = CALLS[c].args[count][0] == '=';
      h_build(CALLS[c].args[count] + literal, literal ? 1 : ROWS, literal ? 0 : H_OFFSET, !literal, &arrays[count]);
      args[count] = (trn_function_arg){&arrays[count].schema, &arrays[count].array, literal};
    }
    trn_status status = TRN_UNKNOWN;
    for (long fail = 0; status != TRN_OK; fail++) {
      assert_true(fail < 10000);
      live = 0;
      left = fail;
      counting = true;
      status = run_scalar(function, args, count);
      counting = false;
      bool zone_kept = strcmp(CALLS[c].name, "trn.cast") == 0;    /* a zone that was read stays, for the process */
      bool locale_kept = strcmp(CALLS[c].name, "trn.upper") == 0; /* libc keeps what it read of a locale */
      if (live != 0 && !(zone_kept && live > 0 && live <= 3) && !locale_kept)
        fail_msg("%s: %ld allocations left when number %ld fails", CALLS[c].name, live, fail);
      bool zone_unread = status == TRN_INVALID_ARGUMENT && zone_kept; /* like one that is not there */
      if (status != TRN_OK && status != TRN_RESOURCE_EXHAUSTED && !zone_unread)
        fail_msg("%s: status %d when allocation %ld fails", CALLS[c].name, (int)status, fail);
    }
    for (size_t i = 0; i < count; i++) h_free(&arrays[i]);
  }
}

/* ---- aggregates: update, state, merge, result ---- */
static trn_status run_aggregate(const trn_aggregate_function *f, const trn_function_arg *args, size_t count,
                                const size_t *groups) {
  h_error e;
  trn_function_error error = h_sink(&e);
  void *first = NULL, *second = NULL;
  struct ArrowArray states[8], out;
  struct ArrowSchema types[8];
  const struct ArrowArray *pointers[8];
  size_t state_count = 0;
  memset(states, 0, sizeof states);
  memset(&out, 0, sizeof out);
  static const size_t IDS[] = {0, 1, 2};
  trn_status status = f->create(f, args, count, &first, &error);
  if (status == TRN_OK) status = f->create(f, args, count, &second, &error);
  if (status == TRN_OK) status = f->update(first, args, count, ROWS, groups, NULL, 3, &error);
  if (status == TRN_OK) status = f->state_types(f, args, count, types, &state_count, &error);
  for (size_t i = 0; i < state_count; i++) types[i].release(&types[i]);
  if (status == TRN_OK) status = f->emit_state(first, 3, states, &error);
  for (size_t i = 0; i < state_count; i++) pointers[i] = &states[i];
  if (status == TRN_OK) status = f->merge(second, pointers, state_count, 3, IDS, 3, &error);
  if (status == TRN_OK) status = f->evaluate(second, 3, &out, &error);
  for (size_t i = 0; i < state_count; i++)
    if (states[i].release) states[i].release(&states[i]);
  if (out.release) out.release(&out);
  f->destroy(first);
  f->destroy(second);
  return status;
}

static void aggregates_survive(void **state) {
  (void)state;
  static const call CALLS[] = {
      {"trn.sum", {"d:15,2|1.50", "=" POSITION}},
      {"trn.avg", {"d:15,2|1.50", "=" POSITION}},
      {"trn.first", {"u|abc"}},
      {"trn.max", {"u|abc"}},
      {"trn.max_by", {"u|abc", "i|3"}},
      {"trn.collect_list", {"u|abc"}},
      {"trn.collect_set", {"u|abc"}},
      {"trn.stddev_samp", {"g|1"}},
      {"trn.max", {"Lu|a,b"}},
      {"trn.percentile", {"g|1", "=Lg|0.25,0.5"}},
      {"trn.approx_percentile", {"i|3", "=g|0.5", "=l|100"}},
      {"trn.mode", {"u|abc"}},
      {"trn.histogram_numeric", {"i|3", "=i|5"}},
      {"trn.count_min_sketch", {"u|abc", "=g|0.5", "=g|0.5", "=l|1"}},
      {"trn.bitmap_construct_agg", {"l|3"}},
      {"trn.vector_sum", {"Lf|3,4"}},
      {"trn.product", {"g|2"}},
      {"trn.approx_count_distinct", {"u|abc"}},
  };
  const trn_function_library *library = h_library();
  for (size_t c = 0; c < sizeof CALLS / sizeof CALLS[0]; c++) {
    const trn_aggregate_function *function = NULL;
    for (size_t i = 0; i < library->aggregate_count; i++)
      if (strcmp(library->aggregates[i]->name, CALLS[c].name) == 0) function = library->aggregates[i];
    assert_non_null(function);
    h_array arrays[H_ARGS_MAX];
    trn_function_arg args[H_ARGS_MAX];
    size_t count = 0, groups[ROWS];
    for (; CALLS[c].args[count]; count++) {
      bool literal = CALLS[c].args[count][0] == '=';
      h_build(CALLS[c].args[count] + literal, literal ? 1 : ROWS, 0, !literal, &arrays[count]);
      args[count] = (trn_function_arg){&arrays[count].schema, &arrays[count].array, literal};
    }
    for (size_t i = 0; i < ROWS; i++) groups[i] = i % 3;
    trn_status status = TRN_UNKNOWN;
    for (long fail = 0; status != TRN_OK; fail++) {
      assert_true(fail < 10000);
      live = 0;
      left = fail;
      counting = true;
      status = run_aggregate(function, args, count, groups);
      counting = false;
      if (live != 0) fail_msg("%s: %ld allocations left when number %ld fails", CALLS[c].name, live, fail);
      if (status != TRN_OK && status != TRN_RESOURCE_EXHAUSTED)
        fail_msg("%s: status %d when allocation %ld fails", CALLS[c].name, (int)status, fail);
    }
    for (size_t i = 0; i < count; i++) h_free(&arrays[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(scalars_survive), cmocka_unit_test(aggregates_survive)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
