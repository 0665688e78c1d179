/* Authentication: who calls. One authenticator serves every protocol of a host; what it finds reaches sessions and layers
 * as an identity. Authorization is a layer's business (layer.h). */
#ifndef TRUNNION_AUTH_H
#define TRUNNION_AUTH_H
#include <trunnion/call.h>
#include <trunnion/config.h>

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
  /** Reads what it knows (files of users, keys) again; on failure nothing changes. Optional. May block. */
  trn_status (*reload)(void *self, trn_error **error);
  /** What is known now of somebody whom `authenticate` found and who has had a token of the host's own since (Flight's
   *  handshake gives one). OK and out->user NULL: nothing has changed. UNAUTHENTICATED: he would not be let in any more.
   *  Optional: without it an identity stays as it was found. Threads: any; as authenticate. */
  trn_status (*refresh)(void *self, const trn_identity *was, trn_identity *out, trn_error **error);
} trn_authenticator_ops;

TRN_API trn_status trn_authenticator_create(const trn_authenticator_ops *ops, void *self, trn_authenticator **out);
TRN_API trn_authenticator *trn_authenticator_ref(trn_authenticator *authenticator);
TRN_API void trn_authenticator_unref(trn_authenticator *authenticator);
TRN_API trn_status trn_authenticate(trn_authenticator *authenticator, const trn_credentials *credentials,
                                    trn_identity *out, trn_error **error);
/** Calls `reload`; TRN_OK when there is none. Threads: any. */
TRN_API trn_status trn_authenticator_reload(trn_authenticator *authenticator, trn_error **error);
/** How often it was reloaded: a host that remembers answers asks again when this is another number. Threads: any. */
TRN_API uint64_t trn_authenticator_reloads(const trn_authenticator *authenticator);
/** Calls `refresh`; nothing has changed when there is none. `was` is from the same authenticator. */
TRN_API trn_status trn_authenticator_refresh(trn_authenticator *authenticator, const trn_identity *was,
                                             trn_identity *out, trn_error **error);

/* ---- the bundled one, in libtrunnion_server. Keys of `config`, all optional, at least one of the first four is there:
 *   tokens        FILE: static bearer tokens, a line each: user:hash[:group,group]; hash from trn_auth_hash_token
 *   users         FILE: passwords (Basic), a line each: user:hash[:group,group]; hash from trn_auth_hash_password, or
 *                 empty: groups only. A user's groups count however the user was authenticated
 *   jwt           a map: jwks FILE, issuer, audience (a text or list), algorithms (a list; default RS256 PS256 ES256
 *                 EdDSA), user_claim ("sub"), groups_claim ("groups"), leeway ("30s"), require_expiry (true)
 *   certificates  true: the name in a verified client certificate is the user
 *   failures_max  wrong passwords per second and address, beyond which passwords are not looked at; 0: no limit (20)
 * Lines that are empty or start with '#' are skipped. ---- */

/** Reads the files. Gives `*out`. Errors: INVALID_ARGUMENT and NOT_FOUND name the file and line. Blocks. Since 0.1. */
TRN_API trn_status trn_auth_create(const trn_config *config, trn_authenticator **out, trn_error **error);
/** A salted hash (scrypt) for a file of users. Gives `*out` (trn_free). Blocks for tens of milliseconds. */
TRN_API trn_status trn_auth_hash_password(const char *password, char **out);
/** The hash (SHA-256: tokens are random and long) for a file of tokens. Gives `*out` (trn_free). */
TRN_API trn_status trn_auth_hash_token(const char *token, char **out);
/** A new random token. Gives `*out` (trn_free). */
TRN_API trn_status trn_auth_new_token(char **out);

#ifdef __cplusplus
}
#endif
#endif
