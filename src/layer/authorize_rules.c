/* The rules of the authorize layer: reading them, and what they say. A denial wins over every permission. */
#include <stdio.h>
#include <sys/stat.h>
#include <dirent.h>

#include "layer/authorize.h"

/* ---- reading ---- */

static void rule_finish(authorize_rule *rule) {
  trn_texts *lists[] = {&rule->tables, &rule->views,   &rule->databases, &rule->paths,
                        &rule->functions, &rule->columns, &rule->hide};
  trn__who_finish(&rule->who);
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) trn__texts_finish(lists[i]);
  for (size_t i = 0; i < rule->mask_count; i++) {
    free((char *)rule->masks[i].column);
    free((char *)rule->masks[i].text);
  }
  free(rule->masks);
  free(rule->filter);
  free(rule->origin);
}

void authorize__finish(authorize_rules *rules) {
  for (size_t i = 0; i < rules->count; i++) rule_finish(&rules->items[i]);
  free(rules->items);
  trn__texts_finish(&rules->extensions);
  trn__texts_finish(&rules->owned);
  *rules = (authorize_rules){0};
}

static trn_status read_actions(const trn_config *map, const char *key, unsigned *out, trn_error **error) {
  static const struct {
    const char *name;
    unsigned bits;
  } actions[] = {{"read", AUTHORIZE_BIT(TRN_ACTION_READ)},     {"write", AUTHORIZE_BIT(TRN_ACTION_WRITE)},
                 {"create", AUTHORIZE_BIT(TRN_ACTION_CREATE)}, {"drop", AUTHORIZE_BIT(TRN_ACTION_DROP)},
                 {"use", AUTHORIZE_BIT(TRN_ACTION_USE)},       {"all", AUTHORIZE_ALL}};
  trn_texts texts;
  trn_status status = trn__texts_read(map, key, &texts, error);
  for (size_t i = 0; i < texts.count && status == TRN_OK; i++) {
    size_t k = 0;
    while (k < sizeof actions / sizeof *actions && strcmp(actions[k].name, texts.items[i]) != 0) k++;
    if (k == sizeof actions / sizeof *actions)
      status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                             "%s: '%s' is no action (read, write, create, drop, use, all)",
                             trn_config_origin(trn_config_get(map, key)), texts.items[i]);
    else
      *out |= actions[k].bits;
  }
  trn__texts_finish(&texts);
  return status;
}

/* What is wrong with a text whatever the table is; `column` NULL: a filter. */
static trn_status check_text(const authorize_rule *rule, const trn_config *value, const char *column, const char *text,
                             trn_error **error) {
  trn_error *inner = NULL;
  trn_status status = trn__text_check(text, !column, error ? &inner : NULL);
  if (status && error)
    trn_error_set(error, status, NULL, "%s: rule %zu, %s%s%s: %s", trn_config_origin(value), rule->number,
                  column ? "the mask of '" : "its filter", column ? column : "", column ? "'" : "",
                  inner ? trn_error_message(inner) : "out of memory");
  trn_error_unref(inner);
  return status;
}

static trn_status read_masks(const trn_config *map, authorize_rule *rule, trn_error **error) {
  const trn_config *masks = trn_config_get(map, "masks");
  trn_config_kind kind = trn_config_get_kind(masks);
  if (kind == TRN_CONFIG_NONE) return TRN_OK;
  if (kind != TRN_CONFIG_MAP)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: 'masks' has a text for each column",
                         trn_config_origin(masks));
  size_t count = trn_config_count(masks);
  rule->masks = calloc(count ? count : 1, sizeof *rule->masks);
  if (!rule->masks) return trn__no_memory(error);
  for (size_t i = 0; i < count; i++) {
    const char *text = trn_config_value(trn_config_at(masks, i));
    if (!text)
      return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: a mask is a text",
                           trn_config_origin(trn_config_at(masks, i)));
    trn_mask *mask = &rule->masks[rule->mask_count++];
    mask->column = trn__text_copy(trn_config_key_at(masks, i));
    mask->text = trn__text_copy(text);
    if (!mask->column || !mask->text) return trn__no_memory(error);
    trn_status status = check_text(rule, trn_config_at(masks, i), mask->column, mask->text, error);
    if (status) return status;
  }
  return TRN_OK;
}

static trn_status check_rule(const authorize_rule *rule, const trn_config *map, trn_error **error) {
  bool has_data = rule->tables.count || rule->paths.count;
  bool has_object = has_data || rule->views.count || rule->databases.count || rule->functions.count;
  bool changes = rule->filter || rule->mask_count || rule->has_columns || rule->hide.count;
  if (!has_object)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "%s: a rule is about tables, views, databases, paths or functions", trn_config_origin(map));
  if (changes && !has_data)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL,
                         "%s: filter, masks, columns and hide are for tables or paths", trn_config_origin(map));
  if (!changes && !rule->allows && !rule->denies)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: a rule says what it allows or denies",
                         trn_config_origin(map));
  return TRN_OK;
}

static trn_status read_rule(const trn_config *map, authorize_rule *rule, trn_error **error) {
  static const char *const keys[] = {TRN_WHO_KEYS, "allow",   "deny", "tables", "views", "databases", "paths",
                                     "functions",  "columns", "hide", "filter", "masks", NULL};
  const char *filter = NULL;
  if (trn_config_get_kind(map) != TRN_CONFIG_MAP)
    return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: a rule is a map", trn_config_origin(map));
  rule->has_columns = trn_config_get(map, "columns") != NULL;
  rule->origin = trn__text_copy(trn_config_origin(map));
  trn_status status = rule->origin ? trn_config_check_keys(map, keys, error) : trn__no_memory(error);
  if (status == TRN_OK) status = trn__who_read(map, &rule->who, error);
  if (status == TRN_OK) status = read_actions(map, "allow", &rule->allows, error);
  if (status == TRN_OK) status = read_actions(map, "deny", &rule->denies, error);
  if (status == TRN_OK) status = trn__texts_read(map, "tables", &rule->tables, error);
  if (status == TRN_OK) status = trn__texts_read(map, "views", &rule->views, error);
  if (status == TRN_OK) status = trn__texts_read(map, "databases", &rule->databases, error);
  if (status == TRN_OK) status = trn__texts_read(map, "paths", &rule->paths, error);
  if (status == TRN_OK) status = trn__texts_read(map, "functions", &rule->functions, error);
  if (status == TRN_OK) status = trn__texts_read(map, "columns", &rule->columns, error);
  if (status == TRN_OK) status = trn__texts_read(map, "hide", &rule->hide, error);
  if (status == TRN_OK) status = trn_config_text(map, "filter", &filter, error);
  if (status == TRN_OK && filter) status = check_text(rule, trn_config_get(map, "filter"), NULL, filter, error);
  if (status == TRN_OK && filter && !(rule->filter = trn__text_copy(filter))) status = trn__no_memory(error);
  if (status == TRN_OK) status = read_masks(map, rule, error);
  return status ? status : check_rule(rule, map, error);
}

/* "deny" or "allow" */
static trn_status read_choice(const trn_config *config, const char *key, const char *yes, const char *no, bool *out,
                              trn_error **error) {
  const char *text = NULL;
  trn_status status = trn_config_text(config, key, &text, error);
  if (status || !text) return status;
  *out = strcmp(text, yes) == 0;
  if (*out || strcmp(text, no) == 0) return TRN_OK;
  return trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: '%s' is %s or %s, not '%s'",
                       trn_config_origin(trn_config_get(config, key)), key, yes, no, text);
}

trn_status authorize__read(const trn_config *config, authorize_rules *out, trn_error **error) {
  static const char *const keys[] = {"default", "unknown", "functions", "views", "barrier",
                                     "owned",   "extensions", "rules", NULL};
  *out = (authorize_rules){.allows_by_default = config == NULL, .allows_functions = true};
  bool seals = true;
  trn_status status = trn_config_check_keys(config, keys, error);
  if (status == TRN_OK) status = read_choice(config, "default", "allow", "deny", &out->allows_by_default, error);
  if (status == TRN_OK) status = read_choice(config, "unknown", "allow", "deny", &out->allows_unknown, error);
  if (status == TRN_OK) status = read_choice(config, "functions", "allow", "deny", &out->allows_functions, error);
  if (status == TRN_OK) status = read_choice(config, "views", "definer", "invoker", &out->views_give_rights, error);
  if (status == TRN_OK) status = trn_config_bool(config, "barrier", &seals, error);
  if (status == TRN_OK) status = trn__texts_read(config, "owned", &out->owned, error);
  if (status == TRN_OK) status = trn__texts_read(config, "extensions", &out->extensions, error);
  out->is_open = !seals;
  const trn_config *rules = trn_config_get(config, "rules");
  if (status == TRN_OK && rules && trn_config_get_kind(rules) != TRN_CONFIG_LIST)
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "%s: 'rules' is a list", trn_config_origin(rules));
  size_t count = trn_config_count(rules);
  if (status == TRN_OK && !(out->items = calloc(count ? count : 1, sizeof *out->items))) status = trn__no_memory(error);
  for (size_t i = 0; i < count && status == TRN_OK; i++) {
    out->items[i].number = out->count = i + 1;
    status = read_rule(trn_config_at(rules, i), &out->items[i], error);
  }
  if (status) authorize__finish(out);
  return status;
}

/* ---- matching ---- */

/* The pattern over the first `size` bytes of a text. What is compared is short: on the stack, else it matches nothing that
 * allows and everything that denies. */
static bool glob_part(const char *pattern, const char *text, size_t size, bool ignore_case, bool otherwise) {
  char part[TRN_POLICY_NAME_MAX + 1];
  if (size > TRN_POLICY_NAME_MAX) return otherwise;
  memcpy(part, text, size);
  part[size] = 0;
  return trn_pattern_matches(pattern, part, ignore_case);
}

/* A pattern with fewer parts than the name is about the last ones. */
static bool name_matches(const char *pattern, const authorize_name *name, bool otherwise) {
  const char *parts[3];
  size_t count = 0, wanted = 1, size = 0;
  char text[TRN_POLICY_NAME_MAX + 1];
  if (name->catalog) parts[count++] = name->catalog;
  if (name->database && *name->database) parts[count++] = name->database;
  if (name->table) parts[count++] = name->table;
  for (const char *c = pattern; *c; c++) wanted += *c == '.';
  if (strcmp(pattern, "*") == 0) return true;
  if (wanted > count) return false;
  for (size_t i = count - wanted; i < count; i++) {
    size_t length = strlen(parts[i]);
    if (size + length + 1 > TRN_POLICY_NAME_MAX) return otherwise;
    if (size) text[size++] = '.';
    memcpy(text + size, parts[i], length);
    size += length;
  }
  text[size] = 0;
  return trn_pattern_matches(pattern, text, true);
}

static bool names_match(const trn_texts *patterns, const authorize_name *name, bool otherwise) {
  for (size_t i = 0; i < patterns->count; i++)
    if (name_matches(patterns->items[i], name, otherwise)) return true;
  return false;
}

/* A pattern is about the path, and about everything below it. */
static bool covers(const char *pattern, const char *path, bool otherwise) {
  if (trn_pattern_matches(pattern, path, false)) return true;
  for (size_t at = strlen(path); at-- > 1;)
    if (path[at] == '/' && glob_part(pattern, path, at, false, otherwise)) return true;
  return false;
}

static bool paths_cover(const trn_texts *patterns, const char *path, bool otherwise) {
  for (size_t i = 0; i < patterns->count; i++)
    if (covers(patterns->items[i], path, otherwise)) return true;
  return false;
}

/* Does reading this directory read something that the pattern is about? The bound is on all of it. */
static bool holds(const trn_texts *patterns, const char *path, unsigned depth, size_t *left) {
  struct stat info;
  if (!*left || depth > TRN_POLICY_FOLDERS_DEPTH_MAX) return true; /* too much to look at: then yes */
  --*left;
  if (depth && paths_cover(patterns, path, true)) return true;
  if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return false;
  DIR *folder = opendir(path);
  bool found = false;
  for (struct dirent *entry; folder && !found && (entry = readdir(folder));) {
    trn_strbuf below = {0};
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    trn__strbuf_printf(&below, "%s/%s", strcmp(path, "/") == 0 ? "" : path, entry->d_name);
    char *real = below.failed ? NULL : realpath(below.data, NULL); /* a link leads elsewhere */
    found = below.failed || (real && paths_cover(patterns, real, true)) || holds(patterns, below.data, depth + 1, left);
    free(real);
    trn__strbuf_finish(&below);
  }
  if (folder) closedir(folder);
  return found;
}

/* A URL that is a directory above what a pattern names. */
static bool is_above(const trn_texts *patterns, const char *path) {
  size_t size = strlen(path);
  while (size && path[size - 1] == '/') size--;
  for (size_t i = 0; i < patterns->count; i++) {
    const char *pattern = patterns->items[i];
    size_t literal = strcspn(pattern, "*?");
    if (literal > size && strncmp(pattern, path, size) == 0 && pattern[size] == '/') return true;
  }
  return false;
}

static bool path_is_denied(const trn_texts *patterns, const char *path) {
  size_t left = TRN_POLICY_FILES_MAX;
  if (paths_cover(patterns, path, true) || is_above(patterns, path)) return true;
  return !strstr(path, "://") && holds(patterns, path, 0, &left);
}

static bool rule_matches(const authorize_rule *rule, trn_access_kind kind, const authorize_name *name,
                         const char *text, bool denies) {
  switch (kind) {
  case TRN_ACCESS_TABLE: return names_match(&rule->tables, name, denies);
  case TRN_ACCESS_VIEW: return names_match(&rule->views, name, denies);
  case TRN_ACCESS_DATABASE: return names_match(&rule->databases, name, denies);
  case TRN_ACCESS_FUNCTION: return trn__texts_match(&rule->functions, text, true);
  case TRN_ACCESS_PATH:
    if (!rule->paths.count) return false;
    return denies ? path_is_denied(&rule->paths, text) : paths_cover(&rule->paths, text, false);
  default: return false;
  }
}

authorize_answer authorize__decide(const authorize_rules *rules, const trn_session *session, trn_access_kind kind,
                                   unsigned actions, const authorize_name *name, const char *text) {
  authorize_answer answer = {
      .allowed = kind == TRN_ACCESS_FUNCTION ? rules->allows_functions : rules->allows_by_default};
  for (size_t i = 0; i < rules->count; i++) {
    const authorize_rule *rule = &rules->items[i];
    bool denies = (rule->denies & actions) == actions, allows = (rule->allows & actions) != 0;
    if ((!denies && !allows) || !trn__who_matches(&rule->who, session)) continue;
    if (denies && rule_matches(rule, kind, name, text, true)) return (authorize_answer){false, rule};
    if (allows && !answer.rule && rule_matches(rule, kind, name, text, false)) answer = (authorize_answer){true, rule};
  }
  /* Rules about tables would mean nothing if their files could be read. */
  if (kind == TRN_ACCESS_PATH && answer.allowed && !answer.rule && rules->owned.count)
    answer.allowed = !paths_cover(&rules->owned, text, true) && !is_above(&rules->owned, text);
  return answer;
}

bool authorize__is_about(const authorize_rule *rule, const trn_session *session, const trn_scan_info *info) {
  if (!trn__who_matches(&rule->who, session)) return false;
  if (info->table) {
    authorize_name name = {info->catalog, info->database, info->table};
    if (names_match(&rule->tables, &name, true)) return true;
  }
  return authorize__is_about_paths(rule, info);
}

bool authorize__is_about_paths(const authorize_rule *rule, const trn_scan_info *info) {
  for (size_t i = 0; i < info->path_count && rule->paths.count; i++) {
    char *path = trn__path_normal(info->paths[i], true);
    bool about = !path || path_is_denied(&rule->paths, path); /* a part of the data is enough for a filter */
    free(path);
    if (about) return true;
  }
  return false;
}

bool authorize__hides(const authorize_rule *rule, const char *column) {
  if (rule->has_columns && !trn__texts_match(&rule->columns, column, true)) return true;
  return trn__texts_match(&rule->hide, column, true);
}
