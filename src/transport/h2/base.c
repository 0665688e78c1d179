/* What a server and a connector of channels have in common: loops, nghttp2's settings, a memory budget. */
#include <errno.h>
#include <time.h>

#include "h2.h"

bool trn__h2_base_hold(h2_base *base, size_t bytes) {
  size_t before = atomic_fetch_add_explicit(&base->held_bytes, bytes, memory_order_relaxed);
  if (before <= base->memory_bytes_max && bytes <= base->memory_bytes_max - before) return true;
  atomic_fetch_sub_explicit(&base->held_bytes, bytes, memory_order_relaxed);
  return false;
}

void trn__h2_base_unhold(h2_base *base, size_t bytes) {
  atomic_fetch_sub_explicit(&base->held_bytes, bytes, memory_order_relaxed);
}

bool trn__h2_base_create_parts(h2_base *base) {
  pthread_condattr_t attributes;
  pthread_mutex_init(&base->mutex, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&base->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  if (trn__h2_session_callbacks(&base->callbacks) != TRN_OK) return false;
  if (nghttp2_option_new(&base->session_option) != 0) return false;
  nghttp2_option_set_no_auto_window_update(base->session_option, 1);
  nghttp2_option_set_no_closed_streams(base->session_option, 1);
  nghttp2_option_set_stream_reset_rate_limit(base->session_option, TRN_H2_RESETS_BURST, TRN_H2_RESETS_PER_S);
  nghttp2_option_set_max_send_header_block_length(base->session_option, TRN_H2_RESPONSE_BLOCK_MAX);
  return true;
}

trn_status trn__h2_base_start(h2_base *base, unsigned loops, trn_server *server, bool has_threads) {
  base->loops = calloc(loops, sizeof *base->loops);
  if (!base->loops) return TRN_RESOURCE_EXHAUSTED;
  base->loop_count = loops;
  for (unsigned i = 0; i < loops; i++) {
    trn_status status = trn__h2_loop_init(&base->loops[i], base, server, server && i == 0);
    if (status) return status;
  }
  /* The listener's last: it hands connections to the others. */
  for (unsigned i = loops; i-- > 0;) {
    if (!has_threads) {
      base->loops[i].self = pthread_self();
      continue;
    }
    trn_status status = trn__h2_loop_start(&base->loops[i]);
    if (status) return status;
  }
  return TRN_OK;
}

void trn__h2_base_stage(h2_base *base, h2_stage stage) {
  atomic_store(&base->stage, stage);
  for (unsigned i = 0; i < base->loop_count; i++) {
    if (base->loops[i].has_thread) trn__h2_loop_wake(&base->loops[i]);
  }
}

bool trn__h2_base_wait(h2_base *base, unsigned timeout_ms) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  int64_t ns = until.tv_nsec + (int64_t)timeout_ms * 1000000;
  until.tv_sec += (time_t)(ns / 1000000000);
  until.tv_nsec = (long)(ns % 1000000000);
  pthread_mutex_lock(&base->mutex);
  int rc = 0;
  while (base->running && rc != ETIMEDOUT) rc = pthread_cond_timedwait(&base->changed, &base->mutex, &until);
  bool ended = base->running == 0;
  pthread_mutex_unlock(&base->mutex);
  return ended;
}

void trn__h2_base_join(h2_base *base) {
  for (unsigned i = 0; i < base->loop_count; i++) {
    if (base->loops[i].has_thread) pthread_join(base->loops[i].thread, NULL);
  }
}

void trn__h2_base_finish(h2_base *base) {
  for (unsigned i = 0; i < base->loop_count; i++) trn__h2_loop_finish(&base->loops[i]);
  free(base->loops);
  nghttp2_session_callbacks_del(base->callbacks);
  nghttp2_option_del(base->session_option);
  pthread_cond_destroy(&base->changed);
  pthread_mutex_destroy(&base->mutex);
}

bool trn__h2_address_split(char *text, char **host, char **port) {
  char *colon = strrchr(text, ':');
  if (!colon || !colon[1]) return false;
  *colon = 0;
  *port = colon + 1;
  *host = text;
  size_t size = strlen(text);
  if (text[0] == '[' && size > 2 && text[size - 1] == ']') {
    text[size - 1] = 0;
    *host = text + 1;
  } else if (strchr(text, ':')) {
    return false; /* a v6 address without brackets */
  }
  return true;
}
