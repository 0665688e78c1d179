/* Authentication: who calls. One authenticator serves every protocol of a host; what it finds reaches sessions and layers
 * as an identity. Authorization is a layer's business (layer.h). */
#ifndef TRUNNION_AUTH_H
#define TRUNNION_AUTH_H
#include <trunnion/call.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trn_authenticator trn_authenticator;

/** What a caller presented. Borrowed during the call. */
typedef struct trn_credentials {
  size_t struct_size;
  const char *authorization; /**< value of the "authorization" header ("Bearer ...", "Basic ..."), or NULL */
  const char *certificate;   /**< subject of the verified client certificate (its first SAN, else its CN), or NULL */
  const char *peer;          /**< as trn_call_peer */
} trn_credentials;

/** Who it is. Filled by `authenticate`; every pointer lives until `release`. */
typedef struct trn_identity {
  size_t struct_size;
  const char *user;
  const char *const *groups;
  size_t group_count;
  int64_t expires_ms; /**< since the epoch; 0: never */
  void (*release)(struct trn_identity *identity); /**< once; may be NULL */
  void *owner;
} trn_identity;

typedef struct trn_authenticator_ops {
  size_t struct_size;
  /** UNAUTHENTICATED with a message that holds no secret. Threads: any. May compute for milliseconds, must not wait for
   *  the network. */
  trn_status (*authenticate)(void *self, const trn_credentials *credentials, trn_identity *out, trn_error **error);
  void (*destroy)(void *self);
} trn_authenticator_ops;

TRN_API trn_status trn_authenticator_create(const trn_authenticator_ops *ops, void *self, trn_authenticator **out);
TRN_API trn_authenticator *trn_authenticator_ref(trn_authenticator *authenticator);
TRN_API void trn_authenticator_unref(trn_authenticator *authenticator);
TRN_API trn_status trn_authenticate(trn_authenticator *authenticator, const trn_credentials *credentials,
                                    trn_identity *out, trn_error **error);

#ifdef __cplusplus
}
#endif
#endif
