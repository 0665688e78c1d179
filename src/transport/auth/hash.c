/* Passwords and tokens as they lie in files. Passwords: $scrypt$ln=14,r=8,p=1$SALT$HASH, or
 * $pbkdf2-sha256$ROUNDS$SALT$HASH (both as Python's passlib writes them). Tokens: sha256$HEX. */
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdio.h>

#include "auth.h"

enum {
  HASH_SIZE = 32,
  HASH_SALT_SIZE = 16,
  HASH_TEXT_MAX = 512,
  HASH_LOG_N = 14, /* 16 MiB and about 40 ms */
  HASH_R = 8,
  HASH_P = 1
};

typedef struct stored_hash {
  bool is_scrypt;
  unsigned log_n, r, p, rounds;
  uint8_t salt[HASH_TEXT_MAX], hash[HASH_TEXT_MAX];
  size_t salt_size, hash_size;
} stored_hash;

/* passlib's pbkdf2 writes '.' for '+'. */
static bool decode_part(const char *text, size_t size, uint8_t *out, size_t *out_size) {
  char plain[HASH_TEXT_MAX];
  if (size >= sizeof plain) return false;
  for (size_t i = 0; i < size; i++) plain[i] = text[i] == '.' ? '+' : text[i];
  return trn__auth_base64_decode(plain, size, false, out, out_size);
}

static bool parse_hash(const char *text, stored_hash *out) {
  int used = 0;
  *out = (stored_hash){0};
  if (strlen(text) >= HASH_TEXT_MAX) return false;
  if (sscanf(text, "$scrypt$ln=%3u,r=%3u,p=%3u$%n", &out->log_n, &out->r, &out->p, &used) == 3 && used > 0) {
    out->is_scrypt = true;
    if (!out->log_n || out->log_n > TRN_AUTH_SCRYPT_LOG_N_MAX || !out->r || out->r > 16 || !out->p || out->p > 16)
      return false;
  } else if (sscanf(text, "$pbkdf2-sha256$%9u$%n", &out->rounds, &used) == 1 && used > 0) {
    if (!out->rounds || out->rounds > TRN_AUTH_PBKDF2_ROUNDS_MAX) return false;
  } else {
    return false;
  }
  const char *salt = text + used, *dollar = strchr(salt, '$');
  if (!dollar || !decode_part(salt, (size_t)(dollar - salt), out->salt, &out->salt_size)) return false;
  if (!decode_part(dollar + 1, strlen(dollar + 1), out->hash, &out->hash_size)) return false;
  return out->salt_size >= 8 && out->hash_size >= 16;
}

static bool compute(const stored_hash *as, const char *password, size_t size, uint8_t *out) {
  if (as->is_scrypt)
    return EVP_PBE_scrypt(password, size, as->salt, as->salt_size, 1ull << as->log_n, as->r, as->p, 1ull << 30, out,
                          as->hash_size) == 1;
  return PKCS5_PBKDF2_HMAC(password, (int)size, as->salt, (int)as->salt_size, (int)as->rounds, EVP_sha256(),
                           (int)as->hash_size, out) == 1;
}

bool trn__auth_hash_is_known(const char *hash) {
  stored_hash parsed;
  return parse_hash(hash, &parsed);
}

bool trn__auth_verify_password(const char *hash, const char *password, size_t size) {
  stored_hash stored;
  uint8_t got[HASH_TEXT_MAX];
  if (!parse_hash(hash, &stored) || !compute(&stored, password, size, got)) return false;
  return CRYPTO_memcmp(got, stored.hash, stored.hash_size) == 0;
}

void trn__auth_no_password(const char *password, size_t size) {
  const stored_hash nobody = {
      .is_scrypt = true, .log_n = HASH_LOG_N, .r = HASH_R, .p = HASH_P, .salt_size = 16, .hash_size = HASH_SIZE};
  uint8_t got[HASH_SIZE];
  compute(&nobody, password, size, got);
}

trn_status trn_auth_hash_password(const char *password, char **out) {
  stored_hash fresh = {.is_scrypt = true,
                       .log_n = HASH_LOG_N,
                       .r = HASH_R,
                       .p = HASH_P,
                       .salt_size = HASH_SALT_SIZE,
                       .hash_size = HASH_SIZE};
  char salt[HASH_SALT_SIZE * 2], hash[HASH_SIZE * 2];
  *out = NULL;
  if (RAND_bytes(fresh.salt, HASH_SALT_SIZE) != 1) return TRN_UNAVAILABLE;
  if (!compute(&fresh, password, strlen(password), fresh.hash)) return TRN_RESOURCE_EXHAUSTED;
  trn__auth_base64_encode(fresh.salt, HASH_SALT_SIZE, false, salt);
  trn__auth_base64_encode(fresh.hash, HASH_SIZE, false, hash);
  return asprintf(out, "$scrypt$ln=%d,r=%d,p=%d$%s$%s", HASH_LOG_N, HASH_R, HASH_P, salt, hash) < 0
             ? TRN_RESOURCE_EXHAUSTED
             : TRN_OK;
}

/* ---- tokens ---- */

bool trn__auth_sha256(const void *data, size_t size, uint8_t out[32]) {
  return EVP_Digest(data, size, out, NULL, EVP_sha256(), NULL) == 1;
}

bool trn__auth_token_digest(const char *hash, uint8_t out[32]) {
  if (strncmp(hash, "sha256$", 7) != 0 || strlen(hash) != 7 + 64) return false;
  for (size_t i = 0; i < 64; i++) {
    char c = hash[7 + i];
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return false;
    out[i / 2] = (uint8_t)(i % 2 ? out[i / 2] | digit : digit << 4);
  }
  return true;
}

trn_status trn_auth_hash_token(const char *token, char **out) {
  uint8_t digest[32];
  *out = malloc(7 + 64 + 1);
  if (!*out || !trn__auth_sha256(token, strlen(token), digest)) {
    free(*out);
    *out = NULL;
    return TRN_RESOURCE_EXHAUSTED;
  }
  memcpy(*out, "sha256$", 7);
  for (size_t i = 0; i < 32; i++) snprintf(*out + 7 + 2 * i, 3, "%02x", digest[i]);
  return TRN_OK;
}

trn_status trn_auth_new_token(char **out) {
  uint8_t random[32];
  *out = NULL;
  if (RAND_bytes(random, sizeof random) != 1) return TRN_UNAVAILABLE;
  if (!(*out = malloc(64))) return TRN_RESOURCE_EXHAUSTED;
  trn__auth_base64_encode(random, sizeof random, true, *out);
  return TRN_OK;
}
