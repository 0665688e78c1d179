//! The scheduler for C, behind one vtable (src/engine/ballista_abi.h).
mod abi;
mod codec;
mod hooks;
mod jobs;
mod server;

use abi::{Ballista, Handle, ID_BYTES_MAX, Options, Progress, Submission};
use server::Scheduler;
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Duration;
use trunnion_engine::cluster::{EngineBytes, EngineError, Failure, guard, guard_void, owned_bytes, text};

type Fallible<T> = Result<T, Failure>;

unsafe fn borrow<'a>(handle: Handle) -> Fallible<&'a Scheduler> {
    unsafe { (handle as *const Scheduler).as_ref() }.ok_or_else(|| Failure::invalid("no scheduler"))
}

unsafe fn give<T>(out: *mut T, value: impl FnOnce() -> Fallible<T>) -> Fallible<()> {
    if out.is_null() {
        return Err(Failure::invalid("no place for the result"));
    }
    unsafe { out.write(value()?) };
    Ok(())
}

unsafe extern "C" fn start(options: *const Options, out: *mut Handle, error: *mut EngineError) -> i32 {
    guard(error, || unsafe { give(out, || Ok(Arc::into_raw(Scheduler::start(options)?) as *mut c_void)) })
}

unsafe extern "C" fn stop(handle: Handle, wait_ms: u32) {
    guard_void(|| {
        if !handle.is_null()
            && let Ok(scheduler) = Arc::try_unwrap(unsafe { Arc::from_raw(handle as *const Scheduler) })
        {
            scheduler.stop(Duration::from_millis(wait_ms.into()));
        }
    });
}

unsafe extern "C" fn address(handle: Handle) -> *const c_char {
    unsafe { borrow(handle) }.map_or(c"".as_ptr(), |scheduler| scheduler.address().as_ptr())
}

unsafe extern "C" fn executors(handle: Handle, out: *mut usize, error: *mut EngineError) -> i32 {
    guard(error, || unsafe { give(out, || borrow(handle)?.executors()) })
}

unsafe extern "C" fn submit(
    handle: Handle,
    submission: *const Submission,
    id_out: *mut c_char,
    error: *mut EngineError,
) -> i32 {
    guard(error, || {
        if id_out.is_null() {
            return Err(Failure::invalid("no place for the id"));
        }
        let id = unsafe { borrow(handle)?.submit(submission) }?;
        let size = id.len().min(ID_BYTES_MAX);
        unsafe {
            std::ptr::copy_nonoverlapping(id.as_ptr() as *const c_char, id_out, size);
            id_out.add(size).write(0);
        }
        Ok(())
    })
}

unsafe extern "C" fn job_status(
    handle: Handle,
    id: *const c_char,
    out: *mut EngineBytes,
    error: *mut EngineError,
) -> i32 {
    guard(error, || unsafe { give(out, || Ok(owned_bytes(borrow(handle)?.status(text(id, "the job's id")?)?))) })
}

unsafe extern "C" fn job_progress(
    handle: Handle,
    id: *const c_char,
    out: *mut Progress,
    error: *mut EngineError,
) -> i32 {
    guard(error, || {
        let place = unsafe { out.as_ref() }.ok_or_else(|| Failure::invalid("no place for the result"))?;
        if place.struct_size < size_of::<Progress>() {
            return Err(Failure::invalid("progress of an older layout"));
        }
        let size = place.struct_size;
        unsafe {
            give(out, || Ok(Progress { struct_size: size, ..borrow(handle)?.progress(text(id, "the job's id")?)? }))
        }
    })
}

unsafe extern "C" fn job_metrics(
    handle: Handle,
    id: *const c_char,
    out: *mut EngineBytes,
    error: *mut EngineError,
) -> i32 {
    guard(error, || unsafe { give(out, || Ok(owned_bytes(borrow(handle)?.metrics(text(id, "the job's id")?)?))) })
}

unsafe extern "C" fn cancel(handle: Handle, id: *const c_char, error: *mut EngineError) -> i32 {
    guard(error, || unsafe { borrow(handle)?.cancel(text(id, "the job's id")?) })
}

unsafe extern "C" fn release(handle: Handle, id: *const c_char, error: *mut EngineError) -> i32 {
    guard(error, || unsafe { borrow(handle)?.release(text(id, "the job's id")?) })
}

unsafe extern "C" fn list(handle: Handle, out: *mut EngineBytes, error: *mut EngineError) -> i32 {
    guard(error, || unsafe { give(out, || Ok(owned_bytes(borrow(handle)?.list()))) })
}

static BALLISTA: Ballista = Ballista {
    struct_size: size_of::<Ballista>(),
    abi: abi::ABI,
    version: c"55.0.0".as_ptr(),
    start,
    stop,
    address,
    executors,
    submit,
    status: job_status,
    progress: job_progress,
    metrics: job_metrics,
    cancel,
    release,
    list,
};

/// The one symbol of this library that is meant to be found.
#[unsafe(no_mangle)]
pub extern "C" fn trn_ballista_get(abi: u32) -> *const Ballista {
    match abi == abi::ABI {
        true => &BALLISTA,
        false => std::ptr::null(),
    }
}
