/* The bundled tables of traits. */
#include "plan/sql_print.h"

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* ---- PostgreSQL ---- */

static const trn_sql_type postgresql_types[] = {
    {TRN_TYPE_BOOL, "boolean"},        {TRN_TYPE_INT16, "smallint"},
    {TRN_TYPE_INT32, "integer"},       {TRN_TYPE_INT64, "bigint"},
    {TRN_TYPE_FLOAT32, "real"},        {TRN_TYPE_FLOAT64, "double precision"},
    {TRN_TYPE_STRING, "text"},         {TRN_TYPE_DECIMAL, "numeric($p, $s)"},
    {TRN_TYPE_DATE, "date"},           {TRN_TYPE_TIMESTAMP, "timestamp with time zone"},
    {TRN_TYPE_TIMESTAMP_NTZ, "timestamp"}};

static const trn_sql_function postgresql_functions[] = {{"trn.octet_length", 1, "octet_length($1)"}};

static const trn_sql_dialect postgresql = {
    .struct_size = sizeof(trn_sql_dialect),
    .title = "PostgreSQL",
    .types = postgresql_types,
    .type_count = COUNT(postgresql_types),
    .functions = postgresql_functions,
    .function_count = COUNT(postgresql_functions),
    .text_column = "($1 COLLATE \"C\")",
    .divide_double = "($1 / $2)",
    /* One digit more than wanted, cut off exactly; a tenth of it is exact, and is rounded. */
    .divide_decimal = "round(div($1 * $u, $2) * 0.1, 0) * $d",
    .divide_whole = "($1 / $2)",
    .remainder = "($1 % $2)",
    .series = "generate_series(CAST($1 AS bigint), CAST($2 AS bigint), CAST($3 AS bigint))",
};

/* ---- DuckDB: divisions by zero give null or infinity, so that zero is looked for ---- */

static const trn_sql_type duckdb_types[] = {
    {TRN_TYPE_BOOL, "BOOLEAN"},    {TRN_TYPE_INT8, "TINYINT"},
    {TRN_TYPE_INT16, "SMALLINT"},  {TRN_TYPE_INT32, "INTEGER"},
    {TRN_TYPE_INT64, "BIGINT"},    {TRN_TYPE_FLOAT32, "FLOAT"},
    {TRN_TYPE_FLOAT64, "DOUBLE"},  {TRN_TYPE_STRING, "VARCHAR"},
    {TRN_TYPE_DATE, "DATE"},       {TRN_TYPE_DECIMAL, "DECIMAL($p, $s)"},
    {TRN_TYPE_TIMESTAMP, "TIMESTAMP WITH TIME ZONE"}, {TRN_TYPE_TIMESTAMP_NTZ, "TIMESTAMP"}};

static const trn_sql_function duckdb_functions[] = {{"trn.octet_length", 1, "CAST(strlen($1) AS $t)"}};

static const trn_sql_dialect duckdb = {
    .struct_size = sizeof(trn_sql_dialect),
    .title = "DuckDB",
    .types = duckdb_types,
    .type_count = COUNT(duckdb_types),
    .functions = duckdb_functions,
    .function_count = COUNT(duckdb_functions),
    .divide_double = "(CASE WHEN $2 = 0 AND $1 IS NOT NULL THEN error('division by zero') ELSE $1 / $2 END)",
    /* Its "/" is one of doubles: the whole numbers behind the decimals are divided, to one digit more than wanted. */
    .divide_decimal = "round(CAST((CASE WHEN $2 = 0 AND $1 IS NOT NULL THEN error('division by zero') ELSE "
                      "CAST($1 * $m AS HUGEINT) * $u // CAST($2 * $m AS HUGEINT) END) AS DECIMAL(38, 0)) * 0.1, 0) * $d",
    .divide_whole = "(CASE WHEN $2 = 0 AND $1 IS NOT NULL THEN error('division by zero') ELSE $1 // $2 END)",
    .remainder = "(CASE WHEN $2 = 0 AND $1 IS NOT NULL THEN error('division by zero') ELSE $1 % $2 END)",
    .series = "generate_series($1, $2, $3)",
};

const trn_sql_dialect *trn_sql_dialect_find(const char *name) {
  if (strcmp(name, "postgresql") == 0) return &postgresql;
  return strcmp(name, "duckdb") == 0 ? &duckdb : NULL;
}
