/* The bundled authenticator's parts: base64, hashes, files, tokens of the RFCs, and hostile forms of all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport/auth/auth.h"

static char path[] = P_tmpdir "/trunnion-auth-XXXXXX";

static void write_file(const char *text) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void base64_has_one_spelling(void **state) {
  (void)state;
  uint8_t out[64], data[32];
  size_t size;
  char text[64];
  for (size_t n = 0; n < sizeof data; n++) {
    for (size_t i = 0; i < n; i++) data[i] = (uint8_t)(i * 37 + n);
    for (int url = 0; url < 2; url++) {
      trn__auth_base64_encode(data, n, url, text);
      assert_true(trn__auth_base64_decode(text, strlen(text), url, out, &size));
      assert_int_equal(size, n);
      assert_memory_equal(out, data, n);
    }
  }
  static const char *const bad[] = {"A", "AB", "AAB", "A+==", "AA=", "====", "A A", "AAA\n", "A-B_AAAAA"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_false(trn__auth_base64_decode(bad[i], strlen(bad[i]), false, out, &size));
  assert_true(trn__auth_base64_decode_padded("QQ==", 4, out, &size));
  assert_int_equal(size, 1);
  assert_false(trn__auth_base64_decode_padded("=", 1, out, &size));
}

static void passwords_are_salted_and_costs_are_bounded(void **state) {
  (void)state;
  char *first = NULL, *second = NULL, *token = NULL, *hash = NULL;
  uint8_t digest[32];
  assert_int_equal(trn_auth_hash_password("secret", &first), TRN_OK);
  assert_int_equal(trn_auth_hash_password("secret", &second), TRN_OK);
  assert_string_not_equal(first, second);
  assert_true(trn__auth_verify_password(first, "secret", 6));
  assert_true(trn__auth_verify_password(second, "secret", 6));
  assert_false(trn__auth_verify_password(first, "Secret", 6));
  assert_false(trn__auth_verify_password(first, "secret", 5));
  static const char *const bad[] = {"",
                                    "secret",
                                    "$scrypt$",
                                    "$scrypt$ln=31,r=8,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
                                    "$scrypt$ln=14,r=99,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
                                    "$scrypt$ln=14,r=8,p=1$c2FsdA$AAAAAAAAAAAAAAAAAAAAAA",
                                    "$scrypt$ln=14,r=8,p=1$c2FsdHNhbHQ$AAAA",
                                    "$pbkdf2-sha256$99999999$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_false(trn__auth_hash_is_known(bad[i]));
    assert_false(trn__auth_verify_password(bad[i], "x", 1));
  }
  assert_int_equal(trn_auth_new_token(&token), TRN_OK);
  assert_int_equal(trn_auth_hash_token(token, &hash), TRN_OK);
  assert_true(trn__auth_token_digest(hash, digest));
  hash[10] = 'G';
  assert_false(trn__auth_token_digest(hash, digest));
  free(first);
  free(second);
  free(token);
  free(hash);
}

/* RFC 7515, A.2 (RS256) and A.3 (ES256); RFC 8037, A.4 (EdDSA; its payload is no JSON). */
static const char *const KEYS = "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_"
                                "wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0"
                                "Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-"
                                "bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTB"
                                "EMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_"
                                "h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRW"
                                "yuXpoQ\",\"e\":\"AQAB\"},{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":"
                                "\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\",\"y\":\"x_FEzRu"
                                "9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}";
static const char *const RS256 =
    "eyJhbGciOiJSUzI1NiJ9."
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9"
    "Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_"
    "O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB"
    "--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-"
    "eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh"
    "6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
static const char *const ES256 =
    "eyJhbGciOiJFUzI1NiJ9."
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbE"
    "g8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
enum { RFC_TIME = 1300819000 };

static auth_jwt_rules rules_of_rfc(void) {
  static const auth_algorithm *algorithms[3];
  algorithms[0] = trn__auth_algorithm("RS256");
  algorithms[1] = trn__auth_algorithm("ES256");
  algorithms[2] = trn__auth_algorithm("HS256");
  return (auth_jwt_rules){.issuer = "joe",
                          .algorithms = algorithms,
                          .algorithm_count = 3,
                          .user_claim = "iss",
                          .groups_claim = "groups",
                          .requires_expiry = true};
}

static void read_keys(auth_keys *keys) {
  write_file(KEYS);
  assert_int_equal(trn__auth_keys_read(path, keys, NULL), TRN_OK);
  assert_int_equal(keys->count, 2);
}

static bool verify(const char *token, size_t size, const auth_keys *keys, int64_t now, const char **why) {
  const auth_jwt_rules rules = rules_of_rfc();
  auth_claims claims;
  bool unknown = false, ok = trn__auth_jwt_verify(token, size, keys, &rules, now, &claims, why, &unknown);
  if (ok) assert_string_equal(claims.user, "joe");
  trn__auth_claims_finish(&claims);
  return ok;
}

static void tokens_of_the_rfcs_are_accepted_until_they_expire(void **state) {
  (void)state;
  auth_keys keys;
  const char *why = NULL;
  read_keys(&keys);
  assert_true(verify(RS256, strlen(RS256), &keys, RFC_TIME, &why));
  assert_true(verify(ES256, strlen(ES256), &keys, RFC_TIME, &why));
  assert_false(verify(ES256, strlen(ES256), &keys, 1300819380, &why));
  assert_string_equal(why, "The token has expired");
  trn__auth_keys_finish(&keys);
}

static uint32_t random_state = 1;
static uint32_t next_random(void) {
  random_state = random_state * 1664525u + 1013904223u;
  return random_state >> 8;
}

static void no_change_of_a_token_is_accepted(void **state) {
  (void)state;
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ \"{}";
  auth_keys keys;
  const char *why = NULL;
  read_keys(&keys);
  for (size_t round = 0; round < 4000; round++) {
    const char *from = round % 2 ? RS256 : ES256;
    size_t size = strlen(from), keep = size;
    char *copy = malloc(size + 1); /* exactly as long: the sanitizer sees what is read behind it */
    memcpy(copy, from, size + 1);
    size_t changes = 1 + next_random() % 3;
    for (size_t i = 0; i < changes; i++) copy[next_random() % size] = letters[next_random() % (sizeof letters - 1)];
    if (round % 5 == 0) keep = next_random() % size;
    if (keep == size && memcmp(copy, from, size) == 0) {
      free(copy);
      continue;
    }
    char *exact = malloc(keep ? keep : 1);
    memcpy(exact, copy, keep);
    assert_false(verify(exact, keep, &keys, RFC_TIME, &why));
    assert_non_null(why);
    free(exact);
    free(copy);
  }
  trn__auth_keys_finish(&keys);
}

static void any_bytes_are_files_or_errors(void **state) {
  (void)state;
  static const char *const seeds[] = {"ann:sha256$aa:red,blue\n",
                                      "bob:$scrypt$ln=4,r=8,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA:x\n"};
  for (size_t round = 0; round < 600; round++) {
    char text[800];
    const char *seed = round % 3 == 2 ? KEYS : seeds[round % 3];
    snprintf(text, sizeof text, "%s", seed);
    size_t size = strlen(text);
    for (size_t i = 0; i < 4; i++) text[next_random() % size] = (char)(1 + next_random() % 255);
    write_file(text);
    auth_users users = {0};
    auth_keys keys = {0};
    trn_error *error = NULL;
    if (round % 3 == 2) {
      if (trn__auth_keys_read(path, &keys, &error) == TRN_OK) trn__auth_keys_finish(&keys);
    } else if (trn__auth_users_read(path, round % 3 == 0, &users, &error) == TRN_OK) {
      trn__auth_users_finish(&users);
    }
    trn_error_unref(error);
  }
}

static void a_user_who_is_there_twice_is_a_mistake(void **state) {
  (void)state;
  auth_users users = {0};
  trn_error *error = NULL;
  write_file("ann::a\r\n\n# no\nbob::b,c\nann::d\n");
  assert_int_equal(trn__auth_users_read(path, false, &users, &error), TRN_INVALID_ARGUMENT);
  assert_non_null(strstr(trn_error_message(error), "'ann' is there twice"));
  trn_error_unref(error);
  write_file("ann::a\r\n\n# no\nbob::b,c\n");
  assert_int_equal(trn__auth_users_read(path, false, &users, NULL), TRN_OK);
  const auth_user *bob = trn__auth_user_find(&users, "bob");
  assert_non_null(bob);
  assert_int_equal(bob->group_count, 2);
  assert_string_equal(bob->groups[1], "c");
  assert_string_equal(trn__auth_user_find(&users, "ann")->groups[0], "a");
  assert_null(trn__auth_user_find(&users, "cid"));
  trn__auth_users_finish(&users);
}

static int make_file(void **state) {
  (void)state;
  int fd = mkstemp(path);
  if (fd >= 0) close(fd);
  return fd < 0;
}

static int remove_file(void **state) {
  (void)state;
  return unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(base64_has_one_spelling),
      cmocka_unit_test(passwords_are_salted_and_costs_are_bounded),
      cmocka_unit_test(tokens_of_the_rfcs_are_accepted_until_they_expire),
      cmocka_unit_test(no_change_of_a_token_is_accepted),
      cmocka_unit_test(any_bytes_are_files_or_errors),
      cmocka_unit_test(a_user_who_is_there_twice_is_a_mistake),
  };
  return cmocka_run_group_tests(tests, make_file, remove_file);
}
