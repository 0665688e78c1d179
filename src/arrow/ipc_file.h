/* Arrow's IPC stream as a file: what readers that jump between batches want. Internal. */
#ifndef TRN_ARROW_IPC_FILE_H
#define TRN_ARROW_IPC_FILE_H
#include "arrow/arrow_util.h"

#define TRN_IPC_FILE_MAGIC "ARROW1\0"
#define TRN_IPC_FILE_HEAD_SIZE 8u /* the magic and padding; then comes the stream as it is */

/* Appends what comes behind a stream that was written after the head: the footer, its size, the magic. Reads the stream
 * without trust. INVALID_ARGUMENT: it is no stream of this version; UNIMPLEMENTED: it has dictionaries. */
trn_status trn__ipc_file_tail(const void *stream, size_t size, trn_strbuf *out, trn_error **error);

#endif
