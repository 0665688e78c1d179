/* A CA, a server's and a client's certificate, made on the spot, as PEM texts. */
#ifndef TESTS_TRANSPORT_TLS_TEXTS_H
#define TESTS_TRANSPORT_TLS_TEXTS_H
#include <stdlib.h>
#include <string.h>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

typedef struct tls_texts {
  char *ca, *server_cert, *server_key, *client_cert, *client_key;
} tls_texts;

static inline char *tls_take(BIO *bio) {
  char *data = NULL;
  size_t size = (size_t)BIO_get_mem_data(bio, &data);
  char *text = calloc(1, size + 1);
  memcpy(text, data, size);
  BIO_free(bio);
  return text;
}

static inline void tls_extend(X509 *x, int nid, const char *value) {
  X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
  X509_add_ext(x, extension, -1);
  X509_EXTENSION_free(extension);
}

static inline X509 *tls_certificate(const char *name, const char *alternative, EVP_PKEY *key, X509 *issuer,
                                    EVP_PKEY *issuer_key) {
  X509 *x = X509_new();
  X509_set_version(x, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x), 1 + rand() % 100000);
  X509_gmtime_adj(X509_getm_notBefore(x), -3600);
  X509_gmtime_adj(X509_getm_notAfter(x), 36000);
  X509_set_pubkey(x, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8, (const unsigned char *)name, -1, -1, 0);
  X509_set_issuer_name(x, X509_get_subject_name(issuer ? issuer : x));
  if (!issuer) tls_extend(x, NID_basic_constraints, "critical,CA:TRUE");
  if (alternative) tls_extend(x, NID_subject_alt_name, alternative);
  X509_sign(x, issuer ? issuer_key : key, EVP_sha256());
  return x;
}

static inline char *tls_cert_text(X509 *x) {
  BIO *bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, x);
  return tls_take(bio);
}

static inline char *tls_key_text(EVP_PKEY *key) {
  BIO *bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL);
  return tls_take(bio);
}

static inline void tls_texts_make(tls_texts *texts) {
  EVP_PKEY *ca_key = EVP_EC_gen("P-256"), *server_key = EVP_EC_gen("P-256"), *client_key = EVP_EC_gen("P-256");
  X509 *ca = tls_certificate("test CA", NULL, ca_key, NULL, NULL);
  X509 *server = tls_certificate("a server", "DNS:server.test,IP:127.0.0.1", server_key, ca, ca_key);
  X509 *client = tls_certificate("a client", "DNS:client.test", client_key, ca, ca_key);
  *texts = (tls_texts){tls_cert_text(ca), tls_cert_text(server), tls_key_text(server_key), tls_cert_text(client),
                       tls_key_text(client_key)};
  X509_free(ca), X509_free(server), X509_free(client);
  EVP_PKEY_free(ca_key), EVP_PKEY_free(server_key), EVP_PKEY_free(client_key);
}

static inline void tls_texts_free(tls_texts *texts) {
  free(texts->ca), free(texts->server_cert), free(texts->server_key), free(texts->client_cert), free(texts->client_key);
}

#endif
