#include "trunnion_grpcpp.h"

#include <grpc/byte_buffer.h>
#include <grpcpp/alarm.h>

#include <cstring>
#include <new>

#include "../grpc_core/exchange.h"

namespace trunnion {

struct Mount::Poller {
  const Options *options;
  grpc::AsyncGenericService *service;
  std::unique_ptr<grpc::ServerCompletionQueue> queue;
  std::thread thread;

  void Run();
  void Accept() noexcept;
};

namespace {

constexpr int kAcceptors = 16;

/* One call, from waiting for it to its last reference. */
struct Rpc {
  struct Tag {
    void (Rpc::*run)(bool is_ok);
    Rpc *rpc;
  };
  Tag accepted{&Rpc::OnAccepted, this}, read{&Rpc::OnRead, this}, written{&Rpc::OnWritten, this},
      poked{&Rpc::OnPoked, this}, closed{&Rpc::OnClosed, this};
  Mount::Poller *poller;
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream{&context};
  grpc::ByteBuffer message;
  grpc::Alarm alarm;
  trn_exchange *exchange = nullptr;
  int refused = 0; /* answers of a refusal that are to come */

  explicit Rpc(Mount::Poller *p) : poller(p) {}

  void OnAccepted(bool is_ok);
  void OnRead(bool is_ok);
  void OnWritten(bool is_ok);
  void OnPoked(bool) { trn_exchange_poked(exchange); }
  void OnClosed(bool);
  void Refuse(const grpc::Status &status);
  void Refused() {
    if (--refused == 0) delete this;
  }
  grpc::Status Open(const trn_method *method);
};

grpc_byte_buffer *ToC(const grpc::ByteBuffer &bytes) {
  std::vector<grpc::Slice> slices;
  if (!bytes.Dump(&slices).ok()) return nullptr;
  std::vector<grpc_slice> raw;
  raw.reserve(slices.size());
  for (const grpc::Slice &slice : slices) raw.push_back(slice.c_slice());
  grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(raw.data(), raw.size());
  for (const grpc_slice &slice : raw) grpc_slice_unref(slice);
  return buffer;
}

/* Shares the slices: no byte is copied. */
grpc::ByteBuffer FromC(const grpc_byte_buffer *bytes) {
  std::vector<grpc::Slice> slices;
  const grpc_slice_buffer &all = bytes->data.raw.slice_buffer;
  slices.reserve(all.count);
  for (size_t i = 0; i < all.count; i++) slices.emplace_back(all.slices[i], grpc::Slice::ADD_REF);
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string Text(const trn_metadata &entry) {
  return std::string(static_cast<const char *>(entry.value), entry.size);
}

grpc::Status StatusOf(const trn_exchange_end &end) {
  if (end.status == TRN_OK) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(end.status), end.message ? end.message : "",
                      std::string(static_cast<const char *>(end.details), end.details_size));
}

/* ---- what the exchange asks for ---- */

bool IoRead(void *io) {
  Rpc *rpc = static_cast<Rpc *>(io);
  rpc->stream.Read(&rpc->message, &rpc->read);
  return true;
}

void Write(Rpc *rpc, const trn_exchange_write &write) {
  for (size_t i = 0; write.is_first && i < write.initial_count; i++)
    rpc->context.AddInitialMetadata(write.initial[i].key, Text(write.initial[i]));
  grpc::Status status;
  if (write.end) {
    status = StatusOf(*write.end);
    for (size_t i = 0; i < write.end->trailing_count; i++)
      rpc->context.AddTrailingMetadata(write.end->trailing[i].key, Text(write.end->trailing[i]));
  }
  grpc::ByteBuffer bytes;
  if (write.message) bytes = FromC(write.message);
  if (write.message && write.end)
    rpc->stream.WriteAndFinish(bytes, grpc::WriteOptions(), status, &rpc->written);
  else if (write.message)
    rpc->stream.Write(bytes, &rpc->written);
  else if (write.end)
    rpc->stream.Finish(status, &rpc->written);
}

bool IoWrite(void *io, const trn_exchange_write *write) {
  bool is_ok = true;
  try {
    Write(static_cast<Rpc *>(io), *write);
  } catch (const std::bad_alloc &) {
    is_ok = false;
  }
  if (write->message) grpc_byte_buffer_destroy(write->message);
  return is_ok;
}

bool IoPoke(void *io) {
  Rpc *rpc = static_cast<Rpc *>(io);
  rpc->alarm.Set(rpc->poller->queue.get(), gpr_now(GPR_CLOCK_MONOTONIC), &rpc->poked);
  return true;
}

/* A client is told at once, also when it does not read. */
void IoCancel(void *io, trn_status status, const char *message) {
  grpc_call_cancel_with_status(static_cast<Rpc *>(io)->context.c_call(), static_cast<grpc_status_code>(status), message,
                               nullptr);
}

void IoDestroy(void *io) {
  delete static_cast<Rpc *>(io);
}

/* ---- the queue's answers ---- */

void Rpc::OnRead(bool is_ok) {
  grpc_byte_buffer *bytes = is_ok ? ToC(message) : nullptr;
  message.Clear();
  trn_exchange_received(exchange, bytes, !bytes && (is_ok || grpc_call_failed_before_recv_message(context.c_call())));
}

void Rpc::OnWritten(bool is_ok) {
  if (exchange)
    trn_exchange_written(exchange, is_ok);
  else
    Refused();
}

void Rpc::OnClosed(bool) {
  if (exchange)
    trn_exchange_closed(exchange, context.IsCancelled());
  else
    Refused();
}

/* `this` lives until the answers have come. */
void Rpc::Refuse(const grpc::Status &status) {
  refused = 2;
  stream.Finish(status, &written);
}

/* Brackets of IPv6 addresses come percent-encoded. */
std::string Decoded(const std::string &peer) {
  std::string out;
  for (size_t i = 0; i < peer.size(); i++) {
    if (peer.compare(i, 3, "%5B") == 0 || peer.compare(i, 3, "%5D") == 0) {
      out += peer[i + 2] == 'B' ? '[' : ']';
      i += 2;
    } else {
      out += peer[i];
    }
  }
  return out;
}

std::string Authenticated(const grpc::AuthContext *context) {
  if (!context || !context->IsPeerAuthenticated()) return "";
  std::vector<grpc::string_ref> names;
  if (context->GetPeerIdentityPropertyName().compare(0, 5, "x509_") == 0)
    names = context->FindPropertyValues("x509_common_name");
  if (names.empty()) names = context->GetPeerIdentity();
  return names.empty() ? "" : std::string(names[0].data(), names[0].size());
}

int64_t DeadlineNs(gpr_timespec deadline) {
  deadline = gpr_convert_clock_type(deadline, GPR_CLOCK_MONOTONIC);
  if (gpr_time_cmp(deadline, gpr_inf_future(GPR_CLOCK_MONOTONIC)) == 0 || deadline.tv_sec > INT64_MAX / 1000000000 - 1)
    return INT64_MAX;
  return deadline.tv_sec * INT64_C(1000000000) + deadline.tv_nsec;
}

grpc::Status Rpc::Open(const trn_method *method) {
  static const trn_exchange_io ops = {IoRead, IoWrite, IoPoke, IoCancel, IoDestroy};
  Identity identity;
  bool is_unknown = false;
  if (poller->options->identify) {
    grpc::Status status = poller->options->identify(context, &identity);
    is_unknown = status.error_code() == grpc::StatusCode::UNAUTHENTICATED && method->authenticates;
    if (is_unknown)
      identity = Identity(); /* the frontend asks for credentials itself */
    else if (!status.ok())
      return status;
  }
  if (identity.name.empty() && !is_unknown) identity.name = Authenticated(context.auth_context().get());
  if (identity.name.find('\0') != std::string::npos)
    return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "The identity has a NUL in it");
  const auto &sent = context.client_metadata();
  if (sent.size() > TRN_HOST_METADATA_MAX)
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "Too many metadata entries");
  std::vector<std::string> keys;
  std::vector<trn_metadata> metadata;
  keys.reserve(sent.size()); /* so that texts stay where they are */
  for (const auto &entry : sent) {
    keys.emplace_back(entry.first.data(), entry.first.size());
    metadata.push_back({keys.back().c_str(), entry.second.data(), entry.second.size()});
  }
  std::vector<const char *> groups;
  for (const std::string &group : identity.groups) groups.push_back(group.c_str());
  const std::string peer = Decoded(context.peer());
  trn_call_request request = {};
  request.struct_size = sizeof request;
  request.method = method;
  request.metadata = metadata.data();
  request.metadata_count = metadata.size();
  request.peer = peer.c_str();
  request.identity = identity.name.empty() ? nullptr : identity.name.c_str();
  request.deadline_ns = DeadlineNs(context.raw_deadline());
  request.groups = groups.data();
  request.group_count = groups.size();
  trn_status status = trn_exchange_open(&request, &ops, this, &exchange);
  return status ? grpc::Status(static_cast<grpc::StatusCode>(status), "The call cannot be opened") : grpc::Status::OK;
}

void Rpc::OnAccepted(bool is_ok) {
  if (!is_ok) { /* the server stops */
    delete this;
    return;
  }
  poller->Accept();
  const std::string &path = context.method();
  const trn_method *method = trn_routes_find(poller->options->routes, path.data(), path.size());
  grpc::Status status(grpc::StatusCode::UNIMPLEMENTED, "There is no method " + path);
  if (method) status = Open(method);
  if (status.ok())
    trn_exchange_start(exchange);
  else
    Refuse(status);
}

} // namespace

void Mount::Poller::Accept() noexcept {
  Rpc *rpc = new (std::nothrow) Rpc(this);
  if (!rpc) return; /* one acceptor less */
  rpc->context.AsyncNotifyWhenDone(&rpc->closed);
  service->RequestCall(&rpc->context, &rpc->stream, queue.get(), queue.get(), &rpc->accepted);
}

void Mount::Poller::Run() {
  void *tag = nullptr;
  bool is_ok = false;
  while (queue->Next(&tag, &is_ok)) {
    Rpc::Tag *answer = static_cast<Rpc::Tag *>(tag);
    (answer->rpc->*answer->run)(is_ok);
  }
}

Mount::Mount(grpc::ServerBuilder &builder, Options options) : options_(std::move(options)) {
  builder.RegisterAsyncGenericService(&service_);
  for (unsigned i = 0; i < (options_.threads ? options_.threads : 1); i++) {
    pollers_.emplace_back(new Poller{&options_, &service_, builder.AddCompletionQueue(), {}});
  }
}

void Mount::Start() {
  for (auto &poller : pollers_) {
    for (int i = 0; i < kAcceptors; i++) poller->Accept();
    poller->thread = std::thread(&Poller::Run, poller.get());
  }
}

void Mount::Stop() {
  for (auto &poller : pollers_) {
    poller->queue->Shutdown();
    if (poller->thread.joinable()) {
      poller->thread.join();
    } else {
      poller->Run();
    }
  }
  pollers_.clear();
}

Mount::~Mount() {
  Stop();
}

} // namespace trunnion
