/* Spark's dialect for other frontends. */
#include "frontend/spark/plan_sql.h"

#include "frontend/spark/translate/translate.h"

trn_status spark__plan_sql(trn_session *session, struct spark_catalog *catalog, const char *text, trn_plan **out,
                           trn_error **error) {
  spark_translator translator;
  Spark__Connect__Relation relation = SPARK__CONNECT__RELATION__INIT;
  Spark__Connect__SQL sql = SPARK__CONNECT__SQL__INIT;
  sql.query = (char *)text;
  relation.rel_type_case = SPARK__CONNECT__RELATION__REL_TYPE_SQL;
  relation.sql = &sql;
  *out = NULL;
  trn_status status = spark__translator_init(&translator, session, catalog, error);
  return status ? status : spark__translate_relation(&translator, &relation, out, error);
}
