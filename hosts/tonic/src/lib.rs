//! Trunnion's frontends in a tonic server: the server, its listener, layers and interceptors stay the program's own.
//!
//! `Routes` is a table of methods that C frontends registered; [`Mount`] is the tower service that hands their calls over. Use it as
//! the fallback of the server's router: `axum_router.fallback_service(routes.mount())`.
//!
//! With a backend or policies written in Rust: [`QueryBackend`], [`QueryOperation`], [`QueryInputDecoder`], and
//! [`GrpcQueryFrontend::register`], which mounts a protocol on any of them. Queries that outlive their call are jobs:
//! [`SchedulerHandle`], [`JobHandle`], and [`Scheduler`], which is the bundled one.
mod adapt;
#[cfg(feature = "cluster")]
mod cluster;
pub mod ffi;
mod ffi_query;
mod ffi_scheduler;
mod frontend;
mod host;
mod mount;
mod native;
mod query;
mod scheduler;

pub use async_trait::async_trait;
#[cfg(feature = "cluster")]
pub use cluster::BallistaOptions;
pub use frontend::{FlightSql, GrpcQueryFrontend, Registry, SparkConnect};
pub use mount::Mount;
pub use native::Backend;
pub use query::{
    Code, Error, ExecutePlanRequest, Plan, QueryBackend, QueryInputDecoder, QueryOperation, QuerySession, QueryStatus,
    RecordBatchStream, Result, SendableRecordBatchStream, SessionRequest,
};
pub use scheduler::{
    JobEvents, JobFilter, JobHandle, JobInfo, JobLocation, JobQuery, JobState, JobStatus, JobStore, Scheduler,
    SchedulerHandle, SchedulerOptions, SubmitRequest,
};
use std::ffi::{CStr, CString};
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// Who sends a request, as the program's own layer or interceptor found out: put it into the request's extensions.
#[derive(Clone, Debug)]
pub struct Identity(pub String);

/// The groups of who sends a request: beside the [`Identity`].
#[derive(Clone, Debug)]
pub struct Groups(pub Vec<String>);

struct Inner {
    routes: *mut ffi::trn_routes,
    backend: *mut ffi::trn_backend,
    #[allow(dead_code)] // what serves reads it; dropped after the routes
    registry: Option<Arc<Registry>>,
}
// Routes are only read once they serve; the backend is thread safe by contract.
unsafe impl Send for Inner {}
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        unsafe {
            ffi::trn_routes_destroy(self.routes);
            ffi::trn_backend_unref(self.backend);
        }
    }
}

/// A table of methods and the backend behind it. Dropped with its last clone; stop the server first.
#[derive(Clone)]
pub struct Routes(Arc<Inner>);

fn failure(what: &str, status: i32, error: *mut ffi::trn_error) -> String {
    unsafe {
        let text = if error.is_null() {
            String::new()
        } else {
            CStr::from_ptr(ffi::trn_error_message(error)).to_string_lossy().into_owned()
        };
        ffi::trn_error_unref(error);
        format!("{what}: status {status}: {text}")
    }
}

impl Routes {
    /// Spark Connect on in-process DataFusion. `None`: the libraries are searched beside the program and by the loader.
    pub fn embedded(engine: Option<&str>, functions: Option<&str>) -> std::result::Result<Routes, String> {
        let engine = engine.map(CString::new).transpose().map_err(|e| e.to_string())?;
        let functions = functions.map(CString::new).transpose().map_err(|e| e.to_string())?;
        let options = ffi::trn_embedded_options {
            struct_size: size_of::<ffi::trn_embedded_options>(),
            engine_path: engine.as_ref().map_or(null(), |p| p.as_ptr()),
            functions_path: functions.as_ref().map_or(null(), |p| p.as_ptr()),
            threads: 0,
            memory_bytes: 0,
            spill_directory: null(),
        };
        let mut inner = Inner { routes: null_mut(), backend: null_mut(), registry: None };
        let mut error = null_mut();
        unsafe {
            let status = ffi::trn_embedded_backend_create(&options, &mut inner.backend, &mut error);
            if status != 0 {
                return Err(failure("backend", status, error));
            }
            let mut spark = null_mut();
            let mut status = ffi::trn_routes_create(&mut inner.routes);
            if status == 0 {
                status = ffi_query::trn_spark_frontend_create(null(), &mut spark);
            }
            if status == 0 {
                status = ffi::trn_frontend_register(spark, inner.routes, inner.backend, &mut error);
            }
            ffi::trn_frontend_destroy(spark);
            if status != 0 {
                return Err(failure("frontend", status, error));
            }
        }
        Ok(Routes(Arc::new(inner)))
    }

    /// Routes that the program filled itself, with frontends and a backend of its choice.
    ///
    /// # Safety
    /// `routes` comes from `trn_routes_create`, is complete, and is nobody else's from now on.
    pub unsafe fn take(routes: *mut ffi::trn_routes) -> Routes {
        Routes(Arc::new(Inner { routes, backend: null_mut(), registry: None }))
    }

    /// The service that serves these routes.
    pub fn mount(&self) -> Mount {
        Mount::new(self.clone())
    }

    fn find(&self, path: &str) -> Option<mount::Method> {
        let method = unsafe { ffi::trn_routes_find(self.0.routes, path.as_ptr().cast(), path.len()) };
        (!method.is_null()).then_some(mount::Method(method))
    }
}
