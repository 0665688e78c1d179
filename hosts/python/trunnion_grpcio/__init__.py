"""Trunnion's frontends in a grpcio server that somebody else owns: its ports, credentials, interceptors and own services stay
theirs.

    routes = trunnion_grpcio.Routes.embedded(engine=".../libtrunnion_engine.so", functions="...")
    server = grpc.server(ThreadPoolExecutor(64), options=trunnion_grpcio.SERVER_OPTIONS)
    server.add_generic_rpc_handlers((routes.handler(),))   # after the handlers of the program's own services
    ...
    server.stop(grace).wait(); routes.close()

A call holds a thread of the server's pool as long as it runs: an open stream counts. A server of grpc.aio takes
`routes.aio_handler()` instead, and no threads are held. The library is found by TRUNNION_LIBRARY
or by the loader.
"""
import ctypes, threading
import grpc
from . import _abi, _aio, _call

SERVER_OPTIONS = (("grpc.max_receive_message_length", _call.MESSAGE_BYTES_MAX), ("grpc.max_send_message_length", -1),
                  ("grpc.max_metadata_size", 64 << 10))


class Error(Exception):
    pass


class Unknown(Exception):
    """For `identify`: nobody who may call. The call ends with UNAUTHENTICATED, but for methods that check credentials themselves."""


class Identity:
    """Who sends a call, for `identify`."""

    def __init__(self, name, groups=()):
        if "\0" in name or any("\0" in group for group in groups):
            raise ValueError("a NUL in an identity")
        self.name, self.groups = name, tuple(groups)


class Routes:
    """A table of methods. Several servers may serve it."""

    def __init__(self, routes=None, backend=None, library=None):
        """Takes `routes` (the address of a trn_routes, complete) and `backend` (of a trn_backend, or None)."""
        self._library = library or _abi.load()
        self._routes, self._backend = ctypes.c_void_p(routes), ctypes.c_void_p(backend)
        self._idle, self._live, self._is_closing = threading.Condition(), 0, False

    @classmethod
    def embedded(cls, engine=None, functions=None, library_path=None):
        """Routes with Spark Connect on in-process DataFusion. Paths that are None are searched."""
        library = _abi.load(library_path)
        made = cls(library=library)
        options = _abi.EmbeddedOptions(ctypes.sizeof(_abi.EmbeddedOptions), engine and str(engine).encode(),
                                       functions and str(functions).encode())
        error, spark = ctypes.c_void_p(), ctypes.c_void_p()
        try:
            made._check(library.trn_embedded_backend_create(options, made._backend, error), error)
            made._check(library.trn_spark_frontend_create(None, spark), error)
            made._check(library.trn_routes_create(made._routes), error)
            made._check(library.trn_frontend_register(spark, made._routes, made._backend, error), error)
        except Error:
            made.close()
            raise
        finally:
            library.trn_frontend_destroy(spark)
            library.trn_error_unref(error)
        return made

    def _check(self, status, error):
        if status:
            name, text = self._library.trn_status_name(status).decode(), self._library.trn_error_message(error).decode()
            raise Error(f"{name} {text}")

    def handler(self, identify=None):
        """A generic handler for server.add_generic_rpc_handlers. `identify(context)` gives an Identity, or None: what the
        transport authenticated counts. What it raises ends the call: Unknown, or context.abort says how."""
        return _Handler(self, identify)

    def aio_handler(self, identify=None):
        """The same for a server of grpc.aio; `identify` may be a coroutine function."""
        return _aio.AioHandler(self, identify, Unknown, Identity)

    def close(self):
        """Waits for the calls that run, then frees what serves them; later calls get UNAVAILABLE. Stop the server first."""
        with self._idle:
            self._is_closing = True
            self._idle.wait_for(lambda: self._live == 0)
        self._library.trn_routes_destroy(self._routes)
        self._library.trn_backend_unref(self._backend)
        self._routes, self._backend = ctypes.c_void_p(), ctypes.c_void_p()

    def _enter(self):
        with self._idle:
            self._live += not self._is_closing
            return not self._is_closing

    def _leave(self):
        with self._idle:
            self._live -= 1
            self._idle.notify_all()

    def _method(self, path):
        """None: there is none of the name, or the routes are closed."""
        if not self._enter():
            return None
        try:
            return self._find(path)
        finally:
            self._leave()

    def _find(self, path):
        text = path.encode()
        return self._library.trn_routes_find(self._routes, text, len(text))


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, routes, identify):
        self._table, self._identify = routes, identify

    def service(self, details):
        """The same kind for all: how many messages are due is checked in one place."""
        method = self._table._method(details.method)
        if not method:
            return None
        return grpc.stream_stream_rpc_method_handler(lambda requests, context: self._serve(method, requests, context))

    def _serve(self, method, requests, context):
        if not self._table._enter():
            context.abort(grpc.StatusCode.UNAVAILABLE, "The server stops")
        call = None
        try:
            identity, is_unknown = None, False
            try:
                identity = self._identify(context) if self._identify else None
            except Unknown as error:
                is_unknown = method.contents.authenticates
                if not is_unknown:
                    context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error) or "The caller is not known")
            if identity is None and not is_unknown:
                name = _call.identity_of(context)
                identity = Identity(name) if name else None
            call = _call.Call(self._table._library, method, self._table._leave)
            refused = call.open(context.invocation_metadata(), _call.peer_of(context), identity and identity.name,
                                identity.groups if identity else (), _call.deadline_ns(context))
        except BaseException:
            if call is None or call.handle is None:
                self._table._leave()
            raise
        if refused:
            self._table._leave()
            context.abort(_call.STATUS[refused[0]], refused[1])
        if not context.add_callback(lambda: call.over(True)):
            call.over(True)
            return
        try:
            yield from self._replies(call, requests, context)
        finally:
            call.over(call.end is None)

    @staticmethod
    def _replies(call, requests, context):
        if call.is_single:
            call.receive_single(requests)
        else:
            threading.Thread(target=call.receive_stream, args=(requests,), daemon=True).start()
        message = call.next()
        if call.initial:
            context.send_initial_metadata(call.initial)
        while message is not None:
            yield message
            message = call.next()
        if call.end:
            status, text, trailing = call.end
            context.set_trailing_metadata((*context.trailing_metadata(), *trailing))  # interceptors may have set some
            if status:
                context.set_details(text)
                context.set_code(_call.STATUS.get(status, grpc.StatusCode.UNKNOWN))
