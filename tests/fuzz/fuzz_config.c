/* A configuration file: YAML to a tree of settings, and on to layers and frontends, over a backend without an engine.
 * Values with a slash are refused here: nothing outside of the folder of the run is opened. What must hold: everything
 * is made, or an error that has a text. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"

#include "backend/scripted/scripted.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  char folder[] = "/tmp/trn-fuzz-config-XXXXXX"; /* what layers write goes there */
  (void)argc, (void)argv;
  return mkdtemp(folder) && chdir(folder) == 0 ? 0 : 1;
}

static void check_error(trn_status status, trn_error *error) {
  if (status == TRN_INTERNAL || status == TRN_UNKNOWN || (status && (!error || !*trn_error_message(error)))) {
    fprintf(stderr, "status %d: %s\n", (int)status, error ? trn_error_message(error) : "no error");
    abort();
  }
  trn_error_unref(error);
}

/* Nesting is bounded by the tree's own limit. */
static bool leaves_the_folder(const trn_config *node) {
  const char *text = trn_config_value(node);
  if (text && strpbrk(text, "/$~")) return true;
  for (size_t i = 0; i < trn_config_count(node); i++)
    if (leaves_the_folder(trn_config_at(node, i))) return true;
  return false;
}

static void read_scalars(const trn_config *node) {
  int64_t number;
  uint64_t size, time;
  bool flag;
  for (size_t i = 0; i < trn_config_count(node); i++) {
    const char *key = trn_config_key_at(node, i);
    if (key) {
      trn_config_number(node, key, INT64_MIN, INT64_MAX, &number, NULL);
      trn_config_size(node, key, &size, NULL);
      trn_config_duration(node, key, &time, NULL);
      trn_config_bool(node, key, &flag, NULL);
    }
    read_scalars(trn_config_at(node, i));
  }
}

static void make_layers(trn_registry *registry, const trn_config *list) {
  const trn_layers_options options = {.struct_size = sizeof options, .order = TRN_ORDER_REFUSE};
  trn_scripted *control = NULL;
  trn_backend *backend = NULL, *outer = NULL;
  trn_error *error = NULL;
  if (trn__scripted_create(TRN_SCRIPTED_ARRAYS, &control, &backend)) return;
  trn_status status = trn_layers_build(registry, list, backend, &options, &outer, &error);
  check_error(status, error);
  trn_backend_unref(outer);
  trn_backend_unref(backend);
  trn__scripted_unref(control);
}

static void make_frontends(trn_registry *registry, const trn_config *map) {
  const char *name;
  for (size_t i = 0; (name = trn_registry_frontend_at(registry, i)); i++) {
    trn_frontend *frontend = NULL;
    trn_error *error = NULL;
    trn_status status = trn_registry_make_frontend(registry, name, trn_config_get(map, name), &frontend, &error);
    check_error(status, error);
    trn_frontend_destroy(frontend);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[64];
  trn_config *root = NULL;
  trn_error *error = NULL;
  trn_registry *registry = NULL;
  int fd = memfd_create("config", MFD_CLOEXEC);
  if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  trn_status status = read_yaml(path, &root, &error);
  check_error(status, error);
  close(fd);
  if (status) return 0;
  read_scalars(root);
  if (!leaves_the_folder(root) && trn_registry_create(&registry) == TRN_OK) {
    make_layers(registry, trn_config_get(root, "layers"));
    make_frontends(registry, trn_config_get(root, "frontends"));
    trn_registry_destroy(registry);
  }
  trn_config_destroy(root);
  return 0;
}
