/* Ids that cannot be guessed, and clocks. */
#include "core/core.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static bool random_from_device(unsigned char *out, size_t size) {
  int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  size_t done = 0;
  while (done < size) {
    ssize_t got = read(fd, out + done, size - done);
    if (got > 0)
      done += (size_t)got;
    else if (got == 0 || errno != EINTR)
      break;
  }
  close(fd);
  return done == size;
}

static void random_bytes(unsigned char *out, size_t size) {
  size_t done = 0;
  while (done < size) {
    ssize_t got = getrandom(out + done, size - done, 0);
    if (got > 0) {
      done += (size_t)got;
    } else if (errno != EINTR) { /* a sandbox that forbids the call */
      bool ok = random_from_device(out + done, size - done);
      TRN_ASSERT(ok);
      (void)ok;
      return;
    }
  }
}

static void uuid_print(const unsigned char bytes[16], char out[TRN_UUID_SIZE]) {
  static const char digits[] = "0123456789abcdef";
  char *at = out;
  for (unsigned i = 0; i < 16; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *at++ = '-';
    *at++ = digits[bytes[i] >> 4];
    *at++ = digits[bytes[i] & 15];
  }
  *at = 0;
}

void trn__uuid7(char out[TRN_UUID_SIZE]) {
  unsigned char bytes[16] = {0};
  random_bytes(bytes + 6, 10);
  uint64_t ms = (uint64_t)trn__wall_ms();
  for (unsigned i = 0; i < 6; i++) bytes[i] = (unsigned char)(ms >> (40 - 8 * i));
  bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x70);
  bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80);
  uuid_print(bytes, out);
}

void trn__uuid4(char out[TRN_UUID_SIZE]) {
  unsigned char bytes[16] = {0};
  random_bytes(bytes, 16);
  bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x40);
  bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80);
  uuid_print(bytes, out);
}

bool trn__uuid_is_valid(const char *text) {
  for (unsigned i = 0; i < TRN_UUID_SIZE - 1; i++) {
    char c = text[i];
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      if (c != '-') return false;
    } else if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))) {
      return false; /* the NUL of a shorter text too */
    }
  }
  return text[TRN_UUID_SIZE - 1] == 0;
}

int64_t trn__now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t trn__wall_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
