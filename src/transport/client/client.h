/* What channels and the calls on them are made of, over any transport. Internal. */
#ifndef TRN_TRANSPORT_CLIENT_H
#define TRN_TRANSPORT_CLIENT_H
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include <trunnion/client.h>

#include "core/core.h"

struct trn_connector {
  atomic_size_t refs;
  const trn_connector_ops *ops;
  void *self;
};

struct trn_channel {
  atomic_size_t refs;
  trn_connector *connector; /* a reference; NULL: routes of this process */
  const trn_channel_ops *ops;
  void *self;
  trn_metadata *metadata; /* one allocation */
  size_t metadata_count;
  size_t message_bytes_max, retry_bytes_max;
  trn_retry_policy retry;
};

/* A message that was sent and may have to be sent again. */
typedef struct kept_message {
  STAILQ_ENTRY(kept_message) link;
  atomic_size_t refs; /* the call's, and one for each slice that a transport holds */
  size_t size, count;
  unsigned flags;
  trn_slice *lent;    /* the same bytes, each slice with a reference to this */
  trn_slice slices[]; /* followed by `lent` and the copied bytes */
} kept_message;
typedef STAILQ_HEAD(kept_list, kept_message) kept_list;
/* Takes the slices when it gives a message; NULL: no memory, nothing was taken. */
kept_message *trn__kept_create(const trn_slice *slices, size_t count, unsigned flags);
const trn_slice *trn__kept_lend(kept_message *message); /* the slices, to be taken by a transport */
void trn__kept_unref(kept_message *message);
void trn__kept_release(kept_list *list);

/* A copy in one allocation of what comes first and what comes then; NULL: no memory, or none given. */
trn_metadata *trn__client_metadata_copy(const trn_metadata *first, size_t first_count, const trn_metadata *then,
                                        size_t then_count);
trn_retry_policy trn__client_retry_read(const trn_retry_policy *given);

#endif
