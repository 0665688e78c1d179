//! Table functions of a C function library: rows made from literal arguments.
use crate::abi::TableFunction;
use crate::error::{Failure, Fallible};
use crate::features::arrow::array::{ArrayRef, RecordBatch, RecordBatchReader};
use crate::features::arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use crate::features::arrow::ffi::FFI_ArrowSchema;
use crate::features::arrow::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use crate::features::async_trait::async_trait;
use crate::features::datafusion::catalog::{MemTable, Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use crate::features::datafusion::common::ScalarValue;
use crate::features::datafusion::error::Result;
use crate::features::datafusion::logical_expr::{Expr, TableType};
use crate::features::datafusion::physical_plan::ExecutionPlan;
use crate::functions::{Args, call, function_name};
use std::fmt;
use std::sync::Arc;

/// The C table lives as long as the process.
#[derive(Clone)]
pub struct LibraryTable {
    function: &'static TableFunction,
    pub name: String,
}

impl fmt::Debug for LibraryTable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "LibraryTable({})", self.name)
    }
}

impl LibraryTable {
    pub unsafe fn new(function: *const TableFunction) -> Fallible<Self> {
        let table: &'static TableFunction =
            unsafe { function.as_ref() }.ok_or_else(|| Failure::invalid("a table function is NULL"))?;
        if table.bind.is_none() || table.open.is_none() {
            return Err(Failure::invalid("a table function lacks bind or open"));
        }
        Ok(Self { function: table, name: unsafe { function_name(table.name) }? })
    }

    fn args(&self, values: &[ScalarValue]) -> Fallible<Args> {
        let fields: Vec<FieldRef> = values
            .iter()
            .enumerate()
            .map(|(place, value)| Arc::new(Field::new(format!("a{place}"), value.data_type(), value.is_null())))
            .collect();
        let mut arrays: Vec<Option<(ArrayRef, bool)>> = vec![];
        for value in values {
            arrays.push(Some((value.to_array()?, true)));
        }
        Args::new(&fields, arrays)
    }

    fn schema(&self, values: &[ScalarValue]) -> Fallible<SchemaRef> {
        let args = self.args(values)?;
        let mut out = FFI_ArrowSchema::empty();
        let bind = self.function.bind.ok_or_else(|| Failure::internal("no bind"))?;
        call(&self.name, |error| unsafe { bind(self.function, args.as_ptr(), args.len(), &mut out, error) })?;
        Ok(Arc::new(Schema::try_from(&out)?))
    }

    fn rows(&self, values: &[ScalarValue], schema: &SchemaRef) -> Fallible<Vec<RecordBatch>> {
        let args = self.args(values)?;
        let mut stream = FFI_ArrowArrayStream::empty();
        let open = self.function.open.ok_or_else(|| Failure::internal("no open"))?;
        call(&self.name, |error| unsafe { open(self.function, args.as_ptr(), args.len(), &mut stream, error) })?;
        let reader = ArrowArrayStreamReader::try_new(stream)?;
        let types =
            |schema: &Schema| -> Vec<_> { schema.fields().iter().map(|field| field.data_type().clone()).collect() };
        if types(&reader.schema()) != types(schema) {
            return Err(Failure::internal(format!("{} gave other columns than it said", self.name)));
        }
        let mut out = vec![];
        for batch in reader {
            out.push(RecordBatch::try_new(Arc::clone(schema), batch?.columns().to_vec())?);
        }
        Ok(out)
    }
}

impl TableFunctionImpl for LibraryTable {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let mut values = vec![];
        for arg in args.exprs() {
            let Expr::Literal(value, _) = arg else {
                return Err(
                    Failure::invalid(format!("{}: arguments of a table function are constants", self.name)).into()
                );
            };
            values.push(value.clone());
        }
        let schema = self.schema(&values)?;
        Ok(Arc::new(Called { function: self.clone(), values, schema }))
    }
}

/// A table function with its arguments.
#[derive(Debug)]
struct Called {
    function: LibraryTable,
    values: Vec<ScalarValue>,
    schema: SchemaRef,
}

#[async_trait]
impl TableProvider for Called {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = self.function.rows(&self.values, &self.schema)?;
        let table = MemTable::try_new(Arc::clone(&self.schema), vec![rows])?;
        table.scan(state, projection, filters, limit).await
    }
}
