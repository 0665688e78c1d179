/* aes_encrypt(data, key, mode, padding, iv, aad), aes_decrypt(data, key, mode, padding, aad): the initialization vector
 * stands before what is encrypted, GCM's tag behind it. */
#include "functions/aes.h"
#include "functions/frame.h"
#include "functions/text.h"
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define CRYPT_NAME "`aes_encrypt`/`aes_decrypt`"
enum { ENCRYPT, DECRYPT, TRY_DECRYPT };
typedef enum mode { ECB, CBC, GCM, UNKNOWN } mode;

typedef struct parts {
  fn_text data, key, mode, padding, iv, aad;
} parts;

static trn_status raise_key(const fn_call *call, size_t size) {
  char text[24];
  snprintf(text, sizeof text, "%zu", size);
  return fn__raise(&call->report, "INVALID_PARAMETER_VALUE.AES_KEY_LENGTH", "parameter", "`key`", "functionName",
                   CRYPT_NAME, "actualLength", text, NULL);
}

static trn_status raise_crypto(const fn_call *call, const char *detail) {
  return fn__raise(&call->report, "INVALID_PARAMETER_VALUE.AES_CRYPTO_ERROR", "parameter", "`expr`, `key`",
                   "functionName", CRYPT_NAME, "detailMessage", detail, NULL);
}

static trn_status raise_mode(const fn_call *call, const parts *p) {
  trn_status status = fn__raise(&call->report, "UNSUPPORTED_FEATURE.AES_MODE", "functionName", CRYPT_NAME, NULL);
  fn__param(&call->report, "mode", p->mode.data, p->mode.size);
  fn__param(&call->report, "padding", p->padding.data, p->padding.size);
  return status;
}

static trn_status raise_iv(const fn_call *call, const char *name, size_t size) {
  char text[24];
  snprintf(text, sizeof text, "%zu", size);
  return fn__raise(&call->report, "INVALID_PARAMETER_VALUE.AES_IV_LENGTH", "mode", name, "parameter", "`iv`",
                   "functionName", CRYPT_NAME, "actualLength", text, NULL);
}

static mode mode_of(const parts *p) {
  bool usual = fn__text_equal(p->padding, "default");
  if (fn__text_equal(p->mode, "ecb") && (usual || fn__text_equal(p->padding, "pkcs"))) return ECB;
  if (fn__text_equal(p->mode, "cbc") && (usual || fn__text_equal(p->padding, "pkcs"))) return CBC;
  if (fn__text_equal(p->mode, "gcm") && (usual || fn__text_equal(p->padding, "none"))) return GCM;
  return UNKNOWN;
}

static trn_status encrypt(fn_call *call, const fn_aes *aes, const parts *p, mode how) {
  static const char *const NAMES[] = {"ECB", "CBC", "GCM"};
  uint8_t iv[FN_AES_BLOCK] = {0};
  const uint8_t *data = (const uint8_t *)p->data.data;
  size_t iv_size = how == ECB ? 0 : how == CBC ? FN_AES_BLOCK : FN_AES_GCM_IV;
  if (how == ECB && p->iv.size)
    return fn__raise(&call->report, "UNSUPPORTED_FEATURE.AES_MODE_IV", "mode", "ECB", "functionName", "`aes_encrypt`",
                     NULL);
  if (how != GCM && p->aad.size)
    return fn__raise(&call->report, "UNSUPPORTED_FEATURE.AES_MODE_AAD", "mode", NAMES[how], "functionName",
                     "`aes_encrypt`", NULL);
  if (p->iv.size && p->iv.size != iv_size) return raise_iv(call, NAMES[how], p->iv.size);
  if (p->iv.size)
    memcpy(iv, p->iv.data, iv_size);
  else if (iv_size && getrandom(iv, iv_size, 0) != (ssize_t)iv_size)
    return raise_crypto(call, "no random numbers");
  uint8_t *room = (uint8_t *)fn__reserve(&call->out, iv_size + p->data.size + FN_AES_BLOCK);
  if (!room) return TRN_OK; /* the builder remembers */
  memcpy(room, iv, iv_size);
  size_t size = p->data.size + FN_AES_BLOCK;
  if (how == GCM)
    fn__aes_encrypt_gcm(aes, iv, (const uint8_t *)p->aad.data, p->aad.size, data, p->data.size, room + iv_size);
  else
    size = fn__aes_encrypt_blocks(aes, how == CBC ? iv : NULL, data, p->data.size, room + iv_size);
  fn__push_end(&call->out, iv_size + size);
  return TRN_OK;
}

/* NULL: it is decrypted; else what is wrong. */
static const char *decrypt(fn_call *call, const fn_aes *aes, const parts *p, mode how) {
  size_t iv_size = how == ECB ? 0 : how == CBC ? FN_AES_BLOCK : FN_AES_GCM_IV, size = 0;
  const uint8_t *data = (const uint8_t *)p->data.data;
  if (p->data.size < iv_size)
    return how == CBC ? "IV buffer too short for given offset/length combination" : "Invalid buffer arguments";
  size_t rest = p->data.size - iv_size;
  uint8_t *room = (uint8_t *)fn__reserve(&call->out, rest + FN_AES_BLOCK);
  if (!room) return NULL;
  if (how == GCM) {
    if (rest < FN_AES_BLOCK) return "Input data too short to contain an expected tag length of 16bytes";
    if (!fn__aes_decrypt_gcm(aes, data, (const uint8_t *)p->aad.data, p->aad.size, data + iv_size, rest, room))
      return "Tag mismatch";
    size = rest - FN_AES_BLOCK;
  } else {
    if (rest % FN_AES_BLOCK) return "Input length must be multiple of 16 when decrypting with padded cipher";
    if (rest && !fn__aes_decrypt_blocks(aes, how == CBC ? data : NULL, data + iv_size, rest, room, &size))
      return "Given final block not properly padded. Such issues can arise if a bad key is used during decryption.";
  }
  fn__push_end(&call->out, size);
  return NULL;
}

static trn_status crypt_row(fn_call *call, const parts *p) {
  fn_aes aes;
  int op = call->function->op;
  mode how = mode_of(p);
  bool key = fn__aes_open(&aes, p->key.data, p->key.size);
  if (op == TRY_DECRYPT && (!key || how == UNKNOWN)) {
    fn__push_null(&call->out);
    return TRN_OK;
  }
  if (how == UNKNOWN) return raise_mode(call, p);
  if (!key) return raise_key(call, p->key.size);
  if (op == ENCRYPT) return encrypt(call, &aes, p, how);
  if (how != GCM && p->aad.size && op == TRY_DECRYPT) {
    fn__push_null(&call->out);
    return TRN_OK;
  }
  if (how != GCM && p->aad.size)
    return fn__raise(&call->report, "UNSUPPORTED_FEATURE.AES_MODE_AAD", "mode", how == ECB ? "ECB" : "CBC",
                     "functionName", "`aes_decrypt`", NULL);
  const char *wrong = decrypt(call, &aes, p, how);
  if (wrong && op == DECRYPT) return raise_crypto(call, wrong);
  if (wrong) fn__push_null(&call->out);
  return TRN_OK;
}

static trn_status crypt(fn_call *call) {
  trn_status status = TRN_OK;
  bool encrypts = call->function->op == ENCRYPT;
  const fn_column *c = call->columns;
  for (int64_t row = 0; row < call->rows && status == TRN_OK; row++) {
    if (fn__row_is_null(&call->out, row)) {
      fn__push_end(&call->out, 0);
      continue;
    }
    parts p = {fn__get_text(&c[0], row), fn__get_text(&c[1], row), fn__get_text(&c[2], row), fn__get_text(&c[3], row)};
    if (encrypts) p.iv = fn__get_text(&c[4], row);
    p.aad = fn__get_text(&c[encrypts ? 5 : 4], row);
    status = crypt_row(call, &p);
  }
  return status;
}

FN_BIND(encrypt, "zzsszz", fn__type(FN_BINARY))
FN_BIND(decrypt, "zzssz", fn__type(FN_BINARY))

const fn_scalar fn__crypt_table[] = {
    {"trn.aes_encrypt", TRN_VOLATILE, FN_STRICT, ENCRYPT, bind_encrypt, crypt},
    {"trn.aes_decrypt", TRN_IMMUTABLE, FN_STRICT, DECRYPT, bind_decrypt, crypt},
    {"trn.aes_decrypt_try", TRN_IMMUTABLE, FN_STRICT | FN_NULLABLE, TRY_DECRYPT, bind_decrypt, crypt},
    {NULL},
};
