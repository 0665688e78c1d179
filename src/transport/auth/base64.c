/* Base64, strict: one text per value, so that a token has no second spelling. */
#include "core/base64.h"
#include "auth.h"

static unsigned flags_of(bool url) {
  return TRN_BASE64_EXACT | (url ? TRN_BASE64_URL : TRN_BASE64_PLAIN);
}

bool trn__auth_base64_decode(const char *text, size_t size, bool url, uint8_t *out, size_t *out_size) {
  return trn__base64_decode(text, size, flags_of(url), out, out_size);
}

bool trn__auth_base64_decode_padded(const char *text, size_t size, uint8_t *out, size_t *out_size) {
  if (size && size % 4 == 0 && text[size - 1] == '=') size -= text[size - 2] == '=' ? 2 : 1;
  return trn__auth_base64_decode(text, size, false, out, out_size);
}

void trn__auth_base64_encode(const uint8_t *data, size_t size, bool url, char *out) {
  trn__base64_encode(data, size, flags_of(url), out);
  out[trn__base64_size(size)] = 0;
}
