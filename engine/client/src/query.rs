//! One statement: its rows in one of several forms, its time, and what is left when it is dropped half way.
use crate::Fallible;
use std::io::{self, Write};
use std::time::{Duration, Instant};
use trunnion_features::arrow::array::RecordBatch;
use trunnion_features::arrow::csv::WriterBuilder as CsvWriter;
use trunnion_features::arrow::ipc::writer::StreamWriter;
use trunnion_features::arrow::json::WriterBuilder as JsonWriter;
use trunnion_features::arrow::json::writer::LineDelimited;
use trunnion_features::datafusion::prelude::SessionContext;
use trunnion_features::futures::StreamExt;
use trunnion_features::tokio;

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
pub enum Output {
    /// With a header
    Csv,
    /// An object for each row, a line each, nulls named
    Json,
    /// An Arrow IPC stream: the types that arrived
    Arrow,
    None,
}

pub struct Query<'a> {
    pub sql: &'a str,
    pub output: Output,
    pub drop_after: Option<Duration>,
}

#[derive(Default)]
pub struct Done {
    pub rows: usize,
    pub batches: usize,
    pub bytes: usize,
    pub seconds: f64,
    /// Until the first batch was here.
    pub first_seconds: f64,
    pub was_dropped: bool,
}

impl Query<'_> {
    async fn pull(&self, context: &SessionContext, done: &mut Done, out: &mut (dyn Write + Send)) -> Fallible<()> {
        let start = Instant::now();
        let mut stream = context.sql(self.sql).await?.execute_stream().await?;
        let mut kept: Vec<RecordBatch> = vec![];
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            if done.batches == 0 {
                done.first_seconds = start.elapsed().as_secs_f64();
            }
            done.batches += 1;
            done.rows += batch.num_rows();
            done.bytes += batch.get_array_memory_size();
            if self.output != Output::None {
                kept.push(batch);
            }
        }
        // The schema of the batches, where there are any: what the server sent.
        let schema = kept.first().map_or_else(|| stream.schema(), |batch| batch.schema());
        match self.output {
            Output::Csv => {
                let mut writer = CsvWriter::new().with_header(true).build(out);
                writer.write(&RecordBatch::new_empty(schema))?;
                kept.iter().try_for_each(|batch| writer.write(batch))?;
            }
            Output::Json => {
                let mut writer = JsonWriter::new().with_explicit_nulls(true).build::<_, LineDelimited>(out);
                kept.iter().try_for_each(|batch| writer.write(batch))?;
                writer.finish()?;
            }
            Output::Arrow => {
                let mut writer = StreamWriter::try_new(out, &schema)?;
                kept.iter().try_for_each(|batch| writer.write(batch))?;
                writer.finish()?;
            }
            Output::None => {}
        }
        done.seconds = start.elapsed().as_secs_f64();
        Ok(())
    }

    /// Rows go to `out` when all are there.
    pub async fn run(&self, context: &SessionContext, out: &mut (dyn Write + Send)) -> Fallible<Done> {
        let mut done = Done::default();
        match self.drop_after {
            None => self.pull(context, &mut done, out).await?,
            Some(time) => match tokio::time::timeout(time, self.pull(context, &mut done, out)).await {
                Ok(result) => result?,
                Err(_) => done.was_dropped = true,
            },
        }
        Ok(done)
    }

    pub async fn print(&self, context: &SessionContext) -> Fallible<()> {
        let mut out = vec![];
        let done = self.run(context, &mut out).await?;
        if done.was_dropped {
            println!("dropped after {} rows", done.rows);
        } else if self.output == Output::None {
            println!("{} rows in {} batches, {} bytes, {:.3} s", done.rows, done.batches, done.bytes, done.seconds);
        }
        Ok(io::stdout().write_all(&out)?)
    }
}
