/* Headers and trailers, in and out. */
#include <stdio.h>

#include "core/base64.h"
#include "h2.h"

/* ---- the request ---- */

void trn__h2_request_init(h2_request *request) {
  *request = (h2_request){.timeout_ns = -1, .grpc_status = -1};
}

void trn__h2_request_finish(h2_request *request) {
  free(request->bytes);
  free(request->entries);
  free(request->path);
  free(request->message);
  free(request->details);
  trn__h2_request_init(request);
}

/* Room for `size` bytes more. */
static char *request_room(h2_request *request, size_t size) {
  if (request->size + size > request->capacity) {
    size_t capacity = (request->size + size) * 2 + 256;
    char *bytes = realloc(request->bytes, capacity);
    if (!bytes) {
      request->is_out_of_memory = true;
      return NULL;
    }
    request->bytes = bytes;
    request->capacity = capacity;
  }
  return request->bytes + request->size;
}

static size_t add_text(h2_request *request, const void *data, size_t size) {
  size_t at = request->size;
  char *to = request_room(request, size + 1);
  if (!to) return 0;
  if (size) memcpy(to, data, size);
  to[size] = 0;
  request->size += size + 1;
  return at;
}

static void add_entry(h2_request *request, size_t key, size_t value, size_t value_size) {
  if (request->count == TRN_H2_METADATA_ENTRIES_MAX) request->is_too_big = true;
  if (request->is_out_of_memory || request->is_too_big) return;
  if (request->count == request->entries_capacity) {
    size_t capacity = request->entries_capacity ? request->entries_capacity * 2 : 8;
    void *entries = realloc(request->entries, capacity * sizeof *request->entries);
    if (!entries) {
      request->is_out_of_memory = true;
      return;
    }
    request->entries = entries;
    request->entries_capacity = capacity;
  }
  request->entries[request->count].key = key;
  request->entries[request->count].value = value;
  request->entries[request->count].value_size = value_size;
  request->count++;
}

/* A binary value may be several, joined by commas. */
static void add_binary(h2_request *request, size_t key, const char *text, size_t size) {
  for (;;) {
    const char *comma = size ? memchr(text, ',', size) : NULL;
    size_t part = comma ? (size_t)(comma - text) : size;
    const char *from = text;
    size_t length = part;
    while (length && *from == ' ') from++, length--;
    while (length && from[length - 1] == ' ') length--;
    size_t at = request->size, decoded = 0;
    char *to = request_room(request, length / 4 * 3 + 4);
    if (!to) return;
    if (!trn__h2_base64_decode(from, length, (uint8_t *)to, &decoded)) {
      request->is_malformed = true;
      return;
    }
    to[decoded] = 0;
    request->size += decoded + 1;
    add_entry(request, key, at, decoded);
    if (!comma) return;
    text = comma + 1;
    size -= part + 1;
  }
}

static bool is_text(const uint8_t *data, size_t size, const char *text) {
  return size == strlen(text) && memcmp(data, text, size) == 0;
}

static h2_encoding parse_encoding(const uint8_t *value, size_t size) {
  if (is_text(value, size, "identity")) return H2_IDENTITY;
  if (is_text(value, size, "gzip")) return H2_GZIP;
  if (is_text(value, size, "deflate")) return H2_DEFLATE;
  return H2_ENCODING_UNKNOWN;
}

/* "gzip" as a whole item of a comma-separated list. */
static bool lists_gzip(const char *text, size_t size) {
  for (size_t i = 0; i + 4 <= size; i++) {
    bool starts = i == 0 || text[i - 1] == ',' || text[i - 1] == ' ';
    bool ends = i + 4 == size || text[i + 4] == ',' || text[i + 4] == ' ' || text[i + 4] == ';';
    if (starts && ends && memcmp(text + i, "gzip", 4) == 0) return true;
  }
  return false;
}

static bool is_grpc_type(const uint8_t *value, size_t size) {
  static const char type[] = "application/grpc";
  size_t length = sizeof type - 1;
  return size >= length && memcmp(value, type, length) == 0 &&
         (size == length || value[length] == '+' || value[length] == ';');
}

/* True when the header is part of the mapping and not metadata. */
static bool add_special(h2_request *request, const uint8_t *name, size_t name_size, const uint8_t *value, size_t size) {
  if (is_text(name, name_size, ":path")) {
    request->path = malloc(size + 1);
    if (!request->path) {
      request->is_out_of_memory = true;
      return true;
    }
    memcpy(request->path, value, size);
    request->path[size] = 0;
    request->path_size = size;
  } else if (is_text(name, name_size, ":method")) {
    request->is_post = is_text(value, size, "POST");
    request->is_get = is_text(value, size, "GET");
  } else if (is_text(name, name_size, "content-type")) {
    request->is_grpc = is_grpc_type(value, size);
  } else if (is_text(name, name_size, "grpc-timeout")) {
    if (!trn__h2_timeout_parse((const char *)value, size, &request->timeout_ns)) request->is_malformed = true;
  } else if (is_text(name, name_size, "grpc-encoding")) {
    request->encoding = parse_encoding(value, size);
  } else if (is_text(name, name_size, "grpc-accept-encoding")) {
    request->accepts_gzip = lists_gzip((const char *)value, size);
  } else {
    return name_size == 0 || name[0] == ':' || is_text(name, name_size, "te");
  }
  return true;
}

/* False: there is no point in more. */
static bool count_header(h2_request *request, size_t name_size, size_t value_size, size_t list_size_max) {
  request->list_size += name_size + value_size + 32;
  if (request->list_size > list_size_max) request->is_too_big = true;
  return !request->is_too_big && !request->is_malformed && !request->is_out_of_memory;
}

static void add_metadata(h2_request *request, const uint8_t *name, size_t name_size, const uint8_t *value,
                         size_t value_size) {
  size_t key = add_text(request, name, name_size);
  if (request->is_out_of_memory) return;
  if (trn__h2_key_is_binary((const char *)name, name_size)) {
    add_binary(request, key, (const char *)value, value_size);
  } else {
    size_t at = add_text(request, value, value_size);
    add_entry(request, key, at, value_size);
  }
}

void trn__h2_request_add(h2_request *request, const uint8_t *name, size_t name_size, const uint8_t *value,
                         size_t value_size, size_t list_size_max) {
  if (!count_header(request, name_size, value_size, list_size_max)) return;
  if (!add_special(request, name, name_size, value, value_size)) {
    add_metadata(request, name, name_size, value, value_size);
  }
}

/* A small number of a header; -1: it is none. */
static int parse_number(const uint8_t *value, size_t size) {
  int number = 0;
  if (!size || size > 3) return -1;
  for (size_t i = 0; i < size; i++) {
    if (value[i] < '0' || value[i] > '9') return -1;
    number = number * 10 + (value[i] - '0');
  }
  return number;
}

static void set_details(h2_request *response, const uint8_t *value, size_t size) {
  free(response->details);
  response->details = malloc(size / 4 * 3 + 4);
  if (!response->details) {
    response->is_out_of_memory = true;
  } else if (!trn__h2_base64_decode((const char *)value, size, response->details, &response->details_size)) {
    free(response->details); /* the status alone is right */
    response->details = NULL;
  }
}

static bool add_response_special(h2_request *response, const uint8_t *name, size_t name_size, const uint8_t *value,
                                 size_t size) {
  if (is_text(name, name_size, ":status")) {
    response->http_status = parse_number(value, size);
  } else if (is_text(name, name_size, "content-type")) {
    response->is_grpc = is_grpc_type(value, size);
  } else if (is_text(name, name_size, "grpc-encoding")) {
    response->encoding = parse_encoding(value, size);
  } else if (is_text(name, name_size, "grpc-status")) {
    int status = parse_number(value, size);
    response->grpc_status = status >= 0 && status <= TRN_UNAUTHENTICATED ? status : TRN_UNKNOWN;
  } else if (is_text(name, name_size, "grpc-message")) {
    free(response->message);
    response->message = malloc(size + 1);
    response->is_out_of_memory |= !response->message;
    if (response->message) trn__h2_percent_decode((const char *)value, size, response->message);
  } else if (is_text(name, name_size, "grpc-status-details-bin")) {
    set_details(response, value, size);
  } else {
    return name_size == 0 || name[0] == ':' || is_text(name, name_size, "grpc-accept-encoding");
  }
  return true;
}

void trn__h2_response_add(h2_request *response, const uint8_t *name, size_t name_size, const uint8_t *value,
                          size_t value_size, size_t list_size_max) {
  if (!count_header(response, name_size, value_size, list_size_max)) return;
  if (!add_response_special(response, name, name_size, value, value_size)) {
    add_metadata(response, name, name_size, value, value_size);
  }
}

trn_metadata *trn__h2_request_metadata(const h2_request *request) {
  if (!request->count) return NULL;
  trn_metadata *metadata = malloc(request->count * sizeof *metadata);
  if (!metadata) return NULL;
  for (size_t i = 0; i < request->count; i++) {
    metadata[i] = (trn_metadata){request->bytes + request->entries[i].key, request->bytes + request->entries[i].value,
                                 request->entries[i].value_size};
  }
  return metadata;
}

/* ---- the response ---- */

nghttp2_nv trn__h2_nv(const char *name, const char *value) {
  return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value),
                      NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

/* Metadata that cannot travel as HTTP/2 headers is left out: sent, it would end the whole connection. */
static bool is_sendable(const trn_metadata *entry) {
  return trn__h2_key_is_sendable(entry->key) && (trn__h2_key_is_binary(entry->key, strlen(entry->key)) ||
                                                 trn__h2_value_is_sendable(entry->value, entry->size));
}

static size_t encoded_size(const trn_metadata *entry) {
  size_t key = strlen(entry->key);
  return key + (trn__h2_key_is_binary(entry->key, key) ? trn__base64_size(entry->size) : entry->size);
}

/* How many of the entries go out, in `*bytes_max` bytes at most; `*bytes_max` becomes what they take. */
static size_t count_sendable(const trn_metadata *metadata, size_t count, size_t *bytes_max) {
  size_t sent = 0, bytes = 0, list = 0;
  for (size_t i = 0; i < count && sent < TRN_H2_METADATA_ENTRIES_MAX; i++) {
    if (!is_sendable(&metadata[i])) continue;
    if (metadata[i].size > *bytes_max) continue;
    size_t size = encoded_size(&metadata[i]);
    if (list + size + 32 > *bytes_max) continue;
    list += size + 32;
    bytes += size;
    sent++;
  }
  *bytes_max = bytes;
  return sent;
}

static void put_nv(h2_block *block, const char *name, size_t name_size, const char *value, size_t size) {
  block->nv[block->count++] = (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, name_size, size, NGHTTP2_NV_FLAG_NONE};
  block->list_size += name_size + size + 32;
}

/* The same choice as count_sendable, with the same budget. */
static void put_metadata(h2_block *block, char **at, const trn_metadata *metadata, size_t count, size_t list_max) {
  size_t sent = 0, list = 0;
  for (size_t i = 0; i < count && sent < TRN_H2_METADATA_ENTRIES_MAX; i++) {
    const trn_metadata *entry = &metadata[i];
    if (!is_sendable(entry) || entry->size > list_max) continue;
    size_t size = encoded_size(entry);
    if (list + size + 32 > list_max) continue;
    list += size + 32;
    sent++;
    size_t key_size = strlen(entry->key), value_size = size - key_size;
    char *key = *at, *value = key + key_size;
    memcpy(key, entry->key, key_size);
    if (trn__h2_key_is_binary(key, key_size)) {
      trn__base64_encode(entry->value, entry->size, TRN_BASE64_PLAIN, value);
    } else if (value_size) {
      memcpy(value, entry->value, value_size);
    }
    *at = value + value_size;
    put_nv(block, key, key_size, value, value_size);
  }
}

h2_block *trn__h2_block_initial(const trn_metadata *metadata, size_t count) {
  size_t bytes = TRN_H2_RESPONSE_HEADERS_MAX;
  size_t sent = count_sendable(metadata, count, &bytes);
  h2_block *block = malloc(sizeof *block + sent * sizeof(nghttp2_nv) + bytes + 1);
  if (!block) return NULL;
  block->count = block->list_size = 0;
  char *at = (char *)&block->nv[sent];
  put_metadata(block, &at, metadata, count, TRN_H2_RESPONSE_HEADERS_MAX);
  H2_ASSERT(block->count == sent);
  return block;
}

h2_block *trn__h2_block_trailers(trn_status status, const char *message, const void *details, size_t details_size,
                                 const trn_metadata *metadata, size_t count) {
  static const char *const codes[] = {"0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                      "9", "10", "11", "12", "13", "14", "15", "16"};
  size_t message_size = message && *message ? trn__h2_percent_size(message) : 0;
  if (details_size > TRN_H2_RESPONSE_HEADERS_MAX / 2) details = NULL;
  size_t details_encoded = details ? trn__base64_size(details_size) : 0;
  size_t bytes = TRN_H2_RESPONSE_HEADERS_MAX;
  size_t sent = count_sendable(metadata, count, &bytes);
  h2_block *block =
      malloc(sizeof *block + (sent + 3) * sizeof(nghttp2_nv) + bytes + message_size + details_encoded + 1);
  if (!block) return NULL;
  block->count = block->list_size = 0;
  char *at = (char *)&block->nv[sent + 3];
  const char *code = codes[(unsigned)status <= TRN_UNAUTHENTICATED ? status : TRN_UNKNOWN];
  put_nv(block, "grpc-status", 11, code, strlen(code));
  if (message_size) {
    trn__h2_percent_encode(message, at);
    put_nv(block, "grpc-message", 12, at, message_size);
    at += message_size;
  }
  if (details) {
    trn__base64_encode(details, details_size, TRN_BASE64_PLAIN, at);
    put_nv(block, "grpc-status-details-bin", 23, at, details_encoded);
    at += details_encoded;
  }
  put_metadata(block, &at, metadata, count, TRN_H2_RESPONSE_HEADERS_MAX);
  trn__h2_block_fit(block, 2 * TRN_H2_RESPONSE_HEADERS_MAX);
  return block;
}

static nghttp2_nv *find_nv(h2_block *block, const char *name) {
  for (size_t i = 0; i < block->count; i++) {
    if (is_text(block->nv[i].name, block->nv[i].namelen, name)) return &block->nv[i];
  }
  return NULL;
}

void trn__h2_block_fit(h2_block *block, size_t list_size_max) {
  nghttp2_nv *details = find_nv(block, "grpc-status-details-bin");
  if (block->list_size > list_size_max && details) {
    block->list_size -= details->namelen + details->valuelen + 32;
    memmove(details, details + 1, (size_t)(&block->nv[block->count] - (details + 1)) * sizeof *details);
    block->count--;
  }
  nghttp2_nv *message = find_nv(block, "grpc-message");
  if (block->list_size > list_size_max && message) {
    size_t over = block->list_size - list_size_max;
    size_t keep = message->valuelen > over ? message->valuelen - over : 0;
    /* Not in the middle of a percent sequence, nor of a UTF-8 character, whose bytes are all percent sequences. */
    while (keep && ((keep >= 1 && message->value[keep - 1] == '%') || (keep >= 2 && message->value[keep - 2] == '%'))) {
      keep--;
    }
    while (keep >= 3 && message->value[keep - 3] == '%' && message->value[keep] == '%' &&
           strchr("89AB", message->value[keep + 1])) {
      keep -= 3;
    }
    block->list_size -= message->valuelen - keep;
    message->valuelen = keep;
  }
}
