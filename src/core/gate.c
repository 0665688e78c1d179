#include "core/gate.h"

#include "core/core.h"

void trn__gate_init(trn_gate *gate, pthread_mutex_t *mutex) {
  *gate = (trn_gate){.mutex = mutex};
  pthread_cond_init(&gate->empty, NULL);
}

void trn__gate_finish(trn_gate *gate) {
  TRN_ASSERT(gate->inside == 0);
  pthread_cond_destroy(&gate->empty);
}

bool trn__gate_enter(trn_gate *gate) {
  pthread_mutex_lock(gate->mutex);
  bool is_open = !gate->is_closed;
  if (is_open) gate->inside++;
  pthread_mutex_unlock(gate->mutex);
  return is_open;
}

void trn__gate_count(trn_gate *gate) {
  pthread_mutex_lock(gate->mutex);
  gate->inside++;
  pthread_mutex_unlock(gate->mutex);
}

void trn__gate_leave(trn_gate *gate) {
  pthread_mutex_lock(gate->mutex);
  TRN_ASSERT(gate->inside > 0);
  if (--gate->inside == 0) pthread_cond_broadcast(&gate->empty);
  pthread_mutex_unlock(gate->mutex);
}

bool trn__gate_is_closed(trn_gate *gate) {
  pthread_mutex_lock(gate->mutex);
  bool is_closed = gate->is_closed;
  pthread_mutex_unlock(gate->mutex);
  return is_closed;
}

void trn__gate_close(trn_gate *gate) {
  pthread_mutex_lock(gate->mutex);
  gate->is_closed = true;
  pthread_mutex_unlock(gate->mutex);
}

void trn__gate_wait(trn_gate *gate) {
  pthread_mutex_lock(gate->mutex);
  while (gate->inside) pthread_cond_wait(&gate->empty, gate->mutex);
  pthread_mutex_unlock(gate->mutex);
}
