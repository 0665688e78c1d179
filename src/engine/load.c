#include "engine/ballista_abi.h"
#include "engine/engine.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

/* Opens `name` beside the program, then wherever the loader looks. */
static void *open_library(const char *path, const char *name, int flags) {
  if (path) return dlopen(path, flags);
  char beside[PATH_MAX];
  ssize_t size = readlink("/proc/self/exe", beside, sizeof beside - 1);
  if (size > 0) {
    beside[size] = 0;
    char *slash = strrchr(beside, '/');
    size_t room = sizeof beside - (size_t)(slash ? slash + 1 - beside : 0);
    if (slash && (size_t)snprintf(slash + 1, room, "%s", name) < room) {
      void *handle = dlopen(beside, flags);
      if (handle) return handle;
    }
  }
  return dlopen(name, flags);
}

trn_status trn__engine_load(const char *path, const trn_engine **out, trn_error **error) {
  /* NODELETE: its runtime's threads live on. DEEPBIND is not used: its symbols are hidden. */
  void *handle = open_library(path, "libtrunnion_engine.so", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle)
    return trn_error_set(error, TRN_NOT_FOUND, NULL, "cannot load the engine %s: %s", path ? path : "libtrunnion_engine.so",
                         dlerror());
  trn_engine_get_fn get;
  *(void **)&get = dlsym(handle, "trn_engine_get");
  const trn_engine *engine = get ? get(TRN_ENGINE_ABI) : NULL;
  if (!engine || engine->struct_size < offsetof(trn_engine, decode))
    return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "the engine %s does not speak version %d of the boundary",
                         path ? path : "libtrunnion_engine.so", TRN_ENGINE_ABI);
  *out = engine;
  return TRN_OK;
}

trn_status trn__function_library_load(const char *path, const trn_function_library **out, trn_error **error) {
  void *handle = open_library(path, "libtrunnion_functions.so", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  const char *name = path ? path : "libtrunnion_functions.so";
  if (!handle) return trn_error_set(error, TRN_NOT_FOUND, NULL, "cannot load the function library %s: %s", name, dlerror());
  trn_function_library_fn get;
  *(void **)&get = dlsym(handle, "trn_function_library");
  const trn_function_library *library = get ? get() : NULL;
  if (!library || library->abi != TRN_FUNCTION_ABI)
    return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "%s is no function library of version %d", name,
                         TRN_FUNCTION_ABI);
  *out = library;
  return TRN_OK;
}

trn_status trn__bsched_load(const char *path, const trn_bsched **out, trn_error **error) {
  const char *name = path ? path : TRN_BSCHED_LIBRARY;
  void *handle = open_library(path, TRN_BSCHED_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle)
    return trn_error_set(error, TRN_NOT_FOUND, NULL, "cannot load Ballista's scheduler %s: %s", name, dlerror());
  trn_bsched_get_fn get;
  *(void **)&get = dlsym(handle, "trn_ballista_get");
  const trn_bsched *table = get ? get(TRN_BSCHED_ABI) : NULL;
  if (!table || table->struct_size < sizeof *table)
    return trn_error_set(error, TRN_FAILED_PRECONDITION, NULL, "%s does not speak version %d of the boundary", name,
                         TRN_BSCHED_ABI);
  *out = table;
  return TRN_OK;
}

trn_status trn__engine_error(trn_engine_error *from, trn_error **error) {
  trn_status status = from->status > 0 && from->status <= TRN_UNAUTHENTICATED ? (trn_status)from->status : TRN_INTERNAL;
  if (error) {
    trn_error_spec spec = {.struct_size = sizeof spec,
                           .status = status,
                           .condition = from->condition,
                           .message = from->message,
                           .params = from->params,
                           .param_count = from->param_count};
    if (from->position >= 0) {
      spec.has_position = true;
      spec.position = (trn_position){(int32_t)(from->position >> 32), (int32_t)(from->position & 0x7fffffff)};
    }
    *error = trn_error_create(&spec);
  }
  if (from->release) from->release(from->self);
  *from = (trn_engine_error){0};
  return status;
}
