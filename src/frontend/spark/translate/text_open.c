/* Files of text as UTF-8: compressed by their names as Hadoop knows them, in other encodings. Layers of streams, so that
 * whoever reads sees a FILE. */
#include <bzlib.h>
#include <errno.h>
#include <fcntl.h>
#include <iconv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "frontend/spark/translate/infer.h"

enum { LAYER_BYTES = 64 << 10, CHARACTER_BYTES_MAX = 16 };

typedef enum layer_kind { LAYER_ZLIB, LAYER_BZ2, LAYER_ZSTD, LAYER_CHARSET } layer_kind;

typedef struct layer {
  layer_kind kind;
  FILE *below;
  bool below_ended, failed, inside; /* inside: of a member that has no end yet */
  size_t at, size;                  /* of `bytes` */
  size_t unit;                      /* of an encoding: the bytes of its smallest characters */
  union {
    z_stream zlib;
    bz_stream bz2;
    ZSTD_DStream *zstd;
    iconv_t charset;
  } u;
  char bytes[LAYER_BYTES];
} layer;

FILE *spark__open_regular(const char *path, bool *exists) {
  struct stat about;
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  *exists = fd >= 0;
  FILE *file = fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) ? fdopen(fd, "rb") : NULL;
  if (!file && fd >= 0) close(fd);
  return file;
}

/* More bytes behind those that are left. */
static void refill(layer *l) {
  if (l->at) memmove(l->bytes, l->bytes + l->at, l->size - l->at);
  l->size -= l->at;
  l->at = 0;
  if (l->size == sizeof l->bytes) return;
  size_t got = fread(l->bytes + l->size, 1, sizeof l->bytes - l->size, l->below);
  l->size += got;
  if (!got && ferror(l->below)) l->failed = true;
  if (!got) l->below_ended = true;
}

/* ---- compression: one step, from what is left into `out`; gives what came out ---- */

static size_t step_zlib(layer *l, char *out, size_t room) {
  z_stream *z = &l->u.zlib;
  z->next_in = (Bytef *)(l->bytes + l->at), z->avail_in = (uInt)(l->size - l->at);
  z->next_out = (Bytef *)out, z->avail_out = (uInt)room;
  l->inside = true;
  int result = inflate(z, Z_NO_FLUSH);
  l->at = l->size - z->avail_in;
  if (result == Z_STREAM_END) { /* another member may follow */
    l->inside = false;
    if (inflateReset(z) != Z_OK) l->failed = true;
  } else if (result != Z_OK && result != Z_BUF_ERROR) {
    l->failed = true;
  }
  return room - z->avail_out;
}

static size_t step_bz2(layer *l, char *out, size_t room) {
  bz_stream *z = &l->u.bz2;
  if (!l->inside && BZ2_bzDecompressInit(z, 0, 0) != BZ_OK) return l->failed = true, 0;
  l->inside = true;
  z->next_in = l->bytes + l->at, z->avail_in = (unsigned)(l->size - l->at);
  z->next_out = out, z->avail_out = (unsigned)room;
  int result = BZ2_bzDecompress(z);
  l->at = l->size - z->avail_in;
  size_t made = room - z->avail_out;
  if (result == BZ_STREAM_END) {
    BZ2_bzDecompressEnd(z);
    l->inside = false;
  } else if (result != BZ_OK) {
    l->failed = true;
  }
  return made;
}

static size_t step_zstd(layer *l, char *out, size_t room) {
  ZSTD_inBuffer in = {l->bytes + l->at, l->size - l->at, 0};
  ZSTD_outBuffer made = {out, room, 0};
  size_t left = ZSTD_decompressStream(l->u.zstd, &made, &in);
  l->at += in.pos;
  l->failed |= ZSTD_isError(left) != 0;
  l->inside = left != 0;
  return made.pos;
}

/* ---- encodings ---- */

/* What cannot be read becomes U+FFFD, a unit at a time. */
static size_t step_charset(layer *l, char *out, size_t room) {
  static const char unknown[] = "\xEF\xBF\xBD";
  char *in = l->bytes + l->at, *to = out;
  size_t left = l->size - l->at, space = room;
  while (left && space >= 4 && iconv(l->u.charset, &in, &left, &to, &space) == (size_t)-1) {
    bool cut = errno == EINVAL;
    if (errno == E2BIG || (cut && !l->below_ended) || space < 3) break; /* no room; or the rest of the character comes */
    memcpy(to, unknown, 3);
    to += 3, space -= 3;
    size_t skipped = cut || left < l->unit ? left : l->unit;
    in += skipped, left -= skipped;
  }
  l->at = l->size - left;
  return room - space;
}

static ssize_t layer_read(void *cookie, char *out, size_t room) {
  layer *l = cookie;
  size_t made = 0;
  if (room < 4 || room > INT32_MAX) return errno = EINVAL, -1;
  while (!made && !l->failed) {
    if (l->at == l->size || (l->kind == LAYER_CHARSET && l->size - l->at < CHARACTER_BYTES_MAX)) refill(l);
    if (l->failed || (l->at == l->size && l->below_ended)) break;
    size_t before = l->at;
    switch (l->kind) {
    case LAYER_ZLIB: made = step_zlib(l, out, room); break;
    case LAYER_BZ2: made = step_bz2(l, out, room); break;
    case LAYER_ZSTD: made = step_zstd(l, out, room); break;
    default: made = step_charset(l, out, room); break;
    }
    if (!made && l->at == before && l->at != l->size && l->kind != LAYER_CHARSET) l->failed = true; /* no way on */
  }
  l->failed |= !made && l->inside && l->kind != LAYER_CHARSET; /* it was cut */
  if (made || !l->failed) return (ssize_t)made;
  return errno = EIO, -1;
}

static int layer_close(void *cookie) {
  layer *l = cookie;
  if (l->kind == LAYER_ZLIB) inflateEnd(&l->u.zlib);
  if (l->kind == LAYER_BZ2 && l->inside) BZ2_bzDecompressEnd(&l->u.bz2);
  if (l->kind == LAYER_ZSTD) ZSTD_freeDStream(l->u.zstd);
  if (l->kind == LAYER_CHARSET) iconv_close(l->u.charset);
  fclose(l->below);
  free(l);
  return 0;
}

/* Java's names are iconv's, but that its UTF-16 and UTF-32 without a mark are big endian. */
static iconv_t open_charset(layer *l, const char *charset) {
  bool wide = strcasecmp(charset, "UTF-16") == 0, wider = strcasecmp(charset, "UTF-32") == 0;
  char name[64];
  l->unit = strncasecmp(charset, "UTF-16", 6) == 0 ? 2 : strncasecmp(charset, "UTF-32", 6) == 0 ? 4 : 1;
  if (wide || wider) {
    refill(l);
    size_t mark = wide ? 2 : 4;
    bool little = l->size >= mark && memcmp(l->bytes, wide ? "\xFF\xFE" : "\xFF\xFE\0\0", mark) == 0;
    bool big = l->size >= mark && memcmp(l->bytes, wide ? "\xFE\xFF" : "\0\0\xFE\xFF", mark) == 0;
    if (little || big) l->at = mark;
    snprintf(name, sizeof name, "%s%s", wide ? "UTF-16" : "UTF-32", little ? "LE" : "BE");
    charset = name;
  }
  return iconv_open("UTF-8", charset);
}

/* Takes `below`. */
static FILE *add_layer(FILE *below, layer_kind kind, int window_bits, const char *charset) {
  static const cookie_io_functions_t functions = {.read = layer_read, .close = layer_close};
  layer *l = below ? calloc(1, sizeof *l) : NULL;
  bool ok = l != NULL;
  if (ok) {
    l->kind = kind;
    l->below = below;
    if (kind == LAYER_ZLIB) ok = inflateInit2(&l->u.zlib, window_bits) == Z_OK;
    if (kind == LAYER_ZSTD) ok = (l->u.zstd = ZSTD_createDStream()) != NULL;
    if (kind == LAYER_CHARSET) ok = (l->u.charset = open_charset(l, charset)) != (iconv_t)-1;
  }
  FILE *file = ok ? fopencookie(l, "rb", functions) : NULL;
  if (file) setvbuf(file, NULL, _IOFBF, LAYER_BYTES);
  if (!file && ok) layer_close(l);
  if (!file && !ok) {
    free(l);
    if (below) fclose(below);
  }
  return file;
}

/* ---- both ---- */

spark_compression spark__compression_of(const char *path) {
  static const char *const endings[] = {[SPARK_GZIP] = ".gz", [SPARK_BZIP2] = ".bz2", [SPARK_ZSTD] = ".zst", [SPARK_DEFLATE] = ".deflate",
                                        [SPARK_OTHER_COMPRESSION] = ".lz4"};
  size_t size = strlen(path);
  for (size_t i = SPARK_GZIP; i < sizeof endings / sizeof *endings; i++) {
    size_t ending = strlen(endings[i]);
    if (size > ending && strcmp(path + size - ending, endings[i]) == 0) return (spark_compression)i;
  }
  return size > 7 && strcmp(path + size - 7, ".snappy") == 0 ? SPARK_OTHER_COMPRESSION : SPARK_PLAIN;
}

FILE *spark__open_text(const char *path, const char *charset, bool *exists) {
  FILE *file = spark__open_regular(path, exists);
  switch (spark__compression_of(path)) {
  case SPARK_GZIP: file = add_layer(file, LAYER_ZLIB, 16 + 15, NULL); break;
  case SPARK_DEFLATE: file = add_layer(file, LAYER_ZLIB, 15, NULL); break;
  case SPARK_BZIP2: file = add_layer(file, LAYER_BZ2, 0, NULL); break;
  case SPARK_ZSTD: file = add_layer(file, LAYER_ZSTD, 0, NULL); break;
  default: break;
  }
  return charset ? add_layer(file, LAYER_CHARSET, 0, charset) : file;
}
