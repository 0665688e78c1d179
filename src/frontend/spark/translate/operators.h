/* Between the files of operators: functions_operator.c, functions_interval.c, functions_condition.c. */
#ifndef TRN_FRONTEND_SPARK_OPERATORS_H
#define TRN_FRONTEND_SPARK_OPERATORS_H
#include "frontend/spark/translate/values.h"

/* + - * / where one side is a date, a timestamp, a time or an interval. *done is false when it is none of these. */
trn_status spark__datetime_arithmetic(spark_builder *b, char op, bool *done, const trn_expr **out);
/* + - of two intervals of one kind. */
trn_status spark__interval_arithmetic(spark_builder *b, char op, const trn_expr **out);
/* Months, or microseconds, as bigint. NULL: out of memory. */
const trn_expr *spark__interval_count(spark_translator *t, const trn_expr *interval, trn_position position);
trn_status spark__operands_differ(spark_builder *b);
/* Casts args[0] and args[1] to what they compare as, or the error. */
trn_status spark__coerce_comparison(spark_builder *b);
/* Comparison of two expressions of one type; `op` is native. NULL: out of memory. */
trn_expr *spark__compare(spark_translator *t, const char *op, const trn_expr *left, const trn_expr *right);

#endif
