/* Plans from nothing: what decoders and translators make. The nodes are made with the functions of plan.h (trn_edit_...)
 * and those here. */
#ifndef TRUNNION_BUILD_H
#define TRUNNION_BUILD_H
#include <trunnion/plan.h>
#include <trunnion/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Gives the root and a name for each of its columns. What `*names` points to must live until trn_plan_build returns. */
typedef trn_status (*trn_plan_builder)(void *user, trn_edit *edit, const trn_rel **root, const char *const **names,
                                       trn_error **error);
/** Runs `build` on the caller's thread and gives the plan. Copies the names. Errors: those of `build`; RESOURCE_EXHAUSTED;
 *  INVALID_ARGUMENT when it gave no root. Since 0.1. */
TRN_API trn_status trn_plan_build(trn_plan_builder build, void *user, trn_plan **out, trn_error **error);

/** The root of another plan, under column ids of the new one, which keeps the other as long as it lives. NULL also for a
 *  physical plan. */
TRN_API const trn_rel *trn_edit_plan(trn_edit *edit, trn_plan *plan);
/** `condition` NULL: none. Not for TRN_JOIN_LEFT_MARK. */
TRN_API const trn_rel *trn_edit_join(trn_edit *edit, trn_join_type type, const trn_rel *left, const trn_rel *right,
                                     const trn_expr *condition);
/** One int64 column: from `start` to before `end`. */
TRN_API const trn_rel *trn_edit_range(trn_edit *edit, int64_t start, int64_t end, int64_t step);
/** `row_count` rows of `column_count` expressions without columns, row by row; those of a column have one type. */
TRN_API const trn_rel *trn_edit_values(trn_edit *edit, const trn_expr *const *exprs, size_t row_count,
                                       size_t column_count);
/** All columns of a source that the session's backend gave (trn_backend_open_source, trn_session_resolve_table); `schema` is
 *  what came with it. The plan takes references to both; `label` may be NULL. */
TRN_API const trn_rel *trn_edit_read(trn_edit *edit, trn_session *session, trn_source *source,
                                     const struct ArrowSchema *schema, trn_scan_label *label);
/** Sorted by the keys; `is_descending` one per key, NULL: none. Nulls come first where it ascends, as in Spark. */
TRN_API const trn_rel *trn_edit_sort(trn_edit *edit, const trn_rel *input, const trn_expr *const *keys,
                                     const bool *is_descending, size_t count);

#ifdef __cplusplus
}
#endif
#endif
