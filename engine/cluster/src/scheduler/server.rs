//! The scheduler itself: Ballista's, with ids, job state, sessions and codecs of ours.
use super::abi::{LOGICAL, Options, PHYSICAL, Progress, Submission};
use super::codec::Codec;
use super::hooks::{Hooks, is_valid_id};
use super::jobs::{self, Cancelling, Jobs};
use crate::sessions;
use ballista_core::object_store::session_config_with_s3_support;
use ballista_core::serde::protobuf::execute_query_params::Query;
use ballista_core::serde::protobuf::get_job_status_result::FlightProxy;
use ballista_core::serde::protobuf::scheduler_grpc_server::SchedulerGrpc;
use ballista_core::serde::protobuf::{
    CleanJobDataParams, ExecuteQueryParams, GetJobMetricsParams, GetJobStatusResult, KeyValuePair,
    execute_query_failure_result, execute_query_result,
};
use ballista_core::version::insert_version_header;
use ballista_core::{BALLISTA_VERSION, JobId};
use ballista_scheduler::cluster::memory::{InMemoryClusterState, InMemoryJobState};
use ballista_scheduler::cluster::{BallistaCluster, ClusterState};
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use ballista_scheduler::scheduler_server::{JobIdGenerator, SchedulerServer};
use ballista_scheduler::state::session_manager::share_file_statistics_cache;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::sync::Arc;
use std::time::Duration;
use trunnion_engine::cluster::{Failure, Functions, LogicalCodec, STACK_SIZE, silence_panics, slice, status, text};
use trunnion_features::async_trait::async_trait;
use trunnion_features::datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use trunnion_features::prost::Message;
use trunnion_features::tokio;
use trunnion_features::tokio::net::TcpListener;
use trunnion_features::tokio::runtime::{Builder, Runtime};
use trunnion_features::tonic::{Request, Status};
use uuid::Uuid;

type Fallible<T> = Result<T, Failure>;
type Server = SchedulerServer<LogicalPlanNode, PhysicalPlanNode>;

/// How often a job that is to be cancelled is told so, until it has ended: one that is being planned does not hear it.
const CANCEL_EVERY: Duration = Duration::from_millis(20);

tokio::task_local! {
    /// The id that the submission on this task asked for.
    static REQUESTED: RefCell<Option<String>>;
}

/// Ballista asks for a job's id in the task that submits it.
struct Ids {
    jobs: Arc<Jobs>,
    hooks: Arc<Hooks>,
}

#[async_trait]
impl JobIdGenerator for Ids {
    async fn next_id(&self) -> String {
        if let Ok(Some(id)) = REQUESTED.try_with(RefCell::take) {
            return id;
        }
        // From the port.
        if let Some(id) = self.hooks.next_id()
            && self.jobs.reserve(&id, "")
        {
            return id;
        }
        Uuid::now_v7().to_string()
    }
}

pub struct Scheduler {
    runtime: Option<Runtime>,
    server: Server,
    cluster: Arc<InMemoryClusterState>,
    jobs: Arc<Jobs>,
    hooks: Arc<Hooks>,
    address: CString,
    proxies: bool,
}

fn from_status(status: Status) -> Failure {
    Failure::new(status.code() as i32, status.message())
}

fn unavailable(what: &str, error: impl std::fmt::Display) -> Failure {
    Failure::new(status::UNAVAILABLE, format!("{what}: {error}"))
}

fn not_found(id: &str) -> Failure {
    Failure::new(status::NOT_FOUND, format!("there is no job '{id}'"))
}

unsafe fn optional<'a>(pointer: *const c_char, what: &str) -> Fallible<Option<&'a str>> {
    (!pointer.is_null()).then(|| unsafe { text(pointer, what) }).transpose()
}

fn seconds(value: i64, initial: u64) -> u64 {
    u64::try_from(value).unwrap_or(initial)
}

unsafe fn configured(options: &Options) -> Fallible<SchedulerConfig> {
    use ballista_core::config::TaskSchedulingPolicy;
    let mut config = SchedulerConfig::default()
        .with_scheduler_policy(match options.pulls {
            true => TaskSchedulingPolicy::PullStaged,
            false => TaskSchedulingPolicy::PushStaged,
        })
        .with_enable_embedded_flight_proxy(options.proxies)
        .with_finished_job_data_clean_up_interval_seconds(seconds(options.data_seconds, 300))
        .with_finished_job_state_clean_up_interval_seconds(seconds(options.state_seconds, 3600));
    if options.executor_seconds > 0 {
        config.executor_timeout_seconds = options.executor_seconds as u64;
        config.no_executors_grace_period_seconds = options.executor_seconds as u64;
        config.expire_dead_executor_interval_seconds = (options.executor_seconds as u64).div_ceil(4).min(15);
    }
    if let Some(id) = unsafe { optional(options.id, "the scheduler's id") }? {
        config = config.with_scheduler_id(id);
    }
    Ok(config)
}

struct Made {
    server: Server,
    cluster: Arc<InMemoryClusterState>,
    jobs: Arc<Jobs>,
    hooks: Arc<Hooks>,
    listener: Option<TcpListener>,
}

async fn made(
    mut config: SchedulerConfig,
    functions: Functions,
    hooks: Arc<Hooks>,
    place: Option<(String, u16)>,
) -> Fallible<Made> {
    let listener = match &place {
        None => None,
        Some((host, port)) => {
            let bound = TcpListener::bind((host.as_str(), *port)).await;
            Some(bound.map_err(|error| unavailable(&format!("{host}:{port}"), error))?)
        }
    };
    if let (Some((host, _)), Some(listener)) = (&place, &listener) {
        // Executors call back there.
        let address = listener.local_addr().map_err(|error| unavailable("the port", error))?;
        config = config.with_hostname(host.as_str()).with_port(address.port());
    }
    let builder = sessions::builder(Some(functions));
    let inner = InMemoryJobState::new(
        config.scheduler_id.clone(),
        share_file_statistics_cache(builder),
        Arc::new(session_config_with_s3_support),
    );
    let jobs = Arc::new(Jobs::new(inner, Arc::clone(&hooks)));
    let codec = LogicalCodec::new(Arc::new(Codec::new(Arc::clone(&hooks))));
    config = sessions::with_codecs(config, Some(Arc::new(codec)));
    config.job_id_generator = Some(Arc::new(Ids { jobs: Arc::clone(&jobs), hooks: Arc::clone(&hooks) }));
    config.validate().map_err(|error| Failure::invalid(error.to_string()))?;
    let cluster = Arc::new(InMemoryClusterState::default());
    let both = BallistaCluster::new(Arc::clone(&cluster) as _, Arc::clone(&jobs) as _);
    let server =
        create_scheduler(both, Arc::new(config)).await.map_err(|error| Failure::internal(error.to_string()))?;
    Ok(Made { server, cluster, jobs, hooks, listener })
}

impl Scheduler {
    pub unsafe fn start(options: *const Options) -> Fallible<Arc<Self>> {
        silence_panics();
        let options = unsafe { options.as_ref() }.ok_or_else(|| Failure::invalid("options are missing"))?;
        if options.struct_size < size_of::<Options>() {
            return Err(Failure::invalid("options are of an older layout"));
        }
        let libraries = unsafe { slice(options.libraries, options.library_count, "libraries") }?;
        let functions = unsafe { Functions::read(libraries) }?;
        let hooks = Arc::new(unsafe { Hooks::new(&options.hooks) });
        let host = unsafe { optional(options.host, "the host") }?.map(str::to_string);
        let config = unsafe { configured(options) }?;
        let threads = match options.threads {
            0 => std::thread::available_parallelism().map_or(1, |count| count.get()),
            count => count.min(1024) as usize,
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("trn-ballista")
            .thread_stack_size(STACK_SIZE)
            .enable_all()
            .build()
            .map_err(|error| Failure::exhausted(format!("the scheduler's threads: {error}")))?;
        let place = host.map(|host| (host, options.port));
        let mut made = runtime.block_on(made(config, functions, hooks, place))?;
        let mut address = String::new();
        if let Some(listener) = made.listener.take() {
            address = listener.local_addr().map_err(|error| unavailable("the port", error))?.to_string();
            let server = made.server.clone();
            runtime.spawn(async move { start_grpc_service_with_listener(listener, server).await });
        }
        let address = CString::new(address).unwrap_or_default();
        let Made { server, cluster, jobs, hooks, .. } = made;
        Ok(Arc::new(Self { runtime: Some(runtime), server, cluster, jobs, hooks, address, proxies: options.proxies }))
    }

    pub fn stop(mut self, wait: Duration) {
        self.hooks.close(wait);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(wait);
        }
    }

    pub fn address(&self) -> &CStr {
        &self.address
    }

    /// Runs on the scheduler's threads, which have the stack for it, and waits.
    fn wait<T: Send + 'static>(&self, work: impl Future<Output = Fallible<T>> + Send + 'static) -> Fallible<T> {
        let runtime = self.runtime.as_ref().ok_or_else(|| Failure::internal("the scheduler is stopped"))?;
        if tokio::runtime::Handle::try_current().is_ok() {
            return Err(Failure::new(status::FAILED_PRECONDITION, "called on a thread of the scheduler"));
        }
        let task = runtime.spawn(work);
        runtime.block_on(task).map_err(|error| Failure::internal(format!("panic in the scheduler: {error}")))?
    }

    pub fn executors(&self) -> Fallible<usize> {
        let cluster = Arc::clone(&self.cluster);
        self.wait(async move { Ok(cluster.registered_executor_metadata().await.len()) })
    }

    /// The id.
    pub unsafe fn submit(&self, submission: *const Submission) -> Fallible<String> {
        let submission = unsafe { submission.as_ref() }.ok_or_else(|| Failure::invalid("no submission"))?;
        if submission.struct_size < size_of::<Submission>() {
            return Err(Failure::invalid("a submission of an older layout"));
        }
        let plan = unsafe { slice(submission.plan as *const u8, submission.plan_size, "plan") }?.to_vec();
        let query = match submission.kind {
            LOGICAL => Query::LogicalPlan(plan),
            PHYSICAL => Query::PhysicalPlan(plan),
            other => return Err(Failure::invalid(format!("a plan of kind {other}"))),
        };
        let name = unsafe { optional(submission.job_name, "the job's name") }?.unwrap_or_default().to_string();
        let mut settings = vec![];
        for setting in unsafe { slice(submission.settings, submission.setting_count, "settings") }? {
            let key = unsafe { text(setting.key, "a setting's key") }?.to_string();
            let value = unsafe { optional(setting.value, &key) }?.map(str::to_string);
            settings.push(KeyValuePair { key, value });
        }
        settings.retain(|setting| setting.key != "ballista.job.name");
        if !name.is_empty() {
            settings.push(KeyValuePair { key: "ballista.job.name".to_string(), value: Some(name.clone()) });
        }
        let session = unsafe { optional(submission.session_id, "the session's id") }?;
        let session_id = session.map_or_else(|| Uuid::now_v7().to_string(), str::to_string);
        let id = match unsafe { optional(submission.requested_id, "the job's id") }? {
            Some(id) if is_valid_id(id) => id.to_string(),
            Some(id) => return Err(Failure::invalid(format!("'{}' is no id for a job", id.escape_default()))),
            None => Uuid::now_v7().to_string(),
        };
        let params = ExecuteQueryParams { query: Some(query), session_id, settings, operation_id: id.clone() };
        let (server, jobs) = (self.server.clone(), Arc::clone(&self.jobs));
        self.wait(async move {
            if !jobs.reserve(&id, &name) {
                return Err(Failure::new(status::ALREADY_EXISTS, format!("there is a job '{id}' already")));
            }
            let submitted = REQUESTED.scope(RefCell::new(Some(id.clone())), submitted(&server, params)).await;
            if submitted.is_err() {
                jobs.unreserve(&id);
            }
            submitted.map(|()| id)
        })
    }

    pub fn status(&self, id: &str) -> Fallible<Vec<u8>> {
        let (jobs, id, proxies) = (Arc::clone(&self.jobs), id.to_string(), self.proxies);
        self.wait(async move {
            let status = Some(jobs.status(&id).ok_or_else(|| not_found(&id))?);
            let flight_proxy = proxies.then_some(FlightProxy::Local(true));
            Ok(GetJobStatusResult { status, flight_proxy }.encode_to_vec())
        })
    }

    pub fn progress(&self, id: &str) -> Fallible<Progress> {
        let (server, jobs, id) = (self.server.clone(), Arc::clone(&self.jobs), id.to_string());
        self.wait(async move {
            let kept = jobs.progress(&id).ok_or_else(|| not_found(&id))?;
            if !jobs.is_running(&id) {
                return Ok(kept);
            }
            match server.state.task_manager.get_running_job_cache().get(&JobId::new(&*id)) {
                Some(job) => Ok(jobs::progress(&*job.execution_graph.read().await)),
                None => Ok(kept),
            }
        })
    }

    pub fn metrics(&self, id: &str) -> Fallible<Vec<u8>> {
        let (server, id) = (self.server.clone(), id.to_string());
        self.wait(async move {
            let request = Request::new(GetJobMetricsParams { job_id: id });
            let result = SchedulerGrpc::get_job_metrics(&server, request).await.map_err(from_status)?;
            Ok(result.into_inner().encode_to_vec())
        })
    }

    pub fn cancel(&self, id: &str) -> Fallible<()> {
        let (server, jobs, id) = (self.server.clone(), Arc::clone(&self.jobs), id.to_string());
        self.wait(async move {
            match jobs.want_cancelled(&id) {
                Cancelling::Unknown if jobs.status(&id).is_none() => return Err(not_found(&id)),
                Cancelling::Unknown | Cancelling::Finished => return Ok(()),
                Cancelling::Wanted => {}
            }
            tokio::spawn(async move {
                while jobs.is_running(&id) && server.cancel_job(JobId::new(&*id)).await.is_ok() {
                    tokio::time::sleep(CANCEL_EVERY).await;
                }
            });
            Ok(())
        })
    }

    pub fn release(&self, id: &str) -> Fallible<()> {
        let (server, jobs, id) = (self.server.clone(), Arc::clone(&self.jobs), id.to_string());
        self.wait(async move {
            if jobs.is_running(&id) {
                return Err(Failure::new(status::FAILED_PRECONDITION, format!("the job '{id}' is not finished")));
            }
            let request = Request::new(CleanJobDataParams { job_id: id, remove_stage_ids: vec![] });
            SchedulerGrpc::clean_job_data(&server, request).await.map_err(from_status)?;
            Ok(())
        })
    }

    /// message { repeated JobStatus jobs = 1; }
    pub fn list(&self) -> Vec<u8> {
        let mut out = vec![];
        for job in self.jobs.list() {
            out.push(1 << 3 | 2);
            // A vector takes all that it is given.
            let _ = job.encode_length_delimited(&mut out);
        }
        out
    }
}

async fn submitted(server: &Server, params: ExecuteQueryParams) -> Fallible<()> {
    let mut request = Request::new(params);
    insert_version_header(request.metadata_mut());
    let result = SchedulerGrpc::execute_query(server, request).await.map_err(from_status)?;
    match result.into_inner().result {
        Some(execute_query_result::Result::Success(_)) => Ok(()),
        Some(execute_query_result::Result::Failure(failure)) => {
            use execute_query_failure_result::Failure as Reason;
            Err(Failure::invalid(match failure.failure {
                Some(
                    Reason::PlanParsingFailure(text) | Reason::SqlParsingFailure(text) | Reason::SessionNotFound(text),
                ) => text,
                None => format!("Ballista {BALLISTA_VERSION} refuses the plan"),
            }))
        }
        None => Err(Failure::internal("Ballista gave no answer")),
    }
}
