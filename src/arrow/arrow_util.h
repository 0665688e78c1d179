/* Helpers over the Arrow C data interface: schemas and arrays made in C, streams over arrays, the IPC stream format
 * (writing only; numbers are little endian, as the host's). Internal. */
#ifndef TRN_ARROW_ARROW_UTIL_H
#define TRN_ARROW_ARROW_UTIL_H
#include "core/core.h"
#include <trunnion/arrow.h>

/* ---- schemas ---- */
/* Makes a node with `child_count` children that are still empty (release NULL): the caller fills them in place and,
 * when that fails, releases the node. Copies everything; `name` and the values of `metadata` may be NULL. */
trn_status trn__schema_init(struct ArrowSchema *out, const char *format, const char *name, int64_t flags,
                            const trn_kv *metadata, size_t metadata_count, size_t child_count);
trn_status trn__schema_copy(const struct ArrowSchema *schema, struct ArrowSchema *out); /* bounded depth */
void trn__schema_release(struct ArrowSchema *schema); /* NULL and released ones are accepted */
/* The value of a metadata key, not NUL-terminated; NULL: absent. */
const char *trn__schema_metadata(const struct ArrowSchema *schema, const char *key, size_t *size);

/* ---- arrays: builders ---- */
/* Builds one column (recursively: a struct's or a list's children) by appending. A failed allocation is sticky and
 * reported by finish. The layout comes from the schema's format. */
typedef struct trn_array_builder trn_array_builder;
/* UNIMPLEMENTED: a format that the builder does not know. */
trn_status trn__array_builder_create(const struct ArrowSchema *schema, trn_array_builder **out);
void trn__array_builder_destroy(trn_array_builder *builder);
trn_array_builder *trn__array_builder_child(trn_array_builder *builder, size_t index);
void trn__array_append_null(trn_array_builder *builder); /* of a struct: its children get one too */
void trn__array_append_bool(trn_array_builder *builder, bool value);
void trn__array_append_int(trn_array_builder *builder, int64_t value);   /* any integer, date, time, timestamp width */
void trn__array_append_double(trn_array_builder *builder, double value); /* either float type */
void trn__array_append_bytes(trn_array_builder *builder, const void *data, size_t size); /* utf8, binary */
void trn__array_append_fixed(trn_array_builder *builder, const void *data, size_t size); /* raw bytes of one value */
/* Struct: ends a row (each child has been appended once); list, map: ends a list (children since the last end). */
void trn__array_append_end(trn_array_builder *builder);
int64_t trn__array_builder_length(const trn_array_builder *builder);
/* Gives the array, leaves the builder empty. RESOURCE_EXHAUSTED, or INTERNAL when children do not match. */
trn_status trn__array_builder_finish(trn_array_builder *builder, struct ArrowArray *out);

void trn__array_release(struct ArrowArray *array); /* NULL and released ones are accepted */
/* A struct array over `count` columns of `length` rows; takes the columns (also on failure). */
trn_status trn__array_struct(struct ArrowArray *columns, size_t count, int64_t length, struct ArrowArray *out);
/* A new owner of rows [offset, offset + length) of an array, which is shared: takes `array`, gives a holder that slices
 * refer to. */
typedef struct trn_shared_array trn_shared_array;
trn_status trn__shared_array_create(struct ArrowArray *array, trn_shared_array **out); /* takes, also on failure */
trn_shared_array *trn__shared_array_ref(trn_shared_array *shared);
void trn__shared_array_unref(trn_shared_array *shared);
const struct ArrowArray *trn__shared_array_get(const trn_shared_array *shared);
/* Of a struct array: the slice is by offset. Gives `*out`, which holds a reference. */
trn_status trn__shared_array_slice(trn_shared_array *shared, int64_t offset, int64_t length, struct ArrowArray *out);
/* Likewise of one column of a struct array without validity of its own. */
trn_status trn__shared_array_column(trn_shared_array *shared, size_t index, int64_t offset, int64_t length,
                                    struct ArrowArray *out);

/* ---- arrays: reading ---- */
bool trn__array_is_null(const struct ArrowArray *array, int64_t row);
int64_t trn__array_int(const struct ArrowArray *array, const char *format, int64_t row);
double trn__array_double(const struct ArrowArray *array, const char *format, int64_t row);
bool trn__array_bool(const struct ArrowArray *array, int64_t row);
trn_str trn__array_bytes(const struct ArrowArray *array, const char *format, int64_t row);

/* ---- streams ---- */
/* An ArrowArrayStream over `count` struct arrays. Takes schema and arrays (also on failure). */
trn_status trn__arrow_stream(struct ArrowSchema *schema, struct ArrowArray *arrays, size_t count,
                             struct ArrowArrayStream *out);

/* ---- IPC ---- */
/* Appends one encapsulated message: continuation marker, size, flatbuffer, padding, body. `schema` is of a struct
 * ("+s"), `array` a struct array without nulls of its own. Failures: RESOURCE_EXHAUSTED (also: out->failed),
 * UNIMPLEMENTED (a format that is not written: dictionaries, sparse unions, run ends), INVALID_ARGUMENT (array and schema do
 * not match). */
trn_status trn__ipc_write_schema(const struct ArrowSchema *schema, trn_strbuf *out);
trn_status trn__ipc_write_batch(const struct ArrowSchema *schema, const struct ArrowArray *array, trn_strbuf *out);
void trn__ipc_eos(trn_strbuf *out);

#endif
