//! What a frontend does with a call: the functions of `trn_call_host`, and the queue they fill for the reply's body.
use crate::{Routes, ffi};
use bytes::{BufMut, Bytes, BytesMut};
use http::HeaderMap;
use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::sync::Semaphore;
use tonic::metadata::{AsciiMetadataKey, BinaryMetadataKey, MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// Queued bytes from which a frontend is asked to wait; it may go on at half of it.
const HIGH_WATER: usize = 1 << 20;
/// Slices up to this size are copied into the frame before them: cheaper than a DATA frame of their own.
const COPY_MAX: usize = 4 << 10;

const SEND_READY: c_int = 0;
const SEND_FULL: c_int = 1;
const SEND_CLOSED: c_int = 2;

#[derive(Default)]
struct State {
    queue: VecDeque<Bytes>,
    queued_bytes: usize,
    is_full: bool,
    /// Nothing more is taken: finished, failed, or the client is gone.
    is_closed: bool,
    initial: Option<MetadataMap>,
    /// How the call ends, once the queue is empty.
    end: Option<Box<Status>>,
    waker: Option<Waker>,
}

/// Shared by the frontend (as `self` of its host functions), the body of the reply and the reader of the request.
pub(crate) struct Exchange {
    state: Mutex<State>,
    /// Messages that the frontend asked for and that were not delivered.
    pub pulls: Semaphore,
}

/// What the body of the reply gives next. `is_writable`: the frontend waits to be told that it may send.
pub(crate) enum Next {
    Bytes { bytes: Bytes, is_writable: bool },
    End(Box<Status>),
}

impl Exchange {
    pub fn new() -> Exchange {
        Exchange { state: Mutex::default(), pulls: Semaphore::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Next> {
        let mut state = self.lock();
        if let Some(bytes) = state.queue.pop_front() {
            state.queued_bytes -= bytes.len();
            let is_writable = state.is_full && state.queued_bytes <= HIGH_WATER / 2;
            state.is_full &= !is_writable;
            let is_writable = is_writable && !state.is_closed;
            return Poll::Ready(Next::Bytes { bytes, is_writable });
        }
        if let Some(end) = state.end.take() {
            return Poll::Ready(Next::End(end));
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Waits until there is something to send: before that the initial metadata may still change.
    pub fn poll_begun(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if !state.queue.is_empty() || state.end.is_some() {
            return Poll::Ready(());
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    pub fn take_initial(&self) -> Option<MetadataMap> {
        self.lock().initial.take()
    }

    /// Ends the call at once: what is queued is dropped, `status` is what the client sees.
    pub fn fail(&self, status: Status) {
        let mut state = self.lock();
        let dropped = std::mem::take(&mut state.queue);
        state.queued_bytes = 0;
        state.is_closed = true;
        state.end = Some(Box::new(status));
        let waker = state.waker.take();
        drop(state);
        drop(dropped); // releases of slices are foreign code: never under the lock
        waker.into_iter().for_each(Waker::wake);
    }

    fn finish(&self, status: Status) {
        let mut state = self.lock();
        if state.is_closed {
            return;
        }
        state.is_closed = true;
        state.end = Some(Box::new(status));
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    fn push(&self, frames: Vec<Bytes>) -> c_int {
        let mut state = self.lock();
        if state.is_closed {
            drop(state);
            return SEND_CLOSED; // and `frames` is dropped without the lock
        }
        for bytes in frames {
            state.queued_bytes += bytes.len();
            state.queue.push_back(bytes);
        }
        state.is_full |= state.queued_bytes > HIGH_WATER;
        let is_full = state.is_full;
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        if is_full { SEND_FULL } else { SEND_READY }
    }
}

/// A slice that is released when the last view of it is dropped: the frontend's memory goes to the socket uncopied.
struct Owned(ffi::trn_slice);
unsafe impl Send for Owned {} // "a release may run on any thread"

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        unsafe { ffi::bytes(self.0.data, self.0.size) }
    }
}
impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            unsafe { release(self.0.owner) };
        }
    }
}

/// A message as it goes over the wire: prefix and small slices merged, large ones as they are. `None`: over 4 GiB.
fn frames(slices: Vec<Owned>) -> Option<Vec<Bytes>> {
    let size = slices.iter().map(|s| s.0.size).sum::<usize>();
    let small = slices.iter().map(|s| if s.0.size <= COPY_MAX { s.0.size } else { 0 }).sum::<usize>();
    let mut frames = Vec::new();
    let mut merged = BytesMut::with_capacity(5 + small);
    merged.put_u8(0); // not compressed
    merged.put_u32(u32::try_from(size).ok()?);
    for slice in slices {
        if slice.0.size <= COPY_MAX || slice.0.release.is_none() {
            merged.put_slice(slice.as_ref());
            continue;
        }
        if !merged.is_empty() {
            frames.push(merged.split().freeze());
        }
        frames.push(Bytes::from_owner(slice));
    }
    if !merged.is_empty() {
        frames.push(merged.freeze());
    }
    Some(frames)
}

// ---- the C side ----

unsafe fn exchange<'a>(this: *mut c_void) -> &'a Exchange {
    unsafe { &*this.cast::<Exchange>() }
}

unsafe fn metadata_from(entries: *const ffi::trn_metadata, count: usize) -> MetadataMap {
    let mut map = MetadataMap::new();
    for i in 0..count {
        let entry = unsafe { &*entries.add(i) };
        let key = unsafe { CStr::from_ptr(entry.key) }.to_bytes();
        let value = unsafe { ffi::bytes(entry.value, entry.size) };
        if key.ends_with(b"-bin") {
            if let Ok(key) = BinaryMetadataKey::from_bytes(key) {
                map.append_bin(key, MetadataValue::from_bytes(value));
            }
        } else if let (Ok(key), Ok(value)) = (AsciiMetadataKey::from_bytes(key), MetadataValue::try_from(value)) {
            map.append(key, value);
        }
    }
    map
}

unsafe extern "C" fn send(this: *mut c_void, slices: *const ffi::trn_slice, count: usize, _flags: c_uint) -> c_int {
    let exchange = unsafe { exchange(this) };
    let owned = (0..count).map(|i| Owned(unsafe { slices.add(i).read() })).collect();
    match frames(owned) {
        Some(frames) => exchange.push(frames),
        None => {
            exchange.finish(Status::resource_exhausted("A response message is over 4 GiB"));
            SEND_CLOSED
        }
    }
}

unsafe extern "C" fn finish(
    this: *mut c_void,
    code: c_int,
    message: *const c_char,
    details: *const c_void,
    details_size: usize,
    trailing: *const ffi::trn_metadata,
    count: usize,
) {
    let text =
        if message.is_null() { "".into() } else { unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned() };
    let details = Bytes::copy_from_slice(unsafe { ffi::bytes(details, details_size) });
    let trailing = unsafe { metadata_from(trailing, count) };
    unsafe { exchange(this) }.finish(Status::with_details_and_metadata(Code::from(code), text, details, trailing));
}

unsafe extern "C" fn recv(this: *mut c_void) {
    unsafe { exchange(this) }.pulls.add_permits(1);
}

unsafe extern "C" fn set_initial(this: *mut c_void, entries: *const ffi::trn_metadata, count: usize) {
    let metadata = unsafe { metadata_from(entries, count) };
    unsafe { exchange(this) }.lock().initial = Some(metadata);
}

/// tonic offers no reset to a body; the client sees the status instead.
unsafe extern "C" fn abort(this: *mut c_void, code: c_int) {
    unsafe { exchange(this) }.fail(Status::new(Code::from(code), "The server aborted the call"));
}

unsafe extern "C" fn destroy(this: *mut c_void) {
    drop(unsafe { Arc::from_raw(this.cast::<Exchange>()) });
}

static HOST: ffi::trn_call_host = ffi::trn_call_host {
    struct_size: size_of::<ffi::trn_call_host>(),
    send,
    finish,
    recv,
    set_initial_metadata: set_initial,
    abort,
    destroy,
};

// ---- deliveries ----

/// The host's reference to a call: its deliveries, one at a time, and none after the last.
pub(crate) struct Delivery {
    call: *mut ffi::trn_call,
    is_over: Mutex<bool>,
    _routes: Routes, // what serves the call lives as long as it
}
unsafe impl Send for Delivery {}
unsafe impl Sync for Delivery {}

impl Delivery {
    /// Makes the call and opens it.
    pub fn open(
        request: &ffi::trn_call_request,
        exchange: &Arc<Exchange>,
        routes: Routes,
    ) -> Result<Arc<Delivery>, Status> {
        let this = Arc::into_raw(exchange.clone());
        let mut call = std::ptr::null_mut();
        let status = unsafe { ffi::trn_call_create(request, &HOST, this.cast_mut().cast(), &mut call) };
        if status != 0 {
            drop(unsafe { Arc::from_raw(this) });
            return Err(Status::new(Code::from(status), "The call cannot be opened"));
        }
        unsafe { ffi::trn_call_deliver_open(call) };
        Ok(Arc::new(Delivery { call, is_over: Mutex::new(false), _routes: routes }))
    }

    fn with(&self, deliver: impl FnOnce(*mut ffi::trn_call)) {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_over {
            deliver(self.call);
        }
    }

    pub fn message(&self, bytes: Bytes) {
        let (data, size) = (bytes.as_ptr().cast(), bytes.len());
        self.with(|call| {
            let owner = Box::into_raw(Box::new(bytes)).cast();
            let message = ffi::trn_slice { data, size, release: Some(drop_bytes), owner };
            unsafe { ffi::trn_call_deliver_message(call, message) };
        });
    }

    pub fn half_close(&self) {
        self.with(|call| unsafe { ffi::trn_call_deliver_half_close(call) });
    }

    pub fn writable(&self) {
        self.with(|call| unsafe { ffi::trn_call_deliver_writable(call) });
    }

    /// The last delivery. Does nothing the second time.
    pub fn end(&self, is_cancelled: bool) {
        let mut is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *is_over, true) {
            unsafe {
                if is_cancelled {
                    ffi::trn_call_deliver_cancel(self.call);
                }
                ffi::trn_call_deliver_done(self.call);
            }
        }
    }
}

unsafe extern "C" fn drop_bytes(owner: *mut c_void) {
    drop(unsafe { Box::from_raw(owner.cast::<Bytes>()) });
}

/// The trailers that say how a call ended.
pub(crate) fn trailers(status: &Status) -> HeaderMap {
    let mut map = HeaderMap::new();
    if status.add_header(&mut map).is_err() {
        map.insert("grpc-status", http::HeaderValue::from(Code::Internal as i32));
    }
    map
}
