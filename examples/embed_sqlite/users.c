/* The program's own table of users: who may come (users: name, salt, iterations, hash), and what each may read (grants:
 * name, table_name). It is a database of its own, which no query reaches. */
#include "embed.h"
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>

enum { HASH_BYTES = 32, CREDENTIAL_BYTES_MAX = 1024 };

struct embed_users {
  pthread_mutex_t mu; /* of the connection */
  sqlite3 *db;
};

trn_status embed_users_open(const char *path, embed_users **out, trn_error **error) {
  embed_users *users = calloc(1, sizeof *users);
  if (!users) return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "out of memory");
  pthread_mutex_init(&users->mu, NULL);
  trn_status status = embed_open(path, &users->db, error);
  if (status)
    embed_users_close(users);
  else
    *out = users;
  return status;
}

void embed_users_close(embed_users *users) {
  if (!users) return;
  sqlite3_close(users->db);
  pthread_mutex_destroy(&users->mu);
  free(users);
}

/* "Basic <base64 of name:password>" to both; false: not so. */
static bool read_basic(const char *header, char *out, const char **password) {
  size_t size = header ? strlen(header) : 0;
  if (size < 7 || size > CREDENTIAL_BYTES_MAX || strncmp(header, "Basic ", 6) != 0) return false;
  int count = EVP_DecodeBlock((unsigned char *)out, (const unsigned char *)header + 6, (int)size - 6);
  if (count < 0) return false;
  out[count] = 0; /* the padding became zeros, which end the text too */
  char *colon = strchr(out, ':');
  if (!colon) return false;
  *colon = 0;
  *password = colon + 1;
  return true;
}

static bool is_password(embed_users *users, const char *name, const char *password) {
  static const char sql[] = "SELECT salt, iterations, hash FROM users WHERE name = ?";
  unsigned char hash[HASH_BYTES], known[HASH_BYTES] = {0}, salt[64] = {0};
  int salt_size = 0, iterations = 1;
  sqlite3_stmt *row = NULL;
  pthread_mutex_lock(&users->mu);
  bool is_known = sqlite3_prepare_v2(users->db, sql, -1, &row, NULL) == SQLITE_OK &&
                  sqlite3_bind_text(row, 1, name, -1, SQLITE_STATIC) == SQLITE_OK && sqlite3_step(row) == SQLITE_ROW &&
                  sqlite3_column_bytes(row, 0) <= (int)sizeof salt && sqlite3_column_bytes(row, 2) == HASH_BYTES;
  if (is_known) {
    salt_size = sqlite3_column_bytes(row, 0);
    if (salt_size) memcpy(salt, sqlite3_column_blob(row, 0), (size_t)salt_size);
    iterations = sqlite3_column_int(row, 1);
    memcpy(known, sqlite3_column_blob(row, 2), HASH_BYTES);
  }
  sqlite3_finalize(row);
  pthread_mutex_unlock(&users->mu);
  bool is_hashed = PKCS5_PBKDF2_HMAC(password, -1, salt, salt_size, iterations, EVP_sha256(), HASH_BYTES, hash) == 1;
  return is_known && is_hashed && CRYPTO_memcmp(hash, known, HASH_BYTES) == 0;
}

static void release_identity(trn_identity *identity) {
  free(identity->owner);
}

static trn_status authenticate(void *self, const trn_credentials *credentials, trn_identity *out, trn_error **error) {
  char text[CREDENTIAL_BYTES_MAX + 4];
  const char *password;
  if (!read_basic(credentials->authorization, text, &password) || !is_password(self, text, password))
    return trn_error_set(error, TRN_UNAUTHENTICATED, NULL, "a user's name and password are needed");
  char *name = strdup(text);
  OPENSSL_cleanse(text, sizeof text);
  if (!name) return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "out of memory");
  *out = (trn_identity){.struct_size = sizeof *out, .user = name, .release = release_identity, .owner = name};
  return TRN_OK;
}

static void destroy(void *self) {
  (void)self; /* main owns it */
}

trn_status embed_authenticator(embed_users *users, trn_authenticator **out) {
  static const trn_authenticator_ops ops = {
      .struct_size = sizeof ops, .authenticate = authenticate, .destroy = destroy};
  return trn_authenticator_create(&ops, users, out);
}

/* ---- authorization: asked by the layer for each thing that a query touches ---- */

static bool is_granted(embed_users *users, const char *user, const char *name) {
  static const char sql[] = "SELECT 1 FROM grants WHERE name = ?1 AND (table_name = '*' OR table_name = ?2)";
  const char *table = strrchr(name, '.');
  sqlite3_stmt *row = NULL;
  pthread_mutex_lock(&users->mu);
  bool is_found = sqlite3_prepare_v2(users->db, sql, -1, &row, NULL) == SQLITE_OK &&
                  sqlite3_bind_text(row, 1, user, -1, SQLITE_STATIC) == SQLITE_OK &&
                  sqlite3_bind_text(row, 2, table ? table + 1 : name, -1, SQLITE_STATIC) == SQLITE_OK &&
                  sqlite3_step(row) == SQLITE_ROW;
  sqlite3_finalize(row);
  pthread_mutex_unlock(&users->mu);
  return is_found;
}

trn_status embed_decide(void *user, const trn_access *access, trn_error **error) {
  bool is_read = access->action == TRN_ACTION_READ || access->action == TRN_ACTION_USE;
  bool is_allowed = is_read;
  if (access->kind == TRN_ACCESS_TABLE) is_allowed = is_read && is_granted(user, access->user, access->name);
  if (access->kind == TRN_ACCESS_PATH || access->kind == TRN_ACCESS_UNKNOWN) is_allowed = false;
  if (is_allowed) return TRN_OK;
  return trn_error_set(error, TRN_PERMISSION_DENIED, "INSUFFICIENT_PERMISSIONS", "%s may not use %s", access->user,
                       access->name);
}
