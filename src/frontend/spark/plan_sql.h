/* What other frontends take from Spark's: its dialect (one text in, one resolved plan out), and the texts of error
 * conditions, which the catalogs and kernels use too. Internal. */
#ifndef TRN_FRONTEND_SPARK_PLAN_SQL_H
#define TRN_FRONTEND_SPARK_PLAN_SQL_H
#include "core/core.h"
#include <trunnion/backend.h>

struct spark_catalog;
struct spark_catalog *spark__catalog_create(void);
void spark__catalog_destroy(struct spark_catalog *catalog);
/* Plans one query in Spark's SQL, with the session's settings and the temporary views of `catalog`. Blocks (files are looked
 * at). thread: worker with a big stack. INVALID_ARGUMENT: what Spark's parser and analyzer say. */
trn_status spark__plan_sql(trn_session *session, struct spark_catalog *catalog, const char *text, trn_plan **out,
                           trn_error **error);
/* Lasting views of Spark's dialect are readable in a session that was just opened, also from other dialects. `catalog` outlives it. */
void spark__plan_views(trn_session *session, struct spark_catalog *catalog);
/* Appends "[CONDITION] message SQLSTATE: ..." as a person reads it. */
void spark__error_text(trn_strbuf *out, const trn_error *error);

#endif
