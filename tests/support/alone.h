/* Waits until the threads that ended on their own (detached) are gone: what they hold would look like leaks at the end. */
#ifndef TRN_TESTS_ALONE_H
#define TRN_TESTS_ALONE_H
#include <dirent.h>
#include <time.h>

/* As a group's teardown. Gives up after some seconds: sanitizers may have a thread of their own. */
static inline int wait_until_alone(void **state) {
  (void)state;
  for (int i = 0; i < 3000; i++) {
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *e; tasks && (e = readdir(tasks));) count += e->d_name[0] != '.';
    if (tasks) closedir(tasks);
    if (count <= 1) break;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  return 0;
}
#endif
