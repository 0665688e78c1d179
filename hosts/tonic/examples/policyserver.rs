//! A tonic server with Spark Connect on a backend that is written in Rust: a policy and a cache of results around in-process
//! DataFusion. usage: policyserver [ENGINE FUNCTIONS]
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use futures_core::Stream;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use tokio::signal::unix::{SignalKind, signal};
use tonic::transport::{Server, server::TcpIncoming};
use trunnion_tonic::*;

const RESULT_BYTES_MAX: usize = 16 << 20;

type Rows = Arc<(SchemaRef, Vec<RecordBatch>)>;
type Cache = Arc<Mutex<HashMap<Key, Rows>>>;
/// Users never share a result.
type Key = (String, [u8; 16]);

struct Platform {
    inner: Backend,
    cache: Cache,
}

#[async_trait]
impl QueryBackend for Platform {
    async fn open_session(&self, request: SessionRequest) -> Result<QuerySession> {
        self.inner.open_session(request).await
    }

    async fn execute_plan(&self, request: ExecutePlanRequest) -> Result<Arc<dyn QueryOperation>> {
        if request.session.user() == "night" {
            return Err(Error::new(Code::PermissionDenied, "Come back tomorrow"));
        }
        if request.session.groups().iter().any(|group| group == "suspended") {
            return Err(Error::new(Code::PermissionDenied, "You are suspended"));
        }
        let key = (request.session.user().to_string(), request.plan.fingerprint());
        let found = self.cache.lock().unwrap().get(&key).cloned();
        if let Some(rows) = found {
            println!("hit");
            return Ok(Arc::new(Kept { id: request.operation_id.unwrap_or_else(|| "kept".into()), rows }));
        }
        println!("run");
        let operation = self.inner.execute_plan(request).await?;
        Ok(Arc::new(Watched { operation, key, cache: self.cache.clone() }))
    }

    fn inner(&self) -> Option<&Backend> {
        Some(&self.inner)
    }
}

/// A query of the inner backend, whose result is kept when it has been read to its end.
struct Watched {
    operation: Arc<dyn QueryOperation>,
    key: Key,
    cache: Cache,
}

#[async_trait]
impl QueryOperation for Watched {
    fn id(&self) -> &str {
        self.operation.id()
    }
    async fn status(&self) -> Result<QueryStatus> {
        self.operation.status().await
    }
    async fn cancel(&self) -> Result<()> {
        self.operation.cancel().await
    }
    async fn result_stream(&self) -> Result<SendableRecordBatchStream> {
        let stream = self.operation.result_stream().await?;
        let (key, cache) = (self.key.clone(), self.cache.clone());
        Ok(Box::pin(Copying { stream, kept: Some(Vec::new()), bytes: 0, key, cache }))
    }
}

struct Copying {
    stream: SendableRecordBatchStream,
    kept: Option<Vec<RecordBatch>>, // None: too large
    bytes: usize,
    key: Key,
    cache: Cache,
}

impl Stream for Copying {
    type Item = Result<RecordBatch>;
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let item = ready!(self.stream.as_mut().poll_next(cx));
        match &item {
            Some(Ok(batch)) => {
                self.bytes += batch.get_array_memory_size();
                if self.bytes > RESULT_BYTES_MAX {
                    self.kept = None;
                }
                if let Some(kept) = &mut self.kept {
                    kept.push(batch.clone());
                }
            }
            Some(Err(_)) => self.kept = None,
            None => {
                if let Some(kept) = self.kept.take() {
                    let rows = Arc::new((self.stream.schema(), kept));
                    self.cache.lock().unwrap().insert(self.key.clone(), rows);
                }
            }
        }
        Poll::Ready(item)
    }
}
impl RecordBatchStream for Copying {
    fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }
}

/// A result from memory.
struct Kept {
    id: String,
    rows: Rows,
}

#[async_trait]
impl QueryOperation for Kept {
    fn id(&self) -> &str {
        &self.id
    }
    async fn status(&self) -> Result<QueryStatus> {
        Ok(QueryStatus::Finished)
    }
    async fn cancel(&self) -> Result<()> {
        Ok(())
    }
    async fn result_stream(&self) -> Result<SendableRecordBatchStream> {
        Ok(Box::pin(Replay { rows: self.rows.clone(), next: 0 }))
    }
}

struct Replay {
    rows: Rows,
    next: usize,
}
impl Stream for Replay {
    type Item = Result<RecordBatch>;
    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        self.next += 1;
        Poll::Ready(self.rows.1.get(self.next - 1).cloned().map(Ok))
    }
}
impl RecordBatchStream for Replay {
    fn schema(&self) -> SchemaRef {
        self.rows.0.clone()
    }
}

/// SQL text backwards, as a plan format.
struct Backwards;

#[async_trait]
impl QueryInputDecoder for Backwards {
    fn format(&self) -> &'static str {
        "example.backwards.v1"
    }
    async fn decode(&self, payload: &[u8], session: &QuerySession, _: &HashMap<String, String>) -> Result<Plan> {
        let text: Vec<u8> = payload.iter().rev().copied().collect();
        Registry::new()?.decode(session, "sql", &text, &HashMap::new()).await
    }
}

/// The traits without any protocol: a session, a plan in a format of our own, its rows.
async fn ask(backend: &dyn QueryBackend, registry: &Registry, query: &str) -> Result<usize> {
    let session = backend.open_session(SessionRequest::of("myself")).await?;
    let text: String = query.chars().rev().collect();
    let plan = registry.decode(&session, "example.backwards.v1", text.as_bytes(), &HashMap::new()).await?;
    let operation = backend.execute_plan(ExecutePlanRequest::new(session, plan)).await?;
    let mut stream = operation.result_stream().await?;
    let mut rows = 0;
    while let Some(batch) = std::future::poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
        rows += batch?.num_rows();
    }
    Ok(rows)
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let inner = Backend::embedded(arguments.first().map(String::as_str), arguments.get(1).map(String::as_str))?;
    let mut registry = Registry::new()?;
    registry.add_decoder(Arc::new(Backwards), tokio::runtime::Handle::current())?;
    let rows = ask(&inner, &registry, "select * from (values (1), (2), (3)) as t(a) where a > 1").await?;
    let platform = Arc::new(Platform { inner, cache: Cache::default() });
    let mut routes = tonic::service::RoutesBuilder::default(); // the program's own services are added to it, too
    SparkConnect { registry: Some(Arc::new(registry)) }.register(&mut routes, platform)?;
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?.with_nodelay(Some(true));
    println!("tonic: a backend in Rust ({rows} rows) on sc://{}", incoming.local_addr()?);
    let mut terminate = signal(SignalKind::terminate())?;
    let identify = tonic::service::InterceptorLayer::new(|mut request: tonic::Request<()>| {
        let groups = request.metadata().get("groups").and_then(|groups| groups.to_str().ok());
        let groups = groups.map(|groups| groups.split(',').map(str::to_owned).collect());
        request.extensions_mut().insert(Groups(groups.unwrap_or_default()));
        Ok(request)
    });
    let server = Server::builder().layer(identify).add_routes(routes.routes()).serve_with_incoming(incoming);
    tokio::select! {
        result = server => result?,
        _ = terminate.recv() => {}
    }
    Ok(())
}
