//! Decoding under a deadline: what nobody waits for any more ends, also in C, and the registry is free again.
//! usage: deadline ENGINE FUNCTIONS; prints a line per check.
use async_trait::async_trait;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use trunnion_tonic::{
    Backend, Code, Error, Plan, QueryBackend, QueryInputDecoder, QuerySession, Registry, Result, SessionRequest,
};

/// Counts who is inside; never comes to an end.
struct Endless(Arc<AtomicU32>);

struct Inside(Arc<AtomicU32>);
impl Drop for Inside {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl QueryInputDecoder for Endless {
    fn format(&self) -> &'static str {
        "endless.v1"
    }
    async fn decode(&self, _: &[u8], _: &QuerySession, _: &HashMap<String, String>) -> Result<Plan> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let _inside = Inside(self.0.clone());
        std::future::pending().await
    }
}

struct Other;
#[async_trait]
impl QueryInputDecoder for Other {
    fn format(&self) -> &'static str {
        "other.v1"
    }
    async fn decode(&self, _: &[u8], _: &QuerySession, _: &HashMap<String, String>) -> Result<Plan> {
        Err(Error::new(Code::Unimplemented, "no plan"))
    }
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if is_so() {
            println!("{what}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    eprintln!("not so: {what}");
    std::process::exit(1);
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let backend = Backend::embedded(arguments.get(1).map(String::as_str), arguments.get(2).map(String::as_str))?;
    let session = backend.open_session(SessionRequest::of("ann")).await?;
    let inside = Arc::new(AtomicU32::new(0));
    let mut registry = Registry::new()?;
    registry.add_decoder(Arc::new(Endless(inside.clone())), Handle::current())?;
    let options = HashMap::new();
    {
        let decoding = registry.decode(&session, "endless.v1", b"", &options);
        tokio::pin!(decoding);
        for _ in 0..2000 {
            if inside.load(Ordering::SeqCst) == 1 {
                break;
            }
            let _ = tokio::time::timeout(Duration::from_millis(5), &mut decoding).await;
        }
        assert_eq!(inside.load(Ordering::SeqCst), 1, "the decoder was not called");
    }
    println!("a deadline passed");
    until("the decoder has ended", || inside.load(Ordering::SeqCst) == 0).await;
    until("the registry is free", || registry.add_decoder(Arc::new(Other), Handle::current()).is_ok()).await;
    let refused = registry.decode(&session, "other.v1", b"", &options).await.err().expect("no plan comes");
    assert_eq!(refused.code, Code::Unimplemented);
    registry.decode(&session, "sql", b"SELECT 1 AS one", &options).await?;
    println!("others are decoded");
    Ok(())
}
