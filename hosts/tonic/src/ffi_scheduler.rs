//! The C ABI of jobs: include/trunnion/scheduler.h.
#![allow(non_camel_case_types)]
use crate::ffi::{trn_backend, trn_error};
use crate::ffi_query::{Errors, trn_kv, trn_plan, trn_plan_input, trn_registry, trn_session, trn_stream};
use std::ffi::{c_char, c_int, c_uint, c_void};

pub enum trn_scheduler {}
pub enum trn_job {}
pub enum trn_job_store {}
pub enum trn_job_subscription {}

#[repr(C)]
pub struct trn_job_location {
    pub struct_size: usize,
    pub uri: *const c_char,
    pub ticket: *const c_void,
    pub ticket_size: usize,
    pub rows: i64,
    pub bytes: i64,
}

#[repr(C)]
pub struct trn_job_record {
    pub struct_size: usize,
    pub id: *const c_char,
    pub name: *const c_char,
    pub user: *const c_char,
    pub session_id: *const c_char,
    pub state: c_int,
    pub attempt: u64,
    pub owner: *const c_char,
    pub is_owner_alive: bool,
    pub is_cancelled: bool,
    pub is_released: bool,
    pub backend_id: *const c_char,
    pub submitted_ms: i64,
    pub started_ms: i64,
    pub ended_ms: i64,
    pub stages: u32,
    pub stages_done: u32,
    pub tasks: u32,
    pub tasks_done: u32,
    pub rows: i64,
    pub bytes: i64,
    pub tags: *const *const c_char,
    pub tag_count: usize,
    // What follows is not read from here.
}

#[repr(C)]
pub struct trn_job_filter {
    pub struct_size: usize,
    pub states: u32,
    pub user: *const c_char,
    pub session_id: *const c_char,
    pub name: *const c_char,
    pub tag: *const c_char,
    pub owner: *const c_char,
    pub since_ms: i64,
    pub until_ms: i64,
    pub after_id: *const c_char,
    pub limit: usize,
}

#[repr(C)]
pub struct trn_scheduler_options {
    pub struct_size: usize,
    pub store: *mut trn_job_store,
    pub output_directory: *const c_char,
    pub registry: *const trn_registry,
    pub name: *const c_char,
    pub lease_ms: u64,
    pub poll_ms: u64,
    pub jobs_running_max: c_uint,
    pub jobs_queued_max: c_uint,
    pub workers: c_uint,
}

#[repr(C)]
pub struct trn_submit_request {
    pub struct_size: usize,
    pub requested_job_id: *const c_char,
    pub name: *const c_char,
    pub session: *mut trn_session,
    pub plan: *mut trn_plan,
    pub input: *const trn_plan_input,
    pub settings: *const trn_kv,
    pub setting_count: usize,
    pub tags: *const *const c_char,
    pub tag_count: usize,
}

#[repr(C)]
pub struct trn_recover_options {
    pub struct_size: usize,
    pub resubmit: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct trn_job_status {
    pub struct_size: usize,
    pub state: c_int,
    pub attempt: u64,
    pub stages: u32,
    pub stages_done: u32,
    pub tasks: u32,
    pub tasks_done: u32,
    pub submitted_ms: i64,
    pub started_ms: i64,
    pub ended_ms: i64,
    pub rows: i64,
    pub bytes: i64,
    pub is_cancelled: bool,
    pub is_released: bool,
}

pub type Each = unsafe extern "C" fn(*mut c_void, *const trn_job_record) -> bool;
pub type EventDone = unsafe extern "C" fn(*mut c_void, c_int, *const trn_job_status, *const trn_error);

unsafe extern "C" {
    pub fn trn_sqlite_job_store_open(path: *const c_char, out: *mut *mut trn_job_store, e: Errors) -> c_int;
    pub fn trn_postgres_job_store_open(conninfo: *const c_char, out: *mut *mut trn_job_store, e: Errors) -> c_int;
    pub fn trn_job_store_unref(store: *mut trn_job_store);

    pub fn trn_scheduler_create(
        options: *const trn_scheduler_options,
        backend: *mut trn_backend,
        out: *mut *mut trn_scheduler,
        e: Errors,
    ) -> c_int;
    pub fn trn_scheduler_unref(scheduler: *mut trn_scheduler);
    pub fn trn_scheduler_create_session(
        scheduler: *mut trn_scheduler,
        request: *const crate::ffi_query::trn_session_request,
        out: *mut *mut trn_session,
        e: Errors,
    ) -> c_int;
    pub fn trn_scheduler_submit(
        scheduler: *mut trn_scheduler,
        request: *const trn_submit_request,
        out: *mut *mut trn_job,
        e: Errors,
    ) -> c_int;
    pub fn trn_scheduler_recover(
        scheduler: *mut trn_scheduler,
        id: *const c_char,
        options: *const trn_recover_options,
        out: *mut *mut trn_job,
        e: Errors,
    ) -> c_int;
    pub fn trn_scheduler_job(
        scheduler: *mut trn_scheduler,
        id: *const c_char,
        out: *mut *mut trn_job,
        e: Errors,
    ) -> c_int;
    pub fn trn_scheduler_list(
        scheduler: *mut trn_scheduler,
        filter: *const trn_job_filter,
        each: Each,
        user: *mut c_void,
        e: Errors,
    ) -> c_int;
    pub fn trn_scheduler_forget(scheduler: *mut trn_scheduler, id: *const c_char, e: Errors) -> c_int;

    pub fn trn_job_unref(job: *mut trn_job);
    pub fn trn_job_id(job: *const trn_job) -> *const c_char;
    pub fn trn_job_get_status(
        job: *mut trn_job,
        status: *mut trn_job_status,
        failure: *mut *mut trn_error,
        e: Errors,
    ) -> c_int;
    pub fn trn_job_cancel(job: *mut trn_job, e: Errors) -> c_int;
    pub fn trn_job_subscribe(job: *mut trn_job, out: *mut *mut trn_job_subscription, e: Errors) -> c_int;
    pub fn trn_job_subscription_next(
        subscription: *mut trn_job_subscription,
        done: EventDone,
        user: *mut c_void,
        e: Errors,
    ) -> c_int;
    pub fn trn_job_subscription_destroy(subscription: *mut trn_job_subscription);
    pub fn trn_job_locations(
        job: *mut trn_job,
        each: unsafe extern "C" fn(*mut c_void, *const trn_job_location),
        user: *mut c_void,
        e: Errors,
    ) -> c_int;
    pub fn trn_job_output(job: *mut trn_job, out: *mut *mut trn_stream, e: Errors) -> c_int;
    pub fn trn_job_metrics(job: *mut trn_job, out: *mut *mut c_char, e: Errors) -> c_int;
    pub fn trn_job_release(job: *mut trn_job, e: Errors) -> c_int;
}
