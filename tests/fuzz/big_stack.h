/* Runs something with the stack that frontends and backends have. A process that was started with one (ulimit -s 65536)
 * has it already: a thread per input costs far more than most inputs. */
#ifndef TRN_FUZZ_BIG_STACK_H
#define TRN_FUZZ_BIG_STACK_H
#include <sys/resource.h>

#include "core/core.h"

static inline void run_deep(void (*run)(void *argument), void *argument) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur >= 2 * TRN_STACK_BYTES)
    run(argument);
  else
    trn__run_on_big_stack(run, argument);
}

#endif
