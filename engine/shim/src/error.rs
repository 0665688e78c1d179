//! Failures: one Rust type that carries what crosses the boundary, travels through DataFusion as an external error, and
//! is found again at the other end.
use crate::abi::{EngineError, Kv, status};
use crate::features::arrow::error::ArrowError;
use crate::features::datafusion::common::SchemaError;
use crate::features::datafusion::error::DataFusionError;
use crate::features::object_store;
use std::any::Any;
use std::error::Error;
use std::ffi::{CString, c_void};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Plans nest; DataFusion's clone, drop and planning recurse. Callers' threads have 32 MiB; whoever comes with less gets
/// a stack for the call.
pub const STACK_NEEDED: usize = 16 << 20;
pub const STACK_SIZE: usize = 32 << 20;

pub type Fallible<T> = Result<T, Failure>;

#[derive(Clone)]
pub struct Failure {
    pub status: i32,
    pub condition: Option<String>,
    pub message: String,
    pub params: Vec<(String, Vec<u8>)>,
    /// start << 32 | stop, or -1
    pub position: i64,
}

impl Failure {
    pub fn new(status: i32, message: impl Into<String>) -> Self {
        Self { status, condition: None, message: message.into(), params: vec![], position: -1 }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(status::INVALID_ARGUMENT, message)
    }

    pub fn unimplemented(message: impl Into<String>) -> Self {
        Self::new(status::UNIMPLEMENTED, message)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(status::INTERNAL, message)
    }

    pub fn exhausted(message: impl Into<String>) -> Self {
        Self::new(status::RESOURCE_EXHAUSTED, message)
    }

    pub fn cancelled() -> Self {
        Self::new(status::CANCELLED, "cancelled").condition("CANCELLED")
    }

    pub fn path_not_found(path: &str) -> Self {
        Self::new(status::NOT_FOUND, format!("path not found: {path}"))
            .condition("PATH_NOT_FOUND")
            .param("path", path.as_bytes())
    }

    pub fn condition(mut self, condition: &str) -> Self {
        self.condition = Some(condition.to_string());
        self
    }

    pub fn param(mut self, key: &str, value: &[u8]) -> Self {
        self.params.push((key.to_string(), value.to_vec()));
        self
    }

    pub fn from_panic(payload: Box<dyn Any + Send>) -> Self {
        let text = payload
            .downcast_ref::<&str>()
            .map(|text| text.to_string())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "unknown".to_string());
        Self::internal(format!("panic in the engine: {text}"))
    }
}

// ---- failures as texts ----

/// In the processes of a cluster a failure becomes a text on its way to whoever asked, inside of other texts. There it carries
/// what it is: "[[trn:" hex "]]", of lines: status, condition, position, message, then keys and values, each of these as hex.
static IS_MARKED: AtomicBool = AtomicBool::new(false);

pub fn mark_failures() {
    IS_MARKED.store(true, Ordering::Relaxed);
}

fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        out.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
        out.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
    }
    out
}

impl Failure {
    fn marked(&self) -> String {
        let condition = self.condition.as_deref().unwrap_or("");
        let mut lines = format!("{}\n{condition}\n{}\n{}\n", self.status, self.position, hex(self.message.as_bytes()));
        for (key, value) in &self.params {
            lines.push_str(&format!("{}\n{}\n", hex(key.as_bytes()), hex(value)));
        }
        format!("[[trn:{}]]", hex(lines.as_bytes()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)?;
        match IS_MARKED.load(Ordering::Relaxed) {
            true => write!(out, " {}", self.marked()),
            false => Ok(()),
        }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Failure({}, {:?}, {self})", self.status, self.condition)
    }
}

impl Error for Failure {}

impl From<Failure> for DataFusionError {
    fn from(failure: Failure) -> Self {
        DataFusionError::External(Box::new(failure))
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        from_datafusion(&error)
    }
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Self {
        from_arrow(&error)
    }
}

/// DataFusion's text without the backtrace that some of its builds append.
fn plain(text: &str) -> String {
    text.split("\n\nbacktrace:").next().unwrap_or("").trim_end().to_string()
}

fn from_datafusion(error: &DataFusionError) -> Failure {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => from_datafusion(inner),
        DataFusionError::Shared(inner) => from_datafusion(inner),
        DataFusionError::Collection(errors) => match errors.first() {
            Some(first) => from_datafusion(first),
            None => Failure::internal("unknown error"),
        },
        DataFusionError::External(inner) => from_dyn(inner.as_ref()),
        DataFusionError::ArrowError(inner, _) => from_arrow(inner),
        DataFusionError::ParquetError(inner) => from_parquet(inner),
        DataFusionError::ObjectStore(inner) => from_object_store(inner),
        DataFusionError::IoError(inner) => from_io(inner),
        DataFusionError::SQL(inner, _) => Failure::invalid(plain(&inner.to_string())),
        DataFusionError::NotImplemented(text) => Failure::unimplemented(plain(text)),
        DataFusionError::Plan(text) | DataFusionError::Configuration(text) => Failure::invalid(plain(text)),
        DataFusionError::SchemaError(inner, _) => from_schema(inner),
        DataFusionError::ResourcesExhausted(text) => Failure::exhausted(plain(text)).condition("OUT_OF_MEMORY"),
        DataFusionError::ExecutionJoin(join) if join.is_cancelled() => Failure::cancelled(),
        DataFusionError::Execution(text) | DataFusionError::Internal(text) => Failure::internal(plain(text)),
        other => Failure::internal(plain(&other.message())),
    }
}

fn from_schema(error: &SchemaError) -> Failure {
    let failure = Failure::invalid(plain(&error.to_string()));
    match error {
        SchemaError::FieldNotFound { field, .. } => {
            failure.condition("UNRESOLVED_COLUMN").param("objectName", field.flat_name().as_bytes())
        }
        SchemaError::AmbiguousReference { field } => {
            failure.condition("AMBIGUOUS_REFERENCE").param("name", field.flat_name().as_bytes())
        }
        _ => failure,
    }
}

fn from_dyn(error: &(dyn Error + 'static)) -> Failure {
    let mut at: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(current) = at {
        if let Some(failure) = current.downcast_ref::<Failure>() {
            return failure.clone();
        }
        if let Some(inner) = current.downcast_ref::<DataFusionError>() {
            return from_datafusion(inner);
        }
        if let Some(inner) = current.downcast_ref::<ArrowError>() {
            return from_arrow(inner);
        }
        if let Some(inner) = current.downcast_ref::<object_store::Error>() {
            return from_object_store(inner);
        }
        if let Some(inner) = current.downcast_ref::<std::io::Error>() {
            return from_io(inner);
        }
        at = current.source();
    }
    Failure::internal(plain(&error.to_string()))
}

fn from_arrow(error: &ArrowError) -> Failure {
    match error {
        ArrowError::ExternalError(inner) => from_dyn(inner.as_ref()),
        ArrowError::DivideByZero => Failure::invalid("division by zero").condition("DIVIDE_BY_ZERO"),
        ArrowError::ArithmeticOverflow(text) => Failure::invalid(plain(text)).condition("ARITHMETIC_OVERFLOW"),
        ArrowError::CastError(text) => Failure::invalid(plain(text)).condition("CAST_INVALID_INPUT"),
        ArrowError::IoError(_, inner) => from_io(inner),
        ArrowError::MemoryError(text) => Failure::exhausted(plain(text)).condition("OUT_OF_MEMORY"),
        ArrowError::NotYetImplemented(text) => Failure::unimplemented(plain(text)),
        ArrowError::CsvError(text) | ArrowError::JsonError(text) | ArrowError::ParquetError(text) => {
            Failure::new(status::DATA_LOSS, plain(text)).condition("CANNOT_READ_FILE")
        }
        other => Failure::internal(plain(&other.to_string())),
    }
}

fn from_parquet(error: &crate::features::datafusion::parquet::errors::ParquetError) -> Failure {
    use crate::features::datafusion::parquet::errors::ParquetError;
    match error {
        ParquetError::External(inner) => from_dyn(inner.as_ref()),
        other => Failure::new(status::DATA_LOSS, plain(&other.to_string())).condition("CANNOT_READ_FILE"),
    }
}

fn from_object_store(error: &object_store::Error) -> Failure {
    match error {
        object_store::Error::NotFound { path, .. } => Failure::path_not_found(path),
        object_store::Error::PermissionDenied { path, .. } | object_store::Error::Unauthenticated { path, .. } => {
            Failure::new(status::PERMISSION_DENIED, "permission denied")
                .condition("CANNOT_READ_FILE")
                .param("path", path.as_bytes())
        }
        other => Failure::internal(plain(&other.to_string())).condition("CANNOT_READ_FILE"),
    }
}

fn from_io(error: &std::io::Error) -> Failure {
    if let Some(inner) = error.get_ref()
        && let Some(failure) = inner.downcast_ref::<Failure>()
    {
        return failure.clone();
    }
    let status = match error.kind() {
        std::io::ErrorKind::NotFound => status::NOT_FOUND,
        std::io::ErrorKind::PermissionDenied => status::PERMISSION_DENIED,
        _ => status::INTERNAL,
    };
    Failure::new(status, plain(&error.to_string())).condition("CANNOT_READ_FILE")
}

// ---- out to C ----

/// Bytes as a C string: what is behind a NUL is lost, which is better than losing the error.
pub fn c_string(bytes: &[u8]) -> CString {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    CString::new(&bytes[..end]).unwrap_or_default()
}

struct OwnedError {
    condition: Option<CString>,
    message: CString,
    _texts: Vec<CString>,
    params: Vec<Kv>,
}

unsafe extern "C" fn release_error(owner: *mut c_void) {
    drop(unsafe { Box::from_raw(owner as *mut OwnedError) });
}

pub fn no_error() -> EngineError {
    EngineError {
        status: status::OK,
        condition: std::ptr::null(),
        message: std::ptr::null(),
        params: std::ptr::null(),
        param_count: 0,
        position: -1,
        owner: std::ptr::null_mut(),
        release: None,
    }
}

pub fn to_c(failure: &Failure) -> EngineError {
    let mut texts = Vec::with_capacity(failure.params.len() * 2);
    let mut params = Vec::with_capacity(failure.params.len());
    for (key, value) in &failure.params {
        let (key, value) = (c_string(key.as_bytes()), c_string(value));
        params.push(Kv { key: key.as_ptr(), value: value.as_ptr() });
        texts.push(key);
        texts.push(value);
    }
    let owned = Box::new(OwnedError {
        condition: failure.condition.as_ref().map(|text| c_string(text.as_bytes())),
        message: c_string(failure.message.as_bytes()),
        _texts: texts,
        params,
    });
    EngineError {
        status: failure.status,
        condition: owned.condition.as_ref().map_or(std::ptr::null(), |text| text.as_ptr()),
        message: owned.message.as_ptr(),
        params: owned.params.as_ptr(),
        param_count: owned.params.len(),
        position: failure.position,
        owner: Box::into_raw(owned) as *mut c_void,
        release: Some(release_error),
    }
}

/// An error that the caller gave; it is released.
pub unsafe fn from_c(error: &mut EngineError) -> Failure {
    let text = |pointer: *const std::ffi::c_char| match pointer.is_null() {
        true => None,
        false => Some(unsafe { std::ffi::CStr::from_ptr(pointer) }.to_string_lossy().into_owned()),
    };
    let status = if error.status == status::OK { status::INTERNAL } else { error.status };
    let mut failure = Failure::new(status, text(error.message).unwrap_or_default());
    failure.condition = text(error.condition);
    if !error.params.is_null() {
        for param in unsafe { std::slice::from_raw_parts(error.params, error.param_count) } {
            if let (Some(key), Some(value)) = (text(param.key), text(param.value)) {
                failure.params.push((key, value.into_bytes()));
            }
        }
    }
    if let Some(release) = error.release.take() {
        unsafe { release(error.owner) };
    }
    failure
}

/// Every entry point's body: panics become INTERNAL, a failure is handed out through `out` (when there is one).
pub fn guard(out: *mut EngineError, body: impl FnOnce() -> Fallible<()>) -> i32 {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(Failure::from_panic(payload)));
    match result {
        Ok(()) => {
            if !out.is_null() {
                unsafe { out.write(no_error()) };
            }
            status::OK
        }
        Err(failure) => {
            if !out.is_null() {
                unsafe { out.write(to_c(&failure)) };
            }
            failure.status
        }
    }
}

/// The same for what works on plans: with enough stack, whatever thread it is.
pub fn guard_deep(out: *mut EngineError, body: impl FnOnce() -> Fallible<()>) -> i32 {
    guard(out, || stacker::maybe_grow(STACK_NEEDED, STACK_SIZE, body))
}

/// For entry points without a result, which leave deep things to other threads.
pub fn guard_void(body: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(body));
}
