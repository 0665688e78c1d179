/* A table that the program implements: it is scanned by columns and partitions, with filters that it said it applies,
 * and gives its rows as a stream. */
#ifndef TRUNNION_TABLE_H
#define TRUNNION_TABLE_H
#include <trunnion/backend.h>
#include <trunnion/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum trn_filter_support {
  TRN_FILTER_UNSUPPORTED = 0, /**< it is not given to the scan */
  TRN_FILTER_INEXACT,         /**< rows that do not match may come all the same: they are filtered again */
  TRN_FILTER_EXACT            /**< no row comes that does not match */
} trn_filter_support;

/** What a scan is asked for. Borrowed during the call. */
typedef struct trn_table_scan {
  size_t struct_size;
  const uint32_t *columns; /**< places in the schema; the rows have these columns, in this order; may be none */
  size_t column_count;
  const trn_expr *const *filters; /**< all must hold. A COLUMN's id (trn_expr_column_id) is a place in the schema */
  size_t filter_count;
  int64_t limit; /**< -1: none. More rows are harmless */
  uint32_t partition;
} trn_table_scan;

typedef struct trn_table_statistics {
  size_t struct_size;
  int64_t row_count, byte_count; /**< -1: unknown */
  bool is_exact;
} trn_table_statistics;

/** All may be called from any thread, also at the same time. */
typedef struct trn_table_provider_ops {
  size_t struct_size;
  /** Required. Gives the columns: a struct. The same each time. */
  trn_status (*schema)(void *self, struct ArrowSchema *out, trn_error **error);
  /** Required. Starts reading a partition. The stream gives arrays (next_array); an engine thread calls: do not block.
   */
  trn_status (*scan)(void *self, const trn_table_scan *scan, trn_stream **out, trn_error **error);
  /** Asked while a query is planned. Optional: unsupported. */
  trn_filter_support (*supports)(void *self, const trn_expr *filter);
  /** Optional: 1. Rows come in the order of partitions where the query does not say otherwise. */
  uint32_t (*partition_count)(void *self);
  void (*statistics)(void *self, trn_table_statistics *out); /**< optional: unknown */
  void (*destroy)(void *self);                               /**< when nothing reads it any more */
} trn_table_provider_ops;

/** A source of the session's backend that reads the table: through trn_backend_open_source with the format
 *  TRN_SOURCE_TABLE. Takes `self` on success only. `label`: what policies know it as (plan.h), or NULL. Gives `*out`
 * and
 *  `*schema`. Errors: INVALID_ARGUMENT (a required slot is missing), UNIMPLEMENTED (the backend reads no such tables).
 *  Since 0.1. */
TRN_API trn_status trn_table_source_create(trn_session *session, const trn_table_provider_ops *ops, void *self,
                                           trn_scan_label *label, trn_source **out, struct ArrowSchema *schema,
                                           trn_error **error);

/** Formats of a trn_source_request whose `data` is not bytes. */
#define TRN_SOURCE_TABLE "trunnion.table" /**< a trn_table_provider; `data_size` its size */
#define TRN_SOURCE_FFI                                                                                                 \
  "datafusion.ffi" /**< a FFI_TableProvider of the datafusion-ffi crate, which is taken on success */
typedef struct trn_table_provider {
  size_t struct_size;
  trn_table_provider_ops ops; /**< full size: missing slots are NULL */
  void *self;
} trn_table_provider;

#ifdef __cplusplus
}
#endif
#endif
