/* A unary call of a client that blocks until it ends. */
#include <stdlib.h>

#include "client.h"

typedef struct waiting {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bool is_done, is_out_of_memory;
  trn_client_reply *reply; /* the callbacks' until is_done */
} waiting;

static void on_message(trn_client_call *call, void *user, trn_slice message) {
  (void)call;
  waiting *waiting = user;
  if (!message.release) { /* borrowed: it would not live longer than this function */
    void *copy = malloc(message.size + 1);
    waiting->is_out_of_memory |= !copy;
    if (copy && message.size) memcpy(copy, message.data, message.size);
    message = (trn_slice){copy, copy ? message.size : 0, copy ? free : NULL, copy};
  }
  waiting->reply->response = message;
}

static void on_done(trn_client_call *call, void *user, const trn_client_result *result) {
  (void)call;
  waiting *waiting = user;
  trn_client_reply *reply = waiting->reply;
  reply->status = result->status;
  reply->message = strdup(result->message);
  reply->details = result->details ? malloc(result->details_size + 1) : NULL;
  if (reply->details && result->details_size) memcpy(reply->details, result->details, result->details_size);
  reply->details_size = reply->details ? result->details_size : 0;
  reply->initial = trn__client_metadata_copy(result->initial, result->initial_count, NULL, 0);
  reply->initial_count = reply->initial ? result->initial_count : 0;
  reply->trailing = trn__client_metadata_copy(result->trailing, result->trailing_count, NULL, 0);
  reply->trailing_count = reply->trailing ? result->trailing_count : 0;
  waiting->is_out_of_memory |= !reply->message || (result->details && !reply->details) ||
                               reply->initial_count != result->initial_count ||
                               reply->trailing_count != result->trailing_count;
  pthread_mutex_lock(&waiting->mutex);
  waiting->is_done = true;
  pthread_cond_signal(&waiting->changed);
  pthread_mutex_unlock(&waiting->mutex);
}

trn_status trn_client_invoke(trn_channel *channel, const trn_client_request *request, const trn_slice *slices,
                             size_t count, trn_client_reply *reply, trn_error **error) {
  static const trn_client_handlers handlers = {
      .struct_size = sizeof handlers, .on_message = on_message, .on_done = on_done};
  *reply = (trn_client_reply){.struct_size = sizeof *reply};
  waiting waiting = {.reply = reply};
  trn_client_request own = {0};
  trn_client_call *call = NULL;
  size_t size = sizeof own;
  if (request && request->struct_size && request->struct_size < size) size = request->struct_size;
  if (request) memcpy(&own, request, size);
  own.kind = TRN_METHOD_UNARY;
  own.handlers = &handlers;
  own.user = &waiting;
  pthread_mutex_init(&waiting.mutex, NULL);
  pthread_cond_init(&waiting.changed, NULL);
  trn_status status = trn_client_call_start(channel, &own, &call, error);
  if (status) {
    for (size_t i = 0; i < count; i++) {
      if (slices[i].release) slices[i].release(slices[i].owner);
    }
    goto end;
  }
  trn_client_call_send(call, slices, count, own.compress ? TRN_SEND_MORE | TRN_SEND_COMPRESS : TRN_SEND_MORE);
  trn_client_call_half_close(call);
  pthread_mutex_lock(&waiting.mutex);
  while (!waiting.is_done) pthread_cond_wait(&waiting.changed, &waiting.mutex);
  pthread_mutex_unlock(&waiting.mutex);
  if (waiting.is_out_of_memory) status = trn__no_memory(error);
end:
  trn_client_call_unref(call);
  pthread_cond_destroy(&waiting.changed);
  pthread_mutex_destroy(&waiting.mutex);
  return status;
}

void trn_client_reply_finish(trn_client_reply *reply) {
  if (!reply) return;
  if (reply->response.release) reply->response.release(reply->response.owner);
  free(reply->message);
  free(reply->details);
  free(reply->initial);
  free(reply->trailing);
  *reply = (trn_client_reply){0};
}
