"""The C ABI, as far as this host uses it: include/trunnion/{call,frontend,backend,error}.h. Calls into the library release the
GIL; its calls of ours take it."""
import ctypes as c
import os

UNARY, SERVER_STREAM, CLIENT_STREAM, BIDI = range(4)
SEND_READY, SEND_FULL, SEND_CLOSED = range(3)

Release = c.CFUNCTYPE(None, c.c_void_p)


class Slice(c.Structure):
    _fields_ = [("data", c.c_void_p), ("size", c.c_size_t), ("release", Release), ("owner", c.c_void_p)]


class Metadata(c.Structure):
    _fields_ = [("key", c.c_char_p), ("value", c.c_void_p), ("size", c.c_size_t)]


class Method(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("path", c.c_char_p), ("kind", c.c_int), ("callbacks", c.c_void_p * 6),
                ("service", c.c_void_p), ("message_bytes_max", c.c_size_t), ("authenticates", c.c_bool)]


Send = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(Slice), c.c_size_t, c.c_uint)
Finish = c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.c_char_p, c.c_void_p, c.c_size_t, c.POINTER(Metadata), c.c_size_t)
Recv = c.CFUNCTYPE(None, c.c_void_p)
SetInitial = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(Metadata), c.c_size_t)
Abort = c.CFUNCTYPE(None, c.c_void_p, c.c_int)


class CallHost(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("send", Send), ("finish", Finish), ("recv", Recv),
                ("set_initial_metadata", SetInitial), ("abort", Abort), ("destroy", Release)]


class CallRequest(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("method", c.POINTER(Method)), ("metadata", c.POINTER(Metadata)),
                ("metadata_count", c.c_size_t), ("peer", c.c_char_p), ("identity", c.c_char_p), ("deadline_ns", c.c_int64),
                ("groups", c.POINTER(c.c_char_p)), ("group_count", c.c_size_t)]


class EmbeddedOptions(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("engine_path", c.c_char_p), ("functions_path", c.c_char_p),
                ("threads", c.c_uint), ("memory_bytes", c.c_uint64), ("spill_directory", c.c_char_p)]


def load(path=None):
    """The library: `path`, else TRUNNION_LIBRARY, else where the loader finds it."""
    library = c.CDLL(path or os.environ.get("TRUNNION_LIBRARY") or "libtrunnion.so.0")
    pointer, out, status, size = c.c_void_p, c.POINTER(c.c_void_p), c.c_int, c.c_size_t
    for name, result, arguments in (
            ("trn_error_message", c.c_char_p, [pointer]), ("trn_error_unref", None, [pointer]),
            ("trn_status_name", c.c_char_p, [status]),
            ("trn_embedded_backend_create", status, [c.POINTER(EmbeddedOptions), out, out]),
            ("trn_backend_unref", None, [pointer]),
            ("trn_spark_frontend_create", status, [pointer, out]), ("trn_frontend_destroy", None, [pointer]),
            ("trn_frontend_register", status, [pointer, pointer, pointer, out]),
            ("trn_routes_create", status, [out]), ("trn_routes_destroy", None, [pointer]),
            ("trn_routes_find", c.POINTER(Method), [pointer, c.c_char_p, size]),
            ("trn_call_create", status, [c.POINTER(CallRequest), c.POINTER(CallHost), pointer, out]),
            ("trn_call_deliver_open", None, [pointer]), ("trn_call_deliver_message", None, [pointer, Slice]),
            ("trn_call_deliver_half_close", None, [pointer]), ("trn_call_deliver_writable", None, [pointer]),
            ("trn_call_deliver_cancel", None, [pointer]), ("trn_call_deliver_done", None, [pointer])):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def data_of(data):
    """The address of bytes, which must be kept alive."""
    return c.cast(c.c_char_p(data), c.c_void_p)


def bytes_at(data, size):
    return c.string_at(data, size) if data and size else b""


def metadata_from(entries, count):
    """((key, str or bytes), ...) as grpcio wants it."""
    out = []
    for i in range(count):
        key, value = entries[i].key.decode(), bytes_at(entries[i].value, entries[i].size)
        out.append((key, value if key.endswith("-bin") else value.decode("utf-8", "replace")))
    return tuple(out)
