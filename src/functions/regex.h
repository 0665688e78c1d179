/* Regular expressions as java.util.regex has them, without: lookbehind, class intersections, Unicode properties beyond
 * those of ASCII, and the flags x, u, d. Backtracking, as Java, but with a bound on steps. */
#ifndef TRN_FUNCTIONS_REGEX_H
#define TRN_FUNCTIONS_REGEX_H
#include "functions/array.h"

#define FN_REGEX_GROUPS_MAX 64
#define FN_REGEX_STEPS_MAX 50000000 /* of one search: a pattern that would run for ever gives an error */

typedef struct fn_regex fn_regex;
typedef enum fn_regex_status {
  FN_REGEX_OK = 0,
  FN_REGEX_INVALID,
  FN_REGEX_UNSUPPORTED,
  FN_REGEX_NO_MEMORY
} fn_regex_status;
fn_regex_status fn__regex_compile(fn_text pattern, fn_regex **out);
void fn__regex_destroy(fn_regex *regex);
int fn__regex_groups(const fn_regex *regex); /* without group 0 */
/* The group of that name, or -1. */
int fn__regex_group_named(const fn_regex *regex, fn_text name);
/* Finds the first match at or after `from`; spans[2 * g], spans[2 * g + 1]: bytes of group g, -1 when it took no part.
 * 1: found, 0: not, -1: too many steps or no memory. */
int fn__regex_find(fn_regex *regex, fn_text text, size_t from, int64_t *spans);
#endif
