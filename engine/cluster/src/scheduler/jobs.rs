//! What is known of jobs, told to the host before anybody can see it: Ballista's job state in memory with that around it.
use super::abi::{Change, Progress};
use super::hooks::Hooks;
use ballista_core::error::{BallistaError, Result};
use ballista_core::serde::protobuf::job_status::Status;
use ballista_core::serde::protobuf::{FailedJob, JobStatus, QueuedJob};
use ballista_core::{JobId, JobStatusSubscriber};
use ballista_scheduler::cluster::memory::InMemoryJobState;
use ballista_scheduler::cluster::{JobState, JobStateEventStream};
use ballista_scheduler::state::execution_graph::ExecutionGraphBox;
use ballista_scheduler::state::execution_stage::ExecutionStage;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use trunnion_features::async_trait::async_trait;
use trunnion_features::datafusion::prelude::{SessionConfig, SessionContext};

/// What Ballista says of a job that was cancelled: there is no status of its own.
const CANCELLED: &str = "Cancelled";

#[derive(Default)]
struct Known {
    status: JobStatus,
    progress: Progress,
    is_cancelling: bool,
    /// The host has been, or is being, told how it ended: nothing changes that any more.
    is_decided: bool,
    is_terminal: bool,
}

pub enum Cancelling {
    Unknown,
    Finished,
    Wanted,
}

pub struct Jobs {
    inner: InMemoryJobState,
    hooks: Arc<Hooks>,
    known: Mutex<HashMap<String, Known>>,
}

pub fn progress(graph: &ExecutionGraphBox) -> Progress {
    let mut out = Progress { struct_size: size_of::<Progress>(), ..Progress::default() };
    for stage in graph.stages().values() {
        out.stages += 1;
        match stage {
            ExecutionStage::Running(stage) => {
                let done = stage.successful_tasks();
                // How many partitions a task will take is known when an executor takes it.
                out.tasks += (stage.scheduled_tasks().max(done) + stage.pending.remaining()) as u64;
                out.tasks_done += done as u64;
            }
            ExecutionStage::Successful(stage) => {
                out.stages_done += 1;
                out.tasks += stage.task_infos.len() as u64;
                out.tasks_done += stage.task_infos.len() as u64;
            }
            ExecutionStage::UnResolved(_) | ExecutionStage::Resolved(_) | ExecutionStage::Failed(_) => {}
        }
    }
    out
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

fn failed(job: &JobStatus, error: &str) -> JobStatus {
    let (queued_at, started_at) = match &job.status {
        Some(Status::Queued(queued)) => (queued.queued_at, 0),
        Some(Status::Running(running)) => (running.queued_at, running.started_at),
        Some(Status::Successful(success)) => (success.queued_at, success.started_at),
        Some(Status::Failed(failed)) => (failed.queued_at, failed.started_at),
        None => (0, 0),
    };
    let failed = FailedJob { error: error.to_string(), queued_at, started_at, ended_at: now_ms() };
    JobStatus { status: Some(Status::Failed(failed)), ..job.clone() }
}

impl Jobs {
    pub fn new(inner: InMemoryJobState, hooks: Arc<Hooks>) -> Self {
        Self { inner, hooks, known: Mutex::default() }
    }

    /// Takes an id, so that it is nobody else's. False: it is somebody's.
    pub fn reserve(&self, id: &str, name: &str) -> bool {
        {
            let mut known = self.known.lock();
            if known.contains_key(id) {
                return false;
            }
            let queued = Some(Status::Queued(QueuedJob { queued_at: now_ms() }));
            let status = JobStatus { job_id: id.to_string(), job_name: name.to_string(), status: queued };
            known.insert(id.to_string(), Known { status, ..Known::default() });
        }
        let is_free = self.hooks.find(id).is_none();
        if !is_free {
            self.known.lock().remove(id);
        }
        is_free
    }

    pub fn unreserve(&self, id: &str) {
        self.known.lock().remove(id);
    }

    pub fn status(&self, id: &str) -> Option<JobStatus> {
        let known = self.known.lock().get(id).map(|job| job.status.clone());
        known.or_else(|| self.hooks.find(id))
    }

    pub fn progress(&self, id: &str) -> Option<Progress> {
        self.known.lock().get(id).map(|job| job.progress)
    }

    pub fn is_running(&self, id: &str) -> bool {
        self.known.lock().get(id).is_some_and(|job| !job.is_terminal)
    }

    /// All of them, successful ones without their locations.
    pub fn list(&self) -> Vec<JobStatus> {
        let known = self.known.lock();
        let mut out = Vec::with_capacity(known.len());
        for job in known.values() {
            let mut status = JobStatus { status: None, ..job.status.clone() };
            status.status = job.status.status.clone().map(|mut is| {
                if let Status::Successful(success) = &mut is {
                    success.partition_location.clear();
                }
                is
            });
            out.push(status);
        }
        out
    }

    pub fn want_cancelled(&self, id: &str) -> Cancelling {
        match self.known.lock().get_mut(id) {
            None => Cancelling::Unknown,
            Some(job) if job.is_decided => Cancelling::Finished,
            Some(job) => {
                job.is_cancelling = true;
                Cancelling::Wanted
            }
        }
    }

    fn show(&self, status: JobStatus, progress: Progress, is_terminal: bool) {
        let mut known = self.known.lock();
        let job = known.entry(status.job_id.clone()).or_default();
        job.status = status;
        job.is_terminal = is_terminal;
        if progress.stages > 0 {
            job.progress = progress;
        }
    }

    fn goes_on(&self, change: Change, status: JobStatus, progress: Progress) {
        if !self.known.lock().get(&status.job_id).is_some_and(|job| job.is_decided) {
            self.hooks.changed(change, &status, progress);
            self.show(status, progress, false);
        }
    }

    /// The one end of a job: a success that nobody has cancelled and that could be recorded, else a failure.
    fn ends(&self, status: JobStatus, progress: Progress) {
        let is_cancelling = {
            let mut known = self.known.lock();
            let job = known.entry(status.job_id.clone()).or_default();
            if std::mem::replace(&mut job.is_decided, true) {
                return;
            }
            job.is_cancelling
        };
        let (change, shown) = match &status.status {
            Some(Status::Failed(failed)) if is_cancelling || failed.error == CANCELLED => (Change::Cancelled, status),
            Some(Status::Successful(_)) if is_cancelling => (Change::Cancelled, failed(&status, CANCELLED)),
            Some(Status::Successful(_)) => (Change::Succeeded, status),
            _ => (Change::Failed, status),
        };
        let shown = match self.hooks.changed(change, &shown, progress) || change != Change::Succeeded {
            true => shown,
            false => {
                let lost = failed(&shown, "the job was done, but this could not be recorded");
                self.hooks.changed(Change::Failed, &lost, progress);
                lost
            }
        };
        self.show(shown, progress, true);
    }
}

#[async_trait]
impl JobState for Jobs {
    fn accept_job(&self, job_id: &JobId, job_name: &str, queued_at: u64) -> Result<()> {
        self.inner.accept_job(job_id, job_name, queued_at)?;
        let status = Some(Status::Queued(QueuedJob { queued_at }));
        let job = JobStatus { job_id: job_id.to_string(), job_name: job_name.to_string(), status };
        self.goes_on(Change::Queued, job, Progress::default());
        Ok(())
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
        self.inner.submit_job(job_id, graph, subscriber).await?;
        self.goes_on(Change::Running, graph.status().clone(), progress(graph));
        Ok(())
    }

    async fn get_jobs(&self) -> Result<HashSet<JobId>> {
        self.inner.get_jobs().await
    }

    async fn get_all_jobs(&self) -> Result<HashSet<JobId>> {
        self.inner.get_all_jobs().await
    }

    async fn get_job_status(&self, job_id: &JobId) -> Result<Option<JobStatus>> {
        Ok(self.status(job_id.as_str()))
    }

    async fn get_execution_graph(&self, job_id: &JobId) -> Result<Option<ExecutionGraphBox>> {
        self.inner.get_execution_graph(job_id).await
    }

    async fn save_job(&self, job_id: &JobId, graph: &ExecutionGraphBox) -> Result<()> {
        let status = graph.status().clone();
        match status.status {
            Some(Status::Successful(_)) | Some(Status::Failed(_)) => self.ends(status, progress(graph)),
            _ => self.goes_on(Change::Running, status, progress(graph)),
        }
        self.inner.save_job(job_id, graph).await
    }

    async fn fail_unscheduled_job(&self, job_id: &JobId, reason: String) -> Result<()> {
        let job = self.status(job_id.as_str()).ok_or_else(|| BallistaError::Internal(format!("no job {job_id}")))?;
        self.ends(failed(&job, &reason), Progress::default());
        self.inner.fail_unscheduled_job(job_id, reason).await
    }

    async fn remove_job(&self, job_id: &JobId) -> Result<()> {
        let gone = self.known.lock().remove(job_id.as_str());
        if let Some(job) = gone {
            self.hooks.changed(Change::Removed, &job.status, job.progress);
        }
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
        let settings: Vec<(String, String)> =
            entries.into_iter().filter_map(|entry| Some((entry.key, entry.value?))).collect();
        let more = self
            .hooks
            .session(&settings)
            .ok_or_else(|| BallistaError::Configuration("the host refuses the session".to_string()))?;
        let mut config = config.clone();
        for (key, value) in more {
            config.options_mut().set(&key, &value)?;
        }
        self.inner.create_or_update_session(session_id, &config).await
    }

    async fn remove_session(&self, session_id: &str) -> Result<()> {
        self.inner.remove_session(session_id).await
    }

    fn produce_config(&self) -> SessionConfig {
        self.inner.produce_config()
    }
}
