//! Plans in other encodings, both ways: DataFusion's protobuf (logical and physical) and Substrait.
use crate::abi::TableResolver;
use crate::as_is::AsIs;
use crate::codec_cluster;
use crate::error::{Failure, Fallible};
use crate::features::arrow::array::RecordBatch;
use crate::features::arrow::datatypes::{DataType, Schema, SchemaRef};
use crate::features::arrow::ipc::reader::StreamReader;
use crate::features::arrow::ipc::writer::StreamWriter;
use crate::features::async_trait::async_trait;
use crate::features::datafusion::catalog::{MemTable, TableProvider};
use crate::features::datafusion::common::tree_node::TreeNodeRecursion;
use crate::features::datafusion::common::{Column, DFSchema, TableReference};
use crate::features::datafusion::datasource::file_format::FileFormatFactory;
use crate::features::datafusion::error::{DataFusionError, Result};
use crate::features::datafusion::execution::session_state::SessionState;
use crate::features::datafusion::execution::{FunctionRegistry, TaskContext};
use crate::features::datafusion::logical_expr::expr::Alias;
use crate::features::datafusion::logical_expr::{Expr, Extension, LogicalPlan, Projection, cast, lit};
use crate::features::datafusion_proto::bytes::{
    logical_plan_from_bytes_with_extension_codec, logical_plan_to_bytes_with_extension_codec, physical_plan_from_bytes,
    physical_plan_to_bytes,
};
use crate::features::datafusion_proto::logical_plan::{DefaultLogicalExtensionCodec, LogicalExtensionCodec};
use crate::features::datafusion_substrait::extensions::Extensions;
use crate::features::datafusion_substrait::logical_plan::consumer::{
    SubstraitConsumer, from_scalar_function, from_substrait_plan_with_consumer,
};
use crate::features::datafusion_substrait::logical_plan::producer::to_substrait_plan;
use crate::features::datafusion_substrait::substrait::proto::Plan as SubstraitPlan;
use crate::features::datafusion_substrait::substrait::proto::expression::ScalarFunction;
use crate::features::datafusion_substrait::substrait::proto::function_argument::ArgType;
use crate::features::futures::executor::block_on;
use crate::features::prost::Message;
use crate::fused::unpacked_plan;
use crate::lower_rel::as_type;
use crate::mapped::Mapped;
use crate::named::Named;
use crate::range::Range;
use crate::runtime::Session;
use crate::sample::Sample;
use crate::sql::{Tables, analyzed};
use std::ffi::c_void;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

const LOGICAL: &str = "datafusion.logical.v1";
const PHYSICAL: &str = "datafusion.physical.v1";
const SUBSTRAIT: &str = "substrait.plan.v1";

/// Rows in memory that travel with a plan.
const ROWS_BYTES_MAX: usize = 64 << 20;
/// What our own tables and operators begin with, where a format has room for anything.
const ROWS: &[u8] = b"TRNROWS1";
const RANGE: &[u8] = b"TRNRANG1";
const SAMPLE: &[u8] = b"TRNSAMP1";

// ---- nesting ----

/// Messages inside each other, as protobuf's decoder allows them.
const DEPTH_MAX: u32 = 100;
/// Bytes that are looked at while nesting is measured, each as often as it is inside something.
const STEPS_MAX: usize = 1 << 26;

fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let (mut value, mut shift) = (0u64, 0);
    loop {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        match byte & 0x80 {
            0 => return Some(value),
            _ => shift += 7,
        }
        if shift > 63 {
            return None;
        }
    }
}

/// Whether a message could nest deeper than the decoder allows: without its schema, any bytes that read as a message count
/// as one. A decoder that then fails failed for that.
fn could_be_deep(bytes: &[u8]) -> bool {
    let mut stack = vec![(0usize, bytes.len())];
    let mut steps = 0;
    while let Some((mut at, end)) = stack.pop() {
        while at < end {
            steps += 1;
            if steps > STEPS_MAX {
                return true;
            }
            let Some(tag) = varint(&bytes[..end], &mut at) else { break };
            match tag & 7 {
                0 => {
                    if varint(&bytes[..end], &mut at).is_none() {
                        break;
                    }
                }
                1 => at += 8,
                5 => at += 4,
                2 => {
                    let Some(size) = varint(&bytes[..end], &mut at).and_then(|size| usize::try_from(size).ok()) else {
                        break;
                    };
                    let Some(inner) = at.checked_add(size).filter(|inner| *inner <= end) else { break };
                    stack.push((inner, end));
                    if stack.len() > DEPTH_MAX as usize {
                        return true;
                    }
                    stack.push((at, inner));
                    break;
                }
                _ => break,
            }
        }
    }
    false
}

fn malformed(format: &str, bytes: &[u8], error: impl std::fmt::Display) -> Failure {
    match could_be_deep(bytes) {
        true => Failure::exhausted(format!("a plan of format {format} that nests deeper than {DEPTH_MAX} messages")),
        false => Failure::invalid(format!("not a plan of format {format}: {error}")),
    }
    .condition("PLAN_MALFORMED")
    .param("format", format.as_bytes())
}

// ---- DataFusion's protobuf ----

/// Tables by name; our own tables and operators.
#[derive(Debug)]
struct Codec {
    tables: Arc<Tables>,
}

fn number(bytes: &[u8], place: usize) -> Result<[u8; 8]> {
    let part = bytes.get(place * 8..place * 8 + 8).and_then(|part| part.try_into().ok());
    part.ok_or_else(|| Failure::invalid("a table or operator that is cut off").into())
}

fn rows_from(bytes: &[u8]) -> Result<Arc<dyn TableProvider>> {
    let reader = StreamReader::try_new(bytes, None)?;
    let schema = reader.schema();
    let batches = reader.collect::<std::result::Result<Vec<RecordBatch>, _>>()?;
    Ok(Arc::new(MemTable::try_new(schema, vec![batches])?))
}

fn rows_to(schema: &Schema, batches: impl Iterator<Item = Result<RecordBatch>>, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    let mut writer = StreamWriter::try_new(&mut *out, schema)?;
    for batch in batches {
        writer.write(&batch?)?;
        if writer.get_ref().len() - start > ROWS_BYTES_MAX {
            let what = format!("rows in memory, more than {ROWS_BYTES_MAX} bytes of them");
            return Err(Failure::exhausted(what).into());
        }
    }
    Ok(writer.finish()?)
}

fn batches_of(table: &MemTable) -> impl Iterator<Item = Result<RecordBatch>> {
    table.batches.iter().flat_map(|partition| block_on(partition.read()).clone()).map(Ok)
}

impl LogicalExtensionCodec for Codec {
    fn try_decode(&self, bytes: &[u8], inputs: &[LogicalPlan], _: &TaskContext) -> Result<Extension> {
        let (Some(rest), [input]) = (bytes.strip_prefix(SAMPLE), inputs) else {
            return Err(Failure::unimplemented("an operator that is not known here").into());
        };
        let (lower, upper) = (f64::from_le_bytes(number(rest, 0)?), f64::from_le_bytes(number(rest, 1)?));
        let (seed, again) = (i64::from_le_bytes(number(rest, 2)?), i64::from_le_bytes(number(rest, 3)?) != 0);
        let node = Arc::new(Sample::new(input.clone(), lower, upper, again, seed)?);
        Ok(Extension { node })
    }

    fn try_encode(&self, node: &Extension, out: &mut Vec<u8>) -> Result<()> {
        let Some(sample) = node.node.as_any().downcast_ref::<Sample>() else {
            return Err(Failure::unimplemented(format!("{} in {LOGICAL}", node.node.name())).into());
        };
        let (lower, upper, again, seed) = sample.rule();
        out.extend_from_slice(SAMPLE);
        for part in [lower.to_le_bytes(), upper.to_le_bytes(), seed.to_le_bytes(), i64::from(again).to_le_bytes()] {
            out.extend_from_slice(&part);
        }
        Ok(())
    }

    fn try_decode_table_provider(
        &self,
        bytes: &[u8],
        name: &TableReference,
        _: SchemaRef,
        _: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        if let Some(rest) = bytes.strip_prefix(ROWS) {
            return rows_from(rest);
        }
        let Some(rest) = bytes.strip_prefix(RANGE) else { return Ok(self.tables.get(name)?) };
        let part = |place| number(rest, place).map(i64::from_le_bytes);
        let partitions = u32::try_from(part(3)?).map_err(|_| Failure::invalid("a range's partitions"))?;
        Ok(Arc::new(Range::new(part(0)?, part(1)?, part(2)?, partitions, "id")?))
    }

    fn try_encode_table_provider(
        &self,
        name: &TableReference,
        provider: Arc<dyn TableProvider>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if let Some(range) = provider.downcast_ref::<Range>() {
            out.extend_from_slice(RANGE);
            for part in [range.start, range.end, range.step, i64::from(range.partitions)] {
                out.extend_from_slice(&part.to_le_bytes());
            }
            return Ok(());
        }
        if let Some(table) = provider.downcast_ref::<MemTable>() {
            out.extend_from_slice(ROWS);
            return rows_to(&table.schema(), batches_of(table), out);
        }
        if let Some(table) = provider.downcast_ref::<Mapped>() {
            out.extend_from_slice(ROWS);
            return rows_to(&table.schema(), table.batches(), out);
        }
        match provider.is::<Named>() {
            true => Ok(()),
            false => Err(Failure::unimplemented(format!("the table {name} in {LOGICAL}")).into()),
        }
    }

    /// COPY's formats, as DataFusion writes them.
    fn try_decode_file_format(&self, bytes: &[u8], context: &TaskContext) -> Result<Arc<dyn FileFormatFactory>> {
        DefaultLogicalExtensionCodec {}.try_decode_file_format(bytes, context)
    }

    fn try_encode_file_format(&self, out: &mut Vec<u8>, format: Arc<dyn FileFormatFactory>) -> Result<()> {
        DefaultLogicalExtensionCodec {}.try_encode_file_format(out, format)
    }
}

// ---- Substrait ----

struct Consumer<'a> {
    tables: &'a Tables,
    state: &'a SessionState,
    extensions: &'a Extensions,
    /// Of the queries around a subquery, outermost first.
    outer: RwLock<Vec<Arc<DFSchema>>>,
}

impl Consumer<'_> {
    fn outer(&self) -> RwLockWriteGuard<'_, Vec<Arc<DFSchema>>> {
        self.outer.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// `extract(COMPONENT, [indexing,] x)`: a component is no value, which DataFusion's reader does not know.
    async fn extract(&self, function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
        let name = self.extensions.functions.get(&function.function_reference).map(String::as_str).unwrap_or_default();
        if name.split(':').next() != Some("extract") {
            return Ok(None);
        }
        let arguments = &function.arguments;
        let (Some(ArgType::Enum(part)), Some(ArgType::Value(value))) =
            (arguments.first().and_then(|a| a.arg_type.as_ref()), arguments.last().and_then(|a| a.arg_type.as_ref()))
        else {
            return Ok(None);
        };
        let value = self.consume_expression(value, schema).await?;
        let call = self.state.udf("date_part")?.call(vec![lit(part.to_lowercase()), value]);
        Ok(Some(cast(call, DataType::Int64)))
    }
}

#[async_trait]
impl SubstraitConsumer for Consumer<'_> {
    async fn resolve_table_ref(&self, name: &TableReference) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(Some(self.tables.get(name)?))
    }

    fn get_extensions(&self) -> &Extensions {
        self.extensions
    }

    fn get_function_registry(&self) -> &impl FunctionRegistry {
        self.state
    }

    fn push_outer_schema(&self, schema: Arc<DFSchema>) {
        self.outer().push(schema);
    }

    fn pop_outer_schema(&self) {
        self.outer().pop();
    }

    fn get_outer_schema(&self, steps_out: usize) -> Option<Arc<DFSchema>> {
        let outer = self.outer();
        outer.len().checked_sub(steps_out).and_then(|place| outer.get(place).cloned())
    }

    async fn consume_scalar_function(&self, function: &ScalarFunction, schema: &DFSchema) -> Result<Expr> {
        match self.extract(function, schema).await? {
            Some(extracted) => Ok(extracted),
            None => from_scalar_function(self, function, schema).await,
        }
    }
}

fn from_substrait(state: &SessionState, tables: &Tables, bytes: &[u8]) -> Fallible<LogicalPlan> {
    let plan = SubstraitPlan::decode(bytes).map_err(|error| malformed(SUBSTRAIT, bytes, error))?;
    let extensions = Extensions::try_from(&plan.extensions)?;
    if !extensions.type_variations.is_empty() {
        return Err(Failure::unimplemented(format!("variations of types in {SUBSTRAIT}")));
    }
    let consumer = Consumer { tables, state, extensions: &extensions, outer: RwLock::default() };
    Ok(block_on(from_substrait_plan_with_consumer(&consumer, &plan))?)
}

// ---- both ways ----

pub unsafe fn decode(
    session: &Session,
    format: &str,
    bytes: &[u8],
    resolve: Option<TableResolver>,
    user: *mut c_void,
) -> Fallible<LogicalPlan> {
    let tables = Tables::new(resolve, user);
    let context = session.state.task_ctx();
    let plan = match format {
        LOGICAL => {
            // The decoder's own error first: what it says of bytes that are no message names nothing of use.
            let codec = Codec { tables };
            let decoded = logical_plan_from_bytes_with_extension_codec(bytes, &context, &codec);
            decoded.map_err(|error| undecoded(LOGICAL, bytes, error))?
        }
        SUBSTRAIT => from_substrait(&session.state, &tables, bytes)?,
        PHYSICAL => {
            let plan = physical_plan_from_bytes(bytes, &context).map_err(|error| undecoded(PHYSICAL, bytes, error))?;
            return Ok(AsIs::relation(plan)?);
        }
        other => return Err(Failure::unimplemented(format!("plans of format {other}"))),
    };
    // Anywhere: below other nodes they would be done as well.
    let mut change = None;
    plan.apply_with_subqueries(|node| match node {
        LogicalPlan::Ddl(_) | LogicalPlan::Dml(_) | LogicalPlan::Copy(_) | LogicalPlan::Statement(_) => {
            change = Some(node.display().to_string());
            Ok(TreeNodeRecursion::Stop)
        }
        _ => Ok(TreeNodeRecursion::Continue),
    })?;
    match change {
        Some(change) => Err(Failure::unimplemented(format!("{change} in {format}"))),
        None => analyzed(&session.state, plan),
    }
}

/// What the decoder says of bytes that are no message is not worth more than that they are none.
fn undecoded(format: &str, bytes: &[u8], error: DataFusionError) -> Failure {
    let failure = Failure::from(error);
    let is_own = failure.condition.is_some() || failure.status == crate::abi::status::UNIMPLEMENTED;
    match (is_own, could_be_deep(bytes)) {
        (true, _) => failure,
        (false, true) => malformed(format, bytes, ""),
        (false, false) => failure.condition("PLAN_MALFORMED").param("format", format.as_bytes()),
    }
}

/// `plan` with the names and types of `schema`, as far as names are unique.
fn displayed(plan: &LogicalPlan, schema: &Schema) -> Fallible<LogicalPlan> {
    let own = plan.schema();
    if own.fields().len() != schema.fields().len() {
        return Err(Failure::invalid("a plan with other columns than its schema"));
    }
    let mut names = std::collections::HashSet::new();
    let mut exprs = vec![];
    for ((qualifier, is), wanted) in own.iter().zip(schema.fields()) {
        let mut name = wanted.name().clone();
        while !names.insert(name.clone()) {
            name.push('_');
        }
        let column = Expr::Column(Column::new(qualifier.cloned(), is.name()));
        exprs.push(Expr::Alias(Alias::new(as_type(column, is.data_type(), wanted.data_type()), None::<&str>, name)));
    }
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan.clone()))?))
}

pub fn encode(session: &Session, plan: &LogicalPlan, format: &str, schema: Option<&Schema>) -> Fallible<Vec<u8>> {
    let plan = match schema {
        Some(schema) => displayed(plan, schema)?,
        None => plan.clone(),
    };
    let plan = match format {
        LOGICAL | SUBSTRAIT | PHYSICAL => unpacked_plan(plan)?,
        _ => plan,
    };
    match format {
        LOGICAL => {
            let codec = Codec { tables: Tables::new(None, std::ptr::null_mut()) };
            Ok(logical_plan_to_bytes_with_extension_codec(&plan, &codec)?.to_vec())
        }
        SUBSTRAIT => Ok(to_substrait_plan(&plan, &session.state)?.encode_to_vec()),
        PHYSICAL => {
            let physical = session.runtime.handle()?.block_on(session.state.create_physical_plan(&plan))?;
            Ok(physical_plan_to_bytes(physical)?.to_vec())
        }
        codec_cluster::FORMAT => codec_cluster::encode(session, &plan, false),
        codec_cluster::EXPLAIN_FORMAT => codec_cluster::encode(session, &plan, true),
        other => Err(Failure::unimplemented(format!("plans as {other}"))),
    }
}
