/* Arrow arrays as kernels see them: columns to read (offsets applied, scalars broadcast by a step of 0), builders to
 * write. A builder remembers its first failure, so kernels check once, at the end. */
#ifndef TRN_FUNCTIONS_ARRAY_H
#define TRN_FUNCTIONS_ARRAY_H
#include <string.h>
#include <trunnion/function.h>

typedef enum fn_kind {
  FN_NULL = 0,
  FN_BOOL,
  FN_INT8,
  FN_INT16,
  FN_INT32,
  FN_INT64,
  FN_FLOAT32,
  FN_FLOAT64,
  FN_DECIMAL,
  FN_STRING,
  FN_BINARY,
  FN_DATE,
  FN_TIMESTAMP,
  FN_TIMESTAMP_NTZ,
  FN_TIME,
  FN_YEAR_MONTH,
  FN_DAY_TIME,
  FN_CALENDAR,
  FN_LIST,
  FN_MAP,
  FN_STRUCT,
  FN_KIND_COUNT
} fn_kind;

typedef struct fn_type {
  uint8_t kind; /* fn_kind */
  uint8_t precision;
  int8_t scale;
  const struct ArrowSchema *schema; /* nested types: where the children are; borrowed */
} fn_type;

typedef struct fn_column {
  fn_type type;
  bool all_null;
  const uint8_t *valid; /* NULL: no nulls; bit number (offset + row * step) */
  int64_t offset;
  int64_t step;           /* 0: one value stands for all rows */
  const void *data;       /* fixed width: the first value, offset applied; booleans: bits, offset not applied */
  const int32_t *offsets; /* strings, lists, maps: offset applied */
  const char *bytes;
  const struct ArrowArray *array;
} fn_column;

typedef struct fn_builder {
  fn_type type;
  int64_t rows;
  trn_status status; /* the first failure: out of memory, or more than 2 GiB of text */
  uint8_t *valid;    /* NULL: no nulls so far */
  void *data;        /* fixed width values, boolean bits, or int32 offsets */
  char *bytes;       /* text */
  size_t size, capacity;
  int64_t next;                 /* text and lists: the row that the next push makes */
  struct ArrowArray **children; /* nested results: owned, moved into the result */
  int64_t child_count;
} fn_builder;

typedef struct fn_text {
  const char *data;
  size_t size;
} fn_text;

#define FN_ALIGNMENT 64
#define FN_NESTING_MAX 64

bool fn__type_read(const struct ArrowSchema *schema, fn_type *out);
fn_type fn__type(fn_kind kind);
fn_type fn__type_decimal(int precision, int scale);
bool fn__type_same(const fn_type *a, const fn_type *b);
size_t fn__type_width(fn_kind kind); /* bytes of a value; 0: bits or variable */
static inline bool fn__is_integer(fn_kind kind) {
  return kind >= FN_INT8 && kind <= FN_INT64;
}

/* Schemas: given, released by the caller. */
trn_status fn__schema_make(struct ArrowSchema *out, const fn_type *type, const char *name, bool nullable);
trn_status fn__schema_copy(struct ArrowSchema *out, const struct ArrowSchema *from, const char *name, bool nullable);
trn_status fn__schema_nest(struct ArrowSchema *out, const char *format, const char *name, bool nullable,
                           struct ArrowSchema *children, int64_t count); /* moves the children, also on failure */
/* Names a type as Spark's SQL does ("DECIMAL(10,2)", "ARRAY<INT>"); cut at `size`. */
void fn__type_sql(const fn_type *type, char *out, size_t size);

trn_status fn__column_open(const struct ArrowSchema *schema, const struct ArrowArray *array, bool is_scalar,
                           fn_column *out);
/* The child of a nested column, every element of it (offset of the child applied, the parent's not). */
trn_status fn__column_child(const fn_column *parent, int64_t index, fn_column *out);

static inline bool fn__bit(const uint8_t *bits, int64_t index) {
  return (bits[index >> 3] >> (index & 7)) & 1;
}
static inline bool fn__is_null(const fn_column *column, int64_t row) {
  return column->all_null || (column->valid && !fn__bit(column->valid, column->offset + row * column->step));
}
static inline bool fn__get_bool(const fn_column *column, int64_t row) {
  return fn__bit(column->data, column->offset + row * column->step);
}
static inline int32_t fn__get_i32(const fn_column *column, int64_t row) {
  return ((const int32_t *)column->data)[row * column->step];
}
static inline int64_t fn__get_i64(const fn_column *column, int64_t row) {
  return ((const int64_t *)column->data)[row * column->step];
}
static inline double fn__get_f64(const fn_column *column, int64_t row) {
  return ((const double *)column->data)[row * column->step];
}
static inline fn_text fn__get_text(const fn_column *column, int64_t row) {
  const int32_t *offsets = column->offsets + row * column->step;
  return (fn_text){column->bytes + offsets[0], (size_t)(offsets[1] - offsets[0])};
}
int64_t fn__get_integer(const fn_column *column, int64_t row); /* of any integer or integer-like kind */
double fn__get_number(const fn_column *column, int64_t row);   /* of either float kind */

/* Spark's xxhash64 of one value of any type; `seed` when it is null (hash.c). */
uint64_t fn__xxhash64_value(uint64_t seed, const fn_column *column, int64_t row);

void *fn__alloc(size_t size); /* aligned, never NULL for size 0 unless out of memory */
bool fn__builder_init(fn_builder *builder, const fn_type *type, int64_t rows);
void fn__builder_clear(fn_builder *builder);
/* Gives the array and forgets it; on failure clears. */
trn_status fn__builder_finish(fn_builder *builder, struct ArrowArray *out);
void fn__set_null(fn_builder *builder, int64_t row);
/* ANDs the column's validity into the result's. False: every row is null. */
bool fn__and_validity(fn_builder *builder, const fn_column *column);
static inline bool fn__row_is_null(const fn_builder *builder, int64_t row) {
  return builder->valid && !fn__bit(builder->valid, row);
}
static inline void fn__set_bool(fn_builder *builder, int64_t row, bool value) {
  uint8_t *byte = (uint8_t *)builder->data + (row >> 3);
  *byte = (uint8_t)((*byte & ~(1u << (row & 7))) | ((unsigned)value << (row & 7)));
}
/* Text results are made in row order: each row is pushed once (fn__push_null: the row's validity is cleared too). */
void fn__push_slow(fn_builder *builder, const void *data, size_t size);
static inline void fn__push(fn_builder *builder, const void *data, size_t size) {
  if (size > builder->capacity - builder->size || builder->status != TRN_OK || builder->capacity > INT32_MAX) {
    fn__push_slow(builder, data, size);
    return;
  }
  if (size) memcpy(builder->bytes + builder->size, data, size);
  builder->size += size;
  ((int32_t *)builder->data)[++builder->next] = (int32_t)builder->size;
}
void fn__push_null(fn_builder *builder);
/* Room for `size` more bytes at the end of the row being made, or NULL; fn__push_end ends the row after `size` of them.
 */
char *fn__reserve(fn_builder *builder, size_t size);
void fn__push_end(fn_builder *builder, size_t size);
/* Appends to the row being made without ending it. */
void fn__append(fn_builder *builder, const void *data, size_t size);
/* Lists: ends a row whose elements end at `end` of the child. */
void fn__push_list(fn_builder *builder, int64_t end);
/* Takes the child (moved). */
void fn__add_child(fn_builder *builder, struct ArrowArray *child);

/* An array whose values are those of `from` at `rows` (-1: null), of any type; nested types too. */
trn_status fn__take(const struct ArrowSchema *schema, const struct ArrowArray *from, const int64_t *rows, int64_t count,
                    struct ArrowArray *out);
#endif
