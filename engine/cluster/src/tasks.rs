//! How an executor runs a task: as Ballista's own does, with the plan prepared for operators of ours.
use crate::connections::Connections;
use ballista_core::JobId;
use ballista_executor::execution_engine::{DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor};
use std::sync::Arc;
use std::time::Duration;
use trunnion_engine::cluster::prepare;
use trunnion_features::datafusion::error::Result;
use trunnion_features::datafusion::physical_plan::ExecutionPlan;
use trunnion_features::datafusion::prelude::SessionConfig;

pub struct Tasks {
    inner: DefaultExecutionEngine,
}

impl Tasks {
    /// `client_seconds`: connections to other executors are kept so long; 0: not at all.
    pub fn new(client_seconds: u64) -> Self {
        let inner = match client_seconds {
            0 => DefaultExecutionEngine::new(),
            seconds => {
                let pool = Connections::new(Duration::from_secs(seconds));
                DefaultExecutionEngine::with_client_pool(Arc::new(pool))
            }
        };
        Self { inner }
    }
}

impl ExecutionEngine for Tasks {
    fn create_query_stage_exec(
        &self,
        job_id: JobId,
        stage_id: usize,
        task_id: usize,
        partitions: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        work_dir: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        let plan = prepare(plan, &partitions)?;
        self.inner.create_query_stage_exec(job_id, stage_id, task_id, partitions, plan, work_dir, config)
    }
}
