/* Statements as data: command.c runs those that only change the catalog, command_write.c those that write rows. Internal. */
#ifndef TRN_CATALOG_COMMAND_H
#define TRN_CATALOG_COMMAND_H
#include <trunnion/catalog.h>

#include "core/core.h"

/* What a command's name means. */
typedef struct trn_command_target {
  trn_session *session;
  const trn_command *command;
  trn_catalog *catalog;
  const char *database, *name;
} trn_command_target;

/* CREATE_TABLE with a plan, INSERT, DELETE, UPDATE, COPY (then there is no name). */
trn_status trn__command_write(const trn_command_target *target, trn_operation **out, trn_error **error);
/* The relation that writes a plan's rows below `write->directory`, as a plan whose rows are counts. `columns`: NULL, or what
 * the plan's columns are called. */
trn_status trn__write_plan(trn_plan *plan, const trn_table_info *table, const trn_command *command,
                           const trn_write_target *write, trn_plan **out, trn_error **error);
/* A plan's rows as a table takes them: its columns in their order, cast to their types, those that `command` does not name null. */
trn_status trn__rows_plan(trn_plan *plan, const trn_table_info *table, const trn_command *command, trn_plan **out,
                          trn_error **error);
/* Runs a write plan; its stream gives one row with the sum of its counts after the commit. Takes `write`, also on failure. */
trn_status trn__write_operation(trn_session *session, trn_plan *plan, trn_table_write *write, const char *id, trn_cancel *cancel,
                                trn_operation **out, trn_error **error);
/* session.c: as trn_session_resolve_table, from within `depth` views. */
trn_status trn__session_resolve_at(trn_session *session, unsigned depth, const char *const *parts, size_t count,
                                   trn_resolved_table *out, trn_error **error);
/* session.c: FAILED_PRECONDITION when the session is in a transaction of another catalog. */
trn_status trn__transaction_check(trn_session *session, const trn_catalog *catalog, trn_error **error);

#endif
