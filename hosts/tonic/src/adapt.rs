//! The traits as C sees them: vtables over `dyn QueryBackend`, `dyn QueryOperation`, streams, `dyn QueryInputDecoder`.
use crate::ffi;
use crate::ffi_query as c;
use crate::native::{Backend, LayerSession, Next, SessionHandle};
use crate::query::*;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::{Array, RecordBatch, StructArray};
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::future::poll_fn;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Notify;

const CANCEL_LOOK: Duration = Duration::from_millis(20); // how often a decoder's work is asked whether it is still wanted
const STATE_WAIT: Duration = Duration::from_secs(1); // for backends that do not answer at once, as they should

/// Runs a future on the runtime and waits for it here, on a thread of C. A panic is an INTERNAL error.
fn wait<T: Send + 'static>(runtime: &Handle, future: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        let _ = sender.send(future.await);
    });
    receiver
        .recv()
        .unwrap_or_else(|_| Err(Error::new(Code::Internal, "The backend panicked, or its runtime has ended")))
}

/// As `wait`, until `cancel` is requested: then the future is dropped.
fn wait_or_cancel<T: Send + 'static>(
    runtime: &Handle,
    cancel: *const c::trn_cancel,
    future: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let task = runtime.spawn(async move {
        let _ = sender.send(future.await);
    });
    loop {
        match receiver.recv_timeout(CANCEL_LOOK) {
            Ok(done) => return done,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(Error::new(Code::Internal, "The backend panicked, or its runtime has ended"));
            }
            Err(mpsc::RecvTimeoutError::Timeout) if unsafe { c::trn_cancel_is_requested(cancel) } => {
                task.abort();
                return Err(Error::new(Code::Cancelled, "It was cancelled"));
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
}

/// What a function for C returns; panics end here.
unsafe fn answer(out: c::Errors, work: impl FnOnce() -> Result<()>) -> c_int {
    let done = catch_unwind(AssertUnwindSafe(work));
    match done.unwrap_or_else(|_| Err(Error::new(Code::Internal, "The backend panicked"))) {
        Ok(()) => 0,
        Err(error) => unsafe { error.give(out) },
    }
}

struct Shared {
    backend: Arc<dyn QueryBackend>,
    runtime: Handle,
}

struct Session {
    session: QuerySession,
    next: Option<Arc<Next>>,
    native: Arc<SessionHandle>,
}

impl Drop for Session {
    /// Waits for what is on its way to C; a clone of the session that somebody kept finds no way any more.
    fn drop(&mut self) {
        if let Some(next) = &self.next {
            *next.0.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
        self.native.end();
    }
}

/// The backend for C. Takes what it needs of `backend` as a layer when that has an inner one.
pub(crate) fn backend(backend: Arc<dyn QueryBackend>, runtime: Handle) -> Result<Backend> {
    let inner = backend.inner().cloned();
    let this = Box::into_raw(Box::new(Shared { backend, runtime })).cast::<c_void>();
    let (mut out, mut error) = (null_mut(), null_mut());
    let status = match &inner {
        Some(inner) => unsafe { c::trn_layer_create(&LAYER.0, this, inner.0, &mut out, &mut error) },
        None => unsafe { c::trn_backend_create(&BACKEND, this, &mut out) },
    };
    if status != 0 {
        drop(unsafe { Box::from_raw(this.cast::<Shared>()) });
        return Err(unsafe { Error::take(status, error) });
    }
    Ok(Backend(out))
}

static BACKEND: c::trn_backend_ops = c::trn_backend_ops {
    struct_size: size_of::<c::trn_backend_ops>(),
    open_session,
    close_session,
    sources: [None; 3],
    execute,
    explain: None,
    destroy: destroy_shared,
    others: [None; 6],
};

struct LayerOps(c::trn_layer_ops);
unsafe impl Sync for LayerOps {} // its name is a constant
static LAYER: LayerOps = LayerOps(c::trn_layer_ops {
    struct_size: size_of::<c::trn_layer_ops>(),
    name: c"rust".as_ptr(),
    role: 0,
    open_session: layer_open_session,
    close_session: layer_close_session,
    sources: [None; 3],
    execute: layer_execute,
    others: [None; 5],
    destroy: destroy_shared,
    statements: [None; 2],
});

unsafe fn shared<'a>(this: *mut c_void) -> &'a Shared {
    unsafe { &*this.cast::<Shared>() }
}

unsafe extern "C" fn destroy_shared(this: *mut c_void) {
    drop(unsafe { Box::from_raw(this.cast::<Shared>()) });
}

/// What the backend in Rust is told of a session.
unsafe fn request_of(session: *mut c::trn_session) -> SessionRequest {
    SessionRequest {
        id: Some(unsafe { text(c::trn_session_id(session)) }),
        user: unsafe { text(c::trn_session_user(session)) },
        groups: unsafe { groups_of(session) },
        is_authenticated: unsafe { c::trn_session_is_authenticated(session) },
        ..SessionRequest::default()
    }
}

/// The backend's session, which finds its settings in that of C. It holds no reference to that, which would never close then.
unsafe fn open(shared: &Shared, native: *mut c::trn_session, next: Option<Arc<Next>>) -> Result<Box<Session>> {
    let mut request = unsafe { request_of(native) };
    let native = Arc::new(unsafe { SessionHandle::borrowed(native) });
    request.native = Some(native.clone());
    let backend = shared.backend.clone();
    let opened = wait(&shared.runtime, async move { backend.open_session(request).await });
    match opened {
        Ok(session) => Ok(Box::new(Session { session, next, native })),
        Err(error) => {
            native.end();
            Err(error)
        }
    }
}

unsafe extern "C" fn open_session(
    this: *mut c_void,
    native: *mut c::trn_session,
    out: *mut *mut c_void,
    error: c::Errors,
) -> c_int {
    unsafe {
        answer(error, || {
            *out = Box::into_raw(open(shared(this), native, None)?).cast();
            Ok(())
        })
    }
}

unsafe extern "C" fn close_session(_this: *mut c_void, state: *mut c_void) {
    drop(unsafe { Box::from_raw(state.cast::<Session>()) });
}

unsafe extern "C" fn layer_open_session(
    this: *mut c_void,
    layer: *mut c::trn_layer_session,
    out: *mut *mut c_void,
    error: c::Errors,
) -> c_int {
    unsafe {
        answer(error, || {
            let next = Arc::new(Next(RwLock::new(Some(LayerSession(layer)))));
            *out = Box::into_raw(open(shared(this), c::trn_layer_session_get(layer), Some(next))?).cast();
            Ok(())
        })
    }
}

unsafe extern "C" fn layer_close_session(_this: *mut c_void, _: *mut c::trn_layer_session, state: *mut c_void) {
    drop(unsafe { Box::from_raw(state.cast::<Session>()) });
}

unsafe fn optional(given: *const c_char) -> Option<String> {
    (!given.is_null()).then(|| unsafe { text(given) })
}

unsafe fn run(
    shared: &Shared,
    session: &Session,
    request: *const c::trn_execute_request,
    out: *mut *mut c::trn_operation,
) -> Result<()> {
    let request = unsafe { &*request };
    let made = ExecutePlanRequest {
        session: session.session.clone(),
        plan: Plan(unsafe { c::trn_plan_ref(request.plan) }),
        operation_id: unsafe { optional(request.operation_id) },
        tags: (0..request.tag_count).map(|i| unsafe { text(*request.tags.add(i)) }).collect(),
        statement: unsafe { optional(request.statement) },
        protocol: unsafe { optional(request.protocol) },
        traceparent: unsafe { optional(request.traceparent) },
        policy: unsafe { optional(request.policy) },
        next: session.next.clone(),
    };
    let backend = shared.backend.clone();
    let operation = wait(&shared.runtime, async move { backend.execute_plan(made).await })?;
    let id = cstring(operation.id());
    let this = Box::into_raw(Box::new(Operation {
        operation,
        runtime: shared.runtime.clone(),
        last: Mutex::new(QueryStatus::Running),
    }));
    match unsafe { c::trn_operation_create(&OPERATION, this.cast(), id.as_ptr(), out) } {
        0 => Ok(()),
        status => {
            drop(unsafe { Box::from_raw(this) });
            Err(Error::new(Code::from(status), "The operation"))
        }
    }
}

unsafe extern "C" fn execute(
    this: *mut c_void,
    state: *mut c_void,
    request: *const c::trn_execute_request,
    out: *mut *mut c::trn_operation,
    error: c::Errors,
) -> c_int {
    unsafe { answer(error, || run(shared(this), &*state.cast::<Session>(), request, out)) }
}

unsafe extern "C" fn layer_execute(
    this: *mut c_void,
    layer: *mut c::trn_layer_session,
    request: *const c::trn_execute_request,
    out: *mut *mut c::trn_operation,
    error: c::Errors,
) -> c_int {
    unsafe { answer(error, || run(shared(this), &*c::trn_layer_session_state(layer).cast::<Session>(), request, out)) }
}

// ---- operations ----

struct Operation {
    operation: Arc<dyn QueryOperation>,
    runtime: Handle,
    last: Mutex<QueryStatus>,
}

static OPERATION: c::trn_operation_ops = c::trn_operation_ops {
    struct_size: size_of::<c::trn_operation_ops>(),
    state: operation_state,
    cancel: operation_cancel,
    result_stream: operation_stream,
    metrics: None,
    destroy: operation_destroy,
};

unsafe fn operation<'a>(this: *mut c_void) -> &'a Operation {
    unsafe { &*this.cast::<Operation>() }
}

unsafe extern "C" fn operation_state(this: *mut c_void) -> c_int {
    let this = unsafe { operation(this) };
    let (sender, receiver) = mpsc::sync_channel(1);
    let asked = this.operation.clone();
    this.runtime.spawn(async move {
        let _ = sender.send(asked.status().await);
    });
    let mut last = this.last.lock().unwrap_or_else(PoisonError::into_inner);
    match receiver.recv_timeout(STATE_WAIT) {
        Ok(Ok(status)) => *last = status,
        Ok(Err(_)) => *last = QueryStatus::Failed,
        Err(_) => {} // what it was
    }
    *last as c_int
}

unsafe extern "C" fn operation_cancel(this: *mut c_void) {
    let this = unsafe { operation(this) };
    let operation = this.operation.clone();
    this.runtime.spawn(async move { operation.cancel().await });
}

unsafe extern "C" fn operation_stream(this: *mut c_void, out: *mut *mut c::trn_stream, error: c::Errors) -> c_int {
    let this = unsafe { operation(this) };
    unsafe {
        answer(error, || {
            let operation = this.operation.clone();
            let stream = wait(&this.runtime, async move { operation.result_stream().await })?;
            let schema = FFI_ArrowSchema::try_from(stream.schema().as_ref())?;
            let made = Box::into_raw(Box::new(Stream {
                schema,
                stream: Arc::new(Mutex::new(Some(stream))),
                cancelled: Arc::new(Notify::new()),
                runtime: this.runtime.clone(),
            }));
            match c::trn_stream_create(&STREAM, made.cast(), out) {
                0 => Ok(()),
                status => {
                    drop(Box::from_raw(made));
                    Err(Error::new(Code::from(status), "The stream"))
                }
            }
        })
    }
}

unsafe extern "C" fn operation_destroy(this: *mut c_void) {
    drop(unsafe { Box::from_raw(this.cast::<Operation>()) });
}

// ---- streams ----

struct Stream {
    schema: FFI_ArrowSchema,
    stream: Arc<Mutex<Option<SendableRecordBatchStream>>>, // None: a pull has it
    cancelled: Arc<Notify>,
    runtime: Handle,
}

static STREAM: c::trn_stream_ops = c::trn_stream_ops {
    struct_size: size_of::<c::trn_stream_ops>(),
    schema: stream_schema,
    schema_ipc: None,
    next_array: stream_next,
    next_ipc: None,
    cancel: stream_cancel,
    destroy: stream_destroy,
};

unsafe fn stream<'a>(this: *mut c_void) -> &'a Stream {
    unsafe { &*this.cast::<Stream>() }
}

unsafe extern "C" fn stream_schema(this: *mut c_void, out: *mut FFI_ArrowSchema, error: c::Errors) -> c_int {
    unsafe {
        answer(error, || {
            let schema = arrow_schema::Schema::try_from(&stream(this).schema)?;
            out.write(FFI_ArrowSchema::try_from(&schema)?);
            Ok(())
        })
    }
}

/// Who is to be told how a pull ended. Told in any case: a future that panics or is dropped says INTERNAL.
struct Completion {
    done: c::ArrayDone,
    user: *mut c_void,
    is_told: bool,
}
unsafe impl Send for Completion {}

impl Completion {
    fn tell(mut self, item: Option<Result<RecordBatch>>) {
        self.is_told = true;
        self.send(item);
    }

    fn send(&self, item: Option<Result<RecordBatch>>) {
        let (mut error, mut status) = (null_mut(), 0);
        let array = match item {
            Some(Ok(batch)) => FFI_ArrowArray::new(&StructArray::from(batch).into_data()),
            Some(Err(failed)) => {
                status = unsafe { failed.give(&mut error) };
                FFI_ArrowArray::empty()
            }
            None => FFI_ArrowArray::empty(),
        };
        let mut array = ManuallyDrop::new(array); // the callee takes it
        unsafe {
            (self.done)(self.user, status, error, &mut *array);
            ffi::trn_error_unref(error);
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if !self.is_told {
            self.send(Some(Err(Error::new(Code::Internal, "The backend's stream panicked, or its runtime has ended"))));
        }
    }
}

unsafe extern "C" fn stream_next(this: *mut c_void, done: c::ArrayDone, user: *mut c_void, error: c::Errors) -> c_int {
    let this = unsafe { stream(this) };
    let (kept, cancelled) = (this.stream.clone(), this.cancelled.clone());
    let taken = kept.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(mut batches) = taken else {
        return unsafe { Error::new(Code::FailedPrecondition, "A pull is outstanding, or one has failed").give(error) };
    };
    let completion = Completion { done, user, is_told: false };
    this.runtime.spawn(async move {
        let completion = completion;
        let item = tokio::select! {
            biased;
            () = cancelled.notified() => Some(Err(Error::new(Code::Cancelled, "The stream was cancelled"))),
            item = poll_fn(|cx| batches.as_mut().poll_next(cx)) => item,
        };
        *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(batches);
        drop(kept); // before the callback: `this` may be destroyed in it
        completion.tell(item);
    });
    0
}

unsafe extern "C" fn stream_cancel(this: *mut c_void) {
    unsafe { stream(this) }.cancelled.notify_one();
}

unsafe extern "C" fn stream_destroy(this: *mut c_void) {
    drop(unsafe { Box::from_raw(this.cast::<Stream>()) });
}

// ---- decoders ----

struct Decoder {
    decoder: Arc<dyn QueryInputDecoder>,
    runtime: Handle,
}

static DECODER: c::trn_decoder_ops = c::trn_decoder_ops {
    struct_size: size_of::<c::trn_decoder_ops>(),
    decode,
    asynchronous: [None; 2],
    destroy: decoder_destroy,
};

/// # Safety
/// `registry` lives and is not read yet.
pub(crate) unsafe fn add_decoder(
    registry: *mut c::trn_registry,
    decoder: Arc<dyn QueryInputDecoder>,
    runtime: Handle,
) -> Result<()> {
    let format = cstring(decoder.format());
    let this = Box::into_raw(Box::new(Decoder { decoder, runtime }));
    let mut error = null_mut();
    match unsafe { c::trn_registry_add_decoder(registry, format.as_ptr(), &DECODER, this.cast(), &mut error) } {
        0 => Ok(()),
        status => {
            drop(unsafe { Box::from_raw(this) });
            Err(unsafe { Error::take(status, error) })
        }
    }
}

unsafe extern "C" fn decode(
    this: *mut c_void,
    session: *mut c::trn_session,
    input: *const c::trn_plan_input,
    out: *mut *mut c::trn_plan,
    error: c::Errors,
) -> c_int {
    unsafe {
        answer(error, || {
            let (this, input) = (&*this.cast::<Decoder>(), &*input);
            let payload = ffi::bytes(input.data, input.size).to_vec();
            let options: HashMap<String, String> = (0..input.option_count)
                .map(|i| &*input.options.add(i))
                .map(|option| (text(option.key), text(option.value)))
                .collect();
            let mut request = request_of(session);
            request.native = Some(Arc::new(SessionHandle::taken(c::trn_session_ref(session))));
            let (session, decoder) = (QuerySession::with(request, None), this.decoder.clone());
            let decoded = async move { decoder.decode(&payload, &session, &options).await };
            let plan = wait_or_cancel(&this.runtime, input.cancel, decoded)?;
            *out = ManuallyDrop::new(plan).0;
            Ok(())
        })
    }
}

unsafe extern "C" fn decoder_destroy(this: *mut c_void) {
    drop(unsafe { Box::from_raw(this.cast::<Decoder>()) });
}
