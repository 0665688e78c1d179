//! The mains of a Ballista cluster: `trunnion-ballista scheduler | executor`, with the flags of Ballista's own mains and
//!   --functions FILE   the C function library; without it TRUNNION_FUNCTIONS, or the one beside the program
//!   --stock            no functions of ours: what Ballista's own mains run
//! Ports may be 0: any free ones. When it is ready, a line on standard output says so and where; everything else is logged to
//! standard error. Ends on SIGTERM and SIGINT.
use ballista_core::config::LogRotationPolicy;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_executor::health::{ExecutorHealth, spawn_health_server};
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use clap::Parser;
use std::io::Write;
use std::net::{SocketAddr, TcpListener as Listener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tracing_subscriber::EnvFilter;
use trunnion_ballista::{BallistaError, Result, functions, sessions};
use trunnion_engine::cluster::{Functions, STACK_SIZE};
use trunnion_features::datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use trunnion_features::tokio;
use trunnion_features::tokio::net::TcpListener;
use trunnion_features::tokio::signal::unix::{SignalKind, signal};

/// How often a starting executor is asked whether the scheduler has taken it.
const READY_POLL: Duration = Duration::from_millis(10);

#[derive(clap::Args)]
struct Ours {
    /// The C function library
    #[arg(long, value_name = "FILE")]
    functions: Option<PathBuf>,
    /// No functions of ours: what Ballista's own mains run
    #[arg(long, conflicts_with = "functions")]
    stock: bool,
}

#[derive(clap::Args)]
struct SchedulerCommand {
    #[command(flatten)]
    ours: Ours,
    #[command(flatten)]
    options: ballista_scheduler::config::Config,
}

#[derive(clap::Args)]
struct ExecutorCommand {
    #[command(flatten)]
    ours: Ours,
    #[command(flatten)]
    options: ballista_executor::config::Config,
}

#[derive(Parser)]
#[command(version, about = "Ballista's scheduler and executor with Trunnion's functions")]
enum Command {
    Scheduler(Box<SchedulerCommand>),
    Executor(Box<ExecutorCommand>),
}

impl Ours {
    fn load(self) -> Result<Option<Functions>> {
        match self.stock {
            true => Ok(None),
            false => functions::load(self.functions).map(Some),
        }
    }
}

/// Logs go to standard error; whoever wants files redirects it.
fn log_to_stderr(level: &str, directory: &Option<String>, rotation: &LogRotationPolicy) -> Result<()> {
    if let Some(directory) = directory {
        let text = format!("--log-dir {directory} ({rotation}) is not offered: logs go to standard error");
        return Err(BallistaError::Configuration(text));
    }
    let filter = std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_else(|_| level.to_string());
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .with_env_filter(EnvFilter::new(filter))
        .init();
    Ok(())
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody may be reading any more.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

async fn ended() -> Result<()> {
    let (mut term, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

async fn scheduler(command: SchedulerCommand) -> Result<()> {
    let mut options = command.options;
    log_to_stderr(&options.log_level_setting, &options.log_dir, &options.log_rotation_policy)?;
    let functions = command.ours.load()?;
    let listener = TcpListener::bind((options.bind_host.as_str(), options.bind_port)).await?;
    let address = listener.local_addr()?;
    options.bind_port = address.port();
    let config: SchedulerConfig = options.try_into()?;
    let (cluster, config) = sessions::scheduler(config, functions).await?;
    config.validate()?;
    let server = create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, Arc::new(config)).await?;
    say(&format!("scheduler ready on {address}"));
    tokio::select! {
        result = start_grpc_service_with_listener(listener, server) => result,
        result = ended() => result,
    }
}

/// As many free ports as are wanted, all different. Another process may take one before it is bound again: then the start
/// fails, and says so.
fn choose_ports(host: &str, ports: [&mut u16; 3]) -> Result<()> {
    let mut kept = vec![];
    for port in ports {
        if *port == 0 {
            let listener = Listener::bind((host, 0))?;
            *port = listener.local_addr()?.port();
            kept.push(listener);
        }
    }
    Ok(())
}

async fn say_when_ready(health: ExecutorHealth, line: String) {
    while !health.is_ready() {
        tokio::time::sleep(READY_POLL).await;
    }
    say(&line);
}

async fn executor(command: ExecutorCommand) -> Result<()> {
    let mut options = command.options;
    log_to_stderr(&options.log_level_setting, &options.log_dir, &options.log_rotation_policy)?;
    let functions = command.ours.load()?;
    let host = options.bind_host.clone();
    choose_ports(&host, [&mut options.bind_port, &mut options.bind_grpc_port, &mut options.bind_health_port])?;
    let health_port = options.bind_health_port;
    let mut config: ExecutorProcessConfig = options.try_into()?;
    sessions::executor(&mut config, functions)?;
    let address = format!("{host}:{health_port}")
        .parse::<SocketAddr>()
        .map_err(|error| BallistaError::Configuration(format!("--bind-health-port: {error}")))?;
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let health = config.health.clone();
    let server = spawn_health_server(address, health.clone(), stopped);
    let line = format!("executor {} ready on {host}:{}", config.executor_id, config.port);
    let ready = tokio::spawn(say_when_ready(health, line));
    let result = start_executor_process(Arc::new(config)).await;
    ready.abort();
    let _ = stop.send(());
    let _ = server.await;
    result
}

fn run(command: Command) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(STACK_SIZE).build()?;
    // Plans are decoded and planned on the runtime's own threads: the main thread's stack is what the shell gives.
    runtime.block_on(async move {
        let task = match command {
            Command::Scheduler(command) => tokio::spawn(scheduler(*command)),
            Command::Executor(command) => tokio::spawn(executor(*command)),
        };
        task.await.map_err(|error| BallistaError::General(error.to_string()))?
    })
}

fn main() -> ExitCode {
    // The threads that run an executor's tasks are made by Ballista, which says nothing about their stacks.
    if std::env::var_os("RUST_MIN_STACK").is_none() {
        // No other thread exists yet.
        unsafe { std::env::set_var("RUST_MIN_STACK", STACK_SIZE.to_string()) };
    }
    match run(Command::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("trunnion-ballista: {error}");
            ExitCode::FAILURE
        }
    }
}
