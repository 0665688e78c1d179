/* The one table of settings. Flags, environment, the known keys of the file, --help and the man pages come from it. */
#include "program.h"

#define ENGINE_DEFAULT "beside this program"

const option_row program_options[] = {
    {"listen", "listen", "HOST:PORT", "127.0.0.1:15002",
     "where to listen: host:port, [v6]:port (port 0: any free one) or unix:/path; in the file also a list of them",
     OPTION_LIST},
    {"allow_remote", "allow-remote", NULL, "false", "listen beyond loopback although clients are not authenticated",
     OPTION_SWITCH},
    {"tls.cert", "tls-cert", "FILE", NULL, "PEM certificate chain; with the key: TLS", OPTION_TEXT},
    {"tls.key", "tls-key", "FILE", NULL, "PEM private key", OPTION_TEXT},
    {"tls.client_ca", "client-ca", "FILE", NULL, "PEM certificates: clients must present one that these sign",
     OPTION_TEXT},
    {"auth.tokens", "tokens", "FILE", NULL,
     "bearer tokens that are accepted, a line each: user:hash[:group,group]; hash-token and new-token make hashes",
     OPTION_TEXT},
    {"auth.users", "users", "FILE", NULL,
     "passwords that are accepted, a line each: user:hash[:group,group]; hash-password makes hashes; an empty one: "
     "groups "
     "only",
     OPTION_TEXT},
    {"auth.certificates", "client-names", NULL, "false",
     "the name in a client's certificate is its user; with the client CA", OPTION_SWITCH},
    {"auth.failures_max", NULL, "N", "20",
     "wrong passwords per second and address; beyond it none is looked at. 0: no limit", OPTION_TEXT},
    {"auth.jwt.jwks", "jwks", "FILE", NULL, "public keys (a JWKS) whose JSON web tokens are accepted", OPTION_TEXT},
    {"auth.jwt.issuer", "jwt-issuer", "NAME", NULL, "the issuer that tokens must have", OPTION_TEXT},
    {"auth.jwt.audience", "jwt-audience", "NAME", NULL,
     "the audience that tokens must have (in the file also a list, of which one); without it, tokens must have none",
     OPTION_TEXT},
    {"auth.jwt.algorithms", NULL, "LIST", "[RS256, PS256, ES256, EdDSA]",
     "signatures that are accepted: RS, PS, ES, HS with 256, 384 or 512, and EdDSA", OPTION_LIST},
    {"auth.jwt.user_claim", NULL, "NAME", "sub", "the claim that is the user", OPTION_TEXT},
    {"auth.jwt.groups_claim", NULL, "NAME", "groups", "the claim that is the list of groups", OPTION_TEXT},
    {"auth.jwt.leeway", NULL, "TIME", "30s", "how much clocks may differ", OPTION_TEXT},
    {"auth.jwt.require_expiry", NULL, "BOOL", "true", "refuse tokens that never expire", OPTION_TEXT},
    {"frontends", NULL, "MAP", "all that are built",
     "options of protocols by name; 'name: false' leaves one out; a list mounts exactly those", OPTION_MAP},
    {"frontends.spark.timezone", "timezone", "ZONE", "UTC", "default of spark.sql.session.timeZone", OPTION_TEXT},
    {"frontends.spark.workers", NULL, "N", "cores + 2", "threads that decode, translate and plan", OPTION_TEXT},
    {"frontends.spark.session_idle", NULL, "TIME", "60m", "sessions that nobody uses end after", OPTION_TEXT},
    {"frontends.spark.detached", NULL, "TIME", "5m", "operations that nobody reads end after", OPTION_TEXT},
    {"frontends.spark.response_log", NULL, "SIZE", "64M", "unread responses of one operation", OPTION_TEXT},
    {"frontends.spark.stream", NULL, "TIME", "2m", "a stream that can be resumed is ended after", OPTION_TEXT},
    {"frontends.flightsql.dialect", NULL, "NAME", "datafusion", "SQL of new sessions: datafusion, spark", OPTION_TEXT},
    {"frontends.flightsql.workers", NULL, "N", "cores + 8", "threads that decode and plan", OPTION_TEXT},
    {"frontends.flightsql.session_idle", NULL, "TIME", "60m", "sessions that nobody uses end after", OPTION_TEXT},
    {"frontends.flightsql.result", NULL, "TIME", "5m", "results that nobody fetches are dropped after", OPTION_TEXT},
    {"frontends.flightsql.spool_dir", NULL, "DIR", "the system's", "where large ingestions wait", OPTION_TEXT},
    {"frontends.flightsql.read_only", NULL, "BOOL", "false", "statements that change things are refused", OPTION_TEXT},
    {"frontends.flightsql.hand_through", NULL, "BOOL", "false",
     "results on a cluster's executors may be fetched there, by clients that ask for it and reach them", OPTION_TEXT},
    {"frontends.ballista.workers", NULL, "N", "cores + 2", "threads that decode and plan", OPTION_TEXT},
    {"frontends.ballista.session_idle", NULL, "TIME", "60m", "settings that nobody uses are dropped after", OPTION_TEXT},
    {"frontends.ballista.result", NULL, "TIME", "5m", "results that nobody fetches are dropped after", OPTION_TEXT},
    {"frontends.ballista.job", NULL, "TIME", "60m", "jobs that are over are forgotten after", OPTION_TEXT},
    {"frontends.ballista.result_memory", NULL, "SIZE", "16M", "of one result; a larger one is made as it is fetched", OPTION_TEXT},
    {"frontends.ballista.results_memory", NULL, "SIZE", "256M", "of all results", OPTION_TEXT},
    {"frontends.ballista.cancel_on_disconnect", NULL, "BOOL", "true", "a job whose client is gone is cancelled", OPTION_TEXT},
    {"frontends.ballista.hand_through", NULL, "BOOL", "false", "results on a cluster's executors are fetched there, by clients that reach them",
     OPTION_TEXT},
    {"frontends.ballista.older_clients", NULL, "BOOL", "true", "clients of Ballista 54, which say no version, are served",
     OPTION_TEXT},
    {"backend", NULL, "MAP", "embedded",
     "what runs queries: a name, or a map of one name to its options; with 'ballista', 'embedded' runs what the cluster "
     "cannot",
     OPTION_MAP},
    {"backend.ballista.scheduler", "backend", "ballista://HOST:PORT", NULL,
     "queries run on the Ballista cluster of this scheduler", OPTION_TEXT},
    {"backend.ballista.fallback", "fallback", "NAME", "local",
     "what the cluster cannot run: 'local' runs it here, 'refuse' fails it", OPTION_TEXT},
    {"backend.ballista.functions", NULL, "NAME", "auto",
     "what the cluster has: 'all' (trunnion-ballista), 'stock' (published binaries), or 'auto' finds out", OPTION_TEXT},
    {"backend.ballista.spool_dir", "cluster-spool-dir", "DIR", NULL,
     "where rows that clients send along wait for the cluster, which must see it under the same path; without it such "
     "queries run here",
     OPTION_TEXT},
    {"backend.ballista.inline", NULL, "SIZE", "64K", "rows of clients up to this travel in the query", OPTION_TEXT},
    {"backend.ballista.fetch_memory", NULL, "SIZE", "32M", "results of one query that wait for its client", OPTION_TEXT},
    {"backend.ballista.fetches", NULL, "N", "4", "partitions of one result that are fetched at once", OPTION_TEXT},
    {"backend.ballista.timeout", NULL, "TIME", "20s", "for an answer of the scheduler", OPTION_TEXT},
    {"backend.ballista.tls", NULL, "BOOL", "false", "TLS to the scheduler", OPTION_TEXT},
    {"backend.ballista.executor_tls", NULL, "BOOL", "false", "TLS to the executors", OPTION_TEXT},
    {"backend.ballista.ca", NULL, "FILE", "the system's", "PEM certificates that sign those of both", OPTION_TEXT},
    {"backend.ballista.cert", NULL, "FILE", NULL, "PEM certificate chain that both are shown; with the key", OPTION_TEXT},
    {"backend.ballista.key", NULL, "FILE", NULL, "its PEM private key", OPTION_TEXT},
    {"backend.ballista.writes", NULL, "NAME", "cluster",
     "who writes files: the 'cluster', whose machines must see the directory under the same path, or this server: 'local'",
     OPTION_TEXT},
    {"backend.ballista.settings", NULL, "MAP", NULL, "settings of every job, 'ballista.*' and 'datafusion.*'",
     OPTION_MAP},
    {"backend.embedded.engine", "engine", "FILE", ENGINE_DEFAULT, "libtrunnion_engine.so", OPTION_TEXT},
    {"backend.embedded.functions", "functions", "FILE", ENGINE_DEFAULT, "libtrunnion_functions.so", OPTION_TEXT},
    {"backend.embedded.threads", "threads", "N", "cores", "threads that execute queries", OPTION_TEXT},
    {"backend.embedded.memory", "memory", "SIZE", "no limit",
     "memory for queries, with K, M or G; beyond it they spill", OPTION_TEXT},
    {"backend.embedded.spill_dir", "spill-dir", "DIR", "the system's temporary directory", "where queries spill",
     OPTION_TEXT},
    {"warehouse", "warehouse", "DIR", "in memory", "where tables are kept, of all protocols", OPTION_TEXT},
    {"jobs", NULL, "MAP", "none",
     "where jobs are kept (docs/jobs.md), so that another process answers for them and serves their "
     "outputs: queries of Ballista's clients",
     OPTION_MAP},
    {"jobs.store", "jobs-store", "FILE|URL", NULL,
     "records of jobs: a file of SQLite, or postgresql://... for servers on several hosts; with the output directory: "
     "jobs are kept",
     OPTION_TEXT},
    {"jobs.output", "jobs-output", "DIR", NULL,
     "where outputs of jobs are, and the key of their tickets; servers that share a store share it", OPTION_TEXT},
    {"jobs.keep", NULL, "TIME", "24h", "a job that is over, and its output, goes after; 0: never", OPTION_TEXT},
    {"jobs.lost", NULL, "NAME", "report",
     "jobs whose server is gone: 'report' them as failed, or 'resubmit' them under their ids", OPTION_TEXT},
    {"jobs.lease", NULL, "TIME", "10s", "a server without a sign of life is gone after", OPTION_TEXT},
    {"jobs.running", NULL, "N", "16", "jobs that run at once; others wait", OPTION_TEXT},
    {"catalogs", NULL, "MAP", "none",
     "more catalogs by name, each a map of a kind to its options, e.g. {lake: {warehouse: {directory: DIR}}}; without "
     "a "
     "warehouse the first is the default one",
     OPTION_MAP},
    {"layers", NULL, "LIST", "none",
     "policies around the backend, outermost first; each a name, or a map of one name to its options", OPTION_MAP},
    {"plugins", "plugin", "FILE", "none",
     "a plugin to load; may be given again. In the file a list of files, or of maps with 'file' and 'options'",
     OPTION_LIST},
    {"metrics", NULL, "BOOL", "where clients are not authenticated",
     "GET /metrics gives what the trace layer counts, to anybody; GET /healthz always answers", OPTION_TEXT},
    {"loops", "loops", "N", "up to 4", "threads that serve the network", OPTION_TEXT},
    {"grace", "grace", "TIME", "2s", "how long running calls may go on after SIGTERM", OPTION_TEXT},
    {"limits.message_bytes", NULL, "SIZE", "128M", "the largest request message", OPTION_TEXT},
    {"limits.metadata_bytes", NULL, "SIZE", "64K", "the largest headers of a request", OPTION_TEXT},
    {"limits.streams", NULL, "N", "1000", "calls at once per connection", OPTION_TEXT},
    {"limits.connections", NULL, "N", "10000", "connections at once", OPTION_TEXT},
    {"limits.memory", NULL, "SIZE", "2G", "request bytes held for all connections together", OPTION_TEXT},
    {"limits.connection_idle", NULL, "TIME", "never", "connections without calls are asked to leave after",
     OPTION_TEXT},
    {"limits.connection_age", NULL, "TIME", "never", "connections are asked to leave after; their calls may end",
     OPTION_TEXT},
    {"limits.keepalive", NULL, "TIME", "60s", "silence on a connection that has calls, before it is probed",
     OPTION_TEXT},
    {"limits.stalled", NULL, "TIME", "2m", "a peer that takes nothing of what waits for it is lost after", OPTION_TEXT},
};
const size_t program_option_count = sizeof program_options / sizeof *program_options;

/* ---- known keys ---- */

/* The program's own maps; what is in others is checked by whoever takes it. */
trn_status check_keys(const trn_config *root, trn_error **error) {
  static const char *const own[] = {"", "tls", "limits", "jobs", NULL};
  trn_status status = TRN_OK;
  for (size_t map = 0; own[map] && !status; map++) {
    const char *names[sizeof program_options / sizeof *program_options + 1];
    char texts[sizeof program_options / sizeof *program_options][32];
    size_t count = 0, prefix = strlen(own[map]);
    for (size_t i = 0; i < program_option_count; i++) {
      const char *key = program_options[i].key;
      if (prefix && (strncmp(key, own[map], prefix) != 0 || key[prefix] != '.')) continue;
      if (prefix) key += prefix + 1;
      snprintf(texts[count], sizeof texts[count], "%.*s", (int)strcspn(key, "."), key);
      names[count] = texts[count];
      count++;
    }
    names[count] = NULL;
    status = trn_config_check_keys(prefix ? trn_config_get(root, own[map]) : root, names, error);
  }
  return status;
}

/* ---- help ---- */

int print_usage(FILE *out) {
  fprintf(out,
          "usage: trunnion serve [--config FILE] [--check] [options]\n"
          "       trunnion cluster up | down | status [options], see trunnion cluster --help\n"
          "       trunnion jobs list | status ID | cancel ID | output ID [options], see trunnion jobs --help\n"
          "       trunnion hash-password [USER] | hash-token [USER] | new-token [USER]\n"
          "       trunnion --version | --help\n\n"
          "Serves Spark Connect and other protocols of query engines. Connect with PySpark:\n"
          "SparkSession.builder.remote(\"sc://HOST:PORT\")\n\n"
          "  --%-13s%-10s %s\n  --%-13s%-10s %s\n  --%-13s%-10s %s\n",
          "config", "FILE", "settings in YAML; trunnion.yaml(5) lists them", "check", "",
          "validate everything, say what would run, and end", "set", "KEY=VALUE",
          "any setting by its name in the file, e.g. limits.streams=100");
  for (size_t i = 0; i < program_option_count; i++) {
    const option_row *row = &program_options[i];
    if (!row->flag) continue;
    fprintf(out, "  --%-13s%-10s %s", row->flag, row->argument ? row->argument : "", row->help);
    fprintf(out, row->initial && row->kind != OPTION_SWITCH ? " (default: %s)\n" : "\n", row->initial);
  }
  fprintf(
      out,
      "\nThe variable TRUNNION_NAME of the environment is as --name; a flag goes over it, and it goes over the file. "
      "SIGHUP: certificates, users, tokens and policies are read again.\n");
  return out == stdout ? 0 : 2;
}

/* ---- man pages ---- */

/* roff: no line begins with a dot or a quote, backslashes and dashes are escaped. */
static void put_roff(FILE *out, const char *text) {
  for (; *text; text++) {
    if (*text == '\\' || *text == '-') putc('\\', out);
    putc(*text, out);
  }
}

static void put_term(FILE *out, const char *before, const char *name, const char *argument) {
  fprintf(out, ".TP\n\\fB%s", before);
  put_roff(out, name);
  fprintf(out, "\\fR");
  if (argument) {
    fprintf(out, " \\fI");
    put_roff(out, argument);
    fprintf(out, "\\fR");
  }
  putc('\n', out);
}

static void put_row(FILE *out, const option_row *row, bool as_flag) {
  put_term(out, as_flag ? "\\-\\-" : "", as_flag ? row->flag : row->key,
           as_flag || row->argument ? row->argument : "BOOL");
  put_roff(out, row->help);
  if (row->initial && !(as_flag && row->kind == OPTION_SWITCH)) {
    fprintf(out, "\nDefault: ");
    put_roff(out, row->initial);
    putc('.', out);
  }
  putc('\n', out);
}

static void put_flag(FILE *out, const char *flag, const char *argument, const char *help) {
  put_term(out, "\\-\\-", flag, argument);
  put_roff(out, help);
  putc('\n', out);
}

void print_man_program(FILE *out) {
  fprintf(
      out,
      ".TH TRUNNION 1 \"\" \"trunnion %s\"\n.SH NAME\ntrunnion \\- serves protocols of query engines\n.SH SYNOPSIS\n"
      ".B trunnion serve\n[\\fB\\-\\-config\\fR \\fIFILE\\fR] [\\fB\\-\\-check\\fR] [options]\n.br\n"
      ".B trunnion cluster up\n|\n.B down\n|\n.B status\n[options]\n.br\n"
      ".B trunnion jobs list\n|\n.B status\n\\fIID\\fR |\n.B cancel\n\\fIID\\fR |\n.B output\n\\fIID\\fR [options]\n.br\n"
      ".B trunnion hash\\-password\n[\\fIUSER\\fR]\n.br\n.B trunnion hash\\-token\n[\\fIUSER\\fR]\n.br\n"
      ".B trunnion new\\-token\n[\\fIUSER\\fR]\n.SH DESCRIPTION\n"
      "\\fBtrunnion serve\\fR serves Spark Connect and the other protocols that are built, on one port, with queries "
      "run by a backend such as in\\-process DataFusion.\n.PP\n"
      "\\fBtrunnion cluster\\fR starts and ends a Ballista scheduler and executors on loopback ports of this machine, to "
      "be served with \\fB\\-\\-backend ballista://HOST:PORT\\fR.\n.PP\n"
      "\\fBtrunnion jobs\\fR looks at the jobs that servers keep (\\fB\\-\\-jobs\\-store\\fR, "
      "\\fB\\-\\-jobs\\-output\\fR): lists them, says all about one, asks for its end, writes its rows as an Arrow IPC "
      "stream.\n.PP\n"
      "\\fBhash\\-password\\fR and \\fBhash\\-token\\fR read a password or token from the terminal or the standard "
      "input and print a line for a file of users or tokens. \\fBnew\\-token\\fR makes a random token, prints it on "
      "the standard error, and its line on the standard output.\n.SH OPTIONS\n",
      trn_version());
  put_term(out, "\\-\\-", "config", "FILE");
  fprintf(out, "Settings in YAML, see\n.BR trunnion.yaml (5).\n");
  put_term(out, "\\-\\-", "check", NULL);
  fprintf(out, "Validate everything, say what would run, and end: with status 0 when it would.\n");
  put_term(out, "\\-\\-", "set", "KEY=VALUE");
  fprintf(out, "Any setting by its name in the file.\n");
  for (size_t i = 0; i < program_option_count; i++)
    if (program_options[i].flag) put_row(out, &program_options[i], true);
  fprintf(out, ".SH OPTIONS OF CLUSTER\n");
  for (size_t i = 0; i < cluster_option_count; i++) put_row(out, &cluster_options[i], true);
  fprintf(out, ".SH OPTIONS OF JOBS\n");
  each_job_flag(put_flag, out);
  fprintf(
      out,
      ".SH ENVIRONMENT\nThe variable \\fBTRUNNION_NAME\\fR is as \\fB\\-\\-name\\fR, in capitals and with underscores "
      "for dashes. A flag goes over it, and it goes over the file.\n.SH SIGNALS\n.TP\nSIGTERM, SIGINT\nNo new calls; "
      "running ones may go on for a while (\\fB\\-\\-grace\\fR).\n.TP\nSIGHUP\nCertificates, users, tokens, keys and "
      "policies are read again from the same files; sessions and connections stay. What cannot be read leaves things "
      "as they were, with a message.\n.SH EXIT STATUS\n0 after a signal, 1 when it cannot run, 2 when the settings are "
      "wrong.\n.SH SEE ALSO\n.BR trunnion.yaml (5)\n");
}

void print_man_file(FILE *out) {
  fprintf(
      out,
      ".TH TRUNNION.YAML 5 \"\" \"trunnion %s\"\n.SH NAME\ntrunnion.yaml \\- settings of trunnion serve\n.SH "
      "DESCRIPTION\nA YAML file, given by \\fBtrunnion serve \\-\\-config\\fR. A name such as \\fBtls.cert\\fR is the "
      "key \\fBcert\\fR in the map \\fBtls\\fR. Unknown keys are errors. Sizes take K, M, G, T; times ms, s, m, h, d. "
      "Paths are relative to the working directory.\n.SH KEYS\n",
      trn_version());
  for (size_t i = 0; i < program_option_count; i++) put_row(out, &program_options[i], false);
  fprintf(out, ".SH EXAMPLE\n.nf\nlisten: 0.0.0.0:15002\ntls:\n  cert: server.pem\n  key: server.key\nauth:\n  tokens: "
               "tokens.txt\n  jwt:\n    jwks: keys.json\n    issuer: https://login.example.com\n    audience: "
               "trunnion\nbackend:\n"
               "  embedded:\n    memory: 8G\nwarehouse: /var/lib/trunnion\n.fi\n.SH SEE ALSO\n.BR trunnion (1)\n");
}
