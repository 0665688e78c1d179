/* Java regular expressions that the engine's regex library reads the same way, rewritten for it. */
#ifndef TRN_FRONTEND_SPARK_REGEX_H
#define TRN_FRONTEND_SPARK_REGEX_H
#include "frontend/spark/translate/values.h"

typedef struct spark_regex {
  const char *text;     /* for the engine; arena */
  unsigned groups;      /* capturing ones */
  bool may_be_empty;    /* matches the empty string somewhere */
  bool groups_may_miss; /* a group that a match can leave out */
  const char *literal;  /* the text it stands for when it is nothing but literal characters; else NULL */
  size_t literal_size;
} spark_regex;
/* False: the pattern has something that may mean another thing there, or is not valid (or memory is out). */
bool spark__regex_translate(spark_translator *t, const char *pattern, size_t size, spark_regex *out);

#endif
