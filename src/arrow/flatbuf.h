/* A small flatbuffers writer: back to front, as the format wants it. Offsets count from the end of the buffer. */
#ifndef TRN_ARROW_FLATBUF_H
#define TRN_ARROW_FLATBUF_H
#include "core/core.h"

enum { TRN_FB_FIELDS_MAX = 8 };

typedef struct trn_fb {
  unsigned char *data; /* the used part is at the end */
  size_t capacity, size;
  bool failed; /* sticky: out of memory */
  size_t table_end;
  uint32_t fields[TRN_FB_FIELDS_MAX];
  unsigned field_count;
} trn_fb;

void trn__fb_finish(trn_fb *fb); /* frees */
uint32_t trn__fb_string(trn_fb *fb, const char *text, size_t size);
uint32_t trn__fb_offsets(trn_fb *fb, const uint32_t *offsets, size_t count); /* a vector of tables or strings */
uint32_t trn__fb_int64s(trn_fb *fb, const int64_t *values, size_t count, size_t per_item); /* of structs of int64 */
uint32_t trn__fb_int32s(trn_fb *fb, const int32_t *values, size_t count);
/* One table at a time; what it refers to is written before. */
void trn__fb_table(trn_fb *fb, unsigned field_count);
void trn__fb_add(trn_fb *fb, unsigned field, uint64_t value, size_t width); /* a number of 1, 2, 4, 8 bytes */
void trn__fb_add_offset(trn_fb *fb, unsigned field, uint32_t offset);
uint32_t trn__fb_table_end(trn_fb *fb);
/* Ends the buffer; its bytes start at the result, `fb->size` of them, a multiple of 8. NULL: failed. */
const void *trn__fb_root(trn_fb *fb, uint32_t table);

#endif
