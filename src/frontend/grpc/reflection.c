/* Server reflection, v1 and v1alpha: the services of the routes, and the files that declare those that are known. A
 * file with a service is only told of when that service, or one that needs the file, is mounted. */
#include "core/varint.h"
#include "frontend/grpc/grpc.h"

#define REFLECTION_PATH(version) "/grpc.reflection." version ".ServerReflection/ServerReflectionInfo"
enum { REFLECTION_MESSAGE_BYTES_MAX = 64 << 10 };

typedef struct descriptor_file {
  const char *name;
  const unsigned char *data;
  size_t size;
  uint64_t needs; /* a bit for each file that it needs, itself too */
  bool has_service;
} descriptor_file;
typedef struct descriptor_symbol {
  const char *name;
  unsigned file;
} descriptor_symbol;
#include "descriptors.inc"
enum {
  FILE_COUNT = sizeof descriptor_files / sizeof *descriptor_files,
  SYMBOL_COUNT = sizeof descriptor_symbols / sizeof *descriptor_symbols
};

/* ---- what is known ---- */

static int compare(trn_str text, const char *name) {
  size_t size = strlen(name);
  int order = memcmp(text.data, name, text.size < size ? text.size : size);
  return order ? order : text.size < size ? -1 : text.size > size;
}

/* -1: no file declares it. */
static int file_of_symbol(trn_str name) {
  size_t low = 0, high = SYMBOL_COUNT;
  while (low < high) {
    size_t middle = (low + high) / 2;
    int order = compare(name, descriptor_symbols[middle].name);
    if (!order) return (int)descriptor_symbols[middle].file;
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return -1;
}

static int file_of_name(trn_str name) {
  for (int i = 0; i < FILE_COUNT; i++)
    if (!compare(name, descriptor_files[i].name)) return i;
  return -1;
}

static uint64_t visible(const trn_routes *routes) {
  uint64_t files = 0;
  trn_str name;
  for (int i = 0; i < FILE_COUNT; i++)
    if (!descriptor_files[i].has_service) files |= UINT64_C(1) << i;
  for (size_t i = 0; (name = grpc__service_at(routes, i)).data; i++) {
    int file = file_of_symbol(name);
    if (file >= 0) files |= descriptor_files[file].needs;
  }
  return files;
}

/* ---- answers ---- */

typedef struct conversation {
  const trn_routes *routes;
  uint64_t sent; /* files that the client has */
  bool is_paused, is_half_closed;
} conversation;

static void put_error(trn_strbuf *out, trn_status code, const char *text) {
  trn_strbuf error = {0};
  trn__strbuf_putc(&error, 1 << 3);
  trn__strbuf_varint(&error, (uint64_t)code);
  trn__strbuf_field(&error, 2, text, strlen(text));
  trn__strbuf_field(out, 7, error.data, error.size);
  out->failed |= error.failed;
  trn__strbuf_finish(&error);
}

/* The file, and those that it needs and the client has not got. */
static void put_files(conversation *c, trn_strbuf *out, int file, const char *missing) {
  trn_strbuf files = {0};
  if (file < 0 || !(visible(c->routes) >> file & 1)) {
    put_error(out, TRN_NOT_FOUND, missing);
    return;
  }
  uint64_t wanted = (descriptor_files[file].needs & ~c->sent) | UINT64_C(1) << file;
  c->sent |= wanted;
  trn__strbuf_field(&files, 1, descriptor_files[file].data, descriptor_files[file].size);
  for (int i = 0; i < FILE_COUNT; i++)
    if (i != file && wanted >> i & 1) trn__strbuf_field(&files, 1, descriptor_files[i].data, descriptor_files[i].size);
  trn__strbuf_field(out, 4, files.data, files.size);
  out->failed |= files.failed;
  trn__strbuf_finish(&files);
}

static void put_services(const conversation *c, trn_strbuf *out) {
  trn_strbuf list = {0}, one = {0};
  trn_str name;
  for (size_t i = 0; (name = grpc__service_at(c->routes, i)).data; i++) {
    one.size = 0;
    trn__strbuf_field(&one, 1, name.data, name.size);
    trn__strbuf_field(&list, 1, one.data, one.size);
  }
  trn__strbuf_field(out, 6, list.data, list.size);
  out->failed |= list.failed || one.failed;
  trn__strbuf_finish(&list);
  trn__strbuf_finish(&one);
}

/* No message of ours has extensions. */
static void put_extension_numbers(const conversation *c, trn_strbuf *out, trn_str type) {
  trn_strbuf numbers = {0};
  int file = file_of_symbol(type);
  if (file < 0 || !(visible(c->routes) >> file & 1)) {
    put_error(out, TRN_NOT_FOUND, "There is no such type");
    return;
  }
  trn__strbuf_field(&numbers, 1, type.data, type.size);
  trn__strbuf_field(out, 5, numbers.data, numbers.size);
  out->failed |= numbers.failed;
  trn__strbuf_finish(&numbers);
}

/* ServerReflectionRequest: the last member of its oneof counts. False: malformed. */
static bool read_request(const trn_slice *message, trn_str *host, unsigned *kind, trn_str *value) {
  const uint8_t *at = message->data, *end = message->size ? at + message->size : at;
  *host = *value = (trn_str){"", 0};
  *kind = 0;
  while (message->size && at != end) {
    uint64_t number;
    trn_str field;
    if (!grpc__next_field(&at, end, &number, &field)) return false;
    if (number == 1) *host = field;
    if (number < 3 || number > 7) continue;
    *kind = (unsigned)number;
    *value = field;
  }
  return true;
}

static bool answer(conversation *c, const trn_slice *message, trn_strbuf *out) {
  trn_str host, value;
  unsigned kind;
  if (!read_request(message, &host, &kind, &value)) return false;
  trn__strbuf_field(out, 1, host.data, host.size);
  trn__strbuf_field(out, 2, message->data, message->size);
  switch (kind) {
  case 3: put_files(c, out, file_of_name(value), "There is no such file"); break;
  case 4: put_files(c, out, file_of_symbol(value), "There is no such symbol"); break;
  case 5: put_error(out, TRN_NOT_FOUND, "There is no such extension"); break;
  case 6: put_extension_numbers(c, out, value); break;
  case 7: put_services(c, out); break;
  default: put_error(out, TRN_INVALID_ARGUMENT, "The request asks for nothing"); break;
  }
  return true;
}

/* ---- the call: one answer per question, no faster than they are read ---- */

static void on_open(trn_call *call, void *user) {
  conversation *c = calloc(1, sizeof *c);
  if (c) c->routes = user;
  trn_call_set_user(call, c);
  if (c)
    trn_call_recv(call);
  else
    trn_call_finish(call, TRN_RESOURCE_EXHAUSTED, "Out of memory", NULL, 0, NULL, 0);
}

static void on_message(trn_call *call, void *user, trn_slice message) {
  conversation *c = user;
  trn_strbuf reply = {0};
  bool good = c && answer(c, &message, &reply);
  if (message.release) message.release(message.owner);
  if (!good) {
    trn__strbuf_finish(&reply);
    trn_call_finish(call, c ? TRN_INVALID_ARGUMENT : TRN_RESOURCE_EXHAUSTED,
                    c ? "Malformed message: ServerReflectionRequest" : "Out of memory", NULL, 0, NULL, 0);
    return;
  }
  trn_send_result sent = grpc__send(call, &reply);
  c->is_paused = sent == TRN_SEND_FULL;
  if (sent == TRN_SEND_READY) trn_call_recv(call);
}

static void end(trn_call *call) {
  trn_call_finish(call, TRN_OK, NULL, NULL, 0, NULL, 0);
}

static void on_writable(trn_call *call, void *user) {
  conversation *c = user;
  if (!c || !c->is_paused) return;
  c->is_paused = false;
  if (c->is_half_closed)
    end(call);
  else
    trn_call_recv(call);
}

static void on_half_close(trn_call *call, void *user) {
  conversation *c = user;
  if (!c) return;
  c->is_half_closed = true;
  if (!c->is_paused) end(call);
}

static void on_done(trn_call *call, void *user) {
  (void)call;
  free(user);
}

static trn_status reflection_register(void *self, trn_routes *routes, trn_backend *backend, trn_error **error) {
  const trn_method shape = {.struct_size = sizeof shape,
                            .kind = TRN_METHOD_BIDI,
                            .on_open = on_open,
                            .on_message = on_message,
                            .on_half_close = on_half_close,
                            .on_writable = on_writable,
                            .on_done = on_done,
                            .service = routes,
                            .message_bytes_max = REFLECTION_MESSAGE_BYTES_MAX};
  trn_method methods[] = {shape, shape};
  (void)self, (void)backend;
  methods[0].path = REFLECTION_PATH("v1");
  methods[1].path = REFLECTION_PATH("v1alpha");
  return trn_routes_add(routes, methods, sizeof methods / sizeof *methods, error);
}

trn_status trn_reflection_frontend_create(trn_frontend **out) {
  static const trn_frontend_ops ops = {.struct_size = sizeof ops, .do_register = reflection_register};
  return trn_frontend_create(&ops, NULL, out);
}
