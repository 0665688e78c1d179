/* AES and three of its modes (aes.c). */
#ifndef TRN_FUNCTIONS_AES_H
#define TRN_FUNCTIONS_AES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FN_AES_BLOCK 16
#define FN_AES_GCM_IV 12

typedef struct fn_aes {
  uint8_t keys[16 * 15], inverse[256];
  int rounds;
} fn_aes;

bool fn__aes_open(fn_aes *aes, const void *key, size_t size); /* false: not 16, 24 or 32 bytes */
/* ECB without an iv, CBC with one (16 bytes); PKCS padding: up to 16 bytes more come out. Gives the size. */
size_t fn__aes_encrypt_blocks(const fn_aes *aes, const uint8_t *iv, const uint8_t *in, size_t size, uint8_t *out);
/* `out` has room for `size`. False: not whole blocks, or the padding is none. */
bool fn__aes_decrypt_blocks(const fn_aes *aes, const uint8_t *iv, const uint8_t *in, size_t size, uint8_t *out,
                            size_t *out_size);
/* size bytes and the tag of 16. */
void fn__aes_encrypt_gcm(const fn_aes *aes, const uint8_t iv[FN_AES_GCM_IV], const uint8_t *aad, size_t aad_size,
                         const uint8_t *in, size_t size, uint8_t *out);
/* size: with the tag; gives size - 16 bytes. False: the tag is another. */
bool fn__aes_decrypt_gcm(const fn_aes *aes, const uint8_t iv[FN_AES_GCM_IV], const uint8_t *aad, size_t aad_size,
                         const uint8_t *in, size_t size, uint8_t *out);
#endif
