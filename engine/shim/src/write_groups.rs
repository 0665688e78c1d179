//! Rows that go to many directories: sorted by the directory, and given to the writer in groups of few directories, so
//! that few files are open at a time however many there are.
use crate::features::arrow::array::{ArrayRef, RecordBatch};
use crate::features::arrow::compute::{SortOptions, concat, partition};
use crate::features::arrow::datatypes::SchemaRef;
use crate::features::datafusion::datasource::sink::DataSink;
use crate::features::datafusion::error::Result;
use crate::features::datafusion::execution::TaskContext;
use crate::features::datafusion::physical_expr::expressions::Column;
use crate::features::datafusion::physical_expr::{LexRequirement, OrderingRequirements, PhysicalSortRequirement};
use crate::features::datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use crate::features::futures::stream::{Stream, unfold};
use crate::features::futures::{StreamExt, TryStreamExt};
use crate::features::tokio::sync::Mutex;
use std::sync::Arc;

/// Directories of one group: files that are open at once.
const GROUP_MAX: usize = 32;

/// Each partition sorted by the columns at `places`.
pub fn requirement(schema: &SchemaRef, places: &[usize]) -> Option<OrderingRequirements> {
    let keys = places.iter().filter(|place| **place < schema.fields().len()).map(|place| {
        let column = Arc::new(Column::new(schema.field(*place).name(), *place));
        PhysicalSortRequirement::new(column, Some(SortOptions::default()))
    });
    LexRequirement::new(keys).map(OrderingRequirements::new)
}

/// The rows that are left, and where the group that is written stands.
struct Rest<S> {
    rows: S,
    stash: Option<RecordBatch>,
    /// The keys of the last row that was given out, one row each.
    last: Option<Vec<ArrayRef>>,
    /// Directories that the group may still get.
    room: usize,
    is_done: bool,
}

fn keys(batch: &RecordBatch, places: &[usize]) -> Vec<ArrayRef> {
    places.iter().map(|place| Arc::clone(batch.column(*place))).collect()
}

/// Whether two rows of keys differ.
fn differ(a: &[ArrayRef], b: &[ArrayRef]) -> Result<bool> {
    let mut both = Vec::with_capacity(a.len());
    for (a, b) in a.iter().zip(b) {
        both.push(concat(&[a.as_ref(), b.as_ref()])?);
    }
    Ok(partition(&both)?.len() > 1)
}

impl<S: Stream<Item = Result<RecordBatch>> + Unpin + Send> Rest<S> {
    /// The next batch of the group; None: the group is full, or there are no more rows.
    async fn next(&mut self, places: &[usize]) -> Result<Option<RecordBatch>> {
        let batch = match self.stash.take() {
            Some(batch) => batch,
            None => match self.rows.try_next().await? {
                Some(batch) => batch,
                None => {
                    self.is_done = true;
                    return Ok(None);
                }
            },
        };
        let columns = keys(&batch, places);
        let ranges = partition(&columns)?.ranges();
        let first: Vec<ArrayRef> = columns.iter().map(|column| column.slice(0, 1)).collect();
        let continues = match &self.last {
            Some(last) => !differ(last, &first)?,
            None => false,
        };
        let room = self.room + usize::from(continues);
        let taken = room.min(ranges.len());
        self.room = room - taken;
        let Some(end) = taken.checked_sub(1).map(|place| ranges[place].end) else {
            self.stash = Some(batch);
            return Ok(None);
        };
        self.last = Some(columns.iter().map(|column| column.slice(end - 1, 1)).collect());
        if end < batch.num_rows() {
            self.stash = Some(batch.slice(end, batch.num_rows() - end));
        }
        Ok(Some(batch.slice(0, end)))
    }
}

/// Writes all rows, which are sorted; gives their count.
pub async fn write<S>(
    sink: impl Fn() -> Arc<dyn DataSink>,
    schema: SchemaRef,
    rows: S,
    places: &[usize],
    context: &Arc<TaskContext>,
) -> Result<u64>
where
    S: Stream<Item = Result<RecordBatch>> + Unpin + Send + 'static,
{
    let rest = Rest { rows, stash: None, last: None, room: 0, is_done: false };
    let rest = Arc::new(Mutex::new(rest));
    let mut count = 0;
    loop {
        {
            let mut rest = rest.lock().await;
            if rest.is_done && rest.stash.is_none() {
                return Ok(count);
            }
            (rest.room, rest.last) = (GROUP_MAX, None);
        }
        let state = (Arc::clone(&rest), places.to_vec());
        let group = unfold(state, |(rest, places)| async move {
            let next = rest.lock().await.next(&places).await.transpose()?;
            Some((next, (rest, places)))
        });
        let group = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), group.boxed()));
        count += sink().write_all(group, context).await?;
    }
}
