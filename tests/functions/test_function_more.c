/* JSON, character sets, URLs, timestamps from parts: results as real Spark gives them. */
#include "harness.h"

static void json(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.get_json_object", "u|1.5", {"u|{\"a\":1.50}", "u|$.a"}},
      {"trn.get_json_object", "u|{\"c\":[1,2]}", {"u|{\"b\":{\"c\": [1, 2]}}", "u|$.b"}},
      {"trn.get_json_object", "u|[\"b\",\"c\"]", {"u|[{\"a\":\"b\"},{\"a\":\"c\"}]", "u|$[*].a"}},
      {"trn.get_json_object", "u|1", {"u|{\"b\":[{\"c\":1}]}", "u|$.b[*].c"}},
      {"trn.get_json_object", "~", {"u|{\"d\":null}", "u|$.d"}},
      {"trn.get_json_object", "~", {"u|{\"a\":1", "u|$.a"}},
      {"trn.json_array_length", "i|5", {"u|[1,2,3,{\"f1\":1,\"f2\":[5,6]},4]"}},
      {"trn.json_array_length", "~", {"u|[1,2"}},
  };
  for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) h_run(&ROWS[i]);
}

static void texts(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.url_encode", "u|a+b%2Bc%2F%C3%A9%7E*-_.", {"u|a b+c/\xc3\xa9~*-_."}},
      {"trn.url_decode", "u|a b/c", {"u|a+b%2Fc", "=l|-1"}},
      {"trn.url_decode", "!CANNOT_DECODE_URL", {"u|%zz", "=l|-1"}},
      {"trn.parse_url", "u|u:p", {"u|http://u:p@h.com:80/p/a?q=1&b=2#r", "u|USERINFO", "=l|-1"}},
      {"trn.parse_url", "u|2", {"u|http://u:p@h.com:80/p/a?q=1&b=2#r", "u|QUERY", "u|b", "=l|-1"}},
      {"trn.parse_url", "!INVALID_URL", {"u|inva lid://x", "u|HOST", "=l|-1"}},
      {"trn.find_in_set", "i|3", {"u|ab", "u|abc,b,ab,c,def"}},
      {"trn.find_in_set", "i|0", {"u|a,b", "u|a,b"}},
      {"trn.quote", "u|'Don\\'t'", {"u|Don't"}},
      {"trn.dayname", "u|Wed", {"D|2008-02-20"}},
      {"trn.monthname", "u|Feb", {"D|2008-02-20"}},
  };
  for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) h_run(&ROWS[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(json), cmocka_unit_test(texts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
