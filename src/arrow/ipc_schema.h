/* Schemas that arrive as IPC messages, nested ones too. Internal. */
#ifndef TRN_ARROW_IPC_SCHEMA_H
#define TRN_ARROW_IPC_SCHEMA_H
#include "arrow/arrow_util.h"

/* Reads a schema message's flatbuffer (without its prefix) into a struct's schema, metadata included. Bounded in depth
 * and count. INVALID_ARGUMENT: it is malformed; UNIMPLEMENTED names a type that is not read (unions, views,
 * dictionaries). */
trn_status trn__ipc_import_schema(const void *header, size_t size, struct ArrowSchema *out, trn_error **error);

#endif
