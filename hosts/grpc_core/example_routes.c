#include "example_routes.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static trn_status library_routes(const char *path, trn_routes **out) {
  void *library = dlopen(path, RTLD_NOW);
  trn_status (*create)(trn_routes **) = NULL;
  if (library) *(void **)&create = dlsym(library, "echo_routes_create");
  return create ? create(out) : TRN_NOT_FOUND;
}

static trn_status spark_routes(example_arguments *a, const char *engine, const char *functions, trn_error **error) {
  trn_embedded_options options = {.struct_size = sizeof options, .engine_path = engine, .functions_path = functions};
  trn_frontend *spark = NULL;
  trn_status status = trn_embedded_backend_create(&options, &a->backend, error);
  if (!status) status = trn_spark_frontend_create(NULL, &spark);
  if (!status) status = trn_routes_create(&a->routes);
  if (!status) status = trn_frontend_register(spark, a->routes, a->backend, error);
  trn_frontend_destroy(spark);
  return status;
}

bool example_arguments_init(example_arguments *a, int argc, char **argv) {
  memset(a, 0, sizeof *a);
  int next = 1;
  if (argc > 4 && strcmp(argv[1], "--tls") == 0) {
    a->certificate = argv[2];
    a->key = argv[3];
    a->client_ca = argv[4];
    next = 5;
  }
  int left = argc - next;
  trn_error *error = NULL;
  trn_status status = left == 1 ? library_routes(argv[next], &a->routes)
                                : spark_routes(a, left ? argv[next] : NULL, left > 1 ? argv[next + 1] : NULL, &error);
  if (status) {
    fprintf(stderr, "routes: %s %s\n", trn_status_name(status), trn_error_message(error));
    trn_error_unref(error);
    example_arguments_finish(a);
  }
  return !status;
}

void example_arguments_finish(example_arguments *a) {
  trn_routes_destroy(a->routes);
  trn_backend_unref(a->backend);
}

char *example_file_read(const char *path) {
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  size_t size = 0;
  if (file) {
    text = calloc(1, 1 << 16);
    if (text) size = fread(text, 1, (1 << 16) - 1, file);
    fclose(file);
  }
  if (text) text[size] = 0;
  return text;
}
