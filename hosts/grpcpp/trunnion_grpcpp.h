/* Trunnion's frontends in a grpc::Server that somebody else owns: its ports, credentials, interceptors and own services
 * stay theirs. Calls that no service of the server takes come to the mount, by its AsyncGenericService.
 *
 *   grpc::ServerBuilder builder;                    ports, credentials, services, interceptors
 *   trunnion::Mount mount(builder, {routes});       before BuildAndStart
 *   auto server = builder.BuildAndStart();
 *   mount.Start();
 *   server->Wait();
 *   server->Shutdown(...);                          then mount.Stop(), or its destructor; then the server's
 */
#ifndef TRUNNION_GRPCPP_H
#define TRUNNION_GRPCPP_H
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <trunnion/call.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace trunnion {

/** Who sends a call. An empty name: what the server's auth context says - a client certificate's common name, or what
 * the owner's AuthMetadataProcessor set. */
struct Identity {
  std::string name;
  std::vector<std::string> groups;
};

struct Options {
  const trn_routes *routes; /**< complete; outlives the mount */
  unsigned threads = 2;     /**< each with a completion queue of its own */
  /** Asked once per call, before it is opened; must not block or throw. A status other than OK ends the call with it,
   * but for UNAUTHENTICATED at methods that check credentials themselves. */
  std::function<grpc::Status(const grpc::ServerContext &, Identity *)> identify = nullptr;
};

class Mount {
public:
  /** Adds the generic service and the queues to `builder`. No other AsyncGenericService may be in it. */
  Mount(grpc::ServerBuilder &builder, Options options);
  Mount(const Mount &) = delete;
  Mount &operator=(const Mount &) = delete;
  ~Mount();

  /** Begins to take calls; the server was built. */
  void Start();
  /** Waits for the threads. The server was shut down. Does nothing the second time. */
  void Stop();

  struct Poller; /* internal */

private:
  Options options_;
  grpc::AsyncGenericService service_;
  std::vector<std::unique_ptr<Poller>> pollers_;
};

} // namespace trunnion
#endif
