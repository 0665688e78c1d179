#include "functions/json.h"
#include "functions/text.h"
#include <stdlib.h>
#include <string.h>

void fn__json_clear(fn_json *json) {
  free(json->node);
  fn__bytes_clear(&json->decoded);
  *json = (fn_json){0};
}

static uint32_t new_node(fn_json *json, fn_json_kind kind) {
  if (json->count == json->capacity) {
    uint32_t capacity = json->capacity ? json->capacity * 2 : 64;
    fn_json_node *grown =
        capacity < UINT32_MAX / sizeof *grown ? realloc(json->node, capacity * sizeof *grown) : NULL;
    if (!grown) {
      json->no_memory = true;
      return 0;
    }
    json->node = grown;
    json->capacity = capacity;
  }
  json->node[json->count] = (fn_json_node){.kind = (uint8_t)kind, .start = (uint32_t)json->at};
  return json->count++;
}

static int peek(const fn_json *json) {
  return json->at < json->source.size ? (unsigned char)json->source.data[json->at] : -1;
}

static void skip_space(fn_json *json) {
  int c;
  while ((c = peek(json)) == ' ' || c == '\t' || c == '\n' || c == '\r') json->at++;
}

static bool keep(fn_json *json, const void *data, size_t size) {
  bool good = fn__bytes_append(&json->decoded, data, size);
  json->no_memory |= !good;
  return good;
}

static int hex_value(int c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool hex_unit(fn_json *json, uint32_t *unit) {
  *unit = 0;
  for (int i = 0; i < 4; i++) {
    int digit = hex_value(peek(json));
    if (digit < 0) return false;
    *unit = *unit * 16 + (uint32_t)digit;
    json->at++;
  }
  return true;
}

/* \uXXXX, two of them for a pair of surrogates; a lone one becomes '?' as in Java's UTF-8. */
static bool unicode_escape(fn_json *json) {
  uint32_t code, low;
  char text[4];
  if (!hex_unit(json, &code)) return false;
  if (code >= 0xd800 && code < 0xdc00 && json->at + 1 < json->source.size && json->source.data[json->at] == '\\' &&
      json->source.data[json->at + 1] == 'u') {
    size_t back = json->at;
    json->at += 2;
    if (!hex_unit(json, &low)) return false;
    if (low >= 0xdc00 && low < 0xe000)
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    else
      json->at = back;
  }
  if (code >= 0xd800 && code < 0xe000) code = '?';
  return keep(json, text, fn__char_encode(code, text));
}

static bool read_string(fn_json *json, uint32_t *start, uint32_t *size) {
  static const char FROM[] = "\"\\/bfnrt'", TO[] = "\"\\/\b\f\n\r\t'";
  int quote = peek(json);
  *start = (uint32_t)json->decoded.size;
  json->at++;
  for (;;) {
    size_t run = json->at;
    int c;
    while ((c = peek(json)) >= 0x20 && c != quote && c != '\\') json->at++;
    if (!keep(json, json->source.data + run, json->at - run)) return false;
    if (c == quote) break;
    if (c != '\\') return false; /* the end, or a control character */
    json->at++;
    c = peek(json);
    json->at++;
    const char *known = c > 0 ? memchr(FROM, c, sizeof FROM - 1) : NULL;
    if (known) {
      if (!keep(json, &TO[known - FROM], 1)) return false;
    } else if (c != 'u' || !unicode_escape(json)) {
      return false;
    }
  }
  json->at++;
  *size = (uint32_t)json->decoded.size - *start;
  return true;
}

static bool read_number(fn_json *json, fn_json_kind *kind) {
  size_t digits = 0;
  *kind = FN_JSON_INTEGER;
  if (peek(json) == '-') json->at++;
  if (peek(json) == '0') {
    json->at++;
    digits = 1;
  } else {
    for (; peek(json) >= '0' && peek(json) <= '9'; digits++) json->at++;
  }
  if (!digits) return false;
  if (peek(json) == '.') {
    *kind = FN_JSON_FLOAT;
    json->at++;
    for (digits = 0; peek(json) >= '0' && peek(json) <= '9'; digits++) json->at++;
    if (!digits) return false;
  }
  if (peek(json) == 'e' || peek(json) == 'E') {
    *kind = FN_JSON_FLOAT;
    json->at++;
    if (peek(json) == '+' || peek(json) == '-') json->at++;
    for (digits = 0; peek(json) >= '0' && peek(json) <= '9'; digits++) json->at++;
    if (!digits) return false;
  }
  int c = peek(json); /* a number ends where something else can follow */
  return c < 0 || strchr(" \t\r\n,]}", c) != NULL;
}

static bool read_word(fn_json *json, const char *word) {
  size_t size = strlen(word);
  if (json->source.size - json->at < size || memcmp(json->source.data + json->at, word, size) != 0) return false;
  json->at += size;
  return true;
}

static uint32_t read_value(fn_json *json, int depth);

static bool read_members(fn_json *json, uint32_t self, int depth) {
  bool object = json->node[self].kind == FN_JSON_OBJECT;
  int close = object ? '}' : ']';
  uint32_t last = 0;
  json->at++;
  skip_space(json);
  if (peek(json) == close) {
    json->at++;
    return true;
  }
  for (;;) {
    uint32_t key_start = 0, key_size = 0;
    skip_space(json);
    if (object) {
      if ((peek(json) != '"' && peek(json) != '\'') || !read_string(json, &key_start, &key_size)) return false;
      skip_space(json);
      if (peek(json) != ':') return false;
      json->at++;
    }
    uint32_t value = read_value(json, depth + 1);
    if (!value) return false;
    json->node[value].key_start = key_start;
    json->node[value].key_size = key_size;
    if (last)
      json->node[last].next = value;
    else
      json->node[self].child = value;
    last = value;
    json->node[self].count++;
    skip_space(json);
    int c = peek(json);
    json->at++;
    if (c == close) return true;
    if (c != ',') return false;
  }
}

/* The node's number; 0: malformed. */
static uint32_t read_value(fn_json *json, int depth) {
  skip_space(json);
  int c = peek(json);
  if (c < 0 || depth > FN_JSON_DEPTH_MAX) return 0;
  fn_json_kind kind = c == '{' ? FN_JSON_OBJECT : c == '[' ? FN_JSON_ARRAY : FN_JSON_NULL;
  uint32_t self = new_node(json, kind);
  if (!self) return 0;
  if (kind != FN_JSON_NULL) {
    if (!read_members(json, self, depth)) return 0;
  } else if (c == '"' || c == '\'') {
    uint32_t start, size;
    if (!read_string(json, &start, &size)) return 0;
    json->node[self].kind = FN_JSON_STRING;
    json->node[self].start = start;
    json->node[self].size = size;
    json->node[self].source_end = (uint32_t)json->at;
    return self;
  } else if (c == '-' || (c >= '0' && c <= '9')) {
    if (!read_number(json, &kind)) return 0;
    json->node[self].kind = (uint8_t)kind;
  } else if (read_word(json, "true")) {
    json->node[self].kind = FN_JSON_TRUE;
  } else if (read_word(json, "false")) {
    json->node[self].kind = FN_JSON_FALSE;
  } else if (!read_word(json, "null")) {
    return 0;
  }
  json->node[self].source_end = (uint32_t)json->at;
  json->node[self].size = (uint32_t)json->at - json->node[self].start;
  return self;
}

bool fn__json_parse(fn_json *json, fn_text source) {
  json->source = source;
  json->at = 0;
  json->count = 0;
  json->decoded.size = 0;
  json->no_memory = false;
  if (source.size > INT32_MAX) return false;
  new_node(json, FN_JSON_NULL); /* number 0 is none */
  return !json->no_memory && read_value(json, 0) != 0;
}

fn_text fn__json_string(const fn_json *json, const fn_json_node *node) {
  if (node->kind == FN_JSON_STRING)
    return (fn_text){json->decoded.data ? json->decoded.data + node->start : "", node->size};
  return (fn_text){json->source.data + node->start, node->size};
}

fn_text fn__json_key(const fn_json *json, const fn_json_node *node) {
  return (fn_text){json->decoded.data ? json->decoded.data + node->key_start : "", node->key_size};
}

bool fn__json_put_string(fn_bytes *out, fn_text text) {
  static const char HEX[] = "0123456789ABCDEF", ESCAPED[] = "\"\\\b\f\n\r\t";
  bool good = fn__bytes_append(out, "\"", 1);
  size_t run = 0;
  for (size_t i = 0; i < text.size && good; i++) {
    unsigned char c = (unsigned char)text.data[i];
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    char escape[6] = {'\\', 'u', '0', '0', HEX[c >> 4], HEX[c & 15]};
    const char *named = memchr(ESCAPED, c, 7);
    size_t size = 6;
    if (named) {
      escape[1] = "\"\\bfnrt"[named - ESCAPED];
      size = 2;
    }
    good = fn__bytes_append(out, text.data + run, i - run) && fn__bytes_append(out, escape, size);
    run = i + 1;
  }
  return good && fn__bytes_append(out, text.data + run, text.size - run) && fn__bytes_append(out, "\"", 1);
}

bool fn__json_put(fn_bytes *out, const fn_json *json, uint32_t index) {
  const fn_json_node *node = &json->node[index];
  fn_text text = fn__json_string(json, node);
  double value;
  char number[FN_DOUBLE_TEXT_MAX];
  switch (node->kind) {
  case FN_JSON_STRING: return fn__json_put_string(out, text);
  case FN_JSON_FLOAT:
    if (!fn__double_parse(text, &value)) return fn__bytes_append(out, text.data, text.size);
    return fn__bytes_append(out, number, fn__double_print(value, number));
  case FN_JSON_ARRAY:
  case FN_JSON_OBJECT: {
    bool object = node->kind == FN_JSON_OBJECT, good = fn__bytes_append(out, object ? "{" : "[", 1);
    for (uint32_t child = node->child; child && good; child = json->node[child].next) {
      if (child != node->child) good = fn__bytes_append(out, ",", 1);
      if (good && object)
        good = fn__json_put_string(out, fn__json_key(json, &json->node[child])) && fn__bytes_append(out, ":", 1);
      good = good && fn__json_put(out, json, child);
    }
    return good && fn__bytes_append(out, object ? "}" : "]", 1);
  }
  default: return fn__bytes_append(out, text.data, text.size);
  }
}
