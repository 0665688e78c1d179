/* JSON texts as trees of nodes in one array: what Jackson reads with Spark's options (single quotes too). */
#ifndef TRN_FUNCTIONS_JSON_H
#define TRN_FUNCTIONS_JSON_H
#include "functions/rowcodec.h"

typedef enum fn_json_kind {
  FN_JSON_NULL,
  FN_JSON_TRUE,
  FN_JSON_FALSE,
  FN_JSON_INTEGER,
  FN_JSON_FLOAT,
  FN_JSON_STRING,
  FN_JSON_ARRAY,
  FN_JSON_OBJECT
} fn_json_kind;

typedef struct fn_json_node {
  uint8_t kind;
  uint32_t next, child, count;      /* 0: none; children are a list in the text's order */
  uint32_t start, size;             /* strings: in `decoded`; else in the source */
  uint32_t key_start, key_size;     /* of a member of an object, in `decoded` */
  uint32_t source_end;              /* containers: where they end in the source */
} fn_json_node;

typedef struct fn_json {
  fn_text source;
  fn_json_node *node; /* node 0 is nothing, node 1 the root */
  uint32_t count, capacity;
  fn_bytes decoded;
  size_t at;
  bool no_memory;
} fn_json;

#define FN_JSON_DEPTH_MAX 512
/* Reads one value. False: malformed, or out of memory (no_memory). What was there is forgotten. */
bool fn__json_parse(fn_json *json, fn_text source);
void fn__json_clear(fn_json *json);
fn_text fn__json_string(const fn_json *json, const fn_json_node *node); /* a string's characters, a number's text */
fn_text fn__json_key(const fn_json *json, const fn_json_node *node);
bool fn__json_put_string(fn_bytes *out, fn_text text); /* quoted */
/* As Jackson writes it back: no spaces, floats as doubles. */
bool fn__json_put(fn_bytes *out, const fn_json *json, uint32_t index);
#endif
