//! Cancelling what computes for long without giving anything out: a nested loop join whose condition is rarely true does
//! not come back to its caller for as long as it runs. Its condition looks whether the query is cancelled, and sees to it
//! that what else waits for the thread is run elsewhere.
use crate::error::{Failure, Fallible};
use crate::features::arrow::array::RecordBatch;
use crate::features::arrow::datatypes::{DataType, FieldRef, Schema};
use crate::features::datafusion::common::tree_node::{Transformed, TreeNode};
use crate::features::datafusion::error::{DataFusionError, Result};
use crate::features::datafusion::logical_expr::ColumnarValue;
use crate::features::datafusion::physical_expr::PhysicalExpr;
use crate::features::datafusion::physical_plan::ExecutionPlan;
use crate::features::datafusion::physical_plan::joins::utils::JoinFilter;
use crate::features::datafusion::physical_plan::joins::{NestedLoopJoinExec, NestedLoopJoinExecBuilder};
use crate::features::tokio::runtime::{Handle, RuntimeFlavor};
use crate::features::tokio::task::block_in_place;
use std::cell::Cell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// For so long a thread of the runtime may compute before its other tasks are given to another thread.
const STAY: Duration = Duration::from_millis(10);
/// Evaluations with less than this between them have not gone back to the runtime, as far as can be told from here.
const PAUSE: Duration = Duration::from_millis(2);

thread_local! {
    /// When the present run of evaluations began, and when the last of them ended.
    static BUSY: Cell<Option<(Instant, Instant)>> = const { Cell::new(None) };
}

/// Computes; after a while as what blocks its thread, so that queries of others are not held up by it.
fn compute_beside_others<T>(compute: impl FnOnce() -> T) -> T {
    let now = Instant::now();
    let begin = match BUSY.get() {
        Some((begin, last)) if now - last < PAUSE => begin,
        _ => now,
    };
    let is_worker =
        || Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    let value = match now - begin > STAY && is_worker() {
        true => block_in_place(compute),
        false => compute(),
    };
    BUSY.set(Some((begin, Instant::now())));
    value
}

#[derive(Debug)]
struct Watched {
    inner: Arc<dyn PhysicalExpr>,
    is_cancelled: Arc<AtomicBool>,
}

impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for Watched {}

impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(out)
    }
}

impl PhysicalExpr for Watched {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.inner.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.inner.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.inner.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        match self.is_cancelled.load(Ordering::Relaxed) {
            true => Err(Failure::cancelled().into()),
            false => compute_beside_others(|| self.inner.evaluate(batch)),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        match (children.pop(), children.is_empty()) {
            (Some(inner), true) => Ok(Arc::new(Self { inner, is_cancelled: Arc::clone(&self.is_cancelled) })),
            _ => Err(DataFusionError::Internal("a condition has one expression".to_string())),
        }
    }

    fn fmt_sql(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(out)
    }
}

/// The plan, whose joins by a condition stop when `is_cancelled` is set.
pub fn watch(plan: Arc<dyn ExecutionPlan>, is_cancelled: &Arc<AtomicBool>) -> Fallible<Arc<dyn ExecutionPlan>> {
    let watched = plan.transform_up(|plan| {
        let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() else { return Ok(Transformed::no(plan)) };
        let Some(filter) = join.filter() else { return Ok(Transformed::no(plan)) };
        let condition =
            Arc::new(Watched { inner: Arc::clone(filter.expression()), is_cancelled: Arc::clone(is_cancelled) });
        let filter = JoinFilter::new(condition, filter.column_indices().to_vec(), Arc::clone(filter.schema()));
        let built =
            NestedLoopJoinExecBuilder::new(Arc::clone(join.left()), Arc::clone(join.right()), *join.join_type())
                .with_filter(Some(filter))
                .with_projection_ref(join.projection().clone())
                .build()?;
        Ok(Transformed::yes(Arc::new(built) as Arc<dyn ExecutionPlan>))
    })?;
    Ok(watched.data)
}
