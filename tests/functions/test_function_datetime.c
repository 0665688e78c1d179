/* Dates, timestamps, patterns and zones, by Spark's recorded examples and the edges of calendars. */
#include "functions/harness.h"
#define LA "=u|America/Los_Angeles"
#define UTC "=u|UTC"

static void parts_of_dates(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.extract_date", "i|2019", {"D|2019-08-12", "=u|YEAR"}},
      {"trn.extract_date", "i|33", {"D|2019-08-12", "=u|WEEK"}},
      {"trn.extract_date", "i|224", {"D|2019-08-12", "=u|DOY"}},
      {"trn.extract_date", "i|3", {"D|2016-08-31", "=u|QUARTER"}},
      {"trn.extract_date", "i|5", {"D|2009-07-30", "=u|DAYOFWEEK"}},
      {"trn.extract_date", "i|3", {"D|2009-07-30", "=u|WEEKDAY"}},
      {"trn.extract_date", "i|4", {"D|2009-07-30", "=u|DAYOFWEEK_ISO"}},
      {"trn.extract_date", "i|8", {"D|2008-02-20", "=u|WEEK"}},
      {"trn.extract_date", "i|2004", {"D|2005-01-01", "=u|YEAROFWEEK"}},
      {"trn.extract_date", "i|53", {"D|2005-01-01", "=u|WEEK"}},
      {"trn.extract_date", "i|12", {"D|1969-12-31", "=u|MONTH"}},
      {"trn.extract_date", "i|29", {"D|2000-02-29", "=u|day"}},
      {"trn.extract_timestamp", "i|17", {"T|2019-08-12 00:00:00.123456", "=u|HOUR", LA}},
      {"trn.extract_timestamp", "i|11", {"T|2019-08-12 00:00:00.123456", "=u|DAY", LA}},
      {"trn.extract_timestamp", "i|30", {"T|2019-08-12 01:00:00", "=u|MINUTE", "=u|+05:30"}},
      {"trn.second", "i|59", {"T|2018-02-14 12:58:59", UTC}},
      {"trn.extract_second", "d:8,6|1.000001", {"T|2019-10-01 00:00:01.000001", UTC}},
      {"trn.extract_second", "d:8,6|59.999999", {"T|1969-12-31 23:59:59.999999", UTC}},
      {"trn.extract_time", "i|23", {"t|86399999000000", "=u|HOUR"}},
  };
  H_RUN_ALL(ROWS);
}

static void arithmetic_of_dates(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.date_add", "D|2016-07-31", {"D|2016-07-30", "i|1"}},
      {"trn.date_sub", "D|2016-07-29", {"D|2016-07-30", "i|1"}},
      {"trn.date_diff", "i|-1", {"D|2009-07-30", "D|2009-07-31"}},
      {"trn.add_months", "D|2016-09-30", {"D|2016-08-31", "i|1"}},
      {"trn.add_months", "D|2015-02-28", {"D|2016-02-29", "i|-12"}},
      {"trn.date_add_ym", "D|2022-01-01", {"D|2021-01-01", "Y|12"}},
      {"trn.date_diff_dt", "I|86400000000", {"D|2009-07-31", "D|2009-07-30"}},
      {"trn.timestamp_add_ym", "T|2020-03-08 10:30:00", {"T|2020-02-08 10:30:00", "Y|1", LA}},
      {"trn.timestamp_add_dt",
       "T|2020-03-08 19:00:00",
       {"T|2020-03-07 20:00:00", "I|86400000000", LA}}, /* a day of 23 hours */
      {"trn.timestamp_add_dt", "T|2020-03-08 20:00:00", {"T|2020-03-07 20:00:00", "I|86400000000"}},
      {"trn.timestamp_diff", "I|86400000000", {"T|2020-03-08 19:00:00", "T|2020-03-07 20:00:00", LA}},
      {"trn.months_between", "g|3.94959677", {"T|1997-02-28 10:30:00", "T|1996-10-30 00:00:00", "=b|true", UTC}},
      {"trn.months_between",
       "g|3.9495967741935485",
       {"T|1997-02-28 10:30:00", "T|1996-10-30 00:00:00", "=b|false", UTC}},
      {"trn.make_date", "D|2013-07-15", {"i|2013", "i|7", "i|15", H_POS}},
      {"trn.make_date",
       "!DATETIME_FIELD_OUT_OF_BOUNDS|Invalid value for MonthOfYear (valid values 1 - 12): 13",
       {"i|2019", "i|13", "i|1", H_POS}},
      {"trn.make_date", "!DATETIME_FIELD_OUT_OF_BOUNDS|Invalid date 'FEBRUARY 30'", {"i|2019", "i|2", "i|30", H_POS}},
      {"trn.make_date_try", "D|~", {"i|2019", "i|2", "i|29"}},
      {"trn.last_day", "D|2009-01-31", {"D|2009-01-12"}},
      {"trn.next_day", "D|2015-01-20", {"D|2015-01-14", "u|TU", H_POS}},
      {"trn.next_day", "D|2015-01-21", {"D|2015-01-14", "u|wednesday", H_POS}},
      {"trn.next_day", "!ILLEGAL_DAY_OF_WEEK|string=xx", {"D|2015-01-14", "u|xx", H_POS}},
      {"trn.next_day_try", "D|~", {"D|2015-01-14", "u|xx"}},
      {"trn.trunc", "D|2019-07-29", {"D|2019-08-04", "u|week"}},
      {"trn.trunc", "D|2019-07-01", {"D|2019-08-04", "u|quarter"}},
      {"trn.trunc", "D|2009-02-01", {"D|2009-02-12", "u|MM"}},
      {"trn.trunc", "D|~", {"D|2009-02-12", "u|day"}},
      {"trn.date_trunc", "T|2015-01-01 08:00:00", {"u|YEAR", "T|2015-03-05 09:32:05.359", LA}},
      {"trn.date_trunc", "T|2015-03-05 09:32:05.123000", {"u|MILLISECOND", "T|2015-03-05 09:32:05.123456", LA}},
      {"trn.date_trunc", "T|2015-03-05 09:30:00", {"u|HOUR", "T|2015-03-05 09:32:05", "=u|+05:30"}},
      {"trn.date_trunc", "T|~", {"u|nothing", "T|2015-03-05 09:32:05", UTC}},
      {"trn.timestamp_to_utc", "T|2016-08-30 15:00:00", {"T|2016-08-31 00:00:00", "u|Asia/Seoul"}},
      {"trn.timestamp_from_utc", "T|2016-08-31 09:00:00", {"T|2016-08-31 00:00:00", "u|Asia/Seoul"}},
      {"trn.timestamp_from_utc", "T|2016-08-30 19:00:00", {"T|2016-08-31 00:00:00", "u|GMT-5"}},
      {"trn.unix_timestamp", "l|-1", {"T|1969-12-31 23:59:59.5"}},
      {"trn.timestamp_millis", "T|1970-01-01 00:00:01.500000", {"l|1500"}},
      {"trn.timestamp_seconds", "!ARITHMETIC_OVERFLOW|message=long overflow", {"l|9223372036854775807"}},
      {"trn.unix_date", "i|1", {"D|1970-01-02"}},
  };
  H_RUN_ALL(ROWS);
}

/* Values at the ends of the types, which a fuzzer found: no arithmetic may leave them. */
static void ends_of_the_range(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.interval_count", "l|-9223372036854775808", {"I|-9223372036854775808"}},
      {"trn.cast",
       "u|INTERVAL '-106751991 04:00:54.775808' DAY TO SECOND",
       {"I|-9223372036854775808", "=u|~", UTC, H_POS}},
      {"trn.abs", "!ARITHMETIC_OVERFLOW", {"l|-9223372036854775808", H_POS}},
  };
  H_RUN_ALL(ROWS);
  const char *shift[] = {"s|1", "i|1"}, *scale[] = {"d:5,2|1.25", "i|1", H_POS};
  char format[64], shown[H_ROWS + 1][256];
  int64_t length;
  h_error e;
  assert_int_equal(h_call("trn.shiftleft", shift, 2, 1, true, false, format, shown, &length, &e), TRN_INVALID_ARGUMENT);
  assert_int_equal(h_call("trn.round", scale, 3, 4, false, false, format, shown, &length, &e), TRN_INVALID_ARGUMENT);
}

static void patterns_format_and_parse(void **state) {
  (void)state;
  static const h_row ROWS[] = {
      {"trn.date_format", "u|2016", {"T|2016-04-08 00:00:00", "=u|y", UTC}},
      {"trn.date_format",
       "u|16/4/8 1 AM Fri Friday Apr April 099 Q2",
       {"T|2016-04-08 01:02:03", "=u|yy/M/d h a E EEEE MMM MMMM DDD QQQ", UTC}},
      {"trn.date_format",
       "u|2016-04-07 18:02:03.12 -0700 -07:00 America/Los_Angeles o'clock",
       {"T|2016-04-08 01:02:03.123456", "=u|yyyy-MM-dd HH:mm:ss.SS Z XXX VV 'o''clock'", LA}},
      {"trn.date_format", "u|Z +00:00 GMT", {"T|2016-04-08 01:02:03", "=u|X xxx O", UTC}},
      {"trn.date_format",
       "!INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION|pattern='YYYY'",
       {"T|2016-04-08 01:02:03", "=u|YYYY", UTC}},
      {"trn.from_unixtime", "u|1969-12-31 16:00:00", {"l|0", "=u|yyyy-MM-dd HH:mm:ss", LA}},
      {"trn.to_timestamp", "T|2016-12-31 08:00:00", {"u|2016-12-31", "=u|yyyy-MM-dd", LA, H_POS}},
      {"trn.to_timestamp", "T|2016-12-31 10:11:12.500000", {"u|20161231101112.5", "=u|yyyyMMddHHmmss.S", UTC, H_POS}},
      {"trn.to_timestamp", "T|2016-12-31 21:05:00", {"u|dec 31, 2016 9:05 PM", "=u|MMM d, yyyy h:mm a", UTC, H_POS}},
      {"trn.to_timestamp",
       "T|2016-12-31 02:00:00",
       {"u|2016-12-31T10:00+08:00", "=u|yyyy-MM-dd'T'HH:mmXXX", UTC, H_POS}},
      {"trn.to_timestamp", "T|2016-12-31 00:00:00", {"u|2016-12-31", "=u|yyyy-MM-dd[ HH:mm]", UTC, H_POS}},
      {"trn.to_timestamp", "T|2016-12-31 10:20:00", {"u|2016-12-31 10:20", "=u|yyyy-MM-dd[ HH:mm]", UTC, H_POS}},
      {"trn.to_timestamp",
       "!CANNOT_PARSE_TIMESTAMP|message=Text 'abc' could not be parsed at index 0;func=`try_to_timestamp`;",
       {"u|abc", "=u|yyyy-MM-dd", UTC, H_POS}},
      {"trn.to_timestamp_try", "T|~", {"u|2016-13-31", "=u|yyyy-MM-dd", UTC}},
      {"trn.to_date", "D|2016-12-31", {"u|2016-12-31", "=u|yyyy-MM-dd", H_POS}},
      {"trn.to_date", "D|2016-04-08", {"u|2016-099", "=u|yyyy-DDD", H_POS}},
      {"trn.to_date_try", "D|~", {"u|2016-02-30", "=u|yyyy-MM-dd"}},
      {"trn.to_unix_timestamp", "l|1460098800", {"u|2016-04-08", "=u|yyyy-MM-dd", LA, H_POS}},
  };
  H_RUN_ALL(ROWS);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(parts_of_dates), cmocka_unit_test(arithmetic_of_dates),
                                     cmocka_unit_test(patterns_format_and_parse), cmocka_unit_test(ends_of_the_range)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
