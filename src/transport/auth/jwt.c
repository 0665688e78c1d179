/* JSON web tokens (RFC 7519, 7515, 8725): compact form, one signature, an algorithm that was asked for. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>

#include "auth.h"

typedef struct jwt_parts {
  const char *header, *payload, *signature;
  size_t header_size, payload_size, signature_size;
} jwt_parts;

static bool split(const char *token, size_t size, jwt_parts *out) {
  const char *first = memchr(token, '.', size);
  if (!first) return false;
  size_t rest = size - (size_t)(first + 1 - token);
  const char *second = memchr(first + 1, '.', rest);
  if (!second) return false;
  *out = (jwt_parts){.header = token,
                     .header_size = (size_t)(first - token),
                     .payload = first + 1,
                     .payload_size = (size_t)(second - first - 1),
                     .signature = second + 1,
                     .signature_size = size - (size_t)(second + 1 - token)};
  return !memchr(out->signature, '.', out->signature_size);
}

/* Nesting is bounded before cJSON recurses, and no text has a zero, behind which cJSON's user would see nothing. */
static bool is_plain(const char *json, size_t size) {
  int depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < size; i++) {
    char c = json[i];
    if (in_text) {
      if (c == '\\' && size - i >= 6 && memcmp(json + i, "\\u0000", 6) == 0) return false;
      if (c == '\\') i++;
      if (c == '"') in_text = false;
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      if (++depth > TRN_AUTH_JWT_NESTING_MAX) return false;
    } else if (c == ']' || c == '}') {
      depth--;
    }
  }
  return true;
}

/* A JSON object with each name once: two readers must not see two different values. */
static cJSON *parse_object(const char *text, size_t size) {
  uint8_t *json = malloc(size + 1);
  cJSON *object = NULL;
  size_t json_size = 0;
  if (json && trn__auth_base64_decode(text, size, true, json, &json_size) && !memchr(json, 0, json_size) &&
      is_plain((char *)json, json_size)) {
    json[json_size] = 0;
    const char *end = NULL;
    object = cJSON_ParseWithOpts((char *)json, &end, true);
  }
  free(json);
  bool ok = cJSON_IsObject(object);
  for (const cJSON *a = ok ? object->child : NULL; a && ok; a = a->next)
    for (const cJSON *b = a->next; b && ok; b = b->next) ok = strcmp(a->string, b->string) != 0;
  if (ok) return object;
  cJSON_Delete(object);
  return NULL;
}

static const cJSON *member(const cJSON *object, const char *name) {
  return cJSON_GetObjectItemCaseSensitive(object, name);
}

/* ---- the signature ---- */

static const auth_algorithm *allowed(const auth_jwt_rules *rules, const cJSON *header) {
  const char *name = cJSON_GetStringValue(member(header, "alg"));
  for (size_t i = 0; name && i < rules->algorithm_count; i++)
    if (strcmp(rules->algorithms[i]->name, name) == 0) return rules->algorithms[i];
  return NULL;
}

static bool verify(const jwt_parts *parts, const auth_keys *keys, const auth_algorithm *algorithm, const char *id,
                   const char **why, bool *unknown_key) {
  uint8_t signature[TRN_AUTH_RSA_BITS_MAX / 8 + 8];
  size_t size = 0, tries = 0, signed_size = (size_t)(parts->payload + parts->payload_size - parts->header);
  *why = "The token's signature is wrong";
  if (parts->signature_size > sizeof signature ||
      !trn__auth_base64_decode(parts->signature, parts->signature_size, true, signature, &size) || !size)
    return false;
  bool known = false;
  for (size_t i = 0; i < keys->count && tries < TRN_AUTH_KEY_TRIES_MAX; i++) {
    const auth_key *key = &keys->keys[i];
    if (id && (!key->id || strcmp(key->id, id) != 0)) continue;
    known = true;
    if (key->type != algorithm->type) continue;
    tries++;
    if (trn__auth_key_verify(key, algorithm, parts->header, signed_size, signature, size)) return true;
  }
  *unknown_key = !known;
  if (!known) *why = "The token is signed with a key that is not known here";
  return false;
}

/* ---- claims ---- */

/* Seconds since the epoch, a number. False: it is there and is not one. */
static bool read_time(const cJSON *claims, const char *name, bool *has, int64_t *out) {
  const cJSON *item = member(claims, name);
  *has = item != NULL;
  if (!item) return true;
  if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble) || item->valuedouble < 0 || item->valuedouble > 1e12)
    return false;
  *out = (int64_t)item->valuedouble;
  return true;
}

static const char *check_times(const cJSON *claims, const auth_jwt_rules *rules, int64_t now, int64_t *expires_ms) {
  bool has_expiry, has_start, has_issue;
  int64_t expiry = 0, start = 0, issue = 0;
  if (!read_time(claims, "exp", &has_expiry, &expiry) || !read_time(claims, "nbf", &has_start, &start) ||
      !read_time(claims, "iat", &has_issue, &issue))
    return "The token has a time that is no number";
  if (!has_expiry && rules->requires_expiry) return "The token has no expiry";
  if (has_expiry && now - rules->leeway_s >= expiry) return "The token has expired";
  if (has_start && start > now + rules->leeway_s) return "The token is not valid yet";
  if (has_issue && issue > now + rules->leeway_s) return "The token was issued in the future";
  *expires_ms = has_expiry ? (expiry + rules->leeway_s) * 1000 : 0;
  return NULL;
}

static bool is_audience(const auth_jwt_rules *rules, const cJSON *item) {
  const char *text = cJSON_GetStringValue(item);
  for (size_t i = 0; text && i < rules->audience_count; i++)
    if (strcmp(rules->audiences[i], text) == 0) return true;
  return false;
}

static const char *check_parties(const cJSON *claims, const auth_jwt_rules *rules) {
  const char *issuer = cJSON_GetStringValue(member(claims, "iss"));
  const cJSON *audience = member(claims, "aud");
  if (rules->issuer && (!issuer || strcmp(issuer, rules->issuer) != 0)) return "The token has another issuer";
  if (!audience) return rules->audience_count ? "The token has no audience" : NULL;
  if (cJSON_IsString(audience)) return is_audience(rules, audience) ? NULL : "The token is for another audience";
  for (const cJSON *item = audience->child; item && cJSON_IsArray(audience); item = item->next)
    if (is_audience(rules, item)) return NULL;
  return "The token is for another audience";
}

/* A list of texts, or one text with spaces (as OAuth's scope). False: no memory. */
static bool copy_groups(const cJSON *item, auth_claims *out) {
  const cJSON *each;
  char *copy = NULL, *save = NULL;
  size_t room = 0;
  if (cJSON_IsArray(item)) room = (size_t)cJSON_GetArraySize(item);
  if (cJSON_IsString(item)) room = strlen(item->valuestring) / 2 + 1;
  if (!room) return true;
  if (room > TRN_AUTH_GROUPS_MAX) room = TRN_AUTH_GROUPS_MAX;
  if (!(out->groups = calloc(room, sizeof *out->groups))) return false;
  if (cJSON_IsString(item)) {
    if (!(copy = strdup(item->valuestring))) return false;
    for (char *word = strtok_r(copy, " ", &save); word && out->group_count < room; word = strtok_r(NULL, " ", &save))
      if (!(out->groups[out->group_count++] = strdup(word))) break;
    free(copy);
  } else {
    cJSON_ArrayForEach(each, item) {
      if (!cJSON_IsString(each) || out->group_count >= room) continue;
      if (!(out->groups[out->group_count++] = strdup(each->valuestring))) break;
    }
  }
  return !out->group_count || out->groups[out->group_count - 1];
}

void trn__auth_claims_finish(auth_claims *claims) {
  for (size_t i = 0; i < claims->group_count; i++) free(claims->groups[i]);
  free(claims->groups);
  free(claims->user);
  *claims = (auth_claims){0};
}

static const char *read_claims(const cJSON *claims, const auth_jwt_rules *rules, int64_t now, auth_claims *out) {
  const char *why = check_times(claims, rules, now, &out->expires_ms);
  if (!why) why = check_parties(claims, rules);
  if (why) return why;
  const char *user = cJSON_GetStringValue(member(claims, rules->user_claim));
  if (!user || !*user) return "The token does not say whose it is";
  if (!(out->user = strdup(user)) || !copy_groups(member(claims, rules->groups_claim), out)) return "No memory";
  return NULL;
}

bool trn__auth_jwt_verify(const char *token, size_t size, const auth_keys *keys, const auth_jwt_rules *rules,
                          int64_t now_s, auth_claims *out, const char **why, bool *unknown_key) {
  jwt_parts parts;
  *out = (auth_claims){0};
  *unknown_key = false;
  *why = "The token is no JSON web token";
  if (size > TRN_AUTH_JWT_BYTES_MAX || !split(token, size, &parts) || parts.header_size > TRN_AUTH_JWT_HEADER_BYTES_MAX)
    return false;
  cJSON *header = parse_object(parts.header, parts.header_size), *claims = NULL;
  const auth_algorithm *algorithm = header ? allowed(rules, header) : NULL;
  bool ok = false;
  if (header && !algorithm) {
    *why = "The token is signed with an algorithm that is not allowed here";
  } else if (header && (member(header, "crit") || (member(header, "kid") && !cJSON_IsString(member(header, "kid"))))) {
    *why = "The token's header has what is not understood here";
  } else if (header && verify(&parts, keys, algorithm, cJSON_GetStringValue(member(header, "kid")), why, unknown_key)) {
    /* Nothing of the payload is read before the signature is right. */
    claims = parse_object(parts.payload, parts.payload_size);
    *why = claims ? read_claims(claims, rules, now_s, out) : "The token's claims are no JSON object";
    ok = !*why;
  }
  cJSON_Delete(header);
  cJSON_Delete(claims);
  if (!ok) trn__auth_claims_finish(out);
  return ok;
}
