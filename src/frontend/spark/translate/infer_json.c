/* What JSON records hold, as Spark's JsonInferSchema finds it: types that grow with each record. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/query.h"
#include "frontend/spark/translate/infer.h"

enum { SCRATCH_BYTES = 4 << 20 };

typedef enum shape_kind { SHAPE_NULL = 0, SHAPE_BOOL, SHAPE_LONG, SHAPE_DECIMAL, SHAPE_DOUBLE, SHAPE_STRING, SHAPE_ARRAY, SHAPE_STRUCT } shape_kind;

typedef struct shape shape;
typedef struct shape_field {
  const char *name;
  shape *value;
} shape_field;
struct shape {
  shape_kind kind;
  int digits, scale;      /* of a decimal */
  shape *element;         /* of an array */
  shape_field **fields;   /* of a struct, in order of names */
  size_t count, capacity;
};

typedef struct parser {
  spark_translator *t;
  trn_arena *arena; /* of the record; or t's, while what it has is kept */
  const spark_text_options *options;
  const char *at, *end;
  char *text; /* a string, taken apart */
  size_t size, room;
  bool no_memory;
} parser;

/* ---- shapes that hold two ---- */

static shape *make(parser *p, shape_kind kind) {
  shape *s = TRN_NEW(p->arena, shape);
  if (s) s->kind = kind;
  else p->no_memory = true;
  return s;
}

/* The field of a name; made when it is not there. */
static shape_field *field_of(parser *p, shape *s, const char *name, size_t size, bool *is_new) {
  size_t low = 0, high = s->count;
  while (low < high) {
    size_t middle = (low + high) / 2, length = strlen(s->fields[middle]->name);
    int order = memcmp(s->fields[middle]->name, name, length < size ? length : size);
    if (!order) order = length < size ? -1 : length > size;
    if (!order) {
      *is_new = false;
      return s->fields[middle];
    }
    if (order < 0) low = middle + 1;
    else high = middle;
  }
  if (s->count == s->capacity) {
    size_t capacity = s->capacity ? 2 * s->capacity : 8;
    shape_field **grown = TRN_NEW_N(p->arena, shape_field *, capacity);
    if (grown && s->count) memcpy(grown, s->fields, s->count * sizeof *grown);
    if (grown) s->fields = grown, s->capacity = capacity;
    else p->no_memory = true;
  }
  shape_field *field = p->no_memory ? NULL : TRN_NEW(p->arena, shape_field);
  if (field) field->name = trn__arena_str(p->arena, name, size);
  if (!field || !field->name) {
    p->no_memory = true;
    return NULL;
  }
  memmove(&s->fields[low + 1], &s->fields[low], (s->count - low) * sizeof *s->fields);
  s->fields[low] = field;
  s->count++;
  *is_new = true;
  return field;
}

static shape *copy(parser *p, const shape *s, unsigned depth) {
  shape *out = make(p, s->kind);
  if (!out || depth > TRN_TYPE_DEPTH_MAX) return out;
  out->digits = s->digits, out->scale = s->scale;
  if (s->element) out->element = copy(p, s->element, depth + 1);
  for (size_t i = 0; i < s->count && !p->no_memory; i++) {
    bool is_new = false;
    shape_field *field = field_of(p, out, s->fields[i]->name, strlen(s->fields[i]->name), &is_new);
    if (field) field->value = copy(p, s->fields[i]->value, depth + 1);
  }
  return out;
}

static void merge(parser *p, shape *a, const shape *b, unsigned depth);

static void merge_structs(parser *p, shape *a, const shape *b, unsigned depth) {
  for (size_t i = 0; i < b->count && !p->no_memory; i++) {
    bool is_new = false;
    shape_field *field = field_of(p, a, b->fields[i]->name, strlen(b->fields[i]->name), &is_new);
    if (field && is_new) field->value = copy(p, b->fields[i]->value, depth + 1);
    else if (field) merge(p, field->value, b->fields[i]->value, depth + 1);
  }
}

/* Both are exact, and one is a decimal. */
static void merge_decimals(shape *a, const shape *b) {
  int digits = a->kind == SHAPE_LONG ? 20 : a->digits, scale = a->kind == SHAPE_LONG ? 0 : a->scale;
  int other = b->kind == SHAPE_LONG ? 20 : b->digits, other_scale = b->kind == SHAPE_LONG ? 0 : b->scale;
  int whole = digits - scale > other - other_scale ? digits - scale : other - other_scale;
  a->scale = scale > other_scale ? scale : other_scale;
  a->digits = whole + a->scale;
  a->kind = a->digits > 38 ? SHAPE_DOUBLE : SHAPE_DECIMAL;
}

/* `a` grows so that it holds `b` too, of which nothing is kept. */
static void merge(parser *p, shape *a, const shape *b, unsigned depth) {
  if (!a || !b || b->kind == SHAPE_NULL || a->kind == SHAPE_STRING) return;
  if (a->kind == SHAPE_NULL) {
    shape *same = copy(p, b, depth);
    if (same) *a = *same;
    return;
  }
  bool exact = a->kind >= SHAPE_LONG && a->kind <= SHAPE_DECIMAL && b->kind >= SHAPE_LONG && b->kind <= SHAPE_DECIMAL;
  bool numbers = a->kind >= SHAPE_LONG && a->kind <= SHAPE_DOUBLE && b->kind >= SHAPE_LONG && b->kind <= SHAPE_DOUBLE;
  if (depth > TRN_TYPE_DEPTH_MAX) a->kind = SHAPE_STRING;
  else if (a->kind == SHAPE_STRUCT && b->kind == SHAPE_STRUCT) merge_structs(p, a, b, depth);
  else if (a->kind == SHAPE_ARRAY && b->kind == SHAPE_ARRAY) merge(p, a->element, b->element, depth + 1);
  else if (exact && (a->kind == SHAPE_DECIMAL || b->kind == SHAPE_DECIMAL)) merge_decimals(a, b);
  else if (numbers) a->kind = a->kind > b->kind ? a->kind : b->kind;
  else if (a->kind != b->kind) a->kind = SHAPE_STRING;
}

/* ---- one value ---- */

/* Behind the comment at `at`, or NULL when there is none. */
static const char *after_comment(const char *at, const char *end) {
  if (end - at < 2 || *at != '/') return NULL;
  if (at[1] == '/') {
    const char *line = memchr(at, '\n', (size_t)(end - at));
    return line ? line : end;
  }
  const char *close = at[1] == '*' ? memmem(at + 2, (size_t)(end - at - 2), "*/", 2) : NULL;
  return close ? close + 2 : NULL;
}

static void blanks(parser *p) {
  for (const char *after; p->at < p->end; p->at = after) {
    after = *p->at && strchr(" \t\r\n", *p->at) ? p->at + 1 : p->options->comments ? after_comment(p->at, p->end) : NULL;
    if (!after) return;
  }
}

static bool add(parser *p, char c) {
  if (p->size + 1 > p->room) {
    size_t room = p->room ? 2 * p->room : 256;
    char *grown = realloc(p->text, room);
    if (!grown) {
      p->no_memory = true;
      return false;
    }
    p->text = grown, p->room = room;
  }
  p->text[p->size++] = c;
  return true;
}

static bool add_code(parser *p, uint32_t code) {
  if (code < 0x80) return add(p, (char)code);
  if (code < 0x800) return add(p, (char)(0xC0 | code >> 6)) && add(p, (char)(0x80 | (code & 0x3F)));
  return add(p, (char)(0xE0 | code >> 12)) && add(p, (char)(0x80 | (code >> 6 & 0x3F))) && add(p, (char)(0x80 | (code & 0x3F)));
}

/* A text in either quotes, into p->text. */
static bool string(parser *p) {
  char quote = *p->at++;
  p->size = 0;
  while (p->at < p->end && *p->at != quote) {
    char c = *p->at++;
    if ((unsigned char)c < 0x20) return false;
    if (c != '\\') {
      if (!add(p, c)) return false;
      continue;
    }
    if (p->at == p->end) return false;
    c = *p->at++;
    const char *known = "\"\\/bfnrt'", *values = "\"\\/\b\f\n\r\t'", *found = c ? strchr(known, c) : NULL;
    if (c == 'u') {
      char hex[5] = {0}, *stop;
      if (p->end - p->at < 4) return false;
      memcpy(hex, p->at, 4);
      uint32_t code = (uint32_t)strtoul(hex, &stop, 16);
      if (stop != hex + 4) return false;
      p->at += 4;
      if (!add_code(p, code)) return false;
    } else if (!found || !add(p, values[found - known])) {
      return false;
    }
  }
  if (p->at == p->end) return false;
  p->at++;
  return true;
}

static shape *number(parser *p) {
  const char *start = p->at;
  bool real = false;
  int whole = 0, fraction = 0;
  if (*p->at == '-') p->at++;
  const char *first = p->at;
  for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) whole++;
  if (!whole || (whole > 1 && *first == '0')) return NULL;
  if (p->at < p->end && *p->at == '.') {
    real = true;
    for (p->at++; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) fraction++;
    if (!fraction) return NULL;
  }
  bool exponent = p->at < p->end && (*p->at == 'e' || *p->at == 'E');
  if (exponent) {
    real = true;
    p->at++;
    if (p->at < p->end && (*p->at == '-' || *p->at == '+')) p->at++;
    const char *digits = p->at;
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9') p->at++;
    if (p->at == digits) return NULL;
  }
  if (p->options->strings) return make(p, SHAPE_STRING);
  shape *s = make(p, SHAPE_DOUBLE);
  if (!s || exponent) return s;
  if (real) {
    if (!p->options->prefers_decimal) return s;
    int digits = *first == '0' ? fraction : whole + fraction;
    if (digits <= 38) s->kind = SHAPE_DECIMAL, s->digits = digits > fraction ? digits : fraction, s->scale = fraction;
    return s;
  }
  bool fits = whole < 19 || (whole == 19 && memcmp(first, *start == '-' ? "9223372036854775808" : "9223372036854775807", 19) <= 0);
  if (fits) s->kind = SHAPE_LONG;
  else if (whole <= 38) s->kind = SHAPE_DECIMAL, s->digits = whole;
  return s;
}

static shape *value(parser *p, unsigned depth);

static shape *object(parser *p, unsigned depth) {
  shape *s = make(p, SHAPE_STRUCT);
  p->at++;
  blanks(p);
  if (s && p->at < p->end && *p->at == '}') return p->at++, s;
  while (s && p->at < p->end) {
    bool is_new = false;
    blanks(p);
    if (p->at == p->end || (*p->at != '"' && *p->at != '\'') || !string(p)) return NULL;
    shape_field *field = field_of(p, s, p->text ? p->text : "", p->size, &is_new);
    blanks(p);
    if (!field || p->at == p->end || *p->at++ != ':') return NULL;
    shape *inner = value(p, depth + 1);
    if (!inner) return NULL;
    if (is_new) field->value = inner;
    else merge(p, field->value, inner, depth + 1);
    blanks(p);
    if (p->at == p->end) return NULL;
    if (*p->at == '}') return p->at++, s;
    if (*p->at++ != ',') return NULL;
  }
  return NULL;
}

static shape *array(parser *p, unsigned depth) {
  shape *s = make(p, SHAPE_ARRAY);
  if (s) s->element = make(p, SHAPE_NULL);
  p->at++;
  blanks(p);
  if (s && p->at < p->end && *p->at == ']') return p->at++, s;
  while (s && p->at < p->end) {
    shape *inner = value(p, depth + 1);
    if (!inner) return NULL;
    merge(p, s->element, inner, depth + 1);
    blanks(p);
    if (p->at == p->end) return NULL;
    if (*p->at == ']') return p->at++, s;
    if (*p->at++ != ',') return NULL;
  }
  return NULL;
}

static bool word(parser *p, const char *text) {
  size_t size = strlen(text);
  if ((size_t)(p->end - p->at) < size || memcmp(p->at, text, size) != 0) return false;
  p->at += size;
  return true;
}

/* NULL: it is malformed, or memory is out. */
static shape *value(parser *p, unsigned depth) {
  blanks(p);
  if (p->at == p->end || depth > TRN_TYPE_DEPTH_MAX) return NULL;
  switch (*p->at) {
  case '{': return object(p, depth);
  case '[': return array(p, depth);
  case '"':
  case '\'': return string(p) ? make(p, SHAPE_STRING) : NULL;
  default: break;
  }
  if (word(p, "null")) return make(p, SHAPE_NULL);
  if (word(p, "true") || word(p, "false")) return make(p, p->options->strings ? SHAPE_STRING : SHAPE_BOOL);
  if (word(p, "NaN") || word(p, "Infinity") || word(p, "-Infinity") || word(p, "+INF") || word(p, "INF") || word(p, "-INF"))
    return make(p, SHAPE_DOUBLE);
  return *p->at == '-' || (*p->at >= '0' && *p->at <= '9') ? number(p) : NULL;
}

/* ---- types ---- */

/* NULL in *out: nothing is known of it (a struct without fields). */
static trn_status type_of(parser *p, const shape *s, const trn_type **out, trn_error **error) {
  trn_arena *arena = p->t->arena;
  const trn_type *inner = NULL;
  trn_status status = TRN_OK;
  switch (s->kind) {
  case SHAPE_BOOL: *out = trn__type(TRN_TYPE_BOOL); return TRN_OK;
  case SHAPE_LONG: *out = trn__type(TRN_TYPE_INT64); return TRN_OK;
  case SHAPE_DOUBLE: *out = trn__type(TRN_TYPE_FLOAT64); return TRN_OK;
  case SHAPE_DECIMAL: *out = trn__type_decimal(arena, s->digits, s->scale); break;
  case SHAPE_ARRAY:
    status = type_of(p, s->element, &inner, error);
    *out = inner ? trn__type_array(arena, inner, true) : NULL;
    return status || !inner || *out ? status : trn__no_memory(error);
  case SHAPE_STRUCT: {
    trn_field *fields = TRN_NEW_N(arena, trn_field, s->count);
    size_t count = 0;
    if (!fields) return trn__no_memory(error);
    for (size_t i = 0; i < s->count && !status; i++) {
      status = type_of(p, s->fields[i]->value, &inner, error);
      if (!status && inner) fields[count++] = (trn_field){.name = s->fields[i]->name, .type = inner, .nullable = true};
    }
    if (status) return status;
    *out = count ? trn__type_struct(arena, fields, count) : NULL;
    return *out || !count ? TRN_OK : trn__no_memory(error);
  }
  default: *out = trn__type(TRN_TYPE_STRING); return TRN_OK;
  }
  return *out ? TRN_OK : trn__no_memory(error);
}

/* ---- the whole ---- */

typedef struct gathered {
  parser *p;
  shape *root;
  bool corrupt;
  trn_error **error;
} gathered;

static trn_status malformed(gathered *g) {
  const trn_error_param params[] = {{"badRecord", g->p->options->corrupt}, {"failFastMode", "FAILFAST"}};
  const trn_error_spec spec = {.struct_size = sizeof spec, .status = TRN_INVALID_ARGUMENT,
                               .condition = "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION", .params = params, .param_count = 2};
  if (g->error) *g->error = trn_error_create(&spec);
  return TRN_INVALID_ARGUMENT;
}

/* Memory is out; or it is not given any more, because what the thread works for is cancelled. */
static trn_status no_memory(trn_error **error) {
  return trn_cancel_is_requested(trn_cancel_of_work()) ? trn__cancelled(error) : trn__no_memory(error);
}

/* The arena of a record's shapes, a new one when it has grown. */
static trn_status scratch(parser *p, trn_error **error) {
  if (p->arena && trn__arena_bytes(p->arena) <= SCRATCH_BYTES) return TRN_OK;
  trn__arena_unref(p->arena);
  p->arena = trn__arena_create(0);
  if (p->arena) trn__arena_watch(p->arena, trn_cancel_of_work());
  return p->arena ? TRN_OK : trn__no_memory(error);
}

/* A file's array, whose elements are records: what holds them all is kept, their own shapes are not. NULL as value. */
static shape *file_array(parser *p) {
  shape *all = TRN_NEW(p->t->arena, shape);
  p->no_memory |= !all;
  p->at++;
  blanks(p);
  if (all && p->at < p->end && *p->at == ']') return p->at++, all;
  while (!p->no_memory && p->at < p->end) {
    if (scratch(p, NULL)) p->no_memory = true;
    shape *inner = p->no_memory ? NULL : value(p, 1);
    if (!inner) return NULL;
    trn_arena *own = p->arena;
    p->arena = p->t->arena;
    merge(p, all, inner, 1);
    p->arena = own;
    blanks(p);
    if (p->at == p->end) return NULL;
    if (*p->at == ']') return p->at++, all;
    if (*p->at++ != ',') return NULL;
  }
  return NULL;
}

static trn_status look_at(gathered *g, const char *text, size_t size) {
  parser *p = g->p;
  p->at = text, p->end = text + size;
  if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) p->at += 3;
  blanks(p);
  if (p->at == p->end) return TRN_OK;
  bool by_elements = p->options->multi_line && *p->at == '[';
  shape *found = by_elements ? file_array(p) : value(p, 0);
  if (p->no_memory) return no_memory(g->error);
  if (!by_elements && found && found->kind == SHAPE_ARRAY) found = found->element;
  if (found && found->kind == SHAPE_NULL) return TRN_OK;
  if (!found || found->kind != SHAPE_STRUCT) {
    if (p->options->fails_fast) return malformed(g);
    g->corrupt |= !p->options->drops_malformed;
    return TRN_OK;
  }
  trn_arena *scratch = p->arena;
  p->arena = p->t->arena;
  if (!g->root) g->root = make(p, SHAPE_NULL);
  merge(p, g->root, found, 0);
  p->arena = scratch;
  return p->no_memory ? trn__no_memory(g->error) : TRN_OK;
}

static trn_status look_at_file(gathered *g, const char *path) {
  spark_records records;
  const char *text;
  size_t size;
  trn_status status = TRN_OK;
  const spark_text_options *options = g->p->options;
  bool open = spark__records_open(&records, path, options, options->multi_line ? SPARK_CUT_FILE : SPARK_CUT_LINES);
  while (open && !status && spark__records_next(&records, &text, &size)) {
    status = scratch(g->p, g->error);
    if (!status) status = look_at(g, text, size);
    if (!status && g->p->t->is_cancelled && g->p->t->is_cancelled(g->p->t->cancel_user))
      status = trn_error_set(g->error, TRN_CANCELLED, NULL, "The query was cancelled");
  }
  if (!status) status = spark__records_status(g->p->t, &records, path, g->error);
  spark__records_close(&records);
  return status;
}

/* ---- records ---- */

/* The elements of the array at p->at go to `take`. *whole: it is an array. */
static trn_status elements(parser *p, trn_vec *bounds, bool *whole, trn_error **error) {
  *whole = false;
  for (p->at++;; p->at++) {
    trn_status status = scratch(p, error);
    if (status) return status;
    blanks(p);
    if (!bounds->count && p->at < p->end && *p->at == ']') break;
    const char *start = p->at;
    if (p->at == p->end || *p->at != '{' || !value(p, 1)) return p->no_memory ? no_memory(error) : TRN_OK;
    if (!trn__vec_push(bounds, (void *)start) || !trn__vec_push(bounds, (void *)p->at)) return trn__no_memory(error);
    blanks(p);
    if (p->at == p->end || (*p->at != ',' && *p->at != ']')) return TRN_OK;
    if (*p->at == ']') break;
  }
  p->at++;
  *whole = true;
  return TRN_OK;
}

/* The text with blanks for its comments. */
static char *without_comments(const char *text, size_t size) {
  char *out = malloc(size + 1), quote = 0;
  if (!out) return NULL;
  memcpy(out, text, size);
  bool closes = true; /* behind a comment without an end no other has one */
  for (size_t i = 0; i < size; i++) {
    bool opens = !quote && size - i >= 2 && text[i] == '/' && text[i + 1] == '*';
    const char *after = quote || (opens && !closes) ? NULL : after_comment(text + i, text + size);
    if (opens && !after) closes = false;
    if (after) {
      memset(out + i, ' ', (size_t)(after - text) - i);
      i = (size_t)(after - text) - 1;
    } else if (quote) {
      if (text[i] == '\\') i++;
      else if (text[i] == quote) quote = 0;
    } else if (text[i] == '"' || text[i] == '\'') {
      quote = text[i];
    }
  }
  return out;
}

static trn_status take_records(parser *p, spark_take_record *take, void *user, trn_error **error) {
  trn_vec bounds = {0};
  bool whole = false;
  const char *text = p->at;
  if (p->end - p->at >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) p->at += 3;
  blanks(p);
  const char *start = p->at;
  if (start == p->end) return TRN_OK;
  bool is_array = *start == '[', is_object = *start == '{';
  trn_status status = scratch(p, error);
  if (!status && is_array) status = elements(p, &bounds, &whole, error);
  if (!status && is_object && p->options->multi_line) { /* what is behind the first value does not count */
    whole = value(p, 0) != NULL;
    if (p->no_memory) status = no_memory(error);
  }
  if (!status && !whole) status = take(user, text, (size_t)(p->end - text));
  else if (!status && !is_array) status = take(user, start, (size_t)(p->at - start));
  for (size_t i = 0; whole && i + 1 < bounds.count && !status; i += 2)
    status = take(user, bounds.items[i], (size_t)((const char *)bounds.items[i + 1] - (const char *)bounds.items[i]));
  trn__vec_finish(&bounds);
  return status;
}

trn_status spark__json_records(spark_translator *t, const spark_text_options *options, const char *text, size_t size,
                               spark_take_record *take, void *user, trn_error **error) {
  char *plain = options->comments ? without_comments(text, size) : NULL;
  if (options->comments && !plain) return trn__no_memory(error);
  if (plain) text = plain;
  parser p = {.t = t, .options = options, .at = text, .end = text + size};
  trn_status status = take_records(&p, take, user, error);
  trn__arena_unref(p.arena);
  free(p.text);
  free(plain);
  return status;
}

static trn_status check_names(spark_translator *t, const trn_type *type, trn_error **error) {
  for (uint32_t i = 1; i < type->field_count; i++)
    for (uint32_t k = 0; k < i; k++)
      if (spark__name_equal(t, type->fields[i].name, type->fields[k].name)) {
        char *name = trn__arena_printf(t->arena, "`%s`", type->fields[i].name);
        for (char *c = name; c && *c; c++)
          if (*c >= 'A' && *c <= 'Z') *c = (char)(*c + 32);
        return name ? spark__error(t, error, TRN_INVALID_ARGUMENT, "COLUMN_ALREADY_EXISTS", (trn_position){-1, -1}, "columnName",
                                   name, NULL)
                    : trn__no_memory(error);
      }
  return TRN_OK;
}

trn_status spark__infer_json(spark_translator *t, const trn_vec *files, const spark_text_options *options,
                             const trn_type **out, trn_error **error) {
  parser p = {.t = t, .options = options};
  gathered g = {.p = &p, .error = error};
  trn_status status = TRN_OK;
  for (size_t i = 0; i < files->count && !status; i++) status = look_at_file(&g, files->items[i]);
  trn__arena_unref(p.arena);
  p.arena = t->arena;
  if (g.root && g.root->kind == SHAPE_NULL) g.root->kind = SHAPE_STRUCT;
  if (!status && !g.root && !(g.root = make(&p, SHAPE_STRUCT))) status = trn__no_memory(error);
  if (!status && g.corrupt) {
    bool is_new = false;
    shape_field *field = field_of(&p, g.root, options->corrupt, strlen(options->corrupt), &is_new);
    if (field && is_new) field->value = make(&p, SHAPE_STRING);
    if (p.no_memory) status = trn__no_memory(error);
  }
  *out = NULL;
  if (!status) status = type_of(&p, g.root, out, error);
  if (!status && !*out && !(*out = trn__type_struct(t->arena, NULL, 0))) status = trn__no_memory(error);
  if (!status) status = check_names(t, *out, error);
  free(p.text);
  return status;
}
