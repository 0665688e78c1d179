/* trn_routes and trn_call by themselves, with a host that only counts. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trunnion/call.h>

typedef struct tally {
  int opens, messages, half_closes, writables, cancels, dones;
  int sends, finishes, recvs, metadata, aborts, destroys;
  trn_status status;
  bool was_cancelled_in_callback;
  trn_call *deliver_inside; /* a host that breaks the rule */
} tally;

static void on_open(trn_call *call, void *service) {
  tally *tally = service;
  tally->opens++;
  trn_call_set_user(call, tally);
}

static void on_message(trn_call *call, void *user, trn_slice message) {
  (void)call;
  ((tally *)user)->messages++;
  if (message.release) message.release(message.owner);
}

static void on_half_close(trn_call *call, void *user) {
  (void)call;
  ((tally *)user)->half_closes++;
}

static void on_writable(trn_call *call, void *user) {
  (void)call;
  ((tally *)user)->writables++;
}

static void on_cancel(trn_call *call, void *user) {
  tally *tally = user;
  tally->cancels++;
  tally->was_cancelled_in_callback = trn_call_is_cancelled(call);
}

static void on_done(trn_call *call, void *user) {
  (void)call;
  ((tally *)user)->dones++;
}

static trn_method method_of(const char *path, void *service) {
  return (trn_method){
      .struct_size = sizeof(trn_method),
      .path = path,
      .kind = TRN_METHOD_BIDI,
      .on_open = on_open,
      .on_message = on_message,
      .on_half_close = on_half_close,
      .on_writable = on_writable,
      .on_cancel = on_cancel,
      .on_done = on_done,
      .service = service,
  };
}

static trn_send_result host_send(void *self, const trn_slice *slices, size_t count, unsigned flags) {
  tally *tally = self;
  (void)flags;
  tally->sends++;
  for (size_t i = 0; i < count; i++) {
    if (slices[i].release) slices[i].release(slices[i].owner);
  }
  if (tally->deliver_inside) trn_call_deliver_writable(tally->deliver_inside);
  return TRN_SEND_FULL;
}

static void host_finish(void *self, trn_status status, const char *message, const void *details, size_t details_size,
                        const trn_metadata *trailing, size_t trailing_count) {
  (void)message, (void)details, (void)details_size, (void)trailing, (void)trailing_count;
  ((tally *)self)->finishes++;
  ((tally *)self)->status = status;
}

static void host_recv(void *self) {
  ((tally *)self)->recvs++;
}

static void host_metadata(void *self, const trn_metadata *metadata, size_t count) {
  (void)metadata, (void)count;
  ((tally *)self)->metadata++;
}

static void host_abort(void *self, trn_status status) {
  ((tally *)self)->aborts++;
  ((tally *)self)->status = status;
}

static void host_destroy(void *self) {
  ((tally *)self)->destroys++;
}

static const trn_call_host full_host = {
    sizeof(trn_call_host), host_send, host_finish, host_recv, host_metadata, host_abort, host_destroy,
};

/* ---- routes ---- */

static void routes_find_what_was_added(void **state) {
  (void)state;
  trn_routes *routes = NULL;
  char path[64];
  assert_int_equal(trn_routes_create(&routes), TRN_OK);
  assert_null(trn_routes_find(routes, "/a.B/C", 6));
  for (int i = 0; i < 500; i++) {
    snprintf(path, sizeof path, "/a.B/Method%d", i);
    trn_method method = method_of(path, NULL);
    assert_int_equal(trn_routes_add(routes, &method, 1, NULL), TRN_OK);
  }
  assert_int_equal(trn_routes_count(routes), 500);
  for (int i = 0; i < 500; i++) {
    int size = snprintf(path, sizeof path, "/a.B/Method%d", i);
    const trn_method *found = trn_routes_find(routes, path, (size_t)size);
    assert_non_null(found);
    assert_string_equal(found->path, path);
    assert_ptr_not_equal(found->path, path);
    assert_ptr_equal(trn_routes_at(routes, (size_t)i), found);
  }
  assert_null(trn_routes_find(routes, "/a.B/Method", 11));
  assert_null(trn_routes_find(routes, "/a.B/Method50000", 16));
  assert_null(trn_routes_at(routes, 500));
  trn_routes_destroy(routes);
}

static void routes_add_all_or_nothing(void **state) {
  (void)state;
  trn_routes *routes = NULL;
  trn_error *error = NULL;
  assert_int_equal(trn_routes_create(&routes), TRN_OK);
  trn_method first = method_of("/s/A", NULL);
  assert_int_equal(trn_routes_add(routes, &first, 1, NULL), TRN_OK);
  trn_method taken[] = {method_of("/s/B", NULL), method_of("/s/A", NULL)};
  assert_int_equal(trn_routes_add(routes, taken, 2, &error), TRN_ALREADY_EXISTS);
  assert_non_null(strstr(trn_error_message(error), "/s/A"));
  trn_error_unref(error);
  assert_int_equal(trn_routes_count(routes), 1);
  assert_null(trn_routes_find(routes, "/s/B", 4));
  trn_method twice[] = {method_of("/s/C", NULL), method_of("/s/C", NULL)};
  assert_int_equal(trn_routes_add(routes, twice, 2, NULL), TRN_ALREADY_EXISTS);
  assert_null(trn_routes_find(routes, "/s/C", 4));
  trn_method bad[] = {method_of("/s/D", NULL), method_of("no-slash", NULL)};
  assert_int_equal(trn_routes_add(routes, bad, 2, NULL), TRN_INVALID_ARGUMENT);
  bad[1] = method_of("/s/E", NULL);
  bad[1].on_done = NULL;
  assert_int_equal(trn_routes_add(routes, bad, 2, NULL), TRN_INVALID_ARGUMENT);
  bad[1] = method_of("/s/E", NULL);
  bad[1].kind = (trn_method_kind)9;
  assert_int_equal(trn_routes_add(routes, bad, 2, NULL), TRN_INVALID_ARGUMENT);
  assert_int_equal(trn_routes_count(routes), 1);
  assert_non_null(trn_routes_find(routes, "/s/A", 4));
  trn_routes_destroy(routes);
}

static void routes_read_an_older_method_struct_as_zero(void **state) {
  (void)state;
  trn_routes *routes = NULL;
  assert_int_equal(trn_routes_create(&routes), TRN_OK);
  trn_method method = method_of("/s/A", NULL);
  method.message_bytes_max = 7;
  method.struct_size = offsetof(trn_method, message_bytes_max);
  assert_int_equal(trn_routes_add(routes, &method, 1, NULL), TRN_OK);
  assert_int_equal(trn_routes_at(routes, 0)->message_bytes_max, 0);
  assert_int_equal(trn_routes_at(routes, 0)->struct_size, sizeof(trn_method));
  trn_routes_destroy(routes);
}

static char order[8];

static void note_order(void *service) {
  strcat(order, service);
}

static void routes_destroy_what_they_own_last_first(void **state) {
  (void)state;
  trn_routes *routes = NULL;
  assert_int_equal(trn_routes_create(&routes), TRN_OK);
  order[0] = 0;
  assert_int_equal(trn_routes_own(routes, note_order, "a"), TRN_OK);
  assert_int_equal(trn_routes_own(routes, note_order, "b"), TRN_OK);
  assert_int_equal(trn_routes_own(routes, NULL, "c"), TRN_INVALID_ARGUMENT);
  trn_routes_destroy(routes);
  assert_string_equal(order, "ba");
  trn_routes_destroy(NULL);
}

/* ---- calls ---- */

typedef struct fixture {
  tally tally;
  trn_routes *routes;
  trn_call *call;
} fixture;

static void make_call(fixture *fixture, const trn_call_host *host) {
  static const trn_metadata metadata[] = {{"a", "1", 1}, {"b-bin", "\0x", 2}, {"a", "2", 1}, {"empty", "", 0}};
  memset(fixture, 0, sizeof *fixture);
  assert_int_equal(trn_routes_create(&fixture->routes), TRN_OK);
  trn_method method = method_of("/s/A", &fixture->tally);
  assert_int_equal(trn_routes_add(fixture->routes, &method, 1, NULL), TRN_OK);
  trn_call_request request = {
      .struct_size = sizeof request,
      .method = trn_routes_at(fixture->routes, 0),
      .metadata = metadata,
      .metadata_count = 4,
      .peer = "ipv4:1.2.3.4:5",
      .identity = "alice",
  };
  assert_int_equal(trn_call_create(&request, host, &fixture->tally, &fixture->call), TRN_OK);
}

static void a_call_shows_its_request(void **state) {
  (void)state;
  fixture f;
  size_t size = 99;
  make_call(&f, &full_host);
  assert_memory_equal(trn_call_metadata(f.call, "a", &size), "2", 2); /* the last one, with a NUL */
  assert_int_equal(size, 1);
  assert_memory_equal(trn_call_metadata(f.call, "b-bin", &size), "\0x", 2);
  assert_int_equal(size, 2);
  assert_non_null(trn_call_metadata(f.call, "empty", &size));
  assert_int_equal(size, 0);
  assert_null(trn_call_metadata(f.call, "c", &size));
  assert_int_equal(trn_call_metadata_count(f.call), 4);
  assert_string_equal(trn_call_metadata_at(f.call, 0)->value, "1");
  assert_null(trn_call_metadata_at(f.call, 4));
  assert_int_equal(trn_call_deadline_ns(f.call), INT64_MAX);
  assert_string_equal(trn_call_peer(f.call), "ipv4:1.2.3.4:5");
  assert_string_equal(trn_call_identity(f.call), "alice");
  assert_ptr_equal(trn_call_method(f.call), trn_routes_at(f.routes, 0));
  assert_ptr_equal(trn_call_user(f.call), &f.tally);
  trn_call_unref(f.call); /* never opened */
  assert_int_equal(f.tally.destroys, 1);
  assert_int_equal(f.tally.dones, 0);
  trn_routes_destroy(f.routes);
}

static void deliveries_reach_the_frontend_and_requests_the_host(void **state) {
  (void)state;
  fixture f;
  make_call(&f, &full_host);
  trn_call_deliver_open(f.call);
  trn_call *frontend = trn_call_ref(f.call);
  trn_call_deliver_message(f.call, (trn_slice){.data = "x", .size = 1});
  trn_call_deliver_writable(f.call);
  trn_call_deliver_half_close(f.call);
  assert_false(trn_call_is_cancelled(f.call));
  trn_call_recv(frontend);
  trn_slice slice = {.data = "y", .size = 1};
  assert_int_equal(trn_call_send(frontend, &slice, 1, 0), TRN_SEND_FULL);
  trn_call_set_initial_metadata(frontend, NULL, 0);
  trn_call_finish(frontend, TRN_NOT_FOUND, "m", NULL, 0, NULL, 0);
  assert_int_equal(f.tally.status, TRN_NOT_FOUND);
  trn_call_abort(frontend, TRN_CANCELLED);
  trn_call_deliver_cancel(f.call);
  assert_true(f.tally.was_cancelled_in_callback);
  trn_call_deliver_done(f.call); /* drops the host's reference */
  assert_int_equal(f.tally.destroys, 0);
  assert_true(trn_call_is_cancelled(frontend));
  assert_int_equal(trn_call_send(frontend, &slice, 1, 0), TRN_SEND_FULL); /* the host's business, also after the end */
  trn_call_unref(frontend);
  static const tally want = {1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1, 1, TRN_CANCELLED, true, NULL};
  assert_memory_equal(&f.tally, &want, sizeof want);
  trn_routes_destroy(f.routes);
  trn_call_unref(NULL);
}

static void a_host_without_optional_functions_works(void **state) {
  (void)state;
  fixture f;
  trn_call_host host = {sizeof host, host_send, host_finish, NULL, NULL, NULL, host_destroy};
  make_call(&f, &host);
  trn_call_deliver_open(f.call);
  trn_call_recv(f.call);
  trn_call_set_initial_metadata(f.call, NULL, 0);
  trn_call_abort(f.call, TRN_ABORTED); /* becomes a finish */
  assert_int_equal(f.tally.finishes, 1);
  assert_int_equal(f.tally.status, TRN_ABORTED);
  trn_call_deliver_done(f.call);
  assert_int_equal(f.tally.destroys, 1);
  trn_call_request request = {.struct_size = sizeof request, .method = trn_routes_at(f.routes, 0)};
  trn_call *out = (trn_call *)&f;
  host.finish = NULL;
  assert_int_equal(trn_call_create(&request, &host, NULL, &out), TRN_INVALID_ARGUMENT);
  assert_null(out);
  trn_routes_destroy(f.routes);
}

/* ---- the contract is asserted in debug builds ---- */

#ifndef NDEBUG
static void breach_message_before_open(fixture *f) {
  trn_call_deliver_message(f->call, (trn_slice){.data = ""});
}
static void breach_message_after_half_close(fixture *f) {
  trn_call_deliver_open(f->call);
  trn_call_deliver_half_close(f->call);
  trn_call_deliver_message(f->call, (trn_slice){.data = ""});
}
static void breach_open_twice(fixture *f) {
  trn_call_deliver_open(f->call);
  trn_call_deliver_open(f->call);
}
static void breach_cancel_twice(fixture *f) {
  trn_call_deliver_open(f->call);
  trn_call_deliver_cancel(f->call);
  trn_call_deliver_cancel(f->call);
}
static void breach_after_done(fixture *f) {
  trn_call_deliver_open(f->call);
  trn_call_ref(f->call);
  trn_call_deliver_done(f->call);
  trn_call_deliver_writable(f->call);
}
static void breach_delivery_inside_host(fixture *f) {
  trn_call_deliver_open(f->call);
  f->tally.deliver_inside = f->call;
  trn_call_send(f->call, NULL, 0, 0);
}

static void breaches_of_the_delivery_contract_stop_a_debug_build(void **state) {
  (void)state;
  void (*const breaches[])(fixture *) = {breach_message_before_open, breach_message_after_half_close,
                                         breach_open_twice,          breach_cancel_twice,
                                         breach_after_done,          breach_delivery_inside_host};
  for (size_t i = 0; i < sizeof breaches / sizeof *breaches; i++) {
    fixture f;
    make_call(&f, &full_host);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      signal(SIGILL, SIG_DFL);
      signal(SIGTRAP, SIG_DFL);
      breaches[i](&f);
      _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) fail_msg("breach %zu was not noticed", i);
    trn_call_unref(f.call);
    trn_routes_destroy(f.routes);
  }
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(routes_find_what_was_added),
      cmocka_unit_test(routes_add_all_or_nothing),
      cmocka_unit_test(routes_read_an_older_method_struct_as_zero),
      cmocka_unit_test(routes_destroy_what_they_own_last_first),
      cmocka_unit_test(a_call_shows_its_request),
      cmocka_unit_test(deliveries_reach_the_frontend_and_requests_the_host),
      cmocka_unit_test(a_host_without_optional_functions_works),
#ifndef NDEBUG
      cmocka_unit_test(breaches_of_the_delivery_contract_stop_a_debug_build),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
