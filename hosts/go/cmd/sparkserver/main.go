// A grpc-go server with Spark Connect mounted in it. usage: sparkserver [ENGINE FUNCTIONS]
package main

import (
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/grpc"
	trunnion "trunnion.dev/hosts/go"
)

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
	server := grpc.NewServer(routes.ServerOptions()...)
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
