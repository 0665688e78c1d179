//! Relations of ours on their way to the schedulers and executors of a cluster: codecs around Ballista's own, and what an
//! executor does to a plan before it runs it.
use crate::codec_cluster::cannot;
use crate::decode::Reader;
use crate::error::Failure;
use crate::features::arrow::datatypes::SchemaRef;
use crate::features::datafusion::catalog::TableProvider;
use crate::features::datafusion::common::TableReference;
use crate::features::datafusion::datasource::file_format::FileFormatFactory;
use crate::features::datafusion::error::{DataFusionError, Result};
use crate::features::datafusion::execution::TaskContext;
use crate::features::datafusion::logical_expr::{Extension, LogicalPlan, UserDefinedLogicalNode};
use crate::features::datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use crate::features::datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use crate::features::datafusion::physical_plan::repartition::RepartitionExec;
use crate::features::datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use crate::features::datafusion::physical_plan::union::UnionExec;
use crate::features::datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use crate::features::datafusion_proto::logical_plan::LogicalExtensionCodec;
use crate::features::datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use crate::write::{Write, WriteExec};
use std::sync::Arc;

/// What the bytes of our relations begin with: no protobuf does.
const MARK: &[u8] = b"\xfftrn1";
const WRITE: u8 = 1;

pub fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
}

fn begin(out: &mut Vec<u8>, kind: u8) {
    out.extend(MARK);
    out.push(kind);
}

/// What a relation of ours says; None: it is somebody else's.
fn ours(bytes: &[u8]) -> Option<Reader<'_>> {
    bytes.strip_prefix(MARK).map(Reader::new)
}

fn one<'a, T>(inputs: &'a [T], reader: &Reader) -> Result<&'a T> {
    match inputs {
        [input] => Ok(input),
        _ => Err(reader.invalid("a relation that has one input").into()),
    }
}

/// False: it is not one that travels.
pub fn put_relation(node: &dyn UserDefinedLogicalNode, out: &mut Vec<u8>) -> bool {
    let Some(write) = node.as_any().downcast_ref::<Write>() else { return false };
    begin(out, WRITE);
    write.put(out);
    true
}

/// A sample does not: executors divide a file's rows among the partitions of a task as they come, and the same seed would
/// give other rows each time.
pub fn travels(node: &dyn UserDefinedLogicalNode) -> bool {
    node.as_any().is::<Write>()
}

fn get_relation(mut reader: Reader, inputs: &[LogicalPlan]) -> Result<Extension> {
    let kind = reader.u8()?;
    let input = one(inputs, &reader)?.clone();
    let node: Arc<dyn UserDefinedLogicalNode> = match kind {
        WRITE => Arc::new(Write::get(&mut reader, input)?),
        other => return Err(reader.invalid(format!("a relation of kind {other}")).into()),
    };
    match reader.is_done() {
        true => Ok(Extension { node }),
        false => Err(reader.invalid("more than a relation").into()),
    }
}

/// A scheduler's: `inner`, and our relations.
#[derive(Debug)]
pub struct LogicalCodec {
    inner: Arc<dyn LogicalExtensionCodec>,
}

impl LogicalCodec {
    pub fn new(inner: Arc<dyn LogicalExtensionCodec>) -> Self {
        Self { inner }
    }
}

impl LogicalExtensionCodec for LogicalCodec {
    fn try_decode(&self, bytes: &[u8], inputs: &[LogicalPlan], context: &TaskContext) -> Result<Extension> {
        match ours(bytes) {
            Some(reader) => get_relation(reader, inputs),
            None => self.inner.try_decode(bytes, inputs, context),
        }
    }

    fn try_encode(&self, node: &Extension, out: &mut Vec<u8>) -> Result<()> {
        match put_relation(node.node.as_ref(), out) {
            true => Ok(()),
            false => self.inner.try_encode(node, out),
        }
    }

    fn try_decode_table_provider(
        &self,
        bytes: &[u8],
        name: &TableReference,
        schema: SchemaRef,
        context: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        self.inner.try_decode_table_provider(bytes, name, schema, context)
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

/// A scheduler's and an executor's: `inner`, and our operators.
#[derive(Debug)]
pub struct PhysicalCodec {
    inner: Arc<dyn PhysicalExtensionCodec>,
}

impl PhysicalCodec {
    pub fn new(inner: Arc<dyn PhysicalExtensionCodec>) -> Self {
        Self { inner }
    }
}

impl PhysicalExtensionCodec for PhysicalCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(mut reader) = ours(bytes) else { return self.inner.try_decode(bytes, inputs, context, converter) };
        let kind = reader.u8()?;
        let input = Arc::clone(one(inputs, &reader)?);
        let out: Arc<dyn ExecutionPlan> = match kind {
            WRITE => Arc::new(WriteExec::get(&mut reader, input, context)?),
            other => return Err(reader.invalid(format!("an operator of kind {other}")).into()),
        };
        match reader.is_done() {
            true => Ok(out),
            false => Err(reader.invalid("more than an operator").into()),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        out: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if let Some(write) = node.downcast_ref::<WriteExec>() {
            begin(out, WRITE);
            write.put(out);
            return Ok(());
        }
        self.inner.try_encode(node, out, converter)
    }
}

// ---- on an executor ----

/// Which partitions of the whole an operator has: a task of a cluster has some of them, and counts them from 0.
#[derive(Debug, Clone)]
pub enum Place {
    /// All, in this process.
    Here,
    Task(Arc<[usize]>),
    /// Before a task has been prepared.
    Unknown,
}

impl Place {
    /// What partition `local` is in the whole.
    pub fn of(&self, local: usize) -> Result<usize> {
        let found = match self {
            Self::Here => Some(local),
            Self::Task(all) => all.get(local).copied(),
            Self::Unknown => None,
        };
        found.ok_or_else(|| DataFusionError::Internal(format!("partition {local} of a task is not placed")))
    }
}

/// Do partitions of `node` come from several of its input's? Then all of those are in this task.
fn gathers(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<RepartitionExec>() || node.is::<CoalescePartitionsExec>() || node.is::<SortPreservingMergeExec>()
}

/// `ids`: what the partitions of `node` are in the whole; None: themselves.
fn placed(node: Arc<dyn ExecutionPlan>, ids: Option<&[usize]>) -> Result<Arc<dyn ExecutionPlan>> {
    let count = node.output_partitioning().partition_count();
    let ids = ids.filter(|ids| ids.len() == count && !gathers(&node));
    let mut done = 0; // partitions of a union, which are those of its inputs one after the other
    let mut children = vec![];
    for child in node.children() {
        let size = child.output_partitioning().partition_count();
        let (start, end) = if node.is::<UnionExec>() { (done, done + size) } else { (0, count) };
        children.push(placed(Arc::clone(child), ids.and_then(|ids| ids.get(start..end)))?);
        done += size;
    }
    if let Some(write) = node.downcast_ref::<WriteExec>() {
        let input = children.pop().ok_or_else(|| Failure::internal("a write without an input"))?;
        let place = Place::Task(ids.map_or_else(|| (0..count).collect(), Arc::from));
        return Ok(Arc::new(write.placed(input, place)?));
    }
    replace_children_if_necessary(node, children)
}

/// The plan of a task as an executor runs it: operators of ours know which partitions of the whole they have (`ids`:
/// those of the task), and joins give way to others and to a cancel.
pub fn prepare(plan: Arc<dyn ExecutionPlan>, ids: &[usize]) -> Result<Arc<dyn ExecutionPlan>> {
    let mut children = vec![];
    for child in plan.children() {
        children.push(crate::physical::yielding(placed(Arc::clone(child), Some(ids))?)?);
    }
    replace_children_if_necessary(plan, children)
}

/// Says no to all that is neither DataFusion's own nor a relation that travels: what the plans of a query are encoded with.
#[derive(Debug)]
pub struct Sender;

impl LogicalExtensionCodec for Sender {
    fn try_decode(&self, _: &[u8], _: &[LogicalPlan], _: &TaskContext) -> Result<Extension> {
        Err(cannot("an operator of somebody's own").into())
    }

    fn try_encode(&self, node: &Extension, out: &mut Vec<u8>) -> Result<()> {
        match put_relation(node.node.as_ref(), out) {
            true => Ok(()),
            false => Err(cannot(node.node.name()).into()),
        }
    }

    fn try_decode_table_provider(
        &self,
        _: &[u8],
        name: &TableReference,
        _: SchemaRef,
        _: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        Err(cannot(format!("the table {name}")).into())
    }

    fn try_encode_table_provider(
        &self,
        name: &TableReference,
        _: Arc<dyn TableProvider>,
        _: &mut Vec<u8>,
    ) -> Result<()> {
        Err(cannot(format!("the table {name}")).into())
    }
}
