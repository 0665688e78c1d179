/* A subset of java.util.regex for which "the same text matches at the same place" holds in a leftmost-first automaton:
 * literals, ., classes of characters and ranges, groups, alternatives, greedy and lazy quantifiers, ^ at the start.
 * What Java reads differently is rewritten: . leaves out Java's line ends, \d \w \s are ASCII, $ may stand before a last line
 * end. Look-around, back references, possessive quantifiers, flags, Unicode properties, nested classes are refused. */
#include "frontend/spark/translate/regex.h"

#define REGEX_DEPTH_MAX 64
#define REGEX_BYTES_MAX 4096

typedef struct parser {
  const char *at, *end;
  trn_strbuf out, literal;
  unsigned groups, depth;
  bool plain, groups_may_miss;
} parser;

static bool alternatives(parser *p, bool optional, bool *empty);

static const char not_line_end[] = "[^\\n\\r\\x{85}\\x{2028}\\x{2029}]";
static const char line_end[] = "(?:\\r\\n|[\\n\\r\\x{85}\\x{2028}\\x{2029}])?\\z";

static void put_escaped(trn_strbuf *out, char c) {
  if (strchr("\\.+*?()|[]{}^$#&-~/", c) && c) trn__strbuf_putc(out, '\\');
  trn__strbuf_putc(out, c);
}

/* \d and kin inside or outside of a class; NULL: no such. */
static const char *class_escape(char c, bool inside) {
  switch (c) {
  case 'd': return inside ? "0-9" : "[0-9]";
  case 'w': return inside ? "a-zA-Z_0-9" : "[a-zA-Z_0-9]";
  case 's': return inside ? " \\t\\n\\x0B\\f\\r" : "[ \\t\\n\\x0B\\f\\r]";
  case 'D': return inside ? NULL : "[^0-9]";
  case 'W': return inside ? NULL : "[^a-zA-Z_0-9]";
  case 'S': return inside ? NULL : "[^ \\t\\n\\x0B\\f\\r]";
  default: return NULL;
  }
}

/* The character behind a backslash: a control character or punctuation that stands for itself. 0: neither. */
static char escaped_char(char c) {
  switch (c) {
  case 'n': return '\n';
  case 't': return '\t';
  case 'r': return '\r';
  case 'f': return '\f';
  default: return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~') ? c : 0;
  }
}

/* [...] without nesting, intersections or literal brackets. */
static bool character_class(parser *p) {
  trn__strbuf_putc(&p->out, '[');
  if (p->at < p->end && *p->at == '^') trn__strbuf_putc(&p->out, *p->at++);
  bool any = false;
  for (; p->at < p->end && *p->at != ']'; any = true) {
    char c = *p->at++;
    if (c == '[' || c == '&' || c == '^' || (c == '~' && p->at < p->end && *p->at == '~')) return false;
    if (c == '\\') {
      if (p->at == p->end) return false;
      const char *set = class_escape(*p->at, true);
      c = set ? 0 : escaped_char(*p->at);
      if (!set && !c) return false;
      p->at++;
      if (set) trn__strbuf_puts(&p->out, set);
      else put_escaped(&p->out, c);
    } else if (c == '-') { /* a range between two single characters, or a hyphen at an edge */
      bool edge = !any || p->at == p->end || *p->at == ']';
      trn__strbuf_puts(&p->out, edge ? "\\-" : "-");
      if (!edge && (*p->at == '[' || *p->at == '\\' || *p->at == '-')) return false;
    } else if ((unsigned char)c >= 0x80) {
      trn__strbuf_putc(&p->out, c);
    } else {
      put_escaped(&p->out, c);
    }
  }
  if (p->at == p->end || !any) return false;
  p->at++;
  trn__strbuf_putc(&p->out, ']');
  return true;
}

/* (...), (?:...) */
static bool group(parser *p, bool optional, bool *empty) {
  if (++p->depth > REGEX_DEPTH_MAX) return false;
  if (p->at < p->end && *p->at == '?') {
    if (p->end - p->at < 2 || p->at[1] != ':') return false;
    p->at += 2;
    trn__strbuf_puts(&p->out, "(?:");
  } else {
    p->groups++;
    p->groups_may_miss = p->groups_may_miss || optional;
    trn__strbuf_putc(&p->out, '(');
  }
  if (!alternatives(p, optional, empty) || p->at == p->end || *p->at != ')') return false;
  p->at++;
  p->depth--;
  trn__strbuf_putc(&p->out, ')');
  return true;
}

/* * + ? {n} {n,} {n,m}, each perhaps lazy. *least: the smallest count. */
static bool quantifier(parser *p, bool *found, unsigned *least) {
  const char *first = p->at;
  *found = false;
  *least = 1;
  if (p->at == p->end) return true;
  if (*p->at == '*' || *p->at == '?') *least = 0;
  if (*p->at == '{') {
    unsigned low = 0, high = 0, digits = 0;
    for (p->at++; p->at < p->end && *p->at >= '0' && *p->at <= '9' && digits < 4; p->at++, digits++) low = low * 10 + (unsigned)(*p->at - '0');
    if (!digits) return false;
    high = low;
    if (p->at < p->end && *p->at == ',') {
      for (high = 0, p->at++; p->at < p->end && *p->at >= '0' && *p->at <= '9' && high < 1000; p->at++) high = high * 10 + (unsigned)(*p->at - '0');
      if (p->at[-1] != ',' && high < low) return false;
    }
    if (p->at == p->end || *p->at != '}' || low > 1000 || high > 1000) return false;
    *least = low;
  } else if (*p->at != '*' && *p->at != '+' && *p->at != '?') {
    return true;
  }
  p->at++;
  if (p->at < p->end && *p->at == '?') p->at++;
  if (p->at < p->end && (*p->at == '+' || *p->at == '*' || *p->at == '?' || *p->at == '{')) return false;
  *found = true;
  trn__strbuf_add(&p->out, first, (size_t)(p->at - first));
  p->plain = false;
  return true;
}

/* One thing that a quantifier can follow; *empty: it may match nothing. */
static bool atom(parser *p, bool optional, bool *empty, bool *is_group) {
  char c = *p->at++;
  *empty = *is_group = false;
  switch (c) {
  case '.': p->plain = false, trn__strbuf_puts(&p->out, not_line_end); return true;
  case '[': p->plain = false; return character_class(p);
  case '(': p->plain = false, *is_group = true; return group(p, optional, empty);
  case '*': case '+': case '?': case '{': case '}': case ']': case '^': case '$': return false;
  case '\\':
    if (p->at == p->end) return false;
    if (class_escape(*p->at, false)) {
      p->plain = false;
      trn__strbuf_puts(&p->out, class_escape(*p->at++, false));
      return true;
    }
    c = escaped_char(*p->at++);
    if (!c) return false;
    break;
  default: break;
  }
  put_escaped(&p->out, c);
  trn__strbuf_putc(&p->literal, c);
  for (; (unsigned char)c >= 0xc0 && p->at < p->end && ((unsigned char)*p->at & 0xc0) == 0x80; p->at++) { /* the rest of one character */
    trn__strbuf_putc(&p->out, *p->at);
    trn__strbuf_putc(&p->literal, *p->at);
  }
  return true;
}

/* A group under a quantifier that may be zero, or beside an alternative, may be left out of a match: looked up before. */
static bool sequence(parser *p, bool optional, bool *empty) {
  *empty = true;
  while (p->at < p->end && *p->at != '|' && *p->at != ')') {
    if (*p->at == '$' && p->at + 1 == p->end && p->depth == 0) {
      p->at++;
      p->plain = false;
      trn__strbuf_puts(&p->out, line_end);
      return true;
    }
    unsigned before = p->groups, least;
    bool nothing, is_group, found;
    if (!atom(p, optional, &nothing, &is_group) || !quantifier(p, &found, &least)) return false;
    if (found && is_group && nothing) return false; /* (a*)* loops are each engine's own matter */
    if (found && least == 0 && p->groups > before) p->groups_may_miss = true;
    *empty = *empty && (nothing || (found && least == 0));
  }
  return true;
}

static bool alternatives(parser *p, bool optional, bool *empty) {
  unsigned before = p->groups;
  bool one, any = false, several = false;
  for (;;) {
    if (!sequence(p, optional, &one)) return false;
    any = any || one;
    if (p->at == p->end || *p->at != '|') break;
    several = true;
    p->plain = false;
    p->at++;
    trn__strbuf_putc(&p->out, '|');
  }
  if (several && p->groups > before) p->groups_may_miss = true;
  *empty = any;
  return true;
}

bool spark__regex_translate(spark_translator *t, const char *pattern, size_t size, spark_regex *out) {
  parser p = {.at = pattern, .end = pattern + size, .plain = true};
  bool good = size <= REGEX_BYTES_MAX;
  *out = (spark_regex){0};
  if (good && size && *pattern == '^' && !memchr(pattern, '|', size)) { /* with alternatives it would bind to the first */
    p.at++;
    p.plain = false;
    trn__strbuf_puts(&p.out, "\\A");
  }
  good = good && alternatives(&p, false, &out->may_be_empty) && p.at == p.end && !p.out.failed && !p.literal.failed;
  if (good) {
    out->text = trn__arena_str(t->arena, p.out.data ? p.out.data : "", p.out.size);
    out->groups = p.groups;
    out->groups_may_miss = p.groups_may_miss;
    if (p.plain) {
      out->literal = trn__arena_str(t->arena, p.literal.data ? p.literal.data : "", p.literal.size);
      out->literal_size = p.literal.size;
    }
  }
  trn__strbuf_finish(&p.out);
  trn__strbuf_finish(&p.literal);
  return good && out->text && (!p.plain || out->literal);
}
