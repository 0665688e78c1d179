// A grpc-go server with a frontend that checks its host: for tests/clients/test_hosts.py.
// usage: echoserver [--tls CERTIFICATE KEY CLIENT_CA]
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
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
		stream = named{stream, trunnion.WithGroups(trunnion.WithIdentity(stream.Context(), who[0]), "staff", "night shift")}
	}
	return handler(srv, stream)
}

func mutual(files []string) grpc.ServerOption {
	certificate, err := tls.LoadX509KeyPair(files[0], files[1])
	if err != nil {
		log.Fatal(err)
	}
	authority, err := os.ReadFile(files[2])
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(authority) {
		log.Fatal("the certificate authority cannot be read")
	}
	return grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{certificate}, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert}))
}

func main() {
	routes := trunnion.Take(echo.Routes())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	options := append(routes.ServerOptions(), grpc.StreamInterceptor(identify))
	if len(os.Args) == 5 && os.Args[1] == "--tls" {
		options = append(options, mutual(os.Args[2:]))
	}
	server := grpc.NewServer(options...)
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
