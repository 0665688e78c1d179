//! The host's hooks, called so that they may block, and never after the scheduler has been stopped.
use super::abi::{Change, Event, Hooks as CHooks, ID_BYTES_MAX, Progress};
use ballista_core::serde::protobuf::JobStatus;
use parking_lot::RwLock;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use trunnion_engine::cluster::{EngineBytes, Kv, status};
use trunnion_features::arrow::ffi_stream::FFI_ArrowArrayStream;
use trunnion_features::datafusion::error::{DataFusionError, Result};
use trunnion_features::prost::Message;
use trunnion_features::tokio::task::block_in_place;

impl std::fmt::Debug for Hooks {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Hooks")
    }
}

pub struct Hooks {
    table: CHooks,
    is_closed: AtomicBool,
    /// Held for reading while a call runs.
    calls: RwLock<()>,
}

// The host says that its hooks may be called on any thread.
unsafe impl Send for Hooks {}
unsafe impl Sync for Hooks {}

/// A job's id can be a file's name, everywhere.
pub fn is_valid_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !id.is_empty() && id.len() <= ID_BYTES_MAX && !id.starts_with('.') && id.bytes().all(is_plain)
}

unsafe extern "C" fn add_setting(owner: *mut c_void, key: *const c_char, value: *const c_char) {
    if key.is_null() || value.is_null() {
        return;
    }
    let out = unsafe { &mut *(owner as *mut Vec<(String, String)>) };
    let text = |pointer| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned();
    out.push((text(key), text(value)));
}

impl Hooks {
    /// The table is one that a caller handed in, of any size up to ours.
    pub unsafe fn new(table: &CHooks) -> Self {
        Self { table: *table, is_closed: AtomicBool::new(false), calls: RwLock::new(()) }
    }

    /// No call begins from now on; waits for those that run.
    pub fn close(&self, wait: Duration) {
        self.is_closed.store(true, Ordering::SeqCst);
        drop(self.calls.try_write_for(wait));
    }

    fn call<T>(&self, body: impl FnOnce(&CHooks) -> T) -> Option<T> {
        block_in_place(|| {
            let _running = self.calls.read();
            (!self.is_closed.load(Ordering::SeqCst)).then(|| body(&self.table))
        })
    }

    pub fn next_id(&self) -> Option<String> {
        let next_id = self.table.next_id?;
        let mut out = [0 as c_char; ID_BYTES_MAX + 1];
        let code = self.call(|table| unsafe { next_id(table.user, out.as_mut_ptr(), out.len()) })?;
        out[ID_BYTES_MAX] = 0;
        let id = unsafe { CStr::from_ptr(out.as_ptr()) }.to_str().ok()?.to_string();
        (code == status::OK && is_valid_id(&id)).then_some(id)
    }

    /// Whether the host agrees.
    pub fn changed(&self, change: Change, job: &JobStatus, progress: Progress) -> bool {
        let Some(changed) = self.table.changed else { return true };
        let bytes = job.encode_to_vec();
        let (Ok(id), Ok(name)) = (CString::new(job.job_id.as_str()), CString::new(job.job_name.as_str())) else {
            return false;
        };
        let event = Event {
            struct_size: size_of::<Event>(),
            job_id: id.as_ptr(),
            job_name: name.as_ptr(),
            change: change as i32,
            status: bytes.as_ptr() as *const c_void,
            status_size: bytes.len(),
            progress: Progress { struct_size: size_of::<Progress>(), ..progress },
        };
        self.call(|table| unsafe { changed(table.user, &event) }) == Some(status::OK)
    }

    /// What the host knows of a job that is not here.
    pub fn find(&self, id: &str) -> Option<JobStatus> {
        let find = self.table.find?;
        let id = CString::new(id).ok()?;
        let mut bytes = EngineBytes { data: std::ptr::null(), size: 0, owner: std::ptr::null_mut(), release: None };
        let code = self.call(|table| unsafe { find(table.user, id.as_ptr(), &mut bytes) })?;
        if code != status::OK || bytes.data.is_null() {
            return None;
        }
        let job = JobStatus::decode(unsafe { std::slice::from_raw_parts(bytes.data as *const u8, bytes.size) }).ok();
        if let Some(release) = bytes.release {
            unsafe { release(bytes.owner) };
        }
        job
    }

    /// What `read` makes of the rows of a table of the host's; none: the host has no such table.
    pub fn table<T>(
        &self,
        name: &str,
        bytes: &[u8],
        read: impl FnOnce(FFI_ArrowArrayStream) -> Result<T>,
    ) -> Option<Result<T>> {
        let table = self.table.table?;
        let name = CString::new(name).ok()?;
        let found = self.call(|hooks| {
            let mut stream = FFI_ArrowArrayStream::empty();
            let data = bytes.as_ptr() as *const c_void;
            match unsafe { table(hooks.user, name.as_ptr(), data, bytes.len(), &mut stream) } {
                status::OK => Some(read(stream)),
                status::UNIMPLEMENTED => None,
                code => {
                    let text = format!("the host cannot give the table {}: status {code}", name.to_string_lossy());
                    Some(Err(DataFusionError::Execution(text)))
                }
            }
        });
        found.flatten()
    }

    /// Settings that go over those of a session; none: it is refused.
    pub fn session(&self, settings: &[(String, String)]) -> Option<Vec<(String, String)>> {
        let Some(session) = self.table.session else { return Some(vec![]) };
        let texts: Vec<(CString, CString)> = settings
            .iter()
            .filter_map(|(key, value)| Some((CString::new(key.as_str()).ok()?, CString::new(value.as_str()).ok()?)))
            .collect();
        let pairs: Vec<Kv> = texts.iter().map(|(key, value)| Kv { key: key.as_ptr(), value: value.as_ptr() }).collect();
        let mut out: Vec<(String, String)> = vec![];
        let owner = &raw mut out as *mut c_void;
        let code =
            self.call(|table| unsafe { session(table.user, pairs.as_ptr(), pairs.len(), add_setting, owner) })?;
        (code == status::OK).then_some(out)
    }
}
