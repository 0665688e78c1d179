/* What a service's end waits for: pieces of work enter and leave; a gate that is closed lets nobody in. The mutex is the
 * service's own, so that "closed" can be asked together with what the service keeps. */
#ifndef TRN_CORE_GATE_H
#define TRN_CORE_GATE_H
#include <pthread.h>
#include <stdbool.h>

typedef struct trn_gate {
  pthread_mutex_t *mutex; /* borrowed */
  pthread_cond_t empty;
  /* guarded by *mutex */
  unsigned inside;
  bool is_closed;
} trn_gate;

void trn__gate_init(trn_gate *gate, pthread_mutex_t *mutex);
void trn__gate_finish(trn_gate *gate);
/* Lets one in; false: closed. thread: any; locks: none; nor for the others unless they say so. */
bool trn__gate_enter(trn_gate *gate);
/* One more, also of a closed gate: for who was refused and takes the way that leaves. */
void trn__gate_count(trn_gate *gate);
void trn__gate_leave(trn_gate *gate);
bool trn__gate_is_closed(trn_gate *gate);
void trn__gate_close(trn_gate *gate);
/* Until nobody is inside. Blocks. */
void trn__gate_wait(trn_gate *gate);

#endif
