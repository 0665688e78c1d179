/* Records of text files: lines, whole files, CSV's whose quotes go over lines. */
#include <stdlib.h>
#include <string.h>

#include "core/query.h"
#include "frontend/spark/translate/infer.h"

enum { FIRST_ROOM = 64 << 10, LOOK_BYTES = 1 << 10 };

/* What the first bytes of a JSON text say, of which one at least is ASCII. NULL: UTF-8. */
static const char *found_charset(const char *path) {
  unsigned char b[4] = {1, 1, 1, 1};
  bool exists;
  FILE *file = spark__open_text(path, NULL, &exists);
  size_t size = file ? fread(b, 1, sizeof b, file) : 0;
  if (file) fclose(file);
  if (size < 2) return NULL;
  if (size == 4 && ((!b[0] && !b[1]) || (!b[1] && !b[2] && !b[3]) || (b[0] == 0xFF && b[1] == 0xFE && !b[2] && !b[3])))
    return b[0] == 0xFF || (!b[0] && b[2] == 0xFE) ? "UTF-32" : b[0] ? "UTF-32LE" : "UTF-32BE";
  if ((b[0] == 0xFF && b[1] == 0xFE) || (b[0] == 0xFE && b[1] == 0xFF)) return "UTF-16";
  return !b[0] ? "UTF-16BE" : !b[1] ? "UTF-16LE" : NULL;
}

bool spark__records_open(spark_records *records, const char *path, const spark_text_options *options, spark_cut cut) {
  *records = (spark_records){.cut = cut, .options = options};
  const char *charset = options->charset ? options->charset : options->finds_charset ? found_charset(path) : NULL;
  records->file = spark__open_text(path, charset, &records->exists);
  records->first = true;
  return records->file != NULL;
}

void spark__records_close(spark_records *records) {
  if (records->file) fclose(records->file);
  free(records->bytes);
  *records = (spark_records){0};
}

/* ---- where records end ---- */

/* Where a line's end begins, and its size; false: not in what is there. */
static bool line_end(const spark_records *r, size_t from, size_t *end, size_t *end_size) {
  const char *text = r->bytes + r->at, *separator = r->options->line_separator;
  size_t size = r->size - r->at;
  if (separator) {
    size_t length = strlen(separator);
    const char *found = memmem(text + from, size - from, separator, length);
    *end = found ? (size_t)(found - text) : 0, *end_size = length;
    return found != NULL;
  }
  const char *line = NULL, *carriage = NULL; /* in pieces: neither search goes far beyond what the other finds */
  for (size_t at = from, piece; at < size && !line && !carriage; at += piece) {
    piece = size - at < LOOK_BYTES ? size - at : LOOK_BYTES;
    line = memchr(text + at, '\n', piece);
    carriage = memchr(text + at, '\r', line ? (size_t)(line - text) - at : piece);
  }
  *end = carriage ? (size_t)(carriage - text) : line ? (size_t)(line - text) : size;
  *end_size = 1;
  if (!carriage) return line != NULL;
  if (*end + 1 < size) *end_size = text[*end + 1] == '\n' ? 2 : 1;
  return *end + 1 < size || r->ended; /* a line feed may follow */
}

/* The end of a CSV record: a line's end outside of quotes. */
static bool csv_end(const spark_records *r, size_t *end, size_t *end_size) {
  const spark_text_options *o = r->options;
  const char *text = r->bytes + r->at;
  size_t size = r->size - r->at, separator = strlen(o->separator), line = strlen(r->line);
  bool starts = true, quoted = false; /* starts: a value may */
  if (size && o->comment && text[0] == o->comment) return line_end(r, 0, end, end_size);
  for (size_t i = 0; i < size; i++) {
    bool at_line = i + line <= size && memcmp(text + i, r->line, line) == 0;
    if (quoted) {
      bool doubled = text[i] == o->quote && o->escape == o->quote && i + 1 < size && text[i + 1] == o->quote;
      if ((text[i] == o->escape && o->escape != o->quote) || doubled) i++;
      else quoted = text[i] != o->quote;
      starts = false;
    } else if (starts && o->quote && text[i] == o->quote) {
      quoted = true;
    } else if (at_line) {
      *end = i, *end_size = line;
      return true;
    } else {
      starts = i + separator <= size && memcmp(text + i, o->separator, separator) == 0;
      if (starts) i += separator - 1;
    }
  }
  return false;
}

/* As univocity: the first line's end is that of all, and inside of values it is a line feed. Stays NULL while it is not there. */
static void find_line(spark_records *r) {
  const char *text = r->bytes + r->at;
  size_t size = r->size - r->at, at = 0;
  while (at < size && text[at] != '\n' && text[at] != '\r') at++;
  bool carriage = at < size && text[at] == '\r', whole = carriage ? at + 1 < size : at < size;
  if (r->options->line_separator) r->line = r->options->line_separator;
  else if (whole || r->ended) r->line = !carriage ? "\n" : whole && text[at + 1] == '\n' ? "\r\n" : "\r";
}

static size_t with_line_feeds(const spark_records *r, char *text, size_t size) {
  size_t line = strlen(r->line), out = 0;
  for (size_t i = 0; i < size; out++) {
    bool at_line = i + line <= size && memcmp(text + i, r->line, line) == 0;
    text[out] = at_line ? '\n' : text[i];
    i += at_line ? line : 1;
  }
  return out;
}

static bool record_end(const spark_records *r, size_t *end, size_t *end_size) {
  if (r->cut == SPARK_CUT_FILE) return false;
  return r->cut == SPARK_CUT_CSV ? csv_end(r, end, end_size) : line_end(r, 0, end, end_size);
}

/* ---- the next ---- */

static bool more(spark_records *r) {
  if (r->at) memmove(r->bytes, r->bytes + r->at, r->size - r->at);
  r->size -= r->at;
  r->at = 0;
  if (r->size == r->room) {
    size_t room = r->room ? 2 * r->room : FIRST_ROOM;
    char *grown = room <= 2 * (size_t)TRN_TEXT_SOURCE_BYTES_MAX ? realloc(r->bytes, room) : NULL;
    if (!grown) {
      r->failure = room <= 2 * (size_t)TRN_TEXT_SOURCE_BYTES_MAX ? SPARK_RECORDS_NO_MEMORY : SPARK_RECORDS_TOO_LARGE;
      return false;
    }
    r->bytes = grown, r->room = room;
  }
  size_t got = fread(r->bytes + r->size, 1, r->room - r->size, r->file);
  if (!got && ferror(r->file)) {
    r->failure = SPARK_RECORDS_UNREADABLE;
    return false;
  }
  r->size += got;
  if (!got) r->ended = true;
  if (r->first && r->size >= 3 && memcmp(r->bytes, "\xEF\xBB\xBF", 3) == 0 && r->cut != SPARK_CUT_FILE) r->at = 3;
  if (r->cut == SPARK_CUT_CSV && !r->line) find_line(r);
  r->first = false;
  return true;
}

bool spark__records_next(spark_records *r, const char **text, size_t *size) {
  size_t end = 0, end_size = 0;
  if (trn_cancel_is_requested(trn_cancel_of_work())) {
    r->failure = SPARK_RECORDS_CANCELLED;
    return false;
  }
  while (r->first || (r->cut == SPARK_CUT_CSV && !r->line))
    if (!more(r)) return false;
  while (r->at == r->size || !record_end(r, &end, &end_size)) {
    if (r->ended) {
      end = r->size - r->at, end_size = 0;
      if (!end) return false;
      break;
    }
    if (!more(r)) return false;
  }
  *text = r->bytes + r->at;
  *size = r->line && strcmp(r->line, "\n") != 0 ? with_line_feeds(r, r->bytes + r->at, end) : end;
  r->at += end + end_size;
  return true;
}

trn_status spark__records_status(spark_translator *t, const spark_records *r, const char *path, trn_error **error) {
  const trn_position nowhere = {-1, -1};
  const char *shown = path[0] == '/' ? trn__arena_printf(t->arena, "file://%s", path) : path;
  if (r->failure == SPARK_RECORDS_CANCELLED) return trn__cancelled(error);
  if (!shown || r->failure == SPARK_RECORDS_NO_MEMORY) return trn__no_memory(error);
  if (!r->file && r->exists) return spark__error(t, error, TRN_INVALID_ARGUMENT, "FAILED_READ_FILE.NO_HINT", nowhere, "path", shown, NULL);
  if (!r->file) return spark__error(t, error, TRN_NOT_FOUND, "FAILED_READ_FILE.FILE_NOT_EXIST", nowhere, "path", shown, NULL);
  if (r->failure == SPARK_RECORDS_TOO_LARGE)
    return trn_error_set(error, TRN_RESOURCE_EXHAUSTED, NULL, "A record of more than TRN_TEXT_SOURCE_BYTES_MAX (%u) bytes.",
                         TRN_TEXT_SOURCE_BYTES_MAX);
  if (r->failure == SPARK_RECORDS_UNREADABLE && !r->options->ignores_corrupt)
    return spark__error(t, error, TRN_INVALID_ARGUMENT, "FAILED_READ_FILE.NO_HINT", nowhere, "path", shown, NULL);
  return TRN_OK;
}
