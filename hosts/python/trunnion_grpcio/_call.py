"""One RPC between grpcio and a frontend: the functions of trn_call_host, the queue that they fill, the deliveries."""
import collections, ctypes, itertools, threading, time, urllib.parse
import grpc
from . import _abi

HIGH_WATER = 1 << 20  # queued bytes from which a frontend is asked to wait; it may go on at half of it
MESSAGE_BYTES_MAX = 128 << 20
STATUS = {code.value[0]: code for code in grpc.StatusCode}

# What C holds by number: calls from trn_call_create to the host's destroy, messages until they are released.
_calls, _messages, _numbers = {}, {}, itertools.count(1)


class Call:
    def __init__(self, library, method, on_destroyed):
        self.library, self.on_destroyed = library, on_destroyed
        self.is_single = method.contents.kind in (_abi.UNARY, _abi.SERVER_STREAM)
        self.limit = method.contents.message_bytes_max or MESSAGE_BYTES_MAX
        self.method, self.handle = method, None
        self.delivery = threading.Lock()  # held around every delivery
        self.is_over = False              # under delivery: the last one was made
        self.changed = threading.Condition()  # of what follows
        self.queue, self.queued_bytes, self.is_full = collections.deque(), 0, False
        self.is_closed = False  # nothing more is taken: finished, failed, or the client is gone
        self.is_failed = False  # ended by us: the frontend is to be told
        self.end = None         # (status, text, trailing metadata), once the queue is empty
        self.initial, self.pulls = None, 0

    # ---- deliveries: on threads of grpcio and our reader's, never from inside of a host function ----

    def open(self, metadata, peer, identity, groups, deadline_ns):
        """None, or (status, text): then it is over."""
        values = [value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape") for _, value in metadata]
        entries = (_abi.Metadata * (len(values) or 1))()
        for entry, (key, _), value in zip(entries, metadata, values):
            entry.key, entry.value, entry.size = key.encode(), _abi.data_of(value), len(value)
        names = (ctypes.c_char_p * (len(groups) or 1))(*(group.encode() for group in groups))
        request = _abi.CallRequest(ctypes.sizeof(_abi.CallRequest), self.method, entries, len(values),
                                   peer.encode(), identity.encode() if identity else None, deadline_ns, names, len(groups))
        number, handle = next(_numbers), ctypes.c_void_p()
        _calls[number] = self
        status = self.library.trn_call_create(request, _HOST, number, handle)
        if status:
            del _calls[number]
            return status, "The call cannot be opened"
        self.handle = handle
        self.library.trn_call_deliver_open(handle)
        return None

    def deliver(self, function, *arguments):
        """False: the call is over."""
        with self.delivery:
            if not self.is_over:
                function(self.handle, *arguments)
            return not self.is_over

    def message(self, data):
        number = next(_numbers)
        _messages[number] = data
        if not self.deliver(self.library.trn_call_deliver_message, _abi.Slice(_abi.data_of(data), len(data), _release, number)):
            del _messages[number]

    def over(self, is_cancelled):
        """The last delivery; does nothing the second time. What the frontend sends from now on is released at once."""
        with self.changed:
            self.is_closed = True
            is_cancelled = is_cancelled or self.is_failed
            self.queue.clear()
            self.changed.notify_all()
        with self.delivery:
            if self.is_over:
                return
            self.is_over = True
            if is_cancelled:
                self.library.trn_call_deliver_cancel(self.handle)
            self.library.trn_call_deliver_done(self.handle)

    def fail(self, status, text):
        """Ends the call at once: what is queued is dropped."""
        with self.changed:
            if self.is_closed and not self.queue and self.end is not None:
                return
            self.queue.clear()
            self.queued_bytes, self.is_closed, self.is_failed, self.end = 0, True, True, (status, text, ())
            self.changed.notify_all()

    # ---- the request ----

    def receive_single(self, requests):
        messages = list(itertools.islice(requests, 2))
        if not messages:
            return self.fail(13, "The request ended without a message")
        if len(messages) > 1:
            return self.fail(13, "More than one message in a request of a method that takes one")
        if len(messages[0]) > self.limit:
            return self.fail(8, f"A message of {len(messages[0])} bytes; the limit is {self.limit}")
        self.message(messages[0])
        self.deliver(self.library.trn_call_deliver_half_close)

    def receive_stream(self, requests):
        """On a thread of its own. One message is read ahead of the frontend's asking, so that the end is seen."""
        try:
            for message in requests:
                if len(message) > self.limit:
                    return self.fail(8, f"A message of {len(message)} bytes; the limit is {self.limit}")
                with self.changed:
                    self.changed.wait_for(lambda: self.pulls or self.is_closed)
                    if not self.pulls:
                        return None
                    self.pulls -= 1
                self.message(message)
            self.deliver(self.library.trn_call_deliver_half_close)
        except Exception:  # what grpcio raises when the call is lost: its end tells the frontend
            pass
        return None

    # ---- the reply ----

    def next(self):
        """A message, or None at the end."""
        with self.changed:
            self.changed.wait_for(lambda: self.queue or self.is_closed)
            if not self.queue:
                return None
            message = self.queue.popleft()
            self.queued_bytes -= len(message)
            is_writable = self.is_full and self.queued_bytes <= HIGH_WATER // 2
            if is_writable:
                self.is_full = False
                is_writable = not self.is_closed
        if is_writable:
            self.deliver(self.library.trn_call_deliver_writable)
        return message


def deadline_ns(context):
    left = context.time_remaining()
    if left is None or left > 1e9:
        return (1 << 63) - 1
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) + int(max(left, 0) * 1e9)


def identity_of(context):
    """What the transport authenticated: a client certificate's common name, else what the credentials call the identity."""
    properties = context.auth_context()
    names = list(properties.get("x509_common_name", ())) if str(context.peer_identity_key() or "").startswith("x509_") else []
    names = names or list(context.peer_identities() or ())
    return names[0].decode("utf-8", "replace") if names else None


def peer_of(context):
    return urllib.parse.unquote(context.peer() or "unknown:")


# ---- what the frontend calls. Any thread of C, with the GIL taken for it ----

@_abi.Release
def _release(number):
    _messages.pop(number, None)


@_abi.Send
def _send(number, slices, count, _flags):
    """The one copy of this host: bytes objects own their memory."""
    call = _calls[number]
    parts = []
    for i in range(count):
        piece = slices[i]
        parts.append(_abi.bytes_at(piece.data, piece.size))
        if piece.release:
            piece.release(piece.owner)
    message = parts[0] if len(parts) == 1 else b"".join(parts)
    with call.changed:
        if call.is_closed:
            return _abi.SEND_CLOSED
        call.queue.append(message)
        call.queued_bytes += len(message)
        call.is_full = call.is_full or call.queued_bytes > HIGH_WATER
        call.changed.notify_all()
        return _abi.SEND_FULL if call.is_full else _abi.SEND_READY


@_abi.Finish
def _finish(number, status, text, details, details_size, trailing, trailing_count):
    call = _calls[number]
    metadata = _abi.metadata_from(trailing, trailing_count)
    if details_size:
        metadata += (("grpc-status-details-bin", _abi.bytes_at(details, details_size)),)
    with call.changed:
        if not call.is_closed:
            call.is_closed, call.end = True, (status, (text or b"").decode("utf-8", "replace"), metadata)
            call.changed.notify_all()


@_abi.Recv
def _recv(number):
    call = _calls[number]
    with call.changed:
        call.pulls += 1
        call.changed.notify_all()


@_abi.SetInitial
def _set_initial(number, entries, count):
    call = _calls[number]
    metadata = _abi.metadata_from(entries, count)
    with call.changed:
        call.initial = metadata


@_abi.Abort
def _abort(number, status):
    _calls[number].fail(status, "The server aborted the call")


@_abi.Release
def _destroy(number):
    _calls.pop(number).on_destroyed()


_HOST = _abi.CallHost(ctypes.sizeof(_abi.CallHost), _send, _finish, _recv, _set_initial, _abort, _destroy)
