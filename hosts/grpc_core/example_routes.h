/* What the example servers serve: Spark Connect on in-process DataFusion, or the routes of a library. */
#ifndef TRUNNION_HOSTS_EXAMPLE_ROUTES_H
#define TRUNNION_HOSTS_EXAMPLE_ROUTES_H
#include <trunnion/trunnion.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct example_arguments {
  const char *certificate, *key, *client_ca; /* PEM files; NULL: no TLS */
  trn_routes *routes;
  trn_backend *backend; /* NULL for a library's routes */
} example_arguments;

/* [--tls CERTIFICATE KEY CLIENT_CA] [ENGINE FUNCTIONS | LIBRARY]. LIBRARY exports echo_routes_create. False: said why.
 */
bool example_arguments_init(example_arguments *arguments, int argc, char **argv);
void example_arguments_finish(example_arguments *arguments);
/* Gives the whole file, NUL-terminated (free). */
char *example_file_read(const char *path);

#ifdef __cplusplus
}
#endif
#endif
