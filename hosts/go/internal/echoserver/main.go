// A grpc-go server with a frontend that checks its host: for tests/clients/test_hosts.py.
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
	trunnion "trunnion.dev/hosts/go"
	"trunnion.dev/hosts/go/internal/echo"
)

type named struct {
	grpc.ServerStream
	ctx context.Context
}

func (n named) Context() context.Context { return n.ctx }

func identify(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	if who := md.Get("who"); len(who) > 0 {
		stream = named{stream, trunnion.WithIdentity(stream.Context(), who[0])}
	}
	return handler(srv, stream)
}

func main() {
	routes := trunnion.Take(echo.Routes())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(append(routes.ServerOptions(), grpc.StreamInterceptor(identify))...)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		server.Stop()
	}()
	fmt.Printf("Go: echo on sc://%s\n", listener.Addr())
	if err := server.Serve(listener); err != nil {
		log.Fatal(err)
	}
	routes.Close()
}
