//! The proposal's `GrpcQueryFrontend`: frontends that are registered in a server's routes, on any [`QueryBackend`].
use crate::adapt;
use crate::ffi;
use crate::ffi_query as c;
use crate::mount::Mount;
use crate::native::{self, Backend};
use crate::query::*;
use crate::{Inner, Routes};
use bytes::Bytes;
use std::collections::HashMap;
use std::convert::Infallible;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::RoutesBuilder;

struct RegistryPointer(*mut c::trn_registry);
unsafe impl Send for RegistryPointer {} // changed only while nobody else has it
unsafe impl Sync for RegistryPointer {}
impl Drop for RegistryPointer {
    fn drop(&mut self) {
        unsafe { c::trn_registry_destroy(self.0) };
    }
}

/// Plan formats: the built-in ones ("sql", "substrait.plan.v1", "datafusion.logical.v1", "datafusion.physical.v1") and one's own.
pub struct Registry(Arc<RegistryPointer>);

impl Registry {
    pub fn new() -> Result<Registry> {
        let mut out = null_mut();
        match unsafe { c::trn_registry_create(&mut out) } {
            0 => Ok(Registry(Arc::new(RegistryPointer(out)))),
            status => Err(Error::new(Code::from(status), "The registry")),
        }
    }

    pub(crate) fn raw(&self) -> *const c::trn_registry {
        self.0.0
    }

    /// Its futures run on `runtime`, which has several threads. `AlreadyExists` names a format that is taken;
    /// `FailedPrecondition`: something is still being decoded.
    pub fn add_decoder(&mut self, decoder: Arc<dyn QueryInputDecoder>, runtime: Handle) -> Result<()> {
        let in_use = || Error::new(Code::FailedPrecondition, "Something is being decoded");
        let pointer = Arc::get_mut(&mut self.0).ok_or_else(in_use)?;
        unsafe { adapt::add_decoder(pointer.0, decoder, runtime) }
    }

    /// Decodes by the format's name. The session is one of a backend in C. `InvalidArgument` lists the known formats. When
    /// the future is dropped - a deadline, a client that is gone - decoding ends soon, in C as in decoders of one's own.
    pub async fn decode(
        &self,
        session: &QuerySession,
        format: &str,
        payload: &[u8],
        options: &HashMap<String, String>,
    ) -> Result<Plan> {
        session.native()?;
        let (_waiting, cancel) = native::Waiting::new()?;
        let (registry, session) = (self.0.clone(), session.clone());
        let (format, payload, options) = (format.to_owned(), payload.to_vec(), options.clone());
        let decode = move |session: *mut c::trn_session| {
            native::with_input(&format, &payload, options.iter(), Some(&cancel), |input| {
                let (mut out, mut error) = (null_mut(), null_mut());
                match unsafe { c::trn_registry_decode(registry.0, session, input, null(), &mut out, &mut error) } {
                    0 => Ok(Plan(out)),
                    status => Err(unsafe { Error::take(status, error) }),
                }
            })
        };
        native::blocking(move || session.native()?.with(decode)?).await
    }
}

/// A protocol that can be mounted in a tonic server. Within a runtime of several threads, on which the backend's futures run.
///
/// ```no_run
/// use std::sync::Arc;
/// use trunnion_tonic::{Backend, GrpcQueryFrontend, SparkConnect};
///
/// # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
/// let mut routes = tonic::service::RoutesBuilder::default(); // the program's own services are added to it, too
/// SparkConnect::default().register(&mut routes, Arc::new(Backend::embedded(None, None)?))?;
/// let incoming = tonic::transport::server::TcpIncoming::bind("127.0.0.1:15002".parse()?)?.with_nodelay(Some(true));
/// tonic::transport::Server::builder().add_routes(routes.routes()).serve_with_incoming(incoming).await?;
/// # Ok(())
/// # }
/// ```
pub trait GrpcQueryFrontend: Send + Sync {
    fn register(&self, routes: &mut RoutesBuilder, backend: Arc<dyn QueryBackend>) -> Result<()>;
}

/// Spark Connect.
#[derive(Default)]
pub struct SparkConnect {
    /// Of plan formats for Spark's extensions.
    pub registry: Option<Arc<Registry>>,
}

/// Arrow Flight SQL.
#[derive(Default)]
pub struct FlightSql {}

/// Takes `frontend`, whatever becomes of it.
fn mount(
    frontend: *mut ffi::trn_frontend,
    backend: Arc<dyn QueryBackend>,
    registry: Option<Arc<Registry>>,
) -> Result<Mount> {
    let frontend = Frontend(frontend);
    let runtime = Handle::try_current().map_err(|error| Error::new(Code::FailedPrecondition, error.to_string()))?;
    let native = Backend::of(backend, runtime)?;
    let mut inner = Inner { routes: null_mut(), backend: unsafe { c::trn_backend_ref(native.0) }, registry };
    let mut error = null_mut();
    let status = unsafe {
        match ffi::trn_routes_create(&mut inner.routes) {
            0 => ffi::trn_frontend_register(frontend.0, inner.routes, native.0, &mut error),
            status => status,
        }
    };
    if status != 0 {
        return Err(unsafe { Error::take(status, error) });
    }
    Ok(Routes(Arc::new(inner)).mount())
}

struct Frontend(*mut ffi::trn_frontend);
impl Drop for Frontend {
    fn drop(&mut self) {
        unsafe { ffi::trn_frontend_destroy(self.0) };
    }
}

impl GrpcQueryFrontend for SparkConnect {
    fn register(&self, routes: &mut RoutesBuilder, backend: Arc<dyn QueryBackend>) -> Result<()> {
        let options = c::trn_spark_options {
            struct_size: size_of::<c::trn_spark_options>(),
            workers: 0,
            session_idle_ms: 0,
            detached_ms: 0,
            response_log_bytes: 0,
            timezone: null(),
            stream_ms: 0,
            registry: self.registry.as_ref().map_or(null(), |registry| registry.raw()),
        };
        let mut spark = null_mut();
        match unsafe { c::trn_spark_frontend_create(&options, &mut spark) } {
            0 => routes.add_service(SparkService(mount(spark, backend, self.registry.clone())?)),
            status => return Err(Error::new(Code::from(status), "Spark Connect")),
        };
        Ok(())
    }
}

impl GrpcQueryFrontend for FlightSql {
    fn register(&self, routes: &mut RoutesBuilder, backend: Arc<dyn QueryBackend>) -> Result<()> {
        let mut flight = null_mut();
        match unsafe { c::trn_flightsql_frontend_create(null(), &mut flight) } {
            0 => routes.add_service(FlightService(mount(flight, backend, None)?)),
            status => return Err(Error::new(Code::from(status), "Flight SQL")),
        };
        Ok(())
    }
}

macro_rules! named {
    ($service:ident, $name:literal) => {
        #[derive(Clone)]
        struct $service(Mount);
        impl NamedService for $service {
            const NAME: &'static str = $name;
        }
        impl<B> tower_service::Service<http::Request<B>> for $service
        where
            B: http_body::Body<Data = Bytes> + Send + 'static,
            B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        {
            type Response = http::Response<Body>;
            type Error = Infallible;
            type Future = <Mount as tower_service::Service<http::Request<B>>>::Future;

            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::result::Result<(), Infallible>> {
                Poll::Ready(Ok(()))
            }
            fn call(&mut self, request: http::Request<B>) -> Self::Future {
                tower_service::Service::call(&mut self.0, request)
            }
        }
    };
}
named!(SparkService, "spark.connect.SparkConnectService");
named!(FlightService, "arrow.flight.protocol.FlightService");
