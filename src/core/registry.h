/* The inside of a registry. Internal. */
#ifndef TRN_CORE_REGISTRY_H
#define TRN_CORE_REGISTRY_H
#include <pthread.h>

#include "core/core.h"
#include <trunnion/decoder.h>
#include <trunnion/plugin.h>
#include <trunnion/registry.h>
#include <trunnion/translator.h>

typedef enum registry_kind {
  REGISTRY_FRONTEND = 0,
  REGISTRY_BACKEND,
  REGISTRY_LAYER,
  REGISTRY_CATALOG,
  REGISTRY_DECODER,
  REGISTRY_TRANSLATOR,
  REGISTRY_FUNCTIONS,
  REGISTRY_KINDS
} registry_kind;

/* A function of one of the factories' types, or an object with its destroyer. */
typedef struct registry_entry {
  char *name;
  void (*factory)(void); /* of the kind's type */
  void *user;
  void *object;
  void (*destroy)(void *object);
} registry_entry;

typedef struct registry_owned {
  void (*destroy)(void *object);
  void *object;
} registry_owned;

/* Somebody who waits for a decoder's answer; on the waiter's stack. */
typedef struct decode_wait {
  struct decode_wait *next;
  uint64_t id;
  bool answered;
  trn_status status;
  trn_plan *plan;
  trn_error *error;
} decode_wait;

struct trn_registry {
  trn_vec entries[REGISTRY_KINDS];  /* registry_entry */
  trn_vec owned;                    /* registry_owned; plugins are among them */
  trn_vec plugins;                  /* const trn_plugin_about, of the plugins */
  trn_vec libraries;                /* const trn_function_library */
  trn_authenticator *authenticator; /* or NULL */
  trn_connector *connector;         /* or NULL */
  trn_registry_jobs jobs;           /* scheduler NULL: none */
  pthread_mutex_t mutex;            /* waits, next_ticket */
  pthread_cond_t answered;
  decode_wait *waits;
  uint64_t next_ticket;
};

/* The layers that come with the library (src/layer/register.c). */
trn_status trn__layers_register(trn_registry *registry, trn_error **error);

/* "ballista.logical.v1" (src/plan/ballista_plan.c). */
trn_status trn__ballista_decoder_register(trn_registry *registry);
/* src/frontend/spark: "spark.sql", one query without temporary views. */
trn_status trn__spark_decoder_register(trn_registry *registry);

/* ALREADY_EXISTS. `object`: taken on success. */
trn_status trn__registry_add(trn_registry *registry, registry_kind kind, const char *name, const registry_entry *entry,
                             trn_error **error);
/* NULL: not there. */
const registry_entry *trn__registry_find(const trn_registry *registry, registry_kind kind, const char *name);
/* NOT_FOUND (or `status`) lists the known names, and the nearest. */
trn_status trn__registry_unknown(const trn_registry *registry, registry_kind kind, const char *name, trn_status status,
                                 trn_error **error);
const char *trn__registry_name_at(const trn_registry *registry, registry_kind kind, size_t index);
/* translator.c */
typedef struct registry_translator {
  trn_translator_ops ops;
  void *self;
} registry_translator;
/* INVALID_ARGUMENT lists the known types. */
trn_status trn__registry_translator(const trn_registry *registry, const char *url, const registry_translator **out,
                                    trn_error **error);
/* builtin.c */
trn_status trn__registry_add_builtin(trn_registry *registry);

/* The Ballista backend: as a layer around `inner`, and with an embedded backend of its own (builtin_ballista.c). */
trn_status trn__ballista_layer(void *user, const trn_registry *registry, const trn_config *config, trn_backend *inner,
                               trn_backend **out, trn_error **error);
trn_status trn__ballista_backend(void *user, const trn_registry *registry, const trn_config *config, trn_backend **out,
                                 trn_error **error);

#endif
