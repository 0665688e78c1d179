/* schema_of_json(text): the type of a JSON text in SQL's words, as Spark infers it. */
#include "functions/decimal.h"
#include "functions/frame.h"
#include "functions/json.h"
#include "functions/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A text of the type is kept for every node: types are small, and merging them is merging texts' trees. */
typedef enum shape { NOTHING, BOOLEAN, BIGINT, DECIMAL, DOUBLE, STRING, ARRAY, STRUCT } shape;

typedef struct guess guess;
struct guess {
  shape shape;
  int digits;      /* of a decimal without a fraction */
  guess *children; /* of an array: one; of a struct: a list by name */
  guess *next;
  fn_text name;
};

typedef struct inference {
  fn_json json;
  guess *pool; /* all of them, freed at once */
  uint32_t used, capacity;
  bool strings; /* primitivesAsString */
  bool failed;
} inference;

static guess *new_guess(inference *f, shape what) {
  if (f->used == f->capacity) {
    f->failed = true;
    return NULL;
  }
  guess *g = &f->pool[f->used++];
  *g = (guess){.shape = what};
  return g;
}

static int name_order(fn_text a, fn_text b) {
  size_t size = a.size < b.size ? a.size : b.size;
  int order = size ? memcmp(a.data, b.data, size) : 0;
  return order ? order : (a.size > b.size) - (a.size < b.size);
}

static guess *merge(inference *f, guess *a, guess *b, int depth);

static void add_field(inference *f, guess *row, guess *field, int depth) {
  guess **at = &row->children;
  while (*at && name_order((*at)->name, field->name) < 0) at = &(*at)->next;
  if (*at && name_order((*at)->name, field->name) == 0) {
    guess *next = (*at)->next, *both = merge(f, *at, field, depth + 1);
    if (!both) return;
    fn_text name = field->name;
    *at = both;
    both->next = next;
    both->name = name;
    return;
  }
  field->next = *at;
  *at = field;
}

/* Gives one of the two, changed. */
static guess *merge(inference *f, guess *a, guess *b, int depth) {
  if (f->failed || depth > FN_NESTING_MAX) return NULL;
  if (a->shape == NOTHING) return b;
  if (b->shape == NOTHING) return a;
  if (a->shape == STRUCT && b->shape == STRUCT) {
    for (guess *field = b->children, *next; field; field = next) {
      next = field->next;
      add_field(f, a, field, depth);
    }
    return a;
  }
  if (a->shape == ARRAY && b->shape == ARRAY) {
    a->children = merge(f, a->children, b->children, depth + 1);
    return a->children ? a : NULL;
  }
  bool numbers = a->shape >= BIGINT && a->shape <= DOUBLE && b->shape >= BIGINT && b->shape <= DOUBLE;
  if (numbers) {
    if (a->shape == BIGINT) a->digits = 20;
    int other = b->shape == BIGINT ? 20 : b->digits;
    a->digits = a->digits > other ? a->digits : other;
    a->shape = a->shape > b->shape ? a->shape : b->shape;
    return a;
  }
  if (a->shape != b->shape) *a = (guess){.shape = STRING, .name = a->name, .next = a->next};
  return a;
}

static guess *guess_of(inference *f, uint32_t index, int depth);

static guess *number_guess(inference *f, const fn_json_node *node) {
  fn_text text = fn__json_string(&f->json, node);
  int64_t value;
  if (f->strings) return new_guess(f, STRING);
  if (node->kind == FN_JSON_FLOAT) return new_guess(f, DOUBLE);
  if (fn__int_parse(text, false, &value)) return new_guess(f, BIGINT);
  size_t digits = text.size - (text.size && (text.data[0] == '-' || text.data[0] == '+'));
  guess *g = new_guess(f, digits <= FN_DIGITS_MAX ? DECIMAL : DOUBLE);
  if (g) g->digits = (int)digits;
  return g;
}

static guess *container_guess(inference *f, const fn_json_node *node, int depth) {
  bool array = node->kind == FN_JSON_ARRAY;
  guess *g = new_guess(f, array ? ARRAY : STRUCT);
  if (g && array) g->children = new_guess(f, NOTHING);
  for (uint32_t i = node->child; i && !f->failed; i = f->json.node[i].next) {
    guess *child = guess_of(f, i, depth + 1);
    if (!child) return NULL;
    if (array) {
      g->children = merge(f, g->children, child, depth + 1);
    } else {
      child->name = fn__json_key(&f->json, &f->json.node[i]);
      add_field(f, g, child, depth);
    }
  }
  return f->failed ? NULL : g;
}

static guess *guess_of(inference *f, uint32_t index, int depth) {
  const fn_json_node *node = &f->json.node[index];
  if (depth > FN_NESTING_MAX) f->failed = true;
  if (f->failed) return NULL;
  switch (node->kind) {
  case FN_JSON_NULL: return new_guess(f, NOTHING);
  case FN_JSON_TRUE:
  case FN_JSON_FALSE: return new_guess(f, f->strings ? STRING : BOOLEAN);
  case FN_JSON_STRING: return new_guess(f, STRING);
  case FN_JSON_ARRAY:
  case FN_JSON_OBJECT: return container_guess(f, node, depth);
  default: return number_guess(f, node);
  }
}

static bool put(fn_bytes *out, const char *text) {
  return fn__bytes_append(out, text, strlen(text));
}

static bool is_plain_name(fn_text name) {
  for (size_t i = 0; i < name.size; i++) {
    char c = name.data[i];
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && !(i > 0 && c >= '0' && c <= '9')) return false;
  }
  return name.size > 0;
}

static bool put_name(fn_bytes *out, fn_text name) {
  if (is_plain_name(name)) return fn__bytes_append(out, name.data, name.size);
  bool good = put(out, "`");
  for (size_t i = 0; i < name.size && good; i++)
    good = (name.data[i] != '`' || put(out, "`")) && fn__bytes_append(out, name.data + i, 1);
  return good && put(out, "`");
}

static bool put_guess(fn_bytes *out, const guess *g) {
  static const char *const NAMES[] = {"STRING", "BOOLEAN", "BIGINT", "DECIMAL", "DOUBLE", "STRING"};
  char text[32];
  if (g->shape == DECIMAL) {
    snprintf(text, sizeof text, "DECIMAL(%d,0)", g->digits);
    return put(out, text);
  }
  if (g->shape == ARRAY) return put(out, "ARRAY<") && put_guess(out, g->children) && put(out, ">");
  if (g->shape != STRUCT) return put(out, NAMES[g->shape]);
  bool good = put(out, "STRUCT<");
  for (const guess *field = g->children; field && good; field = field->next)
    good = put_name(out, field->name) && put(out, ": ") && put_guess(out, field) &&
           (!field->next || put(out, ", "));
  return good && put(out, ">");
}

static trn_status schema_of_json(fn_call *call) {
  inference f = {.strings = call->count > 1 && fn__get_bool(&call->columns[1], 0)};
  fn_bytes text = {0};
  trn_status status = TRN_OK;
  for (int64_t row = 0; row < call->rows && status == TRN_OK; row++) {
    if (fn__row_is_null(&call->out, row)) {
      fn__push_end(&call->out, 0);
      continue;
    }
    if (!fn__json_parse(&f.json, fn__trim_all(fn__get_text(&call->columns[0], row)))) {
      status = f.json.no_memory ? fn__raise_out_of_memory(&call->report)
                                : fn__raise(&call->report, "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION", "badRecord",
                                            "[null]", "failFastMode", "FAILFAST", NULL);
      break;
    }
    free(f.pool);
    f.used = 0;
    f.failed = false;
    f.capacity = 2 * f.json.count + 2; /* an array's element is one more */
    f.pool = malloc((size_t)f.capacity * sizeof *f.pool);
    const guess *g = f.pool ? guess_of(&f, 1, 0) : NULL;
    text.size = 0;
    if (!g || !put_guess(&text, g))
      status = fn__raise_out_of_memory(&call->report);
    else
      fn__push(&call->out, text.data, text.size);
  }
  free(f.pool);
  fn__bytes_clear(&text);
  fn__json_clear(&f.json);
  return status;
}

FN_BIND(schema, "s|b", fn__type(FN_STRING))

const fn_scalar fn__json_schema_table[] = {
    {"trn.schema_of_json", TRN_IMMUTABLE, FN_STRICT, 0, bind_schema, schema_of_json},
    {NULL},
};
