/* Plans as SQL text: what the printer of relations, the printer of expressions and the dialects share. Internal to
 * src/plan. */
#ifndef TRN_PLAN_SQL_PRINT_H
#define TRN_PLAN_SQL_PRINT_H
#include "plan/graph.h"
#include <trunnion/sql.h>

typedef struct sql_printer sql_printer;

/* How a dialect writes what differs. Every function writes to p->out, or refuses what has no exact form. */
typedef struct sql_dialect {
  const char *name, *title; /* "sqlite"; "SQLite" in messages */
  trn_status (*check_type)(sql_printer *p, const trn_type *type);
  trn_status (*literal)(sql_printer *p, const trn_expr *e); /* not null */
  trn_status (*cast)(sql_printer *p, const trn_expr *arg, const trn_type *type, bool is_try);
  trn_status (*call)(sql_printer *p, const trn_expr *e); /* but for booleans and comparisons */
  /* The aggregate's call, without FILTER and OVER. `part`: 0, or 1 and 2 for the two values that one which is_split keeps. */
  trn_status (*aggregate)(sql_printer *p, const trn_expr *e, unsigned part);
  bool (*is_split)(const trn_expr *e);
  /* The value of one that is split, from the columns s<id> and n<id> that its parts became. */
  trn_status (*joined)(sql_printer *p, const trn_expr *e, uint32_t id);
  trn_status (*window_function)(sql_printer *p, const trn_expr *call);
  trn_status (*null)(sql_printer *p, const trn_type *type);
  trn_status (*column)(sql_printer *p, const char *name, const trn_type *type); /* of a table */
  /* Numbers from start to last; NULL: by recursion. */
  trn_status (*series)(sql_printer *p, int64_t start, int64_t last, int64_t step);
  /* Around an aggregate or a window's function that the database types otherwise; NULL: nothing is. */
  void (*typed_open)(sql_printer *p, const trn_type *type);
  trn_status (*typed_close)(sql_printer *p, const trn_type *type);
  const char *no_limit; /* before OFFSET when all rows are wanted */
  bool correlates;      /* is good at EXISTS whose condition is no equality */
  bool lacks_filter;    /* the dialect's aggregates see to FILTER themselves */
} sql_dialect;

struct sql_printer {
  const sql_dialect *dialect;
  const trn_sql_dialect *traits; /* of trn__sql_standard */
  trn_strbuf *out;
  trn_error **error;
  unsigned depth;
  /* of relations */
  trn_strbuf ctes;    /* those that are whole */
  trn_ptrmap uses;    /* how many parents a relation has */
  trn_ptrmap numbers; /* of the relations that have a name */
  uint32_t count;
};

extern const sql_dialect trn__sql_sqlite;
/* What a table of traits says: p->traits. */
extern const sql_dialect trn__sql_standard;

/* UNIMPLEMENTED "<what> cannot be written in <dialect>'s SQL". */
trn_status trn__sql_refuse(sql_printer *p, const char *format, ...) TRN_PRINTF(2, 3);
trn_status trn__sql_expr(sql_printer *p, const trn_expr *e);
/* " AND x" for the equalities that every branch of an OR has, so that it can be joined by them. */
trn_status trn__sql_implied(sql_printer *p, const trn_expr *condition);
/* Comma between. */
trn_status trn__sql_exprs(sql_printer *p, const trn_expr *const *items, uint32_t count);
/* Writes `format` with "$1" .. "$9" as the expressions. */
trn_status trn__sql_form(sql_printer *p, const char *format, const trn_expr *const *args, uint32_t count);
trn_status trn__sql_order(sql_printer *p, const trn_expr *const *keys, const trn_sort_flags *flags, uint32_t count);
/* The arguments of an aggregate that are neither filter nor sort keys. */
uint32_t trn__sql_operands(const trn_expr *aggregate);
/* With FILTER. */
trn_status trn__sql_aggregate(sql_printer *p, const trn_expr *e, unsigned part);
void trn__sql_puts(sql_printer *p, const char *text);
void trn__sql_printf(sql_printer *p, const char *format, ...) TRN_PRINTF(2, 3);
void trn__sql_name(sql_printer *p, const char *name); /* quoted */
/* sql_print_literal.c */
trn_status trn__sql_date(sql_printer *p, int64_t days); /* YYYY-MM-DD; refuses others than the years 0 to 9999 */
void trn__sql_quoted(sql_printer *p, const char *data, size_t size); /* in single quotes; no zero bytes */
void trn__sql_hex(sql_printer *p, const char *data, size_t size);
const trn_literal *trn__sql_text_argument(const trn_expr *e, uint32_t index); /* a constant text; NULL: it is none */
bool trn__sql_escapes_plainly(const trn_expr *like); /* of trn.like: its escape is the usual one */
bool trn__sql_whole_argument(const trn_expr *e, uint32_t index, int64_t *out);
/* "trn.add" or "trn.add_try"; else false. */
bool trn__sql_is_family(const char *name, const char *stem, bool *is_try);

/* What a dialect does with kernels of the library ("trn.add", "trn.cast_try", ...), by what they compute. */
typedef struct sql_kernels {
  trn_status (*arithmetic)(sql_printer *p, const trn_expr *e, char op, bool is_try);
  trn_status (*divide)(sql_printer *p, const trn_expr *e, bool is_try);
  trn_status (*divide_whole)(sql_printer *p, const trn_expr *e, char op, bool is_try);
  trn_status (*negate)(sql_printer *p, const trn_expr *e, const char *form, bool is_try);
  trn_status (*cast)(sql_printer *p, const trn_expr *arg, const trn_type *to, bool is_try);
  trn_status (*like)(sql_printer *p, const trn_expr *e); /* with the usual escape */
  trn_status (*substring)(sql_printer *p, const trn_expr *e);
  trn_status (*extract_date)(sql_printer *p, const trn_expr *e);
  trn_status (*concat)(sql_printer *p, const trn_expr *e);
  trn_status (*other)(sql_printer *p, const trn_expr *e);
} sql_kernels;
trn_status trn__sql_kernel(sql_printer *p, const trn_expr *e, const sql_kernels *k);
trn_status trn__sql_refuse_type(sql_printer *p, const trn_type *type);
trn_status trn__sql_refuse_cast(sql_printer *p, const trn_type *from, const trn_type *to);

#endif
