/* A grpc_server with a service of its own and Spark Connect mounted in it.
 * usage: sparkserver [--registered] [--tls CERTIFICATE KEY CLIENT_CA] [ENGINE FUNCTIONS]
 * --registered: the program takes calls of unknown methods itself, so that ours are registered one by one. */
#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "example_routes.h"
#include "trunnion_grpc.h"

/* ---- the program's own service: /example.Owner/Hello gives its message back; with --registered the rest is refused
 * ---- */

typedef struct own_call {
  grpc_call *call;
  grpc_metadata_array metadata;
  grpc_byte_buffer *message;
  gpr_timespec deadline;
  grpc_call_details details;
  int is_cancelled;
  bool is_answered, is_unknown;
} own_call;

typedef struct owner {
  grpc_server *server;
  grpc_completion_queue *queue;
  void *hello;
} owner;

static void own_next(owner *o, bool is_unknown) {
  own_call *c = calloc(1, sizeof *c);
  if (!c) return;
  c->is_unknown = is_unknown;
  grpc_metadata_array_init(&c->metadata);
  grpc_call_details_init(&c->details);
  if (is_unknown)
    grpc_server_request_call(o->server, &c->call, &c->details, &c->metadata, o->queue, o->queue, c);
  else
    grpc_server_request_registered_call(o->server, o->hello, &c->call, &c->deadline, &c->metadata, &c->message,
                                        o->queue, o->queue, c);
}

static void own_answer(own_call *c) {
  grpc_slice refusal = grpc_slice_from_static_string("The owner knows no such method");
  grpc_op ops[4];
  memset(ops, 0, sizeof ops);
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[1].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
  if (c->is_unknown) {
    ops[1].data.send_status_from_server.status = GRPC_STATUS_UNIMPLEMENTED;
    ops[1].data.send_status_from_server.status_details = &refusal;
  }
  ops[2].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
  ops[2].data.recv_close_on_server.cancelled = &c->is_cancelled;
  ops[3].op = GRPC_OP_SEND_MESSAGE;
  ops[3].data.send_message.send_message = c->message;
  c->is_answered = true;
  grpc_call_start_batch(c->call, ops, c->message ? 4 : 3, c, NULL);
}

/* Until the server has shut down, whose tag is NULL. */
static void own_serve(owner *o) {
  for (;;) {
    grpc_event event = grpc_completion_queue_next(o->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    own_call *c = event.tag;
    if (!c) return;
    if (c->call && !c->is_answered) {
      own_next(o, c->is_unknown);
      own_answer(c);
      continue;
    }
    if (c->call) grpc_call_unref(c->call);
    if (c->message) grpc_byte_buffer_destroy(c->message);
    grpc_metadata_array_destroy(&c->metadata);
    grpc_call_details_destroy(&c->details);
    free(c);
  }
}

/* ---- who sends: the program's own rule ---- */

static trn_status identify(void *user, grpc_call *call, const grpc_metadata_array *metadata, trn_grpc_identity *out) {
  static _Thread_local char name[64];
  static const char *const groups[] = {"staff", "night shift"};
  (void)user;
  (void)call;
  for (size_t i = 0; i < metadata->count; i++) {
    if (grpc_slice_str_cmp(metadata->metadata[i].key, "who") != 0) continue;
    grpc_slice value = metadata->metadata[i].value;
    size_t size = GRPC_SLICE_LENGTH(value);
    if (size >= sizeof name) return TRN_UNAUTHENTICATED;
    memcpy(name, GRPC_SLICE_START_PTR(value), size);
    name[size] = 0;
    out->name = name;
    out->groups = groups;
    out->group_count = 2;
  }
  return TRN_OK;
}

/* ---- the server ---- */

static grpc_server_credentials *credentials(const example_arguments *a) {
  if (!a->certificate) return grpc_insecure_server_credentials_create();
  char *ca = example_file_read(a->client_ca);
  char *chain = example_file_read(a->certificate), *key = example_file_read(a->key);
  grpc_ssl_pem_key_cert_pair pair = {key, chain};
  grpc_server_credentials *made = grpc_ssl_server_credentials_create_ex(
      ca, &pair, 1, GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, NULL);
  free(ca);
  free(chain);
  free(key);
  return made;
}

static grpc_server *server_create(void) {
  grpc_arg arguments[] = {
      {GRPC_ARG_INTEGER, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, {.integer = 128 << 20}}, /* the default is 4 MB */
      {GRPC_ARG_INTEGER, GRPC_ARG_MAX_METADATA_SIZE, {.integer = 64 << 10}},           /* 8 KB */
      {GRPC_ARG_INTEGER, GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, {.integer = 500}},
      {GRPC_ARG_INTEGER, GRPC_ARG_ALLOW_REUSEPORT, {.integer = 0}},
  };
  grpc_channel_args all = {sizeof arguments / sizeof *arguments, arguments};
  return grpc_server_create(&all, NULL);
}

/* The main thread serves the program's own calls; this one waits for the end. */
static void *stop_at_signal(void *argument) {
  owner *o = argument;
  sigset_t set;
  int number;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigwait(&set, &number);
  grpc_server_shutdown_and_notify(o->server, o->queue, NULL);
  grpc_server_cancel_all_calls(o->server);
  return NULL;
}

int main(int argc, char **argv) {
  example_arguments arguments;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  bool is_registered = argc > 1 && strcmp(argv[1], "--registered") == 0;
  if (!example_arguments_init(&arguments, argc - is_registered, argv + is_registered)) return 1;
  grpc_init();
  owner o = {server_create(), grpc_completion_queue_create_for_next(NULL), NULL};
  grpc_server_register_completion_queue(o.server, o.queue, NULL);
  o.hello =
      grpc_server_register_method(o.server, "/example.Owner/Hello", NULL, GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
  grpc_server_credentials *owners = credentials(&arguments);
  int port = grpc_server_add_http2_port(o.server, "127.0.0.1:0", owners);
  grpc_server_credentials_release(owners);

  trn_grpc_mount *mount = NULL;
  trn_grpc_options options = {sizeof options, arguments.routes, 0, is_registered, identify, NULL};
  trn_status status = port ? trn_grpc_mount_create(o.server, &options, &mount) : TRN_UNAVAILABLE;
  if (status) {
    fprintf(stderr, "mount: %s\n", trn_status_name(status));
    return 1;
  }
  grpc_server_start(o.server);
  status = trn_grpc_mount_start(mount);
  if (status) {
    fprintf(stderr, "start: %s\n", trn_status_name(status));
    return 1;
  }
  pthread_t stopper;
  if (pthread_create(&stopper, NULL, stop_at_signal, &o)) return 1;
  printf("libgrpc: Spark Connect on sc://127.0.0.1:%d\n", port);
  fflush(stdout);
  own_next(&o, false);
  if (is_registered) own_next(&o, true);
  own_serve(&o);

  pthread_join(stopper, NULL);
  trn_grpc_mount_destroy(mount);
  grpc_server_destroy(o.server);
  grpc_completion_queue_shutdown(o.queue);
  while (grpc_completion_queue_next(o.queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).type != GRPC_QUEUE_SHUTDOWN) {
  }
  grpc_completion_queue_destroy(o.queue);
  example_arguments_finish(&arguments);
  /* No grpc_shutdown: it may wait ten seconds for threads of libgrpc's own, and the process ends anyway. */
  return 0;
}
