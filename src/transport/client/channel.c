/* Connectors and channels: reference counts, and what a channel's options say about its calls. */
#include <stdlib.h>

#include "client.h"
#include "transport/inproc/inproc.h"

/* ---- connectors ---- */

trn_status trn_connector_create(const trn_connector_ops *ops, void *self, trn_connector **out) {
  *out = NULL;
  trn_connector *connector = ops && ops->open && ops->destroy ? calloc(1, sizeof *connector) : NULL;
  if (!connector) {
    if (ops && ops->destroy) ops->destroy(self);
    return ops && ops->open && ops->destroy ? TRN_RESOURCE_EXHAUSTED : TRN_INVALID_ARGUMENT;
  }
  atomic_init(&connector->refs, 1);
  connector->ops = ops;
  connector->self = self;
  *out = connector;
  return TRN_OK;
}

trn_connector *trn_connector_ref(trn_connector *connector) {
  atomic_fetch_add_explicit(&connector->refs, 1, memory_order_relaxed);
  return connector;
}

void trn_connector_unref(trn_connector *connector) {
  if (!connector || atomic_fetch_sub_explicit(&connector->refs, 1, memory_order_acq_rel) != 1) return;
  connector->ops->destroy(connector->self);
  free(connector);
}

/* ---- channels ---- */

trn_metadata *trn__client_metadata_copy(const trn_metadata *first, size_t first_count, const trn_metadata *then,
                                        size_t then_count) {
  size_t count = first_count + then_count;
  if (!count) return NULL;
  size_t size = count * sizeof(trn_metadata);
  for (size_t i = 0; i < count; i++) {
    const trn_metadata *entry = i < first_count ? &first[i] : &then[i - first_count];
    if (entry->size > UINT32_MAX) return NULL;
    size += strlen(entry->key) + entry->size + 2;
  }
  trn_metadata *copy = malloc(size);
  if (!copy) return NULL;
  char *at = (char *)&copy[count];
  for (size_t i = 0; i < count; i++) {
    const trn_metadata *entry = i < first_count ? &first[i] : &then[i - first_count];
    size_t key_size = strlen(entry->key) + 1;
    memcpy(at, entry->key, key_size);
    if (entry->size) memcpy(at + key_size, entry->value, entry->size);
    at[key_size + entry->size] = 0;
    copy[i] = (trn_metadata){at, at + key_size, entry->size};
    at += key_size + entry->size + 1;
  }
  return copy;
}

trn_retry_policy trn__client_retry_read(const trn_retry_policy *given) {
  trn_retry_policy policy = {0};
  size_t size = sizeof policy;
  if (given && given->struct_size && given->struct_size < size) size = given->struct_size;
  if (given) memcpy(&policy, given, size);
  if (policy.attempts_max > TRN_CLIENT_ATTEMPTS_MAX) policy.attempts_max = TRN_CLIENT_ATTEMPTS_MAX;
  if (!policy.backoff_ms) policy.backoff_ms = TRN_CLIENT_RETRY_BACKOFF_MS;
  if (!policy.backoff_ms_max) policy.backoff_ms_max = TRN_CLIENT_RETRY_BACKOFF_MS_MAX;
  if (!policy.statuses) policy.statuses = 1u << TRN_UNAVAILABLE;
  return policy;
}

static trn_status open_transport(trn_channel *channel, trn_connector *connector, const trn_channel_options *options,
                                 trn_error **error) {
  if (options->routes) return trn__inproc_channel_open(options, &channel->ops, &channel->self, error);
  trn_status status = connector->ops->open(connector->self, options, &channel->ops, &channel->self, error);
  if (!status) channel->connector = trn_connector_ref(connector);
  return status;
}

trn_status trn_channel_open(trn_connector *connector, const trn_channel_options *given, trn_channel **out,
                            trn_error **error) {
  *out = NULL;
  trn_channel_options options = {0};
  size_t size = sizeof options;
  if (given && given->struct_size && given->struct_size < size) size = given->struct_size;
  if (given) memcpy(&options, given, size);
  options.struct_size = sizeof options;
  if (!options.routes && (!connector || !options.target)) {
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "A channel needs a connector and a target, or routes");
  }
  trn_channel *channel = calloc(1, sizeof *channel);
  if (!channel) return trn__no_memory(error);
  trn_status status = TRN_OK;
  atomic_init(&channel->refs, 1);
  channel->metadata = trn__client_metadata_copy(options.metadata, options.metadata_count, NULL, 0);
  channel->metadata_count = options.metadata_count;
  channel->message_bytes_max = options.message_bytes_max ? options.message_bytes_max : TRN_CLIENT_MESSAGE_BYTES_MAX;
  channel->retry_bytes_max = options.retry_bytes_max ? options.retry_bytes_max : TRN_CLIENT_RETRY_BYTES_MAX;
  channel->retry = trn__client_retry_read(&options.retry);
  if (options.metadata_count && !channel->metadata) {
    status = trn__no_memory(error);
  } else {
    status = open_transport(channel, connector, &options, error);
  }
  if (status) {
    free(channel->metadata);
    free(channel);
    return status;
  }
  *out = channel;
  return TRN_OK;
}

trn_channel *trn_channel_ref(trn_channel *channel) {
  atomic_fetch_add_explicit(&channel->refs, 1, memory_order_relaxed);
  return channel;
}

void trn_channel_unref(trn_channel *channel) {
  if (!channel || atomic_fetch_sub_explicit(&channel->refs, 1, memory_order_acq_rel) != 1) return;
  channel->ops->destroy(channel->self);
  trn_connector_unref(channel->connector);
  free(channel->metadata);
  free(channel);
}
