/* The footer of an IPC file: where its batches are, and its schema once more. */
#include "arrow/ipc_file.h"

#include "arrow/flatbuf_read.h"
#include "arrow/ipc_type.h"

typedef struct ipc_block { /* as in File.fbs */
  int64_t offset;
  int32_t metadata_size, padding;
  int64_t body_size;
} ipc_block;

/* The message at `at`: kind and sizes. 0: the stream's end; -1: malformed. */
static int64_t read_head(const uint8_t *data, size_t size, size_t at, ipc_block *block, size_t *header_table) {
  uint32_t prefix[2];
  if (at == size) return 0; /* an end without a marker is one, too */
  if (size - at < 8) return -1;
  memcpy(prefix, data + at, 8);
  if (prefix[0] != 0xffffffffu) return -1;
  if (prefix[1] == 0) return 0;
  if (prefix[1] > size - at - 8 || prefix[1] % 8) return -1;
  reader r = {data + at + 8, prefix[1], false};
  table message = table_at(&r, (size_t)get(&r, 0, 4));
  int64_t kind = number(&r, &message, 1, 1, 0) & 0xff;
  int64_t body = number(&r, &message, 3, 8, 0);
  *header_table = follow(&r, &message, 2);
  if (r.bad || !*header_table || body < 0 || body % 8 || (uint64_t)body > size - at - 8 - prefix[1]) return -1;
  *block = (ipc_block){(int64_t)(TRN_IPC_FILE_HEAD_SIZE + at), (int32_t)(prefix[1] + 8), 0, body};
  return kind;
}

/* Footer { version = 0, schema = 1, dictionaries = 2, recordBatches = 3 }: root, vtable, table, the blocks, and the
 * schema's message as it is, whose offsets are relative, so that the schema in it can be referred to. */
static void put_footer(trn_strbuf *out, const trn_strbuf *blocks, const uint8_t *schema, size_t schema_size,
                       size_t schema_table) {
  static const uint16_t vtable[8] = {12, 16, 12, 4, 0, 8};
  uint32_t count = (uint32_t)(blocks->size / sizeof(ipc_block)), root = 20, zero = 0;
  uint32_t table[4] = {16, (uint32_t)(40 + blocks->size + schema_table - 24), 36 - 28, METADATA_V5};
  trn__strbuf_add(out, &root, 4);
  trn__strbuf_add(out, vtable, 12);
  trn__strbuf_add(out, &zero, 4);
  trn__strbuf_add(out, table, 16);
  trn__strbuf_add(out, &count, 4);
  if (blocks->size) trn__strbuf_add(out, blocks->data, blocks->size);
  trn__strbuf_add(out, schema, schema_size);
}

trn_status trn__ipc_file_tail(const void *stream, size_t size, trn_strbuf *out, trn_error **error) {
  const uint8_t *data = stream, *schema = NULL;
  size_t schema_size = 0, schema_table = 0, at = 0, header = 0;
  trn_strbuf blocks = {0};
  ipc_block block;
  int64_t kind;
  trn_status status = TRN_OK;
  while ((kind = read_head(data, size, at, &block, &header)) > 0 && !status) {
    if (kind == MESSAGE_SCHEMA && !schema) {
      schema = data + at + 8, schema_size = (size_t)block.metadata_size - 8, schema_table = header;
    } else if (kind == MESSAGE_RECORD_BATCH && schema) {
      trn__strbuf_add(&blocks, &block, sizeof block);
    } else {
      status = trn_error_set(error, TRN_UNIMPLEMENTED, NULL, "Arrow data with dictionaries is not written to files");
    }
    at += (size_t)block.metadata_size + (size_t)block.body_size;
  }
  if (!status && (kind < 0 || !schema || size > INT32_MAX * INT64_C(1024)))
    status = trn_error_set(error, TRN_INVALID_ARGUMENT, NULL, "The Arrow data is malformed");
  if (!status) {
    uint32_t end[2] = {0xffffffffu, 0};
    if (at == size) trn__strbuf_add(out, end, 8); /* the stream's own end, if it has none */
    size_t before = out->size;
    put_footer(out, &blocks, schema, schema_size, schema_table);
    uint32_t footer_size = (uint32_t)(out->size - before);
    trn__strbuf_add(out, &footer_size, 4);
    trn__strbuf_add(out, TRN_IPC_FILE_MAGIC, 6);
    if (out->failed || blocks.failed) status = trn__no_memory(error);
  }
  trn__strbuf_finish(&blocks);
  return status;
}
