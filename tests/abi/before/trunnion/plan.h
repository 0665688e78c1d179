/* A resolved plan: immutable, reference counted. Its inside is src/plan/plan.h for now; walk, match and replace from
 * outside come with the policy layers. */
#ifndef TRUNNION_PLAN_H
#define TRUNNION_PLAN_H
#include <trunnion/arrow.h>
#include <trunnion/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trn_plan trn_plan;

TRN_API trn_plan *trn_plan_ref(trn_plan *plan);
TRN_API void trn_plan_unref(trn_plan *plan); /**< NULL is accepted. Threads: any. */
/** The Arrow schema of the result, with display names (names may repeat). Gives `*out` (its release). */
TRN_API trn_status trn_plan_schema(const trn_plan *plan, struct ArrowSchema *out);
/** 128 bits that are equal for equal plans, whatever column ids they were numbered with. */
TRN_API void trn_plan_fingerprint(const trn_plan *plan, uint8_t out[16]);
/** An indented text of the plan, for people. Gives `*out` (trn_free). */
TRN_API trn_status trn_plan_print(const trn_plan *plan, char **out);
/** Frees text that a function of this library gave. */
TRN_API void trn_free(void *memory);

#ifdef __cplusplus
}
#endif
#endif
