#include "functions/aggregate.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

trn_status fn__agg_open(const char *name, const trn_function_arg *args, size_t count, bool has_position, int64_t rows,
                        trn_function_error *error, fn_agg_call *out) {
  *out = (fn_agg_call){.report = {error, -1}, .rows = rows};
  bool good = count > (has_position ? 1u : 0u) && count <= FN_AGGREGATE_ARGS_MAX;
  if (good && has_position) {
    fn_column position;
    good = fn__column_open(args[count - 1].type, args[count - 1].array, false, &position) == TRN_OK &&
           position.type.kind == FN_INT64;
    if (good && position.array && position.array->length > 0 && !fn__is_null(&position, 0))
      out->report.position = fn__get_i64(&position, 0);
    count--;
  }
  for (size_t i = 0; good && i < count; i++) {
    good = fn__column_open(args[i].type, args[i].array, args[i].is_scalar, &out->columns[i]) == TRN_OK &&
           (!args[i].array || args[i].is_scalar || args[i].array->length >= rows);
    out->count = i + 1;
  }
  if (good) return TRN_OK;
  char message[160];
  snprintf(message, sizeof message, "%s does not take these arguments", name);
  error->fail(error->self, TRN_INVALID_ARGUMENT, NULL, message);
  return TRN_INVALID_ARGUMENT;
}

bool fn__groups_grow(fn_groups *groups, size_t count) {
  if (count <= groups->count) return true;
  if (count > groups->capacity) {
    size_t capacity = groups->capacity * 2 > count ? groups->capacity * 2 : count;
    capacity = capacity < 16 ? 16 : capacity;
    char *data = fn__alloc(capacity * groups->width);
    if (!data) return false;
    if (groups->count) memcpy(data, groups->data, groups->count * groups->width);
    free(groups->data);
    groups->data = data;
    groups->capacity = capacity;
  }
  memset(groups->data + groups->count * groups->width, 0, (count - groups->count) * groups->width);
  groups->count = count;
  return true;
}

void fn__groups_drop(fn_groups *groups, size_t emit) {
  groups->count -= emit;
  memmove(groups->data, groups->data + emit * groups->width, groups->count * groups->width);
}
