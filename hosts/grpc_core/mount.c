#include "trunnion_grpc.h"

#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "exchange.h"

enum { ACCEPTORS = 16, REGISTERED_ACCEPTORS = 4, THREADS_MAX = 64 };

/* What a completion queue gives back. */
typedef struct tag {
  void (*run)(struct tag *self, bool is_ok);
} tag;

typedef struct poller {
  trn_grpc_mount *mount;
  grpc_completion_queue *queue;
  pthread_t thread;
  bool is_running;
} poller;

/* Waits for the next call. */
typedef struct acceptor {
  tag tag;
  poller *poller;
  const trn_method *method; /* NULL: any */
  void *registered;
  grpc_call *call;
  grpc_call_details details;
  gpr_timespec deadline;
  grpc_metadata_array metadata;
  struct acceptor *next;
} acceptor;

struct trn_grpc_mount {
  grpc_server *server;
  trn_grpc_options options;
  unsigned threads;
  acceptor *acceptors;
  poller pollers[];
};

/* ---- one call ---- */

typedef struct rpc {
  tag read_tag, write_tag, poke_tag, close_tag;
  grpc_call *call;
  trn_exchange *exchange;
  grpc_byte_buffer *message; /* being read */
  int is_cancelled;
} rpc;

#define RPC_OF(pointer, member) ((rpc *)((char *)(pointer)-offsetof(rpc, member)))

static void on_read(tag *t, bool is_ok) {
  rpc *r = RPC_OF(t, read_tag);
  grpc_byte_buffer *message = r->message;
  r->message = NULL;
  bool is_failed = !message && (!is_ok || grpc_call_failed_before_recv_message(r->call));
  trn_exchange_received(r->exchange, message, is_failed);
}

static void on_written(tag *t, bool is_ok) {
  trn_exchange_written(RPC_OF(t, write_tag)->exchange, is_ok);
}

static void on_poked(tag *t, bool is_ok) {
  (void)is_ok;
  trn_exchange_poked(RPC_OF(t, poke_tag)->exchange);
}

static void on_closed(tag *t, bool is_ok) {
  (void)is_ok;
  rpc *r = RPC_OF(t, close_tag);
  trn_exchange_closed(r->exchange, r->is_cancelled);
}

static bool rpc_read(void *io) {
  rpc *r = io;
  grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
  op.data.recv_message.recv_message = &r->message;
  return grpc_call_start_batch(r->call, &op, 1, &r->read_tag, NULL) == GRPC_CALL_OK;
}

static bool rpc_poke(void *io) {
  rpc *r = io;
  return grpc_call_start_batch(r->call, NULL, 0, &r->poke_tag, NULL) == GRPC_CALL_OK;
}

/* A client is told at once, also when it does not read. */
static void rpc_cancel(void *io, trn_status status, const char *message) {
  grpc_call_cancel_with_status(((rpc *)io)->call, (grpc_status_code)status, message, NULL);
}

static void rpc_destroy(void *io) {
  rpc *r = io;
  grpc_call_unref(r->call);
  free(r);
}

/* Gives `count` + `more` entries, `count` of them filled. */
static grpc_metadata *metadata_to(const trn_metadata *entries, size_t count, size_t more) {
  grpc_metadata *out = calloc(count + more + 1, sizeof *out);
  for (size_t i = 0; out && i < count; i++) {
    out[i].key = grpc_slice_from_copied_string(entries[i].key);
    out[i].value = grpc_slice_from_copied_buffer(entries[i].value, entries[i].size);
  }
  return out;
}

static void metadata_end(grpc_metadata *entries, size_t count) {
  for (size_t i = 0; entries && i < count; i++) {
    grpc_slice_unref(entries[i].key);
    grpc_slice_unref(entries[i].value);
  }
  free(entries);
}

static void end_op(grpc_op *op, const trn_exchange_end *end, grpc_metadata *trailing, size_t count, grpc_slice *text) {
  op->op = GRPC_OP_SEND_STATUS_FROM_SERVER;
  op->data.send_status_from_server.status = (grpc_status_code)end->status;
  op->data.send_status_from_server.trailing_metadata = trailing;
  op->data.send_status_from_server.trailing_metadata_count = count;
  *text = grpc_slice_from_copied_string(end->message ? end->message : "");
  op->data.send_status_from_server.status_details = text;
}

static bool rpc_write(void *io, const trn_exchange_write *write) {
  rpc *r = io;
  grpc_op ops[3];
  size_t count = 0, trailing_count = 0;
  memset(ops, 0, sizeof ops);
  grpc_metadata *initial = NULL, *trailing = NULL;
  grpc_slice text = grpc_empty_slice();
  if (write->is_first) {
    initial = metadata_to(write->initial, write->initial_count, 0);
    ops[count].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[count].data.send_initial_metadata.metadata = initial;
    ops[count++].data.send_initial_metadata.count = initial ? write->initial_count : 0;
  }
  if (write->message) {
    ops[count].op = GRPC_OP_SEND_MESSAGE;
    ops[count++].data.send_message.send_message = write->message;
  }
  if (write->end) {
    const trn_exchange_end *end = write->end;
    trailing = metadata_to(end->trailing, end->trailing_count, 1);
    trailing_count = trailing ? end->trailing_count : 0;
    if (trailing && end->details_size) {
      trailing[trailing_count].key = grpc_slice_from_static_string("grpc-status-details-bin");
      trailing[trailing_count++].value = grpc_slice_from_copied_buffer(end->details, end->details_size);
    }
    end_op(&ops[count++], end, trailing, trailing_count, &text);
  }
  bool is_ok = grpc_call_start_batch(r->call, ops, count, &r->write_tag, NULL) == GRPC_CALL_OK;
  metadata_end(initial, initial ? write->initial_count : 0);
  metadata_end(trailing, trailing_count);
  grpc_slice_unref(text);
  grpc_byte_buffer_destroy(write->message); /* accepts NULL */
  return is_ok;
}

/* ---- calls that are not served ---- */

typedef struct refusal {
  tag tag;
  grpc_call *call;
  int is_cancelled;
} refusal;

static void on_refused(tag *t, bool is_ok) {
  (void)is_ok;
  refusal *r = (refusal *)t;
  grpc_call_unref(r->call);
  free(r);
}

/* Takes `call`. */
static void refuse(grpc_call *call, trn_status status, const char *message) {
  refusal *r = calloc(1, sizeof *r);
  grpc_slice text = grpc_slice_from_copied_string(message);
  grpc_op ops[3];
  memset(ops, 0, sizeof ops);
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[1].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
  ops[1].data.send_status_from_server.status = (grpc_status_code)status;
  ops[1].data.send_status_from_server.status_details = &text;
  ops[2].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
  if (r) {
    *r = (refusal){{on_refused}, call, 0};
    ops[2].data.recv_close_on_server.cancelled = &r->is_cancelled;
  }
  if (!r || grpc_call_start_batch(call, ops, 3, &r->tag, NULL) != GRPC_CALL_OK) {
    grpc_call_unref(call); /* which cancels it */
    free(r);
  }
  grpc_slice_unref(text);
}

/* ---- accepting ---- */

static char *text_of(grpc_slice slice) {
  size_t size = GRPC_SLICE_LENGTH(slice);
  char *text = malloc(size + 1);
  if (text) {
    if (size) memcpy(text, GRPC_SLICE_START_PTR(slice), size);
    text[size] = 0;
  }
  return text;
}

/* Brackets of IPv6 addresses come percent-encoded. */
static void percent_decode(char *text) {
  char *out = text;
  for (const char *in = text; *in; out++) {
    char hex[3] = {in[0] == '%' ? in[1] : 0, in[0] == '%' && in[1] ? in[2] : 0, 0}, *end = hex;
    long code = strtol(hex, &end, 16);
    if (end == hex + 2 && code) {
      *out = (char)code;
      in += 3;
    } else {
      *out = *in++;
    }
  }
  *out = 0;
}

/* What the transport's credentials or the owner's metadata processor say. Gives NULL: nobody. */
static char *identity_of(grpc_auth_context *context) {
  if (!context || !grpc_auth_context_peer_is_authenticated(context)) return NULL;
  const char *name = grpc_auth_context_peer_identity_property_name(context);
  bool is_certificate = name && strncmp(name, "x509_", 5) == 0;
  grpc_auth_property_iterator properties =
      is_certificate ? grpc_auth_context_find_properties_by_name(context, GRPC_X509_CN_PROPERTY_NAME)
                     : grpc_auth_context_peer_identity(context);
  const grpc_auth_property *found = grpc_auth_property_iterator_next(&properties);
  if (!found && is_certificate) {
    properties = grpc_auth_context_peer_identity(context);
    found = grpc_auth_property_iterator_next(&properties);
  }
  return found && !memchr(found->value, 0, found->value_length) ? strndup(found->value, found->value_length) : NULL;
}

static int64_t deadline_ns(gpr_timespec deadline) {
  deadline = gpr_convert_clock_type(deadline, GPR_CLOCK_MONOTONIC);
  if (gpr_time_cmp(deadline, gpr_inf_future(GPR_CLOCK_MONOTONIC)) == 0 || deadline.tv_sec > INT64_MAX / 1000000000 - 1)
    return INT64_MAX;
  return deadline.tv_sec * INT64_C(1000000000) + deadline.tv_nsec;
}

/* What a call is made from: copies, freed together. */
typedef struct request {
  trn_metadata *metadata;
  size_t count;
  char *peer, *name;
  grpc_auth_context *context;
  trn_grpc_identity identity;
} request;

static void request_finish(request *q) {
  for (size_t i = 0; q->metadata && i < q->count; i++) free((char *)q->metadata[i].key);
  free(q->metadata);
  if (q->peer) gpr_free(q->peer);
  free(q->name);
  if (q->context) grpc_auth_context_release(q->context);
}

static trn_status request_init(request *q, const acceptor *a, const trn_method *method) {
  const trn_grpc_options *options = &a->poller->mount->options;
  const grpc_metadata_array *in = &a->metadata;
  if (in->count > TRN_HOST_METADATA_MAX) return TRN_RESOURCE_EXHAUSTED;
  q->metadata = calloc(in->count + 1, sizeof *q->metadata);
  q->peer = grpc_call_get_peer(a->call);
  if (!q->metadata) return TRN_RESOURCE_EXHAUSTED;
  if (q->peer) percent_decode(q->peer);
  for (size_t i = 0; i < in->count; i++) {
    grpc_slice value = in->metadata[i].value; /* small ones lie inside: their bytes are those of the array */
    q->metadata[q->count].key = text_of(in->metadata[i].key);
    q->metadata[q->count].value = GRPC_SLICE_START_PTR(in->metadata[i].value);
    q->metadata[q->count].size = GRPC_SLICE_LENGTH(value);
    if (!q->metadata[q->count++].key) return TRN_RESOURCE_EXHAUSTED;
  }
  trn_status status = options->identify ? options->identify(options->user, a->call, in, &q->identity) : TRN_OK;
  if (status == TRN_UNAUTHENTICATED && method->authenticates) { /* it asks for credentials itself */
    q->identity = (trn_grpc_identity){0};
    return TRN_OK;
  }
  if (status || q->identity.name) return status;
  q->context = grpc_call_auth_context(a->call);
  q->identity.name = q->name = identity_of(q->context);
  return TRN_OK;
}

/* Takes `a->call`. */
static void serve(acceptor *a, const trn_method *method) {
  static const trn_exchange_io ops = {rpc_read, rpc_write, rpc_poke, rpc_cancel, rpc_destroy};
  request q = {0};
  rpc *r = calloc(1, sizeof *r);
  trn_status status = r ? request_init(&q, a, method) : TRN_RESOURCE_EXHAUSTED;
  if (!status) {
    *r = (rpc){{on_read}, {on_written}, {on_poked}, {on_closed}, a->call, NULL, NULL, 0};
    trn_call_request made = {sizeof made,
                             method,
                             q.metadata,
                             q.count,
                             q.peer ? q.peer : "unknown:",
                             q.identity.name,
                             deadline_ns(a->method ? a->deadline : a->details.deadline),
                             q.identity.groups,
                             q.identity.group_count};
    status = trn_exchange_open(&made, &ops, r, &r->exchange);
  }
  request_finish(&q);
  if (status) {
    free(r);
    refuse(a->call, status, status == TRN_UNAUTHENTICATED ? "The caller is not known" : "The call cannot be opened");
    return;
  }
  trn_exchange *exchange = r->exchange;
  grpc_op op = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
  op.data.recv_close_on_server.cancelled = &r->is_cancelled;
  if (grpc_call_start_batch(r->call, &op, 1, &r->close_tag, NULL) != GRPC_CALL_OK) trn_exchange_closed(exchange, true);
  trn_exchange_start(exchange);
}

static void accept_next(acceptor *a) {
  trn_grpc_mount *mount = a->poller->mount;
  grpc_completion_queue *queue = a->poller->queue;
  a->call = NULL;
  grpc_metadata_array_init(&a->metadata);
  grpc_call_details_init(&a->details);
  if (a->method)
    grpc_server_request_registered_call(mount->server, a->registered, &a->call, &a->deadline, &a->metadata, NULL, queue,
                                        queue, &a->tag);
  else
    grpc_server_request_call(mount->server, &a->call, &a->details, &a->metadata, queue, queue, &a->tag);
}

static void on_call(tag *t, bool is_ok) {
  acceptor *a = (acceptor *)t;
  bool is_call = is_ok && a->call;
  if (is_call) {
    const trn_method *method = a->method;
    if (!method)
      method = trn_routes_find(a->poller->mount->options.routes, (const char *)GRPC_SLICE_START_PTR(a->details.method),
                               GRPC_SLICE_LENGTH(a->details.method));
    if (method)
      serve(a, method);
    else
      refuse(a->call, TRN_UNIMPLEMENTED, "There is no such method");
  }
  grpc_metadata_array_destroy(&a->metadata);
  grpc_call_details_destroy(&a->details);
  if (is_call) accept_next(a); /* else the server stops */
}

static void *poll(void *argument) {
  poller *p = argument;
  for (;;) {
    grpc_event event = grpc_completion_queue_next(p->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    if (event.type == GRPC_QUEUE_SHUTDOWN) return NULL;
    if (event.type == GRPC_OP_COMPLETE) ((tag *)event.tag)->run(event.tag, event.success != 0);
  }
}

/* ---- mounting ---- */

static trn_status add_acceptors(trn_grpc_mount *mount, size_t count, const trn_method *method, void *registered) {
  for (unsigned thread = 0; thread < mount->threads; thread++) {
    for (size_t i = 0; i < count; i++) {
      acceptor *a = calloc(1, sizeof *a);
      if (!a) return TRN_RESOURCE_EXHAUSTED;
      a->tag.run = on_call;
      a->poller = &mount->pollers[thread];
      a->method = method;
      a->registered = registered;
      a->next = mount->acceptors;
      mount->acceptors = a;
    }
  }
  return TRN_OK;
}

static trn_status add_all_acceptors(trn_grpc_mount *mount) {
  const trn_routes *routes = mount->options.routes;
  if (!mount->options.registered) return add_acceptors(mount, ACCEPTORS, NULL, NULL);
  trn_status status = TRN_OK;
  for (size_t i = 0; !status && i < trn_routes_count(routes); i++) {
    const trn_method *method = trn_routes_at(routes, i);
    void *handle = grpc_server_register_method(mount->server, method->path, NULL, GRPC_SRM_PAYLOAD_NONE, 0);
    status = handle ? add_acceptors(mount, REGISTERED_ACCEPTORS, method, handle) : TRN_ALREADY_EXISTS;
  }
  return status;
}

trn_status trn_grpc_mount_create(grpc_server *server, const trn_grpc_options *options, trn_grpc_mount **out) {
  if (!server || !options || options->struct_size < sizeof *options || !options->routes ||
      options->threads > THREADS_MAX)
    return TRN_INVALID_ARGUMENT;
  unsigned threads = options->threads ? options->threads : 2;
  trn_grpc_mount *mount = calloc(1, sizeof *mount + threads * sizeof *mount->pollers);
  if (!mount) return TRN_RESOURCE_EXHAUSTED;
  grpc_init(); /* counted: grpc_shutdown is in trn_grpc_mount_destroy */
  mount->server = server;
  mount->options = *options;
  mount->threads = threads;
  trn_status status = add_all_acceptors(mount);
  for (unsigned i = 0; !status && i < threads; i++) {
    mount->pollers[i].mount = mount;
    mount->pollers[i].queue = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(server, mount->pollers[i].queue, NULL);
  }
  if (status)
    trn_grpc_mount_destroy(mount);
  else
    *out = mount;
  return status;
}

trn_status trn_grpc_mount_start(trn_grpc_mount *mount) {
  for (unsigned i = 0; i < mount->threads; i++) {
    poller *p = &mount->pollers[i];
    if (pthread_create(&p->thread, NULL, poll, p)) return TRN_RESOURCE_EXHAUSTED;
    p->is_running = true;
  }
  for (acceptor *a = mount->acceptors; a; a = a->next) accept_next(a);
  return TRN_OK;
}

void trn_grpc_mount_destroy(trn_grpc_mount *mount) {
  if (!mount) return;
  for (unsigned i = 0; i < mount->threads; i++) {
    poller *p = &mount->pollers[i];
    if (!p->queue) continue;
    grpc_completion_queue_shutdown(p->queue);
    if (p->is_running)
      pthread_join(p->thread, NULL);
    else
      while (grpc_completion_queue_next(p->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
             GRPC_QUEUE_SHUTDOWN) {
      }
    grpc_completion_queue_destroy(p->queue);
  }
  while (mount->acceptors) {
    acceptor *next = mount->acceptors->next;
    free(mount->acceptors);
    mount->acceptors = next;
  }
  free(mount);
  grpc_shutdown();
}
