/* The provider in the Flight service. A ticket is all that a client brings: it sends no credentials when it fetches, so
 * what lets it in is the secret that it was told as the location's file id. */
#include "frontend/ballista/ballista.h"

enum { TICKET_FETCH_TAG = 0x1A /* field 3, a message */, TICKET_BYTES_MAX = 1 << 20, TICKET_STAGE = 1 };

/* An Action begins with what to fetch, or (settings, field 100) with two bytes that no other ticket begins with. */
bool ballista__claims(void *self, const void *ticket, size_t size) {
  const uint8_t *bytes = ticket;
  (void)self;
  return size > 1 && (bytes[0] == TICKET_FETCH_TAG || (bytes[0] == 0xA2 && bytes[1] == 0x06));
}

static bool is_ours(const Ballista__Protobuf__FetchPartition *fetch) {
  return fetch->stage_id == TICKET_STAGE && fetch->partition_id == 0 && !fetch->is_sort_shuffle &&
         fetch->layout == BALLISTA__PROTOBUF__SHUFFLE_LAYOUT__SHUFFLE_LAYOUT_PASSTHROUGH &&
         fetch->file_kind == BALLISTA__PROTOBUF__SHUFFLE_FILE_KIND__SHUFFLE_FILE_KIND_DATA && !fetch->n_byte_ranges &&
         fetch->has_file_id_case == BALLISTA__PROTOBUF__FETCH_PARTITION__HAS_FILE_ID_FILE_ID;
}

trn_status ballista__redeem(ballista_service *service, trn_arena *arena, const void *ticket, size_t size,
                            const char *user, bool is_authenticated, ballista_job **out, trn_error **error) {
  Ballista__Protobuf__Action *action;
  *out = NULL;
  if (size > TICKET_BYTES_MAX) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The ticket is too long");
  trn_status status = ballista__decode(arena, &ballista__protobuf__action__descriptor, ticket, size, &action, error);
  if (status) return status;
  if (action->action_type_case != BALLISTA__PROTOBUF__ACTION__ACTION_TYPE_FETCH_PARTITION)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The ticket asks for nothing");
  const Ballista__Protobuf__FetchPartition *fetch = action->fetch_partition;
  ballista_job *job = NULL;
  if (is_ours(fetch)) {
    /* Without credentials the secret alone counts; with them, they must be those of who was told it. */
    status = ballista__job_get(service, fetch->job_id, &job, error);
    if (status) return status;
    bool is_theirs = job && (!is_authenticated || (job->is_authenticated && strcmp(job->user, user) == 0));
    if (!is_theirs || (job->secret ^ fetch->file_id) != 0) {
      ballista__job_unref(job);
      job = NULL;
    }
  }
  if (!job) return trn_error_set(error, TRN_NOT_FOUND, NULL, "There is no result for this ticket");
  *out = job;
  return TRN_OK;
}

static void on_sent(void *user, trn_status status, int64_t rows) {
  ballista_job *job = user;
  (void)rows;
  pthread_mutex_lock(&job->mutex);
  job->fetching--;
  if (!status) job->is_fetched = true;
  /* It can be fetched again for as long as it could the first time. */
  job->result_expires_ns = trn__now_ns() + (int64_t)job->service->result_ms * 1000000;
  pthread_mutex_unlock(&job->mutex);
  ballista__job_unref(job);
}

trn_status ballista__do_get(void *self, flight_rpc *rpc, const void *ticket, size_t size, trn_error **error) {
  ballista_service *service = self;
  ballista_job *job = NULL;
  ballista_result *result = NULL;
  trn_stream *stream = NULL;
  const char *user = trn_call_identity(rpc->call);
  bool is_authenticated = user != NULL;
  if (!user && rpc->session) {
    user = rpc->session->user;
    is_authenticated = rpc->session->is_authenticated;
  }
  trn_status status =
      ballista__redeem(service, rpc->arena, ticket, size, user ? user : "", is_authenticated, &job, error);
  if (status) return status;
  pthread_mutex_lock(&job->mutex);
  if (job->result) result = ballista__result_ref(job->result);
  job->fetching++; /* a fetch that lasts keeps what it fetches */
  trn_job *stored = job->stored;
  pthread_mutex_unlock(&job->mutex);
  status = stored   ? trn_job_output(stored, &stream, error)
           : result ? ballista__result_open(result, &stream, error)
                    : trn_error_set(error, TRN_NOT_FOUND, NULL,
                                  "The result of this ticket is gone: it has expired, or was removed");
  if (status) {
    on_sent(job, status, 0);
  } else {
    flight__send_stream(rpc, NULL, stream, TRN_FLIGHT_BATCH_BYTES, on_sent, job);
  }
  ballista__result_unref(result);
  return status;
}
