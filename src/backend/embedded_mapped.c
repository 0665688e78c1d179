/* A file of rows that is the caller's own, mapped: what is read of it goes to clients without a copy. Files of others are not
 * mapped: who shortens one kills whoever reads it. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/embedded.h"
#include "core/core.h"

typedef struct mapping {
  void *at;
  size_t size;
} mapping;

static void mapping_release(void *argument) {
  mapping *m = argument;
  munmap(m->at, m->size);
  free(m);
}

/* NULL: it cannot be mapped. */
static mapping *map_file(const char *path) {
  struct stat about;
  mapping *m = malloc(sizeof *m);
  int file = m ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
  bool ok = file >= 0 && !fstat(file, &about) && S_ISREG(about.st_mode) && about.st_size > 0;
  if (ok) {
    m->size = (size_t)about.st_size;
    m->at = mmap(NULL, m->size, PROT_READ, MAP_SHARED, file, 0);
    ok = m->at != MAP_FAILED;
  }
  if (file >= 0) close(file); /* the mapping stays */
  if (ok) return m;
  free(m);
  return NULL;
}

bool trn__embedded_open_mapped(trn_embedded *b, trn_engine_session *session, const trn_source_request *request,
                               trn_engine_source **out, struct ArrowSchema *schema, trn_status *status, trn_error **error) {
  if (!request->is_own || strcmp(request->format, "arrow") || request->path_count != 1 || request->option_count ||
      request->schema || !TRN_ENGINE_HAS(b->engine, source_mapped))
    return false;
  mapping *m = map_file(request->paths[0]);
  if (!m) return false;
  const trn_engine_bytes bytes = {m->at, m->size, m, mapping_release};
  trn_engine_error failure = {.position = -1};
  trn_error *why = NULL;
  *status = b->engine->source_mapped(session, &bytes, out, schema, &failure) ? trn__engine_error(&failure, &why) : TRN_OK;
  bool is_done = *status != TRN_UNIMPLEMENTED;
  if (is_done && error) *error = why;
  else trn_error_unref(why);
  return is_done;
}
