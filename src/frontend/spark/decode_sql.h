/* Spark's SQL as plan input: what one statement means, without running it. Internal. */
#ifndef TRN_FRONTEND_SPARK_DECODE_SQL_H
#define TRN_FRONTEND_SPARK_DECODE_SQL_H
#include "core/core.h"
#include <trunnion/catalog.h>

struct spark_catalog;

/* Gives `*out` (its release): the plan of a query, or a command; each was checked by the session's policies. Borrows. What
 * only a session of Spark Connect can run (variables, caches, SHOW, scripts) is UNIMPLEMENTED.
 * Blocks (files are looked at). thread: worker with a big stack. INVALID_ARGUMENT: what Spark's parser and analyzer say. */
trn_status spark__decode_sql(trn_session *session, struct spark_catalog *catalog, const char *text, trn_statement *out,
                             trn_error **error);
/* The table's name as the text has it, when that is of one part: the command's has all three. Borrowed from the statement; NULL:
 * it has several parts, or the statement names no table, or is none that spark__decode_sql gave. */
const char *spark__decoded_short_name(const trn_statement *statement);
#endif
