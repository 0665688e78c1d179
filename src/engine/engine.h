/* The C side of the engine: loading it, lowering plans to its encoding, turning its errors into ours. */
#ifndef TRN_ENGINE_ENGINE_H
#define TRN_ENGINE_ENGINE_H
#include "engine/engine_abi.h"
#include "plan/plan.h"

/* Loads libtrunnion_engine.so (kept for the life of the process) and a function library. NULL paths: beside the running
 * program, then the loader's search. NOT_FOUND names the file. Blocks. */
trn_status trn__engine_load(const char *path, const trn_engine **out, trn_error **error);
trn_status trn__function_library_load(const char *path, const trn_function_library **out, trn_error **error);

/* The text that the engine opens for a path: a part of `path`. INVALID_ARGUMENT: a path that would be read as another one. */
trn_status trn__path_opened(const char *path, const char **out, trn_error **error);

/* Turns an engine's error into ours and releases it. Gives its status (never TRN_OK). */
trn_status trn__engine_error(trn_engine_error *from, trn_error **error);

/* A plan's encoding: relations without SUBQUERY and OUTER. Sources are listed in the order of SCAN's indexes (borrowed
 * from the plan). Iterates over the arguments, recurses with the plan's nesting (limited). */
typedef struct trn_lowered {
  trn_strbuf bytes;
  trn_vec sources;   /* of trn_source */
  trn_vec originals; /* of trn_source: what OPAQUE refers to */
} trn_lowered;
/* `with_names`: tables of catalogs keep their names, for encodings that tables travel in by name. */
trn_status trn__lower(const trn_rel *root, bool with_names, trn_lowered *out, trn_error **error);
void trn__lowered_finish(trn_lowered *lowered);

#endif
