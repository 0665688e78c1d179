/* The bundled authenticator: what a caller presents against files of tokens, users and keys, which may be read again at
 * any time. A state is what was read; a caller holds a reference to the one it began with. */
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>

#include "auth.h"

typedef struct auth_verified {
  uint8_t digest[32];
  int64_t until_ms; /* 0: free */
} auth_verified;

typedef struct auth_state {
  atomic_size_t refs;
  uint64_t serial; /* of the reading; 0: the first */
  auth_users tokens, users;
  auth_keys keys;
  struct timespec keys_changed;
  ino_t keys_inode;
  /* passwords that were right lately: hashing takes too long for each call */
  pthread_mutex_t mutex;
  uint8_t secret[32];
  auth_verified verified[TRN_AUTH_VERIFIED_MAX];
} auth_state;

typedef struct auth_peer {
  uint64_t hash;
  int64_t second;
  unsigned failures;
} auth_peer;

typedef struct auth_bundled {
  char *tokens_path, *users_path, *keys_path;
  char *issuer, *user_claim, *groups_claim;
  char **audiences;
  const auth_algorithm *algorithms[16];
  auth_jwt_rules rules;
  bool takes_certificates;
  unsigned failures_max;
  pthread_mutex_t mutex; /* all below */
  auth_state *state;
  int64_t keys_looked_ms;
  auth_peer peers[TRN_AUTH_PEERS_MAX];
} auth_bundled;

static int64_t clock_ms(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- states ---- */

static void state_unref(auth_state *state) {
  if (!state || atomic_fetch_sub_explicit(&state->refs, 1, memory_order_acq_rel) != 1) return;
  trn__auth_users_finish(&state->tokens);
  trn__auth_users_finish(&state->users);
  trn__auth_keys_finish(&state->keys);
  pthread_mutex_destroy(&state->mutex);
  OPENSSL_cleanse(state, sizeof *state);
  free(state);
}

static auth_state *state_now(auth_bundled *b) {
  pthread_mutex_lock(&b->mutex);
  auth_state *state = b->state;
  atomic_fetch_add_explicit(&state->refs, 1, memory_order_relaxed);
  pthread_mutex_unlock(&b->mutex);
  return state;
}

static trn_status state_read(const auth_bundled *b, auth_state **out, trn_error **error) {
  auth_state *state = calloc(1, sizeof *state);
  struct stat about;
  if (!state) return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "no memory for the users");
  atomic_init(&state->refs, 1);
  pthread_mutex_init(&state->mutex, NULL);
  trn_status status = TRN_OK;
  if (RAND_bytes(state->secret, sizeof state->secret) != 1)
    status = trn_error_set(error, TRN_UNAVAILABLE, NULL, "no random numbers");
  if (!status && b->tokens_path) status = trn__auth_users_read(b->tokens_path, true, &state->tokens, error);
  if (!status && b->users_path) status = trn__auth_users_read(b->users_path, false, &state->users, error);
  if (b->keys_path && stat(b->keys_path, &about) == 0) { /* before it is read: a later change is seen */
    state->keys_changed = about.st_mtim;
    state->keys_inode = about.st_ino;
  }
  if (!status && b->keys_path) status = trn__auth_keys_read(b->keys_path, &state->keys, error);
  if (status) {
    state_unref(state);
  } else {
    *out = state;
  }
  return status;
}

static trn_status reload(void *self, trn_error **error) {
  auth_bundled *b = self;
  auth_state *state = NULL;
  trn_status status = state_read(b, &state, error);
  if (status) return status;
  pthread_mutex_lock(&b->mutex);
  auth_state *old = b->state;
  state->serial = old->serial + 1;
  b->state = state;
  pthread_mutex_unlock(&b->mutex);
  state_unref(old);
  return TRN_OK;
}

/* A token with an unknown key: was the file changed since it was read? */
static bool keys_changed(auth_bundled *b, const auth_state *state) {
  struct stat about;
  int64_t now = clock_ms(CLOCK_MONOTONIC);
  pthread_mutex_lock(&b->mutex);
  bool look = b->state != state || now - b->keys_looked_ms >= TRN_AUTH_RELOAD_MS;
  if (look) b->keys_looked_ms = now;
  bool is_old = b->state != state;
  pthread_mutex_unlock(&b->mutex);
  if (is_old) return true; /* somebody has read it already */
  if (!look || stat(b->keys_path, &about) != 0) return false;
  if (about.st_ino == state->keys_inode && about.st_mtim.tv_sec == state->keys_changed.tv_sec &&
      about.st_mtim.tv_nsec == state->keys_changed.tv_nsec)
    return false;
  return reload(b, NULL) == TRN_OK;
}

/* ---- identities ---- */

/* How somebody was found, and where: behind every identity that is given. */
typedef enum auth_by { AUTH_BY_TOKEN, AUTH_BY_JWT, AUTH_BY_PASSWORD, AUTH_BY_CERTIFICATE } auth_by;
typedef struct auth_found {
  uint64_t serial; /* of the state */
  auth_by by;
  uint8_t digest[32];  /* of the token, or of the password's hash as the file has it */
  size_t given_count;  /* of the groups, the first: what the token itself says */
  const char *names[]; /* groups; behind them the texts */
} auth_found;

/* What an identity is made of. Borrowed. */
typedef struct auth_person {
  const char *name;
  auth_by by;
  const uint8_t *digest; /* or NULL */
  const char *const *groups;
  size_t group_count;
  int64_t expires_ms;
} auth_person;

static void identity_release(trn_identity *identity) {
  free(identity->owner);
  *identity = (trn_identity){.struct_size = identity->struct_size};
}

/* With the groups that the file of users has. One allocation: pointers, then texts. */
static trn_status give_identity(const auth_state *state, const auth_person *who, trn_identity *out, trn_error **error) {
  const auth_user *user = trn__auth_user_find(&state->users, who->name);
  size_t given = who->group_count, count = given + (user ? user->group_count : 0);
  size_t size = sizeof(auth_found) + count * sizeof(char *) + strlen(who->name) + 1;
  for (size_t i = 0; i < count; i++) size += strlen(i < given ? who->groups[i] : user->groups[i - given]) + 1;
  auth_found *found = malloc(size);
  if (!found) return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "Out of memory");
  *found = (auth_found){.serial = state->serial, .by = who->by, .given_count = given};
  if (who->digest) memcpy(found->digest, who->digest, sizeof found->digest);
  char *at = (char *)(found->names + count);
  for (size_t i = 0; i < count; i++) {
    found->names[i] = at;
    at = stpcpy(at, i < given ? who->groups[i] : user->groups[i - given]) + 1;
  }
  strcpy(at, who->name);
  *out = (trn_identity){.struct_size = sizeof *out,
                        .user = at,
                        .groups = found->names,
                        .group_count = count,
                        .expires_ms = who->expires_ms,
                        .release = identity_release,
                        .owner = found};
  return TRN_OK;
}

static trn_status refuse(trn_error **error, const char *why) {
  return trn_error_set(error, TRN_UNAUTHENTICATED, NULL, "%s", why);
}

/* ---- bearer ---- */

static trn_status check_jwt(auth_bundled *b, auth_state *state, const char *token, size_t size, bool may_reload,
                            trn_identity *out, trn_error **error) {
  auth_claims claims;
  const char *why;
  bool unknown_key;
  int64_t now = clock_ms(CLOCK_REALTIME) / 1000;
  if (trn__auth_jwt_verify(token, size, &state->keys, &b->rules, now, &claims, &why, &unknown_key)) {
    const auth_person who = {.name = claims.user,
                             .by = AUTH_BY_JWT,
                             .groups = (const char *const *)claims.groups,
                             .group_count = claims.group_count,
                             .expires_ms = claims.expires_ms};
    trn_status status = give_identity(state, &who, out, error);
    trn__auth_claims_finish(&claims);
    return status;
  }
  if (!unknown_key || !may_reload || !keys_changed(b, state)) return refuse(error, why);
  auth_state *fresh = state_now(b);
  trn_status status = check_jwt(b, fresh, token, size, false, out, error);
  state_unref(fresh);
  return status;
}

/* Whose a static token is. */
static trn_status give_owner(const auth_state *state, const auth_user *token, trn_identity *out, trn_error **error) {
  const auth_person who = {.name = token->name,
                           .by = AUTH_BY_TOKEN,
                           .digest = token->digest,
                           .groups = token->groups,
                           .group_count = token->group_count};
  return give_identity(state, &who, out, error);
}

static trn_status check_bearer(auth_bundled *b, auth_state *state, const char *token, trn_identity *out,
                               trn_error **error) {
  size_t size = strlen(token);
  const auth_user *found = state->tokens.count ? trn__auth_token_find(&state->tokens, token, size) : NULL;
  if (found) return give_owner(state, found, out, error);
  if (b->keys_path && (memchr(token, '.', size) || !b->tokens_path))
    return check_jwt(b, state, token, size, true, out, error);
  return refuse(error,
                b->keys_path || b->tokens_path ? "The token is not known here" : "Bearer tokens are not accepted here");
}

/* ---- basic ---- */

/* The address without the port: where failures are counted. */
static auth_peer *peer_of(auth_bundled *b, const char *peer) {
  uint64_t hash = 1469598103934665603u;
  const char *colon = peer ? strrchr(peer, ':') : NULL;
  for (const char *at = peer; at && at < colon; at++) hash = (hash ^ (unsigned char)*at) * 1099511628211u;
  auth_peer *entry = &b->peers[hash % TRN_AUTH_PEERS_MAX];
  int64_t second = clock_ms(CLOCK_MONOTONIC) / 1000;
  if (entry->hash != hash || entry->second != second) *entry = (auth_peer){.hash = hash, .second = second};
  return entry;
}

/* Takes one of the failures that the address may have in this second; given back when it was none. */
static bool may_try(auth_bundled *b, const char *peer) {
  if (!b->failures_max) return true;
  pthread_mutex_lock(&b->mutex);
  auth_peer *entry = peer_of(b, peer);
  bool may = entry->failures < b->failures_max;
  if (may) entry->failures++;
  pthread_mutex_unlock(&b->mutex);
  return may;
}

static void was_right(auth_bundled *b, const char *peer) {
  if (!b->failures_max) return;
  pthread_mutex_lock(&b->mutex);
  auth_peer *entry = peer_of(b, peer);
  if (entry->failures) entry->failures--;
  pthread_mutex_unlock(&b->mutex);
}

/* Looks up, or remembers, a pair that is right. */
static bool verified(auth_state *state, const uint8_t digest[32], bool remember) {
  uint32_t index;
  memcpy(&index, digest, sizeof index);
  auth_verified *entry = &state->verified[index % TRN_AUTH_VERIFIED_MAX];
  int64_t now = clock_ms(CLOCK_MONOTONIC);
  pthread_mutex_lock(&state->mutex);
  if (remember) {
    memcpy(entry->digest, digest, 32);
    entry->until_ms = now + TRN_AUTH_VERIFIED_MS;
  }
  bool found = entry->until_ms > now && CRYPTO_memcmp(entry->digest, digest, 32) == 0;
  pthread_mutex_unlock(&state->mutex);
  return found;
}

/* Who is in the file of users, by a password that is right: remembered as its hash, so that another password ends it. */
static trn_status give_user(const auth_state *state, const auth_user *user, trn_identity *out, trn_error **error) {
  uint8_t digest[32];
  const auth_person who = {.name = user->name, .by = AUTH_BY_PASSWORD, .digest = digest};
  if (!trn__auth_sha256(user->hash, strlen(user->hash), digest))
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "Out of memory");
  return give_identity(state, &who, out, error);
}

static trn_status check_password(auth_bundled *b, auth_state *state, const char *name, const char *password,
                                 const char *text, size_t text_size, const char *peer, trn_identity *out,
                                 trn_error **error) {
  uint8_t digest[32];
  unsigned digest_size = sizeof digest;
  const auth_user *user = trn__auth_user_find(&state->users, name);
  if (!HMAC(EVP_sha256(), state->secret, sizeof state->secret, (const uint8_t *)text, text_size, digest, &digest_size))
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "Out of memory");
  if (user && user->hash && verified(state, digest, false)) return give_user(state, user, out, error);
  if (!may_try(b, peer))
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL,
                         "Too many wrong passwords from this address: try again later");
  bool right = false;
  if (user && user->hash) {
    right = trn__auth_verify_password(user->hash, password, strlen(password));
  } else {
    trn__auth_no_password(password, strlen(password)); /* the answer does not tell who is there */
  }
  if (!right) return refuse(error, "User or password is wrong");
  was_right(b, peer);
  verified(state, digest, true);
  return give_user(state, user, out, error);
}

static trn_status check_basic(auth_bundled *b, auth_state *state, const char *encoded, const char *peer,
                              trn_identity *out, trn_error **error) {
  size_t encoded_size = strlen(encoded), size = 0;
  trn_status status;
  if (!b->users_path) return refuse(error, "Passwords are not accepted here");
  char *text = malloc(encoded_size + 1);
  if (!text) return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "Out of memory");
  bool ok = trn__auth_base64_decode_padded(encoded, encoded_size, (uint8_t *)text, &size) && !memchr(text, 0, size);
  text[ok ? size : 0] = 0;
  char *colon = strchr(text, ':');
  if (!ok || !colon) {
    status = refuse(error, "The authorization header is not 'Basic' and user:password in base64");
  } else {
    char *name = strndup(text, (size_t)(colon - text));
    status = name ? check_password(b, state, name, colon + 1, text, size, peer, out, error)
                  : trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "Out of memory");
    free(name);
  }
  OPENSSL_cleanse(text, encoded_size + 1);
  free(text);
  return status;
}

/* ---- the vtable ---- */

static const char *after_scheme(const char *header, const char *scheme) {
  size_t size = strlen(scheme);
  if (strncasecmp(header, scheme, size) != 0 || header[size] != ' ') return NULL;
  for (header += size; *header == ' ';) header++;
  return header;
}

static trn_status authenticate(void *self, const trn_credentials *credentials, trn_identity *out, trn_error **error) {
  auth_bundled *b = self;
  const char *header = credentials->authorization, *rest;
  auth_state *state = state_now(b);
  trn_status status;
  if (header && strlen(header) > TRN_AUTH_HEADER_BYTES_MAX) {
    status = refuse(error, "The authorization header is too long");
  } else if (header && (rest = after_scheme(header, "Bearer"))) {
    status = check_bearer(b, state, rest, out, error);
  } else if (header && (rest = after_scheme(header, "Basic"))) {
    status = check_basic(b, state, rest, credentials->peer, out, error);
  } else if (header) {
    status = refuse(error, "The authorization header is neither 'Bearer' nor 'Basic'");
  } else if (credentials->certificate && *credentials->certificate && b->takes_certificates) {
    const auth_person who = {.name = credentials->certificate, .by = AUTH_BY_CERTIFICATE};
    status = give_identity(state, &who, out, error);
  } else {
    status =
        refuse(error, "This server wants to know who calls: give a token (in PySpark ';token=...'), a password, or a "
                      "client certificate, as it is configured");
  }
  state_unref(state);
  return status;
}

/* A JSON web token counts until it ends, as it does for who presents it: only the file of users is looked at again. */
static trn_status refresh(void *self, const trn_identity *was, trn_identity *out, trn_error **error) {
  const auth_found *found = was->owner;
  auth_state *state = state_now(self);
  uint8_t digest[32];
  trn_status status = TRN_OK;
  if (found->serial == state->serial) {
    *out = (trn_identity){.struct_size = sizeof *out};
  } else if (found->by == AUTH_BY_TOKEN) {
    const auth_user *token = trn__auth_token_by_digest(&state->tokens, found->digest);
    bool is_his = token && strcmp(token->name, was->user) == 0;
    status = is_his ? give_owner(state, token, out, error) : refuse(error, "The token is not known here any more");
  } else if (found->by == AUTH_BY_PASSWORD) {
    const auth_user *user = trn__auth_user_find(&state->users, was->user);
    bool is_same = user && user->hash && trn__auth_sha256(user->hash, strlen(user->hash), digest) &&
                   CRYPTO_memcmp(digest, found->digest, sizeof digest) == 0;
    status = is_same ? give_user(state, user, out, error)
                     : refuse(error, "The user is gone, or has another password: log in again");
  } else {
    const auth_person who = {.name = was->user,
                             .by = found->by,
                             .groups = found->names,
                             .group_count = found->given_count,
                             .expires_ms = was->expires_ms};
    status = give_identity(state, &who, out, error);
  }
  state_unref(state);
  return status;
}

static void destroy(void *self) {
  auth_bundled *b = self;
  state_unref(b->state);
  for (size_t i = 0; i < b->rules.audience_count; i++) free(b->audiences[i]);
  free(b->audiences);
  free(b->tokens_path);
  free(b->users_path);
  free(b->keys_path);
  free(b->issuer);
  free(b->user_claim);
  free(b->groups_claim);
  pthread_mutex_destroy(&b->mutex);
  free(b);
}

/* ---- configuration ---- */

/* A text of the map, copied; keeps `*out` when it is not there. */
static trn_status copy_text(const trn_config *map, const char *key, char **out, trn_error **error) {
  const char *text = NULL;
  trn_status status = trn_config_text(map, key, &text, error);
  if (status || !text) return status;
  free(*out);
  *out = strdup(text);
  return *out ? TRN_OK : trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "no memory");
}

/* A text, or a list of texts: the index-th; NULL: no more. */
static const char *text_at(const trn_config *node, size_t index) {
  if (trn_config_get_kind(node) == TRN_CONFIG_TEXT) return index ? NULL : trn_config_value(node);
  return trn_config_value(trn_config_at(node, index));
}

static trn_status read_algorithms(auth_bundled *b, const trn_config *node, trn_error **error) {
  static const char *const usual[] = {"RS256", "PS256", "ES256", "EdDSA"};
  size_t count = 0, room = sizeof b->algorithms / sizeof *b->algorithms;
  for (const char *name; (name = text_at(node, count)) && count < room; count++) {
    if (!(b->algorithms[count] = trn__auth_algorithm(name)))
      return trn_error_set(
          error, TRN_INVALID_ARGUMENT, NULL,
          "%s: algorithms: '%s' is none of RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA "
          "HS256 HS384 HS512",
          trn_config_origin(node), name);
  }
  for (; !node && count < sizeof usual / sizeof *usual; count++)
    b->algorithms[count] = trn__auth_algorithm(usual[count]);
  b->rules.algorithms = b->algorithms;
  b->rules.algorithm_count = count;
  if (count) return TRN_OK;
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: algorithms: none is given", trn_config_origin(node));
}

static trn_status read_jwt(auth_bundled *b, const trn_config *jwt, trn_error **error) {
  static const char *const keys[] = {"jwks",         "issuer", "audience",       "algorithms", "user_claim",
                                     "groups_claim", "leeway", "require_expiry", NULL};
  uint64_t leeway_ms = 30000;
  if (!(b->user_claim = strdup("sub")) || !(b->groups_claim = strdup("groups")))
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "no memory");
  b->rules.requires_expiry = true;
  trn_status status = trn_config_check_keys(jwt, keys, error);
  if (!status) status = copy_text(jwt, "jwks", &b->keys_path, error);
  if (!status && !b->keys_path)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: jwt: 'jwks' is missing: a file of public keys",
                           trn_config_origin(jwt));
  if (!status) status = copy_text(jwt, "issuer", &b->issuer, error);
  if (!status) status = copy_text(jwt, "user_claim", &b->user_claim, error);
  if (!status) status = copy_text(jwt, "groups_claim", &b->groups_claim, error);
  if (!status) status = trn_config_duration(jwt, "leeway", &leeway_ms, error);
  if (!status) status = trn_config_bool(jwt, "require_expiry", &b->rules.requires_expiry, error);
  if (!status) status = read_algorithms(b, trn_config_get(jwt, "algorithms"), error);
  const trn_config *audience = trn_config_get(jwt, "audience");
  size_t room = trn_config_count(audience) + 1;
  if (!status && !(b->audiences = calloc(room, sizeof *b->audiences)))
    status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "no memory");
  for (const char *text; !status && (text = text_at(audience, b->rules.audience_count));) {
    if (!(b->audiences[b->rules.audience_count] = strdup(text)))
      status = trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "no memory");
    else
      b->rules.audience_count++;
  }
  b->rules.issuer = b->issuer;
  b->rules.audiences = (const char *const *)b->audiences;
  b->rules.user_claim = b->user_claim;
  b->rules.groups_claim = b->groups_claim;
  b->rules.leeway_s = (int64_t)(leeway_ms / 1000);
  return status;
}

static trn_status read_config(auth_bundled *b, const trn_config *config, trn_error **error) {
  static const char *const keys[] = {"tokens", "users", "jwt", "certificates", "failures_max", NULL};
  const trn_config *jwt = trn_config_get(config, "jwt");
  int64_t failures_max = 20;
  trn_status status = trn_config_check_keys(config, keys, error);
  if (!status) status = copy_text(config, "tokens", &b->tokens_path, error);
  if (!status) status = copy_text(config, "users", &b->users_path, error);
  if (!status) status = trn_config_bool(config, "certificates", &b->takes_certificates, error);
  if (!status) status = trn_config_number(config, "failures_max", 0, 1000000, &failures_max, error);
  if (!status && jwt) status = read_jwt(b, jwt, error);
  b->failures_max = (unsigned)failures_max;
  if (!status && !b->tokens_path && !b->users_path && !b->keys_path && !b->takes_certificates)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                           "%s: auth: nobody could be known: give one of tokens, users, jwt, certificates",
                           trn_config_origin(config));
  return status;
}

trn_status trn_auth_create(const trn_config *config, trn_authenticator **out, trn_error **error) {
  static const trn_authenticator_ops ops = {
      .struct_size = sizeof ops, .authenticate = authenticate, .destroy = destroy, .reload = reload, .refresh = refresh};
  *out = NULL;
  auth_bundled *b = calloc(1, sizeof *b);
  if (!b) return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "no memory");
  pthread_mutex_init(&b->mutex, NULL);
  trn_status status = read_config(b, config, error);
  if (!status) status = state_read(b, &b->state, error);
  if (!status && (status = trn_authenticator_create(&ops, b, out))) trn_error_set(error, status, NULL, "no memory");
  if (status) destroy(b);
  return status;
}
