/* Numbers and text: as Java 17 prints and parses them. No locale: what libc formats or parses here has no radix point.
 */
#ifndef TRN_FUNCTIONS_TEXT_H
#define TRN_FUNCTIONS_TEXT_H
#include "functions/array.h"

#define FN_DOUBLE_TEXT_MAX 40
/* Double.toString / Float.toString; give the size. */
size_t fn__double_print(double value, char *out);
size_t fn__float_print(float value, char *out);

#define FN_INT_TEXT_MAX 24
size_t fn__int_print(int64_t value, char *out);

/* Without whitespace and ISO control characters at both ends (UTF8String.trimAll). */
fn_text fn__trim_all(fn_text text);
/* Double.parseDouble, with Spark's names of infinities and NaN in any case. False: malformed. */
bool fn__double_parse(fn_text text, double *out);
bool fn__float_parse(fn_text text, float *out);
/* Digits with an optional sign, trimmed; `truncate`: a fraction is allowed and dropped. False: malformed or beyond
 * int64. */
bool fn__int_parse(fn_text text, bool truncate, int64_t *out);

/* UTF-8. Bytes that start no character count as characters of one byte, as in UTF8String. */
size_t fn__char_size(unsigned char first);
int64_t fn__char_count(fn_text text);
/* The byte offset of character `index`, or text.size when there are fewer. */
size_t fn__char_offset(fn_text text, int64_t index);
/* Decodes the character at the start of text (size > 0); invalid bytes give U+FFFD and size 1. */
uint32_t fn__char_decode(fn_text text, size_t *size);
size_t fn__char_encode(uint32_t code, char *out);       /* at most 4 bytes */
bool fn__text_equal(fn_text text, const char *literal); /* ASCII, any case */
#endif
