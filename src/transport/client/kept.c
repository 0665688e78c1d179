/* Sent messages that are kept for a retry: shared with the transport, so that their bytes are never copied for it. */
#include <stdlib.h>

#include "client.h"

kept_message *trn__kept_create(const trn_slice *slices, size_t count, unsigned flags) {
  size_t copied = 0, size = 0;
  for (size_t i = 0; i < count; i++) {
    if (slices[i].size > UINT32_MAX - size) return NULL; /* no message is that long: the transport says so */
    size += slices[i].size;
    if (!slices[i].release) copied += slices[i].size;
  }
  if (count > UINT32_MAX) return NULL;
  kept_message *message = malloc(sizeof *message + 2 * count * sizeof(trn_slice) + copied);
  if (!message) return NULL;
  atomic_init(&message->refs, 1);
  message->size = size;
  message->count = count;
  message->flags = flags;
  message->lent = &message->slices[count];
  uint8_t *at = (uint8_t *)&message->slices[2 * count];
  for (size_t i = 0; i < count; i++) {
    message->slices[i] = slices[i];
    if (slices[i].release || !slices[i].size) continue;
    memcpy(at, slices[i].data, slices[i].size);
    message->slices[i].data = at;
    at += slices[i].size;
  }
  return message;
}

static void release_lent(void *owner) {
  trn__kept_unref(owner);
}

const trn_slice *trn__kept_lend(kept_message *message) {
  atomic_fetch_add_explicit(&message->refs, message->count, memory_order_relaxed);
  for (size_t i = 0; i < message->count; i++) {
    message->lent[i] = (trn_slice){message->slices[i].data, message->slices[i].size, release_lent, message};
  }
  return message->lent;
}

void trn__kept_unref(kept_message *message) {
  if (atomic_fetch_sub_explicit(&message->refs, 1, memory_order_acq_rel) != 1) return;
  for (size_t i = 0; i < message->count; i++) {
    if (message->slices[i].release) message->slices[i].release(message->slices[i].owner);
  }
  free(message);
}

void trn__kept_release(kept_list *list) {
  while (!STAILQ_EMPTY(list)) {
    kept_message *first = STAILQ_FIRST(list);
    STAILQ_REMOVE_HEAD(list, link);
    trn__kept_unref(first);
  }
}
