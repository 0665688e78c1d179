//! The C ABI, as far as this host uses it: include/trunnion/{call,frontend,backend,error}.h.
#![allow(non_camel_case_types)]
use std::ffi::{c_char, c_int, c_uint, c_void};

pub enum trn_call {}
pub enum trn_routes {}
pub enum trn_backend {}
pub enum trn_frontend {}
pub enum trn_error {}

#[repr(C)]
pub struct trn_slice {
    pub data: *const c_void,
    pub size: usize,
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
    pub owner: *mut c_void,
}

#[repr(C)]
pub struct trn_metadata {
    pub key: *const c_char,
    pub value: *const c_void,
    pub size: usize,
}

/// Read only: the callbacks are C's business.
#[repr(C)]
pub struct trn_method {
    pub struct_size: usize,
    pub path: *const c_char,
    pub kind: c_int,
    callbacks: [Option<unsafe extern "C" fn()>; 6],
    service: *mut c_void,
    pub message_bytes_max: usize,
}

/// What `data` points to; nothing for NULL, which C allows for a size of 0.
///
/// # Safety
/// `data` has `size` bytes that live and do not change for as long as the result is used.
pub unsafe fn bytes<'a>(data: *const c_void, size: usize) -> &'a [u8] {
    if size == 0 || data.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(data.cast(), size) } }
}

#[repr(C)]
pub struct trn_call_host {
    pub struct_size: usize,
    pub send: unsafe extern "C" fn(*mut c_void, *const trn_slice, usize, c_uint) -> c_int,
    pub finish:
        unsafe extern "C" fn(*mut c_void, c_int, *const c_char, *const c_void, usize, *const trn_metadata, usize),
    pub recv: unsafe extern "C" fn(*mut c_void),
    pub set_initial_metadata: unsafe extern "C" fn(*mut c_void, *const trn_metadata, usize),
    pub abort: unsafe extern "C" fn(*mut c_void, c_int),
    pub destroy: unsafe extern "C" fn(*mut c_void),
}

#[repr(C)]
pub struct trn_call_request {
    pub struct_size: usize,
    pub method: *const trn_method,
    pub metadata: *const trn_metadata,
    pub metadata_count: usize,
    pub peer: *const c_char,
    pub identity: *const c_char,
    pub deadline_ns: i64,
    pub groups: *const *const c_char,
    pub group_count: usize,
}

#[repr(C)]
pub struct trn_embedded_options {
    pub struct_size: usize,
    pub engine_path: *const c_char,
    pub functions_path: *const c_char,
    pub threads: c_uint,
    pub memory_bytes: u64,
    pub spill_directory: *const c_char,
}

unsafe extern "C" {
    pub fn trn_error_message(error: *const trn_error) -> *const c_char;
    pub fn trn_error_unref(error: *mut trn_error);
    pub fn trn_embedded_backend_create(
        o: *const trn_embedded_options,
        out: *mut *mut trn_backend,
        e: *mut *mut trn_error,
    ) -> c_int;
    pub fn trn_backend_unref(backend: *mut trn_backend);
    pub fn trn_frontend_register(
        f: *mut trn_frontend,
        r: *mut trn_routes,
        b: *mut trn_backend,
        e: *mut *mut trn_error,
    ) -> c_int;
    pub fn trn_frontend_destroy(frontend: *mut trn_frontend);
    pub fn trn_routes_create(out: *mut *mut trn_routes) -> c_int;
    pub fn trn_routes_find(routes: *const trn_routes, path: *const c_char, size: usize) -> *const trn_method;
    pub fn trn_routes_destroy(routes: *mut trn_routes);
    pub fn trn_call_create(
        request: *const trn_call_request,
        host: *const trn_call_host,
        this: *mut c_void,
        out: *mut *mut trn_call,
    ) -> c_int;
    pub fn trn_call_deliver_open(call: *mut trn_call);
    pub fn trn_call_deliver_message(call: *mut trn_call, message: trn_slice);
    pub fn trn_call_deliver_half_close(call: *mut trn_call);
    pub fn trn_call_deliver_writable(call: *mut trn_call);
    pub fn trn_call_deliver_cancel(call: *mut trn_call);
    pub fn trn_call_deliver_done(call: *mut trn_call);
}
