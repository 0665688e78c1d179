/* Just enough protobuf to read messages whose fields are texts and bytes. */
#ifndef SAMPLE_WIRE_H
#define SAMPLE_WIRE_H
#include <stdbool.h>
#include <stddef.h>

typedef struct piece {
  const unsigned char *data;
  size_t size;
} piece;

/* Fills fields[1..count-1] with the last value of each; false: this is no such message. */
bool wire_read(const void *message, size_t size, piece *fields, size_t count);
#endif
