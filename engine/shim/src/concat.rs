//! Partitions one after the other, in their order, under a limit. The engine's own operator takes whichever partition is
//! first, so that a limit without a sort would give other rows each time.
use crate::features::arrow::array::RecordBatch;
use crate::features::datafusion::common::internal_err;
use crate::features::datafusion::common::tree_node::TreeNodeRecursion;
use crate::features::datafusion::error::{DataFusionError, Result};
use crate::features::datafusion::execution::{SendableRecordBatchStream, TaskContext};
use crate::features::datafusion::physical_expr::PhysicalExpr;
use crate::features::datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use crate::features::datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use crate::features::futures::StreamExt;
use crate::features::futures::stream::try_unfold;
use crate::features::tokio::sync::mpsc;
use crate::features::tokio::task::{JoinHandle, spawn};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// Batches that a partition may be ahead.
const AHEAD: usize = 2;

#[derive(Debug)]
pub struct ConcatExec {
    pub input: Arc<dyn ExecutionPlan>,
    pub fetch: usize,
    /// One partition.
    pub properties: Arc<PlanProperties>,
}

impl DisplayAs for ConcatExec {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ConcatExec: fetch={}", self.fetch)
    }
}

/// Ends with whoever reads from it.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Reading {
    partitions: VecDeque<(mpsc::Receiver<Result<RecordBatch>>, Task)>,
    rest: usize,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.rest > 0 {
            let Some((receiver, _)) = self.partitions.front_mut() else { break };
            let Some(batch) = receiver.recv().await else {
                if let Some((_, mut task)) = self.partitions.pop_front() {
                    (&mut task.0).await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
                }
                continue;
            };
            let batch = batch?;
            let batch = batch.slice(0, batch.num_rows().min(self.rest));
            self.rest -= batch.num_rows();
            return Ok(Some(batch));
        }
        self.partitions.clear(); // nobody reads what is still being made
        Ok(None)
    }
}

impl ExecutionPlan for ConcatExec {
    fn name(&self) -> &str {
        "ConcatExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn fetch(&self) -> Option<usize> {
        Some(self.fetch)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("ConcatExec has one input");
        };
        Ok(Arc::new(ConcatExec { input, fetch: self.fetch, properties: Arc::clone(&self.properties) }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("ConcatExec has one partition");
        }
        let mut partitions = VecDeque::new();
        for index in 0..self.input.output_partitioning().partition_count() {
            let (sender, receiver) = mpsc::channel(AHEAD);
            let (input, context) = (Arc::clone(&self.input), Arc::clone(&context));
            let task = Task(spawn(async move {
                let mut stream = match input.execute(index, context) {
                    Ok(stream) => stream,
                    Err(error) => return sender.send(Err(error)).await.unwrap_or(()),
                };
                while let Some(batch) = stream.next().await {
                    if sender.send(batch).await.is_err() {
                        return;
                    }
                }
            }));
            partitions.push_back((receiver, task));
        }
        let reading = Reading { partitions, rest: self.fetch };
        let stream = try_unfold(reading, |mut reading| async move {
            let batch = reading.next().await?;
            Ok(batch.map(|batch| (batch, reading)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), stream)))
    }
}
