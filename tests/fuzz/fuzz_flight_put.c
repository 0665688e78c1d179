/* Whole DoPut calls to the Flight service with Flight SQL over a backend without an engine: ingestions, statements,
 * parameters of prepared statements. The input is FlightData messages, each behind two bytes of length. What must hold:
 * each call ends, in time, and never with INTERNAL. */
#include <stdlib.h>
#include <unistd.h>

#include "frontend/flightsql/flightsql.h"
#include "support/flight_client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

enum { RUNS_PER_SERVICE = 500, MESSAGES_MAX = 32 };

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  char folder[] = "/tmp/trn-fuzz-put-XXXXXX";
  (void)argc, (void)argv;
  return mkdtemp(folder) && chdir(folder) == 0 ? 0 : 1;
}

static flight_client client;
static char handle[64]; /* of a prepared statement: an input says "HANDLE" where it wants it */
static unsigned runs;

static void restart(void) {
  static const trn_flightsql_options options = {.struct_size = sizeof options, .dialect = "spark"};
  if (runs) flight_stop(&client);
  if (flight_start(&client, &options)) abort();
  memset(handle, 0, sizeof handle);
  if (flight_prepare(&client, "SELECT ? + 1, ? FROM range(3)", handle, NULL)) abort();
}

/* Statements and tables that name a place would leave files there. */
static bool names_a_place(const uint8_t *data, size_t size) {
  static const char url[] = "type.googleapis.com/arrow.flight.protocol.sql.";
  const uint8_t *at = memmem(data, size, url, sizeof url - 1), *end = data + size;
  if (!at) return false;
  at += sizeof url - 1;
  bool is_text = (size_t)(end - at) > 16 && !memcmp(at, "CommandStatement", 16);
  return is_text && (memchr(at, '/', (size_t)(end - at)) || memmem(at, (size_t)(end - at), "..", 2));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  trn_slice messages[MESSAGES_MAX];
  size_t count = 0;
  if (runs % RUNS_PER_SERVICE == 0) restart();
  runs++;
  uint8_t *bytes = malloc(size + 1);
  if (!bytes) return 0;
  memcpy(bytes, data, size);
  for (uint8_t *at; (at = memmem(bytes, size, "HANDLE##############################", 36));) memcpy(at, handle, 36);
  const uint8_t *at = bytes, *end = bytes + size;
  while (end - at >= 2 && count < MESSAGES_MAX) {
    size_t length = (size_t)at[0] << 8 | at[1];
    if (length > (size_t)(end - at) - 2) length = (size_t)(end - at) - 2;
    messages[count++] = (trn_slice){.data = at + 2, .size = length};
    at += 2 + length;
  }
  if (count && !names_a_place(messages[0].data, messages[0].size)) {
    trn_inproc_reply reply;
    const trn_inproc_request what = {.path = FLIGHT_TEST_PATH "DoPut", .timeout_ns = 60000000000};
    if (trn__inproc_invoke(client.inproc, &what, messages, count, &reply)) abort();
    if (reply.status == TRN_INTERNAL || reply.status == TRN_UNKNOWN || reply.status == TRN_DEADLINE_EXCEEDED) {
      fprintf(stderr, "status %d, %s\n", (int)reply.status, reply.message);
      abort();
    }
    trn__inproc_reply_finish(&reply);
  }
  free(bytes);
  return 0;
}
