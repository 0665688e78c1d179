//! One RPC: tonic's streams on one side, trn_call on the other.
use crate::{Routes, ffi};
use bytes::{Buf, BufMut, Bytes};
use std::convert::Infallible;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::future::Future;
use std::pin::Pin;
use std::ptr::null;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::sync::{Notify, mpsc};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::{AsciiMetadataKey, BinaryMetadataKey, KeyAndValueRef, MetadataMap, MetadataValue};
use tonic::{Code, Request, Response, Status, Streaming};

const HIGH_WATER: usize = 1 << 20;
const MESSAGE_MAX: usize = 128 << 20;

#[derive(Clone, Copy)]
pub(crate) struct Method(pub *const ffi::trn_method);
unsafe impl Send for Method {}
unsafe impl Sync for Method {}

impl Method {
    /// Unary and server-streaming methods get their one message unasked.
    fn single(self) -> bool {
        matches!(unsafe { (*self.0).kind }, 0 | 1)
    }
}

// ---- messages are bytes ----

#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;
    fn encoder(&mut self) -> Raw {
        Raw
    }
    fn decoder(&mut self) -> Raw {
        Raw
    }
}
impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;
    fn encode(&mut self, item: Bytes, dst: &mut EncodeBuf<'_>) -> Result<(), Status> {
        dst.put(item);
        Ok(())
    }
}
impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;
    fn decode(&mut self, src: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(src.copy_to_bytes(src.remaining())))
    }
}

// ---- the host's side of a trn_call ----

enum Event {
    Message(Bytes),
    Finish(Result<MetadataMap, Box<Status>>),
}

struct Host {
    events: mpsc::UnboundedSender<Event>,
    queued: Arc<AtomicUsize>,
    finished: AtomicBool,
    pulls: Arc<Notify>,
    initial: Arc<Mutex<Option<MetadataMap>>>,
}

unsafe fn metadata_from(entries: *const ffi::trn_metadata, count: usize) -> MetadataMap {
    let mut map = MetadataMap::new();
    for i in 0..count {
        let entry = unsafe { &*entries.add(i) };
        let key = unsafe { CStr::from_ptr(entry.key) }.to_bytes();
        let value = unsafe { std::slice::from_raw_parts(entry.value.cast::<u8>(), entry.size) };
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
    let host = unsafe { &*this.cast::<Host>() };
    let mut message = Vec::new(); // tonic frames a message in one buffer of its own: the one copy of this host
    for i in 0..count {
        let slice = unsafe { &*slices.add(i) };
        if slice.size > 0 {
            message.extend_from_slice(unsafe { std::slice::from_raw_parts(slice.data.cast::<u8>(), slice.size) });
        }
        if let Some(release) = slice.release {
            unsafe { release(slice.owner) };
        }
    }
    let size = message.len();
    if host.finished.load(Ordering::Acquire) || host.events.send(Event::Message(message.into())).is_err() {
        return 2;
    }
    i32::from(host.queued.fetch_add(size, Ordering::AcqRel) + size > HIGH_WATER)
}

unsafe extern "C" fn finish(this: *mut c_void, code: c_int, message: *const c_char, details: *const c_void, details_size: usize,
                            trailing: *const ffi::trn_metadata, count: usize) {
    let host = unsafe { &*this.cast::<Host>() };
    if host.finished.swap(true, Ordering::AcqRel) {
        return;
    }
    let metadata = unsafe { metadata_from(trailing, count) };
    let end = if code == 0 {
        Ok(metadata)
    } else {
        let text = if message.is_null() { String::new() } else { unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned() };
        let bytes = if details.is_null() { Bytes::new() } else { Bytes::copy_from_slice(unsafe { std::slice::from_raw_parts(details.cast::<u8>(), details_size) }) };
        Err(Box::new(Status::with_details_and_metadata(Code::from(code), text, bytes, metadata)))
    };
    let _ = host.events.send(Event::Finish(end));
}

unsafe extern "C" fn recv(this: *mut c_void) {
    unsafe { &*this.cast::<Host>() }.pulls.notify_one();
}

unsafe extern "C" fn set_initial(this: *mut c_void, entries: *const ffi::trn_metadata, count: usize) {
    let host = unsafe { &*this.cast::<Host>() };
    *host.initial.lock().unwrap_or_else(|e| e.into_inner()) = Some(unsafe { metadata_from(entries, count) });
}

unsafe extern "C" fn abort(this: *mut c_void, code: c_int) {
    unsafe { finish(this, code, c"aborted".as_ptr(), null(), 0, null(), 0) };
}

unsafe extern "C" fn destroy(this: *mut c_void) {
    drop(unsafe { Box::from_raw(this.cast::<Host>()) });
}

static HOST: ffi::trn_call_host =
    ffi::trn_call_host { struct_size: size_of::<ffi::trn_call_host>(), send, finish, recv, set_initial_metadata: set_initial, abort, destroy };

/// Deliveries to the frontend, serialized. The call's last delivery comes when this is dropped.
struct Deliver {
    call: *mut ffi::trn_call,
    over: Mutex<bool>,
}
unsafe impl Send for Deliver {}
unsafe impl Sync for Deliver {}

impl Deliver {
    fn to(&self, deliver: impl FnOnce(*mut ffi::trn_call)) {
        let over = self.over.lock().unwrap_or_else(|e| e.into_inner());
        if !*over {
            deliver(self.call);
        }
    }
    fn end(&self, cancelled: bool) {
        let mut over = self.over.lock().unwrap_or_else(|e| e.into_inner());
        if !std::mem::replace(&mut *over, true) {
            unsafe {
                if cancelled {
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

async fn receive(deliver: Arc<Deliver>, mut requests: Streaming<Bytes>, pulls: Arc<Notify>, single: bool) {
    loop {
        if !single {
            pulls.notified().await;
        }
        match requests.message().await {
            Ok(Some(bytes)) => {
                let owner = Box::new(bytes);
                let slice = ffi::trn_slice { data: owner.as_ptr().cast(), size: owner.len(), release: Some(drop_bytes), owner: Box::into_raw(owner).cast() };
                let mut slice = Some(slice);
                deliver.to(|call| unsafe { ffi::trn_call_deliver_message(call, slice.take().unwrap_unchecked()) });
                if let Some(slice) = slice {
                    unsafe { drop_bytes(slice.owner) };
                }
                if single {
                    return deliver.to(|call| unsafe { ffi::trn_call_deliver_half_close(call) });
                }
            }
            Ok(None) => return deliver.to(|call| unsafe { ffi::trn_call_deliver_half_close(call) }),
            Err(_) => return deliver.end(true),
        }
    }
}

/// What tonic reads: the queued messages, then the end. Dropped early: the client is gone.
struct Replies {
    events: mpsc::UnboundedReceiver<Event>,
    queued: Arc<AtomicUsize>,
    deliver: Arc<Deliver>,
    ended: bool,
}

impl tokio_stream::Stream for Replies {
    type Item = Result<Bytes, Status>;
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        match self.events.poll_recv(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Event::Message(bytes))) => {
                let before = self.queued.fetch_sub(bytes.len(), Ordering::AcqRel);
                if before > HIGH_WATER / 2 && before - bytes.len() <= HIGH_WATER / 2 {
                    self.deliver.to(|call| unsafe { ffi::trn_call_deliver_writable(call) });
                }
                Poll::Ready(Some(Ok(bytes)))
            }
            Poll::Ready(Some(Event::Finish(Ok(_)))) | Poll::Ready(None) => {
                self.ended = true;
                Poll::Ready(None)
            }
            Poll::Ready(Some(Event::Finish(Err(status)))) => {
                self.ended = true;
                Poll::Ready(Some(Err(*status)))
            }
        }
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        self.deliver.end(!self.ended);
    }
}

fn open(method: Method, request: &Request<Streaming<Bytes>>, host: Host) -> Result<Arc<Deliver>, Status> {
    let mut keys = Vec::new();
    let mut values: Vec<Vec<u8>> = Vec::new();
    for entry in request.metadata().iter() {
        let (key, value) = match entry {
            KeyAndValueRef::Ascii(key, value) => (key.as_str(), value.as_bytes().to_vec()),
            KeyAndValueRef::Binary(key, value) => (key.as_str(), value.to_bytes().map(|b| b.to_vec()).unwrap_or_default()),
        };
        keys.push(CString::new(key).map_err(|e| Status::invalid_argument(e.to_string()))?);
        values.push(value);
    }
    let entries: Vec<_> = keys.iter().zip(&values).map(|(k, v)| ffi::trn_metadata { key: k.as_ptr(), value: v.as_ptr().cast(), size: v.len() }).collect();
    let peer = CString::new(request.remote_addr().map_or("tonic:".into(), |a| format!("ip:{a}"))).unwrap_or_default();
    let request = ffi::trn_call_request {
        struct_size: size_of::<ffi::trn_call_request>(),
        method: method.0,
        metadata: entries.as_ptr(),
        metadata_count: entries.len(),
        peer: peer.as_ptr(),
        identity: null(),
        deadline_ns: 0, // tonic enforces grpc-timeout itself and drops the reply stream
    };
    let host = Box::into_raw(Box::new(host));
    let mut call = std::ptr::null_mut();
    let status = unsafe { ffi::trn_call_create(&request, &HOST, host.cast(), &mut call) };
    if status != 0 {
        drop(unsafe { Box::from_raw(host) });
        return Err(Status::new(Code::from(status), "cannot open the call"));
    }
    Ok(Arc::new(Deliver { call, over: Mutex::new(false) }))
}

#[derive(Clone)]
struct Handler(Method);

impl tonic::server::StreamingService<Bytes> for Handler {
    type Response = Bytes;
    type ResponseStream = Replies;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Replies>, Status>> + Send>>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let method = self.0;
        Box::pin(async move {
            let (events, receiver) = mpsc::unbounded_channel();
            let queued = Arc::new(AtomicUsize::new(0));
            let pulls = Arc::new(Notify::new());
            let initial = Arc::new(Mutex::new(None));
            let host = Host { events, queued: queued.clone(), finished: AtomicBool::new(false), pulls: pulls.clone(), initial: initial.clone() };
            let deliver = open(method, &request, host)?;
            deliver.to(|call| unsafe { ffi::trn_call_deliver_open(call) });
            let replies = Replies { events: receiver, queued, deliver: deliver.clone(), ended: false };
            let mut response = Response::new(replies);
            if let Some(metadata) = initial.lock().unwrap_or_else(|e| e.into_inner()).take() {
                *response.metadata_mut() = metadata;
            }
            tokio::spawn(receive(deliver, request.into_inner(), pulls, method.single()));
            Ok(response)
        })
    }
}

/// The tower service: answers the routes' paths, and UNIMPLEMENTED for others.
#[derive(Clone)]
pub struct Mount(Routes);

impl Mount {
    pub(crate) fn new(routes: Routes) -> Mount {
        Mount(routes)
    }
}

impl<B> tower_service::Service<http::Request<B>> for Mount
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
{
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let routes = self.0.clone(); // the routes live as long as their calls
        Box::pin(async move {
            let Some(method) = routes.find(request.uri().path()) else {
                return Ok(Status::unimplemented(format!("unknown method {}", request.uri().path())).into_http());
            };
            let mut grpc = tonic::server::Grpc::new(Raw).max_decoding_message_size(MESSAGE_MAX).max_encoding_message_size(MESSAGE_MAX);
            Ok(grpc.streaming(Handler(method), request).await)
        })
    }
}
