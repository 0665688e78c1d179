//! Backends, operations and streams of C as the traits see them.
use crate::adapt;
use crate::ffi::{self, trn_error};
use crate::ffi_query as c;
use crate::query::*;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::{RecordBatch, RecordBatchOptions, StructArray};
use arrow_schema::{DataType, Schema, SchemaRef};
use async_trait::async_trait;
use futures_core::Stream;
use std::ffi::{CString, c_char, c_int, c_void};
use std::pin::Pin;
use std::ptr::{null, null_mut};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// A session of C. Counted ones keep it open; the others are those of its own backend, and end with it.
pub(crate) struct SessionHandle {
    pointer: RwLock<Option<SessionPointer>>,
    is_counted: bool,
}
#[derive(Clone, Copy)]
struct SessionPointer(*mut c::trn_session);
unsafe impl Send for SessionPointer {}
unsafe impl Sync for SessionPointer {}

impl SessionHandle {
    /// # Safety
    /// `end` is called before the session goes.
    pub unsafe fn borrowed(session: *mut c::trn_session) -> SessionHandle {
        SessionHandle { pointer: RwLock::new(Some(SessionPointer(session))), is_counted: false }
    }

    /// Takes a reference that was given.
    pub unsafe fn taken(session: *mut c::trn_session) -> SessionHandle {
        SessionHandle { pointer: RwLock::new(Some(SessionPointer(session))), is_counted: true }
    }

    /// The session does not go while `work` runs.
    pub fn with<T>(&self, work: impl FnOnce(*mut c::trn_session) -> T) -> Result<T> {
        let pointer = self.pointer.read().unwrap_or_else(PoisonError::into_inner);
        match *pointer {
            Some(session) => Ok(work(session.0)),
            None => Err(Error::new(Code::FailedPrecondition, "The session is closed")),
        }
    }

    pub fn end(&self) {
        *self.pointer.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
impl Drop for SessionHandle {
    fn drop(&mut self) {
        if self.is_counted {
            let _ = self.with(|session| unsafe { c::trn_session_unref(session) });
        }
    }
}

/// The way on from a layer: gone when the session is closed.
pub(crate) struct Next(pub RwLock<Option<LayerSession>>);
#[derive(Clone, Copy)]
pub(crate) struct LayerSession(pub *mut c::trn_layer_session);
unsafe impl Send for LayerSession {}
unsafe impl Sync for LayerSession {}

/// A backend in C: the bundled one, one in Rust made for C, or layers around any.
pub struct Backend(pub(crate) *mut ffi::trn_backend);
unsafe impl Send for Backend {} // thread safe by contract
unsafe impl Sync for Backend {}
impl Clone for Backend {
    fn clone(&self) -> Backend {
        Backend(unsafe { c::trn_backend_ref(self.0) })
    }
}
impl Drop for Backend {
    fn drop(&mut self) {
        unsafe { ffi::trn_backend_unref(self.0) };
    }
}

impl Backend {
    /// In-process DataFusion. `None`: the libraries are searched beside the program and by the loader. Blocks.
    pub fn embedded(engine: Option<&str>, functions: Option<&str>) -> Result<Backend> {
        let (engine, functions) = (engine.map(cstring), functions.map(cstring));
        let options = ffi::trn_embedded_options {
            struct_size: size_of::<ffi::trn_embedded_options>(),
            engine_path: pointer(&engine),
            functions_path: pointer(&functions),
            threads: 0,
            memory_bytes: 0,
            spill_directory: null(),
        };
        let (mut out, mut error) = (null_mut(), null_mut());
        match unsafe { ffi::trn_embedded_backend_create(&options, &mut out, &mut error) } {
            0 => Ok(Backend(out)),
            status => Err(unsafe { Error::take(status, error) }),
        }
    }

    /// A backend for C that is written in Rust: a layer around its [`inner`](QueryBackend::inner) one, when it has that. Its
    /// futures run on `runtime`, which has several threads.
    pub fn of(backend: Arc<dyn QueryBackend>, runtime: Handle) -> Result<Backend> {
        match backend.native() {
            Some(native) => Ok(native.clone()),
            None => adapt::backend(backend, runtime),
        }
    }
}

pub(crate) fn pointer(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(null(), |t| t.as_ptr())
}

/// Texts for C, as an array of pointers that live as long as this.
pub(crate) struct Texts(#[allow(dead_code)] Vec<CString>, pub Vec<*const c_char>);
impl Texts {
    pub fn of<'a>(texts: impl IntoIterator<Item = &'a String>) -> Texts {
        let owned: Vec<CString> = texts.into_iter().map(|t| cstring(t)).collect();
        let pointers = owned.iter().map(|t| t.as_ptr()).collect();
        Texts(owned, pointers)
    }
}

pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
}

/// The wish that something in C ends: work that blocks looks at it.
pub(crate) struct Cancel(*mut c::trn_cancel);
unsafe impl Send for Cancel {} // thread safe by contract
unsafe impl Sync for Cancel {}
impl Drop for Cancel {
    fn drop(&mut self) {
        unsafe { c::trn_cancel_unref(self.0) };
    }
}

/// Whoever waits for the work: when it is dropped - a deadline, a client that is gone - the work ends.
pub(crate) struct Waiting(Arc<Cancel>);
impl Waiting {
    pub fn new() -> Result<(Waiting, Arc<Cancel>)> {
        let mut out = null_mut();
        match unsafe { c::trn_cancel_create(&mut out) } {
            0 => {
                let cancel = Arc::new(Cancel(out));
                Ok((Waiting(cancel.clone()), cancel))
            }
            status => Err(Error::new(Code::from(status), "A wish to end")),
        }
    }
}
impl Drop for Waiting {
    fn drop(&mut self) {
        unsafe { c::trn_cancel_request(self.0.0) };
    }
}

/// A query in some encoding, as C takes it. Tables are those of the session.
pub(crate) fn with_input<'a, T>(
    format: &str,
    payload: &[u8],
    options: impl Iterator<Item = (&'a String, &'a String)>,
    cancel: Option<&Cancel>,
    work: impl FnOnce(&c::trn_plan_input) -> T,
) -> T {
    let texts: Vec<_> = options.map(|(key, value)| (cstring(key), cstring(value))).collect();
    let options: Vec<_> = texts.iter().map(|(k, v)| c::trn_kv { key: k.as_ptr(), value: v.as_ptr() }).collect();
    let format = cstring(format);
    work(&c::trn_plan_input {
        struct_size: size_of::<c::trn_plan_input>(),
        format: format.as_ptr(),
        data: payload.as_ptr().cast(),
        size: payload.len(),
        options: options.as_ptr(),
        option_count: options.len(),
        resolve: None,
        resolve_user: null_mut(),
        parameter_schema: null(),
        parameters: null(),
        parameter_row: 0,
        cancel: cancel.map_or(null_mut(), |cancel| cancel.0),
    })
}

fn session_open(backend: &Backend, request: &SessionRequest) -> Result<SessionHandle> {
    session_open_with(request, |made, out, error| unsafe { c::trn_session_open(backend.0, made, out, error) })
}

/// `open` is the function of C that opens it.
pub(crate) fn session_open_with(
    request: &SessionRequest,
    open: impl FnOnce(*const c::trn_session_request, *mut *mut c::trn_session, c::Errors) -> c_int,
) -> Result<SessionHandle> {
    let (keys, values) =
        (Texts::of(request.settings.iter().map(|(k, _)| k)), Texts::of(request.settings.iter().map(|(_, v)| v)));
    let settings: Vec<_> = keys.1.iter().zip(&values.1).map(|(&key, &value)| c::trn_kv { key, value }).collect();
    let groups = Texts::of(&request.groups);
    let (id, user, client) = (request.id.as_deref().map(cstring), cstring(&request.user), cstring(&request.client));
    let made = c::trn_session_request {
        struct_size: size_of::<c::trn_session_request>(),
        id: pointer(&id),
        user: user.as_ptr(),
        client: client.as_ptr(),
        settings: settings.as_ptr(),
        setting_count: settings.len(),
        groups: groups.1.as_ptr(),
        group_count: groups.1.len(),
        is_authenticated: request.is_authenticated,
    };
    let (mut out, mut error) = (null_mut(), null_mut());
    match open(&made, &mut out, &mut error) {
        0 => Ok(unsafe { SessionHandle::taken(out) }),
        status => Err(unsafe { Error::take(status, error) }),
    }
}

/// Runs on the next backend of the layer that was asked, or on the one whose session it is.
fn execute(backend: &Backend, request: &ExecutePlanRequest) -> Result<Arc<dyn QueryOperation>> {
    let tags = Texts::of(&request.tags);
    let texts = [&request.operation_id, &request.statement, &request.protocol, &request.traceparent, &request.policy]
        .map(|text| text.as_deref().map(cstring));
    let made = c::trn_execute_request {
        struct_size: size_of::<c::trn_execute_request>(),
        operation_id: pointer(&texts[0]),
        plan: request.plan.0,
        tags: tags.1.as_ptr(),
        tag_count: tags.1.len(),
        statement: pointer(&texts[1]),
        protocol: pointer(&texts[2]),
        traceparent: pointer(&texts[3]),
        policy: pointer(&texts[4]),
    };
    let (mut out, mut error) = (null_mut(), null_mut());
    // Held until the call returned: the session is not closed before.
    let next = request.next.as_ref().map(|next| next.0.read().unwrap_or_else(PoisonError::into_inner));
    let layer = next.as_ref().and_then(|next| **next);
    let is_next =
        |session: LayerSession| unsafe { c::trn_layer_next(c::trn_layer_session_layer(session.0)) } == backend.0;
    let status = match layer {
        Some(layer) if is_next(layer) => unsafe { c::trn_next_execute(layer.0, &made, &mut out, &mut error) },
        _ => request.session.native()?.with(|session| unsafe {
            if c::trn_session_backend(session) != backend.0 {
                return Err(Error::new(Code::FailedPrecondition, "The session is not one of this backend"));
            }
            Ok(c::trn_backend_execute(session, &made, &mut out, &mut error))
        })??,
    };
    if status != 0 {
        return Err(unsafe { Error::take(status, error) });
    }
    let id = unsafe { text(c::trn_operation_id(out)) };
    Ok(Arc::new(Operation { handle: Arc::new(OperationHandle(out)), id }))
}

#[async_trait]
impl QueryBackend for Backend {
    async fn open_session(&self, request: SessionRequest) -> Result<QuerySession> {
        let mut request = request;
        if request.native.is_none() {
            request.native = Some(Arc::new(session_open(self, &request)?));
        }
        Ok(QuerySession::with(request, None))
    }

    async fn execute_plan(&self, request: ExecutePlanRequest) -> Result<Arc<dyn QueryOperation>> {
        let backend = self.clone();
        blocking(move || execute(&backend, &request)).await
    }

    fn native(&self) -> Option<&Backend> {
        Some(self)
    }
}

struct OperationHandle(*mut c::trn_operation);
unsafe impl Send for OperationHandle {}
unsafe impl Sync for OperationHandle {}
impl Drop for OperationHandle {
    fn drop(&mut self) {
        unsafe { c::trn_operation_unref(self.0) };
    }
}

struct Operation {
    handle: Arc<OperationHandle>,
    id: String,
}

#[async_trait]
impl QueryOperation for Operation {
    fn id(&self) -> &str {
        &self.id
    }
    async fn status(&self) -> Result<QueryStatus> {
        Ok(match unsafe { c::trn_operation_get_state(self.handle.0) } {
            0 => QueryStatus::Pending,
            1 => QueryStatus::Planning,
            2 => QueryStatus::Running,
            3 => QueryStatus::Finished,
            4 => QueryStatus::Failed,
            5 => QueryStatus::Cancelled,
            _ => QueryStatus::Closed,
        })
    }
    async fn cancel(&self) -> Result<()> {
        unsafe { c::trn_operation_cancel(self.handle.0) };
        Ok(())
    }
    async fn result_stream(&self) -> Result<SendableRecordBatchStream> {
        let handle = self.handle.clone();
        let stream = blocking(move || {
            let handle = handle; // the whole of it: what is captured is Send
            let (mut out, mut error) = (null_mut(), null_mut());
            match unsafe { c::trn_operation_result_stream(handle.0, &mut out, &mut error) } {
                0 => Batches::new(StreamHandle(out), handle),
                status => Err(unsafe { Error::take(status, error) }),
            }
        });
        Ok(Box::pin(stream.await?))
    }
}

pub(crate) struct StreamHandle(pub *mut c::trn_stream);
unsafe impl Send for StreamHandle {}
impl Drop for StreamHandle {
    fn drop(&mut self) {
        unsafe { c::trn_stream_unref(self.0) }; // the last one cancels
    }
}

type Pull = Result<Option<FFI_ArrowArray>>;

struct Batches {
    stream: StreamHandle,
    _owner: Arc<dyn Send + Sync>, // what the stream comes from
    schema: SchemaRef,
    pull: Option<oneshot::Receiver<Pull>>,
    is_over: bool,
}

unsafe extern "C" fn on_array(user: *mut c_void, status: c_int, error: *const trn_error, array: *mut FFI_ArrowArray) {
    let sender = unsafe { Box::from_raw(user.cast::<oneshot::Sender<Pull>>()) };
    let pull = if status != 0 {
        let kept = if error.is_null() { null_mut() } else { unsafe { c::trn_error_ref(error.cast_mut()) } };
        Err(unsafe { Error::take(status, kept) })
    } else if array.is_null() || unsafe { (*array).is_released() } {
        Ok(None)
    } else {
        Ok(Some(unsafe { FFI_ArrowArray::from_raw(array) }))
    };
    let _ = sender.send(pull); // nobody may wait any more: then it is dropped
}

/// A stream of C as batches.
pub(crate) fn batches(stream: StreamHandle, owner: Arc<dyn Send + Sync>) -> Result<SendableRecordBatchStream> {
    Ok(Box::pin(Batches::new(stream, owner)?))
}

/// The status of an error object.
pub(crate) unsafe fn error_status(error: *const trn_error) -> c_int {
    unsafe { c::trn_error_status(error) }
}

impl Batches {
    fn new(stream: StreamHandle, owner: Arc<dyn Send + Sync>) -> Result<Batches> {
        let (mut schema, mut error) = (FFI_ArrowSchema::empty(), null_mut());
        match unsafe { c::trn_stream_schema(stream.0, &mut schema, &mut error) } {
            0 => {
                let schema = Arc::new(Schema::try_from(&schema)?);
                Ok(Batches { stream, _owner: owner, schema, pull: None, is_over: false })
            }
            status => Err(unsafe { Error::take(status, error) }),
        }
    }

    fn start(&self) -> Result<oneshot::Receiver<Pull>> {
        let (sender, receiver) = oneshot::channel();
        let user = Box::into_raw(Box::new(sender));
        let mut error = null_mut();
        match unsafe { c::trn_stream_next_array(self.stream.0, on_array, user.cast(), &mut error) } {
            0 => Ok(receiver),
            status => {
                drop(unsafe { Box::from_raw(user) }); // no callback comes
                Err(unsafe { Error::take(status, error) })
            }
        }
    }

    fn batch(&self, array: FFI_ArrowArray) -> Result<RecordBatch> {
        let kind = DataType::Struct(self.schema.fields().clone());
        let array = StructArray::from(unsafe { from_ffi_and_data_type(array, kind) }?);
        let options = RecordBatchOptions::new().with_row_count(Some(arrow_array::Array::len(&array)));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), array.columns().to_vec(), &options)?)
    }
}

impl Stream for Batches {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let mut pull = match self.pull.take() {
            Some(pull) => pull,
            None => match self.start() {
                Ok(pull) => pull,
                Err(error) => {
                    self.is_over = true;
                    return Poll::Ready(Some(Err(error)));
                }
            },
        };
        match Pin::new(&mut pull).poll(cx) {
            Poll::Pending => {
                self.pull = Some(pull);
                Poll::Pending
            }
            Poll::Ready(answer) => {
                let item = match answer {
                    Ok(Ok(Some(array))) => Some(self.batch(array)),
                    Ok(Ok(None)) => None,
                    Ok(Err(error)) => Some(Err(error)),
                    Err(_) => Some(Err(Error::new(Code::Internal, "A pull was not answered"))),
                };
                self.is_over = !matches!(item, Some(Ok(_)));
                Poll::Ready(item)
            }
        }
    }
}

impl RecordBatchStream for Batches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
