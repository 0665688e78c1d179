//! tonic's client against tests/interop/grpc_interop_server. Prints "ok NAME" or "FAILED NAME: why" for each case.
//! usage: interopclient PORT
use bytes::{Buf, BufMut};
use http::uri::PathAndQuery;
use std::future::Future;
use std::time::Duration;
use tokio_stream::StreamExt;
use tonic::client::Grpc;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

const LARGE: usize = 20_000_000;
const STREAMS: usize = 1000;

type Case = Result<(), String>;

/// Messages as their bytes.
#[derive(Default, Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
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
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut out = vec![0; from.remaining()];
        from.copy_to_slice(&mut out);
        Ok(Some(out))
    }
}

// ---- messages of grpc.testing ----

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 127 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

fn number(field: u64, value: u64) -> Vec<u8> {
    let mut out = vec![];
    varint(&mut out, field << 3);
    varint(&mut out, value);
    out
}

fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    varint(&mut out, field << 3 | 2);
    varint(&mut out, value.len() as u64);
    out.extend_from_slice(value);
    out
}

/// One of a StreamingOutputCallRequest's responses.
fn response(size: u64, interval_us: u64) -> Vec<u8> {
    let mut inner = number(1, size);
    if interval_us > 0 {
        inner.extend(number(2, interval_us));
    }
    bytes(2, &inner)
}

fn path(method: &'static str) -> PathAndQuery {
    PathAndQuery::from_static(method)
}

const UNARY: &str = "/grpc.testing.TestService/UnaryCall";
const OUTPUT: &str = "/grpc.testing.TestService/StreamingOutputCall";
const INPUT: &str = "/grpc.testing.TestService/StreamingInputCall";
const DUPLEX: &str = "/grpc.testing.TestService/FullDuplexCall";

// ---- cases ----

fn client(channel: &Channel) -> Grpc<Channel> {
    Grpc::new(channel.clone()).max_decoding_message_size(usize::MAX)
}

async fn ready(client: &mut Grpc<Channel>) -> Case {
    client.ready().await.map_err(|error| error.to_string())
}

fn check(holds: bool, what: impl Into<String>) -> Case {
    if holds { Ok(()) } else { Err(what.into()) }
}

async fn unary(client: &mut Grpc<Channel>, message: Vec<u8>) -> Result<Vec<u8>, Status> {
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    Ok(client.unary(Request::new(message), path(UNARY), Raw).await?.into_inner())
}

async fn deadline(channel: Channel) -> Case {
    let mut client = client(&channel);
    for i in 0..50u64 {
        ready(&mut client).await?;
        let mut request = Request::new([response(10, 0), response(10, 5_000_000)].concat());
        request.set_timeout(Duration::from_millis(20 + i % 7 * 3));
        let mut failure = None;
        match client.server_streaming(request, path(OUTPUT), Raw).await {
            Err(status) => failure = Some(status),
            Ok(reply) => {
                let mut stream = reply.into_inner();
                while let Some(item) = stream.next().await {
                    if let Err(status) = item {
                        failure = Some(status);
                        break;
                    }
                }
            }
        }
        let status = failure.ok_or("it ended")?;
        // tonic's own clock says CANCELLED when it is the first to see the time pass.
        check(matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled), status.to_string())?;
    }
    Ok(())
}

/// In the middle of a stream; the channel goes on.
async fn cancel(channel: Channel) -> Case {
    let mut client = client(&channel);
    for _ in 0..50 {
        ready(&mut client).await?;
        let request = Request::new(response(100_000, 0).repeat(200));
        let reply = client.server_streaming(request, path(OUTPUT), Raw).await.map_err(|status| status.to_string())?;
        let mut stream = reply.into_inner();
        check(matches!(stream.next().await, Some(Ok(_))), "no first message")?;
        drop(stream);
    }
    ready(&mut client).await?;
    let reply = client.server_streaming(Request::new(response(10, 0)), path(OUTPUT), Raw).await;
    let mut stream = reply.map_err(|status| status.to_string())?.into_inner();
    check(matches!(stream.next().await, Some(Ok(_))) && stream.next().await.is_none(), "not one message")
}

async fn large(channel: Channel) -> Case {
    let request = [number(2, LARGE as u64), bytes(3, &bytes(2, &vec![0; LARGE]))].concat();
    let mut plain = client(&channel);
    let reply = unary(&mut plain, request.clone()).await.map_err(|status| status.to_string())?;
    check(reply.len() > LARGE && reply.len() < LARGE + 20, format!("a reply of {} bytes", reply.len()))?;
    let mut zipped = client(&channel).send_compressed(CompressionEncoding::Gzip).accept_compressed(CompressionEncoding::Gzip);
    let again = unary(&mut zipped, request).await.map_err(|status| status.to_string())?;
    check(again.len() == reply.len(), format!("a zipped reply of {} bytes", again.len()))?;
    match unary(&mut plain, vec![0; 130 << 20]).await {
        Err(status) if status.code() == Code::ResourceExhausted => Ok(()),
        Err(status) => Err(status.to_string()),
        Ok(_) => Err("a message over the limit was taken".to_string()),
    }
}

async fn upload(channel: Channel) -> Case {
    let mut client = client(&channel);
    ready(&mut client).await?;
    let messages: Vec<_> = (0..20).map(|_| bytes(1, &bytes(2, &vec![0; 1_000_000]))).collect();
    let reply = client.client_streaming(Request::new(tokio_stream::iter(messages)), path(INPUT), Raw).await;
    check(reply.map_err(|status| status.to_string())?.into_inner() == number(1, 20_000_000), "another size")
}

/// A thousand conversations at once on one connection: each says so, and hears it, three times.
async fn streams(channel: Channel) -> Case {
    let barrier = std::sync::Arc::new(tokio::sync::Barrier::new(STREAMS));
    let talks: Vec<_> = (0..STREAMS)
        .map(|_| {
            let (channel, barrier) = (channel.clone(), barrier.clone());
            tokio::spawn(async move {
                let mut client = client(&channel);
                ready(&mut client).await?;
                let (sender, receiver) = tokio::sync::mpsc::channel(4);
                sender.send(response(31, 0)).await.map_err(|error| error.to_string())?;
                let request = Request::new(tokio_stream::wrappers::ReceiverStream::new(receiver));
                let reply = client.streaming(request, path(DUPLEX), Raw).await.map_err(|status| status.to_string())?;
                let mut stream = reply.into_inner();
                check(matches!(stream.next().await, Some(Ok(_))), "the first message is missing")?;
                barrier.wait().await; // all of them are open
                for _ in 0..2 {
                    sender.send(response(1000, 0)).await.map_err(|error| error.to_string())?;
                    check(matches!(stream.next().await, Some(Ok(_))), "a message is missing")?;
                }
                drop(sender);
                check(stream.next().await.is_none(), "it did not end")
            })
        })
        .collect();
    for talk in talks {
        talk.await.map_err(|error| error.to_string())??;
    }
    Ok(())
}

async fn run<F: Future<Output = Case>>(name: &str, case: F) {
    match tokio::time::timeout(Duration::from_secs(100), case).await {
        Ok(Ok(())) => println!("ok {name}"),
        Ok(Err(why)) => println!("FAILED {name}: {why}"),
        Err(_) => println!("FAILED {name}: it hangs"),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).ok_or("usage: interopclient PORT")?;
    let channel = Endpoint::from_shared(format!("http://127.0.0.1:{port}"))?.connect().await?;
    run("deadline", deadline(channel.clone())).await;
    run("cancel", cancel(channel.clone())).await;
    run("large", large(channel.clone())).await;
    run("upload", upload(channel.clone())).await;
    run("streams", streams(channel)).await;
    Ok(())
}
