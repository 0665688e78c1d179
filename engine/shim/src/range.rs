//! A table of consecutive integers, made while it is read.
use crate::error::{Failure, Fallible};
use crate::features::arrow::array::{Int64Array, RecordBatch};
use crate::features::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use crate::features::async_trait::async_trait;
use crate::features::datafusion::catalog::{Session, TableProvider};
use crate::features::datafusion::error::Result;
use crate::features::datafusion::logical_expr::{Expr, TableType};
use crate::features::datafusion::physical_plan::ExecutionPlan;
use crate::features::datafusion::physical_plan::memory::{LazyBatchGenerator, LazyMemoryExec};
use parking_lot::RwLock;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

const PARTITIONS_MAX: u32 = 1 << 10;

#[derive(Debug)]
pub struct Range {
    pub start: i64,
    pub end: i64,
    pub step: i64,
    pub count: u64,
    pub partitions: u32, // 0: the engine's
    schema: SchemaRef,
}

impl Range {
    pub fn new(start: i64, end: i64, step: i64, partitions: u32, name: &str) -> Fallible<Self> {
        if step == 0 {
            return Err(Failure::invalid("a range's step is 0"));
        }
        if partitions > PARTITIONS_MAX {
            return Err(Failure::exhausted(format!("a range of {partitions} partitions, at most {PARTITIONS_MAX}")));
        }
        let (distance, stride) = match step > 0 {
            true => (i128::from(end) - i128::from(start), i128::from(step)),
            false => (i128::from(start) - i128::from(end), -i128::from(step)),
        };
        let count = if distance <= 0 { 0 } else { (distance + stride - 1) / stride };
        let count = u64::try_from(count).map_err(|_| Failure::invalid("a range is too long"))?;
        let schema = Arc::new(Schema::new(vec![Field::new(name, DataType::Int64, false)]));
        Ok(Self { start, end, step, count, partitions, schema })
    }
}

#[async_trait]
impl TableProvider for Range {
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
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let batch_size = state.config().batch_size().max(1);
        let count = limit.map_or(self.count, |limit| self.count.min(limit as u64));
        let partitions = match self.partitions {
            // Not more partitions than batches: a small range has no use for them.
            0 => (state.config().target_partitions().max(1) as u64).min(count.div_ceil(batch_size as u64)).max(1),
            wanted => u64::from(wanted),
        };
        let mut generators: Vec<Arc<RwLock<dyn LazyBatchGenerator>>> = vec![];
        for index in 0..u128::from(partitions) {
            let bound = |index: u128| (u128::from(count) * index / u128::from(partitions)) as u64;
            generators.push(Arc::new(RwLock::new(Generator {
                schema: Arc::clone(&self.schema),
                start: self.start,
                step: self.step,
                first: bound(index),
                at: bound(index),
                end: bound(index + 1),
                batch_size: batch_size as u64,
            })));
        }
        let plan = LazyMemoryExec::try_new(Arc::clone(&self.schema), generators)?;
        Ok(Arc::new(plan.with_projection(projection.cloned())))
    }
}

#[derive(Debug)]
struct Generator {
    schema: SchemaRef,
    start: i64,
    step: i64,
    first: u64,
    at: u64,
    end: u64,
    batch_size: u64,
}

impl fmt::Display for Generator {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "range: start={}, step={}, rows={}..{}", self.start, self.step, self.first, self.end)
    }
}

impl LazyBatchGenerator for Generator {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn generate_next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let until = self.end.min(self.at + self.batch_size);
        // Within 64 bits: every value lies between start and end.
        let value = |index: u64| (i128::from(self.start) + i128::from(index) * i128::from(self.step)) as i64;
        let mut next = value(self.at);
        let mut values = Vec::with_capacity((until - self.at) as usize);
        for _ in self.at..until {
            values.push(next);
            next = next.wrapping_add(self.step);
        }
        self.at = until;
        Ok(Some(RecordBatch::try_new(Arc::clone(&self.schema), vec![Arc::new(Int64Array::from(values))])?))
    }

    fn reset_state(&self) -> Arc<RwLock<dyn LazyBatchGenerator>> {
        Arc::new(RwLock::new(Generator { schema: Arc::clone(&self.schema), at: self.first, ..*self }))
    }
}
