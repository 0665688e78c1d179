/* Runs a fuzzer over every file of its corpus while the k-th allocation fails, on the heap or in an arena: once, and from
 * then on. What must hold is what the fuzzer says must hold, but that an error has a text (faults.h).
 * usage: fuzz_NAME_faults CORPUS_FOLDER */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_trn__arena_alloc(trn_arena *arena, size_t size);
void *__real_trn__arena_alloc_n(trn_arena *arena, size_t size, size_t count);
void *__real_trn__arena_copy(trn_arena *arena, const void *data, size_t size);
char *__real_trn__arena_str(trn_arena *arena, const char *data, size_t size);
char *__real_trn__arena_strdup(trn_arena *arena, const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_trn__arena_alloc(trn_arena *arena, size_t size);
void *__wrap_trn__arena_alloc_n(trn_arena *arena, size_t size, size_t count);
void *__wrap_trn__arena_copy(trn_arena *arena, const void *data, size_t size);
char *__wrap_trn__arena_str(trn_arena *arena, const char *data, size_t size);
char *__wrap_trn__arena_strdup(trn_arena *arena, const char *text);

enum { FILE_BYTES_MAX = 1 << 20, TRIES_PER_FILE = 200 };

static long countdown = -1, seen; /* of one thread at a time */
static bool goes_on;

static bool fails(void) {
  seen++;
  if (countdown < 0) return false;
  if (countdown > 0) {
    countdown--;
    return false;
  }
  if (!goes_on) countdown = -1;
  return true;
}

/* More than there can be: the arena refuses as it does when there is no memory. */
static void *refused(trn_arena *arena) {
  return __real_trn__arena_alloc(arena, SIZE_MAX);
}

void *__wrap_malloc(size_t size) {
  return fails() ? NULL : __real_malloc(size);
}
void *__wrap_calloc(size_t count, size_t size) {
  return fails() ? NULL : __real_calloc(count, size);
}
void *__wrap_realloc(void *memory, size_t size) {
  return fails() ? NULL : __real_realloc(memory, size);
}
void *__wrap_trn__arena_alloc(trn_arena *arena, size_t size) {
  return fails() ? refused(arena) : __real_trn__arena_alloc(arena, size);
}
void *__wrap_trn__arena_alloc_n(trn_arena *arena, size_t size, size_t count) {
  return fails() ? refused(arena) : __real_trn__arena_alloc_n(arena, size, count);
}
void *__wrap_trn__arena_copy(trn_arena *arena, const void *data, size_t size) {
  return fails() ? refused(arena) : __real_trn__arena_copy(arena, data, size);
}
char *__wrap_trn__arena_str(trn_arena *arena, const char *data, size_t size) {
  return fails() ? refused(arena) : __real_trn__arena_str(arena, data, size);
}
char *__wrap_trn__arena_strdup(trn_arena *arena, const char *text) {
  return fails() ? refused(arena) : __real_trn__arena_strdup(arena, text);
}

static long run_file(const char *path) {
  static uint8_t data[FILE_BYTES_MAX];
  FILE *file = fopen(path, "rb");
  if (!file) abort();
  size_t size = fread(data, 1, sizeof data, file);
  fclose(file);
  LLVMFuzzerTestOneInput(data, size); /* what is made once is there */
  seen = 0;
  LLVMFuzzerTestOneInput(data, size);
  long count = seen;
  for (int mode = 0; mode < 2; mode++) {
    for (long k = 0; k < count; k += 1 + count / TRIES_PER_FILE) {
      goes_on = mode == 1;
      countdown = k;
      LLVMFuzzerTestOneInput(data, size);
      countdown = -1;
    }
  }
  return count;
}

int main(int argc, char **argv) {
  char path[4096];
  int files = 0;
  long allocations = 0;
  struct dirent *entry;
  if (argc < 2) return 2;
  DIR *folder = opendir(argv[1]);
  while (folder && (entry = readdir(folder))) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
    allocations += run_file(path);
    files++;
  }
  if (folder) closedir(folder);
  printf("%d files, %ld allocations\n", files, allocations);
  return allocations ? 0 : 1; /* without any nothing was tested */
}
