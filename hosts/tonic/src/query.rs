//! The proposal's execution contract, transport-neutral: [`QueryBackend`], [`QueryOperation`], [`QueryInputDecoder`].
use crate::ffi;
use crate::ffi_query as c;
use crate::native::{Backend, Next, SessionHandle};
use arrow_array::RecordBatch;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_schema::{Schema, SchemaRef};
use async_trait::async_trait;
use futures_core::Stream;
use std::any::Any;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;
use std::pin::Pin;
use std::ptr::{null, null_mut};
use std::sync::Arc;
pub use tonic::Code;

pub type Result<T> = std::result::Result<T, Error>;

struct ErrorHandle(*mut ffi::trn_error);
unsafe impl Send for ErrorHandle {} // immutable, and counted atomically
unsafe impl Sync for ErrorHandle {}
impl Drop for ErrorHandle {
    fn drop(&mut self) {
        unsafe { ffi::trn_error_unref(self.0) };
    }
}

/// What went wrong. Errors that a backend in C gave keep their conditions and parameters on the way through Rust.
#[derive(Clone)]
pub struct Error {
    pub code: Code,
    pub message: String,
    handle: Option<Arc<ErrorHandle>>,
}

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), handle: None }
    }

    /// Takes the object.
    pub(crate) unsafe fn take(status: c_int, error: *mut ffi::trn_error) -> Error {
        if error.is_null() {
            return Error::new(Code::from(status), "");
        }
        let message = unsafe { text(ffi::trn_error_message(error)) };
        Error { code: Code::from(status), message, handle: Some(Arc::new(ErrorHandle(error))) }
    }

    /// The condition's name, such as `TABLE_OR_VIEW_NOT_FOUND`.
    pub fn condition(&self) -> Option<String> {
        let handle = self.handle.as_ref()?;
        let name = unsafe { c::trn_error_condition(handle.0) };
        (!name.is_null()).then(|| unsafe { text(name) })
    }

    /// Gives it to C. Returns the status.
    pub(crate) unsafe fn give(&self, out: c::Errors) -> c_int {
        let status = if self.code == Code::Ok { Code::Unknown } else { self.code } as c_int;
        if out.is_null() {
            return status;
        }
        let message = cstring(&self.message);
        let spec = c::trn_error_spec {
            struct_size: size_of::<c::trn_error_spec>(),
            status,
            condition: null(),
            sqlstate: null(),
            message: message.as_ptr(),
            params: null(),
            param_count: 0,
            position: [-1, -1],
            has_position: false,
            cause: null_mut(),
        };
        unsafe {
            *out = match &self.handle {
                Some(handle) => c::trn_error_ref(handle.0),
                None => c::trn_error_create(&spec),
            }
        };
        status
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.code, self.message)
    }
}
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
impl std::error::Error for Error {}
impl From<arrow_schema::ArrowError> for Error {
    fn from(error: arrow_schema::ArrowError) -> Error {
        Error::new(Code::Internal, error.to_string())
    }
}

/// Text for C: up to a NUL, if there is one.
pub(crate) fn cstring(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

pub(crate) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() { String::new() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned() }
}

/// Frees what C gave.
pub(crate) unsafe fn owned_text(given: *mut c_char) -> String {
    let copy = unsafe { text(given) };
    unsafe { c::trn_free(given.cast()) };
    copy
}

/// A resolved plan: immutable, cheap to clone.
pub struct Plan(pub(crate) *mut c::trn_plan);
unsafe impl Send for Plan {}
unsafe impl Sync for Plan {}
impl Clone for Plan {
    fn clone(&self) -> Plan {
        Plan(unsafe { c::trn_plan_ref(self.0) })
    }
}
impl Drop for Plan {
    fn drop(&mut self) {
        unsafe { c::trn_plan_unref(self.0) };
    }
}
impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.print().unwrap_or_default())
    }
}

impl Plan {
    /// Of the result; names may repeat.
    pub fn schema(&self) -> Result<SchemaRef> {
        let mut schema = FFI_ArrowSchema::empty();
        let status = unsafe { c::trn_plan_schema(self.0, &mut schema) };
        if status != 0 {
            return Err(Error::new(Code::from(status), "The plan's schema"));
        }
        Ok(Arc::new(Schema::try_from(&schema)?))
    }

    /// An indented text, for people.
    pub fn print(&self) -> Result<String> {
        let mut out = null_mut();
        match unsafe { c::trn_plan_print(self.0, &mut out) } {
            0 => Ok(unsafe { owned_text(out) }),
            status => Err(Error::new(Code::from(status), "The plan's text")),
        }
    }

    /// Equal for equal plans: a cache's key.
    pub fn fingerprint(&self) -> [u8; 16] {
        let mut out = [0; 16];
        unsafe { c::trn_plan_fingerprint(self.0, out.as_mut_ptr()) };
        out
    }

    /// One SELECT of a dialect ("sqlite"), for backends that run SQL. `Unimplemented` names what has no such form.
    pub fn to_sql(&self, dialect: &str) -> Result<String> {
        let (mut out, mut error) = (null_mut(), null_mut());
        match unsafe { c::trn_plan_to_sql(self.0, cstring(dialect).as_ptr(), &mut out, &mut error) } {
            0 => Ok(unsafe { owned_text(out) }),
            status => Err(unsafe { Error::take(status, error) }),
        }
    }

    /// As bytes of a format ("substrait.plan.v1", "datafusion.logical.v1") by the backend of `session`. Blocks.
    pub fn encode(&self, session: &QuerySession, format: &str) -> Result<Vec<u8>> {
        let native = session.native()?;
        let mut out = c::trn_bytes { data: null(), size: 0, release: None, owner: null_mut() };
        let mut error = null_mut();
        let format = cstring(format);
        let status = native
            .with(|session| unsafe { c::trn_backend_encode(session, self.0, format.as_ptr(), &mut out, &mut error) })?;
        if status != 0 {
            return Err(unsafe { Error::take(status, error) });
        }
        let copy = unsafe { ffi::bytes(out.data, out.size) }.to_vec();
        if let Some(release) = out.release {
            unsafe { release(out.owner) };
        }
        Ok(copy)
    }
}

/// Who opens a session.
#[derive(Clone, Default)]
pub struct SessionRequest {
    /// `None`: a new UUIDv7.
    pub id: Option<String>,
    pub user: String,
    pub client: String,
    pub settings: Vec<(String, String)>,
    /// Now; [`QuerySession::groups`] says it later.
    pub groups: Vec<String>,
    /// `user` is what an authenticator or the host says, not only what the client claims.
    pub is_authenticated: bool,
    /// The session that a frontend opened already: it is this one that is asked for.
    pub(crate) native: Option<Arc<SessionHandle>>,
}

impl SessionRequest {
    pub fn of(user: impl Into<String>) -> SessionRequest {
        SessionRequest { user: user.into(), ..Default::default() }
    }
}

/// # Safety
/// The session is open.
pub(crate) unsafe fn groups_of(session: *const c::trn_session) -> Vec<String> {
    let mut groups = null();
    let count = unsafe { c::trn_session_groups(session, &mut groups) };
    (0..count).map(|i| unsafe { text(*groups.add(i)) }).collect()
}

struct SessionInner {
    id: String,
    request: SessionRequest,
    state: Option<Arc<dyn Any + Send + Sync>>,
}

/// A session: cheap to clone.
#[derive(Clone)]
pub struct QuerySession(Arc<SessionInner>);

impl QuerySession {
    /// A session of a backend in Rust. `state` is whatever the backend wants to find again.
    pub fn new(request: SessionRequest, state: impl Any + Send + Sync) -> QuerySession {
        QuerySession::with(request, Some(Arc::new(state)))
    }

    pub(crate) fn with(request: SessionRequest, state: Option<Arc<dyn Any + Send + Sync>>) -> QuerySession {
        let id = match &request.native {
            Some(native) => native.with(|session| unsafe { text(c::trn_session_id(session)) }).unwrap_or_default(),
            None => request.id.clone().unwrap_or_default(),
        };
        QuerySession(Arc::new(SessionInner { id, request, state }))
    }

    pub fn id(&self) -> &str {
        &self.0.id
    }
    pub fn user(&self) -> &str {
        &self.0.request.user
    }
    /// The user's groups as they are now: what the last call said that came into the session, not what was so when it
    /// was opened. None of a closed session of a frontend.
    pub fn groups(&self) -> Vec<String> {
        match &self.0.request.native {
            Some(native) => native.with(|session| unsafe { groups_of(session) }).unwrap_or_default(),
            None => self.0.request.groups.clone(),
        }
    }
    pub fn is_authenticated(&self) -> bool {
        self.0.request.is_authenticated
    }
    /// What the backend gave to [`QuerySession::new`].
    pub fn state<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.0.state.clone()?.downcast().ok()
    }
    /// A setting as it is now.
    pub fn setting(&self, key: &str) -> Option<String> {
        match &self.0.request.native {
            Some(native) => {
                let value =
                    native.with(|session| unsafe { c::trn_session_get(session, cstring(key).as_ptr()) }).ok()?;
                (!value.is_null()).then(|| unsafe { owned_text(value) })
            }
            None => self.0.request.settings.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v.clone()),
        }
    }

    pub(crate) fn native(&self) -> Result<&SessionHandle> {
        let none = || Error::new(Code::FailedPrecondition, "The session is not one of a backend in C");
        self.0.request.native.as_deref().ok_or_else(none)
    }
}

/// What is to run.
#[derive(Clone)]
pub struct ExecutePlanRequest {
    pub session: QuerySession,
    pub plan: Plan,
    /// `None`: a new UUIDv7.
    pub operation_id: Option<String>,
    pub tags: Vec<String>,
    /// The query's text, for logs.
    pub statement: Option<String>,
    /// "spark", "flightsql", ...
    pub protocol: Option<String>,
    /// W3C trace context of the caller.
    pub traceparent: Option<String>,
    /// What policies made of the user: a part of a cache's key.
    pub policy: Option<String>,
    pub(crate) next: Option<Arc<Next>>,
}

impl ExecutePlanRequest {
    pub fn new(session: QuerySession, plan: Plan) -> ExecutePlanRequest {
        ExecutePlanRequest {
            session,
            plan,
            operation_id: None,
            tags: Vec::new(),
            statement: None,
            protocol: None,
            traceparent: None,
            policy: None,
            next: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryStatus {
    Pending,
    Planning,
    Running,
    Finished,
    Failed,
    Cancelled,
    Closed,
}

/// Batches of one schema, pulled: nothing is computed ahead of the reader for its own sake.
pub trait RecordBatchStream: Stream<Item = Result<RecordBatch>> {
    fn schema(&self) -> SchemaRef;
}
pub type SendableRecordBatchStream = Pin<Box<dyn RecordBatchStream + Send>>;

/// A backend: opens sessions and executes resolved plans. A policy is a backend around a backend:
///
/// ```no_run
/// use std::sync::Arc;
/// use trunnion_tonic::{Backend, Code, Error, ExecutePlanRequest, QueryBackend, QueryOperation, QuerySession, Result, SessionRequest};
///
/// struct OfficeHours(Backend);
///
/// #[async_trait::async_trait]
/// impl QueryBackend for OfficeHours {
///     async fn open_session(&self, request: SessionRequest) -> Result<QuerySession> {
///         self.0.open_session(request).await
///     }
///     async fn execute_plan(&self, request: ExecutePlanRequest) -> Result<Arc<dyn QueryOperation>> {
///         if request.session.user() == "night" {
///             return Err(Error::new(Code::PermissionDenied, "Come back tomorrow"));
///         }
///         if !request.session.groups().iter().any(|group| group == "staff") {
///             return Err(Error::new(Code::PermissionDenied, "You are not of the staff (any more)"));
///         }
///         self.0.execute_plan(request).await
///     }
///     fn inner(&self) -> Option<&Backend> {
///         Some(&self.0) // tables, files and decoding are the inner backend's
///     }
/// }
/// ```
#[async_trait]
pub trait QueryBackend: Send + Sync {
    /// Cheap: sessions are made lazily.
    async fn open_session(&self, request: SessionRequest) -> Result<QuerySession>;
    /// Plans at most; the result comes from the operation.
    async fn execute_plan(&self, request: ExecutePlanRequest) -> Result<Arc<dyn QueryOperation>>;
    /// The backend around which this one stands: tables, files, decoding are its own. `None`: there are none.
    fn inner(&self) -> Option<&Backend> {
        None
    }
    /// Is it a backend in C itself?
    fn native(&self) -> Option<&Backend> {
        None
    }
}

/// A query that runs or has run.
///
/// ```no_run
/// use std::sync::{Arc, atomic::{AtomicBool, Ordering}};
/// use trunnion_tonic::{QueryOperation, QueryStatus, Result, SendableRecordBatchStream};
///
/// struct Watched(Arc<dyn QueryOperation>, AtomicBool);
///
/// #[async_trait::async_trait]
/// impl QueryOperation for Watched {
///     fn id(&self) -> &str {
///         self.0.id()
///     }
///     async fn status(&self) -> Result<QueryStatus> {
///         self.0.status().await
///     }
///     async fn cancel(&self) -> Result<()> {
///         self.1.store(true, Ordering::Relaxed);
///         self.0.cancel().await
///     }
///     async fn result_stream(&self) -> Result<SendableRecordBatchStream> {
///         self.0.result_stream().await
///     }
/// }
/// ```
#[async_trait]
pub trait QueryOperation: Send + Sync {
    fn id(&self) -> &str;
    /// Answers at once: it does not wait for the query.
    async fn status(&self) -> Result<QueryStatus>;
    /// Idempotent.
    async fn cancel(&self) -> Result<()>;
    async fn result_stream(&self) -> Result<SendableRecordBatchStream>;
}

/// A plan format of one's own: bytes in, a resolved plan out.
///
/// ```no_run
/// use std::collections::HashMap;
/// use trunnion_tonic::{Plan, QueryInputDecoder, QuerySession, Registry, Result};
///
/// /// SQL text backwards, for those who like it.
/// struct Backwards;
///
/// #[async_trait::async_trait]
/// impl QueryInputDecoder for Backwards {
///     fn format(&self) -> &'static str {
///         "example.backwards.v1"
///     }
///     async fn decode(&self, payload: &[u8], session: &QuerySession, _: &HashMap<String, String>) -> Result<Plan> {
///         let text: Vec<u8> = payload.iter().rev().copied().collect();
///         Registry::new()?.decode(session, "sql", &text, &HashMap::new()).await
///     }
/// }
/// ```
#[async_trait]
pub trait QueryInputDecoder: Send + Sync {
    fn format(&self) -> &'static str;
    async fn decode(&self, payload: &[u8], session: &QuerySession, options: &HashMap<String, String>) -> Result<Plan>;
}
