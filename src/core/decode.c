/* Decoders by format: calling them, and waiting for those that answer later. */
#include <errno.h>
#include <stdlib.h>

#include "core/query.h"
#include "core/registry.h"

enum { DECODE_POLL_MS = 50 }; /* how often a wait asks whether it is still wanted */

typedef struct decoder {
  trn_decoder_ops ops;
  void *self;
} decoder;

static void decoder_destroy(void *object) {
  decoder *d = object;
  if (d->ops.destroy) d->ops.destroy(d->self);
  free(d);
}

trn_status trn_registry_add_decoder(trn_registry *registry, const char *format, const trn_decoder_ops *given,
                                    void *self, trn_error **error) {
  trn_decoder_ops ops = {0};
  if (given) memcpy(&ops, given, trn__struct_size(given->struct_size, sizeof ops));
  if ((!ops.decode && !ops.start) || (ops.start && !ops.cancel))
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A decoder needs decode, or start and cancel");
  decoder *d = malloc(sizeof *d);
  if (!d) return trn__no_memory(error);
  *d = (decoder){ops, self};
  const registry_entry entry = {.object = d, .destroy = decoder_destroy};
  trn_status status = trn__registry_add(registry, REGISTRY_DECODER, format, &entry, error);
  if (status) free(d);
  return status;
}

const char *trn_registry_decoder_at(const trn_registry *registry, size_t index) {
  return trn__registry_name_at(registry, REGISTRY_DECODER, index);
}

/* ---- answers that come later ---- */

bool trn_decode_answer(trn_decode_ticket ticket, trn_status status, trn_plan *plan, trn_error *error) {
  trn_registry *registry = ticket.owner;
  pthread_mutex_lock(&registry->mutex);
  decode_wait *wait = registry->waits;
  while (wait && wait->id != ticket.id) wait = wait->next;
  bool wanted = wait && !wait->answered;
  if (wanted) {
    wait->answered = true;
    wait->status = status;
    wait->plan = plan;
    wait->error = error;
    pthread_cond_broadcast(&registry->answered);
  }
  pthread_mutex_unlock(&registry->mutex);
  if (!wanted) {
    trn_plan_unref(plan);
    trn_error_unref(error);
  }
  return wanted;
}

static void wait_begin(trn_registry *registry, decode_wait *wait) {
  pthread_mutex_lock(&registry->mutex);
  wait->id = ++registry->next_ticket;
  wait->next = registry->waits;
  registry->waits = wait;
  pthread_mutex_unlock(&registry->mutex);
}

static void wait_end(trn_registry *registry, decode_wait *wait) {
  pthread_mutex_lock(&registry->mutex);
  decode_wait **link = &registry->waits;
  while (*link != wait) link = &(*link)->next;
  *link = wait->next;
  pthread_mutex_unlock(&registry->mutex);
}

/* Until it is answered, given up, or `until_ns`. */
static trn_status wait_for(trn_registry *registry, decode_wait *wait, const trn_decode_options *options,
                           int64_t until_ns) {
  trn_status status = TRN_OK;
  pthread_mutex_lock(&registry->mutex);
  while (!wait->answered && !status) {
    int64_t now = trn__now_ns(), next = now + DECODE_POLL_MS * 1000000ll;
    if (now >= until_ns) {
      status = TRN_DEADLINE_EXCEEDED;
      break;
    }
    if (next > until_ns) next = until_ns;
    const struct timespec at = {.tv_sec = next / 1000000000, .tv_nsec = next % 1000000000};
    pthread_cond_timedwait(&registry->answered, &registry->mutex, &at);
    if (wait->answered || !options->is_cancelled) continue;
    pthread_mutex_unlock(&registry->mutex); /* no lock while calling out */
    if (options->is_cancelled(options->user)) status = TRN_CANCELLED;
    pthread_mutex_lock(&registry->mutex);
  }
  pthread_mutex_unlock(&registry->mutex);
  return status;
}

static trn_status decode_later(trn_registry *registry, const decoder *d, trn_session *session,
                               const trn_plan_input *input, const trn_decode_options *options, trn_plan **out,
                               trn_error **error) {
  decode_wait wait = {0};
  uint64_t timeout_ms = options->timeout_ms ? options->timeout_ms : TRN_DECODE_WAIT_MS;
  int64_t now = trn__now_ns();
  int64_t until = timeout_ms > (uint64_t)(INT64_MAX - now) / 1000000 ? INT64_MAX : now + (int64_t)timeout_ms * 1000000;
  wait_begin(registry, &wait);
  const trn_decode_ticket ticket = {registry, wait.id};
  trn_status status = d->ops.start(d->self, session, input, ticket, error);
  bool started = status == TRN_OK;
  if (started) status = wait_for(registry, &wait, options, until);
  /* A decoder that answered all the same, in between, is not cancelled: it is over. */
  wait_end(registry, &wait);
  if (started && !wait.answered) d->ops.cancel(d->self, ticket);
  if (wait.answered && started) {
    status = wait.status;
    if (status && error) {
      *error = wait.error;
      wait.error = NULL;
    }
    if (!status) {
      *out = wait.plan;
      wait.plan = NULL;
    }
  } else if (started) {
    trn_error_set(error, status, NULL,
                  status == TRN_CANCELLED ? "The query was cancelled while its plan was decoded"
                                          : "The decoder of '%s' did not answer within %llu ms",
                  input->format, (unsigned long long)timeout_ms);
  }
  trn_plan_unref(wait.plan);
  trn_error_unref(wait.error);
  return status;
}

/* ---- calling ---- */

trn_status trn_registry_decode(const trn_registry *registry, trn_session *session, const trn_plan_input *given,
                               const trn_decode_options *given_options, trn_plan **out, trn_error **error) {
  trn_plan_input input = {0};
  trn_decode_options options = {0};
  *out = NULL;
  memcpy(&input, given, trn__struct_size(given->struct_size, sizeof input));
  input.struct_size = sizeof input;
  if (given_options) memcpy(&options, given_options, trn__struct_size(given_options->struct_size, sizeof options));
  const char *format = input.format ? input.format : "";
  const registry_entry *entry = trn__registry_find(registry, REGISTRY_DECODER, format);
  if (!entry) return trn__registry_unknown(registry, REGISTRY_DECODER, format, TRN_INVALID_ARGUMENT, error);
  const decoder *d = entry->object;
  trn_status status = d->ops.start ? decode_later((trn_registry *)registry, d, session, &input, &options, out, error)
                                   : d->ops.decode(d->self, session, &input, out, error);
  if (!status && !*out)
    status = trn_error_set(error, TRN_INTERNAL, NULL, "The decoder of '%s' gave no plan and no error", format);
  return status;
}
