// What Arrow's integration scenarios ask of a Flight server, of one that answers real queries: the published client asks its own
// servers by made-up commands. A scenario's name is that of the published list; what it prints is what the specification says.
package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const rowsOfScenarios = "SELECT value FROM generate_series(1, 100000) AS t(value) ORDER BY value"

// A client of its own for each: options are a session's.
func connect(address string, middleware ...flight.ClientMiddleware) (*flightsql.Client, error) {
	return flightsql.NewClient(address, nil, middleware, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

func setOptions(ctx context.Context, client *flightsql.Client, values map[string]any) (map[string]string, error) {
	options, err := flight.NewSessionOptionValues(values)
	if err != nil {
		return nil, err
	}
	result, err := client.SetSessionOptions(ctx, &flight.SetSessionOptionsRequest{SessionOptions: options})
	if err != nil {
		return nil, err
	}
	errors := map[string]string{}
	for name, what := range result.GetErrors() {
		errors[name] = what.GetValue().String()
	}
	return errors, nil
}

// The values of all endpoints in their order; false: one is smaller than the one before.
func inOrder(ctx context.Context, client *flightsql.Client, info *flight.FlightInfo) (int, bool, error) {
	count, last, sorted := 0, int64(0), true
	for _, endpoint := range info.Endpoint {
		reader, err := client.DoGet(ctx, endpoint.Ticket)
		if err != nil {
			return 0, false, err
		}
		for reader.Next() {
			column := reader.RecordBatch().Column(0).(*array.Int64)
			for i := 0; i < column.Len(); i++ {
				sorted = sorted && column.Value(i) > last
				last = column.Value(i)
				count++
			}
		}
		err = reader.Err()
		reader.Release()
		if err != nil {
			return 0, false, err
		}
	}
	return count, sorted, nil
}

func ordered(ctx context.Context, client *flightsql.Client) (any, error) {
	if _, err := setOptions(ctx, client, map[string]any{"endpoints": int64(4)}); err != nil {
		return nil, err
	}
	info, err := client.Execute(ctx, strings.Replace(rowsOfScenarios, "100000", "2000000", 1)) // several batches
	if err != nil {
		return nil, err
	}
	count, sorted, err := inOrder(ctx, client, info)
	return fmt.Sprint(info.Ordered, len(info.Endpoint), count, sorted), err
}

func expiringGet(ctx context.Context, client *flightsql.Client) (any, error) {
	if _, err := setOptions(ctx, client, map[string]any{"endpoints": int64(2)}); err != nil {
		return nil, err
	}
	info, err := client.Execute(ctx, rowsOfScenarios)
	if err != nil {
		return nil, err
	}
	later := true
	for _, endpoint := range info.Endpoint {
		later = later && endpoint.GetExpirationTime().AsTime().After(time.Now())
	}
	first, _, err := inOrder(ctx, client, info)
	if err != nil {
		return nil, err
	}
	second, _, err := inOrder(ctx, client, info) // again, before it expires
	return fmt.Sprint(later, first == second), err
}

func listedActions(ctx context.Context, client *flightsql.Client) (any, error) {
	stream, err := client.Client.ListActions(ctx, &flight.Empty{})
	if err != nil {
		return nil, err
	}
	var found []string
	for {
		action, err := stream.Recv()
		if err != nil {
			break
		}
		switch action.Type {
		case flight.CancelFlightInfoActionType, flight.RenewFlightEndpointActionType, flight.SetSessionOptionsActionType,
			flight.GetSessionOptionsActionType, flight.CloseSessionActionType:
			found = append(found, action.Type)
		}
	}
	sort.Strings(found)
	return strings.Join(found, ","), nil
}

func cancelled(ctx context.Context, client *flightsql.Client) (any, error) {
	info, err := client.Execute(ctx, rowsOfScenarios)
	if err != nil {
		return nil, err
	}
	result, err := client.CancelFlightInfo(ctx, &flight.CancelFlightInfoRequest{Info: info})
	if err != nil {
		return nil, err
	}
	_, gone := client.DoGet(ctx, info.Endpoint[0].Ticket)
	return fmt.Sprint(result.GetStatus(), gone != nil), nil
}

func renewed(ctx context.Context, client *flightsql.Client) (any, error) {
	info, err := client.Execute(ctx, rowsOfScenarios)
	if err != nil {
		return nil, err
	}
	time.Sleep(20 * time.Millisecond)
	endpoint, err := client.RenewFlightEndpoint(ctx, &flight.RenewFlightEndpointRequest{Endpoint: info.Endpoint[0]})
	if err != nil {
		return nil, err
	}
	before, after := info.Endpoint[0].GetExpirationTime().AsTime(), endpoint.GetExpirationTime().AsTime()
	return fmt.Sprint(after.After(before), string(endpoint.Ticket.Ticket) == string(info.Endpoint[0].Ticket.Ticket)), nil
}

func reused(ctx context.Context, client *flightsql.Client) (any, error) {
	if _, err := setOptions(ctx, client, map[string]any{"locations": "reuse"}); err != nil {
		return nil, err
	}
	info, err := client.Execute(ctx, rowsOfScenarios)
	if err != nil {
		return nil, err
	}
	if n := len(info.Endpoint[0].Location); n != 1 {
		return nil, fmt.Errorf("%d locations", n)
	}
	count, _, err := inOrder(ctx, client, info)
	return fmt.Sprint(info.Endpoint[0].Location[0].Uri == flight.LocationReuseConnection, count), err
}

func polled(ctx context.Context, client *flightsql.Client) (any, error) {
	poll, err := client.ExecutePoll(ctx, rowsOfScenarios, nil)
	expires := true
	for i := 0; err == nil && poll.GetFlightDescriptor() != nil && i < 200; i++ {
		expires = expires && poll.GetExpirationTime().AsTime().After(time.Now())
		poll, err = client.ExecutePoll(ctx, rowsOfScenarios, poll.GetFlightDescriptor())
	}
	if err != nil {
		return nil, err
	}
	progress := poll.Progress == nil || poll.GetProgress() == 1
	count, sorted, err := inOrder(ctx, client, poll.GetInfo())
	return fmt.Sprint(expires, progress, count, sorted), err
}

func sessionOptions(ctx context.Context, client *flightsql.Client) (any, error) {
	errors, err := setOptions(ctx, client, map[string]any{"datafusion.execution.batch_size": int64(1000), "endpoints": int64(3),
		"spark.sql.shuffle.partitions": "7", "lol_invalid": "this won't get set", "dialect": "lol_invalid"})
	if err != nil {
		return nil, err
	}
	read := func(name string) string {
		result, err := client.GetSessionOptions(ctx, &flight.GetSessionOptionsRequest{})
		if err != nil {
			return err.Error()
		}
		value, found := result.GetSessionOptions()[name]
		if !found {
			return "-"
		}
		return value.GetStringValue()
	}
	said := []string{errors["lol_invalid"], errors["dialect"], fmt.Sprint(len(errors)), read("spark.sql.shuffle.partitions"), read("endpoints"), read("lol_invalid")}
	if _, err := setOptions(ctx, client, map[string]any{"spark.sql.shuffle.partitions": nil}); err != nil {
		return nil, err
	}
	said = append(said, read("spark.sql.shuffle.partitions"))
	closed, err := client.CloseSession(ctx, &flight.CloseSessionRequest{})
	if err != nil {
		return nil, err
	}
	return strings.Join(append(said, closed.GetStatus().String(), read("endpoints")), " "), nil
}

func ingested(ctx context.Context, client *flightsql.Client, table string) (any, error) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "test_field", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	column := array.MakeArrayOfNull(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64, 10)
	batch := array.NewRecordBatch(schema, []arrow.Array{column}, 10)
	txn, err := client.BeginTransaction(ctx)
	if err != nil {
		return nil, err
	}
	catalog, database := "spark_catalog", "default"
	n, err := client.ExecuteIngest(ctx, reader(batch), &flightsql.ExecuteIngestOpts{
		TableDefinitionOptions: &flightsql.TableDefinitionOptions{
			IfNotExist: flightsql.TableDefinitionOptionsTableNotExistOptionCreate,
			IfExists:   flightsql.TableDefinitionOptionsTableExistsOptionReplace},
		Table: table + "_s", Catalog: &catalog, Schema: &database, TransactionId: txn.ID()})
	if err != nil {
		return nil, err
	}
	if err := txn.Rollback(ctx); err != nil {
		return nil, err
	}
	_, gone := client.Execute(ctx, "SELECT * FROM "+table+"_s")
	temporary, err := client.ExecuteIngest(ctx, reader(batch), &flightsql.ExecuteIngestOpts{
		TableDefinitionOptions: &flightsql.TableDefinitionOptions{
			IfNotExist: flightsql.TableDefinitionOptionsTableNotExistOptionCreate,
			IfExists:   flightsql.TableDefinitionOptionsTableExistsOptionReplace},
		Table: table + "_s", Temporary: true})
	return fmt.Sprint(n, gone != nil, temporary), err
}

func scenarios(ctx context.Context, address, table string) {
	list := []struct {
		name string
		run  func(ctx context.Context, client *flightsql.Client) (any, error)
	}{
		{"ordered", ordered},
		{"expiration_time:do_get", expiringGet},
		{"expiration_time:list_actions", listedActions},
		{"expiration_time:cancel_flight_info", cancelled},
		{"expiration_time:renew_flight_endpoint", renewed},
		{"location:reuse_connection", reused},
		{"poll_flight_info", polled},
		{"session_options", sessionOptions},
		{"flight_sql:ingestion", func(ctx context.Context, client *flightsql.Client) (any, error) { return ingested(ctx, client, table) }},
	}
	for _, one := range list {
		client, err := connect(address, flight.NewClientCookieMiddleware())
		if err != nil {
			say(one.name, nil, err)
			continue
		}
		value, err := one.run(ctx, client)
		say(one.name, value, err)
		client.Close()
	}
}
