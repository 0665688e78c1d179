/* Message framing in both directions, with gzip. Nothing is inflated or buffered past the limits. */
#include <stdio.h>
#include <zlib.h>

#include "h2.h"

/* ---- out ---- */

void trn__h2_slices_release(const trn_slice *slices, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (slices[i].release) slices[i].release(slices[i].owner);
  }
}

static void write_prefix(uint8_t prefix[5], bool compressed, size_t size) {
  prefix[0] = compressed;
  for (int i = 0; i < 4; i++) prefix[1 + i] = (uint8_t)(size >> (24 - 8 * i));
}

/* One message made of the slices, gzip-compressed; NULL: no memory, or it does not get smaller. */
static uint8_t *compress_slices(const trn_slice *slices, size_t count, size_t size, size_t *out_size) {
  z_stream z = {0};
  uint8_t *out = NULL;
  bool done = false;
  if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) return NULL;
  out = malloc(size);
  if (!out) goto end;
  z.next_out = out;
  z.avail_out = (uInt)size; /* below 4 GiB: checked by the caller */
  for (size_t i = 0; i <= count; i++) {
    z.next_in = i < count ? (Bytef *)(uintptr_t)slices[i].data : NULL;
    z.avail_in = i < count ? (uInt)slices[i].size : 0;
    int rc = deflate(&z, i < count ? Z_NO_FLUSH : Z_FINISH);
    if (z.avail_in || (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)) goto end;
    done = rc == Z_STREAM_END;
  }
  *out_size = (size_t)(z.next_out - out);
end:
  deflateEnd(&z);
  if (!done) {
    free(out);
    out = NULL;
  }
  return out;
}

static h2_out *create_out(const trn_slice *slices, size_t count, size_t size, bool compressed) {
  size_t copied = 0;
  for (size_t i = 0; i < count; i++) copied += slices[i].release ? 0 : slices[i].size;
  h2_out *out = malloc(sizeof *out + (count + 1) * sizeof(trn_slice) + copied);
  if (!out) {
    trn__h2_slices_release(slices, count);
    return NULL;
  }
  *out = (h2_out){.refs = 1, .size = size + 5, .count = count + 1};
  write_prefix(out->prefix, compressed, size);
  out->slices[0] = (trn_slice){.data = out->prefix, .size = 5};
  uint8_t *to = (uint8_t *)&out->slices[count + 1];
  for (size_t i = 0; i < count; i++) {
    out->slices[i + 1] = slices[i];
    if (slices[i].release || !slices[i].size) continue;
    memcpy(to, slices[i].data, slices[i].size);
    out->slices[i + 1].data = to;
    to += slices[i].size;
  }
  return out;
}

h2_out *trn__h2_out_create(const trn_slice *slices, size_t count, bool compress) {
  size_t size = 0, packed_size = 0;
  for (size_t i = 0; i < count; i++) {
    if (slices[i].size > UINT32_MAX - size) {
      trn__h2_slices_release(slices, count);
      return NULL;
    }
    size += slices[i].size;
  }
  uint8_t *packed = compress && size > 64 ? compress_slices(slices, count, size, &packed_size) : NULL;
  if (!packed) return create_out(slices, count, size, false);
  trn__h2_slices_release(slices, count);
  trn_slice whole = {packed, packed_size, free, packed};
  return create_out(&whole, 1, packed_size, true);
}

h2_out *trn__h2_out_raw(trn_slice slice) {
  h2_out *out = create_out(&slice, 1, slice.size, false);
  if (!out) return NULL;
  out->size -= 5;
  out->index = 1; /* behind the prefix */
  return out;
}

void trn__h2_out_unref(h2_out *out) {
  if (!out || --out->refs) return;
  trn__h2_slices_release(out->slices + 1, out->count - 1);
  free(out);
}

/* ---- in ---- */

static h2_read fail(h2_failure *failure, trn_status status, const char *format, size_t a, size_t b) {
  failure->status = status;
  snprintf(failure->message, sizeof failure->message, format, a, b);
  return H2_READ_FAILED;
}

/* Small ones cost no more than their streams do: they get through also when large ones have used up the budget. */
static bool is_budgeted(const h2_reader *reader) {
  return reader->message_size > TRN_H2_SMALL_MESSAGE;
}

static void reader_reset(h2_reader *reader, const h2_read_limits *limits) {
  if (is_budgeted(reader)) trn__h2_base_unhold(limits->base, reader->message_capacity);
  reader->message = NULL;
  reader->message_capacity = reader->message_have = reader->message_size = 0;
  reader->prefix_size = 0;
}

void trn__h2_reader_finish(h2_reader *reader, const h2_read_limits *limits) {
  free(reader->message);
  reader_reset(reader, limits);
  trn__h2_reader_forget(reader, limits);
  *reader = (h2_reader){0};
}

void trn__h2_reader_forget(h2_reader *reader, const h2_read_limits *limits) {
  if (reader->unread_capacity) trn__h2_base_unhold(limits->base, reader->unread_capacity);
  free(reader->unread);
  reader->unread = NULL;
  reader->unread_at = reader->unread_size = reader->unread_capacity = 0;
}

bool trn__h2_reader_keep(h2_reader *reader, const h2_read_limits *limits, const uint8_t *data, size_t size) {
  if (reader->unread_at) {
    memmove(reader->unread, reader->unread + reader->unread_at, reader->unread_size - reader->unread_at);
    reader->unread_size -= reader->unread_at;
    reader->unread_at = 0;
  }
  if (reader->unread_size + size > reader->unread_capacity) {
    size_t capacity = (reader->unread_size + size) * 2;
    size_t more = capacity - reader->unread_capacity;
    if (!trn__h2_base_hold(limits->base, more)) return false;
    uint8_t *unread = realloc(reader->unread, capacity);
    if (!unread) {
      trn__h2_base_unhold(limits->base, more);
      return false;
    }
    reader->unread = unread;
    reader->unread_capacity = capacity;
  }
  memcpy(reader->unread + reader->unread_size, data, size);
  reader->unread_size += size;
  return true;
}

/* Grows with what has come, not with what was announced: a prefix alone reserves nothing. */
static h2_read grow_message(h2_reader *reader, const h2_read_limits *limits, size_t need, h2_failure *failure) {
  size_t capacity = reader->message_capacity ? reader->message_capacity * 2 : 64u << 10;
  if (capacity < need) capacity = need;
  if (capacity > reader->message_size) capacity = reader->message_size;
  size_t more = capacity - reader->message_capacity;
  bool is_held = is_budgeted(reader) && trn__h2_base_hold(limits->base, more);
  uint8_t *message = is_held || !is_budgeted(reader) ? realloc(reader->message, capacity) : NULL;
  if (!message) {
    if (is_held) trn__h2_base_unhold(limits->base, more);
    return fail(failure, TRN_RESOURCE_EXHAUSTED, "No memory for a message of %zu bytes", reader->message_size, 0);
  }
  reader->message = message;
  reader->message_capacity = capacity;
  return H2_READ_MORE;
}

static h2_read check_prefix(h2_reader *reader, const h2_read_limits *limits, h2_failure *failure) {
  const uint8_t *p = reader->prefix;
  reader->message_size = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
  if (p[0] > 1) return fail(failure, TRN_INTERNAL, "Bad compressed-flag %zu in a message prefix", p[0], 0);
  if (p[0] && limits->encoding == H2_IDENTITY) {
    return fail(failure, TRN_INTERNAL, "A message is flagged as compressed, but grpc-encoding is absent", 0, 0);
  }
  if (reader->message_size > limits->message_bytes_max) {
    return fail(failure, TRN_RESOURCE_EXHAUSTED, "Received message larger than max (%zu vs. %zu)", reader->message_size,
                limits->message_bytes_max);
  }
  return H2_READ_MORE;
}

/* Replaces the message by what it inflates to; the cap is on the result. */
static h2_read inflate_message(h2_reader *reader, const h2_read_limits *limits, trn_slice *message,
                               h2_failure *failure) {
  size_t max = limits->message_bytes_max, capacity = reader->message_size * 4 + 256, size = 0;
  h2_read result = H2_READ_FAILED;
  uint8_t *out = NULL;
  z_stream z = {.next_in = reader->message, .avail_in = (uInt)reader->message_size};
  if (inflateInit2(&z, limits->encoding == H2_GZIP ? 15 + 16 : 15) != Z_OK) {
    return fail(failure, TRN_RESOURCE_EXHAUSTED, "No memory to inflate a message of %zu bytes", reader->message_size,
                0);
  }
  for (;;) {
    if (capacity > max + 1) capacity = max + 1; /* one more than allowed shows that it is too much */
    uint8_t *grown = realloc(out, capacity);
    if (!grown) {
      fail(failure, TRN_RESOURCE_EXHAUSTED, "No memory to inflate a message of %zu bytes", reader->message_size, 0);
      goto end;
    }
    out = grown;
    z.next_out = out + size;
    z.avail_out = (uInt)(capacity - size > UINT32_MAX ? UINT32_MAX : capacity - size);
    int rc = inflate(&z, Z_NO_FLUSH);
    size = (size_t)(z.next_out - out);
    if (size > max) {
      fail(failure, TRN_RESOURCE_EXHAUSTED, "Received message larger than max after decompression (max %zu)", max, 0);
      goto end;
    }
    if (rc == Z_STREAM_END && z.avail_in == 0) break;
    if (rc != Z_OK || (z.avail_out && !z.avail_in)) {
      fail(failure, TRN_INTERNAL, "A compressed message of %zu bytes is malformed", reader->message_size, 0);
      goto end;
    }
    if (size == capacity) capacity *= 2;
  }
  *message = (trn_slice){out, size, free, out};
  out = NULL;
  result = H2_READ_MESSAGE;
end:
  inflateEnd(&z);
  free(out);
  return result;
}

static h2_read take_message(h2_reader *reader, const h2_read_limits *limits, trn_slice *message, h2_failure *failure) {
  h2_read result = H2_READ_MESSAGE;
  if (reader->prefix[0]) {
    result = inflate_message(reader, limits, message, failure);
    free(reader->message);
  } else if (reader->message_size) {
    *message = (trn_slice){reader->message, reader->message_size, free, reader->message};
  } else {
    *message = (trn_slice){.data = ""};
  }
  reader_reset(reader, limits);
  return result;
}

h2_read trn__h2_reader_feed(h2_reader *reader, const h2_read_limits *limits, const uint8_t *data, size_t size,
                            size_t *used, trn_slice *message, h2_failure *failure) {
  const uint8_t *start = data, *end = data + size;
  h2_read result = H2_READ_MORE;
  while (result == H2_READ_MORE) {
    if (reader->prefix_size < 5) {
      if (data == end) break;
      reader->prefix[reader->prefix_size++] = *data++;
      if (reader->prefix_size == 5) result = check_prefix(reader, limits, failure);
      continue;
    }
    size_t take = reader->message_size - reader->message_have;
    if (take > (size_t)(end - data)) take = (size_t)(end - data);
    if (reader->message_have + take > reader->message_capacity) {
      result = grow_message(reader, limits, reader->message_have + take, failure);
      if (result != H2_READ_MORE) break;
    }
    if (take) memcpy(reader->message + reader->message_have, data, take);
    data += take;
    reader->message_have += take;
    if (reader->message_have == reader->message_size) {
      result = take_message(reader, limits, message, failure);
    } else {
      break;
    }
  }
  *used = (size_t)(data - start);
  return result;
}
