/* Results of the cache layer, in memory and in files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/blake2b.h"
#include "layer/cache.h"

/* ---- results ---- */

cache_item *cache__item_ref(cache_item *item) {
  atomic_fetch_add_explicit(&item->refs, 1, memory_order_relaxed);
  return item;
}

void cache__item_unref(void *owner) {
  cache_item *item = owner;
  if (!item || atomic_fetch_sub_explicit(&item->refs, 1, memory_order_acq_rel) != 1) return;
  if (item->piece.release) item->piece.release(item->piece.owner);
  trn__shared_array_unref(item->array);
  free(item);
}

cache_body *cache__body_create(void) {
  cache_body *body = calloc(1, sizeof *body);
  if (body) atomic_init(&body->refs, 1);
  return body;
}

cache_body *cache__body_ref(cache_body *body) {
  atomic_fetch_add_explicit(&body->refs, 1, memory_order_relaxed);
  return body;
}

void cache__body_unref(cache_body *body) {
  if (!body || atomic_fetch_sub_explicit(&body->refs, 1, memory_order_acq_rel) != 1) return;
  for (size_t i = 0; i < body->count; i++) cache__item_unref(body->items[i]);
  free(body->items);
  trn__schema_release(&body->schema);
  trn__strbuf_finish(&body->schema_ipc);
  free(body);
}

bool cache__body_add(cache_body *body, cache_item *item) {
  if (body->count == body->capacity) {
    size_t capacity = body->capacity ? body->capacity * 2 : 8;
    cache_item **items = realloc(body->items, capacity * sizeof *items);
    if (!items) return false;
    body->items = items;
    body->capacity = capacity;
  }
  body->items[body->count++] = item;
  body->rows += item->rows;
  body->bytes += item->bytes;
  if (item->bytes > body->piece_max) body->piece_max = item->bytes;
  return true;
}

/* ---- files: a head, the texts of what it was made of, sizes, schema and pieces, each at a multiple of 8 ---- */

#define CACHE_SUFFIX ".trncache"
#define CACHE_PARTIAL ".trnpart" /* one that is being written */
static const char MAGIC[8] = "TRNCACH2";

typedef struct file_head {
  char magic[8];
  uint8_t check[16]; /* over the file, with zeros here, and the program's version: other versions make other plans */
  uint8_t key[16];
  uint64_t size; /* of the file */
  uint64_t text_size, count, schema_size, rows, bytes;
  int64_t expires_ms; /* since the epoch; 0: never */
} file_head;

static size_t padded(size_t size) {
  return (size + 7) & ~(size_t)7;
}

typedef struct writer {
  int fd;
  bool failed;
  uint64_t size;
  trn_blake2b check;
} writer;

static void put(writer *w, const void *data, size_t size) {
  trn__blake2b_add(&w->check, data, size);
  w->size += size;
  for (const char *at = data; size && !w->failed;) {
    ssize_t done = write(w->fd, at, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      w->failed = true;
      return;
    }
    at += done;
    size -= (size_t)done;
  }
}

static void put_padding(writer *w, size_t size) {
  static const char zeros[8] = {0};
  put(w, zeros, padded(size) - size);
}

static void put_texts(writer *w, char kind, const trn_texts *texts) {
  for (size_t i = 0; i < texts->count; i++) {
    put(w, &kind, 1);
    put(w, texts->items[i], strlen(texts->items[i]) + 1);
  }
}

static size_t texts_size(const trn_texts *texts) {
  size_t size = 0;
  for (size_t i = 0; i < texts->count; i++) size += strlen(texts->items[i]) + 2;
  return size;
}

static void put_items(writer *w, const cache_body *body) {
  for (size_t i = 0; i < body->count; i++) {
    uint64_t sizes[2] = {body->items[i]->piece.size, (uint64_t)body->items[i]->rows};
    put(w, sizes, sizeof sizes);
  }
  put(w, body->schema_ipc.data ? body->schema_ipc.data : "", body->schema_ipc.size);
  put_padding(w, body->schema_ipc.size);
  for (size_t i = 0; i < body->count; i++) {
    const trn_ipc_piece *piece = &body->items[i]->piece;
    for (size_t k = 0; k < piece->slice_count; k++) put(w, piece->slices[k].data, piece->slices[k].size);
    put_padding(w, piece->size);
  }
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * (int64_t)1000 + now.tv_nsec / 1000000;
}

static void start_check(trn_blake2b *check, const file_head *head) {
  file_head blank = *head;
  memset(blank.check, 0, sizeof blank.check);
  trn__blake2b_init(check);
  trn__blake2b_add(check, TRUNNION_VERSION, sizeof TRUNNION_VERSION);
  trn__blake2b_add(check, &blank, sizeof blank);
}

static uint64_t file_size(const file_head *head, const cache_body *body) {
  uint64_t size = sizeof *head + padded(head->text_size) + head->count * 16 + padded(head->schema_size);
  for (size_t i = 0; i < body->count; i++) size += padded(body->items[i]->piece.size);
  return size;
}

static bool write_file(int fd, const cache_entry *entry, const cache_body *body) {
  file_head head = {.text_size = texts_size(&entry->tables) + texts_size(&entry->paths),
                    .count = body->count,
                    .schema_size = body->schema_ipc.size,
                    .rows = (uint64_t)body->rows,
                    .bytes = entry->bytes};
  if (entry->expires_ns) head.expires_ms = now_ms() + (entry->expires_ns - trn__now_ns()) / 1000000;
  memcpy(head.magic, MAGIC, sizeof MAGIC);
  memcpy(head.key, entry->key, sizeof head.key);
  head.size = file_size(&head, body);
  writer w = {.fd = fd};
  put(&w, &head, sizeof head); /* once more with its check, at the end */
  start_check(&w.check, &head);
  put_texts(&w, 't', &entry->tables);
  put_texts(&w, 'p', &entry->paths);
  put_padding(&w, head.text_size);
  put_items(&w, body);
  trn__blake2b_end(&w.check, head.check);
  if (w.failed || w.size != head.size) return false;
  return pwrite(fd, &head, sizeof head, 0) == (ssize_t)sizeof head;
}

char *cache__write_body(const cache *c, const cache_entry *entry, const cache_body *body) {
  char id[TRN_UUID_SIZE];
  trn_strbuf path = {0}, partial = {0};
  trn__uuid4(id);
  trn__strbuf_printf(&path, "%s/%s%s", c->directory, id, CACHE_SUFFIX);
  trn__strbuf_printf(&partial, "%s/%s%s", c->directory, id, CACHE_PARTIAL);
  bool ok = !path.failed && !partial.failed;
  int fd = ok ? open(partial.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
  ok = fd >= 0 && write_file(fd, entry, body);
  if (fd >= 0 && close(fd) != 0) ok = false;
  if (ok) ok = rename(partial.data, path.data) == 0;
  if (!ok && fd >= 0) unlink(partial.data);
  trn__strbuf_finish(&partial);
  if (ok) return path.data;
  trn__strbuf_finish(&path);
  return NULL;
}

/* The bytes of a file, shared by its pieces. */
typedef struct block {
  atomic_size_t refs;
  char *data;
} block;

static void block_unref(void *owner) {
  block *b = owner;
  if (atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1) return;
  free(b->data);
  free(b);
}

typedef struct loaded_item {
  cache_item item;
  trn_slice slice;
} loaded_item;

static bool add_loaded(cache_body *body, block *b, const char *data, uint64_t size, uint64_t rows) {
  loaded_item *loaded = calloc(1, sizeof *loaded);
  if (!loaded) return false;
  atomic_init(&loaded->item.refs, 1);
  loaded->slice = (trn_slice){.data = data, .size = size};
  atomic_fetch_add(&b->refs, 1);
  loaded->item.piece = (trn_ipc_piece){.slices = &loaded->slice,
                                       .slice_count = 1,
                                       .size = size,
                                       .rows = (int64_t)rows,
                                       .release = block_unref,
                                       .owner = b};
  loaded->item.rows = (int64_t)rows;
  loaded->item.bytes = size;
  if (cache__body_add(body, &loaded->item)) return true;
  cache__item_unref(&loaded->item);
  return false;
}

/* The file is what was written, and of this query. */
static bool is_whole(const char *data, size_t size, const uint8_t key[16], file_head *head) {
  trn_blake2b check;
  uint8_t digest[16];
  if (size < sizeof *head) return false;
  memcpy(head, data, sizeof *head);
  if (memcmp(head->magic, MAGIC, sizeof MAGIC) != 0 || head->size != size || memcmp(head->key, key, 16) != 0)
    return false;
  start_check(&check, head);
  trn__blake2b_add(&check, data + sizeof *head, size - sizeof *head);
  trn__blake2b_end(&check, digest);
  return memcmp(digest, head->check, sizeof digest) == 0;
}

/* Sizes are looked at even so: a check is no proof against somebody who may write there. */
static bool parse_block(cache_body *body, block *b, size_t size, const uint8_t key[16]) {
  file_head head;
  if (!is_whole(b->data, size, key, &head) || head.text_size > size - sizeof head) return false;
  size_t at = sizeof head + padded(head.text_size);
  if (at > size || head.count > (size - at) / 16) return false;
  const char *sizes = b->data + at;
  at += (size_t)head.count * 16;
  if (head.schema_size > size - at) return false;
  trn__strbuf_add(&body->schema_ipc, b->data + at, head.schema_size);
  at += padded(head.schema_size);
  body->is_ipc = true;
  for (uint64_t i = 0; i < head.count; i++) {
    uint64_t pair[2];
    memcpy(pair, sizes + i * 16, 16);
    if (at > size || pair[0] > size - at || !add_loaded(body, b, b->data + at, pair[0], pair[1])) return false;
    at += padded(pair[0]);
  }
  return !body->schema_ipc.failed && body->rows == (int64_t)head.rows;
}

static bool read_whole(int fd, char *data, size_t size) {
  while (size) {
    ssize_t done = read(fd, data, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    data += done;
    size -= (size_t)done;
  }
  return true;
}

cache_body *cache__read_body(const char *path, const uint8_t key[16]) {
  struct stat info;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return NULL;
  cache_body *body = cache__body_create();
  block *b = calloc(1, sizeof *b);
  bool ok = body && b && fstat(fd, &info) == 0 && info.st_size > 0;
  if (b) atomic_init(&b->refs, 1);
  if (ok) b->data = malloc((size_t)info.st_size);
  ok = ok && b->data && read_whole(fd, b->data, (size_t)info.st_size) &&
       parse_block(body, b, (size_t)info.st_size, key);
  close(fd);
  if (b) block_unref(b);
  if (ok) return body;
  cache__body_unref(body);
  return NULL;
}

/* ---- the files that an earlier process left ---- */

/* The texts of a head; each ends with a zero. */
static bool parse_texts(char *data, size_t size, cache_entry *entry) {
  for (size_t at = 0; at < size;) {
    char *text = data + at + 1, *end = memchr(data + at, 0, size - at);
    trn_texts *texts = data[at] == 't' ? &entry->tables : data[at] == 'p' ? &entry->paths : NULL;
    if (!end || !texts || !cache__texts_push(texts, trn__text_copy(text))) return false;
    at = (size_t)(end - data) + 1;
  }
  return true;
}

static bool read_head(int fd, cache_entry *entry) {
  file_head head;
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || !read_whole(fd, (char *)&head, sizeof head)) return false;
  if (memcmp(head.magic, MAGIC, sizeof MAGIC) != 0 || head.size != (uint64_t)info.st_size) return false;
  if (head.text_size > TRN_CACHE_TEXTS_MAX || head.bytes > head.size) return false;
  int64_t left = head.expires_ms ? head.expires_ms - now_ms() : 0;
  if (head.expires_ms && left <= 0) return false;
  char *texts = malloc(head.text_size + 1);
  bool ok = texts && read_whole(fd, texts, head.text_size) && parse_texts(texts, head.text_size, entry);
  free(texts);
  memcpy(entry->key, head.key, sizeof entry->key);
  entry->bytes = head.bytes;
  entry->expires_ns = head.expires_ms ? trn__now_ns() + left * 1000000 : 0;
  return ok;
}

/* What the file is of; what cannot be used is removed. NULL: it cannot, or memory is out. */
static cache_entry *entry_of(const char *path) {
  cache_entry *entry = calloc(1, sizeof *entry);
  int fd = entry ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1; /* a pipe does not keep us waiting */
  if (entry) atomic_init(&entry->refs, 1);
  bool ok = fd >= 0 && read_head(fd, entry);
  if (fd >= 0) close(fd);
  if (ok) ok = (entry->file = trn__text_copy(path)) != NULL;
  if (!ok) unlink(path);
  if (ok) return entry;
  cache__entry_unref(entry);
  return NULL;
}

static bool ends_with(const char *name, const char *ending) {
  size_t size = strlen(name), end = strlen(ending);
  return size == TRN_UUID_SIZE - 1 + end && strcmp(name + size - end, ending) == 0;
}

void cache__each_file(const char *directory, bool (*each)(cache *c, cache_entry *entry), cache *c) {
  DIR *folder = opendir(directory);
  bool goes_on = true;
  for (struct dirent *file; folder && goes_on && (file = readdir(folder));) {
    bool is_partial = ends_with(file->d_name, CACHE_PARTIAL);
    if (!is_partial && !ends_with(file->d_name, CACHE_SUFFIX)) continue;
    trn_strbuf path = {0};
    trn__strbuf_printf(&path, "%s/%s", directory, file->d_name);
    cache_entry *entry = path.failed || is_partial ? NULL : entry_of(path.data);
    if (!path.failed && is_partial) unlink(path.data);
    if (entry) goes_on = each(c, entry);
    trn__strbuf_finish(&path);
  }
  if (folder) closedir(folder);
}
