/* Just enough Arrow for functions over 64-bit integers and lists of them. */
#ifndef SAMPLE_ARROW_INT_H
#define SAMPLE_ARROW_INT_H
#include <stdbool.h>
#include <stddef.h>
#include <trunnion/function.h>

/* A type: "l" (64-bit integers); false: out of memory. `name` is a constant. */
bool int_schema(struct ArrowSchema *out, const char *name, bool nullable);
/* A struct of such columns. */
bool int_struct_schema(struct ArrowSchema *out, const char *const *names, size_t count);
/* A list of them, which may be null, as they may. */
bool int_list_schema(struct ArrowSchema *out);

/* An array that is being made: `values[i]` counts where bit i of `valid` is set. */
typedef struct int_array {
  int64_t *values;
  uint8_t *valid;
  int64_t rows, nulls;
} int_array;
bool int_array_start(int_array *array, int64_t rows); /* all are null at first */
void int_array_set(int_array *array, int64_t row, int64_t value);
/* Gives the array; false: out of memory. Either way `array` is over. */
bool int_array_end(int_array *array, struct ArrowArray *out);
/* What was set at `row`; false: nothing. */
bool int_array_get(const int_array *array, int64_t row, int64_t *out);
void int_array_drop(int_array *array);
/* A struct array of the columns, which it takes. */
bool int_struct_array(struct ArrowArray *out, struct ArrowArray *columns, size_t count, int64_t rows);
/* Lists as long as those of `like`, null where those are, of `values`, which it takes. starts: as `like` has them. */
bool int_list_array(struct ArrowArray *out, const struct ArrowArray *like, const int32_t *starts, struct ArrowArray *values);

/* The value of a row of an argument; false: null. Offsets of arrays and scalars are seen to. */
bool int_value(const struct ArrowArray *array, bool is_scalar, int64_t row, int64_t *out);
#endif
