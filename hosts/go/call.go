package trunnion

/*
#include <stdlib.h>
#include <time.h>
#include <trunnion/trunnion.h>

extern trn_send_result goSend(uintptr_t self, trn_slice *slices, size_t count);
extern void goFinish(uintptr_t self, int code, char *message, void *details, size_t details_size,
                     trn_metadata *trailing, size_t trailing_count);
extern void goRecv(uintptr_t self);
extern void goInitial(uintptr_t self, trn_metadata *metadata, size_t count);
extern void goAbort(uintptr_t self, int code);
extern void goDestroy(uintptr_t self);

static trn_send_result host_send(void *self, const trn_slice *slices, size_t count, unsigned flags) {
  (void)flags;
  return goSend((uintptr_t)self, (trn_slice *)slices, count);
}
static void host_finish(void *self, trn_status status, const char *message, const void *details, size_t details_size,
                        const trn_metadata *trailing, size_t trailing_count) {
  goFinish((uintptr_t)self, status, (char *)message, (void *)details, details_size, (trn_metadata *)trailing,
           trailing_count);
}
static void host_recv(void *self) { goRecv((uintptr_t)self); }
static void host_initial(void *self, const trn_metadata *metadata, size_t count) {
  goInitial((uintptr_t)self, (trn_metadata *)metadata, count);
}
static void host_abort(void *self, trn_status status) { goAbort((uintptr_t)self, status); }
static void host_destroy(void *self) { goDestroy((uintptr_t)self); }

// timeout_ns < 0: no deadline.
static trn_status host_call(const trn_method *method, const trn_metadata *metadata, size_t count, const char *peer,
                            const char *identity, char **groups, size_t group_count, int64_t timeout_ns, uintptr_t self,
                            trn_call **out) {
  static const trn_call_host host = {sizeof(trn_call_host), host_send, host_finish, host_recv, host_initial, host_abort,
                                     host_destroy};
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  int64_t now = time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
  int64_t deadline = timeout_ns < 0 || timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
  trn_call_request request = {sizeof request, method, metadata, count, peer, identity, deadline,
                              (const char *const *)groups, group_count};
  return trn_call_create(&request, &host, (void *)self, out);
}
static void slice_release(const trn_slice *slice) {
  if (slice->release) slice->release(slice->owner);
}
static void deliver_bytes(trn_call *call, void *data, size_t size) {
  trn_slice slice = {data, size, free, data};
  trn_call_deliver_message(call, slice);
}
*/
import "C"

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime/cgo"
	"strings"
	"sync"
	"time"
	"unsafe"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Queued bytes from which a frontend is asked to wait; it may go on at half of it.
const highWater = 1 << 20

// call is one RPC. The frontend's side holds it by a cgo.Handle, from trn_call_create to goDestroy.
type call struct {
	c        *C.trn_call
	delivery sync.Mutex // held around every delivery
	isOver   bool       // under delivery: the last one was made

	mutex       sync.Mutex // of what follows
	queue       []response
	queuedBytes int
	isFull      bool
	isClosed    bool // nothing more is taken: finished, failed, or the client is gone
	hasEnd      bool
	isFailed    bool  // ended by us: the frontend is to be told
	end         error // how the call ends, once the queue is empty
	trailing    metadata.MD
	initial     metadata.MD
	pulls       int           // messages that were asked for and not delivered
	wake        chan struct{} // something to send
	pulled      chan struct{}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // the reader has not seen the one before: it will find both
	}
}

type identityKey struct{}

// WithIdentity names who sends a call, for interceptors that found out. Without it the common name of a verified client
// certificate counts.
func WithIdentity(ctx context.Context, identity string) context.Context {
	return context.WithValue(ctx, identityKey{}, identity)
}

type groupsKey struct{}

// WithGroups names the groups of who sends a call: beside WithIdentity.
func WithGroups(ctx context.Context, groups ...string) context.Context {
	return context.WithValue(ctx, groupsKey{}, groups)
}

// ---- what the frontend calls. Any thread of C ----

func self(handle C.uintptr_t) *call { return cgo.Handle(handle).Value().(*call) }

func toMetadata(entries *C.trn_metadata, count C.size_t) metadata.MD {
	md := metadata.MD{}
	for _, entry := range unsafe.Slice(entries, int(count)) {
		md.Append(C.GoString(entry.key), string(toBytes(entry.value, entry.size)))
	}
	return md
}

// toBytes is memory of C as a slice: not to be kept.
func toBytes(data unsafe.Pointer, size C.size_t) []byte {
	if size == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(data), int(size))
}

//export goSend
func goSend(handle C.uintptr_t, slices *C.trn_slice, count C.size_t) C.trn_send_result {
	c := self(handle)
	all := unsafe.Slice(slices, int(count))
	size := 0
	for i := range all {
		size += int(all[i].size)
	}
	// The one copy of this host: grpc-go does not tell when it is done with a message.
	message := make(response, 0, size)
	for i := range all {
		message = append(message, toBytes(all[i].data, all[i].size)...)
		C.slice_release(&all[i])
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.isClosed {
		return C.TRN_SEND_CLOSED
	}
	c.queue = append(c.queue, message)
	c.queuedBytes += size
	c.isFull = c.isFull || c.queuedBytes > highWater
	signal(c.wake)
	if c.isFull {
		return C.TRN_SEND_FULL
	}
	return C.TRN_SEND_READY
}

//export goFinish
func goFinish(handle C.uintptr_t, code C.int, message *C.char, details unsafe.Pointer, size C.size_t,
	trailing *C.trn_metadata, count C.size_t) {
	c := self(handle)
	md := toMetadata(trailing, count)
	var end error
	if code != 0 {
		full := &spb.Status{}
		if proto.Unmarshal(toBytes(details, size), full) != nil {
			full = &spb.Status{}
		}
		full.Code, full.Message = int32(code), strings.ToValidUTF8(C.GoString(message), "\uFFFD")
		end = status.ErrorProto(full)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.isClosed {
		return
	}
	c.isClosed, c.hasEnd, c.end, c.trailing = true, true, end, md
	signal(c.wake)
}

//export goRecv
func goRecv(handle C.uintptr_t) {
	c := self(handle)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.pulls++
	signal(c.pulled)
}

//export goInitial
func goInitial(handle C.uintptr_t, entries *C.trn_metadata, count C.size_t) {
	c := self(handle)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.initial = toMetadata(entries, count)
}

// grpc-go offers no reset to a handler; the client sees the status instead.
//
//export goAbort
func goAbort(handle C.uintptr_t, code C.int) {
	self(handle).fail(status.Error(codes.Code(code), "The server aborted the call"))
}

//export goDestroy
func goDestroy(handle C.uintptr_t) { cgo.Handle(handle).Delete() }

// ---- deliveries ----

// to makes one delivery, unless the call is over.
func (c *call) to(deliver func()) {
	c.delivery.Lock()
	defer c.delivery.Unlock()
	if !c.isOver {
		deliver()
	}
}

// over makes the last delivery. What the frontend sends from now on is released at once.
func (c *call) over(isCancelled bool) {
	c.fail(status.Error(codes.Canceled, "The call is over"))
	c.to(func() {
		c.isOver = true
		if isCancelled {
			C.trn_call_deliver_cancel(c.c)
		}
		C.trn_call_deliver_done(c.c)
	})
}

// fail ends the call at once: what is queued is dropped.
func (c *call) fail(end error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.queue, c.queuedBytes = nil, 0
	c.isClosed, c.hasEnd, c.isFailed, c.end, c.trailing = true, true, true, end, nil
	signal(c.wake)
}

// cMemory frees what it made, together.
type cMemory []unsafe.Pointer

func (m *cMemory) keep(memory unsafe.Pointer) unsafe.Pointer {
	*m = append(*m, memory)
	return memory
}
func (m *cMemory) text(s string) *C.char         { return (*C.char)(m.keep(unsafe.Pointer(C.CString(s)))) }
func (m *cMemory) bytes(s string) unsafe.Pointer { return m.keep(C.CBytes([]byte(s))) }
func (m *cMemory) free() {
	for _, memory := range *m {
		C.free(memory)
	}
}

func peerOf(p *peer.Peer) string {
	if p == nil || p.Addr == nil {
		return "unknown:"
	}
	switch address := p.Addr.(type) {
	case *net.TCPAddr:
		if address.IP.To4() != nil {
			return "ipv4:" + (&net.TCPAddr{IP: address.IP.To4(), Port: address.Port}).String()
		}
		return "ipv6:" + address.String()
	case *net.UnixAddr:
		return "unix:"
	}
	return p.Addr.Network() + ":" + p.Addr.String()
}

func identityOf(ctx context.Context, p *peer.Peer) string {
	if identity, ok := ctx.Value(identityKey{}).(string); ok {
		return identity
	}
	if p != nil {
		if tls, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(tls.State.VerifiedChains) > 0 {
			return tls.State.VerifiedChains[0][0].Subject.CommonName
		}
	}
	return ""
}

// open makes the call and opens it.
func (c *call) open(ctx context.Context, method *C.trn_method) error {
	var memory cMemory
	defer memory.free()
	md, _ := metadata.FromIncomingContext(ctx)
	var entries []C.trn_metadata
	for key, values := range md {
		for _, value := range values {
			entries = append(entries, C.trn_metadata{key: memory.text(key), value: memory.bytes(value),
				size: C.size_t(len(value))})
		}
	}
	var first *C.trn_metadata
	if len(entries) > 0 {
		first = (*C.trn_metadata)(memory.keep(C.malloc(C.size_t(len(entries)) * C.sizeof_trn_metadata)))
		copy(unsafe.Slice(first, len(entries)), entries)
	}
	from, _ := peer.FromContext(ctx)
	var identity *C.char
	if name := identityOf(ctx, from); strings.ContainsRune(name, 0) {
		return status.Error(codes.Unauthenticated, "The identity has a NUL in it")
	} else if name != "" {
		identity = memory.text(name)
	}
	names, _ := ctx.Value(groupsKey{}).([]string)
	var groups **C.char
	if len(names) > 0 {
		groups = (**C.char)(memory.keep(C.malloc(C.size_t(len(names)) * C.size_t(unsafe.Sizeof(groups)))))
		for i, name := range names {
			if strings.ContainsRune(name, 0) {
				return status.Error(codes.Unauthenticated, "A group has a NUL in it")
			}
			unsafe.Slice(groups, len(names))[i] = memory.text(name)
		}
	}
	timeout := time.Duration(-1)
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(time.Until(deadline), 0)
	}
	handle := cgo.NewHandle(c)
	code := C.host_call(method, first, C.size_t(len(entries)), memory.text(peerOf(from)), identity, groups,
		C.size_t(len(names)), C.int64_t(timeout), C.uintptr_t(handle), &c.c)
	if code != 0 {
		handle.Delete()
		return status.Error(codes.Code(code), "The call cannot be opened")
	}
	C.trn_call_deliver_open(c.c)
	return nil
}

// ---- the request ----

// pull waits until the frontend asked for a message. False: the call is over.
func (c *call) pull(ctx context.Context) bool {
	for {
		c.mutex.Lock()
		if c.pulls > 0 {
			c.pulls--
			c.mutex.Unlock()
			return true
		}
		c.mutex.Unlock()
		select {
		case <-c.pulled:
		case <-ctx.Done():
			return false
		}
	}
}

// receive delivers what the client sends until it sends no more. One message is read ahead of the frontend's asking, so
// that the end of the request is seen; more is held back by HTTP/2's window.
func (c *call) receive(stream grpc.ServerStream, isSingle bool, limit int) {
	for count := 0; ; count++ {
		var message request
		if err := stream.RecvMsg(&message); err != nil {
			C.free(message.data)
			switch {
			case !errors.Is(err, io.EOF):
				c.fail(err)
			case isSingle && count == 0:
				c.fail(status.Error(codes.Internal, "The request ended without a message"))
			default:
				c.to(func() { C.trn_call_deliver_half_close(c.c) })
			}
			return
		}
		if isSingle && count > 0 {
			c.fail(status.Error(codes.Internal, "More than one message in a request of a method that takes one"))
		} else if limit > 0 && message.size > limit {
			c.fail(status.Errorf(codes.ResourceExhausted, "A message of %d bytes; the limit is %d", message.size, limit))
		} else if isSingle || c.pull(stream.Context()) {
			c.to(func() {
				C.deliver_bytes(c.c, message.data, C.size_t(message.size))
				message.data = nil
			})
			if message.data == nil {
				continue
			}
		}
		C.free(message.data)
		return
	}
}

// ---- the reply ----

// next gives a message to send, or nil.
func (c *call) next() (message response, isWritable bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if len(c.queue) == 0 {
		return nil, false
	}
	message, c.queue[0] = c.queue[0], nil
	c.queue = c.queue[1:]
	c.queuedBytes -= len(message)
	if c.isFull && c.queuedBytes <= highWater/2 {
		c.isFull, isWritable = false, !c.isClosed
	}
	return message, isWritable
}

// finished gives how the call ended.
func (c *call) finished() (isFinished, isFailed bool, end error, trailing metadata.MD) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.hasEnd && len(c.queue) == 0, c.isFailed, c.end, c.trailing
}

func (c *call) headers(stream grpc.ServerStream) {
	c.mutex.Lock()
	initial := c.initial
	c.initial = nil
	c.mutex.Unlock()
	if initial != nil {
		_ = stream.SetHeader(initial) // fails once the headers are out: then it has no effect, as said
	}
}

// send writes what the frontend queues until it finishes or the client is gone. Gives the call's status, and whether that
// is news to the frontend.
func (c *call) send(stream grpc.ServerStream) (err error, isCancelled bool) {
	ctx := stream.Context()
	for {
		if message, isWritable := c.next(); message != nil {
			c.headers(stream)
			if isWritable {
				c.to(func() { C.trn_call_deliver_writable(c.c) })
			}
			if err := stream.SendMsg(message); err != nil {
				if ctx.Err() != nil {
					err = status.FromContextError(ctx.Err()).Err()
				}
				return err, true
			}
			continue
		}
		if isFinished, isFailed, end, trailing := c.finished(); isFinished {
			c.headers(stream)
			stream.SetTrailer(trailing)
			return end, isFailed
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err(), true
		}
	}
}
