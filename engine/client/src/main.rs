//! The stock Ballista client for tests and benchmarks: runs SQL on a scheduler, or on whatever speaks its protocol, and prints
//! rows, times or errors. `--lines` keeps it alive and reads a request of JSON from each line of its input (lines.rs).
mod job;
mod lines;
mod query;

use ballista::extension::SessionContextExt;
use clap::Parser;
use query::{Output, Query};
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;
use trunnion_features::datafusion::prelude::{CsvReadOptions, JsonReadOptions, ParquetReadOptions, SessionContext};
use trunnion_features::tokio;

pub type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Parser)]
#[command(version, about = "The stock Ballista client, for tests and benchmarks")]
struct Options {
    /// The scheduler: df://HOST:PORT
    url: String,
    /// Statements, one after the other
    sql: Vec<String>,
    /// A setting of the session, as KEY=VALUE; may be given again
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Asks for the job's status again and again, instead of being told
    #[arg(long)]
    pull: bool,
    /// A table of a file or directory, as NAME=PATH (.csv and .json by their ends, all else is Parquet); may be given again
    #[arg(long = "table", value_name = "NAME=PATH")]
    tables: Vec<String>,
    /// How rows are printed; `none` counts them
    #[arg(long, value_enum, default_value_t = Output::Csv)]
    output: Output,
    /// A file of statements, run after those of the command line; each ends with a line that ends with `;`
    #[arg(long)]
    file: Option<String>,
    /// Runs each statement so often, and prints the seconds of each run as a line of JSON
    #[arg(long, default_value_t = 0)]
    rounds: u32,
    /// Drops a query that is not done after so many milliseconds
    #[arg(long)]
    drop_after_ms: Option<u64>,
    /// Requests of JSON from standard input, one a line, answered likewise
    #[arg(long)]
    lines: bool,
}

fn pair(text: &str) -> Fallible<(&str, &str)> {
    text.split_once('=').ok_or_else(|| format!("'{text}' is not NAME=VALUE").into())
}

pub fn set(context: &SessionContext, key: &str, value: &str) -> Fallible<()> {
    Ok(context.state_ref().write().config_mut().options_mut().set(key, value)?)
}

pub async fn register(context: &SessionContext, name: &str, path: &str) -> Fallible<()> {
    match path.rsplit('.').next() {
        Some("csv") => context.register_csv(name, path, CsvReadOptions::new()).await?,
        Some("json") => context.register_json(name, path, JsonReadOptions::default()).await?,
        _ => context.register_parquet(name, path, ParquetReadOptions::default()).await?,
    }
    Ok(())
}

/// Statements of a file; a line that ends with `;` ends one.
fn statements(text: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    for line in text.lines() {
        let last = out.last_mut().expect("never empty");
        last.push_str(line.trim_end().trim_end_matches(';'));
        last.push('\n');
        if line.trim_end().ends_with(';') {
            out.push(String::new());
        }
    }
    out.retain(|statement| !statement.trim().is_empty());
    out
}

async fn run(options: Options) -> Fallible<()> {
    let context = SessionContext::remote(&options.url).await?;
    for setting in &options.settings {
        let (key, value) = pair(setting)?;
        set(&context, key, value)?;
    }
    if options.pull {
        set(&context, "ballista.client.pull", "true")?;
    }
    for table in &options.tables {
        let (name, path) = pair(table)?;
        register(&context, name, path).await?;
    }
    if options.lines {
        return lines::serve(&context, &options.url).await;
    }
    let mut sql = options.sql;
    if let Some(file) = &options.file {
        sql.extend(statements(&std::fs::read_to_string(file)?));
    }
    let drop_after = options.drop_after_ms.map(Duration::from_millis);
    for statement in &sql {
        if options.rounds == 0 {
            Query { sql: statement, output: options.output, drop_after }.print(&context).await?;
            continue;
        }
        let mut seconds = vec![];
        let mut rows = 0;
        for _ in 0..options.rounds {
            let done = Query { sql: statement, output: Output::None, drop_after }.run(&context, &mut vec![]).await?;
            seconds.push(done.seconds);
            rows = done.rows;
        }
        println!("{}", serde_json::json!({"sql": statement, "rows": rows, "seconds": seconds}));
    }
    Ok(())
}

fn main() -> ExitCode {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(32 << 20).build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(async { tokio::spawn(run(options)).await.map_err(|error| error.into()) }),
        Err(error) => Err(error.into()),
    };
    match result.and_then(|inner: Fallible<()>| inner) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ballista-client: {error}");
            ExitCode::FAILURE
        }
    }
}
