/* Functions of regular expressions. */
#include "functions/frame.h"
#include "functions/regex.h"
#include "functions/text.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_SLOTS (FN_REGEX_GROUPS_MAX * 2)

typedef struct regex_call {
  fn_call *call;
  const char *name; /* in messages */
  fn_regex *regex;
  fn_text pattern;
  int64_t spans[GROUP_SLOTS];
} regex_call;

static trn_status raise_pattern(const regex_call *rc, fn_text pattern, fn_regex_status status) {
  if (status == FN_REGEX_NO_MEMORY) return fn__raise_out_of_memory(&rc->call->report);
  if (status == FN_REGEX_UNSUPPORTED) {
    rc->call->report.error->fail(rc->call->report.error->self, TRN_UNIMPLEMENTED, NULL,
                                 "this construct of regular expressions is not supported, or the pattern is too big");
    return TRN_UNIMPLEMENTED;
  }
  trn_status result = fn__raise(&rc->call->report, "INVALID_PARAMETER_VALUE.PATTERN", "functionName", rc->name,
                                "parameter", "`regexp`", NULL);
  char quoted[300];
  size_t size = pattern.size < 290 ? pattern.size : 290;
  quoted[0] = '\'';
  memcpy(quoted + 1, pattern.data, size);
  quoted[size + 1] = '\'';
  fn__param(&rc->call->report, "value", quoted, size + 2);
  return result;
}

/* Compiles when the row's pattern is another than the last row's. */
static trn_status use_pattern(regex_call *rc, fn_text pattern) {
  if (rc->regex && rc->pattern.size == pattern.size && memcmp(rc->pattern.data, pattern.data, pattern.size) == 0)
    return TRN_OK;
  fn__regex_destroy(rc->regex);
  rc->pattern = pattern;
  fn_regex_status status = fn__regex_compile(pattern, &rc->regex);
  return status == FN_REGEX_OK ? TRN_OK : raise_pattern(rc, pattern, status);
}

static trn_status find(regex_call *rc, fn_text text, size_t from, bool *found) {
  int result = fn__regex_find(rc->regex, text, from, rc->spans);
  *found = result > 0;
  if (result >= 0) return TRN_OK;
  rc->call->report.error->fail(rc->call->report.error->self, TRN_RESOURCE_EXHAUSTED, NULL,
                               "a regular expression took too many steps");
  return TRN_RESOURCE_EXHAUSTED;
}

/* Where the search after a match goes on; a match of nothing moves on by a character. */
static size_t next_start(const regex_call *rc, fn_text text) {
  size_t end = (size_t)rc->spans[1];
  if (rc->spans[1] > rc->spans[0]) return end;
  return end < text.size ? end + fn__char_size((unsigned char)text.data[end]) : end + 1;
}

static trn_status rlike(regex_call *rc, int64_t row) {
  bool found = false;
  trn_status status = use_pattern(rc, fn__get_text(&rc->call->columns[1], row));
  if (status == TRN_OK) status = find(rc, fn__get_text(&rc->call->columns[0], row), 0, &found);
  fn__set_bool(&rc->call->out, row, found);
  return status;
}

static trn_status check_group(const regex_call *rc, int64_t group) {
  int64_t groups = fn__regex_groups(rc->regex);
  if (group >= 0 && group <= groups) return TRN_OK;
  char count[FN_INT_TEXT_MAX], index[FN_INT_TEXT_MAX];
  count[fn__int_print(groups, count)] = 0;
  index[fn__int_print(group, index)] = 0;
  return fn__raise(&rc->call->report, "INVALID_PARAMETER_VALUE.REGEX_GROUP_INDEX", "functionName", rc->name,
                   "parameter", "`idx`", "groupCount", count, "groupIndex", index, NULL);
}

static trn_status extract(regex_call *rc, int64_t row) {
  fn_text text = fn__get_text(&rc->call->columns[0], row);
  int64_t group = fn__get_i32(&rc->call->columns[2], row);
  bool found = false;
  trn_status status = use_pattern(rc, fn__get_text(&rc->call->columns[1], row));
  if (status == TRN_OK) status = find(rc, text, 0, &found);
  if (status == TRN_OK && found) status = check_group(rc, group);
  if (status != TRN_OK) return status;
  bool took_part = found && rc->spans[group * 2] >= 0;
  fn__push(&rc->call->out, took_part ? text.data + rc->spans[group * 2] : "",
           took_part ? (size_t)(rc->spans[group * 2 + 1] - rc->spans[group * 2]) : 0);
  return TRN_OK;
}

/* regexp_substr: null when there is no match. regexp_instr: the character position, 0 when there is none. */
static trn_status substr(regex_call *rc, int64_t row) {
  fn_text text = fn__get_text(&rc->call->columns[0], row);
  bool found = false;
  trn_status status = use_pattern(rc, fn__get_text(&rc->call->columns[1], row));
  if (status == TRN_OK) status = find(rc, text, 0, &found);
  if (status == TRN_OK && found)
    fn__push(&rc->call->out, text.data + rc->spans[0], (size_t)(rc->spans[1] - rc->spans[0]));
  else if (status == TRN_OK)
    fn__push_null(&rc->call->out);
  return status;
}

static trn_status instr(regex_call *rc, int64_t row) {
  fn_text text = fn__get_text(&rc->call->columns[0], row);
  bool found = false;
  trn_status status = use_pattern(rc, fn__get_text(&rc->call->columns[1], row));
  if (status == TRN_OK) status = find(rc, text, 0, &found);
  ((int32_t *)rc->call->out.data)[row] =
      found ? (int32_t)fn__char_count((fn_text){text.data, (size_t)rc->spans[0]}) + 1 : 0;
  return status;
}

static trn_status count(regex_call *rc, int64_t row) {
  fn_text text = fn__get_text(&rc->call->columns[0], row);
  int32_t matches = 0;
  bool found = true;
  trn_status status = use_pattern(rc, fn__get_text(&rc->call->columns[1], row));
  for (size_t at = 0; status == TRN_OK && found && at <= text.size; at = next_start(rc, text)) {
    status = find(rc, text, at, &found);
    matches += found;
    if (!found) break;
  }
  ((int32_t *)rc->call->out.data)[row] = matches;
  return status;
}

/* A replacement as Matcher.appendReplacement reads it: $1, ${name}, \x. False: malformed. */
static bool append_replacement(regex_call *rc, fn_text text, fn_text with) {
  fn_builder *out = &rc->call->out;
  for (size_t i = 0; i < with.size; i++) {
    char c = with.data[i];
    int64_t group = -1;
    if (c == '\\') {
      if (++i == with.size) return false;
      fn__append(out, with.data + i, 1);
      continue;
    }
    if (c != '$') {
      fn__append(out, &c, 1);
      continue;
    }
    if (++i < with.size && with.data[i] == '{') {
      const char *close = memchr(with.data + i, '}', with.size - i);
      if (!close) return false;
      group = fn__regex_group_named(rc->regex, (fn_text){with.data + i + 1, (size_t)(close - with.data) - i - 1});
      i = (size_t)(close - with.data);
    } else {
      for (; i < with.size && with.data[i] >= '0' && with.data[i] <= '9'; i++) {
        int64_t longer = (group < 0 ? 0 : group * 10) + (with.data[i] - '0');
        if (group >= 0 && longer > fn__regex_groups(rc->regex)) break;
        group = longer;
      }
      i--;
    }
    if (group < 0 || group > fn__regex_groups(rc->regex)) return false;
    if (rc->spans[group * 2] >= 0)
      fn__append(out, text.data + rc->spans[group * 2], (size_t)(rc->spans[group * 2 + 1] - rc->spans[group * 2]));
  }
  return true;
}

/* regexp_replace(text, pattern, replacement [, position from 1]) */
static trn_status replace(regex_call *rc, int64_t row) {
  fn_text text = fn__get_text(&rc->call->columns[0], row), with = fn__get_text(&rc->call->columns[2], row);
  int64_t position = rc->call->count > 3 ? fn__get_i32(&rc->call->columns[3], row) : 1;
  size_t copied = 0, at = position > 1 ? fn__char_offset(text, position - 1) : 0;
  bool found = position <= fn__char_count(text) + 1;
  trn_status status = use_pattern(rc, fn__get_text(&rc->call->columns[1], row));
  while (status == TRN_OK && found && at <= text.size) {
    status = find(rc, text, at, &found);
    if (status != TRN_OK || !found) break;
    fn__append(&rc->call->out, text.data + copied, (size_t)rc->spans[0] - copied);
    if (!append_replacement(rc, text, with))
      return fn__raise(&rc->call->report, "INVALID_PARAMETER_VALUE.PATTERN", "functionName", rc->name, "parameter",
                       "`rep`", "value", "", NULL);
    copied = (size_t)rc->spans[1];
    at = next_start(rc, text);
  }
  fn__append(&rc->call->out, text.data + copied, text.size - copied);
  fn__push_end(&rc->call->out, 0);
  return status;
}

static trn_status each_row(fn_call *call, const char *name, trn_status (*one)(regex_call *, int64_t)) {
  regex_call rc = {.call = call, .name = name};
  bool is_text = call->out.type.kind == FN_STRING;
  trn_status status = TRN_OK;
  for (int64_t row = 0; row < call->rows && status == TRN_OK; row++) {
    if (!fn__row_is_null(&call->out, row))
      status = one(&rc, row);
    else if (is_text)
      fn__push_end(&call->out, 0);
    else if (call->out.type.kind == FN_INT32)
      ((int32_t *)call->out.data)[row] = 0;
  }
  fn__regex_destroy(rc.regex);
  return status;
}

static trn_status run_rlike(fn_call *call) {
  return each_row(call, "`rlike`", rlike);
}
static trn_status run_extract(fn_call *call) {
  return each_row(call, "`regexp_extract`", extract);
}
static trn_status run_substr(fn_call *call) {
  return each_row(call, "`regexp_substr`", substr);
}
static trn_status run_instr(fn_call *call) {
  return each_row(call, "`regexp_instr`", instr);
}
static trn_status run_count(fn_call *call) {
  return each_row(call, "`regexp_count`", count);
}
static trn_status run_replace(fn_call *call) {
  return each_row(call, "`regexp_replace`", replace);
}

/* ---- lists of texts: split(text, pattern, limit), regexp_extract_all(text, pattern, group) ---- */
typedef struct list_out {
  fn_builder texts;
  int64_t capacity;
} list_out;

/* The child's rows are not known before: its offsets grow. */
static bool push_text(list_out *out, const char *data, size_t size) {
  if (out->texts.next >= out->capacity) {
    int64_t capacity = out->capacity ? out->capacity * 2 : 64;
    int32_t *grown = capacity < INT32_MAX ? fn__alloc(((size_t)capacity + 1) * sizeof *grown) : NULL;
    if (!grown) return false;
    if (out->texts.data)
      memcpy(grown, out->texts.data, ((size_t)out->texts.next + 1) * sizeof *grown);
    else
      grown[0] = 0;
    free(out->texts.data);
    out->texts.data = grown;
    out->capacity = capacity;
  }
  fn__push(&out->texts, data, size);
  return out->texts.status == TRN_OK;
}

/* String.split(pattern, limit): 0 and below keep empty texts at the end (limit -1). */
static trn_status split_row(regex_call *rc, list_out *out, int64_t row) {
  fn_text text = fn__get_text(&rc->call->columns[0], row);
  int64_t limit = rc->call->count > 2 ? fn__get_i32(&rc->call->columns[2], row) : -1, parts = 1;
  size_t start = 0, at = 0;
  bool found = true, good = true;
  trn_status status = use_pattern(rc, fn__get_text(&rc->call->columns[1], row));
  while (status == TRN_OK && good && at <= text.size && (limit <= 0 || parts < limit)) {
    status = find(rc, text, at, &found);
    if (status != TRN_OK || !found) break;
    bool nothing = rc->spans[1] == rc->spans[0], at_start = rc->spans[1] == 0,
         at_end = nothing && (size_t)rc->spans[0] == text.size;
    if (!at_start && !at_end) {
      good = push_text(out, text.data + start, (size_t)rc->spans[0] - start);
      start = (size_t)rc->spans[1];
      parts++;
    }
    at = next_start(rc, text);
  }
  if (status == TRN_OK && good) good = push_text(out, text.data + start, text.size - start);
  return good ? status : fn__raise_out_of_memory(&rc->call->report);
}

static trn_status extract_all_row(regex_call *rc, list_out *out, int64_t row) {
  fn_text text = fn__get_text(&rc->call->columns[0], row);
  int64_t group = fn__get_i32(&rc->call->columns[2], row);
  bool found = true, good = true;
  trn_status status = use_pattern(rc, fn__get_text(&rc->call->columns[1], row));
  for (size_t at = 0; status == TRN_OK && good && at <= text.size; at = next_start(rc, text)) {
    status = find(rc, text, at, &found);
    if (status == TRN_OK && found) status = check_group(rc, group);
    if (status != TRN_OK || !found) break;
    bool took_part = rc->spans[group * 2] >= 0;
    good = push_text(out, took_part ? text.data + rc->spans[group * 2] : "",
                     took_part ? (size_t)(rc->spans[group * 2 + 1] - rc->spans[group * 2]) : 0);
  }
  return good ? status : fn__raise_out_of_memory(&rc->call->report);
}

static trn_status each_list(fn_call *call, const char *name, trn_status (*one)(regex_call *, list_out *, int64_t)) {
  regex_call rc = {.call = call, .name = name};
  list_out out = {.texts = {.type = fn__type(FN_STRING)}};
  struct ArrowArray child;
  trn_status status = push_text(&out, "", 0) ? TRN_OK : fn__raise_out_of_memory(&call->report);
  out.texts.next = 0; /* only for the memory */
  for (int64_t row = 0; row < call->rows && status == TRN_OK; row++) {
    if (!fn__row_is_null(&call->out, row)) status = one(&rc, &out, row);
    fn__push_list(&call->out, out.texts.next);
  }
  fn__regex_destroy(rc.regex);
  out.texts.rows = out.texts.next;
  if (status != TRN_OK) {
    fn__builder_clear(&out.texts);
    return status;
  }
  if (fn__builder_finish(&out.texts, &child) != TRN_OK) return fn__raise_out_of_memory(&call->report);
  fn__add_child(&call->out, &child);
  return TRN_OK;
}

static trn_status run_split(fn_call *call) {
  return each_list(call, "`split`", split_row);
}
static trn_status run_extract_all(fn_call *call) {
  return each_list(call, "`regexp_extract_all`", extract_all_row);
}

/* ---- binding ---- */
FN_BIND(rlike, "ss", fn__type(FN_BOOL))
FN_BIND(extract, "ssi", fn__type(FN_STRING))
FN_BIND(substr, "ss", fn__type(FN_STRING))
FN_BIND(number, "ss", fn__type(FN_INT32))
FN_BIND(replace, "sss|i", fn__type(FN_STRING))

enum { SPLIT = 1, EXTRACT_ALL };
static trn_status bind_list(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  fn_type text = fn__type(FN_STRING);
  struct ArrowSchema child;
  if (!fn__args_are(call, call->function->op == EXTRACT_ALL ? "ssi" : "ss|i")) return fn__mismatch(call);
  *out = fn__type(FN_LIST);
  if (!schema) return TRN_OK;
  trn_status status = fn__schema_make(&child, &text, "element", false);
  return status == TRN_OK ? fn__schema_nest(schema, "+l", "", true, &child, 1) : status;
}

#define REGEX(name, flags, bind, kernel)                                                                               \
  { "trn." name, TRN_IMMUTABLE, FN_STRICT | FN_POSITION | (flags), 0, bind, kernel }
const fn_scalar fn__regex_table[] = {
    REGEX("rlike", 0, bind_rlike, run_rlike),
    REGEX("regexp_extract", 0, bind_extract, run_extract),
    {"trn.regexp_extract_all", TRN_IMMUTABLE, FN_STRICT | FN_POSITION, EXTRACT_ALL, bind_list, run_extract_all},
    REGEX("regexp_substr", FN_NULLABLE, bind_substr, run_substr),
    REGEX("regexp_instr", 0, bind_number, run_instr),
    REGEX("regexp_count", 0, bind_number, run_count),
    REGEX("regexp_replace", 0, bind_replace, run_replace),
    {"trn.split", TRN_IMMUTABLE, FN_STRICT | FN_POSITION, SPLIT, bind_list, run_split},
    {NULL},
};
