/* Time zones: offsets and regions by the names that java.time.ZoneId takes. */
#ifndef TRN_FUNCTIONS_ZONE_H
#define TRN_FUNCTIONS_ZONE_H
#include "functions/array.h"

typedef struct fn_zone_table fn_zone_table;
typedef struct fn_zone {
  const fn_zone_table *table; /* NULL: a fixed offset; lives as long as the process */
  int32_t offset;             /* seconds east of UTC */
} fn_zone;

/* A stretch of instants with one offset, remembered from one lookup to the next. */
typedef struct fn_zone_range {
  int64_t start, end; /* seconds UTC, end excluded */
  int32_t offset;
} fn_zone_range;

/* False: there is no such zone. May read a file the first time that a name is seen. Threads: any. */
bool fn__zone_find(fn_text name, fn_zone *out);
/* Fills *range when `seconds` is outside of it; gives the offset. Start with a zeroed range. */
int32_t fn__zone_offset(const fn_zone *zone, int64_t seconds, fn_zone_range *range);
/* Microseconds UTC to local and back. A local time in a gap moves forward by the gap, one that happens twice is the
 * earlier: as ZonedDateTime.of. */
int64_t fn__to_local(const fn_zone *zone, int64_t us, fn_zone_range *range);
int64_t fn__to_utc(const fn_zone *zone, int64_t local_us, fn_zone_range *range);
#endif
