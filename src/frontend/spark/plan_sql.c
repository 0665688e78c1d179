/* Spark's dialect for other frontends. */
#include "frontend/spark/plan_sql.h"

#include "core/query.h"
#include "frontend/spark/translate/translate.h"

/* From within `depth` views of other dialects. */
static trn_status plan_inside(trn_session *session, struct spark_catalog *catalog, unsigned depth, const char *text,
                              trn_plan **out, trn_error **error) {
  spark_translator translator;
  Spark__Connect__Relation relation = SPARK__CONNECT__RELATION__INIT;
  Spark__Connect__SQL sql = SPARK__CONNECT__SQL__INIT;
  sql.query = (char *)text;
  relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_SQL;
  relation.sql = &sql;
  *out = NULL;
  trn_status status = spark__translator_init(&translator, session, catalog, error);
  translator.outer_views = depth;
  return status ? status : spark__translate_relation(&translator, &relation, out, error);
}

trn_status spark__plan_sql(trn_session *session, struct spark_catalog *catalog, const char *text, trn_plan **out,
                           trn_error **error) {
  return plan_inside(session, catalog, 0, text, out, error);
}

/* By its name: what Spark does with a view's text and columns is done. */
static trn_status plan_view(void *catalog, trn_session *session, const trn_table_info *view, unsigned depth, trn_plan **out,
                            trn_error **error) {
  const char *const parts[] = {view->catalog, view->database, view->name};
  trn_strbuf sql = {0};
  trn__strbuf_puts(&sql, "SELECT * FROM ");
  for (size_t i = 0; i < 3; i++) {
    trn__strbuf_puts(&sql, i ? ".`" : "`");
    for (const char *c = parts[i]; *c; c++) {
      if (*c == '`') trn__strbuf_putc(&sql, '`');
      trn__strbuf_putc(&sql, *c);
    }
    trn__strbuf_putc(&sql, '`');
  }
  trn_status status = sql.failed ? trn__no_memory(error) : plan_inside(session, catalog, depth, sql.data, out, error);
  trn__strbuf_finish(&sql);
  return status;
}

void spark__plan_views(trn_session *session, struct spark_catalog *catalog) {
  trn__session_set_view_planner(session, "spark.sql", plan_view, catalog);
}
