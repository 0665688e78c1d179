//! What the scheduler's main does better than Ballista's own, from its job state: a client may choose a job's id, sessions
//! have as many partitions as the cluster has cores, and a subscriber hears of its job at once.
//!
//! Nothing on the wire carries an id, but a name: one that is a UUID is taken for the id, when no other job has it. Whoever
//! submits sees in the answer whether it was.
use ballista_core::config::BALLISTA_JOB_NAME;
use ballista_core::error::Result;
use ballista_core::serde::protobuf::JobStatus;
use ballista_core::{JobId, JobStatusSubscriber};
use ballista_scheduler::cluster::memory::{InMemoryClusterState, InMemoryJobState};
use ballista_scheduler::cluster::{BallistaCluster, ClusterState, JobState, JobStateEventStream};
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_server::{JobIdGenerator, SessionBuilder};
use ballista_scheduler::state::execution_graph::ExecutionGraphBox;
use ballista_scheduler::state::session_manager::share_file_statistics_cache;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use trunnion_features::async_trait::async_trait;
use trunnion_features::datafusion::prelude::{SessionConfig, SessionContext};
use trunnion_features::tokio;
use uuid::Uuid;

/// How often the cores of the cluster are counted.
const COUNT_EVERY: Duration = Duration::from_millis(500);
/// Fewer partitions would leave a core without work while another ends.
const PARTITIONS_MIN: usize = 4;
/// Names of requests that never became a job (their plan could not be read) are forgotten above so many.
const ASKED_MAX: usize = 10_000;

/// The ids that requests asked for: a request's session is made, and its job's id taken, in one task of its own.
#[derive(Default)]
struct Asked {
    by_task: HashMap<tokio::task::Id, String>,
    taken: HashSet<String>,
}

#[derive(Default)]
pub struct Ids(Mutex<Asked>);

impl Ids {
    fn ask(&self, name: &str) {
        let is_id = name.len() == 36 && Uuid::parse_str(name).is_ok();
        if let Some(task) = tokio::task::try_id()
            && is_id
        {
            let mut asked = self.0.lock();
            if asked.by_task.len() >= ASKED_MAX {
                asked.by_task.clear();
            }
            asked.by_task.insert(task, name.to_ascii_lowercase());
        }
    }

    fn forget(&self, id: &str) {
        self.0.lock().taken.remove(id);
    }
}

#[async_trait]
impl JobIdGenerator for Ids {
    async fn next_id(&self) -> String {
        let mut asked = self.0.lock();
        let id = tokio::task::try_id().and_then(|task| asked.by_task.remove(&task));
        match id {
            Some(id) if asked.taken.insert(id.clone()) => id,
            _ => Uuid::now_v7().to_string(),
        }
    }
}

pub struct Jobs {
    inner: InMemoryJobState,
    ids: Arc<Ids>,
    cores: AtomicUsize,
}

/// The cluster's state, and the configuration with what belongs to it.
pub fn cluster(config: SchedulerConfig, builder: SessionBuilder) -> (BallistaCluster, SchedulerConfig) {
    let ids = Arc::new(Ids::default());
    let producer = config.override_config_producer.clone().unwrap_or_else(|| Arc::new(SessionConfig::new));
    let inner = InMemoryJobState::new(config.scheduler_id.clone(), share_file_statistics_cache(builder), producer);
    let jobs = Arc::new(Jobs { inner, ids: Arc::clone(&ids), cores: AtomicUsize::new(0) });
    let state = Arc::new(InMemoryClusterState::default());
    tokio::spawn(count_cores(Arc::clone(&state), Arc::clone(&jobs)));
    (BallistaCluster::new(state, jobs), config.with_job_id_generator(ids))
}

async fn count_cores(state: Arc<InMemoryClusterState>, jobs: Arc<Jobs>) {
    loop {
        let executors = state.registered_executor_metadata().await;
        let cores: usize = executors.iter().map(|executor| executor.specification.vcores as usize).sum();
        jobs.cores.store(cores, Ordering::Relaxed);
        tokio::time::sleep(COUNT_EVERY).await;
    }
}

#[async_trait]
impl JobState for Jobs {
    fn accept_job(&self, job_id: &JobId, job_name: &str, queued_at: u64) -> Result<()> {
        self.inner.accept_job(job_id, job_name, queued_at)
    }

    fn pending_job_number(&self) -> usize {
        self.inner.pending_job_number()
    }

    async fn submit_job(
        &self,
        job_id: JobId,
        graph: &ExecutionGraphBox,
        subscriber: Option<JobStatusSubscriber>,
    ) -> Result<()> {
        let told = subscriber.clone();
        self.inner.submit_job(job_id, graph, subscriber).await?;
        if let Some(told) = told {
            // Who does not listen any more is told nothing.
            let _ = told.try_send(graph.status().clone());
        }
        Ok(())
    }

    async fn get_jobs(&self) -> Result<HashSet<JobId>> {
        self.inner.get_jobs().await
    }

    async fn get_all_jobs(&self) -> Result<HashSet<JobId>> {
        self.inner.get_all_jobs().await
    }

    async fn get_job_status(&self, job_id: &JobId) -> Result<Option<JobStatus>> {
        self.inner.get_job_status(job_id).await
    }

    async fn get_execution_graph(&self, job_id: &JobId) -> Result<Option<ExecutionGraphBox>> {
        self.inner.get_execution_graph(job_id).await
    }

    async fn save_job(&self, job_id: &JobId, graph: &ExecutionGraphBox) -> Result<()> {
        self.inner.save_job(job_id, graph).await
    }

    async fn fail_unscheduled_job(&self, job_id: &JobId, reason: String) -> Result<()> {
        self.inner.fail_unscheduled_job(job_id, reason).await
    }

    async fn remove_job(&self, job_id: &JobId) -> Result<()> {
        self.ids.forget(job_id.as_str());
        self.inner.remove_job(job_id).await
    }

    async fn try_acquire_job(&self, job_id: &JobId) -> Result<Option<ExecutionGraphBox>> {
        self.inner.try_acquire_job(job_id).await
    }

    async fn job_state_events(&self) -> Result<JobStateEventStream> {
        self.inner.job_state_events().await
    }

    async fn create_or_update_session(&self, session_id: &str, config: &SessionConfig) -> Result<Arc<SessionContext>> {
        let entries = config.options().entries();
        if let Some(name) = entries.into_iter().find(|entry| entry.key == BALLISTA_JOB_NAME).and_then(|it| it.value) {
            self.ids.ask(&name);
        }
        self.inner.create_or_update_session(session_id, config).await
    }

    async fn remove_session(&self, session_id: &str) -> Result<()> {
        self.inner.remove_session(session_id).await
    }

    /// Settings that come with a query go over this.
    fn produce_config(&self) -> SessionConfig {
        let config = self.inner.produce_config();
        match self.cores.load(Ordering::Relaxed) {
            0 => config,
            cores => config.with_target_partitions(cores.max(PARTITIONS_MIN)),
        }
    }
}
