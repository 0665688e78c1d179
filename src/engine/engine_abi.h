/* The boundary to libtrunnion_engine.so (engine/shim): one vtable, got by trn_engine_get(). Nothing here knows a protocol
 * or a policy. All functions may be called from any thread; blocking ones say so. `trn_engine_error` objects are given;
 * conditions in it come from typed codes. The library is never unloaded (its runtime's threads live on).
 *
 * Plans cross as one byte string, both ways (lower and lift): a postfix program for a stack machine, so neither side
 * recurses. All integers little endian. str = u32 size, bytes. See ENCODING below. */
#ifndef TRN_ENGINE_ENGINE_ABI_H
#define TRN_ENGINE_ENGINE_ABI_H
#include <stddef.h>
#include <trunnion/arrow.h>
#include <trunnion/error.h>
#include <trunnion/function.h>

#define TRN_ENGINE_ABI 1

typedef struct trn_engine_runtime trn_engine_runtime;     /* threads, memory pool, spill, function library */
typedef struct trn_engine_session trn_engine_session;     /* settings over the shared base */
typedef struct trn_engine_source trn_engine_source;       /* a table provider */
typedef struct trn_engine_plan trn_engine_plan;           /* a logical plan */
typedef struct trn_engine_execution trn_engine_execution; /* a running query */

/* An error that crosses: everything is owned by `self`; release exactly once. Zero: none. */
typedef struct trn_engine_error {
  int32_t status;        /* trn_status */
  const char *condition; /* NULL, or a condition name: those of function kernels as they set them; the shim's own:
                            "PATH_NOT_FOUND" (param path), "CANNOT_READ_FILE" (path), "OUT_OF_MEMORY", "CANCELLED" */
  const char *message;
  const trn_error_param *params;
  size_t param_count;
  int64_t position; /* start << 32 | stop, or -1 */
  void *self;
  void (*release)(void *self);
} trn_engine_error;

typedef struct trn_engine_options {
  size_t struct_size;
  uint32_t threads;             /* 0: cores */
  uint64_t memory_bytes;        /* 0: no limit */
  const char *spill_directory;  /* NULL: the system's temporary directory */
  const trn_function_library *const *libraries;
  size_t library_count;
} trn_engine_options;

/* Bytes that the engine gives. */
typedef struct trn_engine_bytes {
  const void *data;
  size_t size;
  void *self;
  void (*release)(void *self); /* any thread; NULL when there is nothing to release */
} trn_engine_bytes;

/* One encapsulated IPC record batch message: continuation marker, size and flatbuffer in `parts[0]`, then body parts
 * (buffers with padding, not copied). Valid until release. */
typedef struct trn_engine_ipc {
  const trn_engine_bytes *parts; /* the parts' own release is NULL: the whole is released at once */
  size_t part_count;
  size_t size; /* of all parts */
  int64_t rows;
  void *self;
  void (*release)(void *self); /* any thread */
} trn_engine_ipc;

/* Exactly one call per accepted next: error->status != 0: failed (also CANCELLED); else the item is NULL or has
 * `release == NULL` at the end of the stream; else the callee takes the item. Called on a thread of the engine's runtime:
 * must not block. May be called before `next_*` returned? No: never inline. */
typedef void (*trn_engine_array_done)(void *user, struct ArrowArray *array, trn_engine_error *error);
typedef void (*trn_engine_ipc_done)(void *user, trn_engine_ipc *ipc, trn_engine_error *error);

/* What a name in a query text means: a source or the plan of a view, both borrowed (references are taken). */
typedef struct trn_engine_original trn_engine_original; /* what an OPAQUE stands for */
typedef struct trn_engine_table {
  trn_engine_source *source;
  trn_engine_plan *plan;
  struct ArrowSchema schema; /* taken */
} trn_engine_table;
/* Called on the thread that plans. The n-th success gets number n (from 0). A failure comes back from the planner with
 * the condition TRN_ENGINE_RESOLVER, if it was one: names of CTEs are asked for too. */
typedef int32_t (*trn_engine_resolver)(void *user, const char *const *parts, size_t count, trn_engine_table *out);
#define TRN_ENGINE_RESOLVER "RESOLVER"
#define TRN_ENGINE_NO_NUMBER UINT32_MAX

typedef struct trn_engine_statement_input {
  size_t struct_size;
  const char *sql;
  size_t size;
  trn_engine_resolver resolve; /* NULL: no tables */
  void *user;
  const struct ArrowSchema *parameter_schema; /* NULL: parameters stay open */
  const struct ArrowArray *parameters;        /* a struct array; borrowed */
  int64_t parameter_row;
} trn_engine_statement_input;

enum { /* flags of a statement */
  TRN_ENGINE_IF_EXISTS = 1,
  TRN_ENGINE_IF_NOT_EXISTS = 2,
  TRN_ENGINE_OR_REPLACE = 4,
  TRN_ENGINE_CASCADE = 8,
  TRN_ENGINE_IS_CATALOG = 16,
  TRN_ENGINE_EXTERNAL = 32,
  TRN_ENGINE_OVERWRITE = 64
};
enum { TRN_ENGINE_BEGIN = 100, TRN_ENGINE_COMMIT, TRN_ENGINE_ROLLBACK };

/* A statement, planned. `plan`, `schema` and `parameters` are given; the rest lives until release(self). */
typedef struct trn_engine_statement {
  int32_t kind; /* 0: a query; a trn_command_kind; TRN_ENGINE_BEGIN.. */
  uint32_t flags;
  trn_engine_plan *plan;         /* the query; rows of CREATE TABLE, INSERT, COPY; what stays of DELETE; UPDATE's table */
  struct ArrowSchema schema;     /* columns of CREATE TABLE and VIEW */
  struct ArrowSchema parameters; /* a field per parameter, type null when nothing tells; none: not set */
  const char *const *name;
  size_t name_count;
  const char *const *to;
  size_t to_count;
  const char *const *columns; /* partition columns; a view's names; a setting's key */
  size_t column_count;
  const char *text; /* a view's query; a setting's value */
  const char *format, *location;
  const trn_kv *options;
  size_t option_count;
  void *self;
  void (*release)(void *self);
} trn_engine_statement;

/* A plan in the encoding; everything lives until release(self). */
typedef struct trn_engine_lifted {
  const void *data;
  size_t size;
  trn_engine_source *const *sources; /* NULL: the view with that number */
  const uint32_t *numbers;           /* TRN_ENGINE_NO_NUMBER: no resolver gave it */
  size_t source_count;
  trn_engine_original *const *originals;
  size_t original_count;
  uint32_t next_column; /* ids below are in it */
  void *self;
  void (*release)(void *self);
} trn_engine_lifted;

/* What a scan of a caller's table is asked for. Borrowed. */
typedef struct trn_engine_table_scan {
  size_t struct_size;
  const uint32_t *projection; /* places of columns */
  size_t projection_count;
  const void *filters; /* header, then expressions, each over columns whose ids are their places */
  size_t filters_size, filter_count;
  int64_t limit; /* -1: none */
  uint32_t partition;
} trn_engine_table_scan;
typedef struct trn_engine_table_statistics {
  int64_t rows, bytes; /* -1: unknown */
  bool is_exact;
} trn_engine_table_statistics;
/* All required; any thread. */
typedef struct trn_engine_table_ops {
  size_t struct_size;
  int32_t (*schema)(void *self, struct ArrowSchema *out, trn_engine_error *);
  /* answers[i]: 0 the filter is not applied, 1 it may leave rows that do not match, 2 it is applied exactly */
  void (*supports)(void *self, const void *filters, size_t size, size_t count, uint8_t *answers);
  uint32_t (*partitions)(void *self);
  void (*statistics)(void *self, trn_engine_table_statistics *out);
  int32_t (*scan)(void *self, const trn_engine_table_scan *, void **stream, trn_engine_error *);
  /* One outstanding; OK: exactly one `done`, which takes the array and the error, on any thread but never inline. */
  int32_t (*next)(void *stream, trn_engine_array_done done, void *user, trn_engine_error *);
  void (*close)(void *stream); /* cancels an outstanding next, whose `done` still comes */
  void (*destroy)(void *self);
} trn_engine_table_ops;

typedef struct trn_engine {
  size_t struct_size;
  uint32_t abi;
  const char *version; /* e.g. "DataFusion 55.2.0" */

  /* Each returns the error's status. Blocking ones run on the calling thread, which has a big stack. */
  int32_t (*runtime_create)(const trn_engine_options *, trn_engine_runtime **out, trn_engine_error *);
  void (*runtime_release)(trn_engine_runtime *); /* ends its threads; waits up to 5 s for what still uses it */
  /* settings: engine keys ("datafusion.execution.target_partitions", ...). Cheap. */
  int32_t (*session_create)(trn_engine_runtime *, const trn_kv *settings, size_t count, trn_engine_session **out,
                            trn_engine_error *);
  void (*session_release)(trn_engine_session *);

  /* Files as a table. format: "parquet" "csv" "json" "arrow". paths: files, directories or globs; a path without a
   * match is PATH_NOT_FOUND. schema: NULL: inferred; else taken (its release is not called). options: "header",
   * "delimiter", "quote", "escape", "compression", ... by the engine's names; "partition_column", any number of times: the
   * name of a directory level name=value, outermost first, a text column behind those of the files. Gives the source and its Arrow schema.
   * Blocks (reads metadata). */
  int32_t (*source_files)(trn_engine_session *, const char *format, const char *const *paths, size_t path_count,
                          const trn_kv *options, size_t option_count, const struct ArrowSchema *schema,
                          trn_engine_source **out, struct ArrowSchema *out_schema, trn_engine_error *);
  /* Rows in memory; takes the stream. */
  int32_t (*source_memory)(trn_engine_session *, struct ArrowArrayStream *stream, trn_engine_source **out,
                           trn_engine_error *);
  /* An Arrow IPC stream in memory (any number of batches); copies nothing until executed. Borrows the bytes only during
   * the call. Gives the schema too. */
  int32_t (*source_ipc)(trn_engine_session *, const void *bytes, size_t size, trn_engine_source **out,
                        struct ArrowSchema *out_schema, trn_engine_error *);
  trn_engine_source *(*source_ref)(trn_engine_source *);
  void (*source_release)(trn_engine_source *);

  /* Lower: bytes -> plan. sources: what SCAN refers to by index (borrowed; references are taken). Checks everything. */
  int32_t (*plan_lower)(trn_engine_session *, const void *bytes, size_t size, trn_engine_source *const *sources,
                        size_t source_count, trn_engine_plan **out, trn_engine_error *);
  /* Lift: plan -> the same encoding; sources are given new indexes, listed in *sources (an array of `*source_count`
   * references that live as long as `out`). */
  int32_t (*plan_lift)(trn_engine_plan *, trn_engine_bytes *out, trn_engine_source *const **sources, size_t *source_count,
                       trn_engine_error *);
  int32_t (*plan_sql)(trn_engine_session *, const char *sql, size_t size, trn_engine_plan **out, trn_engine_error *);
  int32_t (*plan_optimize)(trn_engine_session *, trn_engine_plan *, trn_engine_plan **out, trn_engine_error *);
  int32_t (*plan_schema)(trn_engine_plan *, struct ArrowSchema *out, trn_engine_error *);
  /* what: 0 logical, 1 optimized logical, 2 physical. Text, NUL-terminated in out->data. Blocks. */
  int32_t (*plan_explain)(trn_engine_session *, trn_engine_plan *, int32_t what, trn_engine_bytes *out,
                          trn_engine_error *);
  void (*plan_release)(trn_engine_plan *);

  /* Physical planning on the calling thread, then ready to be pulled. output: NULL or the schema that batches are
   * relabelled with (same column types up to nullability, nested names and timestamp zone; else a cast is made). Blocks. */
  int32_t (*execute)(trn_engine_session *, trn_engine_plan *, const struct ArrowSchema *output,
                     trn_engine_execution **out, trn_engine_error *);
  int32_t (*execution_schema)(trn_engine_execution *, struct ArrowSchema *out, trn_engine_error *);
  /* The encapsulated IPC schema message (continuation, size, flatbuffer). Lives as long as the execution. */
  int32_t (*execution_schema_ipc)(trn_engine_execution *, trn_engine_bytes *out, trn_engine_error *);
  /* One pull at a time (FAILED_PRECONDITION otherwise). Batches of rows in partition order; partitions run ahead in
   * bounded memory. ipc: batches larger than `bytes_max` are cut, by rows. 0: no cut. Small ones are coalesced by the engine's batch size.*/
  int32_t (*next_array)(trn_engine_execution *, trn_engine_array_done done, void *user, trn_engine_error *);
  int32_t (*next_ipc)(trn_engine_execution *, uint64_t bytes_max, trn_engine_ipc_done done, void *user,
                      trn_engine_error *);
  void (*execution_cancel)(trn_engine_execution *); /* idempotent; an outstanding pull ends with CANCELLED */
  /* Metrics of the physical plan as JSON text: [{"node":..,"parent":..,"name":..,"metrics":{..}}]. */
  int32_t (*execution_metrics)(trn_engine_execution *, trn_engine_bytes *out, trn_engine_error *);
  void (*execution_release)(trn_engine_execution *); /* cancels when still running */

  /* Plans one statement in the session's dialect, with the engine's coercions written out. Blocks. */
  int32_t (*statement)(trn_engine_session *, const trn_engine_statement_input *, trn_engine_statement *out,
                       trn_engine_error *);
  int32_t (*lift)(trn_engine_plan *, trn_engine_lifted *out, trn_engine_error *);
  /* As plan_lower; originals: what OPAQUE refers to by index. */
  int32_t (*lower)(trn_engine_session *, const void *bytes, size_t size, trn_engine_source *const *sources,
                   size_t source_count, trn_engine_original *const *originals, size_t original_count,
                   trn_engine_plan **out, trn_engine_error *);
  trn_engine_original *(*original_ref)(trn_engine_original *);
  void (*original_release)(trn_engine_original *);

  /* Slots from here on may be missing in an engine of an older build: TRN_ENGINE_HAS. */
  /* format: "datafusion.logical.v1", "datafusion.physical.v1", "substrait.plan.v1". Blocks. */
  int32_t (*decode)(trn_engine_session *, const char *format, const void *bytes, size_t size,
                    trn_engine_resolver resolve, void *user, trn_engine_plan **out, trn_engine_error *);
  /* schema: NULL, or names and types of the result. Blocks. */
  int32_t (*encode)(trn_engine_session *, trn_engine_plan *, const char *format, const struct ArrowSchema *schema,
                    trn_engine_bytes *out, trn_engine_error *);
  /* A table that the caller implements; `ops` lives as long as the process; takes `self` on success. */
  int32_t (*source_table)(trn_engine_session *, const trn_engine_table_ops *ops, void *self, trn_engine_source **out,
                          trn_engine_error *);
  /* A FFI_TableProvider of the datafusion-ffi crate (the same major version); taken. */
  int32_t (*source_ffi)(trn_engine_session *, void *provider, trn_engine_source **out, struct ArrowSchema *out_schema,
                        trn_engine_error *);
  /* What a table is, for policies: a byte of TRN_ENGINE_ABOUT_*, and its schema. */
  int32_t (*source_about)(trn_engine_source *, trn_engine_bytes *out, struct ArrowSchema *out_schema, trn_engine_error *);
  /* From now on blocking calls of this thread end with CANCELLED soon after *flag turned 1; NULL: they go to their end. The
   * flag is read until the next watch. */
  void (*watch)(const uint32_t *flag);
  /* An Arrow IPC stream in memory, as source_ipc, read where it lies: nothing is copied, and little kept of each batch. Takes the
   * bytes, also on failure (`release` is called, on any thread, when nobody reads them any more); they never change. Reads and
   * checks all of it. UNIMPLEMENTED: it has dictionaries. Blocks. */
  int32_t (*source_mapped)(trn_engine_session *, const trn_engine_bytes *bytes, trn_engine_source **out,
                           struct ArrowSchema *out_schema, trn_engine_error *);
} trn_engine;
enum {
  TRN_ENGINE_ABOUT_UNKNOWN = 0,
  TRN_ENGINE_ABOUT_FILES = 1, /* then the format and the paths, each ended by a NUL; of a pattern the directory around it */
  TRN_ENGINE_ABOUT_ROWS = 2,
  TRN_ENGINE_ABOUT_GENERATED = 3
};
#define TRN_ENGINE_HAS(engine, slot) ((engine)->struct_size >= offsetof(trn_engine, slot) + sizeof((engine)->slot))

typedef const trn_engine *(*trn_engine_get_fn)(uint32_t abi); /* exported as "trn_engine_get"; NULL: ABI unknown */

/* ---- ENCODING --------------------------------------------------------------------------------------------------------
 * "TRNP" u32 version=1, then operations; each is u8 opcode + payload; operands are popped from the stack in the order they
 * were pushed (first pushed = first child). Columns are named "c<id>" in the engine. After the last operation exactly
 * one relation is on the stack.
 *
 * type     = u8 trn_type_id, u8 precision, i8 scale, u8 variant, i32 length, u32 field_count, field_count * (str name, u8 nullable, type)
 *            (TIMESTAMP is timestamp[us, "UTC"] in the engine); of TRN_TYPE_OTHER: then str format
 * sortflag = u8: bit 0 descending, bit 1 nulls first
 */
enum {
  /* expressions: pop operands, push one expression */
  TRN_OP_LITERAL = 1, /* type, u8 is_null, then unless null: u8 bool | i64 (integers, dates, times, intervals ym/dt) | f64 |
                         decimal: u64 low, i64 high | str (string, binary) | calendar: i32 months, i32 days, i64 nanos |
                         array, map, struct: u32 n, after n literals that were pushed before (popped) */
  TRN_OP_COLUMN = 2,  /* u32 id */
  TRN_OP_CALL = 3,    /* u8 home, str name, u32 argc, type result, u8 nullable (declared; for checks) */
  TRN_OP_CAST = 4,    /* type, u8 is_try */
  TRN_OP_CASE = 5,    /* u32 argc (odd: has else) */
  TRN_OP_IN_LIST = 6, /* u32 argc with the value, u8 negated */
  TRN_OP_AGGREGATE = 7, /* u8 home, str name, u8 distinct, u8 has_filter, u32 order_count, order_count * sortflag, u32 argc
                           (args, then order keys, then filter), type result */
  TRN_OP_WINDOW = 8,  /* u8 function is aggregate, u8 home, str name, u8 distinct, u8 ignore_nulls, u32 argc, u32 partition_count,
                         u32 order_count, order_count * sortflag, u8 unit, u8 start_kind, u8 end_kind, u8 has_start,
                         u8 has_end; pops args, partition keys, order keys, [start], [end] (literals); type result */
  TRN_OP_LAMBDA = 9,  /* u32 n, n * u32 id; pops the body */
  TRN_OP_LAMBDA_VARIABLE = 10, /* u32 id, type */
  /* in lifted plans only */
  TRN_OP_OUTER = 11,    /* u32 id: a column of an enclosing relation */
  TRN_OP_SUBQUERY = 12, /* u8 trn_subquery_kind, u8 negated, u32 argc, type, u8 nullable; pops a relation, then args */

  /* relations: pop inputs and expressions, push one relation */
  TRN_OP_SCAN = 32,   /* u32 source index, u32 n, n * (u32 column index in the source, u32 id) */
  TRN_OP_VALUES = 33, /* u32 rows, u32 columns, columns * (u32 id, type, u8 nullable); pops rows*columns expressions */
  TRN_OP_RANGE = 34,  /* i64 start, i64 end, i64 step, u32 partitions (0: engine's), u32 id */
  TRN_OP_PROJECT = 35, /* u32 n, n * u32 id; pops input, then n expressions (pushed after the input) */
  TRN_OP_FILTER = 36, /* pops input, condition */
  TRN_OP_JOIN = 37,   /* u8 type, u8 null_aware, u8 has_condition, u32 mark id (LEFT_MARK); pops left, right, [condition] */
  TRN_OP_AGGREGATE_REL = 38, /* u32 groups, u32 aggregates, ids, u32 set_count, set_count * u64, u32 grouping id column (with
                                sets); pops input, group keys, aggregates */
  TRN_OP_SORT = 39,   /* u32 n, n * sortflag, i64 fetch; pops input, keys */
  TRN_OP_LIMIT = 40,  /* i64 skip, i64 fetch; pops input */
  TRN_OP_UNION = 41,  /* u32 inputs, u32 n, n * u32 id (each input's columns are matched by place: u32 ids follow per input) */
  TRN_OP_DISTINCT = 42,
  TRN_OP_SET = 43,    /* u8 except, u8 all, u32 n, n * u32 id, then left's and right's ids (n each); pops left, right */
  TRN_OP_WINDOW_REL = 44, /* u32 n, n * u32 id; pops input, n window expressions */
  TRN_OP_UNNEST = 45, /* u8 outer, u8 with_position, u32 n, n * u32 id; pops input, expression */
  TRN_OP_SAMPLE = 46, /* f64 lower, f64 upper, u8 with_replacement, i64 seed */
  TRN_OP_REPARTITION = 47, /* u32 partitions, u8 shuffle, u8 by_range, u32 n, n * sortflag; pops input, n keys */
  TRN_OP_EXTENSION = 48, /* str name, str payload, u32 inputs, u32 n, n * u32 id; pops the inputs */
  TRN_OP_WRITE = 49, /* u32 id of the count, str format, str directory, u32 n, n * (str key, str value), u32 columns, columns
                        * str name, u32 m, m * u32 place of a partition column; pops input */
  TRN_OP_SCAN_TYPED = 50, /* as SCAN, exact types: u32 source index, str label, u32 n, n * (u32 column index in the
                             source, u32 id, type, u8 nullable) */
  TRN_OP_OPAQUE = 51, /* u32 index of the original, str label, u32 inputs, u32 n, n * (u32 id, type, u8 nullable); pops
                         the inputs */
  /* DAGs: a relation used more than once */
  TRN_OP_SHARE = 64,  /* u32 slot: the relation on top stays, and is remembered */
  TRN_OP_SHARED = 65  /* u32 slot: pushes it again */
};

#endif
