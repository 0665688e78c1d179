/* Plans as Ballista writes them: DataFusion's protobuf but for a few places. Here they become DataFusion's own.
 * Internal. */
#ifndef TRN_PLAN_BALLISTA_PLAN_H
#define TRN_PLAN_BALLISTA_PLAN_H
#include "core/core.h"
#include "core/limits.h"

/* The option of an encoded query that says whose plan it is ("54"); absent: of the version that we know. */
#define TRN_BALLISTA_CLIENT_OPTION "ballista.client"

/* Appends the plan in DataFusion's encoding to `out`; *changed false: it is that already, and nothing was appended.
 * Bytes that are no plan come back as they are: who decodes them says so. INVALID_ARGUMENT: a file format that is not
 * known. */
trn_status trn__ballista_plan(const void *data, size_t size, bool is_older, trn_strbuf *out, bool *changed,
                              trn_error **error);
/* Of an EXPLAIN: the bytes of what it explains, borrowed. False: it is another plan. */
bool trn__ballista_explained(const void *data, size_t size, trn_str *inner);

/* What writes files, at the root of a plan; everything is borrowed from its bytes. */
typedef struct trn_ballista_write {
  trn_str input; /* the plan of the rows */
  trn_str location;
  trn_str options; /* of the format, in its own message */
  uint64_t format; /* a place in Ballista's list: parquet, csv, json, arrow, avro */
  trn_str partition_by[TRN_BALLISTA_PARTITIONS_MAX];
  size_t partition_count; /* may be more than there is room for: such a write is refused */
  /* INSERT: */
  bool is_insert;
  uint64_t operation;     /* DmlNode's type */
  trn_str table;          /* a table of files, for people; "" of another one */
  size_t location_count;  /* 0: the target is no table of files */
  trn_str file_extension; /* that files of the table have; "": any */
} trn_ballista_write;
enum { TRN_BALLISTA_INSERT_APPEND = 3 };
/* COPY, or INSERT and its kin. False: it is another plan. */
bool trn__ballista_written(const void *data, size_t size, trn_ballista_write *out);
/* One field of a message that is read without a descriptor; moves *at on. False: the end, or it is malformed. */
typedef struct trn_ballista_field {
  uint64_t id, number; /* the number of a varint */
  bool is_bytes;
  trn_str bytes;
} trn_ballista_field;
bool trn__ballista_field(trn_str message, size_t *at, trn_ballista_field *out);

#endif
