/* Scripts: BEGIN ... END with what may stand inside. The statements are those of statement.c. */
#include "frontend/spark/sql/parser.h"

static spark_script *body(sql_parser *p, sql_kind end1, sql_kind end2, sql_kind end3);
static spark_script *part(sql_parser *p);

/* The labels and FOR variables around the place being parsed. */
typedef struct sql_label {
  const struct sql_label *outer;
  const char *name;
  bool is_block, is_variable;
} sql_label;

static spark_script *node(sql_parser *p, spark_script_kind kind, const char *label) {
  spark_script *script = sql__alloc(p, sizeof *script);
  *script = (spark_script){.kind = kind, .label = label, .start = (int32_t)sql__token(p)->start};
  return script;
}

/* ---- what is read again ---- */

static spark_script_later begin_later(sql_parser *p) {
  p->deferred = false;
  return (spark_script_later){.start = sql__token(p)->start, .positional = p->positional};
}

static void end_later(sql_parser *p, spark_script_later *later) {
  const sql_token *last = &p->tokens[sql__last(p)];
  if (p->deferred) later->size = last->start + last->size - later->start;
  p->deferred = false;
}

/* ---- labels ---- */

static void refuse_label(sql_parser *p, size_t at, const char *condition, const char *key, const char *name) {
  char *shown = trn__arena_printf(p->arena, "`%s`", name);
  if (shown == NULL) sql__fail_memory(p);
  trn_kv params[] = {{key, shown}};
  sql__refuse(p, at, at, condition, "42K0L", params, 1);
}

static const sql_label *find_label(const sql_parser *p, const char *name) {
  const sql_label *label = p->labels;
  while (label != NULL && strcasecmp(label->name, name) != 0) label = label->outer;
  return label;
}

/* Puts a name where the parts inside see it; the caller takes it away again. */
static void push_label(sql_parser *p, sql_label *label, const char *name, size_t at, bool is_block, bool is_variable) {
  static const char *const forbidden[] = {"builtin", "session", "system", "sys", "local"};
  for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
    if (strcasecmp(forbidden[i], name) == 0)
      refuse_label(p, at, "LABEL_OR_FOR_VARIABLE_NAME_FORBIDDEN", "label", sql__lower(p, name));
  if (find_label(p, name) != NULL)
    refuse_label(p, at, "LABEL_OR_FOR_VARIABLE_ALREADY_EXISTS", "label", sql__lower(p, name));
  *label = (sql_label){.outer = p->labels, .name = name, .is_block = is_block, .is_variable = is_variable};
  p->labels = label;
}

static void end_label(sql_parser *p, const char *label) {
  if (!sql__is_strict_identifier(p, p->at)) return;
  size_t at = p->at;
  char *end = sql__identifier(p);
  if (label != NULL && strcasecmp(label, end) == 0) return;
  if (label == NULL) {
    trn_kv params[] = {{"endLabel", trn__arena_printf(p->arena, "`%s`", end)}};
    if (params[0].value == NULL) sql__fail_memory(p);
    sql__refuse(p, at, at, "END_LABEL_WITHOUT_BEGIN_LABEL", "42K0L", params, 1);
    return;
  }
  trn_kv params[] = {{"beginLabel", trn__arena_printf(p->arena, "`%s`", label)},
                     {"endLabel", trn__arena_printf(p->arena, "`%s`", end)}};
  if (params[0].value == NULL || params[1].value == NULL) sql__fail_memory(p);
  sql__refuse(p, at, at, "LABELS_MISMATCH", "42K0L", params, 2);
}

/* LEAVE and ITERATE */
static spark_script *jump(sql_parser *p, spark_script_kind kind) {
  spark_script *script = node(p, kind, NULL);
  const char *word = kind == SPARK_SCRIPT_LEAVE ? "LEAVE" : "ITERATE";
  sql__advance(p);
  if (!sql__is_identifier(p, p->at)) sql__fail_syntax(p);
  size_t at = p->at;
  script->label = sql__identifier(p);
  const sql_label *label = find_label(p, script->label);
  trn_kv params[] = {{"labelName", sql__upper(p, script->label)}, {"statementType", word}};
  if (label == NULL || label->is_variable) {
    sql__refuse(p, at, at, "INVALID_LABEL_USAGE.DOES_NOT_EXIST", "42K0L", params, 2);
  } else if (kind == SPARK_SCRIPT_ITERATE && label->is_block) {
    sql__refuse(p, at, at, "INVALID_LABEL_USAGE.ITERATE_IN_COMPOUND", "42K0L", params, 1);
  }
  return script;
}

/* ---- declarations ---- */

static bool at_handler(const sql_parser *p) {
  return sql__kind(p) == KW_DECLARE && (sql__ahead(p, 1) == KW_EXIT || sql__ahead(p, 1) == KW_CONTINUE) &&
         sql__ahead(p, 2) == KW_HANDLER;
}

static bool at_condition(const sql_parser *p) {
  if (sql__kind(p) != KW_DECLARE || !sql__is_identifier(p, p->at + 1) || sql__ahead(p, 2) != KW_CONDITION) return false;
  return sql__ahead(p, 3) == KW_FOR || sql__ahead(p, 3) == SQL_SEMICOLON;
}

static const char *sqlstate(sql_parser *p) {
  size_t at, size;
  sql__expect(p, KW_SQLSTATE);
  if (sql__token_is(p, p->at, "VALUE")) sql__advance(p);
  if (!sql__is_string(p, p->at)) sql__fail_syntax(p);
  at = p->at;
  char *state = sql__upper(p, sql__string(p, &size));
  bool valid = strlen(state) == 5 && strspn(state, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == 5;
  if (!valid || strncmp(state, "00", 2) == 0 || strncmp(state, "01", 2) == 0 || strncmp(state, "XX", 2) == 0) {
    trn_kv params[] = {{"sqlState", state}};
    sql__refuse(p, at, at, "INVALID_SQLSTATE", "428B3", params, 1);
  }
  return state;
}

/* Each is compared with the others. */
static void check_count(sql_parser *p, size_t count) {
  if (count < TRN_SCRIPT_CONDITIONS_MAX) return;
  p->status = trn_error_set(&p->error, TRN_RESOURCE_EXHAUSTED, NULL,
                            "a block with more than TRN_SCRIPT_CONDITIONS_MAX (%u) conditions", TRN_SCRIPT_CONDITIONS_MAX);
  longjmp(p->fail, 1);
}

/* What is declared has effect on handlers only, which match the condition of an error: nothing raises one's own. */
static void condition(sql_parser *p, sql_list *declared, bool in_place) {
  size_t at = ++p->at;
  char *name = sql__upper(p, sql__identifier(p));
  trn_kv params[] = {{"conditionName", trn__arena_printf(p->arena, "`%s`", name)}};
  if (params[0].value == NULL) sql__fail_memory(p);
  sql__expect(p, KW_CONDITION);
  if (sql__accept(p, KW_FOR)) sqlstate(p);
  if (!in_place)
    sql__refuse(p, at, at, "INVALID_ERROR_CONDITION_DECLARATION.NOT_AT_START_OF_COMPOUND_STATEMENT", "42K0R", params, 1);
  check_count(p, declared->count);
  for (size_t i = 0; i < declared->count; i++) {
    trn_kv twice[] = {{"condition", params[0].value}};
    if (strcmp(declared->items[i], name) == 0) sql__refuse(p, at, at, "DUPLICATE_CONDITION_IN_SCOPE", "42734", twice, 1);
  }
  sql__push(p, declared, name);
}

static spark_script_condition *handled(sql_parser *p) {
  spark_script_condition *condition = sql__alloc(p, sizeof *condition);
  *condition = (spark_script_condition){0};
  if (sql__kind(p) == KW_SQLSTATE) {
    condition->kind = SPARK_HANDLER_SQLSTATE;
    condition->name = sqlstate(p);
  } else if (sql__accept(p, KW_SQLEXCEPTION)) {
    condition->kind = SPARK_HANDLER_EXCEPTION;
  } else if (sql__accept2(p, KW_NOT, KW_FOUND)) {
    condition->kind = SPARK_HANDLER_NOT_FOUND;
  } else {
    sql_list parts = {0};
    if (!sql__is_identifier(p, p->at)) sql__fail_syntax(p);
    sql__path(p, &parts);
    condition->kind = SPARK_HANDLER_CONDITION;
    condition->name = sql__upper(p, sql__join_texts(p, &parts, "", "."));
  }
  return condition;
}

static void check_handled(sql_parser *p, size_t at, const sql_list *all) {
  bool general = false, special = false;
  for (size_t i = 0; i < all->count; i++) {
    const spark_script_condition *one = all->items[i];
    bool is_name = one->kind == SPARK_HANDLER_CONDITION;
    if (one->name != NULL) special = true;
    else general = true;
    for (size_t k = 0; k < i && one->name != NULL; k++) {
      const spark_script_condition *other = all->items[k];
      if (other->kind != one->kind || strcmp(other->name, one->name) != 0) continue;
      trn_kv params[] = {{is_name ? "condition" : "sqlState", one->name}};
      sql__refuse(p, at, at,
                  is_name ? "INVALID_HANDLER_DECLARATION.DUPLICATE_CONDITION_IN_HANDLER_DECLARATION"
                          : "INVALID_HANDLER_DECLARATION.DUPLICATE_SQLSTATE_IN_HANDLER_DECLARATION",
                  "42K0Q", params, 1);
    }
  }
  if (general && special) sql__refuse(p, at, at, "INVALID_HANDLER_DECLARATION.INVALID_CONDITION_COMBINATION", "42K0Q", NULL, 0);
}

static spark_script *statement(sql_parser *p) {
  spark_script *script = node(p, SPARK_SCRIPT_STATEMENT, NULL);
  script->statement = sql__alloc(p, sizeof *script->statement);
  *script->statement = (spark_sql_statement){0};
  script->later = begin_later(p);
  sql__statement(p, script->statement);
  end_later(p, &script->later);
  return script;
}

static spark_script *compound(sql_parser *p, const char *label) {
  spark_script *script = node(p, SPARK_SCRIPT_BLOCK, label), *inside;
  sql__expect(p, KW_BEGIN);
  if (sql__kind(p) == KW_NOT && sql__ahead(p, 1) == KW_ATOMIC) p->at += 2;
  inside = body(p, KW_END, KW_END, KW_BEGIN);
  inside->start = script->start;
  inside->label = label;
  inside->has_scope = true;
  sql__expect(p, KW_END);
  if (p->labels != NULL || label != NULL || p->blocks > 1) end_label(p, label);
  return inside;
}

static void handler(sql_parser *p, sql_list *handlers, size_t *named) {
  spark_script_handler *handler = sql__alloc(p, sizeof *handler);
  sql_list conditions = {0};
  size_t at = p->at, before = p->blocks;
  bool goes_on = sql__ahead(p, 1) == KW_CONTINUE;
  p->at += 3;
  sql__expect(p, KW_FOR);
  do {
    check_count(p, (*named)++);
    sql__push(p, &conditions, handled(p));
  } while (sql__accept(p, SQL_COMMA));
  check_handled(p, at, &conditions);
  if (goes_on) sql__refuse(p, at, at, "UNSUPPORTED_FEATURE.CONTINUE_EXCEPTION_HANDLER", "0A000", NULL, 0);
  p->blocks = before + 1;
  handler->body = sql__kind(p) == KW_BEGIN ? compound(p, NULL) : statement(p);
  p->blocks = before;
  spark_script_condition *list = sql__alloc(p, conditions.count * sizeof *list);
  for (size_t i = 0; i < conditions.count; i++) list[i] = *(const spark_script_condition *)conditions.items[i];
  handler->conditions = list;
  handler->condition_count = conditions.count;
  sql__push(p, handlers, handler);
}

/* ---- IF, CASE, loops ---- */

static void add_branch(sql_parser *p, sql_list *branches, sql_expr *operand, sql_kind then, sql_kind end1, sql_kind end2) {
  spark_script_branch *branch = sql__alloc(p, sizeof *branch);
  size_t first = p->at;
  branch->later = begin_later(p);
  branch->condition = sql__expression(p);
  end_later(p, &branch->later);
  if (branch->later.size && operand != NULL) sql__fail_unimplemented(p, first, "IDENTIFIER(expression) in a CASE");
  if (operand != NULL) branch->condition = sql__function2(p, "==", operand, branch->condition, first, sql__last(p));
  branch->text = sql__text_between(p, first, sql__last(p));
  branch->body = NULL;
  if (then != SQL_END) {
    sql__expect(p, then);
    branch->body = body(p, end1, end2, KW_END);
  }
  sql__push(p, branches, branch);
}

static void set_branches(sql_parser *p, spark_script *script, const sql_list *branches) {
  script->branches = sql__alloc(p, branches->count * sizeof *script->branches);
  script->branch_count = branches->count;
  for (size_t i = 0; i < branches->count; i++) script->branches[i] = *(const spark_script_branch *)branches->items[i];
}

static spark_script *if_statement(sql_parser *p) {
  spark_script *script = node(p, SPARK_SCRIPT_BRANCH, NULL);
  sql_list branches = {0};
  do {
    sql__advance(p); /* IF, ELSEIF */
    add_branch(p, &branches, NULL, KW_THEN, KW_ELSEIF, KW_ELSE);
  } while (sql__kind(p) == KW_ELSEIF);
  if (sql__accept(p, KW_ELSE)) script->body = body(p, KW_END, KW_END, KW_END);
  sql__expect(p, KW_END);
  sql__expect(p, KW_IF);
  set_branches(p, script, &branches);
  return script;
}

static spark_script *case_statement(sql_parser *p) {
  spark_script *script = node(p, SPARK_SCRIPT_BRANCH, NULL);
  sql_list branches = {0};
  sql__advance(p);
  size_t first = p->at;
  p->deferred = false;
  sql_expr *operand = sql__kind(p) == KW_WHEN ? NULL : sql__expression(p);
  if (p->deferred) sql__fail_unimplemented(p, first, "IDENTIFIER(expression) in a CASE");
  if (sql__kind(p) != KW_WHEN) sql__fail_syntax(p);
  while (sql__accept(p, KW_WHEN)) add_branch(p, &branches, operand, KW_THEN, KW_WHEN, KW_ELSE);
  if (sql__accept(p, KW_ELSE)) script->body = body(p, KW_END, KW_END, KW_END);
  sql__expect(p, KW_END);
  sql__expect(p, KW_CASE);
  set_branches(p, script, &branches);
  return script;
}

static void end_loop(sql_parser *p, sql_kind word, const char *label) {
  sql__expect(p, KW_END);
  sql__expect(p, word);
  end_label(p, label);
}

static spark_script *while_loop(sql_parser *p, const char *label) {
  spark_script *script = node(p, SPARK_SCRIPT_WHILE, label);
  sql_list branches = {0};
  sql__advance(p);
  add_branch(p, &branches, NULL, KW_DO, KW_END, KW_END);
  set_branches(p, script, &branches);
  script->body = script->branches[0].body;
  end_loop(p, KW_WHILE, label);
  return script;
}

static spark_script *repeat_loop(sql_parser *p, const char *label) {
  spark_script *script = node(p, SPARK_SCRIPT_REPEAT, label);
  sql_list branches = {0};
  sql__advance(p);
  script->body = body(p, KW_UNTIL, KW_UNTIL, KW_UNTIL);
  sql__expect(p, KW_UNTIL);
  add_branch(p, &branches, NULL, SQL_END, KW_END, KW_END);
  set_branches(p, script, &branches);
  end_loop(p, KW_REPEAT, label);
  return script;
}

static spark_script *plain_loop(sql_parser *p, const char *label) {
  spark_script *script = node(p, SPARK_SCRIPT_LOOP, label);
  sql__advance(p);
  script->body = body(p, KW_END, KW_END, KW_END);
  end_loop(p, KW_LOOP, label);
  return script;
}

static spark_script *for_loop(sql_parser *p, const char *label) {
  spark_script *script = node(p, SPARK_SCRIPT_FOR, label);
  const sql_label *before = p->labels;
  sql_label variable;
  sql__advance(p);
  if (sql__is_identifier(p, p->at) && sql__ahead(p, 1) == KW_AS) {
    size_t at = p->at;
    script->variable = sql__identifier(p);
    sql__advance(p);
    push_label(p, &variable, script->variable, at, false, true);
  }
  if (!sql__starts_query(p, p->at) && sql__kind(p) != SQL_LEFT_PAREN) sql__fail_syntax(p);
  p->in_for = true;
  script->later = begin_later(p);
  script->query = sql__query(p);
  end_later(p, &script->later);
  p->in_for = false;
  sql__expect(p, KW_DO);
  script->body = body(p, KW_END, KW_END, KW_END);
  p->labels = before;
  end_loop(p, KW_FOR, label);
  return script;
}

/* ---- the list of parts ---- */

static spark_script *labelled(sql_parser *p) {
  const sql_label *before = p->labels;
  sql_label label;
  size_t at = p->at;
  const char *name = NULL;
  spark_script *script;
  if (sql__is_strict_identifier(p, p->at) && sql__ahead(p, 1) == SQL_COLON) {
    name = sql__identifier(p);
    sql__advance(p);
    push_label(p, &label, name, at, sql__kind(p) == KW_BEGIN, false);
  }
  switch ((int)sql__kind(p)) {
  case KW_BEGIN:
    p->blocks++;
    script = compound(p, name);
    p->blocks--;
    break;
  case KW_WHILE: script = while_loop(p, name); break;
  case KW_REPEAT: script = repeat_loop(p, name); break;
  case KW_LOOP: script = plain_loop(p, name); break;
  case KW_FOR: script = for_loop(p, name); break;
  default: sql__fail_syntax(p);
  }
  p->labels = before;
  return script;
}

static spark_script *part(sql_parser *p) {
  switch ((int)sql__kind(p)) {
  case KW_IF: return if_statement(p);
  case KW_CASE: return case_statement(p);
  case KW_LEAVE: return jump(p, SPARK_SCRIPT_LEAVE);
  case KW_ITERATE: return jump(p, SPARK_SCRIPT_ITERATE);
  case KW_BEGIN:
  case KW_WHILE:
  case KW_REPEAT:
  case KW_LOOP:
  case KW_FOR: return labelled(p);
  default: break;
  }
  if (sql__is_strict_identifier(p, p->at) && sql__ahead(p, 1) == SQL_COLON) return labelled(p);
  return statement(p);
}

/* Variables come first, then handlers, then the rest. `rank`: how far the block is. */
static void check_place(sql_parser *p, const spark_script *item, size_t at, bool may_declare, unsigned rank) {
  const Spark__Connect__Command *command = item->statement != NULL ? item->statement->command : NULL;
  if (command == NULL || command->command_type_case != SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_DECLARE_VARIABLE) return;
  if (may_declare && rank == 0) return;
  trn_kv params[] = {{"varName", trn__arena_printf(p->arena, "`%s`", command->trn_declare_variable->names[0])}};
  if (params[0].value == NULL) sql__fail_memory(p);
  sql__refuse(p, at, at,
              may_declare ? "INVALID_VARIABLE_DECLARATION.ONLY_AT_BEGINNING"
                          : "INVALID_VARIABLE_DECLARATION.NOT_ALLOWED_IN_SCOPE",
              "42K0M", params, 1);
}

static bool is_declaration(const spark_script *item) {
  const Spark__Connect__Command *command = item->statement != NULL ? item->statement->command : NULL;
  return command != NULL && command->command_type_case == SPARK__CONNECT__COMMAND__COMMAND_TYPE_TRN_DECLARE_VARIABLE;
}

/* Statements, each with its semicolon, up to one of three words. KW_BEGIN as the third: a block, which may be empty and
 * declare. */
static spark_script *body(sql_parser *p, sql_kind end1, sql_kind end2, sql_kind end3) {
  spark_script *script = node(p, SPARK_SCRIPT_BLOCK, NULL);
  sql_list items = {0}, handlers = {0}, conditions = {0};
  size_t named = 0;
  bool may_declare = end3 == KW_BEGIN, first = true;
  unsigned rank = 0; /* 1: behind a handler, 2: behind a statement */
  sql__enter(p, SQL_DEPTH_QUERY);
  while (first || (sql__kind(p) != end1 && sql__kind(p) != end2 && (may_declare || sql__kind(p) != end3))) {
    size_t at = p->at;
    if (first && may_declare && sql__kind(p) == KW_END) break;
    first = false;
    if (sql__kind(p) == KW_DECLARE && sql__is_identifier(p, p->at + 1) && sql__token_is(p, p->at + 2, "CURSOR"))
      sql__fail(p, at, at, "UNSUPPORTED_FEATURE.SQL_CURSOR", "0A000", NULL, 0);
    if (at_handler(p)) {
      if (!may_declare || rank > 1)
        sql__refuse(p, at, at, "INVALID_HANDLER_DECLARATION.WRONG_PLACE_OF_DECLARATION", "42K0Q", NULL, 0);
      handler(p, &handlers, &named);
      if (rank == 0) rank = 1;
    } else if (at_condition(p)) {
      condition(p, &conditions, may_declare && rank == 0);
    } else {
      spark_script *item = part(p);
      check_place(p, item, at, may_declare, rank);
      if (!is_declaration(item)) rank = 2;
      sql__push(p, &items, item);
    }
    if (!sql__accept(p, SQL_SEMICOLON)) sql__fail_syntax(p);
  }
  sql__leave(p, SQL_DEPTH_QUERY);
  script->items = (spark_script **)items.items;
  script->item_count = items.count;
  spark_script_handler *list = sql__alloc(p, (handlers.count + 1) * sizeof *list);
  for (size_t i = 0; i < handlers.count; i++) list[i] = *(const spark_script_handler *)handlers.items[i];
  script->handlers = list;
  script->handler_count = handlers.count;
  script->conditions = (const char **)conditions.items;
  script->condition_count = conditions.count;
  return script;
}

spark_script *sql__script(sql_parser *p) {
  p->in_script = p->defers = true;
  p->options.text_variable = NULL; /* variables change while it runs */
  p->blocks = 1;
  return compound(p, NULL);
}
