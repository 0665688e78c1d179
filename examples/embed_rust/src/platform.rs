//! The platform: decides for each query where it runs. Small ones run here, at once; joins and aggregations become jobs on the
//! other backend, under ids of the platform's own, and can be found, followed and fetched by them from any process.
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use trunnion_tonic::*;
use uuid::Uuid;

pub struct Platform {
    pub here: Backend,
    pub jobs: Arc<dyn SchedulerHandle>,
    sessions: Mutex<HashMap<String, QuerySession>>, // of the scheduler, by the id of the client's
}

#[derive(Debug, PartialEq)]
enum Place {
    Here,
    Job,
}

/// The setting says it, or the plan does.
fn place_of(session: &QuerySession, plan: &Plan) -> Result<Place> {
    match session.setting("platform.run").as_deref() {
        Some("here") => return Ok(Place::Here),
        Some("job") => return Ok(Place::Job),
        Some(other) => {
            let text = format!("platform.run is 'here' or 'job', not '{other}'");
            return Err(Error::new(Code::InvalidArgument, text));
        }
        None => {}
    }
    let text = plan.print()?.to_lowercase();
    let is_heavy = text.lines().any(|line| matches!(line.split_whitespace().next(), Some("join" | "aggregate")));
    Ok(if is_heavy { Place::Job } else { Place::Here })
}

impl Platform {
    pub fn new(here: Backend, jobs: Arc<dyn SchedulerHandle>) -> Platform {
        Platform { here, jobs, sessions: Mutex::default() }
    }

    /// The scheduler's session of a client: the same user and groups; another one when the groups are others than before.
    async fn job_session(&self, session: &QuerySession) -> Result<QuerySession> {
        let groups = session.groups();
        if let Some(found) = self.sessions.lock().unwrap().get(session.id())
            && found.groups() == groups
        {
            return Ok(found.clone());
        }
        let mut request = SessionRequest::of(session.user());
        request.client = "platform".into();
        request.groups = groups;
        request.is_authenticated = session.is_authenticated();
        let made = self.jobs.create_session(request).await?;
        self.sessions.lock().unwrap().insert(session.id().into(), made.clone());
        Ok(made)
    }

    /// The plan travels as bytes: the other backend need not know this one's tables.
    async fn submit(&self, request: &ExecutePlanRequest) -> Result<Arc<dyn JobHandle>> {
        const FORMAT: &str = "datafusion.logical.v1";
        let session = self.job_session(&request.session).await?;
        let payload = tokio::task::block_in_place(|| request.plan.encode(&request.session, FORMAT))?;
        let id = Uuid::now_v7().to_string();
        let query = JobQuery::Encoded { format: FORMAT.into(), payload, options: Vec::new() };
        let name = request.statement.clone().map(|text| text.chars().take(200).collect());
        let submit = SubmitRequest {
            requested_job_id: Some(id),
            name,
            tags: vec![format!("user:{}", request.session.user())],
            ..SubmitRequest::new(session, query)
        };
        self.jobs.submit(submit).await
    }
}

#[async_trait]
impl QueryBackend for Platform {
    async fn open_session(&self, request: SessionRequest) -> Result<QuerySession> {
        self.here.open_session(request).await
    }

    async fn execute_plan(&self, request: ExecutePlanRequest) -> Result<Arc<dyn QueryOperation>> {
        if request.session.user() == "guest" {
            return Err(Error::new(Code::PermissionDenied, "guests may look at schemas only"));
        }
        if place_of(&request.session, &request.plan)? == Place::Here {
            println!("here");
            return self.here.execute_plan(request).await;
        }
        match self.submit(&request).await {
            Ok(job) => {
                println!("job {}", job.id());
                Ok(Arc::new(JobOperation { job, here: self.here.clone(), request }))
            }
            // Rows that only this process has, say: there is no way to send them.
            Err(error) if error.code == Code::Unimplemented => {
                println!("here: {}", error.message);
                self.here.execute_plan(request).await
            }
            Err(error) => Err(error),
        }
    }

    fn inner(&self) -> Option<&Backend> {
        Some(&self.here) // tables, files and decoding
    }
}

/// A job as the frontend sees it.
struct JobOperation {
    job: Arc<dyn JobHandle>,
    here: Backend,
    request: ExecutePlanRequest,
}

#[async_trait]
impl QueryOperation for JobOperation {
    fn id(&self) -> &str {
        self.job.id()
    }

    async fn status(&self) -> Result<QueryStatus> {
        Ok(match self.job.status().await?.state {
            JobState::Queued => QueryStatus::Pending,
            JobState::Running => QueryStatus::Running,
            JobState::Succeeded => QueryStatus::Finished,
            JobState::Cancelled => QueryStatus::Cancelled,
            JobState::Failed | JobState::Lost => QueryStatus::Failed,
        })
    }

    async fn cancel(&self) -> Result<()> {
        self.job.cancel().await
    }

    async fn result_stream(&self) -> Result<SendableRecordBatchStream> {
        let end = self.job.completion().await?;
        match (end.state, end.failure) {
            (JobState::Succeeded, _) => self.job.output().await,
            // Something that the cluster cannot run: its name is in the message.
            (_, Some(failure)) if failure.code == Code::Unimplemented => {
                println!("here: {}", failure.message);
                self.here.execute_plan(self.request.clone()).await?.result_stream().await
            }
            (_, Some(failure)) => Err(failure),
            (state, None) => Err(Error::new(Code::Aborted, format!("job {} is {state:?}", self.job.id()))),
        }
    }
}
