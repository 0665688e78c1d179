"""The same for servers of grpc.aio: no thread of the server's is held by a call, the event loop carries all of them."""
import asyncio, inspect, threading
import grpc
from . import _abi, _call


class _Changes(threading.Condition):
    """Wakes who waits on the event loop, too."""

    def __init__(self, loop):
        super().__init__()
        self.loop, self.waiting = loop, []

    def event(self):
        self.waiting.append(asyncio.Event())
        return self.waiting[-1]

    def notify_all(self):
        super().notify_all()
        try:
            self.loop.call_soon_threadsafe(self._wake)
        except RuntimeError:  # the loop is closed: nobody waits any more
            pass

    def _wake(self):
        for event in self.waiting:
            event.set()


class AioCall(_call.Call):
    def __init__(self, library, method, on_destroyed, loop):
        super().__init__(library, method, on_destroyed)
        self.changed = _Changes(loop)
        self.replied, self.pulled = self.changed.event(), self.changed.event()

    @staticmethod
    async def _until(event, holds):
        while not holds():
            event.clear()
            if not holds():  # it may have come to hold before the event was cleared
                await event.wait()

    async def receive(self, requests):
        """Reads one message ahead of the frontend's asking, so that the end is seen."""
        count = 0
        try:
            async for message in requests:
                count += 1
                if self.is_single and count > 1:
                    return self.fail(13, "More than one message in a request of a method that takes one")
                if len(message) > self.limit:
                    return self.fail(8, f"A message of {len(message)} bytes; the limit is {self.limit}")
                if self.is_single:
                    single = message
                    continue
                await self._until(self.pulled, lambda: self.pulls or self.is_closed)
                if not self.pulls:
                    return None
                self.pulls -= 1
                self.message(message)
            if self.is_single and not count:
                return self.fail(13, "The request ended without a message")
            if self.is_single:
                self.message(single)
            self.deliver(self.library.trn_call_deliver_half_close)
        except (asyncio.CancelledError, grpc.RpcError, asyncio.InvalidStateError):
            pass  # the call is lost: its end tells the frontend
        return None

    async def next_reply(self):
        await self._until(self.replied, lambda: self.queue or self.is_closed)
        return self.next()  # does not wait


class AioHandler(grpc.GenericRpcHandler):
    def __init__(self, routes, identify, unknown, identity):
        self._table, self._identify, self._unknown, self._identity = routes, identify, unknown, identity

    def service(self, details):
        method = self._table._method(details.method)
        if not method:
            return None

        async def serve(requests, context):
            async for message in self._serve(method, requests, context):
                yield message

        return grpc.stream_stream_rpc_method_handler(serve)

    async def _who(self, method, context):
        """(identity or None); ends the call when it is nobody who may."""
        try:
            identity = self._identify(context) if self._identify else None
            if inspect.isawaitable(identity):
                identity = await identity
        except self._unknown as error:
            if method.contents.authenticates:
                return None
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error) or "The caller is not known")
        if identity is None:
            name = _call.identity_of(context)
            identity = self._identity(name) if name else None
        return identity

    async def _open(self, method, context):
        """The call, or None: it was refused. What is counted is let go of on every way out."""
        if not self._table._enter():
            await context.abort(grpc.StatusCode.UNAVAILABLE, "The server stops")
        call, refused = None, None
        try:
            identity = await self._who(method, context)
            call = AioCall(self._table._library, method, self._table._leave, asyncio.get_running_loop())
            refused = call.open(context.invocation_metadata() or (), _call.peer_of(context), identity and identity.name,
                                identity.groups if identity else (), _call.deadline_ns(context))
        finally:
            if call is None or call.handle is None:
                self._table._leave()
        if refused:
            await context.abort(_call.STATUS[refused[0]], refused[1])
        return call

    async def _serve(self, method, requests, context):
        call = await self._open(method, context)
        reading = asyncio.ensure_future(call.receive(requests))
        try:
            message = await call.next_reply()
            if call.initial:
                await context.send_initial_metadata(call.initial)
            while message is not None:
                yield message
                message = await call.next_reply()
            if call.end:
                status, text, trailing = call.end
                context.set_trailing_metadata((*(context.trailing_metadata() or ()), *trailing))  # interceptors may have set some
                if status:
                    context.set_details(text)
                    context.set_code(_call.STATUS.get(status, grpc.StatusCode.UNKNOWN))
        finally:
            reading.cancel()
            call.over(call.end is None)
