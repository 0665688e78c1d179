/* Who calls, and which session that is. A session is named by a token that its client carries (a bearer token from a
 * handshake, or a cookie), else by the connection and the user: clients without either still have one session per
 * connection. Tokens name sessions; only bearer tokens from a handshake are credentials. */
#include <stdio.h>
#include <strings.h>

#include "core/base64.h"
#include "frontend/flight/flight.h"
#include "frontend/wire/wire.h"

static const char cookie_name[] = "arrow_flight_session_id";

/* ---- life ---- */

flight_session *flight__session_ref(flight_session *session) {
  atomic_fetch_add_explicit(&session->refs, 1, memory_order_relaxed);
  return session;
}

void flight__session_unref(flight_session *session) {
  if (!session || atomic_fetch_sub_explicit(&session->refs, 1, memory_order_acq_rel) != 1) return;
  for (unsigned i = 0; i < session->service->provider_count; i++) {
    const flight_provider_entry *provider = &session->service->providers[i];
    if (session->states[i] && provider->ops.session_close)
      provider->ops.session_close(provider->self, session->states[i]);
  }
  flight__identity_unref(session->found);
  free(session->key);
  free(session->user);
  pthread_mutex_destroy(&session->mutex);
  flight__service_unref(session->service);
  free(session);
}

static void token_make(char out[FLIGHT_TOKEN_SIZE]) {
  char id[2][TRN_UUID_SIZE];
  trn__uuid4(id[0]);
  trn__uuid4(id[1]);
  size_t used = 0;
  for (size_t i = 0; i < 2; i++)
    for (const char *c = id[i]; *c; c++)
      if (*c != '-') out[used++] = *c;
  out[used] = 0;
}

flight_identity *flight__identity_ref(flight_identity *found) {
  if (found) atomic_fetch_add_explicit(&found->refs, 1, memory_order_relaxed);
  return found;
}

void flight__identity_unref(flight_identity *found) {
  if (!found || atomic_fetch_sub_explicit(&found->refs, 1, memory_order_acq_rel) != 1) return;
  if (found->identity.release) found->identity.release(&found->identity);
  free(found);
}

/* Takes the identity, also on failure. */
static flight_identity *identity_share(trn_identity *identity) {
  flight_identity *found = calloc(1, sizeof *found);
  if (!found) {
    if (identity->release) identity->release(identity);
    return NULL;
  }
  atomic_init(&found->refs, 1);
  found->identity = *identity;
  return found;
}

static void release_copy(trn_identity *identity) {
  free(identity->owner);
}

/* What the host said of the caller, for longer than the call. One allocation: pointers, then texts. */
static flight_identity *identity_of_host(const char *user, const char *const *groups, size_t count) {
  size_t size = count * sizeof(char *) + strlen(user) + 1;
  for (size_t i = 0; i < count; i++) size += strlen(groups[i]) + 1;
  char **names = malloc(size);
  if (!names) return NULL;
  char *at = (char *)(names + count);
  for (size_t i = 0; i < count; i++) {
    names[i] = at;
    at = stpcpy(at, groups[i]) + 1;
  }
  strcpy(at, user);
  trn_identity identity = {.struct_size = sizeof identity,
                           .user = at,
                           .groups = (const char *const *)names,
                           .group_count = count,
                           .release = release_copy,
                           .owner = names};
  return identity_share(&identity);
}

/* Who it is, as far as that is known. Borrowed from the arena, the call or `found`. */
typedef struct caller {
  const char *user;
  const char *const *groups;
  size_t group_count;
  bool is_authenticated;
  int64_t expires_ms;
  flight_identity *found; /* one reference, or NULL */
} caller;

/* The call is that caller's. Takes his identity. */
static void give_caller(flight_rpc *rpc, caller *who) {
  flight__identity_unref(rpc->found);
  rpc->found = who->found;
  rpc->groups = who->groups;
  rpc->group_count = who->group_count;
  who->found = NULL;
}

static trn_status session_create(flight_service *service, const char *key, const caller *who, flight_session **out,
                                 trn_error **error) {
  flight_session *session = calloc(1, sizeof *session);
  if (!session) return trn__no_memory(error);
  atomic_init(&session->refs, 1);
  pthread_mutex_init(&session->mutex, NULL);
  session->service = flight__service_ref(service);
  token_make(session->token);
  session->is_authenticated = who->is_authenticated;
  session->expires_ms = who->expires_ms;
  session->used_ns = trn__now_ns();
  session->user = strdup(who->user);
  session->key = key ? strdup(key) : NULL;
  session->found = key ? NULL : flight__identity_ref(who->found); /* others present their credentials again */
  if (!session->user || (key && !session->key)) {
    flight__session_unref(session);
    return trn__no_memory(error);
  }
  *out = session;
  return TRN_OK;
}

/* ---- the table: every session by its token, those of connections by their key too ---- */

/* locks: service->mutex held */
static flight_session *lookup(flight_service *service, const char *key, size_t size) {
  flight_session *session = trn__map_get(service->sessions, key, size);
  if (!session) return NULL;
  session->calls++;
  session->used_ns = trn__now_ns();
  return flight__session_ref(session);
}

static flight_session *find(flight_service *service, const char *key, size_t size) {
  pthread_mutex_lock(&service->mutex);
  flight_session *session = lookup(service, key, size);
  pthread_mutex_unlock(&service->mutex);
  return session;
}

/* Puts a new session into the table, or gives the one that somebody was faster with. Entered, as by `find`. */
static trn_status insert(flight_service *service, flight_session *session, flight_session **out, trn_error **error) {
  trn_status status = TRN_OK;
  pthread_mutex_lock(&service->mutex);
  flight_session *other = session->key ? lookup(service, session->key, strlen(session->key)) : NULL;
  if (other) {
    *out = other;
  } else if (service->gate.is_closed || trn__map_count(service->sessions) / 2 >= TRN_FLIGHT_SESSIONS_MAX) {
    status = TRN_RESOURCE_EXHAUSTED;
  } else if (!trn__map_set(service->sessions, session->token, FLIGHT_TOKEN_SIZE - 1, session, NULL)) {
    status = TRN_RESOURCE_EXHAUSTED;
  } else if (session->key && !trn__map_set(service->sessions, session->key, strlen(session->key), session, NULL)) {
    trn__map_remove(service->sessions, session->token, FLIGHT_TOKEN_SIZE - 1);
    status = TRN_RESOURCE_EXHAUSTED;
  } else {
    session->calls++;
    flight__session_ref(session); /* the table's */
    *out = flight__session_ref(session);
  }
  pthread_mutex_unlock(&service->mutex);
  if (status)
    return trn_error_set(error, status, NULL, "The server has too many sessions (limit %u)", TRN_FLIGHT_SESSIONS_MAX);
  flight__need_timer(service);
  return TRN_OK;
}

void flight__session_leave(flight_session *session) {
  flight_service *service = session->service;
  pthread_mutex_lock(&service->mutex);
  session->calls--;
  session->used_ns = trn__now_ns();
  pthread_mutex_unlock(&service->mutex);
  flight__session_unref(session);
}

/* locks: service->mutex held. True: it was there, and the table's reference is the caller's now. */
static bool take_out(flight_service *service, flight_session *session) {
  if (session->is_closed) return false;
  session->is_closed = true;
  trn__map_remove(service->sessions, session->token, FLIGHT_TOKEN_SIZE - 1);
  if (session->key) trn__map_remove(service->sessions, session->key, strlen(session->key));
  return true;
}

/* locks: none. Providers drop what they keep for a session that was taken out. */
static void session_end(flight_session *session) {
  for (unsigned i = 0; i < session->service->provider_count; i++) {
    const flight_provider_entry *provider = &session->service->providers[i];
    pthread_mutex_lock(&session->mutex);
    void *state = session->states[i];
    pthread_mutex_unlock(&session->mutex);
    if (state && provider->ops.session_end) provider->ops.session_end(provider->self, state);
  }
}

/* A bearer token is also what its client was given for its password: it goes on, with a session that has nothing yet. */
void flight__session_close(flight_session *session) {
  flight_service *service = session->service;
  flight_session *fresh = NULL, *entered = NULL;
  pthread_mutex_lock(&session->mutex);
  const caller who = {.user = session->user,
                      .is_authenticated = session->is_authenticated,
                      .expires_ms = session->expires_ms,
                      .found = flight__identity_ref(session->found)};
  pthread_mutex_unlock(&session->mutex);
  pthread_mutex_lock(&service->mutex);
  bool taken = take_out(service, session);
  pthread_mutex_unlock(&service->mutex);
  if (taken) {
    session_end(session);
    if (!session->key && session_create(service, NULL, &who, &fresh, NULL) == TRN_OK) {
      memcpy(fresh->token, session->token, FLIGHT_TOKEN_SIZE);
      if (insert(service, fresh, &entered, NULL) == TRN_OK) flight__session_leave(entered);
    }
    flight__session_unref(fresh);
    flight__session_unref(session);
  }
  flight__identity_unref(who.found);
}

void flight__sweep_sessions(flight_service *service) {
  int64_t now = trn__now_ns(), idle = (int64_t)service->session_idle_ms * 1000000, wall = trn__wall_ms();
  trn_vec old = {0};
  pthread_mutex_lock(&service->mutex);
  const char *key;
  void *value;
  for (size_t i = 0; trn__map_next(service->sessions, &i, &key, &value);) {
    flight_session *session = value;
    bool is_over = session->expires_ms && session->expires_ms <= wall;
    if (!session->calls && (is_over || now - session->used_ns >= idle) && !session->is_closed)
      if (trn__vec_push(&old, session)) flight__session_ref(session);
  }
  pthread_mutex_unlock(&service->mutex);
  for (size_t i = 0; i < old.count; i++) {
    flight_session *session = old.items[i];
    pthread_mutex_lock(&service->mutex);
    bool taken = session->calls == 0 && take_out(service, session);
    pthread_mutex_unlock(&service->mutex);
    if (taken) session_end(session);
    if (taken) flight__session_unref(session);
    flight__session_unref(session);
  }
  trn__vec_finish(&old);
}

void flight__close_all_sessions(flight_service *service) {
  for (;;) {
    const char *key;
    void *value;
    size_t index = 0;
    pthread_mutex_lock(&service->mutex);
    flight_session *session = trn__map_next(service->sessions, &index, &key, &value) ? value : NULL;
    if (session) take_out(service, session);
    pthread_mutex_unlock(&service->mutex);
    if (!session) return;
    session_end(session);
    flight__session_unref(session);
  }
}

/* ---- who calls ---- */

static const char *header(const flight_rpc *rpc, const char *key, size_t *size) {
  return trn_call_metadata(rpc->call, key, size);
}

const char *flight__user_agent(const flight_rpc *rpc) {
  const char *agent = header(rpc, "user-agent", NULL);
  return agent ? agent : "";
}

/* The value behind a scheme ("Bearer", "Basic"), or NULL. */
static const char *scheme_value(const char *authorization, const char *scheme) {
  size_t size = strlen(scheme);
  if (!authorization || strncasecmp(authorization, scheme, size) != 0 || authorization[size] != ' ') return NULL;
  const char *value = authorization + size + 1;
  while (*value == ' ') value++;
  return value;
}

/* "user:password" of a Basic header, in the arena. False: it is none. */
static bool basic_parts(trn_arena *arena, const char *authorization, char **user, char **password) {
  const char *value = scheme_value(authorization, "Basic");
  size_t size;
  char *text = value ? flight__base64_decode(arena, value, strlen(value), &size) : NULL;
  if (!text || memchr(text, 0, size) || !trn__utf8_is_valid(text, size)) return false;
  char *colon = strchr(text, ':');
  if (!colon) return false;
  *colon = 0;
  *user = text;
  *password = colon + 1;
  return true;
}

static trn_status authenticate(flight_rpc *rpc, const char *authorization, caller *out, trn_error **error) {
  const trn_credentials credentials = {.struct_size = sizeof credentials,
                                       .authorization = authorization,
                                       .peer = trn_call_peer(rpc->call)};
  trn_identity identity = {.struct_size = sizeof identity};
  trn_status status = trn_authenticate(rpc->service->authenticator, &credentials, &identity, error);
  if (status) return status;
  out->found = identity_share(&identity);
  if (!out->found) return trn__no_memory(error);
  out->found->is_from_authenticator = true;
  out->user = identity.user ? identity.user : "";
  out->groups = identity.groups;
  out->group_count = identity.group_count;
  out->expires_ms = identity.expires_ms;
  out->is_authenticated = true;
  return TRN_OK;
}

/* With an authenticator: what it says. Tools that know no tokens send one as the password. */
static trn_status check_credentials(flight_rpc *rpc, const char *authorization, caller *out, trn_error **error) {
  char *user, *password;
  trn_error *own = NULL;
  trn_status status = authenticate(rpc, authorization, out, &own);
  if (status && basic_parts(rpc->arena, authorization, &user, &password) && *password) {
    char *bearer = trn__arena_printf(rpc->arena, "Bearer %s", password);
    if (bearer && authenticate(rpc, bearer, out, NULL) == TRN_OK) status = TRN_OK;
  }
  if (status && error) {
    *error = own;
  } else {
    trn_error_unref(own);
  }
  return status;
}

/* Who presents `authorization` (may be NULL). What the host found wins. */
static trn_status identify(flight_rpc *rpc, const char *authorization, caller *out, trn_error **error) {
  flight_service *service = rpc->service;
  *out = (caller){.user = ""};
  const char *identity = trn_call_identity(rpc->call);
  if (identity) {
    out->user = identity;
    out->is_authenticated = true;
    out->group_count = trn_call_groups(rpc->call, &out->groups);
    return TRN_OK;
  }
  if (service->authenticator && authorization) return check_credentials(rpc, authorization, out, error);
  if (!service->allow_anonymous)
    return trn_error_set(error, TRN_UNAUTHENTICATED, NULL, "This server wants a user and a password, or a token");
  char *user, *password;
  if (authorization && basic_parts(rpc->arena, authorization, &user, &password)) out->user = user;
  return TRN_OK;
}

/* ---- entering ---- */

/* Whom a handshake's token stands for, as its authenticator sees him now: files of users are read again. */
static trn_status find_again(flight_session *session, caller *out, trn_error **error) {
  trn_identity now = {.struct_size = sizeof now};
  pthread_mutex_lock(&session->mutex);
  flight_identity *found = flight__identity_ref(session->found);
  pthread_mutex_unlock(&session->mutex);
  trn_status status = TRN_OK;
  if (found && found->is_from_authenticator)
    status = trn_authenticator_refresh(session->service->authenticator, &found->identity, &now, error);
  if (!status && now.user) {
    flight__identity_unref(found);
    found = identity_share(&now);
    if (!found) return trn__no_memory(error);
    found->is_from_authenticator = true;
    pthread_mutex_lock(&session->mutex);
    flight_identity *old = session->found;
    session->found = flight__identity_ref(found);
    pthread_mutex_unlock(&session->mutex);
    flight__identity_unref(old);
  }
  if (status) {
    flight__identity_unref(found);
    return status;
  }
  out->found = found;
  out->groups = found ? found->identity.groups : NULL;
  out->group_count = found ? found->identity.group_count : 0;
  return TRN_OK;
}

/* A session whose token is the credential; *out NULL: there is none. */
static trn_status by_token(flight_rpc *rpc, const char *token, size_t size, flight_session **out, trn_error **error) {
  flight_session *session = size == FLIGHT_TOKEN_SIZE - 1 ? find(rpc->service, token, size) : NULL;
  *out = NULL;
  if (!session) return TRN_OK;
  if (session->key) { /* a cookie's: it names the session, but says nothing of who calls */
    flight__session_leave(session);
    return TRN_OK;
  }
  caller who = {.user = session->user};
  const char *identity = trn_call_identity(rpc->call);
  bool is_over = session->expires_ms && session->expires_ms <= trn__wall_ms();
  trn_status status = TRN_OK;
  if (is_over || (identity && strcmp(identity, session->user) != 0)) {
    status = trn_error_set(error, TRN_UNAUTHENTICATED, NULL,
                           is_over ? "The session's identity has expired" : "The session is somebody else's");
  } else if (identity) {
    who.group_count = trn_call_groups(rpc->call, &who.groups);
  } else {
    status = find_again(session, &who, error);
  }
  if (status) {
    flight__session_leave(session);
    return status;
  }
  give_caller(rpc, &who);
  *out = session;
  return TRN_OK;
}

/* The session that a cookie names, when it is this caller's. */
static flight_session *by_cookie(flight_rpc *rpc, const caller *who) {
  size_t size, name_size = sizeof cookie_name - 1;
  const char *cookies = header(rpc, "cookie", &size);
  const char *end = cookies ? cookies + size : NULL;
  for (const char *at = cookies; at && at < end;) {
    while (at < end && (*at == ' ' || *at == ';')) at++;
    const char *stop = memchr(at, ';', (size_t)(end - at));
    size_t length = (size_t)((stop ? stop : end) - at);
    if (length == name_size + FLIGHT_TOKEN_SIZE && !memcmp(at, cookie_name, name_size) && at[name_size] == '=') {
      flight_session *session = find(rpc->service, at + name_size + 1, FLIGHT_TOKEN_SIZE - 1);
      if (session && strcmp(session->user, who->user) == 0 && session->is_authenticated == who->is_authenticated)
        return session;
      if (session) flight__session_leave(session);
    }
    at += length;
  }
  return NULL;
}

static trn_status by_connection(flight_rpc *rpc, const caller *who, flight_session **out, trn_error **error) {
  flight_session *made = NULL;
  char *key = trn__arena_printf(rpc->arena, "%s\n%d%s", trn_call_peer(rpc->call), who->is_authenticated, who->user);
  if (!key) return trn__no_memory(error);
  *out = find(rpc->service, key, strlen(key));
  if (*out) return TRN_OK;
  trn_status status = session_create(rpc->service, key, who, &made, error);
  if (!status) status = insert(rpc->service, made, out, error);
  if (!status && *out == made) {
    char *cookie = trn__arena_printf(rpc->arena, "%s=%s; Path=/; HttpOnly", cookie_name, made->token);
    const trn_metadata entry = {"set-cookie", cookie, cookie ? strlen(cookie) : 0};
    if (cookie) trn_call_set_initial_metadata(rpc->call, &entry, 1);
  }
  flight__session_unref(made);
  return status;
}

trn_status flight__session_enter(flight_rpc *rpc, trn_error **error) {
  if (rpc->session) return TRN_OK;
  const char *authorization = header(rpc, "authorization", NULL);
  const char *bearer = scheme_value(authorization, "Bearer");
  size_t size = bearer ? strlen(bearer) : 0;
  if (!bearer) bearer = header(rpc, "auth-token-bin", &size);
  trn_status status = bearer ? by_token(rpc, bearer, size, &rpc->session, error) : TRN_OK;
  if (status || rpc->session) return status;
  caller who;
  status = identify(rpc, authorization, &who, error);
  if (!status) rpc->session = by_cookie(rpc, &who);
  if (!status && !rpc->session) status = by_connection(rpc, &who, &rpc->session, error);
  if (!status) give_caller(rpc, &who);
  flight__identity_unref(who.found);
  return status;
}

/* ---- handshake ---- */

/* The Basic header that a BasicAuth payload stands for. */
static trn_status payload_authorization(flight_rpc *rpc, const void *payload, size_t size, const char **out,
                                        trn_error **error) {
  Arrow__Flight__Protocol__BasicAuth *basic;
  trn_status status =
      flight__decode(rpc->arena, &arrow__flight__protocol__basic_auth__descriptor, payload, size, &basic, error);
  if (status) return status;
  char *pair = trn__arena_printf(rpc->arena, "%s:%s", basic->username, basic->password);
  size_t length = pair ? strlen(pair) : 0;
  char *text = pair ? trn__arena_alloc(rpc->arena, 6 + (length + 2) / 3 * 4 + 1) : NULL;
  if (!text) return trn__no_memory(error);
  memcpy(text, "Basic ", 6);
  trn__base64_encode(pair, length, TRN_BASE64_PLAIN, text + 6);
  for (size_t i = trn__base64_size(length); i % 4; i++) text[6 + i] = '=';
  *out = text;
  return TRN_OK;
}

/* The host said who it is, and the token is to outlive the call: what the same credentials mean to the authenticator can be
 * looked up again, else what the host said stays as long as the token. */
static trn_status keep_identity(flight_rpc *rpc, const char *authorization, caller *who, trn_error **error) {
  caller again = {.user = ""};
  bool is_same = rpc->service->authenticator && authorization &&
                 check_credentials(rpc, authorization, &again, NULL) == TRN_OK && strcmp(again.user, who->user) == 0;
  if (is_same) {
    *who = again;
    return TRN_OK;
  }
  flight__identity_unref(again.found);
  who->found = identity_of_host(who->user, who->groups, who->group_count);
  return who->found ? TRN_OK : trn__no_memory(error);
}

trn_status flight__session_handshake(flight_rpc *rpc, const void *payload, size_t size, trn_error **error) {
  const char *authorization = header(rpc, "authorization", NULL);
  flight_session *session = NULL;
  caller who = {.user = ""};
  trn_status status = size ? payload_authorization(rpc, payload, size, &authorization, error) : TRN_OK;
  if (!status) status = identify(rpc, authorization, &who, error);
  if (!status && who.is_authenticated && !who.found) status = keep_identity(rpc, authorization, &who, error);
  if (!status) status = session_create(rpc->service, NULL, &who, &session, error);
  if (!status) status = insert(rpc->service, session, &rpc->session, error);
  if (!status) {
    char *bearer = trn__arena_printf(rpc->arena, "Bearer %s", session->token);
    const trn_metadata entry = {"authorization", bearer, bearer ? strlen(bearer) : 0};
    if (bearer) trn_call_set_initial_metadata(rpc->call, &entry, 1);
    Arrow__Flight__Protocol__HandshakeResponse response = ARROW__FLIGHT__PROTOCOL__HANDSHAKE_RESPONSE__INIT;
    if (size) response.payload = (ProtobufCBinaryData){strlen(session->token), (uint8_t *)session->token};
    status = bearer ? flight__rpc_reply(rpc, &response.base, error) : trn__no_memory(error);
  }
  flight__session_unref(session);
  flight__identity_unref(who.found);
  return status;
}

/* ---- what providers keep ---- */

trn_status flight__session_state(flight_rpc *rpc, const flight_provider_entry *provider,
                                 trn_status (*make)(void *self, flight_rpc *rpc, void **state, trn_error **error),
                                 void **out, trn_error **error) {
  flight_session *session = rpc->session;
  pthread_mutex_lock(&session->mutex);
  *out = session->states[provider->index];
  pthread_mutex_unlock(&session->mutex);
  if (*out) return TRN_OK;
  void *made = NULL;
  trn_status status = make(provider->self, rpc, &made, error);
  if (status) return status;
  pthread_mutex_lock(&session->mutex);
  bool first = !session->states[provider->index];
  if (first) session->states[provider->index] = made;
  *out = session->states[provider->index];
  pthread_mutex_unlock(&session->mutex);
  if (!first) provider->ops.session_close(provider->self, made);
  return TRN_OK;
}
