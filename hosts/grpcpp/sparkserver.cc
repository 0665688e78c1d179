/* A grpc::Server with a service and an interceptor of its own, and Spark Connect mounted in it.
 * usage: sparkserver [--tls CERTIFICATE KEY CLIENT_CA] [ENGINE FUNCTIONS] */
#include <grpcpp/support/method_handler.h>
#include <grpcpp/support/server_interceptor.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "../grpc_core/example_routes.h"
#include "trunnion_grpcpp.h"

namespace {

/* The program's own service: /example.Owner/Hello gives its message back. */
class Owner final : public grpc::Service {
public:
  Owner() {
    AddMethod(new grpc::internal::RpcServiceMethod(
        "/example.Owner/Hello", grpc::internal::RpcMethod::NORMAL_RPC,
        new grpc::internal::RpcMethodHandler<Owner, grpc::ByteBuffer, grpc::ByteBuffer, grpc::ByteBuffer,
                                             grpc::ByteBuffer>(
            [](Owner *, grpc::ServerContext *, const grpc::ByteBuffer *in, grpc::ByteBuffer *out) {
              *out = *in;
              return grpc::Status::OK;
            },
            this)));
  }
};

/* The program's own interceptor sees every call, ours too. */
class Stamp final : public grpc::experimental::Interceptor {
public:
  void Intercept(grpc::experimental::InterceptorBatchMethods *methods) override {
    if (methods->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA))
      methods->GetSendInitialMetadata()->insert({"seen-by", "the-owners-interceptor"});
    methods->Proceed();
  }
};

class Stamps final : public grpc::experimental::ServerInterceptorFactoryInterface {
public:
  grpc::experimental::Interceptor *CreateServerInterceptor(grpc::experimental::ServerRpcInfo *) override {
    return new Stamp;
  }
};

/* Who sends: the program's own rule. */
grpc::Status Identify(const grpc::ServerContext &context, trunnion::Identity *identity) {
  auto found = context.client_metadata().find("who");
  if (found != context.client_metadata().end())
    *identity = {std::string(found->second.data(), found->second.size()), {"staff", "night shift"}};
  return grpc::Status::OK;
}

std::shared_ptr<grpc::ServerCredentials> Credentials(const example_arguments &arguments) {
  if (!arguments.certificate) return grpc::InsecureServerCredentials();
  auto read = [](const char *path) {
    char *text = example_file_read(path);
    std::string copy = text ? text : "";
    free(text);
    return copy;
  };
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = read(arguments.client_ca);
  options.pem_key_cert_pairs.push_back({read(arguments.key), read(arguments.certificate)});
  return grpc::SslServerCredentials(options);
}

} // namespace

int main(int argc, char **argv) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  example_arguments arguments;
  if (!example_arguments_init(&arguments, argc, argv)) return 1;
  {
    Owner owner;
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", Credentials(arguments), &port);
    builder.RegisterService(&owner);
    builder.SetMaxReceiveMessageSize(128 << 20);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 64 << 10);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
    interceptors.emplace_back(new Stamps);
    builder.experimental().SetInterceptorCreators(std::move(interceptors));

    trunnion::Options options;
    options.routes = arguments.routes;
    options.identify = Identify;
    trunnion::Mount mount(builder, options);
    std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    if (!server) return 1;
    mount.Start();
    printf("libgrpc++: Spark Connect on sc://127.0.0.1:%d\n", port);
    fflush(stdout);
    int number;
    sigwait(&set, &number);
    server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
    mount.Stop();
  }
  example_arguments_finish(&arguments);
  return 0;
}
