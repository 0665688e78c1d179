/* The bundled authenticator, inside: files of users and tokens, JSON web tokens, hashes. Public headers and OpenSSL
 * only.
 *
 *   bundled.c  the vtable, configuration, reloading     files.c  users and tokens from files     hash.c  hashes at rest
 *   jwt.c      tokens: form, claims                     jwks.c   keys                            base64.c */
#ifndef TRN_TRANSPORT_AUTH_H
#define TRN_TRANSPORT_AUTH_H
#include <openssl/evp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <trunnion/auth.h>

#define TRN_AUTH_FILE_BYTES_MAX (16u << 20) /* of a file of users, tokens or keys */
#define TRN_AUTH_ENTRIES_MAX 100000u        /* lines of such a file */
#define TRN_AUTH_TOKENS_MAX 10000u          /* each is compared with what a caller presents */
#define TRN_AUTH_GROUPS_MAX 10000u          /* of one user */
#define TRN_AUTH_HEADER_BYTES_MAX 65536u    /* of what a caller presents */
#define TRN_AUTH_JWT_BYTES_MAX 32768u
#define TRN_AUTH_JWT_HEADER_BYTES_MAX 8192u
#define TRN_AUTH_JWT_NESTING_MAX 16 /* of JSON inside a token */
#define TRN_AUTH_KEYS_MAX 1000u     /* of a JWKS file */
#define TRN_AUTH_KEY_TRIES_MAX 16u  /* keys that are tried for a token without a key id */
#define TRN_AUTH_RSA_BITS_MIN 2048
#define TRN_AUTH_RSA_BITS_MAX 16384
#define TRN_AUTH_SECRET_BYTES_MIN 32u /* of an HMAC key: RFC 7518, 3.2 */
#define TRN_AUTH_SCRYPT_LOG_N_MAX 17  /* cost of a stored hash: 128 MiB */
#define TRN_AUTH_PBKDF2_ROUNDS_MAX 10000000
#define TRN_AUTH_VERIFIED_MAX 1024u /* passwords that were right lately */
#define TRN_AUTH_VERIFIED_MS (300u * 1000)
#define TRN_AUTH_PEERS_MAX 4096u /* addresses whose failures are counted */
#define TRN_AUTH_RELOAD_MS 1000u /* a changed file of keys is looked for at most so often */

/* ---- base64.c ---- */
/* Strict: no padding, no spaces, no bits left over. `url`: '-' and '_'. False: not base64. `out` has room for size. */
bool trn__auth_base64_decode(const char *text, size_t size, bool url, uint8_t *out, size_t *out_size);
/* The same with optional padding, as Basic has it. */
bool trn__auth_base64_decode_padded(const char *text, size_t size, uint8_t *out, size_t *out_size);
/* Unpadded, NUL-terminated; `out` has room for size / 3 * 4 + 5. */
void trn__auth_base64_encode(const uint8_t *data, size_t size, bool url, char *out);

/* ---- hash.c ---- */
bool trn__auth_hash_is_known(const char *hash); /* of a password: a form that verify takes */
bool trn__auth_verify_password(const char *hash, const char *password, size_t size); /* takes tens of milliseconds */
bool trn__auth_token_digest(const char *hash, uint8_t out[32]);                      /* false: not a token's hash */
bool trn__auth_sha256(const void *data, size_t size, uint8_t out[32]);
void trn__auth_no_password(const char *password, size_t size); /* as long as a wrong one, for users who are not there */

/* ---- files.c ---- */
typedef struct auth_user {
  const char *name;
  const char *hash;   /* or NULL */
  uint8_t digest[32]; /* of a token */
  const char *const *groups;
  size_t group_count;
} auth_user;
typedef struct auth_users {
  char *text;       /* the file; the entries point into it */
  auth_user *users; /* sorted by name, unless they are tokens */
  size_t count;
  const char **groups;
} auth_users;
/* `tokens`: hashes are of tokens. INVALID_ARGUMENT names file and line. */
trn_status trn__auth_users_read(const char *path, bool tokens, auth_users *out, trn_error **error);
void trn__auth_users_finish(auth_users *users);
const auth_user *trn__auth_user_find(const auth_users *users, const char *name);
/* Compares with every token, in constant time. */
const auth_user *trn__auth_token_find(const auth_users *users, const char *token, size_t size);
const auth_user *trn__auth_token_by_digest(const auth_users *users, const uint8_t digest[32]);
/* NUL-terminated; gives `*out` (free). */
trn_status trn__auth_read_file(const char *path, char **out, size_t *size, trn_error **error);

/* ---- jwks.c ---- */
typedef enum auth_key_type { AUTH_KEY_RSA = 0, AUTH_KEY_EC, AUTH_KEY_OKP, AUTH_KEY_OCT } auth_key_type;
typedef struct auth_algorithm {
  const char *name;
  auth_key_type type;
  const char *digest; /* NULL: EdDSA */
  bool is_pss;
  int coordinate_size; /* EC: of r and s; the curve is the one that has it */
} auth_algorithm;
const auth_algorithm *trn__auth_algorithm(const char *name); /* NULL: unknown, "none" above all */
typedef struct auth_key {
  char *id; /* or NULL */
  auth_key_type type;
  const auth_algorithm *algorithm; /* the only one that it is for; NULL: any of its type */
  int coordinate_size;
  EVP_PKEY *pkey; /* NULL: OCT */
  uint8_t *secret;
  size_t secret_size;
} auth_key;
typedef struct auth_keys {
  auth_key *keys;
  size_t count;
} auth_keys;
/* Keys of kinds or uses that no token here can have are left out. INVALID_ARGUMENT says what is wrong with one. */
trn_status trn__auth_keys_read(const char *path, auth_keys *out, trn_error **error);
void trn__auth_keys_finish(auth_keys *keys);
bool trn__auth_key_verify(const auth_key *key, const auth_algorithm *algorithm, const void *data, size_t size,
                          const uint8_t *signature, size_t signature_size);

/* ---- jwt.c ---- */
typedef struct auth_jwt_rules {
  const char *issuer;
  const char *const *audiences;
  size_t audience_count;
  const auth_algorithm *const *algorithms;
  size_t algorithm_count;
  const char *user_claim, *groups_claim;
  int64_t leeway_s;
  bool requires_expiry;
} auth_jwt_rules;
typedef struct auth_claims {
  char *user;
  char **groups;
  size_t group_count;
  int64_t expires_ms; /* 0: never */
} auth_claims;
/* `*why`: a static text without secrets, when it is not OK. `*unknown_key`: there is no key of its id. */
bool trn__auth_jwt_verify(const char *token, size_t size, const auth_keys *keys, const auth_jwt_rules *rules,
                          int64_t now_s, auth_claims *out, const char **why, bool *unknown_key);
void trn__auth_claims_finish(auth_claims *claims);

#endif
