/* Text buffers and pointer arrays on the heap. */
#include "core/core.h"

#include <stdio.h>

/* Room for `more` bytes and a NUL. */
static bool strbuf_reserve(trn_strbuf *buffer, size_t more) {
  if (buffer->failed) return false;
  if (more >= SIZE_MAX / 2 - buffer->size) {
    buffer->failed = true;
    return false;
  }
  size_t needed = buffer->size + more + 1;
  if (needed <= buffer->capacity) return true;
  size_t capacity = buffer->capacity ? buffer->capacity : 64;
  while (capacity < needed) capacity *= 2;
  char *data = realloc(buffer->data, capacity);
  if (!data) {
    buffer->failed = true;
    return false;
  }
  buffer->data = data;
  buffer->capacity = capacity;
  return true;
}

void trn__strbuf_add(trn_strbuf *buffer, const void *data, size_t size) {
  if (!strbuf_reserve(buffer, size)) return;
  if (size) memcpy(buffer->data + buffer->size, data, size);
  buffer->size += size;
  buffer->data[buffer->size] = 0;
}

void *trn__strbuf_extend(trn_strbuf *buffer, size_t size) {
  if (!strbuf_reserve(buffer, size)) return NULL;
  void *start = buffer->data + buffer->size;
  memset(start, 0, size + 1);
  buffer->size += size;
  return start;
}

void trn__strbuf_puts(trn_strbuf *buffer, const char *text) {
  trn__strbuf_add(buffer, text, strlen(text));
}

void trn__strbuf_putc(trn_strbuf *buffer, char c) {
  trn__strbuf_add(buffer, &c, 1);
}

void trn__strbuf_printf(trn_strbuf *buffer, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  size_t room = buffer->failed ? 0 : buffer->capacity - buffer->size;
  int size = vsnprintf(room ? buffer->data + buffer->size : NULL, room, format, args);
  if (size < 0) {
    buffer->failed = true;
  } else if ((size_t)size < room) {
    buffer->size += (size_t)size;
  } else if (strbuf_reserve(buffer, (size_t)size)) {
    vsnprintf(buffer->data + buffer->size, (size_t)size + 1, format, again);
    buffer->size += (size_t)size;
  } else if (buffer->data) {
    buffer->data[buffer->size] = 0; /* what did not fit */
  }
  va_end(again);
  va_end(args);
}

void trn__strbuf_finish(trn_strbuf *buffer) {
  free(buffer->data);
  *buffer = (trn_strbuf){0};
}

bool trn__vec_push(trn_vec *vec, void *item) {
  if (vec->count == vec->capacity) {
    if (vec->capacity > SIZE_MAX / 4 / sizeof(void *)) return false;
    size_t capacity = vec->capacity ? vec->capacity * 2 : 8;
    void **items = realloc(vec->items, capacity * sizeof *items);
    if (!items) return false;
    vec->items = items;
    vec->capacity = capacity;
  }
  vec->items[vec->count++] = item;
  return true;
}

void trn__vec_finish(trn_vec *vec) {
  free(vec->items);
  *vec = (trn_vec){0};
}
