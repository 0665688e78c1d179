/* What a call without a network is made of. */
#ifndef TRN_TRANSPORT_INPROC_CALL_H
#define TRN_TRANSPORT_INPROC_CALL_H
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "inproc.h"

typedef struct message {
  STAILQ_ENTRY(message) link;
  trn_slice slice;
} message;
typedef STAILQ_HEAD(message_list, message) message_list;

struct trn_inproc_call {
  atomic_size_t refs; /* the caller's, the delivery thread's until the end, the trn_call's until it is destroyed */
  trn_inproc *inproc; /* a reference */
  const trn_method *method; /* NULL: the path is unknown */
  trn_call *call;           /* delivery thread only */
  void (*on_initial)(void *user, const trn_metadata *metadata, size_t count);
  void (*on_message)(void *user, trn_slice message);
  void (*on_writable)(void *user);
  void (*on_finish)(void *user, const trn_inproc_result *result);
  void *user;
  int64_t deadline_ns;
  size_t message_bytes_max, response_bytes_max, send_high_water;
  bool is_single; /* takes one request message, unasked */

  /* the client's mutex held */
  TAILQ_ENTRY(trn_inproc_call) link, ready_link;
  bool is_listed, is_opened, is_message_delivered, is_half_closed, is_half_close_delivered;
  bool is_ended;     /* the status is known: by the frontend's finish, or by the host */
  bool is_cancelled; /* ended otherwise than by the frontend's finish */
  bool is_cancel_delivered, is_over, is_sending, wants_writable;
  bool is_initial_delivered, client_wants_writable;
  size_t request_bytes;   /* not delivered yet */
  size_t wanted, credits; /* SIZE_MAX: the client reads everything */
  message_list requests, responses;
  size_t queued_bytes;
  trn_status status;
  char *message;
  void *details;
  size_t details_size;
  trn_metadata *initial, *trailing;
  size_t initial_count, trailing_count;
};

/* What runs later on the delivery thread. */
typedef struct inproc_task {
  LIST_ENTRY(inproc_task) link;
  int64_t at_ns;
  void (*run)(void *argument);
  void *argument;
} inproc_task;

struct trn_inproc {
  atomic_size_t refs; /* the creator's and the calls' */
  const trn_routes *routes;
  pthread_t thread;
  pthread_mutex_t mutex; /* all below, and the calls */
  pthread_cond_t changed;
  TAILQ_HEAD(, trn_inproc_call) calls, ready;
  int64_t deadline_ns; /* the earliest of the calls, or earlier */
  LIST_HEAD(, inproc_task) tasks;
  int64_t task_ns; /* the earliest of the tasks, or earlier */
  bool stops;
};

trn_metadata *trn__inproc_copy_metadata(const trn_metadata *metadata, size_t count);

#endif
