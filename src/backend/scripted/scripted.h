/* A backend without an engine, for tests, fuzzers and sanitizers: it evaluates small plans itself (VALUES, RANGE, SCAN
 * of tables that it was given; PROJECT of columns and literals, LIMIT over them), and plays scripts for everything
 * else. Its completions come from threads of its own. Internal. */
#ifndef TRN_BACKEND_SCRIPTED_H
#define TRN_BACKEND_SCRIPTED_H
#include "arrow/arrow_util.h"
#include "core/core.h"
#include "plan/plan.h"
#include <trunnion/backend.h>
#include <trunnion/table.h>

typedef struct trn_scripted trn_scripted; /* the hand on the backend; reference counted */

/* How one operation goes. Zero: the plan is evaluated, at once, to its end. */
typedef struct trn_script {
  trn_status execute_status; /* not OK: execute fails with it, and with `message` */
  const char *condition, *message;
  /* Rows: instead of an evaluation. Both borrowed while the script is given; references are taken. */
  const struct ArrowSchema *schema;
  trn_shared_array *const *batches;
  size_t batch_count;
  bool is_endless;        /* the batches (or the range's) begin again for ever */
  uint32_t pull_delay_ms; /* before each completion */
  trn_status fail_status; /* not OK: pull number fail_at (from 0) completes with it, and with `message` */
  uint64_t fail_at;
  bool is_hanging; /* pull number hang_at completes only when cancelled */
  uint64_t hang_at;
} trn_script;

typedef enum trn_scripted_form { TRN_SCRIPTED_ARRAYS = 0, TRN_SCRIPTED_IPC } trn_scripted_form;

typedef struct trn_scripted_counts {
  uint64_t sessions_opened, sessions_closed, executed, streams_opened, streams_closed, pulls, completions;
} trn_scripted_counts;

/* Gives a reference to the control and one to the backend. */
trn_status trn__scripted_create(trn_scripted_form form, trn_scripted **out, trn_backend **backend);
void trn__scripted_unref(trn_scripted *control);
trn_scripted_counts trn__scripted_count(trn_scripted *control);

/* For plans with this fingerprint; NULL: for every plan without one of its own. Copies. Threads: any. */
trn_status trn__scripted_on(trn_scripted *control, const uint8_t fingerprint[16], const trn_script *script);
/* Asked first, for each execute: fills `script` (zeroed); what it refers to is borrowed until execute returns.
 * UNIMPLEMENTED: not one of its plans. Set before the backend is used. */
typedef trn_status (*trn_scripted_handler)(void *user, trn_session *session, trn_plan *plan, trn_script *script);
void trn__scripted_on_plan(trn_scripted *control, trn_scripted_handler handler, void *user);

/* A table that trn_backend_open_source finds by its path, whatever the format. Copies the schema; takes references. */
trn_status trn__scripted_add_table(trn_scripted *control, const char *path, const struct ArrowSchema *schema,
                                   trn_shared_array *const *batches, size_t batch_count);

/* ---- evaluation (evaluate.c) ---- */
typedef struct trn_evaluation trn_evaluation;
typedef struct trn_scripted_table {
  struct ArrowSchema schema;
  size_t batch_count;
  trn_shared_array **batches;
} trn_scripted_table;
/* The table behind a source of this backend. */
const trn_scripted_table *trn__scripted_source_table(const trn_source *source);
/* UNIMPLEMENTED names what is beyond it. `table`: instead of the plan's own leaf (then the plan is not looked at). */
trn_status trn__evaluation_create(trn_plan *plan, const trn_scripted_table *table, bool is_endless,
                                  trn_evaluation **out, trn_error **error);
void trn__evaluation_destroy(trn_evaluation *evaluation);
/* Gives the next batch; release NULL: the end. */
trn_status trn__evaluation_next(trn_evaluation *evaluation, struct ArrowArray *out, trn_error **error);

trn_status trn__scripted_table_init(trn_scripted_table *table, const struct ArrowSchema *schema,
                                    trn_shared_array *const *batches, size_t batch_count);
void trn__scripted_table_finish(trn_scripted_table *table);
/* All rows of a table of the program (table.c). Blocks. */
trn_status trn__scripted_read_table(const trn_table_provider *table, trn_scripted_table *out, trn_error **error);

#endif
