/* A call without a network that blocks until it ends. */
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "inproc_call.h"

typedef struct waiting {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bool is_finished, is_out_of_memory;
  trn_inproc_reply *reply;
  size_t capacity;
} waiting;

static void on_message(void *user, trn_slice slice) {
  waiting *waiting = user;
  trn_inproc_reply *reply = waiting->reply; /* delivery thread only, until is_finished */
  if (reply->message_count == waiting->capacity) {
    size_t capacity = waiting->capacity ? waiting->capacity * 2 : 8;
    trn_slice *messages = realloc(reply->messages, capacity * sizeof *messages);
    if (!messages) {
      waiting->is_out_of_memory = true;
      if (slice.release) slice.release(slice.owner);
      return;
    }
    reply->messages = messages;
    waiting->capacity = capacity;
  }
  reply->messages[reply->message_count++] = slice;
}

static void on_finish(void *user, const trn_inproc_result *result) {
  waiting *waiting = user;
  trn_inproc_reply *reply = waiting->reply;
  reply->status = result->status;
  reply->message = strdup(result->message);
  reply->details = result->details ? malloc(result->details_size + 1) : NULL;
  if (reply->details) memcpy(reply->details, result->details, result->details_size);
  reply->details_size = reply->details ? result->details_size : 0;
  reply->initial = trn__inproc_copy_metadata(result->initial, result->initial_count);
  reply->initial_count = reply->initial ? result->initial_count : 0;
  reply->trailing = trn__inproc_copy_metadata(result->trailing, result->trailing_count);
  reply->trailing_count = reply->trailing ? result->trailing_count : 0;
  waiting->is_out_of_memory |= !reply->message || (result->details && !reply->details) ||
                               reply->initial_count != result->initial_count ||
                               reply->trailing_count != result->trailing_count;
  pthread_mutex_lock(&waiting->mutex);
  waiting->is_finished = true;
  pthread_cond_signal(&waiting->changed);
  pthread_mutex_unlock(&waiting->mutex);
}

trn_status trn__inproc_invoke(trn_inproc *inproc, const trn_inproc_request *request, const trn_slice *requests,
                              size_t request_count, trn_inproc_reply *reply) {
  *reply = (trn_inproc_reply){0};
  waiting waiting = {.reply = reply};
  trn_inproc_request own = *request;
  trn_inproc_call *call = NULL;
  own.on_message = on_message;
  own.on_finish = on_finish;
  own.user = &waiting;
  own.reads_when_asked = false;
  pthread_mutex_init(&waiting.mutex, NULL);
  pthread_cond_init(&waiting.changed, NULL);
  trn_status status = trn__inproc_call(inproc, &own, &call);
  size_t sent = 0;
  if (status) goto end;
  for (; sent < request_count; sent++) trn__inproc_call_send(call, requests[sent]);
  trn__inproc_call_half_close(call);
  pthread_mutex_lock(&waiting.mutex);
  while (!waiting.is_finished) pthread_cond_wait(&waiting.changed, &waiting.mutex);
  pthread_mutex_unlock(&waiting.mutex);
  if (waiting.is_out_of_memory) status = TRN_RESOURCE_EXHAUSTED;
end:
  for (; sent < request_count; sent++) {
    if (requests[sent].release) requests[sent].release(requests[sent].owner);
  }
  trn__inproc_call_unref(call);
  pthread_cond_destroy(&waiting.changed);
  pthread_mutex_destroy(&waiting.mutex);
  return status;
}

void trn__inproc_reply_finish(trn_inproc_reply *reply) {
  for (size_t i = 0; i < reply->message_count; i++) {
    if (reply->messages[i].release) reply->messages[i].release(reply->messages[i].owner);
  }
  free(reply->messages);
  free(reply->message);
  free(reply->details);
  free(reply->initial);
  free(reply->trailing);
  *reply = (trn_inproc_reply){0};
}
