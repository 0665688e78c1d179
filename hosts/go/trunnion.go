// Package trunnion mounts Trunnion's frontends in a grpc-go server: the server, its listener and its interceptors stay the
// program's own. Requests of services that the program does not serve itself go to Trunnion's routes.
//
//	routes, err := trunnion.Embedded(trunnion.Options{Engine: ..., Functions: ...})
//	server := grpc.NewServer(routes.ServerOptions()...)
package trunnion

/*
#cgo LDFLAGS: -ltrunnion
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <trunnion/trunnion.h>

extern trn_send_result goSend(uintptr_t self, trn_slice *slices, size_t count, unsigned flags);
extern void goFinish(uintptr_t self, int status, char *message, void *details, size_t details_size, trn_metadata *trailing,
                     size_t trailing_count);
extern void goRecv(uintptr_t self);
extern void goInitial(uintptr_t self, trn_metadata *metadata, size_t count);
extern void goDestroy(uintptr_t self);

static trn_send_result host_send(void *self, const trn_slice *slices, size_t count, unsigned flags) {
  return goSend((uintptr_t)self, (trn_slice *)slices, count, flags);
}
static void host_finish(void *self, trn_status status, const char *message, const void *details, size_t details_size,
                        const trn_metadata *trailing, size_t trailing_count) {
  goFinish((uintptr_t)self, status, (char *)message, (void *)details, details_size, (trn_metadata *)trailing, trailing_count);
}
static void host_recv(void *self) { goRecv((uintptr_t)self); }
static void host_initial(void *self, const trn_metadata *metadata, size_t count) {
  goInitial((uintptr_t)self, (trn_metadata *)metadata, count);
}
static void host_abort(void *self, trn_status status) { goFinish((uintptr_t)self, status, "aborted", NULL, 0, NULL, 0); }
static void host_destroy(void *self) { goDestroy((uintptr_t)self); }

static trn_status host_call(const trn_method *method, const trn_metadata *metadata, size_t count, const char *peer,
                            int64_t timeout_ns, uintptr_t self, trn_call **out) {
  static const trn_call_host host = {sizeof(trn_call_host), host_send, host_finish, host_recv, host_initial, host_abort, host_destroy};
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  trn_call_request request = {sizeof request, method, metadata, count, peer, NULL,
                              timeout_ns < 0 ? INT64_MAX : now.tv_sec * 1000000000ll + now.tv_nsec + timeout_ns};
  return trn_call_create(&request, &host, (void *)self, out);
}
static void slice_release(const trn_slice *slice) { if (slice->release) slice->release(slice->owner); }
static void deliver_bytes(trn_call *call, void *data, size_t size) {
  trn_slice slice = {data, size, free, data};
  trn_call_deliver_message(call, slice);
}
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/cgo"
	"sync"
	"time"
	"unsafe"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const highWater = 1 << 20

// Options of the bundled backend; empty paths are searched beside the program and by the loader.
type Options struct{ Engine, Functions string }

// Routes is a table of methods. Close it after the server has stopped.
type Routes struct {
	routes  *C.trn_routes
	backend *C.trn_backend
}

func failure(what string, code C.trn_status, e *C.trn_error) error {
	defer C.trn_error_unref(e)
	return fmt.Errorf("%s: %s %s", what, C.GoString(C.trn_status_name(code)), C.GoString(C.trn_error_message(e)))
}

// Embedded gives routes with Spark Connect on in-process DataFusion.
func Embedded(o Options) (*Routes, error) {
	r := &Routes{}
	var e *C.trn_error
	options := C.trn_embedded_options{struct_size: C.sizeof_trn_embedded_options}
	for text, field := range map[string]**C.char{o.Engine: &options.engine_path, o.Functions: &options.functions_path} {
		if text != "" {
			*field = C.CString(text)
			defer C.free(unsafe.Pointer(*field))
		}
	}
	if code := C.trn_embedded_backend_create(&options, &r.backend, &e); code != 0 {
		return nil, failure("backend", code, e)
	}
	var spark *C.trn_frontend
	if code := C.trn_spark_frontend_create(nil, &spark); code != 0 {
		return nil, failure("frontend", code, nil)
	}
	defer C.trn_frontend_destroy(spark)
	if code := C.trn_routes_create(&r.routes); code != 0 {
		return nil, failure("routes", code, nil)
	}
	if code := C.trn_frontend_register(spark, r.routes, r.backend, &e); code != 0 {
		return nil, failure("register", code, e)
	}
	return r, nil
}

// Close frees the routes and what serves on them.
func (r *Routes) Close() {
	C.trn_routes_destroy(r.routes)
	C.trn_backend_unref(r.backend)
}

// raw passes message bytes through; other messages go to protobuf, so that the program's own services work beside ours.
type raw struct{}

func (raw) Name() string { return "proto" }
func (raw) Marshal(v any) ([]byte, error) {
	if b, ok := v.(*[]byte); ok {
		return *b, nil
	}
	return proto.Marshal(v.(proto.Message))
}
func (raw) Unmarshal(data []byte, v any) error {
	if b, ok := v.(*[]byte); ok {
		*b = append([]byte(nil), data...)
		return nil
	}
	return proto.Unmarshal(data, v.(proto.Message))
}

// ServerOptions are what a grpc.Server needs to serve the routes.
func (r *Routes) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(r.handle),
		grpc.MaxRecvMsgSize(128 << 20), grpc.MaxSendMsgSize(128 << 20)}
}

// call is one RPC. deliver serializes what goes to the frontend; mutex guards the send queue.
type call struct {
	c        *C.trn_call
	deliver  sync.Mutex
	over     bool // under deliver: on_done was delivered
	mutex    sync.Mutex
	queue    [][]byte
	queued   int
	full     bool
	finished bool
	result   error
	trailing metadata.MD
	initial  metadata.MD
	wake     chan struct{}
	wanted   chan struct{} // pulls of client streams
}

func (c *call) signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func toGo(entries *C.trn_metadata, count C.size_t) metadata.MD {
	md := metadata.MD{}
	for _, e := range unsafe.Slice(entries, int(count)) {
		md.Append(C.GoString(e.key), string(C.GoBytes(e.value, C.int(e.size))))
	}
	return md
}

//export goSend
func goSend(self C.uintptr_t, slices *C.trn_slice, count C.size_t, flags C.unsigned) C.trn_send_result {
	c := cgo.Handle(self).Value().(*call)
	var message []byte // Go cannot send C memory: the one copy of this host
	all := unsafe.Slice(slices, int(count))
	for i := range all {
		if all[i].size > 0 {
			message = append(message, unsafe.Slice((*byte)(all[i].data), int(all[i].size))...)
		}
		C.slice_release(&all[i])
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.finished {
		return C.TRN_SEND_CLOSED
	}
	c.queue = append(c.queue, message)
	c.queued += len(message)
	c.signal(c.wake)
	if c.queued > highWater {
		c.full = true
		return C.TRN_SEND_FULL
	}
	return C.TRN_SEND_READY
}

//export goFinish
func goFinish(self C.uintptr_t, code C.int, message *C.char, details unsafe.Pointer, size C.size_t, trailing *C.trn_metadata, count C.size_t) {
	c := cgo.Handle(self).Value().(*call)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.finished {
		return
	}
	c.finished = true
	c.trailing = toGo(trailing, count)
	if code != 0 {
		s := &status.Status{Code: int32(code), Message: C.GoString(message)}
		if size > 0 {
			full := &status.Status{}
			if proto.Unmarshal(C.GoBytes(details, C.int(size)), full) == nil {
				s = full
			}
		}
		c.result = grpcstatus.ErrorProto(s)
	}
	c.signal(c.wake)
}

//export goRecv
func goRecv(self C.uintptr_t) { c := cgo.Handle(self).Value().(*call); c.signal(c.wanted) }

//export goInitial
func goInitial(self C.uintptr_t, entries *C.trn_metadata, count C.size_t) {
	c := cgo.Handle(self).Value().(*call)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.initial = toGo(entries, count)
}

//export goDestroy
func goDestroy(self C.uintptr_t) { cgo.Handle(self).Delete() }

// to runs one delivery, unless the call is over.
func (c *call) to(f func()) {
	c.deliver.Lock()
	defer c.deliver.Unlock()
	if !c.over {
		f()
	}
}

func (r *Routes) handle(_ any, stream grpc.ServerStream) error {
	path, _ := grpc.MethodFromServerStream(stream)
	text := C.CString(path)
	method := C.trn_routes_find(r.routes, text, C.size_t(len(path)))
	C.free(unsafe.Pointer(text))
	if method == nil {
		return grpcstatus.Errorf(codes.Unimplemented, "unknown method %s", path)
	}
	c := &call{wake: make(chan struct{}, 1), wanted: make(chan struct{}, 1)}
	if err := c.open(stream.Context(), method); err != nil {
		return err
	}
	c.to(func() { C.trn_call_deliver_open(c.c) })
	go c.receive(stream, method.kind == C.TRN_METHOD_UNARY || method.kind == C.TRN_METHOD_SERVER_STREAM)
	err := c.send(stream)
	c.deliver.Lock()
	defer c.deliver.Unlock()
	c.over = true
	C.trn_call_deliver_done(c.c)
	return err
}

func (c *call) open(ctx context.Context, method *C.trn_method) error {
	md, _ := metadata.FromIncomingContext(ctx)
	var entries []C.trn_metadata
	var owned []unsafe.Pointer
	for key, values := range md {
		for _, value := range values {
			k, v := C.CString(key), C.CBytes([]byte(value))
			owned = append(owned, unsafe.Pointer(k), v)
			entries = append(entries, C.trn_metadata{key: k, value: v, size: C.size_t(len(value))})
		}
	}
	from := "go:"
	if p, ok := peer.FromContext(ctx); ok {
		from = p.Addr.Network() + ":" + p.Addr.String()
	}
	timeout := C.int64_t(-1)
	if deadline, ok := ctx.Deadline(); ok {
		timeout = C.int64_t(time.Until(deadline))
		if timeout < 0 {
			timeout = 0
		}
	}
	address := C.CString(from)
	owned = append(owned, unsafe.Pointer(address))
	var first *C.trn_metadata
	if len(entries) > 0 {
		memory := C.malloc(C.size_t(len(entries)) * C.sizeof_trn_metadata)
		copy(unsafe.Slice((*C.trn_metadata)(memory), len(entries)), entries)
		first = (*C.trn_metadata)(memory)
		owned = append(owned, memory)
	}
	handle := cgo.NewHandle(c)
	code := C.host_call(method, first, C.size_t(len(entries)), address, timeout, C.uintptr_t(handle), &c.c)
	for _, memory := range owned {
		C.free(memory)
	}
	if code != 0 {
		handle.Delete()
		return grpcstatus.Error(codes.Code(code), "cannot open the call")
	}
	return nil
}

func (c *call) receive(stream grpc.ServerStream, single bool) {
	for {
		if !single {
			select {
			case <-c.wanted:
			case <-stream.Context().Done():
				return
			}
		}
		var message []byte
		err := stream.RecvMsg(&message)
		if err != nil {
			if errors.Is(err, io.EOF) {
				c.to(func() { C.trn_call_deliver_half_close(c.c) })
			}
			return
		}
		c.to(func() { C.deliver_bytes(c.c, C.CBytes(message), C.size_t(len(message))) })
		if single {
			c.to(func() { C.trn_call_deliver_half_close(c.c) })
			return
		}
	}
}

// send writes what the frontend queued until it finishes or the client is gone.
func (c *call) send(stream grpc.ServerStream) error {
	done := stream.Context().Done()
	for {
		c.mutex.Lock()
		batch, finished, full := c.queue, c.finished, c.full
		if c.initial != nil {
			stream.SetHeader(c.initial)
			c.initial = nil
		}
		c.queue, c.queued, c.full = nil, 0, false
		c.mutex.Unlock()
		for i := range batch {
			if err := stream.SendMsg(&batch[i]); err != nil {
				c.to(func() { C.trn_call_deliver_cancel(c.c) })
				return err
			}
		}
		if finished && len(batch) == 0 {
			stream.SetTrailer(c.trailing)
			return c.result
		}
		if full {
			c.to(func() { C.trn_call_deliver_writable(c.c) })
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case <-c.wake:
		case <-done:
			c.to(func() { C.trn_call_deliver_cancel(c.c) })
			return grpcstatus.FromContextError(stream.Context().Err()).Err()
		}
	}
}
