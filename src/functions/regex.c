#include "functions/regex.h"
#include "functions/text.h"
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 250
#define PROGRAM_MAX 65536
#define NODES_MAX 32768
#define REPEAT_MAX 1000
#define STACK_MAX ((size_t)1 << 23)
#define NAME_MAX_SIZE 31

typedef enum node_kind { EMPTY, CHAR, ANY, SET, CAT, ALT, REPEAT, GROUP, ASSERT, LOOK, ATOMIC, BACKREF } node_kind;
enum { GREEDY, LAZY, POSSESSIVE };
enum { IGNORE_CASE = 1, DOT_ALL = 2, MULTILINE = 4 };
typedef struct node {
  uint8_t kind, mode, flags;
  bool negative;
  uint32_t value; /* character, set, group, assertion */
  int32_t left, right, least, most;
  int32_t next; /* the sequence's next item; 0: none (node 0 is never one) */
} node;

typedef struct range {
  uint32_t low, high;
} range;
typedef struct set {
  uint32_t first, count;
  bool negated, ignore_case;
} set;

typedef enum opcode {
  O_CHAR,
  O_CHAR_ANY_CASE,
  O_ANY,
  O_ALL,
  O_SET,
  O_SPLIT,
  O_JUMP,
  O_SAVE,
  O_ASSERT,
  O_LOOK,
  O_ATOMIC,
  O_BACKREF,
  O_MARK,
  O_CHECK,
  O_MATCH
} opcode;
typedef struct instruction {
  uint8_t op, flags;
  uint32_t x, y;
} instruction;

typedef struct frame { /* pc >= 0: go on there at pos; else slot -1 - pc was pos */
  int64_t pc, pos;
} frame;

struct fn_regex {
  node *nodes;
  int32_t node_count;
  range *ranges;
  uint32_t range_count, range_capacity;
  set *sets;
  uint32_t set_count, set_capacity;
  instruction *program;
  uint32_t size;
  uint32_t groups, marks;
  char names[FN_REGEX_GROUPS_MAX][NAME_MAX_SIZE + 1];
  fn_regex_status status;
  /* matching */
  int64_t *slots;
  frame *stack;
  size_t stack_size, stack_capacity;
  int64_t steps;
};

/* ---- building ---- */
static int32_t new_node(fn_regex *r, node n) {
  if (r->node_count == NODES_MAX) {
    r->status = FN_REGEX_UNSUPPORTED;
    return 0;
  }
  r->nodes[r->node_count] = n;
  return r->node_count++;
}

/* Appends an item to a CAT; gives the item, the last now. */
static int32_t chain(fn_regex *r, int32_t sequence, int32_t last, int32_t item) {
  *(last ? &r->nodes[last].next : &r->nodes[sequence].left) = item;
  return item;
}

static void add_range(fn_regex *r, uint32_t low, uint32_t high) {
  if (r->range_count == r->range_capacity) {
    uint32_t capacity = r->range_capacity ? r->range_capacity * 2 : 32;
    range *grown = capacity <= 1u << 20 ? realloc(r->ranges, capacity * sizeof *grown) : NULL;
    if (!grown) {
      r->status = FN_REGEX_NO_MEMORY;
      return;
    }
    r->ranges = grown;
    r->range_capacity = capacity;
  }
  r->ranges[r->range_count++] = (range){low, high};
}

static uint32_t add_set(fn_regex *r, set s) {
  if (r->set_count == r->set_capacity) {
    uint32_t capacity = r->set_capacity ? r->set_capacity * 2 : 16;
    set *grown = realloc(r->sets, capacity * sizeof *grown);
    if (!grown) {
      r->status = FN_REGEX_NO_MEMORY;
      return 0;
    }
    r->sets = grown;
    r->set_capacity = capacity;
  }
  r->sets[r->set_count] = s;
  return r->set_count++;
}

/* ---- parsing ---- */
typedef struct parser {
  fn_regex *r;
  fn_text text;
  size_t at;
  int depth;
  uint8_t flags;
} parser;

static bool more(const parser *p) {
  return p->at < p->text.size;
}
static char peek(const parser *p) {
  return more(p) ? p->text.data[p->at] : 0;
}
static bool take(parser *p, char c) {
  if (!more(p) || p->text.data[p->at] != c) return false;
  p->at++;
  return true;
}
static bool take_text(parser *p, const char *text) {
  size_t size = strlen(text);
  if (p->text.size - p->at < size || memcmp(p->text.data + p->at, text, size) != 0) return false;
  p->at += size;
  return true;
}
static uint32_t take_char(parser *p) {
  size_t size;
  uint32_t code = fn__char_decode((fn_text){p->text.data + p->at, p->text.size - p->at}, &size);
  p->at += size;
  return code;
}
static int32_t fail(parser *p, fn_regex_status status) {
  if (p->r->status == FN_REGEX_OK) p->r->status = status;
  return 0;
}

/* Named and lettered sets, as ranges; false: none of that name. */
static const struct {
  const char *name;
  range ranges[6];
  int count;
} SETS[] = {
    {"d", {{'0', '9'}}, 1},
    {"w", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}, 4},
    {"s", {{'\t', '\r'}, {' ', ' '}}, 2},
    {"h", {{'\t', '\t'}, {' ', ' '}, {0xa0, 0xa0}, {0x1680, 0x1680}, {0x2000, 0x200a}, {0x3000, 0x3000}}, 6},
    {"v", {{'\n', '\r'}, {0x85, 0x85}, {0x2028, 0x2029}}, 3},
    {"Lower", {{'a', 'z'}}, 1},
    {"Upper", {{'A', 'Z'}}, 1},
    {"ASCII", {{0, 0x7f}}, 1},
    {"Alpha", {{'A', 'Z'}, {'a', 'z'}}, 2},
    {"Digit", {{'0', '9'}}, 1},
    {"Alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}, 3},
    {"Punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}, 4},
    {"Graph", {{'!', '~'}}, 1},
    {"Print", {{' ', '~'}}, 1},
    {"Blank", {{' ', ' '}, {'\t', '\t'}}, 2},
    {"Cntrl", {{0, 0x1f}, {0x7f, 0x7f}}, 2},
    {"XDigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}, 3},
    {"Space", {{'\t', '\r'}, {' ', ' '}}, 2},
};

static bool add_named(fn_regex *r, const char *name, size_t size, bool negated) {
  for (size_t i = 0; i < sizeof SETS / sizeof SETS[0]; i++) {
    if (strlen(SETS[i].name) != size || memcmp(SETS[i].name, name, size) != 0) continue;
    uint32_t next = 0;
    for (int k = 0; k < SETS[i].count; k++) {
      if (!negated)
        add_range(r, SETS[i].ranges[k].low, SETS[i].ranges[k].high);
      else if (SETS[i].ranges[k].low > next)
        add_range(r, next, SETS[i].ranges[k].low - 1);
      next = SETS[i].ranges[k].high + 1;
    }
    if (negated) add_range(r, next, 0x10ffff);
    return true;
  }
  return false;
}

static int hex_value(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

static uint32_t take_hex(parser *p, int digits) {
  uint32_t value = 0;
  for (int i = 0; i < digits; i++, p->at++) {
    int digit = more(p) ? hex_value(peek(p)) : -1;
    if (digit < 0) return (uint32_t)fail(p, FN_REGEX_INVALID);
    value = value * 16 + (uint32_t)digit;
  }
  return value;
}

/* After a backslash: a set (ranges added; true) or one character (*code). */
static bool take_escape(parser *p, uint32_t *code) {
  char c = peek(p);
  *code = 0;
  if (!more(p)) {
    fail(p, FN_REGEX_INVALID);
    return false;
  }
  if (strchr("dwshvDWSHV", c)) {
    char lower = (char)(c | 32);
    p->at++;
    add_named(p->r, &lower, 1, c != lower);
    return true;
  }
  if (c == 'p' || c == 'P') {
    p->at++;
    const char *close = take(p, '{') ? memchr(p->text.data + p->at, '}', p->text.size - p->at) : NULL;
    const char *name = p->text.data + p->at;
    if (!close || !add_named(p->r, name, (size_t)(close - name), c == 'P')) {
      fail(p, close ? FN_REGEX_UNSUPPORTED : FN_REGEX_INVALID);
      return true;
    }
    p->at = (size_t)(close - p->text.data) + 1;
    return true;
  }
  *code = take_char(p);
  switch (*code) {
  case 't': *code = '\t'; break;
  case 'n': *code = '\n'; break;
  case 'r': *code = '\r'; break;
  case 'f': *code = '\f'; break;
  case 'a': *code = 7; break;
  case 'e': *code = 27; break;
  case '0':
    for (int i = 0; i < 3 && more(p) && peek(p) >= '0' && peek(p) <= '7'; i++)
      *code = (i ? *code : 0) * 8 + (uint32_t)(take_char(p) - '0');
    break;
  case 'u': *code = take_hex(p, 4); break;
  case 'x':
    if (take(p, '{')) {
      for (*code = 0; more(p) && peek(p) != '}' && *code < 0x110000; p->at++)
        *code = *code * 16 + (uint32_t)(hex_value(peek(p)) < 0 ? fail(p, FN_REGEX_INVALID) : hex_value(peek(p)));
      if (!take(p, '}')) fail(p, FN_REGEX_INVALID);
    } else {
      *code = take_hex(p, 2);
    }
    break;
  default:
    if ((*code >= 'a' && *code <= 'z') || (*code >= 'A' && *code <= 'Z')) fail(p, FN_REGEX_INVALID);
  }
  return false;
}

/* After '['. Nested classes are joined. */
static void take_class_body(parser *p, int depth) {
  bool first = true;
  if (depth > 16) {
    fail(p, FN_REGEX_UNSUPPORTED);
    return;
  }
  while (p->r->status == FN_REGEX_OK && (first || peek(p) != ']')) {
    uint32_t low, high;
    if (!more(p)) {
      fail(p, FN_REGEX_INVALID);
      return;
    }
    first = false;
    if (take_text(p, "&&") || (depth > 0 && peek(p) == '^')) {
      fail(p, FN_REGEX_UNSUPPORTED);
      return;
    }
    if (take(p, '[')) {
      take_class_body(p, depth + 1);
      p->at++;
      continue;
    }
    if (take(p, '\\')) {
      if (take_escape(p, &low)) continue;
    } else {
      low = take_char(p);
    }
    high = low;
    if (peek(p) == '-' && p->at + 1 < p->text.size && p->text.data[p->at + 1] != ']' &&
        p->text.data[p->at + 1] != '[') {
      p->at++;
      if (take(p, '\\') ? take_escape(p, &high) : (high = take_char(p), false)) fail(p, FN_REGEX_INVALID);
      if (high < low) fail(p, FN_REGEX_INVALID);
    }
    add_range(p->r, low, high);
  }
  if (!more(p)) fail(p, FN_REGEX_INVALID);
}

static int32_t set_node(parser *p, uint32_t first, bool negated) {
  set s = {first, p->r->range_count - first, negated, p->flags & IGNORE_CASE};
  return new_node(p->r, (node){.kind = SET, .value = add_set(p->r, s)});
}

static int32_t parse_alternatives(parser *p);

/* Flags between (? and ) or :; false: not flags. */
static bool take_flags(parser *p) {
  bool off = false;
  for (; more(p); p->at++) {
    char c = peek(p);
    uint8_t flag = c == 'i' ? IGNORE_CASE : c == 's' ? DOT_ALL : c == 'm' ? MULTILINE : 0;
    if (c == '-' && !off)
      off = true;
    else if (c == ')' || c == ':')
      return true;
    else if (!flag)
      break;
    else
      p->flags = (uint8_t)(off ? p->flags & ~flag : p->flags | flag);
  }
  fail(p, more(p) && strchr("xudU", peek(p)) ? FN_REGEX_UNSUPPORTED : FN_REGEX_INVALID);
  return false;
}

static int32_t new_group(parser *p, fn_text name) {
  if (p->r->groups + 1 >= FN_REGEX_GROUPS_MAX || name.size > NAME_MAX_SIZE) return fail(p, FN_REGEX_UNSUPPORTED);
  int32_t index = (int32_t)++p->r->groups;
  memcpy(p->r->names[index], name.data, name.size);
  return index;
}

/* After '('. */
static int32_t parse_group(parser *p) {
  uint8_t outer = p->flags;
  node n = {.kind = GROUP};
  bool bare = false;
  if (!take(p, '?')) {
    n.value = (uint32_t)new_group(p, (fn_text){"", 0});
  } else if (take(p, ':')) {
    bare = true;
  } else if (take(p, '=') || peek(p) == '!') {
    n = (node){.kind = LOOK, .negative = take(p, '!')};
  } else if (take(p, '>')) {
    n = (node){.kind = ATOMIC};
  } else if (take(p, '<')) {
    if (peek(p) == '=' || peek(p) == '!') return fail(p, FN_REGEX_UNSUPPORTED);
    const char *start = p->text.data + p->at, *close = memchr(start, '>', p->text.size - p->at);
    if (!close || close == start) return fail(p, FN_REGEX_INVALID);
    n.value = (uint32_t)new_group(p, (fn_text){start, (size_t)(close - start)});
    p->at = (size_t)(close - p->text.data) + 1;
  } else {
    bare = true;
    if (!take_flags(p)) return 0;
    if (take(p, ')')) /* for the rest of the enclosing group */
      return new_node(p->r, (node){.kind = EMPTY});
    p->at++;
  }
  int32_t body = parse_alternatives(p);
  if (!take(p, ')')) return fail(p, FN_REGEX_INVALID);
  p->flags = outer;
  n.left = body;
  return bare ? body : new_node(p->r, n);
}

static int32_t parse_backslash(parser *p) {
  char c = peek(p);
  uint32_t code, first = p->r->range_count;
  if (c && strchr("bBAzZG", c)) {
    p->at++;
    return c == 'G' ? fail(p, FN_REGEX_UNSUPPORTED)
                    : new_node(p->r, (node){.kind = ASSERT, .value = (uint32_t)c, .flags = p->flags});
  }
  if (c >= '1' && c <= '9') {
    uint32_t group = 0;
    while (more(p) && peek(p) >= '0' && peek(p) <= '9' &&
           group * 10 + (uint32_t)(peek(p) - '0') <= (group ? p->r->groups : 9))
      group = group * 10 + (uint32_t)(take_char(p) - '0');
    return new_node(p->r, (node){.kind = BACKREF, .value = group, .flags = p->flags});
  }
  if (c == 'Q') {
    p->at++;
    int32_t all = new_node(p->r, (node){.kind = CAT}), last = 0;
    while (more(p) && !take_text(p, "\\E") && p->r->status == FN_REGEX_OK)
      last = chain(p->r, all, last, new_node(p->r, (node){.kind = CHAR, .value = take_char(p), .flags = p->flags}));
    return all;
  }
  if (c == 'R' || c == 'X' || c == 'k' || c == 'c' || c == 'N') return fail(p, FN_REGEX_UNSUPPORTED);
  if (take_escape(p, &code)) return set_node(p, first, false);
  return new_node(p->r, (node){.kind = CHAR, .value = code, .flags = p->flags});
}

static int32_t parse_atom(parser *p) {
  char c = peek(p);
  uint32_t first = p->r->range_count;
  if (c == '*' || c == '+' || c == '?') return fail(p, FN_REGEX_INVALID);
  if (take(p, '(')) return parse_group(p);
  if (take(p, '[')) {
    bool negated = take(p, '^');
    take_class_body(p, 0);
    p->at++;
    return set_node(p, first, negated);
  }
  if (take(p, '\\')) return parse_backslash(p);
  if (take(p, '.')) return new_node(p->r, (node){.kind = ANY, .flags = p->flags});
  if (c == '^' || c == '$') {
    p->at++;
    return new_node(p->r, (node){.kind = ASSERT, .value = (uint32_t)c, .flags = p->flags});
  }
  if (c == '{') return fail(p, FN_REGEX_INVALID);
  return new_node(p->r, (node){.kind = CHAR, .value = take_char(p), .flags = p->flags});
}

static int32_t take_count(parser *p) {
  int32_t count = 0;
  if (peek(p) < '0' || peek(p) > '9') return -1;
  for (; peek(p) >= '0' && peek(p) <= '9'; p->at++) count = count > REPEAT_MAX ? count : count * 10 + (peek(p) - '0');
  if (count > REPEAT_MAX) fail(p, FN_REGEX_UNSUPPORTED);
  return count;
}

static int32_t parse_repeat(parser *p) {
  int32_t atom = parse_atom(p);
  if (p->r->status == FN_REGEX_OK && more(p)) { /* one quantifier: another after it dangles */
    node n = {.kind = REPEAT, .left = atom, .least = 0, .most = -1};
    if (take(p, '*')) {
      ;
    } else if (take(p, '+')) {
      n.least = 1;
    } else if (take(p, '?')) {
      n.most = 1;
    } else if (take(p, '{')) {
      n.least = take_count(p);
      n.most = take(p, ',') ? take_count(p) : n.least;
      if (n.least < 0 || !take(p, '}') || (n.most >= 0 && n.most < n.least)) return fail(p, FN_REGEX_INVALID);
    } else {
      return atom;
    }
    n.mode = take(p, '?') ? LAZY : take(p, '+') ? POSSESSIVE : GREEDY;
    atom = new_node(p->r, n);
  }
  return atom;
}

static int32_t parse_sequence(parser *p) {
  int32_t all = new_node(p->r, (node){.kind = CAT}), last = 0;
  while (p->r->status == FN_REGEX_OK && more(p) && peek(p) != '|' && peek(p) != ')')
    last = chain(p->r, all, last, parse_repeat(p));
  return all;
}

static int32_t parse_alternatives(parser *p) {
  if (++p->depth > DEPTH_MAX) return fail(p, FN_REGEX_UNSUPPORTED);
  int32_t all = parse_sequence(p);
  while (p->r->status == FN_REGEX_OK && take(p, '|')) {
    int32_t right = parse_sequence(p);
    all = new_node(p->r, (node){.kind = ALT, .left = all, .right = right});
  }
  p->depth--;
  return all;
}

/* ---- code ---- */
static uint32_t emit(fn_regex *r, opcode op, uint8_t flags, uint32_t x, uint32_t y) {
  if (r->size == PROGRAM_MAX) {
    r->status = FN_REGEX_UNSUPPORTED;
    return 0;
  }
  r->program[r->size] = (instruction){(uint8_t)op, flags, x, y};
  return r->size++;
}

static void generate(fn_regex *r, int32_t index, int depth);

/* x: the preferred way. */
static void set_split(fn_regex *r, uint32_t at, bool lazy, uint32_t body, uint32_t after) {
  r->program[at].x = lazy ? after : body;
  r->program[at].y = lazy ? body : after;
}

static void generate_repeat(fn_regex *r, const node *n, int depth) {
  uint32_t atomic = 0;
  bool lazy = n->mode == LAZY;
  if (n->mode == POSSESSIVE) atomic = emit(r, O_ATOMIC, 0, 0, 0);
  for (int32_t i = 0; i < n->least && r->status == FN_REGEX_OK; i++) generate(r, n->left, depth);
  if (n->most < 0) { /* an empty turn ends the loop */
    uint32_t mark = r->marks++, loop = emit(r, O_SPLIT, 0, 0, 0);
    emit(r, O_MARK, 0, mark, 0);
    generate(r, n->left, depth);
    emit(r, O_CHECK, 0, mark, 0);
    emit(r, O_JUMP, 0, loop, 0);
    set_split(r, loop, lazy, loop + 1, r->size);
  } else {
    uint32_t last = 0; /* the splits, chained through y until their target is known */
    for (int32_t i = n->least; i < n->most && r->status == FN_REGEX_OK; i++) {
      last = emit(r, O_SPLIT, 0, 0, last);
      generate(r, n->left, depth);
    }
    for (uint32_t split = last; split && r->status == FN_REGEX_OK;) {
      uint32_t before = r->program[split].y;
      set_split(r, split, lazy, split + 1, r->size);
      split = before;
    }
  }
  if (n->mode == POSSESSIVE) {
    emit(r, O_MATCH, 0, 0, 0);
    r->program[atomic].x = r->size;
  }
}

static void generate(fn_regex *r, int32_t index, int depth) {
  const node *n = &r->nodes[index];
  if (r->status != FN_REGEX_OK) return;
  if (depth > DEPTH_MAX * 4) {
    r->status = FN_REGEX_UNSUPPORTED;
    return;
  }
  switch (n->kind) {
  case EMPTY: break;
  case CHAR: emit(r, n->flags & IGNORE_CASE ? O_CHAR_ANY_CASE : O_CHAR, 0, n->value, 0); break;
  case ANY: emit(r, n->flags & DOT_ALL ? O_ALL : O_ANY, 0, 0, 0); break;
  case SET: emit(r, O_SET, 0, n->value, 0); break;
  case CAT:
    for (int32_t item = n->left; item && r->status == FN_REGEX_OK; item = r->nodes[item].next)
      generate(r, item, depth + 1);
    break;
  case ALT: {
    uint32_t split = emit(r, O_SPLIT, 0, 0, 0);
    generate(r, n->left, depth + 1);
    uint32_t jump = emit(r, O_JUMP, 0, 0, 0);
    set_split(r, split, false, split + 1, r->size);
    generate(r, n->right, depth + 1);
    r->program[jump].x = r->size;
    break;
  }
  case REPEAT: generate_repeat(r, n, depth + 1); break;
  case GROUP:
    emit(r, O_SAVE, 0, n->value * 2, 0);
    generate(r, n->left, depth + 1);
    emit(r, O_SAVE, 0, n->value * 2 + 1, 0);
    break;
  case ASSERT: emit(r, O_ASSERT, n->flags, n->value, 0); break;
  case BACKREF: emit(r, O_BACKREF, n->flags, n->value, 0); break;
  case LOOK:
  case ATOMIC: {
    uint32_t at = emit(r, n->kind == LOOK ? O_LOOK : O_ATOMIC, 0, 0, n->negative);
    generate(r, n->left, depth + 1);
    emit(r, O_MATCH, 0, 0, 0);
    r->program[at].x = r->size;
    break;
  }
  default: break;
  }
}

fn_regex_status fn__regex_compile(fn_text pattern, fn_regex **out) {
  *out = NULL;
  fn_regex *r = calloc(1, sizeof *r);
  if (!r) return FN_REGEX_NO_MEMORY;
  r->nodes = malloc(NODES_MAX * sizeof *r->nodes);
  r->program = malloc(PROGRAM_MAX * sizeof *r->program);
  if (r->nodes && r->program) {
    parser p = {.r = r, .text = pattern};
    new_node(r, (node){.kind = EMPTY}); /* node 0: no item */
    int32_t root = parse_alternatives(&p);
    if (more(&p)) fail(&p, FN_REGEX_INVALID); /* a ')' too many */
    emit(r, O_SAVE, 0, 0, 0);
    generate(r, root, 0);
    emit(r, O_SAVE, 0, 1, 0);
    emit(r, O_MATCH, 0, 0, 0);
    r->slots = malloc(((size_t)(r->groups + 1) * 2 + r->marks) * sizeof *r->slots);
  }
  fn_regex_status status = r->slots ? r->status : FN_REGEX_NO_MEMORY;
  free(r->nodes);
  r->nodes = NULL;
  if (status != FN_REGEX_OK)
    fn__regex_destroy(r);
  else
    *out = r;
  return status;
}

void fn__regex_destroy(fn_regex *r) {
  if (!r) return;
  free(r->nodes);
  free(r->program);
  free(r->ranges);
  free(r->sets);
  free(r->slots);
  free(r->stack);
  free(r);
}

int fn__regex_groups(const fn_regex *regex) {
  return (int)regex->groups;
}

int fn__regex_group_named(const fn_regex *regex, fn_text name) {
  for (uint32_t g = 1; g <= regex->groups && name.size > 0; g++)
    if (strlen(regex->names[g]) == name.size && memcmp(regex->names[g], name.data, name.size) == 0) return (int)g;
  return -1;
}

/* ---- matching ---- */
static uint32_t fold(uint32_t c) {
  return c >= 'A' && c <= 'Z' ? c + 32 : c;
}
static bool in_ranges(const fn_regex *r, const set *s, uint32_t c) {
  for (uint32_t i = 0; i < s->count; i++)
    if (c >= r->ranges[s->first + i].low && c <= r->ranges[s->first + i].high) return true;
  return false;
}
static bool in_set(const fn_regex *r, uint32_t index, uint32_t c) {
  const set *s = &r->sets[index];
  bool found = in_ranges(r, s, c);
  if (!found && s->ignore_case && c < 0x80)
    found = in_ranges(r, s, fold(c)) || (c >= 'a' && c <= 'z' && in_ranges(r, s, c - 32));
  return found != s->negated;
}
static bool is_terminator(uint32_t c) {
  return c == '\n' || c == '\r' || c == 0x85 || c == 0x2028 || c == 0x2029;
}
static bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool asserts(uint32_t kind, uint8_t flags, fn_text text, size_t at) {
  bool start = at == 0, end = at == text.size;
  bool last_terminator =
      !end && ((text.data[at] == '\n' && at + 1 == text.size && (at == 0 || text.data[at - 1] != '\r')) ||
               (text.data[at] == '\r' && (at + 1 == text.size || (at + 2 == text.size && text.data[at + 1] == '\n'))));
  switch (kind) {
  case '^':
    return start || (flags & MULTILINE && !end &&
                     (text.data[at - 1] == '\n' || (text.data[at - 1] == '\r' && text.data[at] != '\n')));
  case 'A': return start;
  case '$':
    return end || last_terminator ||
           (flags & MULTILINE &&
            (text.data[at] == '\r' || (text.data[at] == '\n' && (start || text.data[at - 1] != '\r'))));
  case 'Z': return end || last_terminator;
  case 'z': return end;
  default: {
    bool boundary = (!start && is_word(text.data[at - 1])) != (!end && is_word(text.data[at]));
    return boundary == (kind == 'b');
  }
  }
}

static bool push(fn_regex *r, int64_t pc, int64_t pos) {
  if (r->stack_size == r->stack_capacity) {
    size_t capacity = r->stack_capacity ? r->stack_capacity * 2 : 256;
    frame *grown = capacity <= STACK_MAX ? realloc(r->stack, capacity * sizeof *grown) : NULL;
    if (!grown) return false;
    r->stack = grown;
    r->stack_capacity = capacity;
  }
  r->stack[r->stack_size++] = (frame){pc, pos};
  return true;
}

static bool set_slot(fn_regex *r, uint32_t slot, int64_t value) {
  bool good = push(r, -1 - (int64_t)slot, r->slots[slot]);
  r->slots[slot] = value;
  return good;
}

/* Undoes slots down to `base`; true: at a choice, *pc and *pos are set. */
static bool backtrack(fn_regex *r, size_t base, uint32_t *pc, size_t *pos) {
  while (r->stack_size > base) {
    frame f = r->stack[--r->stack_size];
    if (f.pc >= 0) {
      *pc = (uint32_t)f.pc;
      *pos = (size_t)f.pos;
      return true;
    }
    r->slots[-1 - f.pc] = f.pos;
  }
  return false;
}

static bool same_text(fn_text text, int64_t start, int64_t end, size_t at, bool ignore_case) {
  size_t size = (size_t)(end - start);
  if (text.size - at < size) return false;
  for (size_t i = 0; i < size; i++) {
    unsigned char a = (unsigned char)text.data[(size_t)start + i], b = (unsigned char)text.data[at + i];
    if (ignore_case ? fold(a) != fold(b) : a != b) return false;
  }
  return true;
}

/* Runs from pc until its O_MATCH. 1: matched (*pos is the end; choices are left above the stack's base), 0, -1. */
static int run(fn_regex *r, fn_text text, uint32_t pc, size_t *pos, int depth) {
  size_t base = r->stack_size, at = *pos, size;
  if (depth > DEPTH_MAX) return -1;
  for (;;) {
    const instruction *i = &r->program[pc];
    bool good = true;
    if (--r->steps < 0) return -1;
    if (i->op <= O_SET) {
      good = at < text.size;
      if (good) {
        uint32_t c = fn__char_decode((fn_text){text.data + at, text.size - at}, &size);
        good = i->op == O_CHAR            ? c == i->x
               : i->op == O_CHAR_ANY_CASE ? fold(c) == fold(i->x)
               : i->op == O_ANY           ? !is_terminator(c)
               : i->op == O_ALL           ? true
                                          : in_set(r, i->x, c);
        at += good ? size : 0;
      }
      pc++;
    } else if (i->op == O_SPLIT) {
      if (!push(r, i->y, (int64_t)at)) return -1;
      pc = i->x;
    } else if (i->op == O_JUMP) {
      pc = i->x;
    } else if (i->op == O_SAVE || i->op == O_MARK) {
      if (!set_slot(r, i->op == O_SAVE ? i->x : (r->groups + 1) * 2 + i->x, (int64_t)at)) return -1;
      pc++;
    } else if (i->op == O_CHECK) { /* an empty turn: go on behind the loop */
      pc += r->slots[(r->groups + 1) * 2 + i->x] == (int64_t)at ? 2 : 1;
    } else if (i->op == O_ASSERT) {
      good = asserts(i->x, i->flags, text, at);
      pc++;
    } else if (i->op == O_BACKREF) {
      bool known = i->x <= r->groups && r->slots[i->x * 2] >= 0 && r->slots[i->x * 2 + 1] >= 0;
      good = known && same_text(text, r->slots[i->x * 2], r->slots[i->x * 2 + 1], at, i->flags & IGNORE_CASE);
      if (good) at += (size_t)(r->slots[i->x * 2 + 1] - r->slots[i->x * 2]);
      pc++;
    } else if (i->op == O_LOOK || i->op == O_ATOMIC) {
      size_t inner = r->stack_size, end = at;
      int found = run(r, text, pc + 1, &end, depth + 1);
      if (found < 0) return -1;
      bool negative = i->op == O_LOOK && i->y;
      if (found && !negative) { /* its choices are gone; its groups stay until undone */
        size_t kept = inner;
        for (size_t f = inner; f < r->stack_size; f++)
          if (r->stack[f].pc < 0) r->stack[kept++] = r->stack[f];
        r->stack_size = kept;
        at = i->op == O_ATOMIC ? end : at;
      } else if (found) {
        uint32_t ignored_pc;
        size_t ignored_pos;
        while (backtrack(r, inner, &ignored_pc, &ignored_pos))
          ;
      }
      good = negative ? !found : found;
      pc = i->x;
    } else {
      *pos = at;
      return 1;
    }
    if (!good && !backtrack(r, base, &pc, &at)) return 0;
  }
}

int fn__regex_find(fn_regex *r, fn_text text, size_t from, int64_t *spans) {
  size_t slots = (size_t)(r->groups + 1) * 2 + r->marks;
  r->steps = FN_REGEX_STEPS_MAX;
  bool literal = r->program[1].op == O_CHAR && r->program[1].x < 0x80;
  for (size_t start = from; start <= text.size;) {
    if (literal) { /* no match starts before the first character's next place */
      const char *next = start < text.size ? memchr(text.data + start, (int)r->program[1].x, text.size - start) : NULL;
      if (!next) return 0;
      start = (size_t)(next - text.data);
    }
    size_t end = start;
    for (size_t i = 0; i < slots; i++) r->slots[i] = -1;
    r->stack_size = 0;
    int found = run(r, text, 0, &end, 0);
    if (found) {
      memcpy(spans, r->slots, (size_t)(r->groups + 1) * 2 * sizeof *spans);
      return found;
    }
    start += start < text.size ? fn__char_size((unsigned char)text.data[start]) : 1;
  }
  return 0;
}
