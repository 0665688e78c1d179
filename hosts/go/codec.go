package trunnion

// #include <stdlib.h>
import "C"

import (
	"errors"
	"unsafe"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // requests may be compressed
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// A request message in memory of C; a frontend frees it.
type request struct {
	data unsafe.Pointer
	size int
}

// A response message.
type response []byte

// codec passes the bytes of our messages through and gives others to protobuf, so that the program's own services work
// beside ours.
type codec struct{}

func (codec) Name() string { return proto.Name }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	if message, ok := v.(response); ok {
		return mem.BufferSlice{mem.SliceBuffer(message)}, nil
	}
	return encoding.GetCodecV2(proto.Name).Marshal(v)
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	message, ok := v.(*request)
	if !ok {
		return encoding.GetCodecV2(proto.Name).Unmarshal(data, v)
	}
	size := data.Len()
	memory := C.realloc(nil, C.size_t(size+1)) // not malloc: cgo's ends the program when memory is short
	if memory == nil {
		return errors.New("no memory for a request message")
	}
	data.CopyTo(unsafe.Slice((*byte)(memory), size))
	message.data, message.size = memory, size
	return nil
}
