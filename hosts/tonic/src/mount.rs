//! The tower service: from tonic's request to a call, and from what its frontend sends to the reply's body.
use crate::host::{Delivery, Exchange, Next, trailers};
use crate::{Groups, Identity, Routes, ffi};
use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts};
use http_body::Frame;
use std::convert::Infallible;
use std::ffi::CString;
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::ptr::null;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};
use tonic::codec::{CompressionEncoding, DecodeBuf, Decoder, Streaming};
use tonic::metadata::{KeyAndValueRef, MetadataMap};
use tonic::transport::server::UdsConnectInfo;
use tonic::{Code, Status, body::Body};

/// The largest request message of methods that name no limit.
const MESSAGE_BYTES_MAX: usize = 128 << 20;
/// A grpc-timeout that is longer is as good as none.
const TIMEOUT_MAX: Duration = Duration::from_secs(10 * 365 * 86400);

#[derive(Clone, Copy)]
pub(crate) struct Method(pub *const ffi::trn_method);
unsafe impl Send for Method {} // only read, and the routes outlive it
unsafe impl Sync for Method {}

impl Method {
    /// Unary and server-streaming methods get their one message unasked.
    fn is_single(self) -> bool {
        matches!(unsafe { (*self.0).kind }, 0 | 1)
    }
    fn message_bytes_max(self) -> usize {
        match unsafe { (*self.0).message_bytes_max } {
            0 => MESSAGE_BYTES_MAX,
            own => own,
        }
    }
}

// ---- the request ----

/// Messages are bytes: what they mean is the frontend's.
struct Raw;

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;
    fn decode(&mut self, src: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(src.copy_to_bytes(src.remaining())))
    }
}

/// "20S", "100m": up to eight digits and a unit.
fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Status> {
    let Some(value) = headers.get("grpc-timeout") else { return Ok(None) };
    let malformed = || Status::internal("Malformed grpc-timeout");
    let text = value.to_str().map_err(|_| malformed())?; // ASCII: may be split anywhere
    let (digits, unit) = text.split_at(text.len().saturating_sub(1));
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(malformed());
    }
    let count: u64 = digits.parse().map_err(|_| malformed())?;
    let timeout = match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return Err(malformed()),
    };
    Ok((timeout <= TIMEOUT_MAX).then_some(timeout))
}

fn encoding(headers: &HeaderMap) -> Result<Option<CompressionEncoding>, Status> {
    match headers.get("grpc-encoding").map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok(None),
        Some(b"gzip") => Ok(Some(CompressionEncoding::Gzip)),
        Some(_) => Err(Status::unimplemented("grpc-encoding is none of identity, gzip")),
    }
}

/// Several values of a binary key may travel as one, separated by commas.
fn split_binary(headers: &HeaderMap) -> HeaderMap {
    let mut split = HeaderMap::with_capacity(headers.len());
    for (key, value) in headers {
        if !key.as_str().ends_with("-bin") {
            split.append(key.clone(), value.clone());
            continue;
        }
        for part in value.as_bytes().split(|byte| *byte == b',') {
            if let Ok(part) = HeaderValue::from_bytes(part.trim_ascii()) {
                split.append(key.clone(), part);
            }
        }
    }
    split
}

fn peer(parts: &Parts) -> String {
    let mut request = tonic::Request::new(());
    *request.extensions_mut() = parts.extensions.clone();
    match request.remote_addr() {
        Some(address) => match address.ip().to_canonical() {
            std::net::IpAddr::V4(ip) => format!("ipv4:{ip}:{}", address.port()),
            std::net::IpAddr::V6(ip) => format!("ipv6:[{ip}]:{}", address.port()),
        },
        None if parts.extensions.get::<UdsConnectInfo>().is_some() => "unix:".into(),
        None => "unknown:".into(),
    }
}

/// The call's deadline for C, which counts in CLOCK_MONOTONIC.
fn deadline_ns(timeout: Option<Duration>) -> i64 {
    let Some(timeout) = timeout else { return i64::MAX };
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    let now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
    i64::try_from((now + timeout).as_nanos()).unwrap_or(i64::MAX)
}

fn open(
    method: Method,
    parts: &Parts,
    timeout: Option<Duration>,
    exchange: &Arc<Exchange>,
    routes: Routes,
) -> Result<Arc<Delivery>, Status> {
    let metadata = MetadataMap::from_headers(split_binary(&parts.headers));
    let mut texts = Vec::with_capacity(metadata.len());
    for entry in metadata.iter() {
        let (key, value) = match entry {
            KeyAndValueRef::Ascii(key, value) => (key.as_str(), Bytes::copy_from_slice(value.as_bytes())),
            KeyAndValueRef::Binary(key, value) => {
                (key.as_str(), value.to_bytes().map_err(|_| Status::internal("Malformed binary metadata"))?)
            }
        };
        texts.push((CString::new(key).map_err(|_| Status::internal("Malformed metadata"))?, value));
    }
    let entries: Vec<_> = texts
        .iter()
        .map(|(key, value)| ffi::trn_metadata { key: key.as_ptr(), value: value.as_ptr().cast(), size: value.len() })
        .collect();
    let peer = CString::new(peer(parts)).unwrap_or_default();
    let identity = match parts.extensions.get::<Identity>() {
        Some(Identity(name)) => {
            Some(CString::new(name.as_str()).map_err(|_| Status::unauthenticated("The identity has a NUL in it"))?)
        }
        None => None,
    };
    let names: Vec<CString> = match parts.extensions.get::<Groups>() {
        Some(Groups(names)) => names
            .iter()
            .map(|name| CString::new(name.as_str()).map_err(|_| Status::unauthenticated("A group has a NUL in it")))
            .collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    let groups: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
    let request = ffi::trn_call_request {
        struct_size: size_of::<ffi::trn_call_request>(),
        method: method.0,
        metadata: entries.as_ptr(),
        metadata_count: entries.len(),
        peer: peer.as_ptr(),
        identity: identity.as_ref().map_or(null(), |name| name.as_ptr()),
        deadline_ns: deadline_ns(timeout),
        groups: groups.as_ptr(),
        group_count: groups.len(),
    };
    Delivery::open(&request, exchange, routes)
}

/// Delivers what the client sends. One message is read ahead of the frontend's asking, so that the end of the request
/// is seen; more is held back by HTTP/2's window.
async fn receive(
    delivery: &Delivery,
    exchange: &Exchange,
    mut messages: Streaming<Bytes>,
    is_single: bool,
) -> Result<(), Status> {
    let mut count = 0u64;
    loop {
        let message = messages.message().await.map_err(|status| match status.code() {
            // What gRPC says for messages over the limit; tonic says something else.
            Code::OutOfRange => Status::resource_exhausted(status.message()),
            _ => status,
        })?;
        match message {
            Some(_) if is_single && count > 0 => {
                return Err(Status::internal("More than one message in a request of a method that takes one"));
            }
            Some(bytes) => {
                if !is_single {
                    exchange.pulls.acquire().await.map_err(|_| Status::internal("The call is over"))?.forget();
                }
                count += 1;
                delivery.message(bytes);
            }
            None if is_single && count == 0 => {
                return Err(Status::internal("The request ended without a message"));
            }
            None => {
                delivery.half_close();
                return Ok(());
            }
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}

/// Runs beside the reply until that is dropped: reads the request, and ends the call when the deadline passes. (tonic
/// itself watches the deadline until the first headers only.)
async fn drive(
    delivery: Arc<Delivery>,
    exchange: Arc<Exchange>,
    messages: Streaming<Bytes>,
    is_single: bool,
    deadline: Option<Instant>,
) {
    let mut late = pin!(until(deadline));
    let expired = || Status::deadline_exceeded("Deadline Exceeded");
    let result = tokio::select! {
        result = receive(&delivery, &exchange, messages, is_single) => result,
        () = &mut late => Err(expired()),
    };
    let status = match result {
        Err(status) => status,
        Ok(()) => {
            late.await;
            expired()
        }
    };
    exchange.fail(status);
    delivery.end(true);
}

// ---- the reply ----

/// The body of the reply: messages, then trailers. Dropped before those: the client is gone.
struct Reply {
    exchange: Arc<Exchange>,
    delivery: Arc<Delivery>,
    driver: Option<AbortHandle>,
    is_ended: bool,
}

impl http_body::Body for Reply {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.is_ended {
            return Poll::Ready(None);
        }
        match self.exchange.poll_next(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Next::Bytes { bytes, is_writable }) => {
                if is_writable {
                    self.delivery.writable();
                }
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Poll::Ready(Next::End(status)) => {
                self.is_ended = true;
                Poll::Ready(Some(Ok(Frame::trailers(trailers(&status)))))
            }
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(driver) = &self.driver {
            driver.abort(); // it holds the request's body: the stream would stay open
        }
        if !self.is_ended {
            self.exchange.fail(Status::cancelled("The client is gone")); // what is sent from now on is released at once
        }
        self.delivery.end(!self.is_ended);
    }
}

async fn serve<B>(
    routes: Routes,
    method: Method,
    request: http::Request<B>,
    arrived: Instant,
) -> Result<http::Response<Body>, Status>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    let timeout = timeout(&parts.headers)?;
    let deadline = timeout.map(|timeout| arrived + timeout);
    let messages = Streaming::new_request(Raw, body, encoding(&parts.headers)?, Some(method.message_bytes_max()));
    let exchange = Arc::new(Exchange::new());
    let delivery = open(method, &parts, timeout, &exchange, routes)?;
    let mut reply = Reply { exchange: exchange.clone(), delivery: delivery.clone(), driver: None, is_ended: false };
    let driver = tokio::spawn(drive(delivery, exchange.clone(), messages, method.is_single(), deadline));
    reply.driver = Some(driver.abort_handle());
    tokio::select! {
        () = poll_fn(|cx| exchange.poll_begun(cx)) => {}
        () = until(deadline) => {}
    }
    let mut response = http::Response::new(Body::new(reply));
    if let Some(initial) = exchange.take_initial() {
        *response.headers_mut() = initial.into_headers();
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(HeaderName::from_static("grpc-accept-encoding"), HeaderValue::from_static("identity,gzip"));
    Ok(response)
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
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let routes = self.0.clone();
        let arrived = Instant::now();
        Box::pin(async move {
            let Some(method) = routes.find(request.uri().path()) else {
                let text = format!("There is no method {}", request.uri().path());
                return Ok(Status::unimplemented(text).into_http());
            };
            Ok(serve(routes, method, request, arrived).await.unwrap_or_else(|status| status.into_http()))
        })
    }
}
