/* Texts taken apart and put together: the map of str_to_map, sentences, to_binary, padding of binaries, format_number by
 * a pattern. */
#include "functions/frame.h"
#include "functions/regex.h"
#include "functions/rowcodec.h"
#include "functions/text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- text_pairs(list of texts, pattern): structs "key", "value" split at the first match ---- */
typedef struct pairs {
  fn_regex *regex;
  fn_text compiled;
  fn_sink sink;
  fn_bytes scratch;
} pairs;

static trn_status use_regex(const fn_call *call, pairs *p, fn_text pattern) {
  if (p->regex && p->compiled.size == pattern.size && memcmp(p->compiled.data, pattern.data, pattern.size) == 0)
    return TRN_OK;
  fn__regex_destroy(p->regex);
  p->regex = NULL;
  fn_regex_status status = fn__regex_compile(pattern, &p->regex);
  p->compiled = pattern;
  if (status == FN_REGEX_OK) return TRN_OK;
  if (status == FN_REGEX_NO_MEMORY) return fn__raise_out_of_memory(&call->report);
  trn_status failed = fn__raise(&call->report, "INVALID_PARAMETER_VALUE.PATTERN", "parameter", "`regexp`",
                                "functionName", "`str_to_map`", NULL);
  fn__param(&call->report, "value", pattern.data, pattern.size);
  return failed;
}

static bool put_part(fn_bytes *out, const char *data, size_t size) {
  uint32_t length = (uint32_t)size;
  char present = data != NULL;
  if (!fn__bytes_append(out, &present, 1)) return false;
  return !present || (fn__bytes_append(out, &length, sizeof length) && fn__bytes_append(out, data, size));
}

static trn_status put_pair(const fn_call *call, pairs *p, fn_text text) {
  int64_t spans[2 * (FN_REGEX_GROUPS_MAX + 1)];
  size_t key = text.size, rest = 0;
  int found = 0;
  for (size_t from = 0; from <= text.size; from++) {
    found = fn__regex_find(p->regex, text, from, spans);
    if (found <= 0 || spans[1] > 0) break; /* nothing is split off by an empty match at the start */
  }
  if (found < 0) return fn__raise_out_of_memory(&call->report);
  if (found && !(spans[0] == spans[1] && (size_t)spans[0] == text.size)) {
    key = (size_t)spans[0];
    rest = (size_t)spans[1];
  }
  p->scratch.size = 0;
  bool good = fn__bytes_append(&p->scratch, "\1", 1) && put_part(&p->scratch, text.data, key) &&
              put_part(&p->scratch, rest ? text.data + rest : NULL, text.size - rest);
  const char *at = p->scratch.data;
  if (good) fn__sink_put(&p->sink, &at);
  return good ? TRN_OK : fn__raise_out_of_memory(&call->report);
}

static trn_status pair_schema(struct ArrowSchema *out) {
  struct ArrowSchema fields[2];
  fn_type text = fn__type(FN_STRING);
  trn_status status = fn__schema_make(&fields[0], &text, "key", false);
  if (status != TRN_OK) return status;
  if ((status = fn__schema_make(&fields[1], &text, "value", true)) != TRN_OK) {
    fields[0].release(&fields[0]);
    return status;
  }
  return fn__schema_nest(out, "+s", "element", false, fields, 2);
}

static trn_status text_pairs(fn_call *call) {
  const fn_column *list = &call->columns[0];
  fn_column child;
  pairs p = {0};
  struct ArrowSchema schema;
  struct ArrowArray array;
  if (fn__column_child(list, 0, &child) != TRN_OK) return fn__mismatch(call);
  if (pair_schema(&schema) != TRN_OK) return fn__raise_out_of_memory(&call->report);
  trn_status status = fn__sink_init(&p.sink, &schema) ? TRN_OK : fn__raise_out_of_memory(&call->report);
  for (int64_t row = 0; row < call->rows && status == TRN_OK; row++) {
    bool null = fn__row_is_null(&call->out, row);
    const int32_t *offsets = list->offsets + row * list->step;
    if (!null) status = use_regex(call, &p, fn__get_text(&call->columns[1], row));
    for (int32_t i = offsets[0]; i < offsets[1] && !null && status == TRN_OK; i++)
      status = put_pair(call, &p, fn__get_text(&child, i));
    fn__push_list(&call->out, p.sink.rows);
  }
  fn__regex_destroy(p.regex);
  fn__bytes_clear(&p.scratch);
  if (status != TRN_OK)
    fn__sink_clear(&p.sink);
  else if (fn__sink_finish(&p.sink, &array) != TRN_OK)
    status = fn__raise_out_of_memory(&call->report);
  else
    fn__add_child(&call->out, &array);
  schema.release(&schema);
  return status;
}

static trn_status bind_pairs(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  struct ArrowSchema child;
  fn_type element;
  if (!fn__args_are(call, "Ls") || !fn__type_read(call->columns[0].type.schema->children[0], &element) ||
      element.kind != FN_STRING)
    return fn__mismatch(call);
  *out = fn__type(FN_LIST);
  if (!schema) return TRN_OK;
  trn_status status = pair_schema(&child);
  return status == TRN_OK ? fn__schema_nest(schema, "+l", "", true, &child, 1) : status;
}

/* ---- sentences(text): lists of words, after java.text.BreakIterator of English ---- */
static bool is_word(uint32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0xc0;
}
static bool is_digit(uint32_t c) {
  return c >= '0' && c <= '9';
}

/* The end of the word at `at`: letters and digits, with what joins them in between. */
static size_t word_end(fn_text text, size_t at) {
  uint32_t last = 0;
  while (at < text.size) {
    size_t size, next_size;
    uint32_t c = fn__char_decode((fn_text){text.data + at, text.size - at}, &size);
    bool joins = c == '.' || c == '\'' || c == ',' || c == ':' || c == 0x2019;
    if (!is_word(c)) {
      if (!joins || at + size >= text.size) break;
      uint32_t next = fn__char_decode((fn_text){text.data + at + size, text.size - at - size}, &next_size);
      bool digits = is_digit(last) && is_digit(next), letters = !is_digit(last) && !is_digit(next) && is_word(next);
      if (!(c == '.' || c == '\'' ? digits || letters : c == ',' ? digits : letters)) break;
    }
    last = c;
    at += size;
  }
  return at;
}

/* Whether a sentence ends with the mark at `at`: spaces, then no small letter (after a full stop). */
static bool ends_sentence(fn_text text, size_t at) {
  char mark = text.data[at];
  if (mark == '\n' && at + 1 < text.size && text.data[at + 1] == '\n') return true;
  if (mark != '.' && mark != '!' && mark != '?') return false;
  size_t next = at + 1;
  while (next < text.size && strchr(".!?)\"']", text.data[next])) next++;
  size_t spaces = next;
  while (next < text.size && (text.data[next] == ' ' || text.data[next] == '\t' || text.data[next] == '\n')) next++;
  if (next == text.size) return true;
  if (spaces == next) return mark != '.';
  return mark != '.' || !(text.data[next] >= 'a' && text.data[next] <= 'z');
}

typedef struct word_lists {
  fn_bytes bytes; /* of all words */
  uint32_t *ends; /* where words end in bytes */
  int32_t *sentences;
  int64_t words, word_capacity, sentence_count, sentence_capacity;
} word_lists;

static bool grow(void **data, int64_t *capacity, int64_t count, size_t width) {
  if (count < *capacity) return true;
  int64_t wanted = *capacity ? *capacity * 2 : 64;
  void *grown = wanted < INT32_MAX ? realloc(*data, (size_t)wanted * width) : NULL;
  if (!grown) return false;
  *data = grown;
  *capacity = wanted;
  return true;
}

static bool end_sentence(word_lists *lists, int64_t first_word) {
  if (lists->words == first_word) return true;
  if (!grow((void **)&lists->sentences, &lists->sentence_capacity, lists->sentence_count, sizeof *lists->sentences))
    return false;
  lists->sentences[lists->sentence_count++] = (int32_t)lists->words;
  return true;
}

static bool read_sentences(word_lists *lists, fn_text text) {
  int64_t first = lists->words;
  for (size_t at = 0; at < text.size;) {
    size_t size;
    uint32_t c = fn__char_decode((fn_text){text.data + at, text.size - at}, &size);
    if (!is_word(c)) {
      if (ends_sentence(text, at)) {
        if (!end_sentence(lists, first)) return false;
        first = lists->words;
      }
      at += size;
      continue;
    }
    size_t end = word_end(text, at);
    if (!grow((void **)&lists->ends, &lists->word_capacity, lists->words, sizeof *lists->ends) ||
        !fn__bytes_append(&lists->bytes, text.data + at, end - at) || lists->bytes.size > INT32_MAX)
      return false;
    lists->ends[lists->words++] = (uint32_t)lists->bytes.size;
    at = end;
  }
  return end_sentence(lists, first);
}

static bool give_sentences(fn_call *call, const word_lists *lists) {
  fn_builder words, sentences;
  fn_type text = fn__type(FN_STRING), list = fn__type(FN_LIST);
  struct ArrowArray array;
  uint32_t start = 0;
  if (!fn__builder_init(&words, &text, lists->words)) return false;
  for (int64_t i = 0; i < lists->words; start = lists->ends[i++])
    fn__push(&words, lists->bytes.data + start, lists->ends[i] - start);
  if (fn__builder_finish(&words, &array) != TRN_OK) return false;
  if (!fn__builder_init(&sentences, &list, lists->sentence_count)) {
    array.release(&array);
    return false;
  }
  for (int64_t i = 0; i < lists->sentence_count; i++) fn__push_list(&sentences, lists->sentences[i]);
  fn__add_child(&sentences, &array);
  if (fn__builder_finish(&sentences, &array) != TRN_OK) return false;
  fn__add_child(&call->out, &array);
  return true;
}

static trn_status sentences(fn_call *call) {
  word_lists lists = {0};
  bool good = true;
  for (int64_t row = 0; row < call->rows && good; row++) {
    if (!fn__row_is_null(&call->out, row)) good = read_sentences(&lists, fn__get_text(&call->columns[0], row));
    fn__push_list(&call->out, lists.sentence_count);
  }
  good = good && give_sentences(call, &lists);
  fn__bytes_clear(&lists.bytes);
  free(lists.ends);
  free(lists.sentences);
  return good ? TRN_OK : fn__raise_out_of_memory(&call->report);
}

static trn_status bind_sentences(fn_call *call, fn_type *out, struct ArrowSchema *schema) {
  struct ArrowSchema word, sentence;
  fn_type text = fn__type(FN_STRING);
  if (!fn__args_are(call, "s")) return fn__mismatch(call);
  *out = fn__type(FN_LIST);
  if (!schema) return TRN_OK;
  trn_status status = fn__schema_make(&word, &text, "element", false);
  if (status == TRN_OK) status = fn__schema_nest(&sentence, "+l", "element", false, &word, 1);
  return status == TRN_OK ? fn__schema_nest(schema, "+l", "", true, &sentence, 1) : status;
}

/* ---- to_binary(text): hex or base64, strictly ---- */
enum { HEX = 0, BASE64 = 1, TRIES = 2 };
static int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool read_hex(fn_text text, char *out, size_t *size) {
  *size = 0;
  unsigned value = 0;
  for (size_t i = 0; i < text.size; i++) {
    int digit = hex_digit(text.data[i]);
    if (digit < 0) return false;
    value = value << 4 | (unsigned)digit;
    if ((text.size - i) % 2 == 1) { /* an odd text has a zero before it */
      out[(*size)++] = (char)value;
      value = 0;
    }
  }
  return true;
}

static int base64_digit(char c) {
  return c >= 'A' && c <= 'Z'   ? c - 'A'
         : c >= 'a' && c <= 'z' ? c - 'a' + 26
         : c >= '0' && c <= '9' ? c - '0' + 52
         : c == '+'             ? 62
         : c == '/'             ? 63
                                : -1;
}

static bool read_base64(fn_text text, char *out, size_t *size) {
  uint32_t bits = 0;
  size_t digits = 0, padding = 0;
  *size = 0;
  for (size_t i = 0; i < text.size; i++) {
    char c = text.data[i];
    if (c == ' ' || c == '\r' || c == '\n' || c == '\t') continue;
    int digit = base64_digit(c);
    padding += c == '=';
    if (digit < 0 && c != '=') return false;
    if (digit >= 0 && padding) return false;
    if (c == '=') continue;
    bits = bits << 6 | (uint32_t)digit;
    if (++digits % 4 == 0) {
      for (int k = 2; k >= 0; k--) out[(*size)++] = (char)(bits >> (8 * k));
      bits = 0;
    }
  }
  size_t rest = digits % 4;
  if (rest == 1 || padding > 2 || (padding && (rest + padding) != 4)) return false;
  if (rest) bits <<= 6 * (4 - rest);
  for (size_t k = 0; rest && k < rest - 1; k++) out[(*size)++] = (char)(bits >> (8 * (2 - k)));
  return true;
}

static trn_status raise_binary(const fn_call *call, fn_text text) {
  trn_status status =
      fn__raise(&call->report, "CONVERSION_INVALID_INPUT", "fmt", call->function->op & BASE64 ? "'BASE64'" : "'HEX'",
                "targetType", "\"BINARY\"", "suggestion", "`try_to_binary`", NULL);
  fn_bytes quoted = {0};
  if (fn__bytes_append(&quoted, "'", 1) && fn__bytes_append(&quoted, text.data, text.size) &&
      fn__bytes_append(&quoted, "'", 1))
    fn__param(&call->report, "str", quoted.data, quoted.size);
  fn__bytes_clear(&quoted);
  return status;
}

static trn_status to_binary(fn_call *call) {
  int op = call->function->op;
  for (int64_t row = 0; row < call->rows; row++) {
    if (fn__row_is_null(&call->out, row)) {
      fn__push_end(&call->out, 0);
      continue;
    }
    fn_text text = fn__get_text(&call->columns[0], row);
    char *room = fn__reserve(&call->out, text.size + 4);
    size_t size = 0;
    if (!room) return TRN_OK;
    if (op & BASE64 ? read_base64(text, room, &size) : read_hex(text, room, &size))
      fn__push_end(&call->out, size);
    else if (op & TRIES)
      fn__push_null(&call->out);
    else
      return raise_binary(call, text);
  }
  return TRN_OK;
}

/* ---- binaries: padded, reversed ---- */
enum { LEFT, RIGHT };
#define PAD_MAX (1 << 30)
static trn_status pad(fn_call *call) {
  for (int64_t row = 0; row < call->rows; row++) {
    if (fn__row_is_null(&call->out, row)) {
      fn__push_end(&call->out, 0);
      continue;
    }
    fn_text text = fn__get_text(&call->columns[0], row), fill = fn__get_text(&call->columns[2], row);
    int64_t wanted = fn__get_i32(&call->columns[1], row);
    size_t size = wanted < 0 ? 0 : wanted > PAD_MAX ? PAD_MAX : (size_t)wanted;
    size_t own = text.size < size ? text.size : size, missing = fill.size ? size - own : 0;
    if (call->function->op == RIGHT) fn__append(&call->out, text.data, own);
    for (size_t done = 0; done < missing;) {
      size_t part = missing - done < fill.size ? missing - done : fill.size;
      fn__append(&call->out, fill.data, part);
      done += part;
    }
    if (call->function->op == LEFT) fn__append(&call->out, text.data, own);
    fn__push_end(&call->out, 0);
  }
  return TRN_OK;
}

static trn_status reverse(fn_call *call) {
  for (int64_t row = 0; row < call->rows; row++) {
    fn_text text = fn__row_is_null(&call->out, row) ? (fn_text){"", 0} : fn__get_text(&call->columns[0], row);
    char *room = fn__reserve(&call->out, text.size);
    for (size_t i = 0; i < text.size && room; i++) room[i] = text.data[text.size - 1 - i];
    fn__push_end(&call->out, room ? text.size : 0);
  }
  return TRN_OK;
}

FN_BIND(binary, "s", fn__type(FN_BINARY))
FN_BIND(pad, "ziz", fn__type(FN_BINARY))
FN_BIND(reverse, "z", fn__type(FN_BINARY))

const fn_scalar fn__text_parts_table[] = {
    {"trn.text_pairs", TRN_IMMUTABLE, FN_STRICT, 0, bind_pairs, text_pairs},
    {"trn.sentences", TRN_IMMUTABLE, FN_STRICT, 0, bind_sentences, sentences},
    {"trn.to_binary_hex", TRN_IMMUTABLE, FN_STRICT, HEX, bind_binary, to_binary},
    {"trn.to_binary_base64", TRN_IMMUTABLE, FN_STRICT, BASE64, bind_binary, to_binary},
    {"trn.to_binary_hex_try", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, HEX | TRIES, bind_binary, to_binary},
    {"trn.to_binary_base64_try", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, BASE64 | TRIES, bind_binary, to_binary},
    {"trn.lpad_binary", TRN_IMMUTABLE, FN_STRICT, LEFT, bind_pad, pad},
    {"trn.rpad_binary", TRN_IMMUTABLE, FN_STRICT, RIGHT, bind_pad, pad},
    {"trn.reverse_binary", TRN_IMMUTABLE, FN_STRICT, 0, bind_reverse, reverse},
    {NULL},
};
