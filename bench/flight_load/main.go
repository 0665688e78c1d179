// Many clients at once: N connections, each prepares a statement once and then runs it over and over, a GetFlightInfo and a
// DoGet each time. Prints calls per second and the 50th and 99th percentile in milliseconds.
// usage: flight_load ADDRESS CONNECTIONS SECONDS prepared SQL | ADDRESS CONNECTIONS SECONDS command BYTES (a server without Flight SQL)
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func fetch(ctx context.Context, client *flightsql.Client, info *flight.FlightInfo, err error) error {
	if err != nil {
		return err
	}
	reader, err := client.DoGet(ctx, info.Endpoint[0].Ticket)
	if err != nil {
		return err
	}
	defer reader.Release()
	for reader.Next() {
	}
	return reader.Err()
}

func open(ctx context.Context, address, kind, text string) (func() error, error) {
	client, err := flightsql.NewClient(address, nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	if kind == "command" {
		descriptor := &flight.FlightDescriptor{Type: flight.DescriptorCMD, Cmd: []byte(text)}
		return func() error {
			info, err := client.Client.GetFlightInfo(ctx, descriptor)
			return fetch(ctx, client, info, err)
		}, nil
	}
	prepared, err := client.Prepare(ctx, text)
	if err != nil {
		return nil, err
	}
	return func() error {
		info, err := prepared.Execute(ctx)
		return fetch(ctx, client, info, err)
	}, nil
}

func main() {
	address, kind, text := os.Args[1], os.Args[4], os.Args[5]
	connections, _ := strconv.Atoi(os.Args[2])
	seconds, _ := strconv.ParseFloat(os.Args[3], 64)
	ctx := context.Background()
	runs := make([]func() error, connections)
	for i := range runs {
		run, err := open(ctx, address, kind, text)
		if err == nil {
			err = run()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		runs[i] = run
	}
	var wait sync.WaitGroup
	times := make([][]time.Duration, connections)
	begin := time.Now()
	for i := range runs {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for time.Since(begin).Seconds() < seconds {
				start := time.Now()
				if err := runs[i](); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				times[i] = append(times[i], time.Since(start))
			}
		}()
	}
	wait.Wait()
	took := time.Since(begin).Seconds()
	var all []time.Duration
	for _, of := range times {
		all = append(all, of...)
	}
	sort.Slice(all, func(a, b int) bool { return all[a] < all[b] })
	fmt.Printf("%.0f %.3f %.3f\n", float64(len(all))/took, all[len(all)/2].Seconds()*1e3, all[len(all)*99/100].Seconds()*1e3)
}
