/* Translators by the type of their messages. */
#include <stdlib.h>

#include "core/query.h"
#include "core/registry.h"

static void translator_destroy(void *object) {
  registry_translator *translator = object;
  if (translator->ops.destroy) translator->ops.destroy(translator->self);
  free(translator);
}

/* Any's rule: what counts of a URL is behind its last slash. */
static const char *type_of(const char *url) {
  const char *slash = strrchr(url, '/');
  return slash ? slash + 1 : url;
}

trn_status trn_registry_add_translator(trn_registry *registry, const char *type, const trn_translator_ops *given,
                                       void *self, trn_error **error) {
  trn_translator_ops ops = {0};
  if (given) memcpy(&ops, given, trn__struct_size(given->struct_size, sizeof ops));
  if (!type || (!ops.relation && !ops.expression && !ops.command))
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "A translator needs a type, and one of relation, expression and command");
  registry_translator *translator = malloc(sizeof *translator);
  if (!translator) return trn__no_memory(error);
  *translator = (registry_translator){ops, self};
  const registry_entry entry = {.object = translator, .destroy = translator_destroy};
  trn_status status = trn__registry_add(registry, REGISTRY_TRANSLATOR, type_of(type), &entry, error);
  if (status) free(translator);
  return status;
}

const char *trn_registry_translator_at(const trn_registry *registry, size_t index) {
  return trn__registry_name_at(registry, REGISTRY_TRANSLATOR, index);
}

trn_status trn__registry_translator(const trn_registry *registry, const char *url, const registry_translator **out,
                                    trn_error **error) {
  const char *type = type_of(url);
  const registry_entry *entry = trn__registry_find(registry, REGISTRY_TRANSLATOR, type);
  *out = entry ? entry->object : NULL;
  return entry ? TRN_OK : trn__registry_unknown(registry, REGISTRY_TRANSLATOR, type, TRN_INVALID_ARGUMENT, error);
}
