/* Keys of a JWKS file (RFC 7517, 7518, 8037), and signatures by them. */
#include <cjson/cJSON.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ecdsa.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>
#include <stdio.h>

#include "auth.h"

enum { KEY_NUMBER_MAX = TRN_AUTH_RSA_BITS_MAX / 8 + 8 };

static const auth_algorithm algorithms[] = {
    {"RS256", AUTH_KEY_RSA, "SHA256", false, 0}, {"RS384", AUTH_KEY_RSA, "SHA384", false, 0},
    {"RS512", AUTH_KEY_RSA, "SHA512", false, 0}, {"PS256", AUTH_KEY_RSA, "SHA256", true, 0},
    {"PS384", AUTH_KEY_RSA, "SHA384", true, 0},  {"PS512", AUTH_KEY_RSA, "SHA512", true, 0},
    {"ES256", AUTH_KEY_EC, "SHA256", false, 32}, {"ES384", AUTH_KEY_EC, "SHA384", false, 48},
    {"ES512", AUTH_KEY_EC, "SHA512", false, 66}, {"EdDSA", AUTH_KEY_OKP, NULL, false, 0},
    {"HS256", AUTH_KEY_OCT, "SHA256", false, 0}, {"HS384", AUTH_KEY_OCT, "SHA384", false, 0},
    {"HS512", AUTH_KEY_OCT, "SHA512", false, 0},
};

const auth_algorithm *trn__auth_algorithm(const char *name) {
  for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++)
    if (strcmp(algorithms[i].name, name) == 0) return &algorithms[i];
  return NULL;
}

/* ---- keys ---- */

static const char *text_of(const cJSON *object, const char *name) {
  return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

/* A member that is base64url; gives bytes (free). */
static uint8_t *bytes_of(const cJSON *object, const char *name, size_t size_max, size_t *size) {
  const char *text = text_of(object, name);
  size_t length = text ? strlen(text) : 0;
  if (!length || length > size_max * 2) return NULL;
  uint8_t *bytes = malloc(length);
  if (bytes && trn__auth_base64_decode(text, length, true, bytes, size) && *size) return bytes;
  free(bytes);
  return NULL;
}

static EVP_PKEY *key_from(const char *type, OSSL_PARAM_BLD *builder) {
  OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(builder);
  EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
  EVP_PKEY *key = NULL;
  if (params && context && EVP_PKEY_fromdata_init(context) == 1 &&
      EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
    key = NULL;
  OSSL_PARAM_free(params);
  EVP_PKEY_CTX_free(context);
  return key;
}

static const char *read_rsa(const cJSON *object, auth_key *key) {
  size_t n_size = 0, e_size = 0;
  uint8_t *n = bytes_of(object, "n", KEY_NUMBER_MAX, &n_size), *e = bytes_of(object, "e", 16, &e_size);
  BIGNUM *modulus = n ? BN_bin2bn(n, (int)n_size, NULL) : NULL, *exponent = e ? BN_bin2bn(e, (int)e_size, NULL) : NULL;
  OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
  const char *why = NULL;
  if (!modulus || !exponent) {
    why = "'n' or 'e' is not base64url";
  } else if (BN_num_bits(modulus) < TRN_AUTH_RSA_BITS_MIN || BN_num_bits(modulus) > TRN_AUTH_RSA_BITS_MAX) {
    why = "an RSA key has 2048 to 16384 bits";
  } else if (!BN_is_odd(exponent) || BN_is_one(exponent)) {
    why = "'e' is no public exponent";
  } else if (builder && OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, modulus) == 1 &&
             OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, exponent) == 1) {
    key->pkey = key_from("RSA", builder);
  }
  OSSL_PARAM_BLD_free(builder);
  BN_free(modulus);
  BN_free(exponent);
  free(n);
  free(e);
  return why ? why : key->pkey ? NULL : "this is no RSA key";
}

static const struct {
  const char *name, *group;
  int coordinate_size;
} curves[] = {{"P-256", "prime256v1", 32}, {"P-384", "secp384r1", 48}, {"P-521", "secp521r1", 66}};

static const char *read_ec(const cJSON *object, auth_key *key) {
  size_t x_size = 0, y_size = 0, curve = 0, curve_count = sizeof curves / sizeof *curves;
  const char *name = text_of(object, "crv");
  while (curve < curve_count && (!name || strcmp(curves[curve].name, name) != 0)) curve++;
  if (curve == curve_count) return ""; /* another curve: no token here is signed with it */
  size_t size = (size_t)(key->coordinate_size = curves[curve].coordinate_size);
  uint8_t *x = bytes_of(object, "x", 66, &x_size), *y = bytes_of(object, "y", 66, &y_size), point[1 + 2 * 66];
  OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
  if (x && y && x_size == size && y_size == size && builder) {
    point[0] = POINT_CONVERSION_UNCOMPRESSED;
    memcpy(point + 1, x, size);
    memcpy(point + 1 + size, y, size);
    if (OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, curves[curve].group, 0) == 1 &&
        OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY, point, 1 + 2 * size) == 1)
      key->pkey = key_from("EC", builder);
  }
  OSSL_PARAM_BLD_free(builder);
  free(x);
  free(y);
  return key->pkey ? NULL : "'x' and 'y' are no point of the curve";
}

static const char *read_okp(const cJSON *object, auth_key *key) {
  const char *curve = text_of(object, "crv");
  bool is_448 = curve && strcmp(curve, "Ed448") == 0;
  if (!is_448 && (!curve || strcmp(curve, "Ed25519") != 0)) return ""; /* X25519 and kin do not sign */
  size_t size = 0;
  uint8_t *x = bytes_of(object, "x", 57, &size);
  if (x && size == (is_448 ? 57u : 32u))
    key->pkey = EVP_PKEY_new_raw_public_key(is_448 ? EVP_PKEY_ED448 : EVP_PKEY_ED25519, NULL, x, size);
  free(x);
  return key->pkey ? NULL : "'x' is no public key of the curve";
}

static const char *read_oct(const cJSON *object, auth_key *key) {
  key->secret = bytes_of(object, "k", 4096, &key->secret_size);
  if (!key->secret) return "'k' is not base64url";
  return key->secret_size < TRN_AUTH_SECRET_BYTES_MIN ? "a secret has 32 bytes at least" : NULL;
}

static void key_finish(auth_key *key) {
  free(key->id);
  EVP_PKEY_free(key->pkey);
  if (key->secret) OPENSSL_cleanse(key->secret, key->secret_size);
  free(key->secret);
}

/* May it verify signatures? */
static bool is_for_signatures(const cJSON *object) {
  const char *use = text_of(object, "use");
  const cJSON *operations = cJSON_GetObjectItemCaseSensitive(object, "key_ops"), *operation;
  if (use && strcmp(use, "sig") != 0) return false;
  if (!operations) return true;
  cJSON_ArrayForEach(operation, operations) {
    const char *text = cJSON_GetStringValue(operation);
    if (text && strcmp(text, "verify") == 0) return true;
  }
  return false;
}

/* NULL: `key` is there. "": left out. Else what is wrong. */
static const char *read_key(const cJSON *object, auth_key *key) {
  static const struct {
    const char *name;
    auth_key_type type;
    const char *(*read)(const cJSON *object, auth_key *key);
  } types[] = {{"RSA", AUTH_KEY_RSA, read_rsa},
               {"EC", AUTH_KEY_EC, read_ec},
               {"OKP", AUTH_KEY_OKP, read_okp},
               {"oct", AUTH_KEY_OCT, read_oct}};
  const char *type = text_of(object, "kty"), *algorithm = text_of(object, "alg"), *id = text_of(object, "kid");
  if (!type) return "a key needs 'kty'";
  if (!is_for_signatures(object)) return "";
  if (algorithm && !(key->algorithm = trn__auth_algorithm(algorithm))) return "";
  if (id && !(key->id = strdup(id))) return "no memory";
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (strcmp(types[i].name, type) != 0) continue;
    key->type = types[i].type;
    if (key->algorithm && key->algorithm->type != key->type) return "'alg' does not go with 'kty'";
    return types[i].read(object, key);
  }
  return "";
}

void trn__auth_keys_finish(auth_keys *keys) {
  for (size_t i = 0; i < keys->count; i++) key_finish(&keys->keys[i]);
  free(keys->keys);
  *keys = (auth_keys){0};
}

trn_status trn__auth_keys_read(const char *path, auth_keys *out, trn_error **error) {
  auth_keys keys = {0};
  char *text = NULL;
  size_t size = 0, index = 0;
  trn_status status = trn__auth_read_file(path, &text, &size, error);
  if (status) return status;
  cJSON *root = cJSON_Parse(text);
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "keys");
  if (!cJSON_IsArray(list)) {
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s is no JWKS: it has no list \"keys\"", path);
  } else if (!(keys.keys = calloc(TRN_AUTH_KEYS_MAX, sizeof *keys.keys))) {
    status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "no memory for %s", path);
  }
  for (const cJSON *object = status ? NULL : list->child; object && !status; object = object->next) {
    auth_key key = {0};
    const char *why = keys.count < TRN_AUTH_KEYS_MAX ? read_key(object, &key) : "too many keys";
    if (!why) {
      keys.keys[keys.count++] = key;
    } else {
      key_finish(&key);
      if (*why) status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: key %zu: %s", path, index, why);
    }
    index++;
  }
  if (!status && !keys.count)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: no key in it can verify a signature", path);
  cJSON_Delete(root);
  OPENSSL_cleanse(text, size);
  free(text);
  if (status) {
    trn__auth_keys_finish(&keys);
  } else {
    *out = keys;
  }
  return status;
}

/* ---- signatures ---- */

/* r || s -> DER; gives `*out` (OPENSSL_free). */
static int ecdsa_der(const uint8_t *signature, size_t half, uint8_t **out) {
  ECDSA_SIG *pair = ECDSA_SIG_new();
  BIGNUM *r = BN_bin2bn(signature, (int)half, NULL), *s = BN_bin2bn(signature + half, (int)half, NULL);
  int size = -1;
  *out = NULL;
  if (pair && r && s && ECDSA_SIG_set0(pair, r, s) == 1) {
    r = s = NULL;
    size = i2d_ECDSA_SIG(pair, out);
  }
  BN_free(r);
  BN_free(s);
  ECDSA_SIG_free(pair);
  return size;
}

static bool verify_hmac(const auth_key *key, const auth_algorithm *algorithm, const void *data, size_t size,
                        const uint8_t *signature, size_t signature_size) {
  uint8_t got[EVP_MAX_MD_SIZE];
  size_t got_size = 0;
  return EVP_Q_mac(NULL, "HMAC", NULL, algorithm->digest, NULL, key->secret, key->secret_size, data, size, got,
                   sizeof got, &got_size) &&
         got_size == signature_size && CRYPTO_memcmp(got, signature, got_size) == 0;
}

bool trn__auth_key_verify(const auth_key *key, const auth_algorithm *algorithm, const void *data, size_t size,
                          const uint8_t *signature, size_t signature_size) {
  if (key->type != algorithm->type || (key->algorithm && key->algorithm != algorithm) ||
      key->coordinate_size != algorithm->coordinate_size)
    return false;
  if (key->type == AUTH_KEY_OCT) return verify_hmac(key, algorithm, data, size, signature, signature_size);
  uint8_t *der = NULL;
  if (key->type == AUTH_KEY_EC) {
    size_t half = (size_t)algorithm->coordinate_size;
    int der_size = signature_size == 2 * half ? ecdsa_der(signature, half, &der) : -1;
    if (der_size <= 0) return false;
    signature = der;
    signature_size = (size_t)der_size;
  }
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  EVP_PKEY_CTX *details = NULL;
  bool ok = context && EVP_DigestVerifyInit_ex(context, &details, algorithm->digest, NULL, NULL, key->pkey, NULL) == 1;
  if (ok && algorithm->is_pss)
    ok = EVP_PKEY_CTX_set_rsa_padding(details, RSA_PKCS1_PSS_PADDING) == 1 &&
         EVP_PKEY_CTX_set_rsa_pss_saltlen(details, RSA_PSS_SALTLEN_DIGEST) == 1;
  ok = ok && EVP_DigestVerify(context, signature, signature_size, data, size) == 1;
  EVP_MD_CTX_free(context);
  OPENSSL_free(der);
  return ok;
}
