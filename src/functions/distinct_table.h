/* Bias of distinct counts (distinct_table.c). */
#ifndef TRN_FUNCTIONS_DISTINCT_TABLE_H
#define TRN_FUNCTIONS_DISTINCT_TABLE_H
#include <stdint.h>

#define FN_DISTINCT_BITS_MIN 4
#define FN_DISTINCT_BITS_TABLE_MAX 18
/* Those of `bits` index bits: [first[bits - 4], first[bits - 3]). */
extern const uint16_t fn__distinct_first[];
extern const double fn__distinct_estimates[], fn__distinct_biases[];
#endif
