//! A Ballista cluster as a backend (feature "cluster": it needs a network, which is in libtrunnion_server).
use crate::ffi;
use crate::ffi_query::Errors;
use crate::ffi_scheduler::{trn_scheduler, trn_scheduler_options};
use crate::native::{Backend, pointer};
use crate::query::*;
use crate::scheduler::{JobStore, Scheduler, SchedulerOptions};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

#[allow(non_camel_case_types)]
#[repr(C)]
struct trn_ballista_options {
    struct_size: usize,
    connector: *mut c_void,
    scheduler: *const c_char,
    routes: *const c_void,
    scheduler_tls: bool,
    executor_tls: bool,
    ca_pem: *const c_char,
    cert_pem: *const c_char,
    key_pem: *const c_char,
    metadata: *const c_void,
    metadata_count: usize,
    fallback: c_int,
    functions: c_int,
    settings: *const c_void,
    setting_count: usize,
    spool_directory: *const c_char,
    inline_bytes_max: usize,
    fetch_bytes_max: usize,
    fetches_max: c_uint,
    timeout_ms: c_uint,
    threads: c_uint,
}

unsafe extern "C" {
    fn trn_connector_create_network(options: *const c_void, out: *mut *mut c_void, e: Errors) -> c_int;
    fn trn_connector_unref(connector: *mut c_void);
    fn trn_ballista_backend_create(
        options: *const trn_ballista_options,
        local: *mut ffi::trn_backend,
        out: *mut *mut ffi::trn_backend,
        e: Errors,
    ) -> c_int;
    fn trn_scheduler_create_ballista(
        options: *const trn_scheduler_options,
        ballista: *const trn_ballista_options,
        local: *mut ffi::trn_backend,
        out: *mut *mut trn_scheduler,
        e: Errors,
    ) -> c_int;
}

/// How a [`Backend::ballista`] works.
#[derive(Clone, Default)]
pub struct BallistaOptions {
    /// "host:port".
    pub scheduler: String,
    /// What the cluster cannot run exactly fails; otherwise it runs on the local backend.
    pub refuses: bool,
    /// Where rows that clients sent along are put for the cluster to read.
    pub spool_directory: Option<String>,
}

/// Calls `make` with what C wants to know.
fn with<T>(
    options: &BallistaOptions,
    make: impl FnOnce(*const trn_ballista_options, *mut *mut T, Errors) -> c_int,
) -> Result<*mut T> {
    let (scheduler, spool) = (cstring(&options.scheduler), options.spool_directory.as_deref().map(cstring));
    let (mut connector, mut out, mut error) = (null_mut(), null_mut(), null_mut());
    let mut status = unsafe { trn_connector_create_network(null(), &mut connector, &mut error) };
    if status == 0 {
        let made = trn_ballista_options {
            struct_size: size_of::<trn_ballista_options>(),
            connector,
            scheduler: scheduler.as_ptr(),
            routes: null(),
            scheduler_tls: false,
            executor_tls: false,
            ca_pem: null(),
            cert_pem: null(),
            key_pem: null(),
            metadata: null(),
            metadata_count: 0,
            fallback: options.refuses as c_int,
            functions: 0,
            settings: null(),
            setting_count: 0,
            spool_directory: pointer(&spool),
            inline_bytes_max: 0,
            fetch_bytes_max: 0,
            fetches_max: 0,
            timeout_ms: 0,
            threads: 0,
        };
        status = make(&made, &mut out, &mut error);
        unsafe { trn_connector_unref(connector) };
    }
    match status {
        0 => Ok(out),
        status => Err(unsafe { Error::take(status, error) }),
    }
}

impl Backend {
    /// Queries run on a Ballista cluster, what it cannot run on `local`, which also keeps sessions and tables. Does not connect.
    pub fn ballista(options: &BallistaOptions, local: &Backend) -> Result<Backend> {
        let made = with(options, |made, out, error| unsafe { trn_ballista_backend_create(made, local.0, out, error) });
        Ok(Backend(made?))
    }
}

impl Scheduler {
    /// Jobs run on a Ballista cluster and survive this process there; what it cannot run fails with `Unimplemented`. `local` keeps
    /// sessions and tables. Outputs are the cluster's: the output directory is not used. Does not connect.
    pub fn on_ballista(
        cluster: &BallistaOptions,
        local: &Backend,
        store: &JobStore,
        options: SchedulerOptions,
    ) -> Result<Scheduler> {
        let make = |scheduler, out: *mut *mut trn_scheduler, error| unsafe {
            with(cluster, |made, made_out, made_error| {
                trn_scheduler_create_ballista(scheduler, made, local.0, made_out, made_error)
            })
            .map_or_else(
                |failed| failed.give(error),
                |made| {
                    *out = made;
                    0
                },
            )
        };
        Scheduler::create(store, options, make)
    }
}
