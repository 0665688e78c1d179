/* What local files hold now, as a digest of their names, sizes and times. */
#include <dirent.h>
#include <sys/stat.h>

#include "core/blake2b.h"
#include "core/query.h"

typedef struct version {
  uint64_t sum[2]; /* of the files' digests: directories have no order */
  uint64_t files, bytes;
} version;

static bool add_path(version *v, const char *path, unsigned depth);

static bool add_folder(version *v, const char *path, unsigned depth) {
  DIR *folder = depth < TRN_POLICY_FOLDERS_DEPTH_MAX ? opendir(path) : NULL;
  if (!folder) return false;
  bool ok = true;
  for (struct dirent *entry; ok && (entry = readdir(folder));) {
    trn_strbuf below = {0};
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    trn__strbuf_printf(&below, "%s/%s", path, entry->d_name);
    ok = !below.failed && add_path(v, below.data, depth + 1);
    trn__strbuf_finish(&below);
  }
  closedir(folder);
  return ok;
}

static bool add_path(version *v, const char *path, unsigned depth) {
  struct stat info;
  if (++v->files > TRN_POLICY_FILES_MAX || stat(path, &info) != 0) return false;
  bool is_folder = S_ISDIR(info.st_mode);
  int64_t facts[5] = {(int64_t)info.st_size, (int64_t)info.st_mtim.tv_sec, (int64_t)info.st_mtim.tv_nsec,
                      (int64_t)info.st_ino, is_folder};
  uint64_t digest[2];
  trn_blake2b hash;
  trn__blake2b_init(&hash);
  trn__blake2b_add(&hash, path, strlen(path));
  trn__blake2b_add(&hash, facts, sizeof facts);
  trn__blake2b_end(&hash, (uint8_t *)digest);
  v->sum[0] += digest[0];
  v->sum[1] += digest[1];
  if (is_folder) {
    v->files--;
    return add_folder(v, path, depth);
  }
  v->bytes += (uint64_t)info.st_size;
  return true;
}

bool trn__paths_version(const char *const *paths, size_t count, uint8_t out[16], uint64_t *files, uint64_t *bytes) {
  version v = {0};
  for (size_t i = 0; i < count; i++) {
    const char *path = paths[i];
    if (strncmp(path, "file:", 5) == 0) path += strncmp(path, "file:///", 8) == 0 ? 7 : 5;
    if (strstr(path, "://") || !add_path(&v, path, 0)) return false;
  }
  memcpy(out, v.sum, 16);
  if (files) *files = v.files;
  if (bytes) *bytes = v.bytes;
  return count > 0;
}
