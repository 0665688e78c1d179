//! Ballista's codec, with tables of the host's.
use super::hooks::Hooks;
use ballista_core::serde::BallistaLogicalExtensionCodec;
use std::sync::Arc;
use trunnion_features::arrow::array::{RecordBatch, RecordBatchReader};
use trunnion_features::arrow::datatypes::{DataType, Schema, SchemaRef};
use trunnion_features::arrow::ffi_stream::ArrowArrayStreamReader;
use trunnion_features::datafusion::catalog::{MemTable, TableProvider};
use trunnion_features::datafusion::common::TableReference;
use trunnion_features::datafusion::datasource::file_format::FileFormatFactory;
use trunnion_features::datafusion::error::{DataFusionError, Result};
use trunnion_features::datafusion::execution::TaskContext;
use trunnion_features::datafusion::logical_expr::{Extension, LogicalPlan};
use trunnion_features::datafusion_proto::logical_plan::LogicalExtensionCodec;

#[derive(Debug)]
pub struct Codec {
    inner: BallistaLogicalExtensionCodec,
    hooks: Arc<Hooks>,
}

impl Codec {
    pub fn new(hooks: Arc<Hooks>) -> Self {
        Self { inner: BallistaLogicalExtensionCodec::default(), hooks }
    }
}

fn types(schema: &Schema) -> Vec<&DataType> {
    schema.fields().iter().map(|field| field.data_type()).collect()
}

/// All rows, under the names of the plan.
fn rows(reader: ArrowArrayStreamReader, name: &TableReference, schema: SchemaRef) -> Result<Arc<dyn TableProvider>> {
    if types(&reader.schema()) != types(&schema) {
        return Err(DataFusionError::Plan(format!("the table {name} has other columns than the plan says")));
    }
    let mut out = vec![];
    for batch in reader {
        out.push(RecordBatch::try_new(Arc::clone(&schema), batch?.columns().to_vec())?);
    }
    Ok(Arc::new(MemTable::try_new(schema, vec![out])?))
}

impl LogicalExtensionCodec for Codec {
    fn try_decode(&self, bytes: &[u8], inputs: &[LogicalPlan], context: &TaskContext) -> Result<Extension> {
        self.inner.try_decode(bytes, inputs, context)
    }

    fn try_encode(&self, node: &Extension, out: &mut Vec<u8>) -> Result<()> {
        self.inner.try_encode(node, out)
    }

    fn try_decode_table_provider(
        &self,
        bytes: &[u8],
        name: &TableReference,
        schema: SchemaRef,
        context: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        let found = self.hooks.table(&name.to_string(), bytes, |stream| {
            let reader = ArrowArrayStreamReader::try_new(stream)?;
            rows(reader, name, Arc::clone(&schema))
        });
        match found {
            Some(table) => table,
            None => self.inner.try_decode_table_provider(bytes, name, schema, context),
        }
    }

    fn try_encode_table_provider(
        &self,
        name: &TableReference,
        table: Arc<dyn TableProvider>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.inner.try_encode_table_provider(name, table, out)
    }

    fn try_decode_file_format(&self, bytes: &[u8], context: &TaskContext) -> Result<Arc<dyn FileFormatFactory>> {
        self.inner.try_decode_file_format(bytes, context)
    }

    fn try_encode_file_format(&self, out: &mut Vec<u8>, format: Arc<dyn FileFormatFactory>) -> Result<()> {
        self.inner.try_encode_file_format(out, format)
    }
}
