// A grpc-go server with a service and an interceptor of its own, and Spark Connect mounted in it. usage: sparkserver [ENGINE FUNCTIONS]
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"
	trunnion "trunnion.dev/hosts/go"
)

// The program's own service: /example.Owner/Hello gives its message back.
var owner = grpc.ServiceDesc{ServiceName: "example.Owner", Methods: []grpc.MethodDesc{{MethodName: "Hello",
	Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		message := &wrapperspb.BytesValue{}
		err := decode(message)
		return message, err
	}}}}

// The program's own interceptor sees every call, ours too.
func stamp(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	stream.SetTrailer(metadata.Pairs("seen-by", "the-owners-interceptor"))
	return handler(srv, stream)
}

func main() {
	options := trunnion.Options{}
	if len(os.Args) == 3 {
		options = trunnion.Options{Engine: os.Args[1], Functions: os.Args[2]}
	}
	routes, err := trunnion.Embedded(options)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(append(routes.ServerOptions(), grpc.StreamInterceptor(stamp))...)
	server.RegisterService(&owner, nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-signals
		server.Stop()
	}()
	fmt.Printf("Go: Spark Connect on sc://%s\n", listener.Addr())
	if err := server.Serve(listener); err != nil {
		log.Fatal(err)
	}
	routes.Close()
}
