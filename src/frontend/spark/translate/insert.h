/* Rows for a table: which column gets what, cast as Spark's store assignment allows. */
#ifndef TRN_FRONTEND_SPARK_TRANSLATE_INSERT_H
#define TRN_FRONTEND_SPARK_TRANSLATE_INSERT_H
#include "frontend/spark/translate/translate.h"

/* What is written to. Texts are borrowed. */
typedef struct spark_insert {
  const char *table;          /* `c`.`d`.`t`, for messages */
  const trn_field *fields;    /* the table's columns, partition columns last */
  uint32_t field_count;
  const char *const *defaults; /* SQL text of each column's default; NULL: none */
  char *const *columns;        /* INSERT INTO t (a, b); NULL: all */
  size_t column_count;
  bool by_name;      /* BY NAME; saveAsTable: also without defaults for what is missing */
  bool is_save;      /* saveAsTable: errors of its own */
  char *const *static_names; /* PARTITION (p = 1): by names */
  Spark__Connect__Expression *const *static_values; /* NULL: the rows have it */
  size_t static_count;
} spark_insert;

/* Replaces the values of a query by one per column of the table. */
trn_status spark__assign_columns(spark_translator *t, const spark_insert *insert, struct spark_value **values, size_t *count,
                                 trn_error **error);
/* The place of a column among a table's; UINT32_MAX: none. */
uint32_t spark__insert_column(const spark_translator *t, const spark_insert *insert, const char *name);
/* Whether a column's value is not in the rows, but said by PARTITION. */
bool spark__is_static(const spark_translator *t, const spark_insert *insert, const char *name);

#endif
