/* Rules of the authorize layer. Internal to src/layer. */
#ifndef TRN_LAYER_AUTHORIZE_H
#define TRN_LAYER_AUTHORIZE_H
#include "layer/layer.h"

/* Bits 1 << trn_access_action. */
#define AUTHORIZE_BIT(action) (1u << (action))
#define AUTHORIZE_ALL                                                                                                  \
  (AUTHORIZE_BIT(TRN_ACTION_READ) | AUTHORIZE_BIT(TRN_ACTION_WRITE) | AUTHORIZE_BIT(TRN_ACTION_CREATE) |              \
   AUTHORIZE_BIT(TRN_ACTION_DROP) | AUTHORIZE_BIT(TRN_ACTION_USE))

typedef struct authorize_rule {
  trn_who who;
  unsigned allows, denies;
  trn_texts tables, views, databases, paths, functions;
  trn_texts columns, hide; /* the only ones; those that are not */
  bool has_columns;
  char *filter;
  trn_mask *masks; /* texts are owned */
  size_t mask_count;
  char *origin; /* where it is written */
  size_t number; /* in its list, from 1 */
} authorize_rule;

typedef struct authorize_rules {
  authorize_rule *items;
  size_t count;
  bool allows_by_default, allows_unknown, allows_functions, views_give_rights, is_open; /* open: no barrier */
  trn_texts owned; /* paths that catalogs keep their tables in: closed to those whom no rule lets in */
  trn_texts extensions; /* operators of embedders that are known to be harmless */
} authorize_rules;

trn_status authorize__read(const trn_config *config, authorize_rules *out, trn_error **error);
void authorize__finish(authorize_rules *rules);

/* A table, view or database as its parts. */
typedef struct authorize_name {
  const char *catalog, *database, *table; /* NULL: none */
} authorize_name;

typedef struct authorize_answer {
  bool allowed;
  const authorize_rule *rule; /* that decided; NULL: the default */
} authorize_answer;
/* What the rules say; `text`: of paths (normal form) and functions. NULL memory failures: denied with `failed`. */
authorize_answer authorize__decide(const authorize_rules *rules, const trn_session *session, trn_access_kind kind,
                                   unsigned actions, const authorize_name *name, const char *text);
/* Is the rule about this user, and about what the label says (tables, paths)? */
bool authorize__is_about(const authorize_rule *rule, const trn_session *session, const trn_scan_info *info);
bool authorize__is_about_paths(const authorize_rule *rule, const trn_scan_info *info); /* whoever it is about */
bool authorize__hides(const authorize_rule *rule, const char *column);

#endif
