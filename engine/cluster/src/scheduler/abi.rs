//! src/engine/ballista_abi.h, field by field.
use std::ffi::{c_char, c_void};
use trunnion_engine::cluster::{EngineBytes, EngineError, FunctionLibrary, Kv};
use trunnion_features::arrow::ffi_stream::FFI_ArrowArrayStream;

pub const ABI: u32 = 1;
pub const ID_BYTES_MAX: usize = 128;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Progress {
    pub struct_size: usize,
    pub stages: u32,
    pub stages_done: u32,
    pub tasks: u64,
    pub tasks_done: u64,
}

#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    Queued = 1,
    Running = 2,
    Succeeded = 3,
    Failed = 4,
    Cancelled = 5,
    Removed = 6,
}

#[repr(C)]
pub struct Event {
    pub struct_size: usize,
    pub job_id: *const c_char,
    pub job_name: *const c_char,
    pub change: i32,
    pub status: *const c_void,
    pub status_size: usize,
    pub progress: Progress,
}

pub type AddSetting = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Hooks {
    pub struct_size: usize,
    pub user: *mut c_void,
    pub next_id: Option<unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> i32>,
    pub changed: Option<unsafe extern "C" fn(*mut c_void, *const Event) -> i32>,
    pub find: Option<unsafe extern "C" fn(*mut c_void, *const c_char, *mut EngineBytes) -> i32>,
    pub session: Option<unsafe extern "C" fn(*mut c_void, *const Kv, usize, AddSetting, *mut c_void) -> i32>,
    pub table: Option<
        unsafe extern "C" fn(*mut c_void, *const c_char, *const c_void, usize, *mut FFI_ArrowArrayStream) -> i32,
    >,
}

#[repr(C)]
pub struct Options {
    pub struct_size: usize,
    pub host: *const c_char,
    pub port: u16,
    pub pulls: bool,
    pub proxies: bool,
    pub threads: u32,
    pub id: *const c_char,
    pub data_seconds: i64,
    pub state_seconds: i64,
    pub executor_seconds: i64,
    pub libraries: *const *const FunctionLibrary,
    pub library_count: usize,
    pub hooks: Hooks,
}

pub const LOGICAL: i32 = 1;
pub const PHYSICAL: i32 = 7;

#[repr(C)]
pub struct Submission {
    pub struct_size: usize,
    pub kind: i32,
    pub plan: *const c_void,
    pub plan_size: usize,
    pub requested_id: *const c_char,
    pub job_name: *const c_char,
    pub session_id: *const c_char,
    pub settings: *const Kv,
    pub setting_count: usize,
}

pub type Handle = *mut c_void;
type Out<T> = *mut T;

#[repr(C)]
pub struct Ballista {
    pub struct_size: usize,
    pub abi: u32,
    pub version: *const c_char,
    pub start: unsafe extern "C" fn(*const Options, Out<Handle>, Out<EngineError>) -> i32,
    pub stop: unsafe extern "C" fn(Handle, u32),
    pub address: unsafe extern "C" fn(Handle) -> *const c_char,
    pub executors: unsafe extern "C" fn(Handle, Out<usize>, Out<EngineError>) -> i32,
    pub submit: unsafe extern "C" fn(Handle, *const Submission, Out<c_char>, Out<EngineError>) -> i32,
    pub status: unsafe extern "C" fn(Handle, *const c_char, Out<EngineBytes>, Out<EngineError>) -> i32,
    pub progress: unsafe extern "C" fn(Handle, *const c_char, Out<Progress>, Out<EngineError>) -> i32,
    pub metrics: unsafe extern "C" fn(Handle, *const c_char, Out<EngineBytes>, Out<EngineError>) -> i32,
    pub cancel: unsafe extern "C" fn(Handle, *const c_char, Out<EngineError>) -> i32,
    pub release: unsafe extern "C" fn(Handle, *const c_char, Out<EngineError>) -> i32,
    pub list: unsafe extern "C" fn(Handle, Out<EngineBytes>, Out<EngineError>) -> i32,
}

// The table is constant: its pointers are to constants and functions.
unsafe impl Sync for Ballista {}

const _: () = {
    assert!(size_of::<Progress>() == 32);
    assert!(size_of::<Event>() == 80);
    assert!(size_of::<Hooks>() == 56);
    assert!(size_of::<Options>() == 128);
    assert!(size_of::<Submission>() == 72);
    assert!(size_of::<Ballista>() == 112);
};
