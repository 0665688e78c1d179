//! A platform of its own: its server, its ids, its decisions; Spark Connect is mounted in it, and jobs survive it.
//!
//!   embed-rust serve [options]         Spark Connect on 127.0.0.1; prints the port
//!   embed-rust jobs [options]          what is known of jobs, whoever ran them
//!   embed-rust fetch ID [options]      a job's rows, from any process; waits for its end
//!   embed-rust recover ID [options]    runs a job again whose process is gone
//!
//! options: --store FILE --outputs DIRECTORY --engine FILE --functions FILE --cluster HOST:PORT (a Ballista scheduler)
mod platform;

use platform::Platform;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tonic::transport::{Server, server::TcpIncoming};
use trunnion_tonic::*;

type Failure = Box<dyn std::error::Error>;

#[derive(Default)]
struct Options {
    words: Vec<String>,
    store: Option<String>,
    outputs: Option<String>,
    engine: Option<String>,
    functions: Option<String>,
    cluster: Option<String>,
}

fn read_options() -> std::result::Result<Options, Failure> {
    let mut options = Options::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(word) = arguments.next() {
        let place = match word.as_str() {
            "--store" => &mut options.store,
            "--outputs" => &mut options.outputs,
            "--engine" => &mut options.engine,
            "--functions" => &mut options.functions,
            "--cluster" => &mut options.cluster,
            other if other.starts_with('-') => return Err(format!("unknown option {other}").into()),
            _ => {
                options.words.push(word);
                continue;
            }
        };
        *place = Some(arguments.next().ok_or_else(|| format!("{word} wants a value"))?);
    }
    Ok(options)
}

fn embedded(options: &Options) -> Result<Backend> {
    Backend::embedded(options.engine.as_deref(), options.functions.as_deref())
}

/// The other backend: a cluster when there is one, else a second engine. Its jobs are remembered in a file.
fn scheduler(options: &Options) -> Result<Scheduler> {
    let second = embedded(options)?;
    let store = JobStore::sqlite(Some(options.store.as_deref().unwrap_or("jobs.sqlite").as_ref()))?;
    let outputs = options.outputs.as_deref().unwrap_or("outputs");
    let more = SchedulerOptions {
        name: Some("platform".into()),
        lease: Some(Duration::from_secs(2)),
        ..SchedulerOptions::at(outputs)
    };
    match &options.cluster {
        Some(address) => {
            let cluster = BallistaOptions { scheduler: address.clone(), ..Default::default() };
            Scheduler::on_ballista(&cluster, &second, &store, more)
        }
        None => Scheduler::on_backend(&second, &store, more),
    }
}

async fn serve(options: &Options) -> std::result::Result<(), Failure> {
    let scheduler = scheduler(options)?;
    let platform = Arc::new(Platform::new(embedded(options)?, Arc::new(scheduler)));
    let mut routes = tonic::service::RoutesBuilder::default(); // the platform's own services are added to it, too
    SparkConnect::default().register(&mut routes, platform)?;
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?.with_nodelay(Some(true));
    println!("platform: sc://{}", incoming.local_addr()?);
    let mut terminate = signal(SignalKind::terminate())?;
    let server = Server::builder().add_routes(routes.routes()).serve_with_incoming(incoming);
    tokio::select! {
        result = server => result?,
        _ = terminate.recv() => {}
    }
    Ok(())
}

async fn print_jobs(scheduler: &dyn SchedulerHandle) -> Result<()> {
    for job in scheduler.list(JobFilter::default()).await? {
        println!("{} {:?} attempt {} rows {} {}", job.id, job.state, job.attempt, job.rows, job.tags.join(","));
    }
    Ok(())
}

/// Follows a job to its end, then counts what it gives.
async fn fetch(job: &dyn JobHandle) -> Result<()> {
    let mut events = job.subscribe().await?;
    while let Some(status) = std::future::poll_fn(|cx| events.as_mut().poll_next(cx)).await {
        eprintln!("{:?}", status?.state);
    }
    let mut rows = 0;
    let mut stream = job.output().await?;
    while let Some(batch) = std::future::poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
        rows += batch?.num_rows();
    }
    let columns: Vec<_> = stream.schema().fields().iter().map(|field| field.name().clone()).collect();
    println!("{} rows of {}", rows, columns.join(","));
    Ok(())
}

#[tokio::main]
async fn main() -> std::result::Result<(), Failure> {
    let options = read_options()?;
    let words: Vec<&str> = options.words.iter().map(String::as_str).collect();
    match words[..] {
        ["serve"] => serve(&options).await?,
        ["jobs"] => print_jobs(&scheduler(&options)?).await?,
        ["fetch", id] => fetch(&*scheduler(&options)?.job(id).await?).await?,
        ["recover", id] => {
            let scheduler = scheduler(&options)?;
            loop {
                let job = scheduler.recover(id, true).await?; // leaves it alone as long as its process may live
                if job.completion().await?.state != JobState::Lost {
                    break fetch(&*job).await?;
                }
            }
        }
        _ => return Err("usage: embed-rust serve | jobs | fetch ID | recover ID, and options".into()),
    }
    Ok(())
}
