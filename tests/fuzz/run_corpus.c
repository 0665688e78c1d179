/* Runs a fuzzer as a plain test: over every file of its corpus, and over fixed mutations of each.
 * usage: fuzz_NAME CORPUS_FOLDER [MUTATIONS_PER_FILE] */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  return 0;
}

enum { FILE_BYTES_MAX = 1 << 20 };

static uint64_t state = 88172645463325252u;

static uint32_t dice(size_t sides) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)(state % sides);
}

/* Changes a few places; gives the new size, at most `capacity`. */
static size_t mutate(uint8_t *data, size_t size, size_t capacity) {
  for (uint32_t changes = 1 + dice(5); changes; changes--) {
    size_t at = size ? dice(size) : 0, length = size - at < 40 ? size - at : 40;
    switch (dice(5)) {
    case 0:
      if (size) data[at] = (uint8_t)dice(256);
      break;
    case 1:
      if (size) data[at] ^= (uint8_t)(1u << dice(8));
      break;
    case 2: size = at; break;
    case 3:
      if (size + length > capacity) break;
      memmove(data + at + length, data + at, size - at);
      size += length;
      break;
    default:
      memmove(data + at, data + at + length, size - at - length);
      size -= length;
      break;
    }
  }
  return size;
}

/* A copy of its own for each run, so that a sanitizer sees reads past its end. */
static void run(const uint8_t *data, size_t size) {
  uint8_t *copy = malloc(size ? size : 1);
  if (!copy) abort();
  if (size) memcpy(copy, data, size);
  LLVMFuzzerTestOneInput(copy, size);
  free(copy);
}

static void run_file(const char *path, unsigned mutations) {
  static uint8_t original[FILE_BYTES_MAX], changed[FILE_BYTES_MAX];
  FILE *file = fopen(path, "rb");
  if (!file) abort();
  size_t size = fread(original, 1, sizeof original, file);
  fclose(file);
  run(original, size);
  for (unsigned i = 0; i < mutations; i++) {
    memcpy(changed, original, size);
    run(changed, mutate(changed, size, sizeof changed));
  }
}

int main(int argc, char **argv) {
  char path[4096];
  int files = 0;
  struct dirent *entry;
  if (argc < 2) return 2;
  unsigned mutations = argc > 2 ? (unsigned)atoi(argv[2]) : 100;
  LLVMFuzzerInitialize(&argc, &argv);
  DIR *folder = opendir(argv[1]);
  while (folder && (entry = readdir(folder))) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
    run_file(path, mutations);
    files++;
  }
  if (folder) closedir(folder);
  printf("%d files, %u mutations of each\n", files, mutations);
  return files ? 0 : 1; /* without a corpus nothing was tested */
}
