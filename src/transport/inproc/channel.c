/* A channel to routes of the same process: client.h's transport without a network. */
#include <stdlib.h>

#include "core/core.h"
#include "inproc_call.h"

typedef struct channel {
  trn_inproc *inproc;
  size_t send_high_water;
} channel;

typedef struct attempt {
  trn_client_attempt *attempt;
  trn_inproc_call *call;
} attempt;

/* ---- deliveries ---- */

static void on_initial(void *user, const trn_metadata *metadata, size_t count) {
  attempt *own = user;
  trn_client_attempt_initial(own->attempt, metadata, count);
}

static void on_message(void *user, trn_slice message) {
  attempt *own = user;
  trn_client_attempt_message(own->attempt, message);
}

static void on_writable(void *user) {
  attempt *own = user;
  trn_client_attempt_writable(own->attempt);
}

static void on_finish(void *user, const trn_inproc_result *given) {
  attempt *own = user;
  trn_client_result result = {
      .struct_size = sizeof result,
      .status = given->status,
      .message = given->message,
      .details = given->details,
      .details_size = given->details_size,
      .initial = given->initial,
      .initial_count = given->initial_count,
      .trailing = given->trailing,
      .trailing_count = given->trailing_count,
  };
  trn_client_attempt_done(own->attempt, &result);
}

/* ---- an attempt. thread: any ---- */

static trn_send_result attempt_send(void *self, const trn_slice *slices, size_t count, unsigned flags) {
  (void)flags;
  attempt *own = self;
  return trn__inproc_call_send_slices(own->call, slices, count);
}

static void attempt_half_close(void *self) {
  attempt *own = self;
  trn__inproc_call_half_close(own->call);
}

static void attempt_recv(void *self) {
  attempt *own = self;
  trn__inproc_call_read(own->call, 1);
}

static void attempt_cancel(void *self, trn_status status) {
  attempt *own = self;
  trn__inproc_call_fail(own->call, status,
                        status == TRN_CANCELLED ? "Cancelled by the client"
                                                : "The response is not what the method gives");
}

static void attempt_destroy(void *self) {
  attempt *own = self;
  trn__inproc_call_unref(own->call);
  free(own);
}

static const trn_client_host host = {
    .struct_size = sizeof(trn_client_host),
    .send = attempt_send,
    .half_close = attempt_half_close,
    .recv = attempt_recv,
    .cancel = attempt_cancel,
    .destroy = attempt_destroy,
};

/* ---- the channel ---- */

static trn_status channel_start(void *self, const trn_client_start *start, trn_client_attempt *to,
                                const trn_client_host **out_host, void **out) {
  channel *channel = self;
  attempt *own = calloc(1, sizeof *own);
  if (!own) return TRN_RESOURCE_EXHAUSTED;
  own->attempt = to;
  trn_inproc_request request = {
      .path = start->path,
      .metadata = start->metadata,
      .metadata_count = start->metadata_count,
      .deadline_ns = start->deadline_ns,
      .response_bytes_max = start->message_bytes_max,
      .send_high_water = channel->send_high_water,
      .reads_when_asked = true,
      .on_initial = on_initial,
      .on_message = on_message,
      .on_writable = on_writable,
      .on_finish = on_finish,
      .user = own,
  };
  trn_status status = trn__inproc_call(channel->inproc, &request, &own->call);
  if (status) {
    free(own);
    return status;
  }
  /* One more than a single response may have: a second one is an error, not a message that waits for ever. */
  if (start->kind == TRN_METHOD_UNARY || start->kind == TRN_METHOD_CLIENT_STREAM) trn__inproc_call_read(own->call, 2);
  *out_host = &host;
  *out = own;
  return TRN_OK;
}

static trn_status channel_run_after(void *self, unsigned delay_ms, void (*run)(void *argument), void *argument) {
  channel *channel = self;
  return trn__inproc_run_after(channel->inproc, (int64_t)delay_ms * 1000000, run, argument);
}

static void channel_destroy(void *self) {
  channel *channel = self;
  trn__inproc_release(channel->inproc);
  free(channel);
}

static const trn_channel_ops operations = {
    .struct_size = sizeof(trn_channel_ops),
    .start = channel_start,
    .run_after = channel_run_after,
    .destroy = channel_destroy,
};

trn_status trn__inproc_channel_open(const trn_channel_options *options, const trn_channel_ops **ops, void **out,
                                    trn_error **error) {
  channel *channel = calloc(1, sizeof *channel);
  if (!channel) return trn__no_memory(error);
  channel->send_high_water = options->send_high_water;
  trn_status status = trn__inproc_create(options->routes, &channel->inproc);
  if (status) {
    free(channel);
    return trn_error_set(error, status, NULL, "No memory or no thread for a channel");
  }
  *ops = &operations;
  *out = channel;
  return TRN_OK;
}
