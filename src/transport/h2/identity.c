/* Who calls: the server's authenticator is asked off the loop. A connection remembers its last answer for a short time,
 * so that a client which sends the same credentials with every call is not asked for each of them. */
#include <stdio.h>
#include <time.h>

#include "h2.h"

struct h2_known {
  char *authorization; /* NULL: none */
  int64_t until_ns;
  uint64_t reloads; /* of the authenticator, before it was asked */
  trn_identity identity;
};

/* One question. Holds a reference to the stream until it is answered. */
typedef struct inquiry {
  uv_work_t work; /* first */
  h2_stream *stream;
  h2_identified then;
  char *authorization, *certificate, *peer;
  trn_authenticator *authenticator;
  uint64_t reloads;
  trn_status status;
  trn_identity identity;
  trn_error *error;
} inquiry;

static void release_identity(trn_identity *identity) {
  if (identity->release) identity->release(identity);
  *identity = (trn_identity){0};
}

void trn__h2_known_destroy(h2_known *known) {
  if (!known) return;
  release_identity(&known->identity);
  free(known->authorization);
  free(known);
}

static void destroy_inquiry(inquiry *inquiry) {
  release_identity(&inquiry->identity);
  trn_error_unref(inquiry->error);
  free(inquiry->authorization);
  free(inquiry->certificate);
  free(inquiry->peer);
  trn__h2_stream_unref(inquiry->stream);
  free(inquiry);
}

static bool same_text(const char *a, const char *b) {
  return a && b ? strcmp(a, b) == 0 : !a && !b;
}

/* thread: libuv's pool */
static void on_work(uv_work_t *work) {
  inquiry *inquiry = (struct inquiry *)work;
  trn_credentials credentials = {.struct_size = sizeof credentials,
                                 .authorization = inquiry->authorization,
                                 .certificate = inquiry->certificate,
                                 .peer = inquiry->peer};
  inquiry->identity.struct_size = sizeof inquiry->identity;
  inquiry->status = trn_authenticate(inquiry->authenticator, &credentials, &inquiry->identity, &inquiry->error);
}

static int64_t known_ms(const trn_identity *identity) {
  if (!identity->expires_ms) return TRN_H2_AUTH_CACHE_MS;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  int64_t left = identity->expires_ms - ((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
  return left < TRN_H2_AUTH_CACHE_MS ? left : TRN_H2_AUTH_CACHE_MS;
}

/* The connection remembers; takes the identity and the text out of the inquiry. NULL: it does not. */
static h2_known *remember(h2_conn *conn, inquiry *inquiry) {
  int64_t ms = known_ms(&inquiry->identity);
  bool is_long = inquiry->authorization && strlen(inquiry->authorization) > TRN_H2_AUTH_BYTES_MAX;
  h2_known *known = ms > 0 && !is_long ? calloc(1, sizeof *known) : NULL;
  if (!known) return NULL;
  known->authorization = inquiry->authorization;
  known->identity = inquiry->identity;
  known->reloads = inquiry->reloads;
  known->until_ns = trn__h2_now_ns() + ms * 1000000;
  inquiry->authorization = NULL;
  inquiry->identity = (trn_identity){0};
  trn__h2_known_destroy(conn->known);
  conn->known = known;
  return known;
}

static void on_answer(uv_work_t *work, int cancelled) {
  inquiry *inquiry = (struct inquiry *)work;
  h2_stream *stream = inquiry->stream;
  h2_loop *loop = stream->loop;
  loop->working--;
  if (cancelled) inquiry->status = TRN_UNAVAILABLE;
  if (stream->conn && inquiry->status == TRN_OK) {
    const h2_known *known = remember(stream->conn, inquiry);
    inquiry->then(stream, TRN_OK, NULL, known ? &known->identity : &inquiry->identity);
  } else if (stream->conn) {
    const char *words = trn_error_message(inquiry->error);
    inquiry->then(stream, inquiry->status, words[0] ? words : "The caller could not be identified", NULL);
  }
  destroy_inquiry(inquiry);
  trn__h2_loop_settle(loop);
}

static char *copy(const char *text, bool *ok) {
  char *copied = text ? strdup(text) : NULL;
  *ok &= !text || copied;
  return copied;
}

void trn__h2_identify(h2_stream *stream, const char *authorization, h2_identified then) {
  h2_conn *conn = stream->conn;
  h2_loop *loop = stream->loop;
  const h2_known *known = conn->known;
  uint64_t reloads = trn_authenticator_reloads(loop->server->authenticator);
  if (known && known->reloads == reloads && same_text(known->authorization, authorization) &&
      trn__h2_now_ns() < known->until_ns) {
    then(stream, TRN_OK, NULL, &known->identity);
    return;
  }
  bool ok = true;
  inquiry *inquiry = calloc(1, sizeof *inquiry);
  if (!inquiry) {
    then(stream, TRN_RESOURCE_EXHAUSTED, "No memory to identify the caller", NULL);
    return;
  }
  atomic_fetch_add_explicit(&stream->refs, 1, memory_order_relaxed);
  inquiry->stream = stream;
  inquiry->then = then;
  inquiry->reloads = reloads;
  inquiry->authenticator = loop->server->authenticator;
  inquiry->authorization = copy(authorization, &ok);
  inquiry->certificate = copy(conn->identity[0] ? conn->identity : NULL, &ok);
  inquiry->peer = copy(conn->peer, &ok);
  ok = ok && uv_queue_work(&loop->uv, &inquiry->work, on_work, on_answer) == 0;
  if (ok) {
    loop->working++;
    return;
  }
  destroy_inquiry(inquiry);
  then(stream, TRN_RESOURCE_EXHAUSTED, "No memory to identify the caller", NULL);
}
