//! Requests of JSON, one a line, each answered by a line with its "id" (any value, given back) as soon as it is done: several
//! run at once unless "wait" is true. An error is {"error": text}. What a request can be:
//!   {"sql": TEXT}            with "output": "csv" | "json" | "none", which then is in the answer's "data", or "arrow" with
//!                            "path", a file that an Arrow IPC stream is written to; "drop_after_ms"; "rounds": N gives
//!                            "seconds" of each. Answer: rows, batches, bytes, seconds, first_seconds, dropped.
//!   {"table": NAME, "path"}  registers a table         {"set": KEY, "value"}    a setting
//!   {"encode": SQL}          the plan's bytes, in hex    {"submit": SQL}          ExecuteQuery: "job"; "version" is the header
//!   {"submit_hex": PLAN}     the same with bytes         {"status" | "cancel" | "clean" | "metrics": JOB}
use crate::query::{Done, Output, Query};
use crate::{Fallible, job, register, set};
use serde_json::{Value, json};
use std::time::Duration;
use trunnion_features::datafusion::prelude::SessionContext;
use trunnion_features::tokio;
use trunnion_features::tokio::io::{AsyncBufReadExt, BufReader};

fn text<'a>(request: &'a Value, key: &str) -> Option<&'a str> {
    request.get(key).and_then(Value::as_str)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Fallible<Vec<u8>> {
    let digits = text.as_bytes().chunks(2).map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?));
    digits.collect()
}

async fn run_sql(context: &SessionContext, sql: &str, request: &Value) -> Fallible<Value> {
    let output = match text(request, "output") {
        Some("csv") => Output::Csv,
        Some("json") => Output::Json,
        Some("arrow") => Output::Arrow,
        _ => Output::None,
    };
    let drop_after = request.get("drop_after_ms").and_then(Value::as_u64).map(Duration::from_millis);
    let mut out = vec![];
    let mut all = vec![];
    let mut done = Done::default();
    for _ in 0..request.get("rounds").and_then(Value::as_u64).unwrap_or(1) {
        out.clear();
        done = Query { sql, output, drop_after }.run(context, &mut out).await?;
        all.push(done.seconds);
    }
    let mut answer = json!({
        "rows": done.rows, "batches": done.batches, "bytes": done.bytes, "seconds": done.seconds,
        "first_seconds": done.first_seconds, "dropped": done.was_dropped,
    });
    if request.get("rounds").is_some() {
        answer["seconds"] = json!(all);
    }
    match output {
        Output::None => {}
        Output::Arrow => std::fs::write(text(request, "path").ok_or("\"path\" is missing")?, &out)?,
        Output::Csv | Output::Json => answer["data"] = json!(String::from_utf8(out)?),
    }
    Ok(answer)
}

async fn answered(context: &SessionContext, url: &str, request: &Value) -> Fallible<Value> {
    let version = match request.get("version") {
        None => Some(job::own_version()),
        Some(version) => version.as_str(),
    };
    if let Some(sql) = text(request, "sql") {
        return run_sql(context, sql, request).await;
    }
    if let Some(name) = text(request, "table") {
        register(context, name, text(request, "path").ok_or("\"path\" is missing")?).await?;
        return Ok(json!({}));
    }
    if let Some(key) = text(request, "set") {
        set(context, key, text(request, "value").unwrap_or_default())?;
        return Ok(json!({}));
    }
    if let Some(sql) = text(request, "encode") {
        return Ok(json!({"plan": hex(&job::encoded(context, sql).await?)}));
    }
    if let Some(sql) = text(request, "submit") {
        return job::submit(context, url, job::encoded(context, sql).await?, version).await;
    }
    if let Some(plan) = text(request, "submit_hex") {
        return job::submit(context, url, unhex(plan)?, version).await;
    }
    match ["status", "cancel", "clean", "metrics"].into_iter().find_map(|kind| Some((kind, text(request, kind)?))) {
        Some(("status", id)) => job::status(url, id).await,
        Some(("cancel", id)) => job::cancel(url, id).await,
        Some(("clean", id)) => job::clean(url, id).await,
        Some((_, id)) => job::metrics(url, id).await,
        None => Err("no request that this client knows".into()),
    }
}

async fn answer(context: SessionContext, url: String, request: Value) {
    let mut answer = match answered(&context, &url, &request).await {
        Ok(answer) => answer,
        Err(error) => json!({"error": error.to_string()}),
    };
    if let Some(id) = request.get("id") {
        answer["id"] = id.clone();
    }
    println!("{answer}");
}

pub async fn serve(context: &SessionContext, url: &str) -> Fallible<()> {
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    let mut running = tokio::task::JoinSet::new();
    while let Some(line) = input.next_line().await? {
        let request: Value = match serde_json::from_str(&line) {
            Ok(request) => request,
            Err(error) => {
                println!("{}", json!({"error": error.to_string()}));
                continue;
            }
        };
        let waits = request.get("wait").and_then(Value::as_bool).unwrap_or(false);
        running.spawn(answer(context.clone(), url.to_string(), request));
        while waits && running.join_next().await.is_some() {}
    }
    while running.join_next().await.is_some() {}
    Ok(())
}
