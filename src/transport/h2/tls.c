/* TLS over the connection's socket. Its own BIO, because OpenSSL's writes with write(), which may raise SIGPIPE. */
#include <errno.h>
#include <sys/socket.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "h2.h"

struct h2_tls {
  SSL_CTX *context;
  BIO_METHOD *socket;
};

/* ---- the socket as a BIO ---- */

static int socket_of(BIO *bio) {
  return (int)(intptr_t)BIO_get_data(bio);
}

static bool is_retry(void) {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static int bio_write(BIO *bio, const char *data, int size) {
  BIO_clear_retry_flags(bio);
  ssize_t written = send(socket_of(bio), data, (size_t)size, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (written < 0 && is_retry()) BIO_set_retry_write(bio);
  return (int)written;
}

static int bio_read(BIO *bio, char *data, int size) {
  BIO_clear_retry_flags(bio);
  ssize_t got = recv(socket_of(bio), data, (size_t)size, MSG_DONTWAIT);
  if (got < 0 && is_retry()) BIO_set_retry_read(bio);
  return (int)got;
}

static long bio_control(BIO *bio, int command, long number, void *pointer) {
  (void)bio, (void)number, (void)pointer;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static int bio_create(BIO *bio) {
  BIO_set_init(bio, 1);
  return 1;
}

/* ---- the context ---- */

static int select_h2(SSL *ssl, const unsigned char **out, unsigned char *out_size, const unsigned char *in,
                     unsigned int in_size, void *argument) {
  (void)ssl, (void)argument;
  for (unsigned i = 0; i < in_size; i += 1u + in[i]) {
    if (in[i] == 2 && i + 2 < in_size && in[i + 1] == 'h' && in[i + 2] == '2') {
      *out = in + i + 1;
      *out_size = 2;
      return SSL_TLSEXT_ERR_OK;
    }
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* No password prompt: a library does not talk to a terminal. */
static int no_password(char *buffer, int size, int writing, void *user) {
  (void)buffer, (void)size, (void)writing, (void)user;
  return 0;
}

static bool use_chain(SSL_CTX *context, const char *pem) {
  BIO *bio = BIO_new_mem_buf(pem, -1);
  X509 *certificate = bio ? PEM_read_bio_X509_AUX(bio, NULL, no_password, NULL) : NULL;
  bool ok = certificate && SSL_CTX_use_certificate(context, certificate) == 1;
  X509_free(certificate);
  while (ok && (certificate = PEM_read_bio_X509(bio, NULL, no_password, NULL))) {
    if (SSL_CTX_add0_chain_cert(context, certificate) != 1) {
      X509_free(certificate);
      ok = false;
    }
  }
  BIO_free(bio);
  return ok;
}

static bool use_key(SSL_CTX *context, const char *pem) {
  BIO *bio = BIO_new_mem_buf(pem, -1);
  EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
  bool ok = key && SSL_CTX_use_PrivateKey(context, key) == 1 && SSL_CTX_check_private_key(context) == 1;
  EVP_PKEY_free(key);
  BIO_free(bio);
  return ok;
}

static bool use_client_ca(SSL_CTX *context, const char *pem) {
  BIO *bio = BIO_new_mem_buf(pem, -1);
  X509_STORE *store = SSL_CTX_get_cert_store(context);
  X509 *certificate = NULL;
  size_t count = 0;
  bool ok = bio && store;
  while (ok && (certificate = PEM_read_bio_X509(bio, NULL, no_password, NULL))) {
    ok = X509_STORE_add_cert(store, certificate) == 1 && SSL_CTX_add_client_CA(context, certificate) == 1;
    X509_free(certificate);
    count++;
  }
  BIO_free(bio);
  if (!ok || !count) return false;
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
  static const unsigned char name[] = "trunnion";
  return SSL_CTX_set_session_id_context(context, name, sizeof name - 1) == 1;
}

static bool prepare(h2_tls *tls) {
  tls->context = SSL_CTX_new(TLS_server_method());
  tls->socket = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "trunnion socket");
  if (!tls->context || !tls->socket) return false;
  BIO_meth_set_write(tls->socket, bio_write);
  BIO_meth_set_read(tls->socket, bio_read);
  BIO_meth_set_ctrl(tls->socket, bio_control);
  BIO_meth_set_create(tls->socket, bio_create);
  SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION);
  SSL_CTX_set_options(tls->context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(tls->context,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(tls->context, select_h2, NULL);
  return true;
}

trn_status trn__h2_tls_create(const trn_server_options *options, h2_tls **out, trn_error **error) {
  const char *problem = NULL;
  h2_tls *tls = calloc(1, sizeof *tls);
  *out = NULL;
  if (!tls || !prepare(tls)) {
    problem = "no TLS context could be made";
  } else if (!use_chain(tls->context, options->cert_pem)) {
    problem = "cert_pem is not a PEM certificate chain";
  } else if (!use_key(tls->context, options->key_pem)) {
    problem = "key_pem is not an unencrypted PEM key that belongs to cert_pem";
  } else if (options->client_ca_pem && !use_client_ca(tls->context, options->client_ca_pem)) {
    problem = "client_ca_pem holds no PEM certificate";
  }
  ERR_clear_error();
  if (problem) {
    trn__h2_tls_destroy(tls);
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "TLS of the server cannot be set up: %s", problem);
  }
  *out = tls;
  return TRN_OK;
}

void trn__h2_tls_destroy(h2_tls *tls) {
  if (!tls) return;
  SSL_CTX_free(tls->context);
  BIO_meth_free(tls->socket);
  free(tls);
}

/* ---- a connection ---- */

SSL *trn__h2_tls_accept(h2_tls *tls, int fd) {
  SSL *ssl = SSL_new(tls->context);
  BIO *bio = BIO_new(tls->socket);
  if (!ssl || !bio) {
    SSL_free(ssl);
    BIO_free(bio);
    return NULL;
  }
  BIO_set_data(bio, (void *)(intptr_t)fd);
  SSL_set_bio(ssl, bio, bio);
  SSL_set_accept_state(ssl);
  return ssl;
}

bool trn__h2_tls_is_h2(SSL *ssl) {
  const unsigned char *protocol = NULL;
  unsigned int size = 0;
  SSL_get0_alpn_selected(ssl, &protocol, &size);
  return size == 2 && memcmp(protocol, "h2", 2) == 0;
}

void trn__h2_tls_identity(SSL *ssl, char *out, size_t out_size) {
  out[0] = 0;
  X509 *certificate = SSL_get1_peer_certificate(ssl);
  if (!certificate) return;
  X509_NAME *subject = X509_get_subject_name(certificate);
  int at = SSL_get_verify_result(ssl) == X509_V_OK ? X509_NAME_get_index_by_NID(subject, NID_commonName, -1) : -1;
  unsigned char *text = NULL;
  int size = at < 0 ? -1 : ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
  /* A name with a NUL in it, or one that does not fit, would be taken for another. */
  if (size > 0 && (size_t)size < out_size && !memchr(text, 0, (size_t)size)) {
    memcpy(out, text, (size_t)size);
    out[size] = 0;
  }
  OPENSSL_free(text);
  X509_free(certificate);
}
