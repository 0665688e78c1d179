/* TLS over the connection's socket. Its own BIO, because OpenSSL's writes with write(), which may raise SIGPIPE. */
#include <errno.h>
#include <sys/socket.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "h2.h"

struct h2_tls {
  atomic_size_t refs;
  SSL_CTX *context;
  BIO_METHOD *socket;
  bool takes_http1;
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

static bool select_one(const char *name, const unsigned char **out, unsigned char *out_size, const unsigned char *in,
                       unsigned int in_size) {
  size_t size = strlen(name);
  for (unsigned i = 0; i < in_size; i += 1u + in[i]) {
    if (in[i] == size && size < in_size - i && memcmp(in + i + 1, name, size) == 0) {
      *out = in + i + 1;
      *out_size = (unsigned char)size;
      return true;
    }
  }
  return false;
}

static int select_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_size, const unsigned char *in,
                           unsigned int in_size, void *argument) {
  (void)ssl;
  const h2_tls *tls = argument;
  if (select_one("h2", out, out_size, in, in_size)) return SSL_TLSEXT_ERR_OK;
  if (tls->takes_http1 && select_one("http/1.1", out, out_size, in, in_size)) return SSL_TLSEXT_ERR_OK;
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

static bool use_ca(SSL_CTX *context, const char *pem, bool is_client) {
  BIO *bio = BIO_new_mem_buf(pem, -1);
  X509_STORE *store = SSL_CTX_get_cert_store(context);
  X509 *certificate = NULL;
  size_t count = 0;
  bool ok = bio && store;
  while (ok && (certificate = PEM_read_bio_X509(bio, NULL, no_password, NULL))) {
    ok =
        X509_STORE_add_cert(store, certificate) == 1 && (is_client || SSL_CTX_add_client_CA(context, certificate) == 1);
    X509_free(certificate);
    count++;
  }
  BIO_free(bio);
  if (!ok || !count) return false;
  if (is_client) return true;
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
  static const unsigned char name[] = "trunnion";
  return SSL_CTX_set_session_id_context(context, name, sizeof name - 1) == 1;
}

static bool prepare(h2_tls *tls, const h2_tls_texts *texts) {
  static const unsigned char h2[] = {2, 'h', '2'};
  tls->context = SSL_CTX_new(texts->is_client ? TLS_client_method() : TLS_server_method());
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
  if (texts->is_client) {
    SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, NULL);
    return SSL_CTX_set_alpn_protos(tls->context, h2, sizeof h2) == 0; /* the odd one: 0 is success */
  }
  SSL_CTX_set_alpn_select_cb(tls->context, select_protocol, tls);
  tls->takes_http1 = texts->takes_http1;
  return true;
}

trn_status trn__h2_tls_create(const h2_tls_texts *texts, h2_tls **out, trn_error **error) {
  const char *problem = NULL;
  h2_tls *tls = calloc(1, sizeof *tls);
  *out = NULL;
  if (tls) atomic_init(&tls->refs, 1);
  if (!tls || !prepare(tls, texts)) {
    problem = "no TLS context could be made";
  } else if (texts->cert_pem && !use_chain(tls->context, texts->cert_pem)) {
    problem = "cert_pem is not a PEM certificate chain";
  } else if (texts->key_pem && !use_key(tls->context, texts->key_pem)) {
    problem = "key_pem is not an unencrypted PEM key that belongs to cert_pem";
  } else if (texts->ca_pem && !use_ca(tls->context, texts->ca_pem, texts->is_client)) {
    problem = texts->is_client ? "ca_pem holds no PEM certificate" : "client_ca_pem holds no PEM certificate";
  } else if (texts->is_client && !texts->ca_pem && SSL_CTX_set_default_verify_paths(tls->context) != 1) {
    problem = "the system's certificates cannot be read";
  }
  ERR_clear_error();
  if (problem) {
    trn__h2_tls_unref(tls);
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "TLS cannot be set up: %s", problem);
  }
  *out = tls;
  return TRN_OK;
}

h2_tls *trn__h2_tls_ref(h2_tls *tls) {
  atomic_fetch_add_explicit(&tls->refs, 1, memory_order_relaxed);
  return tls;
}

void trn__h2_tls_unref(h2_tls *tls) {
  if (!tls || atomic_fetch_sub_explicit(&tls->refs, 1, memory_order_acq_rel) != 1) return;
  SSL_CTX_free(tls->context);
  BIO_meth_free(tls->socket);
  free(tls);
}

/* ---- a connection ---- */

static SSL *make_ssl(h2_tls *tls, int fd) {
  SSL *ssl = SSL_new(tls->context);
  BIO *bio = BIO_new(tls->socket);
  if (!ssl || !bio) {
    SSL_free(ssl);
    BIO_free(bio);
    return NULL;
  }
  BIO_set_data(bio, (void *)(intptr_t)fd);
  SSL_set_bio(ssl, bio, bio);
  return ssl;
}

SSL *trn__h2_tls_accept(h2_tls *tls, int fd) {
  SSL *ssl = make_ssl(tls, fd);
  if (ssl) SSL_set_accept_state(ssl);
  return ssl;
}

SSL *trn__h2_tls_connect(h2_tls *tls, int fd, const char *server_name) {
  SSL *ssl = make_ssl(tls, fd);
  if (!ssl) return NULL;
  SSL_set_connect_state(ssl);
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  bool is_address = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), server_name) == 1;
  bool ok = is_address || (SSL_set_tlsext_host_name(ssl, server_name) == 1 && SSL_set1_host(ssl, server_name) == 1);
  ERR_clear_error();
  if (ok) return ssl;
  SSL_free(ssl);
  return NULL;
}

bool trn__h2_tls_is_h2(SSL *ssl) {
  const unsigned char *protocol = NULL;
  unsigned int size = 0;
  SSL_get0_alpn_selected(ssl, &protocol, &size);
  return size == 2 && memcmp(protocol, "h2", 2) == 0;
}

/* A name with a NUL in it, or one that does not fit, would be taken for another: it is none. */
static bool copy_name(const ASN1_STRING *name, char *out, size_t out_size) {
  unsigned char *text = NULL;
  int size = ASN1_STRING_to_UTF8(&text, name);
  bool fits = size > 0 && (size_t)size < out_size && !memchr(text, 0, (size_t)size);
  if (fits) {
    memcpy(out, text, (size_t)size);
    out[size] = 0;
  }
  OPENSSL_free(text);
  return fits;
}

/* The first subject alternative name that is a text. True: there is one, usable or not. */
static bool copy_alternative(X509 *certificate, char *out, size_t out_size) {
  GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
  bool found = false;
  for (int i = 0; names && !found && i < sk_GENERAL_NAME_num(names); i++) {
    const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
    if (name->type != GEN_DNS && name->type != GEN_URI && name->type != GEN_EMAIL) continue;
    found = true;
    copy_name(name->d.ia5, out, out_size);
  }
  GENERAL_NAMES_free(names);
  return found;
}

void trn__h2_tls_identity(SSL *ssl, char *out, size_t out_size) {
  out[0] = 0;
  X509 *certificate = SSL_get1_peer_certificate(ssl);
  if (!certificate) return;
  if (SSL_get_verify_result(ssl) == X509_V_OK && !copy_alternative(certificate, out, out_size)) {
    X509_NAME *subject = X509_get_subject_name(certificate);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (at >= 0) copy_name(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)), out, out_size);
  }
  ERR_clear_error();
  X509_free(certificate);
}
