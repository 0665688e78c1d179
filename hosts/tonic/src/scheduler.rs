//! Jobs that outlive the call and the process: the proposal's [`SchedulerHandle`] and [`JobHandle`], over the C scheduler.
use crate::ffi::{self, trn_error};
use crate::ffi_query as c;
use crate::ffi_scheduler as s;
use crate::frontend::Registry;
use crate::native::{self, Backend, StreamHandle, Texts, blocking, pointer};
use crate::query::*;
use async_trait::async_trait;
use futures_core::Stream;
use std::ffi::{CString, c_int, c_void};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;

/// Where jobs are remembered.
pub struct JobStore(*mut s::trn_job_store);
unsafe impl Send for JobStore {} // thread safe by contract
unsafe impl Sync for JobStore {}
impl Drop for JobStore {
    fn drop(&mut self) {
        unsafe { s::trn_job_store_unref(self.0) };
    }
}

impl JobStore {
    /// A file, for any number of processes of one host. `None`: in memory, for this process. Blocks.
    pub fn sqlite(path: Option<&Path>) -> Result<JobStore> {
        let path = path.map(|p| cstring(&p.to_string_lossy()));
        let (mut out, mut error) = (null_mut(), null_mut());
        match unsafe { s::trn_sqlite_job_store_open(pointer(&path), &mut out, &mut error) } {
            0 => Ok(JobStore(out)),
            status => Err(unsafe { Error::take(status, error) }),
        }
    }

    /// A database of PostgreSQL, for processes of several hosts. `conninfo` as libpq takes it. Blocks.
    pub fn postgres(conninfo: &str) -> Result<JobStore> {
        let (mut out, mut error) = (null_mut(), null_mut());
        match unsafe { s::trn_postgres_job_store_open(cstring(conninfo).as_ptr(), &mut out, &mut error) } {
            0 => Ok(JobStore(out)),
            status => Err(unsafe { Error::take(status, error) }),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    Queued,
    Running,
    /// The output is there, until it is released.
    Succeeded,
    Failed,
    Cancelled,
    /// Whoever ran it is gone: to be recovered.
    Lost,
}

impl JobState {
    fn of(state: c_int) -> JobState {
        match state {
            0 => JobState::Queued,
            1 => JobState::Running,
            2 => JobState::Succeeded,
            3 => JobState::Failed,
            4 => JobState::Cancelled,
            _ => JobState::Lost,
        }
    }
    pub fn is_terminal(self) -> bool {
        !matches!(self, JobState::Queued | JobState::Running)
    }
}

/// A job as it is, or was when an event happened.
#[derive(Clone, Debug)]
pub struct JobStatus {
    pub state: JobState,
    /// From 1; more when it was recovered.
    pub attempt: u64,
    pub stages: u32,
    pub stages_done: u32,
    pub tasks: u32,
    pub tasks_done: u32,
    /// Milliseconds since the epoch; 0: not yet.
    pub submitted_ms: i64,
    pub started_ms: i64,
    pub ended_ms: i64,
    /// Of the output so far.
    pub rows: i64,
    pub bytes: i64,
    pub is_cancelled: bool,
    pub is_released: bool,
    /// Why it failed.
    pub failure: Option<Error>,
}

impl JobStatus {
    /// Takes `failure`.
    unsafe fn of(status: &s::trn_job_status, failure: *mut trn_error) -> JobStatus {
        let failed = (!failure.is_null()).then(|| unsafe { Error::take(native::error_status(failure), failure) });
        JobStatus {
            state: JobState::of(status.state),
            attempt: status.attempt,
            stages: status.stages,
            stages_done: status.stages_done,
            tasks: status.tasks,
            tasks_done: status.tasks_done,
            submitted_ms: status.submitted_ms,
            started_ms: status.started_ms,
            ended_ms: status.ended_ms,
            rows: status.rows,
            bytes: status.bytes,
            is_cancelled: status.is_cancelled,
            is_released: status.is_released,
            failure: failed,
        }
    }
}

/// What a job is to run: a plan, or a query in an encoding that is recorded as it is.
#[derive(Clone)]
pub enum JobQuery {
    Plan(Plan),
    Encoded { format: String, payload: Vec<u8>, options: Vec<(String, String)> },
}

#[derive(Clone)]
pub struct SubmitRequest {
    /// `None`: a new UUIDv7. Else anything that may be a file's name; `AlreadyExists` when it is taken.
    pub requested_job_id: Option<String>,
    /// For people. `None`: the id.
    pub name: Option<String>,
    /// One of the scheduler's backend.
    pub session: QuerySession,
    pub query: JobQuery,
    /// Over the session's.
    pub settings: Vec<(String, String)>,
    pub tags: Vec<String>,
}

impl SubmitRequest {
    pub fn new(session: QuerySession, query: JobQuery) -> SubmitRequest {
        SubmitRequest { requested_job_id: None, name: None, session, query, settings: Vec::new(), tags: Vec::new() }
    }
}

/// `Default`: the newest hundred of everybody.
#[derive(Clone, Default)]
pub struct JobFilter {
    pub states: Vec<JobState>,
    pub user: Option<String>,
    pub session_id: Option<String>,
    pub name: Option<String>,
    pub tag: Option<String>,
    /// Goes on behind this job.
    pub after_id: Option<String>,
    pub limit: usize,
}

/// A job in a list.
#[derive(Clone, Debug)]
pub struct JobInfo {
    pub id: String,
    pub name: String,
    pub user: String,
    pub session_id: String,
    pub state: JobState,
    pub attempt: u64,
    pub owner: String,
    pub submitted_ms: i64,
    pub started_ms: i64,
    pub ended_ms: i64,
    pub rows: i64,
    pub bytes: i64,
    pub tags: Vec<String>,
}

/// A part of an output.
#[derive(Clone, Debug)]
pub struct JobLocation {
    /// "file:///...": an Arrow IPC stream. "grpc://host:port": Flight; `ticket` is for its DoGet.
    pub uri: String,
    pub ticket: Vec<u8>,
    /// -1: unknown.
    pub rows: i64,
    pub bytes: i64,
}

/// What happens to a job, in order; a terminal status is the last one. None is lost to a slow reader.
pub type JobEvents = Pin<Box<dyn Stream<Item = Result<JobStatus>> + Send>>;

/// A scheduler of jobs.
///
/// ```no_run
/// use trunnion_tonic::{Backend, JobQuery, JobState, JobStore, Result, Scheduler, SchedulerHandle, SchedulerOptions, SessionRequest,
///     SubmitRequest};
///
/// async fn nightly() -> Result<()> {
///     let store = JobStore::sqlite(Some("jobs.sqlite".as_ref()))?;
///     let scheduler = Scheduler::on_backend(&Backend::embedded(None, None)?, &store, SchedulerOptions::at("outputs"))?;
///     let session = scheduler.create_session(SessionRequest::of("ann")).await?;
///     let sql = JobQuery::Encoded { format: "sql".into(), payload: b"SELECT 1 AS one".to_vec(), options: vec![] };
///     let request = SubmitRequest { requested_job_id: Some("0198f1c2-nightly".into()), ..SubmitRequest::new(session, sql) };
///     let job = scheduler.submit(request).await?; // it is recorded now: also another process can follow it
///     let end = job.completion().await?;
///     assert_eq!(end.state, JobState::Succeeded);
///     let _rows = job.output().await?;
///     job.release().await
/// }
/// ```
#[async_trait]
pub trait SchedulerHandle: Send + Sync {
    async fn create_session(&self, request: SessionRequest) -> Result<QuerySession>;
    /// The job is recorded when this returns.
    async fn submit(&self, request: SubmitRequest) -> Result<Arc<dyn JobHandle>>;
    /// Cares for a job whose scheduler is gone: attaches to it where it goes on; `resubmit`: else runs it again, under its id.
    /// Others are left as they are.
    async fn recover(&self, job_id: &str, resubmit: bool) -> Result<Arc<dyn JobHandle>>;
    async fn job(&self, job_id: &str) -> Result<Arc<dyn JobHandle>>;
    async fn list(&self, filter: JobFilter) -> Result<Vec<JobInfo>>;
    /// An ended job and its output; the id may be used again.
    async fn forget(&self, job_id: &str) -> Result<()>;
}

/// A job, whoever runs it.
///
/// ```no_run
/// use trunnion_tonic::{JobHandle, JobStatus, Result};
/// use tokio_stream::StreamExt;
///
/// async fn watch(job: &dyn JobHandle) -> Result<JobStatus> {
///     let mut events = job.subscribe().await?;
///     let mut last = job.status().await?;
///     while let Some(status) = events.next().await {
///         last = status?;
///         println!("{}: {:?}, {} of {} tasks", job.id(), last.state, last.tasks_done, last.tasks);
///     }
///     Ok(last)
/// }
/// ```
#[async_trait]
pub trait JobHandle: Send + Sync {
    fn id(&self) -> &str;
    async fn status(&self) -> Result<JobStatus>;
    async fn subscribe(&self) -> Result<JobEvents>;
    /// A job that has ended keeps its output.
    async fn cancel(&self) -> Result<()>;
    /// Waits for the end, or until the job is lost.
    async fn completion(&self) -> Result<JobStatus>;
    /// Any number of times, until it is released.
    async fn output(&self) -> Result<SendableRecordBatchStream>;
    async fn locations(&self) -> Result<Vec<JobLocation>>;
    /// JSON.
    async fn metrics(&self) -> Result<String>;
    /// The output is not needed any more.
    async fn release(&self) -> Result<()>;
}

/// How a [`Scheduler`] works; zero and `None` mean the default.
#[derive(Default)]
pub struct SchedulerOptions {
    pub output_directory: PathBuf,
    /// Decoders of encoded queries.
    pub registry: Option<Arc<Registry>>,
    pub name: Option<String>,
    /// How long after its last sign of life a scheduler counts as gone.
    pub lease: Option<Duration>,
    pub poll: Option<Duration>,
    pub jobs_running_max: u32,
    pub jobs_queued_max: u32,
    pub workers: u32,
}

impl SchedulerOptions {
    pub fn at(output_directory: impl Into<PathBuf>) -> SchedulerOptions {
        SchedulerOptions { output_directory: output_directory.into(), ..Default::default() }
    }
}

struct SchedulerInner {
    scheduler: *mut s::trn_scheduler,
    #[allow(dead_code)] // what the scheduler borrows: dropped after it
    registry: Option<Arc<Registry>>,
}
unsafe impl Send for SchedulerInner {} // thread safe by contract
unsafe impl Sync for SchedulerInner {}
impl Drop for SchedulerInner {
    fn drop(&mut self) {
        unsafe { s::trn_scheduler_unref(self.scheduler) };
    }
}

/// The bundled scheduler. With its last clone it stops: jobs of this process are lost then, for others to recover. That waits for
/// what runs, so it is dropped where waiting is allowed.
#[derive(Clone)]
pub struct Scheduler(Arc<SchedulerInner>);

fn milliseconds(duration: Option<Duration>) -> u64 {
    duration.map_or(0, |d| (d.as_millis() as u64).max(1))
}

impl Scheduler {
    /// Runs jobs on a backend of this process; outputs are files. Blocks.
    pub fn on_backend(backend: &Backend, store: &JobStore, options: SchedulerOptions) -> Result<Scheduler> {
        let make = |made, out, error| unsafe { s::trn_scheduler_create(made, backend.0, out, error) };
        Scheduler::create(store, options, make)
    }

    /// `make` is the function of C that makes it.
    pub(crate) fn create(
        store: &JobStore,
        options: SchedulerOptions,
        make: impl FnOnce(*const s::trn_scheduler_options, *mut *mut s::trn_scheduler, c::Errors) -> c_int,
    ) -> Result<Scheduler> {
        let directory = cstring(&options.output_directory.to_string_lossy());
        let name = options.name.as_deref().map(cstring);
        let made = s::trn_scheduler_options {
            struct_size: size_of::<s::trn_scheduler_options>(),
            store: store.0,
            output_directory: directory.as_ptr(),
            registry: options.registry.as_ref().map_or(null(), |registry| registry.raw()),
            name: pointer(&name),
            lease_ms: milliseconds(options.lease),
            poll_ms: milliseconds(options.poll),
            jobs_running_max: options.jobs_running_max,
            jobs_queued_max: options.jobs_queued_max,
            workers: options.workers,
        };
        let (mut out, mut error) = (null_mut(), null_mut());
        match make(&made, &mut out, &mut error) {
            0 => Ok(Scheduler(Arc::new(SchedulerInner { scheduler: out, registry: options.registry }))),
            status => Err(unsafe { Error::take(status, error) }),
        }
    }

    async fn find(
        &self,
        id: &str,
        call: impl FnOnce(*mut s::trn_scheduler, CString, *mut *mut s::trn_job, c::Errors) -> c_int + Send + 'static,
    ) -> Result<Arc<dyn JobHandle>> {
        let (inner, id) = (self.0.clone(), cstring(id));
        blocking(move || {
            let inner = inner; // the whole of it: what is captured is Send
            let (mut out, mut error) = (null_mut(), null_mut());
            match call(inner.scheduler, id, &mut out, &mut error) {
                0 => Ok(Job::taken(out)),
                status => Err(unsafe { Error::take(status, error) }),
            }
        })
        .await
    }
}

fn pairs<'a>(keys: &'a Texts, values: &'a Texts) -> Vec<c::trn_kv> {
    keys.1.iter().zip(&values.1).map(|(&key, &value)| c::trn_kv { key, value }).collect()
}

fn texts_of(items: &[(String, String)]) -> (Texts, Texts) {
    (Texts::of(items.iter().map(|(k, _)| k)), Texts::of(items.iter().map(|(_, v)| v)))
}

fn submit(scheduler: &SchedulerInner, request: &SubmitRequest) -> Result<Arc<dyn JobHandle>> {
    let (id, name) = (request.requested_job_id.as_deref().map(cstring), request.name.as_deref().map(cstring));
    let (keys, values) = texts_of(&request.settings);
    let (settings, tags) = (pairs(&keys, &values), Texts::of(&request.tags));
    let (plan, format, payload, options) = match &request.query {
        JobQuery::Plan(given) => (given.0, "", &[][..], &[][..]),
        JobQuery::Encoded { format, payload, options } => (null_mut(), format.as_str(), &payload[..], &options[..]),
    };
    let (mut out, mut error) = (null_mut(), null_mut());
    // Nothing is decoded before the job runs: then its own cancel is what counts.
    let status = native::with_input(format, payload, options.iter().map(|(k, v)| (k, v)), None, |input| {
        request.session.native()?.with(|session| {
            let made = s::trn_submit_request {
                struct_size: size_of::<s::trn_submit_request>(),
                requested_job_id: pointer(&id),
                name: pointer(&name),
                session,
                plan,
                input: if plan.is_null() { input } else { null() },
                settings: settings.as_ptr(),
                setting_count: settings.len(),
                tags: tags.1.as_ptr(),
                tag_count: tags.1.len(),
            };
            unsafe { s::trn_scheduler_submit(scheduler.scheduler, &made, &mut out, &mut error) }
        })
    })?;
    match status {
        0 => Ok(Job::taken(out)),
        status => Err(unsafe { Error::take(status, error) }),
    }
}

unsafe extern "C" fn on_record(user: *mut c_void, record: *const s::trn_job_record) -> bool {
    let (list, r) = unsafe { (&mut *user.cast::<Vec<JobInfo>>(), &*record) };
    let tags = (0..r.tag_count).map(|i| unsafe { text(*r.tags.add(i)) }).collect();
    list.push(unsafe {
        JobInfo {
            id: text(r.id),
            name: text(r.name),
            user: text(r.user),
            session_id: text(r.session_id),
            state: JobState::of(r.state),
            attempt: r.attempt,
            owner: text(r.owner),
            submitted_ms: r.submitted_ms,
            started_ms: r.started_ms,
            ended_ms: r.ended_ms,
            rows: r.rows,
            bytes: r.bytes,
            tags,
        }
    });
    true
}

fn list(scheduler: &SchedulerInner, filter: &JobFilter) -> Result<Vec<JobInfo>> {
    let texts = [&filter.user, &filter.session_id, &filter.name, &filter.tag, &filter.after_id]
        .map(|text| text.as_deref().map(cstring));
    let made = s::trn_job_filter {
        struct_size: size_of::<s::trn_job_filter>(),
        states: filter.states.iter().fold(0, |bits, &state| bits | 1 << state as u32),
        user: pointer(&texts[0]),
        session_id: pointer(&texts[1]),
        name: pointer(&texts[2]),
        tag: pointer(&texts[3]),
        owner: null(),
        since_ms: 0,
        until_ms: 0,
        after_id: pointer(&texts[4]),
        limit: filter.limit,
    };
    let (mut found, mut error) = (Vec::new(), null_mut());
    let user = (&raw mut found).cast();
    match unsafe { s::trn_scheduler_list(scheduler.scheduler, &made, on_record, user, &mut error) } {
        0 => Ok(found),
        status => Err(unsafe { Error::take(status, error) }),
    }
}

#[async_trait]
impl SchedulerHandle for Scheduler {
    async fn create_session(&self, request: SessionRequest) -> Result<QuerySession> {
        let inner = self.0.clone();
        let mut request = request;
        let handle = native::session_open_with(&request, |made, out, error| unsafe {
            s::trn_scheduler_create_session(inner.scheduler, made, out, error)
        })?;
        request.native = Some(Arc::new(handle));
        Ok(QuerySession::with(request, None))
    }

    async fn submit(&self, request: SubmitRequest) -> Result<Arc<dyn JobHandle>> {
        let inner = self.0.clone();
        blocking(move || submit(&inner, &request)).await
    }

    async fn recover(&self, job_id: &str, resubmit: bool) -> Result<Arc<dyn JobHandle>> {
        self.find(job_id, move |scheduler, id, out, error| {
            let options = s::trn_recover_options { struct_size: size_of::<s::trn_recover_options>(), resubmit };
            unsafe { s::trn_scheduler_recover(scheduler, id.as_ptr(), &options, out, error) }
        })
        .await
    }

    async fn job(&self, job_id: &str) -> Result<Arc<dyn JobHandle>> {
        let call =
            |scheduler, id: CString, out, error| unsafe { s::trn_scheduler_job(scheduler, id.as_ptr(), out, error) };
        self.find(job_id, call).await
    }

    async fn list(&self, filter: JobFilter) -> Result<Vec<JobInfo>> {
        let inner = self.0.clone();
        blocking(move || list(&inner, &filter)).await
    }

    async fn forget(&self, job_id: &str) -> Result<()> {
        let (inner, id) = (self.0.clone(), cstring(job_id));
        blocking(move || {
            let (inner, mut error) = (inner, null_mut());
            match unsafe { s::trn_scheduler_forget(inner.scheduler, id.as_ptr(), &mut error) } {
                0 => Ok(()),
                status => Err(unsafe { Error::take(status, error) }),
            }
        })
        .await
    }
}

// ---- jobs

struct JobPointer(*mut s::trn_job);
unsafe impl Send for JobPointer {} // thread safe by contract
unsafe impl Sync for JobPointer {}
impl Drop for JobPointer {
    fn drop(&mut self) {
        unsafe { s::trn_job_unref(self.0) };
    }
}

struct Job {
    pointer: Arc<JobPointer>,
    id: String,
}

impl Job {
    fn taken(job: *mut s::trn_job) -> Arc<dyn JobHandle> {
        let id = unsafe { text(s::trn_job_id(job)) };
        Arc::new(Job { pointer: Arc::new(JobPointer(job)), id })
    }

    /// A call that may block, for the store.
    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(*mut s::trn_job, c::Errors) -> (c_int, T) + Send + 'static,
    ) -> Result<T> {
        let pointer = self.pointer.clone();
        blocking(move || {
            let (pointer, mut error) = (pointer, null_mut());
            match call(pointer.0, &mut error) {
                (0, value) => Ok(value),
                (status, _) => Err(unsafe { Error::take(status, error) }),
            }
        })
        .await
    }
}

unsafe extern "C" fn on_location(user: *mut c_void, location: *const s::trn_job_location) {
    let (list, l) = unsafe { (&mut *user.cast::<Vec<JobLocation>>(), &*location) };
    let ticket = unsafe { ffi::bytes(l.ticket, l.ticket_size) }.to_vec();
    list.push(JobLocation { uri: unsafe { text(l.uri) }, ticket, rows: l.rows, bytes: l.bytes });
}

const NO_STATUS: s::trn_job_status = s::trn_job_status {
    struct_size: size_of::<s::trn_job_status>(),
    state: 0,
    attempt: 0,
    stages: 0,
    stages_done: 0,
    tasks: 0,
    tasks_done: 0,
    submitted_ms: 0,
    started_ms: 0,
    ended_ms: 0,
    rows: 0,
    bytes: 0,
    is_cancelled: false,
    is_released: false,
};

#[async_trait]
impl JobHandle for Job {
    fn id(&self) -> &str {
        &self.id
    }

    async fn status(&self) -> Result<JobStatus> {
        let status = self.call(|job, error| {
            let (mut status, mut failure) = (NO_STATUS, null_mut());
            match unsafe { s::trn_job_get_status(job, &mut status, &mut failure, error) } {
                0 => (0, Some(unsafe { JobStatus::of(&status, failure) })),
                failed => (failed, None),
            }
        });
        status.await?.ok_or_else(|| Error::new(Code::Internal, "no status"))
    }

    async fn subscribe(&self) -> Result<JobEvents> {
        let subscription = self.call(|job, error| {
            let mut out = null_mut();
            let status = unsafe { s::trn_job_subscribe(job, &mut out, error) };
            (status, SubscriptionHandle(out))
        });
        Ok(Box::pin(Events { subscription: subscription.await?, next: None, is_over: false }))
    }

    async fn cancel(&self) -> Result<()> {
        self.call(|job, error| (unsafe { s::trn_job_cancel(job, error) }, ())).await
    }

    async fn completion(&self) -> Result<JobStatus> {
        let mut events = self.subscribe().await?;
        loop {
            match std::future::poll_fn(|cx| events.as_mut().poll_next(cx)).await {
                Some(Ok(status)) if !status.state.is_terminal() => continue,
                Some(end) => return end,
                None => return self.status().await,
            }
        }
    }

    async fn output(&self) -> Result<SendableRecordBatchStream> {
        let stream = self.call(|job, error| {
            let mut out = null_mut();
            let status = unsafe { s::trn_job_output(job, &mut out, error) };
            (status, StreamHandle(out))
        });
        native::batches(stream.await?, self.pointer.clone())
    }

    async fn locations(&self) -> Result<Vec<JobLocation>> {
        self.call(|job, error| {
            let mut found: Vec<JobLocation> = Vec::new();
            let user = (&raw mut found).cast();
            (unsafe { s::trn_job_locations(job, on_location, user, error) }, found)
        })
        .await
    }

    async fn metrics(&self) -> Result<String> {
        self.call(|job, error| {
            let mut out = null_mut();
            match unsafe { s::trn_job_metrics(job, &mut out, error) } {
                0 => (0, unsafe { owned_text(out) }),
                status => (status, String::new()),
            }
        })
        .await
    }

    async fn release(&self) -> Result<()> {
        self.call(|job, error| (unsafe { s::trn_job_release(job, error) }, ())).await
    }
}

// ---- events

struct SubscriptionHandle(*mut s::trn_job_subscription);
unsafe impl Send for SubscriptionHandle {}
impl Drop for SubscriptionHandle {
    fn drop(&mut self) {
        unsafe { s::trn_job_subscription_destroy(self.0) };
    }
}

type Next = Result<Option<JobStatus>>;

struct Events {
    subscription: SubscriptionHandle,
    next: Option<oneshot::Receiver<Next>>,
    is_over: bool,
}

unsafe extern "C" fn on_event(
    user: *mut c_void,
    result: c_int,
    status: *const s::trn_job_status,
    failure: *const trn_error,
) {
    let sender = unsafe { Box::from_raw(user.cast::<oneshot::Sender<Next>>()) };
    let next = if result != 0 {
        Err(Error::new(Code::from(result), "The subscription ended"))
    } else if status.is_null() {
        Ok(None)
    } else {
        let kept = if failure.is_null() { null_mut() } else { unsafe { c::trn_error_ref(failure.cast_mut()) } };
        Ok(Some(unsafe { JobStatus::of(&*status, kept) }))
    };
    let _ = sender.send(next); // nobody may wait any more: then it is dropped
}

impl Events {
    fn ask(&self) -> Result<oneshot::Receiver<Next>> {
        let (sender, receiver) = oneshot::channel();
        let user = Box::into_raw(Box::new(sender));
        let mut error = null_mut();
        match unsafe { s::trn_job_subscription_next(self.subscription.0, on_event, user.cast(), &mut error) } {
            0 => Ok(receiver),
            status => {
                drop(unsafe { Box::from_raw(user) }); // no callback comes
                Err(unsafe { Error::take(status, error) })
            }
        }
    }
}

impl Stream for Events {
    type Item = Result<JobStatus>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<JobStatus>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let mut next = match self.next.take() {
            Some(next) => next,
            None => match self.ask() {
                Ok(next) => next,
                Err(error) => {
                    self.is_over = true;
                    return Poll::Ready(Some(Err(error)));
                }
            },
        };
        match Pin::new(&mut next).poll(cx) {
            Poll::Pending => {
                self.next = Some(next);
                Poll::Pending
            }
            Poll::Ready(answer) => {
                let item = match answer {
                    Ok(Ok(status)) => status.map(Ok),
                    Ok(Err(error)) => Some(Err(error)),
                    Err(_) => Some(Err(Error::new(Code::Internal, "An event was not answered"))),
                };
                self.is_over = !matches!(&item, Some(Ok(status)) if !status.state.is_terminal());
                Poll::Ready(item)
            }
        }
    }
}
