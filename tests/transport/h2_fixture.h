/* A bundled server with the test service, on a free port. */
#ifndef TESTS_TRANSPORT_H2_FIXTURE_H
#define TESTS_TRANSPORT_H2_FIXTURE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <trunnion/server.h>

#include "support/call_service.h"

#include "h2_client.h"

typedef struct fixture {
  call_service service;
  trn_routes *routes;
  trn_server *server;
  int port;
} fixture;

static inline int start_server(fixture *f, trn_server_options options) {
  trn_error *error = NULL;
  options.struct_size = sizeof options;
  options.listen = "127.0.0.1:0";
  f->routes = service_routes(&f->service);
  if (trn_server_start(f->routes, &options, &f->server, &error) != TRN_OK) {
    print_error("%s\n", trn_error_message(error));
    trn_error_unref(error);
    return -1;
  }
  f->port = trn_server_port(f->server);
  return 0;
}

static inline int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  *state = f;
  return start_server(f, (trn_server_options){.loops = 2, .message_bytes_max = 4u << 20, .streams_max = 200});
}

static inline int tear_down(void **state) {
  fixture *f = *state;
  trn_server_stop(f->server, 0);
  bool clean = service_is_clean(&f->service);
  if (!clean) {
    print_error("opens %d dones %d made %d released %d errors %d\n", f->service.opens, f->service.dones,
                f->service.made, f->service.released, f->service.errors);
  }
  trn_routes_destroy(f->routes);
  free(f);
  return clean ? 0 : -1;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* A unary request and its end. */
static inline h2_reply *ask(h2_client *client, const char *path, const nghttp2_nv *extra, size_t extra_count,
                            const void *data, size_t size) {
  h2_reply *reply = client_call(client, path, extra, extra_count);
  client_message(client, reply, data, size, true);
  client_finish(client, reply);
  return reply;
}

static inline void expect(const h2_reply *reply, int grpc_status, const char *words) {
  if (!reply->is_closed || reply->grpc_status != grpc_status || !strstr(reply->message, words)) {
    fail_msg("closed %d, HTTP %d, status %d not %d, message '%s' without '%s', RST %u", reply->is_closed,
             reply->http_status, reply->grpc_status, grpc_status, reply->message, words, reply->error_code);
  }
}

/* The server still serves. */
static inline void expect_alive(fixture *f) {
  h2_client *client = client_connect(f->port, true, 0);
  expect(ask(client, "/t.Test/Echo", NULL, 0, "x", 1), 0, "");
  client_close(client);
}

/* Copies the payload of the index-th message in a reply. */
static inline size_t message_at(const h2_reply *reply, size_t index, const uint8_t **data, int *flag) {
  size_t at = 0;
  for (size_t i = 0; at + 5 <= reply->size; i++) {
    const uint8_t *p = reply->data + at;
    size_t size = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    if (i == index) {
      *data = p + 5;
      if (flag) *flag = p[0];
      return size;
    }
    at += 5 + size;
  }
  return SIZE_MAX;
}

#endif
