/* What the cache layer may keep of a plan, and under which key. */
#include "core/blake2b.h"
#include "core/query.h"
#include "layer/cache.h"

typedef struct inquiry {
  trn_vec labels; /* const trn_scan_label */
  bool keeps;     /* nothing in the plan forbids it */
  bool failed;
} inquiry;

static trn_walk look_at_rel(void *user, const trn_rel *rel) {
  inquiry *q = user;
  uint8_t identity[16];
  switch (rel->kind) {
  case TRN_REL_SCAN:
    if (!rel->u.scan.info || !trn_scan_label_identity(rel->u.scan.info, identity))
      q->keeps = false;
    else if (!trn__vec_push(&q->labels, rel->u.scan.info))
      q->failed = true;
    break;
  case TRN_REL_WRITE:
  case TRN_REL_OPAQUE:
  case TRN_REL_EXTENSION:
    q->keeps = false;
    break;
  case TRN_REL_SAMPLE: q->keeps = trn__rel_is_barrier(rel); break;
  default: break;
  }
  return q->keeps && !q->failed ? TRN_WALK_ON : TRN_WALK_STOP;
}

static trn_walk look_at_expr(void *user, const trn_expr *expr, const trn_rel *holder) {
  inquiry *q = user;
  (void)holder;
  if (trn_expr_volatility(expr) != 0) q->keeps = false;
  return q->keeps ? TRN_WALK_ON : TRN_WALK_STOP;
}

/* Another answer each time, or each day. */
static bool is_volatile(const char *name) {
  static const char *const names[] = {"now",          "current_timestamp", "localtimestamp",
                                      "current_date", "curdate",           "current_time",
                                      "today",        "unix_timestamp",    "to_unix_timestamp",
                                      "rand",         "random",            "randn",
                                      "uuid",         "shuffle",           "randstr",
                                      "uniform",      "spark_partition_id", "monotonically_increasing_id",
                                      "input_file_name", "input_file_block_start", "input_file_block_length",
                                      "reflect",      "java_method",       "try_reflect"};
  const char *plain = strncmp(name, "trn.", 4) == 0 ? name + 4 : name;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (trn_pattern_matches(names[i], plain, true)) return true;
  return false;
}

static bool calls_volatile(const trn_plan *plan, bool *failed) {
  const char *const *names = NULL;
  size_t count = 0;
  if (trn_plan_functions(plan, &names, &count)) *failed = true;
  for (size_t i = 0; i < count; i++)
    if (is_volatile(names[i])) return true;
  if (trn__plan_own_functions(plan, &names, &count)) *failed = true, count = 0;
  for (size_t i = 0; i < count; i++) /* a plugin's: another one may have the name by then */
    if (strncmp(names[i], "trn.", 4) != 0 && strchr(names[i], '.')) return true;
  return *failed;
}

typedef struct setting_hash {
  const cache *cache;
  uint64_t sum[2]; /* settings have no order that matters */
} setting_hash;

static void add_setting(void *user, const char *key, const char *value) {
  setting_hash *h = user;
  uint64_t digest[2];
  trn_blake2b hash;
  if (!trn__texts_match(&h->cache->settings, key, false)) return;
  trn__blake2b_init(&hash);
  trn__blake2b_add(&hash, key, strlen(key) + 1);
  trn__blake2b_add(&hash, value, strlen(value));
  trn__blake2b_end(&hash, (uint8_t *)digest);
  h->sum[0] += digest[0];
  h->sum[1] += digest[1];
}

static void put_text(trn_blake2b *hash, const char *text) {
  uint64_t size = text ? strlen(text) + 1 : 0;
  trn__blake2b_add(hash, &size, sizeof size);
  if (size) trn__blake2b_add(hash, text, size);
}

bool cache__texts_push(trn_texts *texts, char *text) {
  char **items = text ? realloc(texts->items, (texts->count + 1) * sizeof *items) : NULL;
  if (!items) {
    free(text);
    return false;
  }
  texts->items = items;
  items[texts->count++] = text;
  return true;
}

void cache__materials_finish(materials *m) {
  trn__texts_finish(&m->tables);
  trn__texts_finish(&m->paths);
  trn__texts_finish(&m->live);
}

static bool add_label(materials *m, const trn_scan_label *label) {
  const trn_scan_info *info = trn_scan_label_info(label);
  if (info->table && !cache__texts_push(&m->tables, trn_scan_label_text(label))) return false;
  for (size_t i = 0; i < info->path_count; i++) {
    if (!cache__texts_push(&m->paths, trn__path_normal(info->paths[i], true))) return false;
    if (info->kind == TRN_SCAN_FILES && !cache__texts_push(&m->live, trn__text_copy(info->paths[i]))) return false;
  }
  return true;
}

bool cache__gather(const cache *c, trn_session *session, const trn_execute_request *request, materials *m) {
  inquiry q = {.keeps = true};
  trn_visitor visitor = {.rel = look_at_rel, .expr = look_at_expr, .user = &q};
  bool failed = false;
  if (request->plan->kind == TRN_PLAN_PHYSICAL) return false;
  trn_status status = trn__plan_walk(request->plan->root, &visitor);
  bool keeps = status == TRN_OK && q.keeps && !q.failed && !calls_volatile(request->plan, &failed);
  for (size_t i = 0; i < q.labels.count && keeps; i++) keeps = add_label(m, q.labels.items[i]);
  trn__vec_finish(&q.labels);
  if (keeps && m->live.count) {
    m->has_version = trn__paths_version((const char *const *)m->live.items, m->live.count, m->version, NULL, NULL);
    keeps = m->has_version;
  }
  setting_hash settings = {.cache = c};
  if (!keeps || trn_session_each(session, add_setting, &settings)) return false;
  uint8_t fingerprint[16];
  trn_blake2b hash;
  trn_plan_fingerprint(request->plan, fingerprint);
  trn__blake2b_init(&hash);
  trn__blake2b_add(&hash, fingerprint, sizeof fingerprint);
  trn__blake2b_add(&hash, m->version, sizeof m->version);
  trn__blake2b_add(&hash, settings.sum, sizeof settings.sum);
  put_text(&hash, request->policy);
  put_text(&hash, c->per_user ? trn_session_user(session) : NULL);
  trn__blake2b_end(&hash, m->key);
  return true;
}

bool cache__is_unchanged(const materials *m) {
  uint8_t now[16];
  if (!m->live.count) return true;
  return trn__paths_version((const char *const *)m->live.items, m->live.count, now, NULL, NULL) &&
         memcmp(now, m->version, sizeof now) == 0;
}
