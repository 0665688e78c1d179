/* The bundled server behind TLS, with certificates made on the spot. */
#include "h2_fixture.h"

#include <signal.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

/* ---- certificates ---- */

typedef struct identity {
  EVP_PKEY *key;
  X509 *certificate;
  char *key_pem, *cert_pem;
} identity;

static char *take_text(BIO *bio) {
  char *data = NULL;
  long size = BIO_get_mem_data(bio, &data);
  char *text = calloc(1, (size_t)size + 1);
  memcpy(text, data, (size_t)size);
  BIO_free(bio);
  return text;
}

/* A certificate for `name`, signed by `issuer`, or by itself and then a CA. */
static identity make_identity(const char *name, int name_size, const identity *issuer) {
  identity made = {.key = EVP_EC_gen("P-256"), .certificate = X509_new()};
  X509 *x = made.certificate;
  X509_set_version(x, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x), 1 + rand() % 100000);
  X509_gmtime_adj(X509_getm_notBefore(x), -3600);
  X509_gmtime_adj(X509_getm_notAfter(x), 3600);
  X509_set_pubkey(x, made.key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8, (const unsigned char *)name, name_size, -1,
                             0);
  X509_set_issuer_name(x, X509_get_subject_name(issuer ? issuer->certificate : x));
  if (!issuer) {
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, NID_basic_constraints, "critical,CA:TRUE");
    X509_add_ext(x, extension, -1);
    X509_EXTENSION_free(extension);
  }
  assert_true(X509_sign(x, issuer ? issuer->key : made.key, EVP_sha256()) > 0);
  BIO *cert = BIO_new(BIO_s_mem()), *key = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(cert, x);
  PEM_write_bio_PrivateKey(key, made.key, NULL, NULL, 0, NULL, NULL);
  made.cert_pem = take_text(cert);
  made.key_pem = take_text(key);
  return made;
}

static void drop_identity(identity *identity) {
  EVP_PKEY_free(identity->key);
  X509_free(identity->certificate);
  free(identity->key_pem);
  free(identity->cert_pem);
}

/* ---- a server with mutual TLS, and clients ---- */

typedef struct tls_fixture {
  fixture base;
  identity ca, server, other_ca;
} tls_fixture;

static int set_up_tls(void **state) {
  tls_fixture *f = calloc(1, sizeof *f);
  f->ca = make_identity("test CA", -1, NULL);
  f->other_ca = make_identity("other CA", -1, NULL);
  f->server = make_identity("localhost", -1, &f->ca);
  *state = f;
  return start_server(&f->base, (trn_server_options){.loops = 2,
                                                     .cert_pem = f->server.cert_pem,
                                                     .key_pem = f->server.key_pem,
                                                     .client_ca_pem = f->ca.cert_pem});
}

static int tear_down_tls(void **state) {
  tls_fixture *f = *state;
  trn_server_stop(f->base.server, 0);
  bool clean = service_is_clean(&f->base.service);
  trn_routes_destroy(f->base.routes);
  drop_identity(&f->ca);
  drop_identity(&f->server);
  drop_identity(&f->other_ca);
  free(f);
  return clean ? 0 : -1;
}

/* Shakes hands; NULL when that fails. `as` NULL: without a certificate. */
static h2_client *tls_connect(tls_fixture *f, const identity *as, const char *alpn, int version_max) {
  SSL_CTX *context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_security_level(context, 0);
  if (version_max) SSL_CTX_set_max_proto_version(context, version_max);
  X509_STORE_add_cert(SSL_CTX_get_cert_store(context), f->ca.certificate);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (as) {
    SSL_CTX_use_certificate(context, as->certificate);
    SSL_CTX_use_PrivateKey(context, as->key);
  }
  SSL *ssl = SSL_new(context);
  SSL_CTX_free(context);
  int fd = client_socket(f->base.port, 0);
  SSL_set_fd(ssl, fd);
  if (alpn) SSL_set_alpn_protos(ssl, (const unsigned char *)alpn, (unsigned)strlen(alpn));
  if (SSL_connect(ssl) != 1) {
    ERR_clear_error();
    SSL_free(ssl);
    close(fd);
    return NULL;
  }
  fcntl(fd, F_SETFL, O_NONBLOCK);
  return client_on(fd, ssl, true);
}

/* No call gets through: the handshake fails, or with TLS 1.3 the first read after it. */
static void expect_shut_out(tls_fixture *f, const identity *as, const char *alpn, int version_max) {
  h2_client *client = tls_connect(f, as, alpn, version_max);
  if (client) {
    h2_reply *reply = ask(client, "/t.Test/Echo", NULL, 0, "x", 1);
    assert_false(reply->is_closed);
    assert_true(client->is_lost);
    client_close(client);
  }
  assert_int_equal(atomic_load(&f->base.service.opens), 0);
}

/* ---- tests ---- */

static void the_subject_of_a_client_certificate_is_the_identity(void **state) {
  tls_fixture *f = *state;
  const char *const names[] = {"alice", "J\xc3\xbcrgen"};
  for (size_t i = 0; i < 2; i++) {
    identity user = make_identity(names[i], -1, &f->ca);
    h2_client *client = tls_connect(f, &user, "\x2h2", 0);
    assert_non_null(client);
    trn_call *held = NULL;
    h2_reply *reply = client_call(client, "/t.Test/Hold", NULL, 0);
    client_message(client, reply, "x", 1, true);
    for (int j = 0; j < 500 && !held; j++) {
      client_run(client, 5);
      held = atomic_exchange(&f->base.service.held, NULL);
    }
    assert_non_null(held);
    assert_string_equal(trn_call_identity(held), names[i]);
    trn_call_finish(held, TRN_OK, NULL, NULL, 0, NULL, 0);
    trn_call_unref(held);
    client_finish(client, reply);
    expect(reply, 0, "");
    client_close(client);
    drop_identity(&user);
  }
}

static void a_name_with_a_nul_is_nobody(void **state) {
  tls_fixture *f = *state;
  identity user = make_identity("admin\0.example", 14, &f->ca);
  h2_client *client = tls_connect(f, &user, "\x2h2", 0);
  assert_non_null(client);
  h2_reply *reply = ask(client, "/t.Test/Echo", NULL, 0, "x", 1);
  expect(reply, 0, "");
  assert_null(strstr(reply->headers, "x-identity"));
  client_close(client);
  drop_identity(&user);
}

static void clients_without_a_good_certificate_are_shut_out(void **state) {
  tls_fixture *f = *state;
  identity stranger = make_identity("alice", -1, &f->other_ca);
  identity user = make_identity("alice", -1, &f->ca);
  expect_shut_out(f, NULL, "\x2h2", 0);
  expect_shut_out(f, NULL, "\x2h2", TLS1_2_VERSION);
  expect_shut_out(f, &stranger, "\x2h2", 0);
  expect_shut_out(f, &user, NULL, 0);          /* no ALPN */
  expect_shut_out(f, &user, "\x8http/1.1", 0); /* not HTTP/2 */
  expect_shut_out(f, &user, "\x2h2", TLS1_1_VERSION);
  h2_client *client = tls_connect(f, &user, "\x8http/1.1\x2h2", TLS1_2_VERSION);
  assert_non_null(client);
  expect(ask(client, "/t.Test/Echo", NULL, 0, "x", 1), 0, "");
  client_close(client);
  drop_identity(&stranger);
  drop_identity(&user);
}

static void bytes_that_are_not_tls_close_the_connection(void **state) {
  tls_fixture *f = *state;
  int fd = client_socket(f->base.port, 0);
  raw_send(fd, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
  assert_true(raw_is_closed(fd, 3000));
  close(fd);
}

static void bulk_goes_both_ways(void **state) {
  tls_fixture *f = *state;
  identity user = make_identity("alice", -1, &f->ca);
  h2_client *client = tls_connect(f, &user, "\x2h2", 0);
  assert_non_null(client);
  h2_reply *reply = ask(client, "/t.Test/Stream", NULL, 0, "100 100001", 10);
  const uint8_t *data = NULL;
  expect(reply, 0, "");
  assert_int_equal(reply->size, 100 * 100006);
  assert_int_equal(message_at(reply, 99, &data, NULL), 100001);
  assert_int_equal(data[49999], 'a');
  assert_int_equal(data[50000], 'b');
  uint8_t *bulk = malloc(5000000);
  for (size_t i = 0; i < 5000000; i++) bulk[i] = (uint8_t)(i * 7);
  reply = ask(client, "/t.Test/Echo", NULL, 0, bulk, 5000000);
  expect(reply, 0, "");
  assert_int_equal(message_at(reply, 0, &data, NULL), 5000000);
  assert_memory_equal(data, bulk, 5000000);
  free(bulk);
  client_close(client);
  drop_identity(&user);
}

static void pem_texts_that_do_not_fit_are_named(void **state) {
  tls_fixture *f = *state;
  const struct {
    const char *cert, *key, *ca, *words;
  } cases[] = {
      {"junk", f->server.key_pem, NULL, "cert_pem"},
      {f->server.cert_pem, "junk", NULL, "key_pem"},
      {f->server.cert_pem, f->ca.key_pem, NULL, "key_pem"},
      {f->server.cert_pem, f->server.key_pem, "junk", "client_ca_pem"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    trn_server_options options = {.struct_size = sizeof options,
                                  .listen = "127.0.0.1:0",
                                  .cert_pem = cases[i].cert,
                                  .key_pem = cases[i].key,
                                  .client_ca_pem = cases[i].ca};
    trn_server *server = NULL;
    trn_error *error = NULL;
    assert_int_equal(trn_server_start(f->base.routes, &options, &server, &error), TRN_INVALID_ARGUMENT);
    assert_non_null(strstr(trn_error_message(error), cases[i].words));
    trn_error_unref(error);
  }
}

#define TLS_CASE(name) cmocka_unit_test_setup_teardown(name, set_up_tls, tear_down_tls)

int main(void) {
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, NULL); /* the client's OpenSSL writes with write(); the server's does not */
  const struct CMUnitTest tests[] = {
      TLS_CASE(the_subject_of_a_client_certificate_is_the_identity),
      TLS_CASE(a_name_with_a_nul_is_nobody),
      TLS_CASE(clients_without_a_good_certificate_are_shut_out),
      TLS_CASE(bytes_that_are_not_tls_close_the_connection),
      TLS_CASE(bulk_goes_both_ways),
      TLS_CASE(pem_texts_that_do_not_fit_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
