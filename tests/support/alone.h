/* Waits until the threads that ended on their own (detached) are gone: what they hold would look like leaks at the end. */
#ifndef TRN_TESTS_ALONE_H
#define TRN_TESTS_ALONE_H
#include <dirent.h>
#include <stdbool.h>
#include <time.h>

static inline unsigned thread_count(void) {
  unsigned count = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *e; tasks && (e = readdir(tasks));) count += e->d_name[0] != '.';
  if (tasks) closedir(tasks);
  return count;
}

/* Waits until there are no more than `most`. False: not within half a minute. */
static inline bool threads_are_gone(unsigned most) {
  for (int i = 0; i < 30000 && thread_count() > most; i++) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  return thread_count() <= most;
}

/* As a group's teardown. Gives up after some seconds: sanitizers may have a thread of their own. */
static inline int wait_until_alone(void **state) {
  (void)state;
  for (int i = 0; i < 3000; i++) {
    if (thread_count() <= 1) break;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  return 0;
}
#endif
