/* Writes a protobuf-c message as a compact s-expression, for tests that compare trees. Columns are bare names, literals
 * bare values, functions (name arguments...); anything else is (member field=value ...). Positions are left out. */
#ifndef TRN_TESTS_MESSAGE_DUMP_H
#define TRN_TESTS_MESSAGE_DUMP_H
#include "core/core.h"
#include "spark_connect.pb-c.h"

static void dump_message(trn_strbuf *out, const ProtobufCMessage *message);

static void dump_scalar(trn_strbuf *out, const ProtobufCFieldDescriptor *field, const void *value) {
  switch (field->type) {
  case PROTOBUF_C_TYPE_STRING: trn__strbuf_printf(out, "'%s'", *(char *const *)value); break;
  case PROTOBUF_C_TYPE_BOOL: trn__strbuf_puts(out, *(const protobuf_c_boolean *)value ? "true" : "false"); break;
  case PROTOBUF_C_TYPE_DOUBLE: trn__strbuf_printf(out, "%gD", *(const double *)value); break;
  case PROTOBUF_C_TYPE_FLOAT: trn__strbuf_printf(out, "%gF", (double)*(const float *)value); break;
  case PROTOBUF_C_TYPE_INT64:
  case PROTOBUF_C_TYPE_SINT64: trn__strbuf_printf(out, "%lld", (long long)*(const int64_t *)value); break;
  case PROTOBUF_C_TYPE_BYTES: {
    const ProtobufCBinaryData *bytes = value;
    trn__strbuf_puts(out, "x");
    for (size_t i = 0; i < bytes->len; i++) trn__strbuf_printf(out, "%02X", bytes->data[i]);
    break;
  }
  case PROTOBUF_C_TYPE_ENUM: {
    const ProtobufCEnumValue *e = protobuf_c_enum_descriptor_get_value(field->descriptor, *(const int *)value);
    trn__strbuf_puts(out, e != NULL ? e->name : "?");
    break;
  }
  case PROTOBUF_C_TYPE_MESSAGE: dump_message(out, *(ProtobufCMessage *const *)value); break;
  default: trn__strbuf_printf(out, "%d", *(const int32_t *)value);
  }
}

static bool field_is_default(const ProtobufCFieldDescriptor *field, const void *value) {
  switch (field->type) {
  case PROTOBUF_C_TYPE_STRING: return *(char *const *)value == NULL || **(char *const *)value == 0;
  case PROTOBUF_C_TYPE_MESSAGE: return *(void *const *)value == NULL;
  case PROTOBUF_C_TYPE_BYTES: return ((const ProtobufCBinaryData *)value)->len == 0;
  case PROTOBUF_C_TYPE_DOUBLE: return *(const double *)value == 0;
  case PROTOBUF_C_TYPE_INT64: return *(const int64_t *)value == 0;
  default: return *(const int32_t *)value == 0;
  }
}

static size_t field_width(const ProtobufCFieldDescriptor *field) {
  switch (field->type) {
  case PROTOBUF_C_TYPE_STRING:
  case PROTOBUF_C_TYPE_MESSAGE: return sizeof(void *);
  case PROTOBUF_C_TYPE_INT64: return sizeof(int64_t);
  default: return sizeof(int32_t);
  }
}

static void dump_field(trn_strbuf *out, const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                       bool named) {
  const char *base = (const char *)message;
  const void *value = base + field->offset;
  if (strcmp(field->name, "common") == 0) return;
  if (field->label == PROTOBUF_C_LABEL_REPEATED) {
    size_t count = *(const size_t *)(base + field->quantifier_offset);
    if (count == 0) return;
    trn__strbuf_printf(out, named ? " %s=[" : " [", field->name);
    for (size_t i = 0; i < count; i++) {
      if (i > 0) trn__strbuf_putc(out, ' ');
      dump_scalar(out, field, *(char *const *)value + i * field_width(field));
    }
    trn__strbuf_putc(out, ']');
    return;
  }
  if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
    if (*(const uint32_t *)(base + field->quantifier_offset) != field->id) return;
  } else if (field_is_default(field, value)) {
    return;
  }
  if (field->type == PROTOBUF_C_TYPE_BOOL && field->label != PROTOBUF_C_LABEL_REPEATED &&
      !(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)) {
    trn__strbuf_printf(out, " %s", field->name);
    return;
  }
  trn__strbuf_printf(out, named ? " %s=" : " ", field->name);
  dump_scalar(out, field, value);
}

static void dump_fields(trn_strbuf *out, const ProtobufCMessage *message) {
  for (unsigned i = 0; i < message->descriptor->n_fields; i++)
    dump_field(out, message, &message->descriptor->fields[i], true);
}

static bool dump_known_expression(trn_strbuf *out, const Spark__Connect__Expression *e) {
  switch ((int)e->expr_type_case) {
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_ATTRIBUTE:
    trn__strbuf_puts(out, e->unresolved_attribute->unparsed_identifier);
    return true;
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_STAR:
    trn__strbuf_puts(out, e->unresolved_star->_unparsed_target_case ? e->unresolved_star->unparsed_target : "*");
    return true;
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_UNRESOLVED_FUNCTION:
    trn__strbuf_printf(out, "(%s%s%s", e->unresolved_function->function_name,
                       e->unresolved_function->is_distinct ? " distinct" : "",
                       e->unresolved_function->is_user_defined_function ? " path" : "");
    for (size_t i = 0; i < e->unresolved_function->n_arguments; i++) {
      trn__strbuf_putc(out, ' ');
      dump_message(out, &e->unresolved_function->arguments[i]->base);
    }
    trn__strbuf_putc(out, ')');
    return true;
  case SPARK__CONNECT__EXPRESSION__EXPR_TYPE_LITERAL: {
    const Spark__Connect__Expression__Literal *l = e->literal;
    if (l->literal_type_case == SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_NULL) {
      trn__strbuf_puts(out, "null");
    } else if (l->literal_type_case == SPARK__CONNECT__EXPRESSION__LITERAL__LITERAL_TYPE_DECIMAL) {
      trn__strbuf_printf(out, "%s:%d,%d", l->decimal->value, (int)l->decimal->precision, (int)l->decimal->scale);
    } else {
      const ProtobufCFieldDescriptor *field =
          protobuf_c_message_descriptor_get_field(l->base.descriptor, (unsigned)l->literal_type_case);
      dump_scalar(out, field, (const char *)l + field->offset);
      if (field->type == PROTOBUF_C_TYPE_INT64) trn__strbuf_putc(out, 'L');
      if (strcmp(field->name, "byte") == 0) trn__strbuf_putc(out, 'Y');
      if (strcmp(field->name, "short") == 0) trn__strbuf_putc(out, 'S');
    }
    return true;
  }
  default: return false;
  }
}

static void dump_message(trn_strbuf *out, const ProtobufCMessage *message) {
  if (message == NULL) {
    trn__strbuf_puts(out, "-");
    return;
  }
  const char *name = message->descriptor->short_name;
  if (message->descriptor == &spark__connect__expression__descriptor) {
    if (dump_known_expression(out, (const Spark__Connect__Expression *)message)) return;
  }
  bool transparent = message->descriptor == &spark__connect__expression__descriptor ||
                     message->descriptor == &spark__connect__relation__descriptor ||
                     message->descriptor == &spark__connect__data_type__descriptor;
  if (transparent) { /* the one member that is set, without the wrapper */
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
      const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
      if (!(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) ||
          *(const uint32_t *)((const char *)message + field->quantifier_offset) != field->id)
        continue;
      if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        const ProtobufCMessage *member = *(ProtobufCMessage *const *)((const char *)message + field->offset);
        trn__strbuf_printf(out, "(%s", field->name);
        dump_fields(out, member);
        trn__strbuf_putc(out, ')');
      } else {
        trn__strbuf_printf(out, "(%s ", field->name);
        dump_scalar(out, field, (const char *)message + field->offset);
        trn__strbuf_putc(out, ')');
      }
      return;
    }
  }
  trn__strbuf_printf(out, "(%s", name);
  dump_fields(out, message);
  trn__strbuf_putc(out, ')');
}

#endif
