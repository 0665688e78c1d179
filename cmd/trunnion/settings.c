/* Flags over the environment over the file: what is set first stays. */
#include <ctype.h>
#include <getopt.h>

#include "program.h"

enum { ARG_HELP = 'h', ARG_CONFIG = 1000, ARG_CHECK, ARG_SET, ARG_ROW };

static const trn_config *find(const trn_config *root, const char *path) {
  char name[128];
  for (const char *dot; root && (dot = strchr(path, '.')); path = dot + 1) {
    snprintf(name, sizeof name, "%.*s", (int)(dot - path), path);
    root = trn_config_get(root, name);
  }
  return trn_config_get(root, path);
}

const char *setting(const trn_config *root, const char *path) {
  return trn_config_value(find(root, path));
}

static int settings_fail(trn_status status, trn_error *error) {
  return fail(2, "settings", status, error);
}

/* Only lists of plugins grow: each --plugin is one more. */
static trn_status set_row(trn_config *root, const option_row *row, const char *value, const char *origin,
                          trn_error **error) {
  char path[128];
  bool appends = strcmp(row->key, "plugins") == 0;
  snprintf(path, sizeof path, "%s%s", row->key, appends ? "[]" : "");
  return trn_config_set_from(root, path, value, origin, error);
}

static trn_status set_text(trn_config *root, const char *text, trn_error **error) {
  const char *equals = strchr(text, '=');
  if (!equals) return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "--set %s: this is not KEY=VALUE", text);
  char *key = strndup(text, (size_t)(equals - text));
  if (!key) return TRN_RESOURCE_EXHAUSTED;
  trn_status status = trn_config_set_from(root, key, equals + 1, "--set", error);
  free(key);
  return status;
}

static bool read_flags(int argc, char **argv, settings *s, const char **file, int *result) {
  struct option longs[64 + 5] = {{"help", no_argument, NULL, ARG_HELP},
                                 {"config", required_argument, NULL, ARG_CONFIG},
                                 {"check", no_argument, NULL, ARG_CHECK},
                                 {"set", required_argument, NULL, ARG_SET}};
  size_t count = 4;
  for (size_t i = 0; i < program_option_count && count < 64; i++)
    if (program_options[i].flag)
      longs[count++] =
          (struct option){program_options[i].flag, program_options[i].argument ? required_argument : no_argument, NULL,
                          ARG_ROW + (int)i};
  *result = 2;
  for (int c; (c = getopt_long(argc, argv, "h", longs, NULL)) != -1;) {
    trn_error *error = NULL;
    trn_status status = TRN_OK;
    char origin[64];
    if (c == ARG_HELP) {
      *result = print_usage(stdout);
      return false;
    }
    if (c == '?') {
      fprintf(stderr, "trunnion: 'trunnion --help' lists the options\n");
      return false;
    }
    if (c == ARG_CONFIG) *file = optarg;
    if (c == ARG_CHECK) s->only_checks = true;
    if (c == ARG_SET) status = set_text(s->root, optarg, &error);
    if (c >= ARG_ROW) {
      const option_row *row = &program_options[c - ARG_ROW];
      snprintf(origin, sizeof origin, "--%s", row->flag);
      status = set_row(s->root, row, optarg ? optarg : "true", origin, &error);
    }
    if (status) {
      settings_fail(status, error);
      return false;
    }
  }
  if (optind >= argc) return true;
  fprintf(stderr, "trunnion: unexpected argument '%s'\n", argv[optind]);
  return false;
}

/* Is the row about a backend that the file does not want? A variable for one is no wish for it. */
static bool is_of_other_backend(const option_row *row, const trn_config *from_file) {
  char name[64];
  const trn_config *backend = trn_config_get(from_file, "backend");
  if (strncmp(row->key, "backend.", 8) != 0 || trn_config_get_kind(backend) != TRN_CONFIG_MAP) return false;
  snprintf(name, sizeof name, "%.*s", (int)strcspn(row->key + 8, "."), row->key + 8);
  if (strcmp(name, "embedded") == 0 && trn_config_get(backend, "ballista")) return false; /* what runs here */
  return !trn_config_get(backend, name);
}

/* TRUNNION_TLS_CERT for --tls-cert. */
static trn_status read_environment(trn_config *root, const trn_config *from_file, trn_error **error) {
  trn_status status = TRN_OK;
  for (size_t i = 0; i < program_option_count && !status; i++) {
    const option_row *row = &program_options[i];
    char name[64] = "TRUNNION_";
    if (!row->flag || find(root, row->key) || is_of_other_backend(row, from_file)) continue;
    size_t at = strlen(name);
    for (const char *c = row->flag; *c && at + 1 < sizeof name; c++)
      name[at++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    name[at] = 0;
    const char *value = getenv(name);
    if (value && *value) status = set_row(root, row, value, name, error);
  }
  return status;
}

/* Copies what is not there; maps are gone into, lists of plugins are joined. Nesting is bounded by trn_config_add. */
static trn_status merge(trn_config *into, const trn_config *from, bool is_list, trn_error **error) {
  trn_status status = TRN_OK;
  for (size_t i = 0; i < trn_config_count(from) && !status; i++) {
    const trn_config *item = trn_config_at(from, i);
    const char *key = is_list ? NULL : trn_config_key_at(from, i);
    trn_config_kind kind = trn_config_get_kind(item);
    trn_config *there = key ? (trn_config *)trn_config_get(into, key) : NULL;
    bool same_map = there && kind == TRN_CONFIG_MAP && trn_config_get_kind(there) == TRN_CONFIG_MAP;
    bool both_plugins = there && kind == TRN_CONFIG_LIST && trn_config_get_kind(there) == TRN_CONFIG_LIST &&
                        strcmp(key, "plugins") == 0;
    if (there && !same_map && !both_plugins) continue;
    if (!there)
      status = trn_config_add(into, key, kind, trn_config_value(item), trn_config_origin(item), &there, error);
    if (!status && (kind == TRN_CONFIG_MAP || kind == TRN_CONFIG_LIST))
      status = merge(there, item, kind == TRN_CONFIG_LIST, error);
  }
  return status;
}

/* Where tables are kept, also when the directory is yet to be made; as a pattern of paths, on the heap. NULL: cannot be said. */
static char *warehouse_place(const char *directory) {
  const char *base = getenv("TMPDIR"), *name = "trunnion-??????"; /* as the warehouse in memory names it */
  char *real = directory ? realpath(directory, NULL) : NULL, *copy = directory ? strdup(directory) : NULL, *place = NULL;
  if (real || (directory && !copy)) {
    free(copy);
    return real;
  }
  if (directory) {
    size_t size = strlen(copy);
    while (size > 1 && copy[size - 1] == '/') copy[--size] = 0;
    char *slash = strrchr(copy, '/');
    name = slash ? slash + 1 : copy;
    if (slash) *slash = 0;
    base = !slash ? "." : *copy ? copy : "/";
  } else if (!base || *base != '/') {
    base = "/tmp";
  }
  char *parent = realpath(base, NULL);
  if (parent && asprintf(&place, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent, name) < 0) place = NULL;
  free(parent);
  free(copy);
  return place;
}

/* `directory`: NULL: that of a warehouse in memory. */
static trn_status own(trn_config *list, const char *directory, const char *origin, trn_error **error) {
  char *place = warehouse_place(directory);
  trn_status status = place ? trn_config_add(list, NULL, TRN_CONFIG_TEXT, place, origin, NULL, error)
                            : trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "warehouse: there is no directory for %s",
                                            directory ? directory : "temporary files (TMPDIR)");
  free(place);
  return status;
}

/* The policies know where warehouses are: rules about tables do not leave their files open. */
static trn_status own_warehouses(trn_config *root, trn_error **error) {
  const trn_config *layers = trn_config_get(root, "layers"), *catalogs = trn_config_get(root, "catalogs");
  trn_status status = TRN_OK;
  for (size_t i = 0; !status && i < trn_config_count(layers); i++) {
    trn_config *rules = (trn_config *)trn_config_get(trn_config_at(layers, i), "authorize"), *list = NULL;
    if (trn_config_get_kind(rules) != TRN_CONFIG_MAP || trn_config_get(rules, "owned")) continue;
    const char *origin = trn_config_origin(rules);
    status = trn_config_add(rules, "owned", TRN_CONFIG_LIST, NULL, origin, &list, error);
    if (!status) status = own(list, trn_config_value(trn_config_get(root, "warehouse")), origin, error);
    for (size_t k = 0; !status && k < trn_config_count(catalogs); k++) {
      const trn_config *directory = trn_config_get(trn_config_get(trn_config_at(catalogs, k), "warehouse"), "directory");
      if (directory) status = own(list, trn_config_value(directory), origin, error);
    }
  }
  return status;
}

bool settings_read(int argc, char **argv, settings *s, int *result) {
  const char *file = NULL;
  trn_config *from_file = NULL;
  trn_error *error = NULL;
  trn_status status = TRN_OK;
  s->argc = argc;
  s->argv = argv;
  optind = 0; /* from the start, when it is read again */
  s->root = trn_config_create();
  if (!s->root) return false;
  if (!read_flags(argc, argv, s, &file, result)) return false;
  if (!file) file = getenv("TRUNNION_CONFIG");
  if (file) status = read_yaml(file, &from_file, &error);
  if (!status) status = read_environment(s->root, from_file, &error);
  if (!status && from_file) status = merge(s->root, from_file, false, &error);
  if (!status) status = check_keys(s->root, &error);
  if (!status) status = own_warehouses(s->root, &error);
  trn_config_destroy(from_file);
  if (status) *result = settings_fail(status, error);
  return !status;
}
