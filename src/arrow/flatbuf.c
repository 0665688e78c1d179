/* The flatbuffers writer; the layout is https://flatbuffers.dev/internals. Little-endian hosts. */
#include "arrow/flatbuf.h"

void trn__fb_finish(trn_fb *fb) {
  free(fb->data);
  *fb = (trn_fb){0};
}

/* `size` fresh bytes in front of what is there; NULL: failed. */
static unsigned char *fb_push(trn_fb *fb, size_t size) {
  if (fb->failed) return NULL;
  if (size > fb->capacity - fb->size) {
    size_t capacity = fb->capacity ? fb->capacity * 2 : 512;
    while (capacity - fb->size < size) capacity *= 2;
    unsigned char *data = capacity > INT32_MAX ? NULL : malloc(capacity); /* offsets have 32 bits */
    if (!data) {
      fb->failed = true;
      return NULL;
    }
    if (fb->size) memcpy(data + capacity - fb->size, fb->data + fb->capacity - fb->size, fb->size);
    free(fb->data);
    fb->data = data;
    fb->capacity = capacity;
  }
  fb->size += size;
  return fb->data ? fb->data + fb->capacity - fb->size : NULL; /* nothing was wanted yet */
}

/* Pads so that after `size` more bytes the position is a multiple of `align`. */
static void fb_align(trn_fb *fb, size_t align, size_t size) {
  size_t pad = (align - (fb->size + size) % align) % align;
  unsigned char *p = pad ? fb_push(fb, pad) : NULL;
  if (p) memset(p, 0, pad);
}

static void fb_number(trn_fb *fb, uint64_t value, size_t width) {
  fb_align(fb, width, width);
  unsigned char *p = fb_push(fb, width);
  if (p) memcpy(p, &value, width);
}

static void fb_reference(trn_fb *fb, uint32_t offset) {
  fb_align(fb, 4, 4);
  fb_number(fb, (uint32_t)fb->size + 4 - offset, 4);
}

uint32_t trn__fb_string(trn_fb *fb, const char *text, size_t size) {
  fb_align(fb, 4, size + 1);
  unsigned char *p = fb_push(fb, size + 1);
  if (p) {
    memcpy(p, text, size);
    p[size] = 0;
  }
  fb_number(fb, size, 4);
  return (uint32_t)fb->size;
}

uint32_t trn__fb_offsets(trn_fb *fb, const uint32_t *offsets, size_t count) {
  fb_align(fb, 4, 4 * count);
  for (size_t i = count; i--;) fb_reference(fb, offsets[i]);
  fb_number(fb, count, 4);
  return (uint32_t)fb->size;
}

uint32_t trn__fb_int64s(trn_fb *fb, const int64_t *values, size_t count, size_t per_item) {
  size_t size = 8 * count * per_item;
  fb_align(fb, 8, size);
  unsigned char *p = fb_push(fb, size);
  if (p && size) memcpy(p, values, size);
  fb_number(fb, count, 4);
  return (uint32_t)fb->size;
}

uint32_t trn__fb_int32s(trn_fb *fb, const int32_t *values, size_t count) {
  fb_align(fb, 4, 4 * count);
  for (size_t i = count; i--;) fb_number(fb, (uint32_t)values[i], 4);
  fb_number(fb, count, 4);
  return (uint32_t)fb->size;
}

void trn__fb_table(trn_fb *fb, unsigned field_count) {
  memset(fb->fields, 0, sizeof fb->fields);
  fb->field_count = field_count;
  fb->table_end = fb->size;
}

void trn__fb_add(trn_fb *fb, unsigned field, uint64_t value, size_t width) {
  fb_number(fb, value, width);
  fb->fields[field] = (uint32_t)fb->size;
}

void trn__fb_add_offset(trn_fb *fb, unsigned field, uint32_t offset) {
  fb_reference(fb, offset);
  fb->fields[field] = (uint32_t)fb->size;
}

uint32_t trn__fb_table_end(trn_fb *fb) {
  fb_number(fb, 0, 4); /* where the vtable is; known below */
  uint32_t table = (uint32_t)fb->size;
  for (unsigned i = fb->field_count; i--;) fb_number(fb, fb->fields[i] ? table - fb->fields[i] : 0, 2);
  fb_number(fb, table - (uint32_t)fb->table_end, 2);
  fb_number(fb, (fb->field_count + 2) * 2, 2);
  if (fb->failed) return 0;
  int32_t to_vtable = (int32_t)((uint32_t)fb->size - table);
  memcpy(fb->data + fb->capacity - table, &to_vtable, 4);
  return table;
}

const void *trn__fb_root(trn_fb *fb, uint32_t table) {
  fb_align(fb, 8, 4);
  fb_reference(fb, table);
  return fb->failed ? NULL : fb->data + fb->capacity - fb->size;
}
