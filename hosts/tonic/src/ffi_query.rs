//! The C ABI of queries, as far as this host uses it: include/trunnion/{error,session,plan,backend,layer,operation,stream,
//! decoder,registry,frontend}.h.
#![allow(non_camel_case_types)]
use crate::ffi::{trn_backend, trn_error, trn_frontend};
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use std::ffi::{c_char, c_int, c_uint, c_void};

pub enum trn_session {}
pub enum trn_plan {}
pub enum trn_operation {}
pub enum trn_stream {}
pub enum trn_layer {}
pub enum trn_cancel {}
pub enum trn_layer_session {}
pub enum trn_registry {}

pub type Errors = *mut *mut trn_error;
type Slot = Option<unsafe extern "C" fn()>; // optional, and not used from here

#[repr(C)]
pub struct trn_kv {
    pub key: *const c_char,
    pub value: *const c_char,
}

#[repr(C)]
pub struct trn_error_spec {
    pub struct_size: usize,
    pub status: c_int,
    pub condition: *const c_char,
    pub sqlstate: *const c_char,
    pub message: *const c_char,
    pub params: *const trn_kv,
    pub param_count: usize,
    pub position: [i32; 2],
    pub has_position: bool,
    pub cause: *mut trn_error,
}

#[repr(C)]
pub struct trn_session_request {
    pub struct_size: usize,
    pub id: *const c_char,
    pub user: *const c_char,
    pub client: *const c_char,
    pub settings: *const trn_kv,
    pub setting_count: usize,
    pub groups: *const *const c_char,
    pub group_count: usize,
    pub is_authenticated: bool,
}

#[repr(C)]
pub struct trn_execute_request {
    pub struct_size: usize,
    pub operation_id: *const c_char,
    pub plan: *mut trn_plan,
    pub tags: *const *const c_char,
    pub tag_count: usize,
    pub statement: *const c_char,
    pub protocol: *const c_char,
    pub traceparent: *const c_char,
    pub policy: *const c_char,
}

#[repr(C)]
pub struct trn_plan_input {
    pub struct_size: usize,
    pub format: *const c_char,
    pub data: *const c_void,
    pub size: usize,
    pub options: *const trn_kv,
    pub option_count: usize,
    pub resolve: Slot,
    pub resolve_user: *mut c_void,
    pub parameter_schema: *const c_void,
    pub parameters: *const c_void,
    pub parameter_row: i64,
    pub cancel: *mut trn_cancel,
}

#[repr(C)]
pub struct trn_bytes {
    pub data: *const c_void,
    pub size: usize,
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
    pub owner: *mut c_void,
}

#[repr(C)]
pub struct trn_backend_ops {
    pub struct_size: usize,
    pub open_session: unsafe extern "C" fn(*mut c_void, *mut trn_session, *mut *mut c_void, Errors) -> c_int,
    pub close_session: unsafe extern "C" fn(*mut c_void, *mut c_void),
    pub sources: [Slot; 3],
    pub execute: unsafe extern "C" fn(
        *mut c_void,
        *mut c_void,
        *const trn_execute_request,
        *mut *mut trn_operation,
        Errors,
    ) -> c_int,
    pub explain: Slot,
    pub destroy: unsafe extern "C" fn(*mut c_void),
    pub others: [Slot; 6],
}

#[repr(C)]
pub struct trn_layer_ops {
    pub struct_size: usize,
    pub name: *const c_char,
    pub role: c_int,
    pub open_session: unsafe extern "C" fn(*mut c_void, *mut trn_layer_session, *mut *mut c_void, Errors) -> c_int,
    pub close_session: unsafe extern "C" fn(*mut c_void, *mut trn_layer_session, *mut c_void),
    pub sources: [Slot; 3],
    pub execute: unsafe extern "C" fn(
        *mut c_void,
        *mut trn_layer_session,
        *const trn_execute_request,
        *mut *mut trn_operation,
        Errors,
    ) -> c_int,
    pub others: [Slot; 5],
    pub destroy: unsafe extern "C" fn(*mut c_void),
    pub statements: [Slot; 2],
}

#[repr(C)]
pub struct trn_operation_ops {
    pub struct_size: usize,
    pub state: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub cancel: unsafe extern "C" fn(*mut c_void),
    pub result_stream: unsafe extern "C" fn(*mut c_void, *mut *mut trn_stream, Errors) -> c_int,
    pub metrics: Slot,
    pub destroy: unsafe extern "C" fn(*mut c_void),
}

pub type ArrayDone = unsafe extern "C" fn(*mut c_void, c_int, *const trn_error, *mut FFI_ArrowArray);

#[repr(C)]
pub struct trn_stream_ops {
    pub struct_size: usize,
    pub schema: unsafe extern "C" fn(*mut c_void, *mut FFI_ArrowSchema, Errors) -> c_int,
    pub schema_ipc: Slot,
    pub next_array: unsafe extern "C" fn(*mut c_void, ArrayDone, *mut c_void, Errors) -> c_int,
    pub next_ipc: Slot,
    pub cancel: unsafe extern "C" fn(*mut c_void),
    pub destroy: unsafe extern "C" fn(*mut c_void),
}

#[repr(C)]
pub struct trn_decoder_ops {
    pub struct_size: usize,
    pub decode:
        unsafe extern "C" fn(*mut c_void, *mut trn_session, *const trn_plan_input, *mut *mut trn_plan, Errors) -> c_int,
    pub asynchronous: [Slot; 2],
    pub destroy: unsafe extern "C" fn(*mut c_void),
}

#[repr(C)]
pub struct trn_spark_options {
    pub struct_size: usize,
    pub workers: c_uint,
    pub session_idle_ms: u64,
    pub detached_ms: u64,
    pub response_log_bytes: usize,
    pub timezone: *const c_char,
    pub stream_ms: u64,
    pub registry: *const trn_registry,
}

unsafe extern "C" {
    pub fn trn_cancel_create(out: *mut *mut trn_cancel) -> c_int;
    pub fn trn_cancel_unref(cancel: *mut trn_cancel);
    pub fn trn_cancel_request(cancel: *mut trn_cancel);
    pub fn trn_cancel_is_requested(cancel: *const trn_cancel) -> bool;
    pub fn trn_error_create(spec: *const trn_error_spec) -> *mut trn_error;
    pub fn trn_error_ref(error: *mut trn_error) -> *mut trn_error;
    pub fn trn_error_status(error: *const trn_error) -> c_int;
    pub fn trn_error_condition(error: *const trn_error) -> *const c_char;
    pub fn trn_free(memory: *mut c_void);

    pub fn trn_backend_create(ops: *const trn_backend_ops, this: *mut c_void, out: *mut *mut trn_backend) -> c_int;
    pub fn trn_backend_ref(backend: *mut trn_backend) -> *mut trn_backend;
    pub fn trn_backend_execute(
        session: *mut trn_session,
        request: *const trn_execute_request,
        out: *mut *mut trn_operation,
        e: Errors,
    ) -> c_int;
    pub fn trn_backend_encode(
        session: *mut trn_session,
        plan: *mut trn_plan,
        format: *const c_char,
        out: *mut trn_bytes,
        e: Errors,
    ) -> c_int;
    pub fn trn_layer_create(
        ops: *const trn_layer_ops,
        this: *mut c_void,
        inner: *mut trn_backend,
        out: *mut *mut trn_backend,
        e: Errors,
    ) -> c_int;
    pub fn trn_layer_session_get(session: *const trn_layer_session) -> *mut trn_session;
    pub fn trn_layer_session_state(session: *const trn_layer_session) -> *mut c_void;
    pub fn trn_layer_session_layer(session: *const trn_layer_session) -> *mut trn_layer;
    pub fn trn_layer_next(layer: *const trn_layer) -> *mut trn_backend;
    pub fn trn_next_execute(
        session: *mut trn_layer_session,
        request: *const trn_execute_request,
        out: *mut *mut trn_operation,
        e: Errors,
    ) -> c_int;

    pub fn trn_session_open(
        backend: *mut trn_backend,
        request: *const trn_session_request,
        out: *mut *mut trn_session,
        e: Errors,
    ) -> c_int;
    pub fn trn_session_ref(session: *mut trn_session) -> *mut trn_session;
    pub fn trn_session_unref(session: *mut trn_session);
    pub fn trn_session_id(session: *const trn_session) -> *const c_char;
    pub fn trn_session_user(session: *const trn_session) -> *const c_char;
    pub fn trn_session_groups(session: *const trn_session, groups: *mut *const *const c_char) -> usize;
    pub fn trn_session_is_authenticated(session: *const trn_session) -> bool;
    pub fn trn_session_backend(session: *const trn_session) -> *mut trn_backend;
    pub fn trn_session_get(session: *mut trn_session, key: *const c_char) -> *mut c_char;

    pub fn trn_plan_ref(plan: *mut trn_plan) -> *mut trn_plan;
    pub fn trn_plan_unref(plan: *mut trn_plan);
    pub fn trn_plan_schema(plan: *const trn_plan, out: *mut FFI_ArrowSchema) -> c_int;
    pub fn trn_plan_fingerprint(plan: *const trn_plan, out: *mut u8);
    pub fn trn_plan_print(plan: *const trn_plan, out: *mut *mut c_char) -> c_int;
    pub fn trn_plan_to_sql(plan: *const trn_plan, dialect: *const c_char, out: *mut *mut c_char, e: Errors) -> c_int;

    pub fn trn_operation_create(
        ops: *const trn_operation_ops,
        this: *mut c_void,
        id: *const c_char,
        out: *mut *mut trn_operation,
    ) -> c_int;
    pub fn trn_operation_unref(operation: *mut trn_operation);
    pub fn trn_operation_id(operation: *const trn_operation) -> *const c_char;
    pub fn trn_operation_get_state(operation: *mut trn_operation) -> c_int;
    pub fn trn_operation_cancel(operation: *mut trn_operation);
    pub fn trn_operation_result_stream(operation: *mut trn_operation, out: *mut *mut trn_stream, e: Errors) -> c_int;
    pub fn trn_stream_create(ops: *const trn_stream_ops, this: *mut c_void, out: *mut *mut trn_stream) -> c_int;
    pub fn trn_stream_unref(stream: *mut trn_stream);
    pub fn trn_stream_schema(stream: *mut trn_stream, out: *mut FFI_ArrowSchema, e: Errors) -> c_int;
    pub fn trn_stream_next_array(stream: *mut trn_stream, done: ArrayDone, user: *mut c_void, e: Errors) -> c_int;

    pub fn trn_registry_create(out: *mut *mut trn_registry) -> c_int;
    pub fn trn_registry_destroy(registry: *mut trn_registry);
    pub fn trn_registry_add_decoder(
        registry: *mut trn_registry,
        format: *const c_char,
        ops: *const trn_decoder_ops,
        this: *mut c_void,
        e: Errors,
    ) -> c_int;
    pub fn trn_registry_decode(
        registry: *const trn_registry,
        session: *mut trn_session,
        input: *const trn_plan_input,
        options: *const c_void,
        out: *mut *mut trn_plan,
        e: Errors,
    ) -> c_int;
    pub fn trn_spark_frontend_create(options: *const trn_spark_options, out: *mut *mut trn_frontend) -> c_int;
    pub fn trn_flightsql_frontend_create(options: *const c_void, out: *mut *mut trn_frontend) -> c_int;
}
