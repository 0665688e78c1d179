// Package trunnion mounts Trunnion's frontends in a grpc-go server: the server, its listener and its interceptors stay the
// program's own. Requests of services that the program does not serve itself go to Trunnion's routes.
//
//	routes, err := trunnion.Embedded(trunnion.Options{Engine: ..., Functions: ...})
//	server := grpc.NewServer(routes.ServerOptions()...)
package trunnion

/*
#cgo CFLAGS: -I${SRCDIR}/../../include
#cgo LDFLAGS: -ltrunnion
#include <stdlib.h>
#include <trunnion/trunnion.h>
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The largest request message of methods that name no limit.
const messageBytesMax = 128 << 20

// Options of the bundled backend; empty paths are searched beside the program and by the loader.
type Options struct{ Engine, Functions string }

// Routes is a table of methods.
type Routes struct {
	serving sync.RWMutex // read: by every call for as long as it lives
	routes  *C.trn_routes
	backend *C.trn_backend
}

func failure(what string, code C.trn_status, e *C.trn_error) error {
	defer C.trn_error_unref(e)
	return fmt.Errorf("%s: %s %s", what, C.GoString(C.trn_status_name(code)), C.GoString(C.trn_error_message(e)))
}

// Embedded gives routes with Spark Connect on in-process DataFusion.
func Embedded(o Options) (*Routes, error) {
	options := C.trn_embedded_options{struct_size: C.sizeof_trn_embedded_options}
	if o.Engine != "" {
		options.engine_path = C.CString(o.Engine)
		defer C.free(unsafe.Pointer(options.engine_path))
	}
	if o.Functions != "" {
		options.functions_path = C.CString(o.Functions)
		defer C.free(unsafe.Pointer(options.functions_path))
	}
	r := &Routes{}
	if err := r.fill(&options); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Routes) fill(options *C.trn_embedded_options) error {
	var e *C.trn_error
	var spark *C.trn_frontend
	if code := C.trn_embedded_backend_create(options, &r.backend, &e); code != 0 {
		return failure("backend", code, e)
	}
	if code := C.trn_spark_frontend_create(nil, &spark); code != 0 {
		return failure("frontend", code, nil)
	}
	defer C.trn_frontend_destroy(spark)
	if code := C.trn_routes_create(&r.routes); code != 0 {
		return failure("routes", code, nil)
	}
	if code := C.trn_frontend_register(spark, r.routes, r.backend, &e); code != 0 {
		return failure("register", code, e)
	}
	return nil
}

// Take serves routes that the program filled itself: a trn_routes, complete, and nobody else's from now on.
func Take(routes unsafe.Pointer) *Routes { return &Routes{routes: (*C.trn_routes)(routes)} }

// Close waits for the calls that are served, then frees the routes and what serves on them. Later calls get UNAVAILABLE.
// Stop the server first: a call ends when its client goes or its answer is complete.
func (r *Routes) Close() {
	r.serving.Lock()
	defer r.serving.Unlock()
	C.trn_routes_destroy(r.routes)
	C.trn_backend_unref(r.backend)
	r.routes, r.backend = nil, nil
}

// ServerOptions are what a grpc.Server needs to serve the routes. The codec passes messages of the program's own services
// on to the one that is registered as "proto".
func (r *Routes) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ForceServerCodecV2(codec{}), grpc.UnknownServiceHandler(r.handle),
		grpc.MaxRecvMsgSize(messageBytesMax)}
}

// handle serves one call.
func (r *Routes) handle(_ any, stream grpc.ServerStream) error {
	r.serving.RLock()
	defer r.serving.RUnlock()
	if r.routes == nil {
		return status.Error(codes.Unavailable, "The server stops")
	}
	path, _ := grpc.MethodFromServerStream(stream)
	text := C.CString(path)
	method := C.trn_routes_find(r.routes, text, C.size_t(len(path)))
	C.free(unsafe.Pointer(text))
	if method == nil {
		return status.Errorf(codes.Unimplemented, "There is no method %s", path)
	}
	c := &call{wake: make(chan struct{}, 1), pulled: make(chan struct{}, 1)}
	if err := c.open(stream.Context(), method); err != nil {
		return err
	}
	// The reader may outlive the call and the routes: it takes values only.
	isSingle := method.kind == C.TRN_METHOD_UNARY || method.kind == C.TRN_METHOD_SERVER_STREAM
	go c.receive(stream, isSingle, int(method.message_bytes_max))
	err, isCancelled := c.send(stream)
	c.over(isCancelled)
	return err
}
