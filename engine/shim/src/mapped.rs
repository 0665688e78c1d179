//! Rows in an Arrow IPC stream that the caller has in memory, as a rule a file of its own that it has mapped: checked once,
//! then read where they lie; each scan decodes what it reads. Streams with dictionaries are refused: where a scan begins,
//! those before it would be missing.
use crate::abi::EngineBytes;
use crate::cancel::check;
use crate::error::{Failure, Fallible};
use crate::features::arrow::array::RecordBatch;
use crate::features::arrow::buffer::Buffer;
use crate::features::arrow::datatypes::SchemaRef;
use crate::features::arrow::error::ArrowError;
use crate::features::arrow::ipc::reader::{FileDecoder, StreamDecoder};
use crate::features::arrow::ipc::{Block, MessageHeader, MetadataVersion, root_as_message};
use crate::features::async_trait::async_trait;
use crate::features::datafusion::catalog::{Session, TableProvider};
use crate::features::datafusion::common::Statistics;
use crate::features::datafusion::common::stats::Precision;
use crate::features::datafusion::common::tree_node::TreeNodeRecursion;
use crate::features::datafusion::error::Result;
use crate::features::datafusion::execution::{SendableRecordBatchStream, TaskContext};
use crate::features::datafusion::logical_expr::{Expr, TableType};
use crate::features::datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use crate::features::datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use crate::features::datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use crate::features::datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs,
};
use crate::features::futures::stream::iter;
use crate::source::{Source, check_rows};
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Partitions begin at messages so far apart: little is remembered of a stream, however short its batches are.
const GROUP_BYTES: usize = 256 << 10;

/// The caller's bytes, given back when nobody reads them any more.
pub struct Owner(EngineBytes);
// The caller says that any thread may read and release them.
unsafe impl Send for Owner {}
unsafe impl Sync for Owner {}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            unsafe { release(self.0.owner) };
        }
    }
}

/// Takes the bytes.
pub unsafe fn taken(bytes: *const EngineBytes) -> Fallible<Arc<Owner>> {
    if bytes.is_null() {
        return Err(Failure::invalid("no bytes"));
    }
    let owner = Owner(unsafe { std::ptr::read(bytes) });
    match owner.0.data.is_null() {
        true => Err(Failure::invalid("no bytes")),
        false => Ok(Arc::new(owner)),
    }
}

impl Owner {
    fn bytes(&self) -> &[u8] {
        unsafe { std::slice::from_raw_parts(self.0.data.cast(), self.0.size) }
    }

    /// A buffer of its own for each message: operators that account for memory look at whole buffers.
    fn buffer(self: &Arc<Self>, place: &Range<usize>) -> Buffer {
        let part = &self.bytes()[place.clone()];
        unsafe { Buffer::from_custom_allocation(NonNull::from_ref(part).cast(), part.len(), Arc::clone(self) as _) }
    }
}

/// A message of the stream.
struct Place {
    block: Block,
    kind: MessageHeader,
    bytes: Range<usize>,
}

fn cut_off() -> Failure {
    Failure::invalid("an Arrow IPC stream that is cut off")
}

/// The message at `at`; None: the stream ends there.
fn message_at(all: &[u8], at: usize) -> Fallible<Option<Place>> {
    let Some(prefix) = all.get(at..at + 8) else {
        return if at == all.len() { Ok(None) } else { Err(cut_off()) };
    };
    let word =
        |place: usize| u32::from_le_bytes([prefix[place], prefix[place + 1], prefix[place + 2], prefix[place + 3]]);
    if word(0) != u32::MAX {
        return Err(Failure::invalid("an Arrow IPC message without its mark"));
    }
    let size = word(4) as usize;
    if size == 0 {
        return Ok(None);
    }
    let header = all.get(at + 8..at + 8 + size).ok_or_else(cut_off)?;
    let message = root_as_message(header).map_err(|error| Failure::invalid(format!("Arrow IPC message: {error}")))?;
    let body = usize::try_from(message.bodyLength()).map_err(|_| cut_off())?;
    let head =
        i32::try_from(8 + size).map_err(|_| Failure::invalid("an Arrow IPC message with a head of gigabytes"))?;
    let end = (at + 8 + size).checked_add(body).filter(|end| *end <= all.len()).ok_or_else(cut_off)?;
    let block = Block::new(at as i64, head, body as i64);
    Ok(Some(Place { block, kind: message.header_type(), bytes: at..end }))
}

fn invalid(error: ArrowError) -> Failure {
    Failure::invalid(format!("Arrow IPC stream: {}", Failure::from(error).message))
}

/// The bytes, and what was found out about them when they were checked.
struct Rows {
    owner: Arc<Owner>,
    /// Where each group of messages begins; then where the last one ends.
    starts: Vec<usize>,
    count: usize,
    /// Inside, columns are named by their places: names from outside may repeat.
    schema: SchemaRef,
}

impl fmt::Debug for Rows {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Rows({})", self.count)
    }
}

impl Rows {
    fn decoder(&self) -> FileDecoder {
        // The first version stands for any: each message says its own.
        FileDecoder::new(Arc::clone(&self.schema), MetadataVersion::V1)
    }

    fn decode(&self, decoder: &FileDecoder, place: &Place) -> Fallible<Option<RecordBatch>> {
        decoder.read_record_batch(&place.block, &self.owner.buffer(&place.bytes)).map_err(invalid)
    }

    /// Reads everything once: whatever decodes now does so later, since the bytes stay as they are.
    fn check(&mut self, mut at: usize) -> Fallible<()> {
        let decoder = self.decoder();
        self.starts.push(at);
        let mut start = at;
        while let Some(place) = message_at(self.owner.bytes(), at)? {
            if at - start >= GROUP_BYTES {
                self.starts.push(at);
                start = at;
            }
            if place.kind == MessageHeader::DictionaryBatch {
                return Err(Failure::unimplemented("dictionaries in bytes of the caller's"));
            }
            let rows = self.decode(&decoder, &place)?.map_or(0, |batch| batch.num_rows());
            self.count = self.count.saturating_add(rows);
            at = place.bytes.end;
            check_rows(self.count, at)?;
            check()?;
        }
        if at > start {
            self.starts.push(at);
        }
        Ok(())
    }

    fn statistics(&self, schema: &SchemaRef) -> Statistics {
        let mut out = Statistics::new_unknown(schema);
        out.num_rows = Precision::Exact(self.count);
        out.total_byte_size = Precision::Inexact(self.owner.0.size);
        out
    }
}

/// Bytes as a table.
pub fn open(owner: Arc<Owner>) -> Fallible<Arc<Source>> {
    let bytes = owner.bytes();
    let place = message_at(bytes, 0)?.filter(|place| place.kind == MessageHeader::Schema);
    let place = place.ok_or_else(|| Failure::invalid("an Arrow IPC stream without a schema"))?;
    let mut decoder = StreamDecoder::new();
    // What follows a schema makes it complete.
    let mut head = Buffer::from([&bytes[place.bytes.clone()], &[0xff; 4]].concat());
    decoder.decode(&mut head).map_err(invalid)?;
    let schema = decoder.schema().ok_or_else(cut_off)?;
    let inner = Arc::new(crate::table::placed(&schema));
    let mut rows = Rows { owner: Arc::clone(&owner), starts: vec![], count: 0, schema: inner };
    rows.check(place.bytes.end)?;
    Ok(Arc::new(Source { provider: Arc::new(Mapped { rows: Arc::new(rows) }), schema }))
}

#[derive(Debug)]
pub struct Mapped {
    rows: Arc<Rows>,
}

impl Mapped {
    /// All batches, one after the other.
    pub fn batches(&self) -> impl Iterator<Item = Result<RecordBatch>> {
        let (first, last) = (self.rows.starts.first(), self.rows.starts.last());
        let (at, end) = (first.copied().unwrap_or_default(), last.copied().unwrap_or_default());
        Reading { rows: Arc::clone(&self.rows), decoder: self.rows.decoder(), at, end }
    }
}

#[async_trait]
impl TableProvider for Mapped {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.rows.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.rows.statistics(&self.rows.schema))
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = Arc::clone(&self.rows);
        let schema = match projection {
            Some(places) => Arc::new(rows.schema.project(places)?),
            None => Arc::clone(&rows.schema),
        };
        // Runs of groups, so that the order of partitions is the order of rows.
        let groups = rows.starts.len() - 1;
        let count = state.config().target_partitions().min(groups).max(1);
        let bound = |index: usize| rows.starts[groups * index / count];
        let parts: Vec<Range<usize>> = (0..count).map(|index| bound(index)..bound(index + 1)).collect();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(count),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let places = projection.cloned();
        Ok(Arc::new(MappedExec { rows, places, schema, parts, properties: Arc::new(properties) }))
    }
}

/// The batches of one partition.
struct Reading {
    rows: Arc<Rows>,
    decoder: FileDecoder,
    at: usize,
    end: usize,
}

impl Reading {
    fn step(&mut self) -> Fallible<Option<RecordBatch>> {
        while self.at < self.end {
            let Some(place) = message_at(self.rows.owner.bytes(), self.at)? else { break };
            self.at = place.bytes.end;
            if let Some(batch) = self.rows.decode(&self.decoder, &place)? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

impl Iterator for Reading {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().map_err(Into::into).transpose()
    }
}

#[derive(Debug)]
struct MappedExec {
    rows: Arc<Rows>,
    places: Option<Vec<usize>>,
    schema: SchemaRef,
    parts: Vec<Range<usize>>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for MappedExec {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "MappedExec: rows={}, partitions={}", self.rows.count, self.parts.len())
    }
}

impl ExecutionPlan for MappedExec {
    fn name(&self) -> &str {
        "MappedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => Err(Failure::internal("a table has no inputs").into()),
        }
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let whole = self.rows.statistics(&self.schema);
        Ok(Arc::new(match args.partition() {
            None => whole,
            Some(_) => Statistics::new_unknown(&self.schema),
        }))
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let part = self.parts.get(partition).ok_or_else(|| Failure::internal("a partition that is not there"))?;
        let mut decoder = self.rows.decoder();
        if let Some(places) = &self.places {
            decoder = decoder.with_projection(places.clone());
        }
        // All of them were decoded with every check when the table was opened, and nobody changes the bytes.
        let decoder = unsafe { decoder.with_skip_validation(true) };
        let batches = Reading { rows: Arc::clone(&self.rows), decoder, at: part.start, end: part.end };
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), iter(batches))))
    }
}
