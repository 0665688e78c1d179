// arrow-go's Flight SQL client, unmodified, method by method. Prints a line for each: OK or ERR, a name, what came.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql/schema_ref"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

type probe struct {
	ctx    context.Context
	client *flightsql.Client
}

func say(name string, value any, err error) {
	if err != nil {
		fmt.Printf("ERR %s %s\n", name, strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	fmt.Printf("OK %s %v\n", name, value)
}

// The rows of all endpoints, in order: values of a row with commas, rows with semicolons; checks the announced schema.
func (p *probe) rows(info *flight.FlightInfo, err error) (string, error) {
	if err != nil {
		return "", err
	}
	announced, err := flight.DeserializeSchema(info.Schema, memory.DefaultAllocator)
	if err != nil {
		return "", err
	}
	var out []string
	for _, endpoint := range info.Endpoint {
		reader, err := p.client.DoGet(p.ctx, endpoint.Ticket)
		if err != nil {
			return "", err
		}
		if !reader.Schema().Equal(announced) {
			return "", fmt.Errorf("announced %s, came %s", announced, reader.Schema())
		}
		for reader.Next() {
			batch := reader.RecordBatch()
			for i := 0; i < int(batch.NumRows()) && len(out) < 100000; i++ {
				var row []string
				for _, column := range batch.Columns() {
					row = append(row, column.ValueStr(i))
				}
				out = append(out, strings.Join(row, ","))
			}
		}
		err = reader.Err()
		reader.Release()
		if err != nil {
			return "", err
		}
	}
	return strings.Join(out, ";"), nil
}

func (p *probe) query(name, text string) {
	info, err := p.client.Execute(p.ctx, text)
	rows, err := p.rows(info, err)
	say(name, rows, err)
}

func (p *probe) statements(table string) {
	n, err := p.client.ExecuteUpdate(p.ctx, "CREATE TABLE "+table+" (a BIGINT, b VARCHAR, PRIMARY KEY (a))")
	say("create", n, err)
	n, err = p.client.ExecuteUpdate(p.ctx, "INSERT INTO "+table+" VALUES (1, 'x'), (2, 'y')")
	say("insert", n, err)
	p.query("query", "SELECT a, b FROM "+table+" ORDER BY a")
	schema, err := p.client.GetExecuteSchema(p.ctx, "SELECT a FROM "+table)
	if err == nil {
		decoded, bad := flight.DeserializeSchema(schema.GetSchema(), memory.DefaultAllocator)
		say("execute_schema", decoded.Field(0), bad)
	} else {
		say("execute_schema", nil, err)
	}
	prepared, err := p.client.Prepare(p.ctx, "SELECT b FROM "+table+" WHERE a = ?")
	say("prepare", "", err)
	if err != nil {
		return
	}
	say("parameters", prepared.ParameterSchema().Field(0).Type, nil)
	say("dataset", prepared.DatasetSchema().Field(0).Name, nil)
	batch := numbers(prepared.ParameterSchema().Field(0).Name, 2)
	prepared.SetParameters(batch)
	info, err := prepared.Execute(p.ctx)
	rows, err := p.rows(info, err)
	say("prepared", rows, err)
	say("close_prepared", "", prepared.Close(p.ctx))
	update, err := p.client.Prepare(p.ctx, "INSERT INTO "+table+" VALUES (?, 'p')")
	if err == nil {
		update.SetParameters(numbers("a", 7, 8, 9))
		n, err = update.ExecuteUpdate(p.ctx)
		update.Close(p.ctx)
	}
	say("prepared_update", n, err)
}

func numbers(name string, values ...int64) arrow.RecordBatch {
	builder := array.NewRecordBuilder(memory.DefaultAllocator,
		arrow.NewSchema([]arrow.Field{{Name: name, Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil))
	defer builder.Release()
	builder.Field(0).(*array.Int64Builder).AppendValues(values, nil)
	return builder.NewRecordBatch()
}

func (p *probe) metadata(table string) {
	catalog, schema := "spark_catalog", "default"
	ref := flightsql.TableRef{Catalog: &catalog, DBSchema: &schema, Table: table}
	info, err := p.client.GetCatalogs(p.ctx)
	rows, err := p.rows(info, err)
	say("catalogs", rows, err)
	info, err = p.client.GetDBSchemas(p.ctx, &flightsql.GetDBSchemasOpts{Catalog: &catalog})
	rows, err = p.rows(info, err)
	say("schemas", rows, err)
	info, err = p.client.GetTables(p.ctx, &flightsql.GetTablesOpts{TableNameFilterPattern: &table, TableTypes: []string{"BASE TABLE"}})
	rows, err = p.rows(info, err)
	say("tables", rows, err)
	info, err = p.client.GetTables(p.ctx, &flightsql.GetTablesOpts{TableNameFilterPattern: &table, IncludeSchema: true})
	rows, err = p.rows(info, err)
	say("tables_with_schema", strings.Count(rows, ","), err)
	info, err = p.client.GetTableTypes(p.ctx)
	rows, err = p.rows(info, err)
	say("table_types", rows, err)
	info, err = p.client.GetPrimaryKeys(p.ctx, ref)
	rows, err = p.rows(info, err)
	say("primary_keys", rows, err)
	info, err = p.client.GetExportedKeys(p.ctx, ref)
	rows, err = p.rows(info, err)
	say("exported_keys", rows, err)
	info, err = p.client.GetImportedKeys(p.ctx, ref)
	rows, err = p.rows(info, err)
	say("imported_keys", rows, err)
	info, err = p.client.GetCrossReference(p.ctx, ref, ref)
	rows, err = p.rows(info, err)
	say("cross_reference", rows, err)
	info, err = p.client.GetXdbcTypeInfo(p.ctx, nil)
	rows, err = p.rows(info, err)
	say("xdbc", strings.Count(rows, ";") > 10, err)
	info, err = p.client.GetSqlInfo(p.ctx, []flightsql.SqlInfo{flightsql.SqlInfoFlightSqlServerName})
	rows, err = p.rows(info, err)
	say("sql_info", rows, err)
	for name, get := range map[string]func() (*flight.SchemaResult, error){
		"catalogs_schema": func() (*flight.SchemaResult, error) { return p.client.GetCatalogsSchema(p.ctx) },
		"schemas_schema":  func() (*flight.SchemaResult, error) { return p.client.GetDBSchemasSchema(p.ctx) },
		"tables_schema": func() (*flight.SchemaResult, error) {
			return p.client.GetTablesSchema(p.ctx, &flightsql.GetTablesOpts{IncludeSchema: true})
		},
		"types_schema":    func() (*flight.SchemaResult, error) { return p.client.GetTableTypesSchema(p.ctx) },
		"primary_schema":  func() (*flight.SchemaResult, error) { return p.client.GetPrimaryKeysSchema(p.ctx) },
		"exported_schema": func() (*flight.SchemaResult, error) { return p.client.GetExportedKeysSchema(p.ctx) },
		"imported_schema": func() (*flight.SchemaResult, error) { return p.client.GetImportedKeysSchema(p.ctx) },
		"cross_schema":    func() (*flight.SchemaResult, error) { return p.client.GetCrossReferenceSchema(p.ctx) },
		"xdbc_schema":     func() (*flight.SchemaResult, error) { return p.client.GetXdbcTypeInfoSchema(p.ctx) },
		"sql_info_schema": func() (*flight.SchemaResult, error) { return p.client.GetSqlInfoSchema(p.ctx) },
	} {
		result, err := get()
		expected := map[string]*arrow.Schema{"catalogs_schema": schema_ref.Catalogs, "schemas_schema": schema_ref.DBSchemas,
			"tables_schema": schema_ref.TablesWithIncludedSchema, "types_schema": schema_ref.TableTypes,
			"primary_schema": schema_ref.PrimaryKeys, "exported_schema": schema_ref.ExportedKeys,
			"imported_schema": schema_ref.ImportedKeys, "cross_schema": schema_ref.CrossReference,
			"xdbc_schema": schema_ref.XdbcTypeInfo, "sql_info_schema": schema_ref.SqlInfo}[name]
		if err != nil {
			say(name, nil, err)
			continue
		}
		decoded, err := flight.DeserializeSchema(result.GetSchema(), memory.DefaultAllocator)
		say(name, err == nil && decoded.Equal(expected), err)
	}
}

func (p *probe) transactions(table string) {
	txn, err := p.client.BeginTransaction(p.ctx)
	say("begin", "", err)
	if err != nil {
		return
	}
	count := func() string {
		info, err := txn.Execute(p.ctx, "SELECT count(*) FROM "+table)
		rows, err := p.rows(info, err)
		if err != nil {
			return err.Error()
		}
		return rows
	}
	before := count()
	_, err = txn.ExecuteUpdate(p.ctx, "INSERT INTO "+table+" VALUES (100, 't')")
	say("insert_in_transaction", before+" "+count(), err)
	first, err := txn.BeginSavepoint(p.ctx, "one")
	say("savepoint", "", err)
	txn.ExecuteUpdate(p.ctx, "INSERT INTO "+table+" VALUES (101, 't')")
	second, err := txn.BeginSavepoint(p.ctx, "two")
	say("second_savepoint", "", err)
	txn.ExecuteUpdate(p.ctx, "DELETE FROM "+table)
	say("delete_in_transaction", count(), nil)
	say("rollback_savepoint", "", txn.RollbackSavepoint(p.ctx, second))
	say("after_rollback", count(), nil)
	say("rollback_first", "", txn.RollbackSavepoint(p.ctx, first))
	say("after_first", count(), nil)
	say("second_is_gone", "", txn.RollbackSavepoint(p.ctx, second))
	say("release", "", txn.ReleaseSavepoint(p.ctx, first))
	say("released_is_gone", "", txn.ReleaseSavepoint(p.ctx, first))
	prepared, err := txn.Prepare(p.ctx, "INSERT INTO "+table+" VALUES (102, 'prepared')")
	if err == nil {
		_, err = prepared.ExecuteUpdate(p.ctx)
		prepared.Close(p.ctx)
	}
	say("prepared_in_transaction", count(), err)
	p.query("outside", "SELECT count(*) FROM "+table)
	say("commit", "", txn.Commit(p.ctx))
	p.query("after_commit", "SELECT count(*) FROM "+table)
	txn, err = p.client.BeginTransaction(p.ctx)
	if err == nil {
		txn.ExecuteUpdate(p.ctx, "DROP TABLE "+table)
		err = txn.Rollback(p.ctx)
	}
	say("rollback", "", err)
	p.query("after_all", "SELECT count(*) FROM "+table)
}

func (p *probe) more(table string) {
	text := "SELECT value FROM generate_series(1, 2000000) AS t(value)"
	poll, err := p.client.ExecutePoll(p.ctx, text, nil)
	polls, only := 1, true
	for err == nil && poll.GetFlightDescriptor() != nil && polls < 200 {
		before := len(poll.GetInfo().GetEndpoint())
		poll, err = p.client.ExecutePoll(p.ctx, text, poll.GetFlightDescriptor())
		only = only && (err != nil || len(poll.GetInfo().GetEndpoint()) >= before)
		polls++
	}
	rows := int64(-1)
	if err == nil {
		rows = poll.GetInfo().GetTotalRecords()
	}
	say("poll", fmt.Sprint(rows, only), err)
	n, err := p.client.ExecuteIngest(p.ctx, reader(numbers("a", 1, 2, 3)), &flightsql.ExecuteIngestOpts{
		TableDefinitionOptions: &flightsql.TableDefinitionOptions{
			IfNotExist: flightsql.TableDefinitionOptionsTableNotExistOptionCreate,
			IfExists:   flightsql.TableDefinitionOptionsTableExistsOptionFail},
		Table: table + "_i"})
	say("ingest", n, err)
	p.query("ingested", "SELECT sum(a) FROM "+table+"_i")
	options, err := flight.NewSessionOptionValues(map[string]any{"dialect": "spark", "nonsense": int64(3)})
	if err == nil {
		result, bad := p.client.SetSessionOptions(p.ctx, &flight.SetSessionOptionsRequest{SessionOptions: options})
		say("set_options", len(result.GetErrors()), bad)
	}
	p.query("spark", "SELECT `a` FROM VALUES (1), (2) AS t(a) ORDER BY a DESC")
	session, err := p.client.GetSessionOptions(p.ctx, &flight.GetSessionOptionsRequest{})
	say("get_options", session.GetSessionOptions()["dialect"].GetStringValue(), err)
	info, err := p.client.Execute(p.ctx, "SELECT 1 AS x")
	if err == nil {
		endpoint, bad := p.client.RenewFlightEndpoint(p.ctx, &flight.RenewFlightEndpointRequest{Endpoint: info.Endpoint[0]})
		say("renew", endpoint.GetExpirationTime() != nil, bad)
		result, bad := p.client.CancelFlightInfo(p.ctx, &flight.CancelFlightInfoRequest{Info: info})
		say("cancel", result.GetStatus(), bad)
		_, bad = p.client.DoGet(p.ctx, info.Endpoint[0].Ticket)
		say("cancelled_is_gone", "", bad)
	}
	closed, err := p.client.CloseSession(p.ctx, &flight.CloseSessionRequest{})
	say("close_session", closed.GetStatus(), err)
}

func reader(batch arrow.RecordBatch) array.RecordReader {
	made, err := array.NewRecordReader(batch.Schema(), []arrow.RecordBatch{batch})
	if err != nil {
		panic(err)
	}
	return made
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	client, err := flightsql.NewClient(os.Args[1], nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		say("connect", nil, err)
		return
	}
	p := &probe{ctx, client}
	table := os.Args[2]
	p.statements(table)
	p.metadata(table)
	p.transactions(table)
	p.more(table)
	scenarios(ctx, os.Args[1], table)
	for _, name := range []string{table, table + "_i"} {
		_, err := client.ExecuteUpdate(ctx, "DROP TABLE "+name)
		say("drop", "", err)
	}
}
