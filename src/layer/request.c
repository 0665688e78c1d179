#include "layer/request.h"

static bool copy(const char **text) {
  if (!*text) return true;
  *text = trn__text_copy(*text);
  return *text != NULL;
}

bool trn__request_copy(trn_execute_request *out, const trn_execute_request *request) {
  *out = *request;
  out->plan = trn_plan_ref(request->plan);
  out->cancel = trn_cancel_ref(request->cancel);
  out->tags = NULL;
  out->tag_count = 0;
  bool ok = true; /* every text is a copy, or NULL where there was no memory */
  ok &= copy(&out->operation_id);
  ok &= copy(&out->statement);
  ok &= copy(&out->protocol);
  ok &= copy(&out->traceparent);
  ok &= copy(&out->policy);
  char **tags = request->tag_count ? calloc(request->tag_count, sizeof *tags) : NULL;
  out->tags = (const char *const *)tags;
  for (size_t i = 0; tags && i < request->tag_count && ok; i++) {
    tags[i] = trn__text_copy(request->tags[i]);
    ok = tags[i] != NULL;
    out->tag_count = i + 1;
  }
  return ok && (tags || !request->tag_count);
}

void trn__request_finish(trn_execute_request *request) {
  trn_plan_unref(request->plan);
  trn_cancel_unref(request->cancel);
  free((char *)request->operation_id);
  free((char *)request->statement);
  free((char *)request->protocol);
  free((char *)request->traceparent);
  free((char *)request->policy);
  for (size_t i = 0; i < request->tag_count; i++) free((char *)request->tags[i]);
  free((void *)request->tags);
  *request = (trn_execute_request){0};
}
