/* What Arrow's IPC format calls things, shared by what writes and what reads it. Internal to src/arrow. */
#ifndef TRN_ARROW_IPC_TYPE_H
#define TRN_ARROW_IPC_TYPE_H
#include "arrow/arrow_util.h"
#include "arrow/flatbuf.h"

enum { MESSAGE_SCHEMA = 1, MESSAGE_RECORD_BATCH = 3, METADATA_V5 = 4 };
enum { IPC_DEPTH_MAX = 2 * TRN_TYPE_DEPTH_MAX, /* a map has an extra level */ IPC_UNION_MEMBERS_MAX = 127 };

/* Numbers of the union `Type` in Arrow's Schema.fbs. */
enum {
  IPC_NULL = 1,
  IPC_INT,
  IPC_FLOAT,
  IPC_BINARY,
  IPC_UTF8,
  IPC_BOOL,
  IPC_DECIMAL,
  IPC_DATE,
  IPC_TIME,
  IPC_TIMESTAMP,
  IPC_INTERVAL,
  IPC_LIST,
  IPC_STRUCT,
  IPC_UNION,
  IPC_FIXED_BINARY,
  IPC_FIXED_LIST,
  IPC_MAP,
  IPC_DURATION,
  IPC_LARGE_BINARY,
  IPC_LARGE_UTF8,
  IPC_LARGE_LIST
};

typedef enum ipc_layout {
  LAYOUT_NULL,
  LAYOUT_BITS,
  LAYOUT_FIXED,
  LAYOUT_BYTES,
  LAYOUT_LIST,
  LAYOUT_STRUCT,
  LAYOUT_FIXED_LIST,
  LAYOUT_UNION /* dense */
} ipc_layout;

/* A format, read once. */
typedef struct ipc_type {
  uint8_t id;
  uint8_t layout;
  uint8_t unit;   /* of times, intervals, floats */
  bool is_signed; /* integers */
  bool is_large;  /* offsets of 64 bits */
  int32_t width;  /* bytes of a value; of a fixed list: items */
  int32_t precision, scale;
  const char *timezone;
} ipc_type;

/* Reads the format of a schema's node. UNIMPLEMENTED: dictionaries, and what is not known. */
trn_status trn__ipc_type_of(const struct ArrowSchema *schema, ipc_type *out);
/* The metadata of a record batch message, ready to be sent; NULL: no memory. Pairs: length, null count; offset, size. */
const void *trn__ipc_batch_metadata(trn_fb *fb, const int64_t *nodes, size_t node_count, const int64_t *buffers,
                                    size_t buffer_count, int64_t rows, int64_t body_size);

#endif
