#!/usr/bin/env python3
"""A grpcio server with a service and an interceptor of its own, and Spark Connect mounted in it.
usage: sparkserver.py [--aio] [--tls CERTIFICATE KEY CLIENT_CA] [ENGINE FUNCTIONS | LIBRARY]   (LIBRARY exports echo_routes_create)"""
import asyncio, ctypes, pathlib, signal, sys, threading
from concurrent.futures import ThreadPoolExecutor
import grpc
import trunnion_grpcio


class Owner(grpc.GenericRpcHandler):
    """The program's own service: /example.Owner/Hello gives its message back."""

    def service(self, details):
        if details.method == "/example.Owner/Hello":
            return grpc.unary_unary_rpc_method_handler(lambda message, context: message)
        return None


class Stamp(grpc.ServerInterceptor):
    """The program's own interceptor sees every call, ours too."""

    def intercept_service(self, continuation, details):
        handler = continuation(details)
        if handler is None or not handler.response_streaming:
            return handler

        def stamped(requests, context):
            context.set_trailing_metadata((("seen-by", "the-owners-interceptor"),))
            yield from handler.stream_stream(requests, context)

        return grpc.stream_stream_rpc_method_handler(stamped)


def identify(context):
    """Who sends: the program's own rule."""
    who = dict(context.invocation_metadata()).get("who")
    return trunnion_grpcio.Identity(who, ("staff", "night shift")) if who else None


def routes_of(arguments):
    if len(arguments) != 1:
        return trunnion_grpcio.Routes.embedded(*arguments)
    routes = ctypes.c_void_p()
    if ctypes.CDLL(arguments[0]).echo_routes_create(ctypes.byref(routes)):
        raise SystemExit("the library gives no routes")
    return trunnion_grpcio.Routes(routes.value)


class AioOwner(grpc.GenericRpcHandler):
    def service(self, details):
        async def hello(message, context):
            return message

        return grpc.unary_unary_rpc_method_handler(hello) if details.method == "/example.Owner/Hello" else None


class AioStamp(grpc.aio.ServerInterceptor):
    async def intercept_service(self, continuation, details):
        handler = await continuation(details)
        if handler is None or not handler.response_streaming:
            return handler

        async def stamped(requests, context):
            context.set_trailing_metadata((("seen-by", "the-owners-interceptor"),))
            async for message in handler.stream_stream(requests, context):
                yield message

        return grpc.stream_stream_rpc_method_handler(stamped)


async def serve_aio(routes, credentials):
    server = grpc.aio.server(interceptors=(AioStamp(),), options=trunnion_grpcio.SERVER_OPTIONS)
    server.add_generic_rpc_handlers((AioOwner(), routes.aio_handler(identify)))
    address = "127.0.0.1:0"
    port = server.add_secure_port(address, credentials) if credentials else server.add_insecure_port(address)
    await server.start()
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    print(f"grpc.aio: Spark Connect on sc://127.0.0.1:{port}", flush=True)
    await stopping.wait()
    await server.stop(0)


def main(arguments):
    credentials = None
    is_aio = arguments[:1] == ["--aio"]
    arguments = arguments[is_aio:]
    if arguments[:1] == ["--tls"]:
        certificate, key, authority = (pathlib.Path(path).read_bytes() for path in arguments[1:4])
        credentials = grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=True)
        arguments = arguments[4:]
    routes = routes_of(arguments)
    if is_aio:
        asyncio.run(serve_aio(routes, credentials))
        routes.close()
        return
    server = grpc.server(ThreadPoolExecutor(64), interceptors=(Stamp(),), options=trunnion_grpcio.SERVER_OPTIONS)
    server.add_generic_rpc_handlers((Owner(), routes.handler(identify)))
    address = "127.0.0.1:0"
    port = server.add_secure_port(address, credentials) if credentials else server.add_insecure_port(address)
    server.start()
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    print(f"grpcio: Spark Connect on sc://127.0.0.1:{port}", flush=True)
    stopping.wait()
    server.stop(0).wait()
    routes.close()


if __name__ == "__main__":
    main(sys.argv[1:])
