/* Strings, hashes, mathematics, conditionals, arrays: examples of Spark's function reference (tests/data/spark/
 * functions.jsonl) and edges. */
#include "functions/harness.h"

static void pieces_count_characters_from_one(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.substring", "u|k SQL", {"u|Spark SQL", "i|5", "i|2147483647"}},
      {"trn.substring", "u|SQL", {"u|Spark SQL", "i|-3"}},
      {"trn.substring", "u|k", {"u|Spark SQL", "i|5", "i|1"}},
      {"trn.substring", "u|a", {"u|abc", "i|-5", "i|3"}},
      {"trn.substring", "u|", {"u|abc", "i|2", "i|-1"}},
      {"trn.substring", "u|ab", {"u|abc", "i|0", "i|2"}},
      {"trn.substring", "u|\xc3\xa4\xf0\x9f\x98\x80", {"u|x\xc3\xa4\xf0\x9f\x98\x80y", "i|2", "i|2"}},
      {"trn.substring", "z|6b2053514c", {"z|Spark SQL", "i|5", "i|2147483647"}},
      {"trn.substring_index", "u|www.apache", {"u|www.apache.org", "u|.", "i|2"}},
      {"trn.substring_index", "u|apache.org", {"u|www.apache.org", "u|.", "i|-2"}},
      {"trn.substring_index", "u|", {"u|www.apache.org", "u|.", "i|0"}},
      {"trn.left", "u|Spa", {"u|Spark SQL", "i|3"}},
      {"trn.right", "u|SQL", {"u|Spark SQL", "i|3"}},
      {"trn.right", "u|", {"u|Spark SQL", "i|-1"}},
      {"trn.left", "z|537061", {"z|Spark SQL", "i|3"}},
      {"trn.split_part", "u|13", {"u|11.12.13", "u|.", "i|3", H_POS}},
      {"trn.split_part", "u|13", {"u|11.12.13", "u|.", "i|-1", H_POS}},
      {"trn.split_part", "u|", {"u|11.12.13", "u|.", "i|5", H_POS}},
      {"trn.split_part", "!INVALID_INDEX_OF_ZERO", {"u|11.12.13", "u|.", "i|0", H_POS}},
      {"trn.concat", "u|SparkSQL", {"u|Spark", "u|SQL"}},
      {"trn.concat", "u|~", {"u|Spark", "u|~"}},
      {"trn.concat_ws", "u|foo/bar", {"u|/", "u|foo", "u|~", "u|bar"}},
      {"trn.concat_ws", "u|a b c", {"u| ", "u|a", "Lu|b,~,c"}},
      {"trn.concat_ws", "u|", {"u|s"}},
      {"trn.repeat", "u|123123", {"u|123", "i|2"}},
      {"trn.repeat", "u|", {"u|123", "i|-2"}},
      {"trn.space", "u|  ", {"i|2"}},
      {"trn.lpad", "u|???hi", {"u|hi", "i|5", "u|??"}},
      {"trn.lpad", "u|h", {"u|hi", "i|1", "u|??"}},
      {"trn.rpad", "u|hi   ", {"u|hi", "i|5"}},
      {"trn.rpad", "u|hi", {"u|hi", "i|5", "u|"}},
      {"trn.rpad", "z|6869616261", {"z|hi", "i|5", "z|ab"}},
      {"trn.char_pad", "u|ab   ", {"u|ab", "=i|5"}},
      {"trn.char_pad", "u|abcde", {"u|abcde  ", "=i|5"}},
      {"trn.char_pad", "!EXCEED_LIMIT_LENGTH|limit=5", {"u|abcdef", "=i|5"}},
      {"trn.overlay", "u|Spark ANSI SQL", {"u|Spark SQL", "u|ANSI ", "i|7", "i|0"}},
      {"trn.overlay", "u|Structured SQL", {"u|Spark SQL", "u|tructured", "i|2", "i|4"}},
      {"trn.overlay", "u|Spark_SQL", {"u|Spark SQL", "u|_", "i|6"}},
      {"trn.reverse", "u|LQS krapS", {"u|Spark SQL"}},
      {"trn.reverse", "u|y\xc3\xa4x", {"u|x\xc3\xa4y"}},
  };
  H_RUN_ALL(ROWS);
}

static void searching_and_changing(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.trim", "u|SparkSQL", {"u|    SparkSQL   "}},
      {"trn.ltrim", "u|parkSQLS", {"u|SSparkSQLS", "u|SL"}},
      {"trn.rtrim", "u|SSparkSQ", {"u|SSparkSQLS", "u|SL"}},
      {"trn.trim",
       "u|b",
       {"u|\xc3\xa4"
        "b\xc3\xa4",
        "u|\xc3\xa4"}},
      {"trn.replace", "u|ABCDEF", {"u|ABCabc", "u|abc", "u|DEF"}},
      {"trn.replace", "u|abc", {"u|abc", "u|", "u|x"}},
      {"trn.translate", "u|A1B2C3", {"u|AaBbCc", "u|abc", "u|123"}},
      {"trn.translate", "u|ABC", {"u|AaBbCc", "u|abc", "u|"}},
      {"trn.length", "i|10", {"u|Spark SQL "}},
      {"trn.length", "i|1", {"u|\xf0\x9f\x98\x80"}},
      {"trn.length", "i|4", {"z|\xf0\x9f\x98\x80"}},
      {"trn.octet_length", "i|9", {"u|Spark SQL"}},
      {"trn.bit_length", "i|72", {"u|Spark SQL"}},
      {"trn.ascii", "i|50", {"u|222"}},
      {"trn.ascii", "i|0", {"u|"}},
      {"trn.chr", "u|A", {"l|65"}},
      {"trn.chr", "u|A", {"l|321"}},
      {"trn.instr", "i|6", {"u|SparkSQL", "u|SQL"}},
      {"trn.instr", "i|0", {"u|SparkSQL", "u|sql"}},
      {"trn.locate", "i|7", {"u|bar", "u|foobarbar", "i|5"}},
      {"trn.locate", "i|0", {"u|bar", "u|foobarbar", "i|0"}},
      {"trn.startswith", "b|true", {"u|Spark SQL", "u|Spark"}},
      {"trn.endswith", "b|false", {"z|Spark SQL", "z|Spark"}},
      {"trn.contains", "b|false", {"u|Spark SQL", "u|SPARK"}},
      {"trn.upper", "u|SPARKSQL", {"u|SparkSql"}},
      {"trn.upper",
       "u|STRASSE \xc3\x84",
       {"u|stra\xc3\x9f"
        "e \xc3\xa4"}},
      {"trn.lower", "u|\xc3\xa4 \xcf\x83\xcf\x82", {"u|\xc3\x84 \xce\xa3\xce\xa3"}},
      {"trn.initcap", "u|Spark Sql", {"u|sPark sql"}},
      {"trn.like", "b|true", {"u|Spark", "u|_park", "=u|\\", H_POS}},
      {"trn.like", "b|true", {"u|%SystemDrive%/Users/John", "u|/%SystemDrive/%//Users%", "=u|/", H_POS}},
      {"trn.like", "b|false", {"u|Spark", "u|_Park", "=u|\\", H_POS}},
      {"trn.like", "b|true", {"u|aaaaaaaaaaaaaaaaaaab", "u|%a%a%a%a%b", "=u|\\", H_POS}},
      {"trn.like", "!INVALID_FORMAT.ESC_AT_THE_END|format='a\\'", {"u|a", "u|a\\", "=u|\\", H_POS}},
      {"trn.like", "!INVALID_FORMAT.ESC_IN_THE_MIDDLE|char='b'", {"u|a", "u|a\\b", "=u|\\", H_POS}},
      {"trn.ilike", "b|true", {"u|Spark", "u|_Park", "=u|\\", H_POS}},
      {"trn.ilike", "b|true", {"u|\xc3\x84pfel", "u|\xc3\xa4PF__", "=u|\\", H_POS}},
      {"trn.hex", "u|11", {"l|17"}},
      {"trn.reverse", "z|fecafe", {"z|\xfe\xca\xfe"}},
      {"trn.hex", "u|FFFFFFFFFFFFFFFF", {"l|-1"}},
      {"trn.hex", "u|537061726B2053514C", {"u|Spark SQL"}},
      {"trn.unhex", "z|537061726b2053514c", {"u|537061726B2053514C"}},
      {"trn.unhex", "z|0abc", {"u|abc"}},
      {"trn.unhex", "z|~", {"u|xyz"}},
      {"trn.base64", "u|U3BhcmsgU1FM", {"u|Spark SQL"}},
      {"trn.base64", "u|U3A=", {"u|Sp"}},
      {"trn.unbase64", "z|5370", {"u|U3A="}},
      {"trn.soundex", "u|M460", {"u|Miller"}},
      {"trn.levenshtein", "i|3", {"u|kitten", "u|sitting"}},
      {"trn.levenshtein", "i|-1", {"u|kitten", "u|sitting", "i|2"}},
      {"trn.levenshtein", "i|2", {"u|", "u|\xc3\xa4\xc3\xa4"}},
      {"trn.format_number", "u|12,332.1235", {"d:11,6|12332.123456", "i|4"}},
      {"trn.format_number", "u|12,332.1235", {"g|12332.123456", "i|4"}},
      {"trn.format_number", "u|-1,234,567", {"l|-1234567", "i|0"}},
      {"trn.format_number", "u|~", {"l|1", "i|-1"}},
  };
  H_RUN_ALL(ROWS);
}

static void hashes_are_sparks(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.hash", "i|-1321691492", {"u|Spark", "Li|123", "i|2"}},
      {"trn.xxhash64", "l|5602566077635097486", {"u|Spark", "Li|123", "i|2"}},
      {"trn.hash", "i|42", {"i|~"}},
      {"trn.crc32", "l|1557323817", {"u|Spark"}},
      {"trn.md5", "u|8cde774d6f7333752ed72cacddb05126", {"u|Spark"}},
      {"trn.sha1", "u|85f5955f4b27a9a4c2aab6ffe5d7189fc298b92c", {"u|Spark"}},
      {"trn.sha2", "u|529bc3b07127ecb7e53a4dcf1991d9152c24537d919178022b2c42657f79a26b", {"u|Spark", "i|256"}},
      {"trn.sha2", "u|~", {"u|Spark", "i|1"}},
      /* FIPS 180-4's own examples */
      {"trn.sha2", "u|23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7", {"u|abc", "i|224"}},
      {"trn.sha2",
       "u|cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
       {"u|abc", "i|384"}},
      {"trn.sha2",
       "u|"
       "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80"
       "e2a9ac94fa54ca49f",
       {"u|abc", "i|512"}},
      {"trn.sha1",
       "u|84983e441c3bd26ebaae4aa1f95129e5e54670f1",
       {"u|abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"}},
      {"trn.md5", "u|d41d8cd98f00b204e9800998ecf8427e", {"z|"}},
  };
  H_RUN_ALL(ROWS);
}

static void mathematics(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.sqrt", "g|2", {"g|4"}},
      {"trn.sqrt", "g|nan", {"g|-1"}},
      {"trn.cbrt", "g|3", {"g|27"}},
      {"trn.log_base", "g|2", {"g|10", "g|100"}},
      {"trn.log", "g|~", {"g|0"}},
      {"trn.log1p", "g|0", {"g|0"}},
      {"trn.log1p", "g|~", {"g|-1"}},
      {"trn.log2", "g|1", {"g|2"}},
      {"trn.log10", "g|1", {"g|10"}},
      {"trn.pow", "g|8", {"g|2", "g|3"}},
      {"trn.pow", "g|nan", {"g|1", "g|nan"}},
      {"trn.cot", "g|0.6420926159343306", {"g|1"}},
      {"trn.csc", "g|1.1883951057781212", {"g|1"}},
      {"trn.degrees", "g|180", {"g|3.141592653589793"}},
      {"trn.radians", "g|3.141592653589793", {"g|180"}},
      {"trn.acosh", "g|nan", {"g|0"}},
      {"trn.atanh", "g|nan", {"g|2"}},
      {"trn.signum", "g|1", {"g|40"}},
      {"trn.hypot", "g|5", {"g|3", "g|4"}},
      {"trn.rint", "g|12", {"g|12.3456"}},
      {"trn.factorial", "l|120", {"i|5"}},
      {"trn.factorial", "l|~", {"i|21"}},
      {"trn.width_bucket", "l|3", {"g|5.3", "g|0.2", "g|10.6", "l|5"}},
      {"trn.width_bucket", "l|0", {"g|-2.1", "g|1.3", "g|3.4", "l|3"}},
      {"trn.width_bucket", "l|5", {"g|8.1", "g|0.0", "g|5.7", "l|4"}},
      {"trn.width_bucket", "l|3", {"g|-0.9", "g|5.2", "g|0.5", "l|2"}},
      {"trn.width_bucket", "l|~", {"g|1", "g|2", "g|2", "l|2"}},
      {"trn.conv", "u|4", {"u|100", "i|2", "i|10", H_POS}},
      {"trn.conv", "u|-16", {"u|-10", "i|16", "i|-10", H_POS}},
      {"trn.conv", "u|~", {"u|10", "i|1", "i|10", H_POS}},
      {"trn.conv", "!ARITHMETIC_OVERFLOW", {"u|FFFFFFFFFFFFFFFFF", "i|16", "i|10", H_POS}},
      {"trn.conv_wrap", "u|18446744073709551615", {"u|FFFFFFFFFFFFFFFFF", "i|16", "i|10"}},
      {"trn.bin", "u|1101", {"l|13"}},
      {"trn.bin", "u|1111111111111111111111111111111111111111111111111111111111110011", {"l|-13"}},
      {"trn.shiftleft", "i|4", {"i|2", "i|1"}},
      {"trn.shiftright", "l|-1", {"l|-2", "i|1"}},
      {"trn.shiftrightunsigned", "i|2147483647", {"i|-2", "i|1"}},
      {"trn.shiftleft", "i|2", {"i|1", "i|33"}},
      {"trn.bit_count", "i|64", {"l|-1"}},
      {"trn.getbit", "c|1", {"i|11", "i|0", H_POS}},
      {"trn.getbit", "c|0", {"i|11", "i|2", H_POS}},
      {"trn.getbit", "!INVALID_PARAMETER_VALUE.BIT_POSITION_RANGE", {"i|11", "i|32", H_POS}},
      {"trn.bit_not", "s|-1", {"s|0"}},
  };
  H_RUN_ALL(ROWS);
}

static void conditionals_and_arrays(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.greatest", "i|10", {"i|10", "i|9", "i|2"}},
      {"trn.least", "i|2", {"i|10", "i|~", "i|2"}},
      {"trn.greatest", "i|~", {"i|~", "i|~"}},
      {"trn.greatest", "g|nan", {"g|1", "g|nan"}},
      {"trn.least", "g|1", {"g|nan", "g|1"}},
      {"trn.greatest", "u|b", {"u|a", "u|b", "u|~"}},
      {"trn.least", "d:3,1|-1.5", {"d:3,1|-1.5", "d:3,1|2.0"}},
      {"trn.greatest", "D|2020-02-03", {"D|2020-02-03", "D|1999-12-31"}},
      {"trn.greatest", "b|true", {"b|false", "b|true"}},
      {"trn.greatest", "c|3", {"c|-1", "c|3"}},
      {"trn.nanvl", "g|123", {"g|nan", "g|123"}},
      {"trn.nanvl", "g|1", {"g|1", "g|~"}},
      {"trn.isnan", "b|true", {"g|nan"}},
      {"trn.isnan", "b|false", {"f|~"}},
      {"trn.equal_null_safe", "b|true", {"Li|1,~", "Li|1,~"}},
      {"trn.equal_null_safe", "b|false", {"u|a", "u|~"}},
      {"trn.equal", "b|true", {"g|nan", "g|nan"}},
      {"trn.equal", "b|true", {"g|0", "g|-0.0"}},
      {"trn.less", "b|true", {"g|inf", "g|nan"}},
      {"trn.less", "b|true", {"Li|1,2", "Li|1,3"}},
      {"trn.greater", "b|true", {"u|ab", "u|a"}},
      {"trn.array_get", "i|3", {"Li|1,~,3", "i|2", H_POS}},
      {"trn.array_get", "i|~", {"Li|1,~,3", "i|1", H_POS}},
      {"trn.array_get",
       "!INVALID_ARRAY_INDEX|indexValue=5;arraySize=3;ansiConfig=\"spark.sql.ansi.enabled\";",
       {"Li|1,~,3", "i|5", H_POS}},
      {"trn.array_get_try", "i|~", {"Li|1,~,3", "i|-1"}},
      {"trn.element_at", "u|b", {"Lu|a,b", "i|-1", H_POS}},
      {"trn.element_at", "!INVALID_INDEX_OF_ZERO", {"Lu|a,b", "i|0", H_POS}},
      {"trn.element_at", "!INVALID_ARRAY_INDEX_IN_ELEMENT_AT|indexValue=3;arraySize=2", {"Lu|a,b", "i|3", H_POS}},
      {"trn.element_at_try", "u|~", {"Lu|a,b", "i|3"}},
      {"trn.size", "i|3", {"Li|1,~,3"}},
      {"trn.size_legacy", "i|-1", {"Li|~"}},
      {"trn.array_contains", "b|true", {"Li|1,2,3", "i|2"}},
      {"trn.array_contains", "b|~", {"Li|1,~,3", "i|2"}},
      {"trn.array_position", "l|3", {"Li|312,773,708,708", "i|708"}},
      {"trn.array_position", "l|0", {"Li|312,773", "i|414"}},
      {"trn.raise_error", "!USER_RAISED_EXCEPTION|errorMessage=custom;", {"u|custom", H_POS}},
  };
  H_RUN_ALL(ROWS);
}

static void regular_expressions_are_javas(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.rlike", "b|true", {"u|%SystemDrive%\\Users", "u|%SystemDrive%\\\\Users.*", H_POS}},
      {"trn.rlike", "b|false", {"u|abc", "u|^b", H_POS}},
      {"trn.rlike", "b|true", {"u|foo\nbar", "u|(?m)^bar$", H_POS}},
      {"trn.rlike", "b|false", {"u|foo\nbar", "u|foo.bar", H_POS}},
      {"trn.rlike", "b|true", {"u|foo\nbar", "u|(?s)foo.bar", H_POS}},
      {"trn.rlike", "b|true", {"u|ABC", "u|(?i)a[b]c", H_POS}},
      {"trn.rlike", "b|false", {"u|aaa", "u|a*+a", H_POS}},
      {"trn.rlike", "b|true", {"u|abcabc", "u|(abc)\\1", H_POS}},
      {"trn.rlike", "b|true", {"u|a.c", "u|\\Qa.c\\E", H_POS}},
      {"trn.rlike", "b|true", {"u|\xc3\xa4", "u|^.$", H_POS}},
      {"trn.rlike", "b|true", {"u|x1y", "u|^[^\\W\\s]\\d\\p{Lower}$", H_POS}},
      {"trn.rlike",
       "!INVALID_PARAMETER_VALUE.PATTERN|functionName=`rlike`;parameter=`regexp`;value='a**';",
       {"u|a", "u|a**", H_POS}},
      {"trn.rlike", "!INVALID_PARAMETER_VALUE.PATTERN", {"u|a", "u|(a", H_POS}},
      {"trn.rlike", "!|", {"u|aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "u|(a+)+b", H_POS}}, /* would run for ever */
      {"trn.regexp_extract", "u|100", {"u|100-200", "u|(\\d+)-(\\d+)", "i|1", H_POS}},
      {"trn.regexp_extract", "u|", {"u|foo", "u|(\\d+)", "i|1", H_POS}},
      {"trn.regexp_extract",
       "!INVALID_PARAMETER_VALUE.REGEX_GROUP_INDEX|groupCount=1;groupIndex=2",
       {"u|1", "u|(\\d+)", "i|2", H_POS}},
      {"trn.regexp_extract_all", "[100,300]", {"u|100-200, 300-400", "u|(\\d+)-(\\d+)", "i|1", H_POS}},
      {"trn.regexp_replace", "u|num-num", {"u|100-200", "u|(\\d+)", "u|num", H_POS}},
      {"trn.regexp_replace", "u|bar foo", {"u|foo bar", "u|(?<a>\\w+) (\\w+)", "u|$2 ${a}", H_POS}},
      {"trn.regexp_replace", "u|1a-2b", {"u|1a-2a", "u|a", "u|b", "i|3", H_POS}},
      {"trn.regexp_substr", "u|Steven", {"u|Steven Jones and Stephen Smith", "u|Ste(v|ph)en", H_POS}},
      {"trn.regexp_substr", "u|~", {"u|abc", "u|x", H_POS}},
      {"trn.regexp_instr",
       "i|3",
       {"u|a\xc3\xa4"
        "b",
        "u|b", H_POS}},
      {"trn.regexp_count", "i|2", {"u|Steven Jones and Stephen Smith", "u|Ste(v|ph)en", H_POS}},
      {"trn.split", "[one,two,three,]", {"u|oneAtwoBthreeC", "u|[ABC]", "i|-1", H_POS}},
      {"trn.split", "[one,twoBthreeC]", {"u|oneAtwoBthreeC", "u|[ABC]", "i|2", H_POS}},
      {"trn.split", "[a,b,c]", {"u|abc", "u|", H_POS}},
  };
  H_RUN_ALL(ROWS);
}

static void making_arrays_and_maps(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.array_concat", "[1,2,3,~]", {"Li|1,2", "Li|3,~"}},
      {"trn.array_concat", "+l|~", {"Li|1,2", "Li|~"}},
      {"trn.array_concat", "[a,b]", {"Lu|a", "Lu|b"}},
      {"trn.map_from_arrays",
       "!DUPLICATED_MAP_KEY|mapKeyDedupPolicy=\"spark.sql.mapKeyDedupPolicy\";key=1;",
       {"Li|1,1", "Lu|a,b", H_POS}},
      {"trn.map_from_arrays", "!NULL_MAP_KEY", {"Li|1,~", "Lu|a,b", H_POS}},
      {"trn.interval_days", "i|-2", {"I|-259199999999"}},
      {"trn.interval_count", "l|14", {"Y|14"}},
      {"trn.time_add_dt", "t|3601000000000", {"t|3600000000000", "I|1000000", H_POS}},
      {"trn.time_add_dt",
       "!DATETIME_OVERFLOW|operation=add INTERVAL '1 00:00:00' DAY TO SECOND to the time value TIME '01:00:00'",
       {"t|3600000000000", "I|86400000000", H_POS}},
      {"trn.time_diff", "I|-1000000", {"t|3600000000000", "t|3601000000000"}},
      {"trn.log", "g|2", {"g|10", "g|100"}},
  };
  H_RUN_ALL(ROWS);
}

static void lists_are_rearranged(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.array_distinct", "[1,2,~]", {"Li|1,2,~,1,~"}},
      {"trn.array_distinct", "[0,nan]", {"Lg|0,nan,-0.0,nan"}},
      {"trn.array_union", "[1,2,3,~]", {"Li|1,2,2", "Li|3,~,1"}},
      {"trn.array_intersect", "[1,~]", {"Li|1,2,1,~", "Li|~,1"}},
      {"trn.array_except", "[2]", {"Li|1,2,2,~", "Li|~,1"}},
      {"trn.array_remove", "[1,~]", {"Li|1,2,~,2", "i|2"}},
      {"trn.array_remove", "+l|~", {"Li|1", "i|~"}},
      {"trn.array_compact", "[1,3]", {"Li|1,~,3"}},
      {"trn.array_append", "[a,b]", {"Lu|a", "u|b"}},
      {"trn.array_append", "[a,~]", {"Lu|a", "u|~"}},
      {"trn.array_append", "+l|~", {"Lu|~", "u|a"}},
      {"trn.array_prepend", "[b,a]", {"Lu|a", "u|b"}},
      {"trn.array_repeat", "[7,7]", {"i|7", "i|2"}},
      {"trn.array_repeat", "[~]", {"i|~", "i|1"}},
      {"trn.array_repeat", "[]", {"i|7", "i|-1"}},
      {"trn.slice", "[2,3]", {"Li|1,2,3,4", "i|2", "i|2", H_POS}},
      {"trn.slice", "[3,4]", {"Li|1,2,3,4", "i|-2", "i|9", H_POS}},
      {"trn.slice", "[]", {"Li|1,2", "i|-3", "i|1", H_POS}},
      {"trn.slice", "!INVALID_PARAMETER_VALUE.START", {"Li|1,2", "i|0", "i|1", H_POS}},
      {"trn.slice", "!INVALID_PARAMETER_VALUE.LENGTH|length=-1", {"Li|1,2", "i|1", "i|-1", H_POS}},
      {"trn.array_reverse", "[3,~,1]", {"Li|1,~,3"}},
      {"trn.reverse", "[3,~,1]", {"Li|1,~,3"}},
      {"trn.sort_array", "[~,1,2,3]", {"Li|3,1,~,2", "=b|true"}},
      {"trn.sort_array", "[c,b,a,~]", {"Lu|b,c,~,a", "=b|false"}},
      {"trn.array_max", "i|20", {"Li|1,20,~,3"}},
      {"trn.array_max", "g|nan", {"Lg|1,nan,3"}},
      {"trn.array_min", "u|a", {"Lu|b,a,~"}},
      {"trn.array_min", "i|~", {"Li|~,~"}},
      {"trn.array_join", "u|hello world", {"Lu|hello,~,world", "u| "}},
      {"trn.array_join", "u|a,-,b", {"Lu|a,~,b", "u|,", "u|-"}},
      {"trn.arrays_overlap", "b|true", {"Li|1,2,3", "Li|3,4"}},
      {"trn.arrays_overlap", "b|~", {"Li|1,~", "Li|3,4"}},
      {"trn.arrays_overlap", "b|false", {"Li|1,2", "Li|3,4"}},
  };
  H_RUN_ALL(ROWS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pieces_count_characters_from_one),
      cmocka_unit_test(searching_and_changing),
      cmocka_unit_test(hashes_are_sparks),
      cmocka_unit_test(mathematics),
      cmocka_unit_test(conditionals_and_arrays),
      cmocka_unit_test(regular_expressions_are_javas),
      cmocka_unit_test(making_arrays_and_maps),
      cmocka_unit_test(lists_are_rearranged),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
