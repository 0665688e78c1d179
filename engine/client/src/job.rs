//! The scheduler's RPCs as they are, for what the client's library does not offer: jobs by their ids.
use crate::Fallible;
use ballista_core::BALLISTA_VERSION;
use ballista_core::extension::{SessionConfigExt, SessionConfigHelperExt};
use ballista_core::serde::protobuf::execute_query_params::Query;
use ballista_core::serde::protobuf::execute_query_result;
use ballista_core::serde::protobuf::job_status::Status;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{
    CancelJobParams, CleanJobDataParams, ExecuteQueryParams, GetJobMetricsParams, GetJobStatusParams,
    GetJobStatusResult,
};
use serde_json::{Value, json};
use trunnion_features::datafusion::prelude::SessionContext;
use trunnion_features::datafusion_proto::logical_plan::AsLogicalPlan;
use trunnion_features::datafusion_proto::protobuf::LogicalPlanNode;
use trunnion_features::prost::Message;
use trunnion_features::tonic::Request;
use trunnion_features::tonic::transport::Channel;

const VERSION_HEADER: &str = "ballista-version";

async fn connect(url: &str) -> Fallible<SchedulerGrpcClient<Channel>> {
    let url = url.replacen("df://", "http://", 1);
    Ok(SchedulerGrpcClient::connect(url).await?.max_decoding_message_size(64 << 20).max_encoding_message_size(64 << 20))
}

/// The optimized plan of a statement, in Ballista's encoding.
pub async fn encoded(context: &SessionContext, sql: &str) -> Fallible<Vec<u8>> {
    let plan = context.sql(sql).await?.into_optimized_plan()?;
    let codec = context.copied_config().ballista_logical_extension_codec();
    Ok(LogicalPlanNode::try_from_logical_plan(&plan, codec.as_ref())?.encode_to_vec())
}

/// ExecuteQuery; `version` is what the header says, and none leaves it out.
pub async fn submit(context: &SessionContext, url: &str, plan: Vec<u8>, version: Option<&str>) -> Fallible<Value> {
    let params = ExecuteQueryParams {
        query: Some(Query::LogicalPlan(plan)),
        session_id: context.session_id(),
        settings: context.copied_config().to_key_value_pairs(),
        operation_id: String::from("ballista-client"),
    };
    let mut request = Request::new(params);
    if let Some(version) = version {
        request.metadata_mut().insert(VERSION_HEADER, version.parse()?);
    }
    let response = connect(url).await?.execute_query(request).await?;
    let header = response.metadata().get(VERSION_HEADER).and_then(|value| value.to_str().ok()).map(String::from);
    match response.into_inner().result {
        Some(execute_query_result::Result::Success(success)) => {
            Ok(json!({"job": success.job_id, "session": success.session_id, "version": header}))
        }
        Some(execute_query_result::Result::Failure(failure)) => Err(format!("{failure:?}").into()),
        None => Err("an empty answer".into()),
    }
}

pub fn own_version() -> &'static str {
    BALLISTA_VERSION
}

fn described(result: GetJobStatusResult) -> Value {
    let proxy = format!("{:?}", result.flight_proxy);
    let Some(status) = result.status else { return json!({"state": null}) };
    let (job, name) = (status.job_id, status.job_name);
    match status.status {
        None => json!({"state": null, "job": job, "name": name}),
        Some(Status::Queued(_)) => json!({"state": "queued", "job": job, "name": name}),
        Some(Status::Running(_)) => json!({"state": "running", "job": job, "name": name}),
        Some(Status::Failed(failed)) => json!({"state": "failed", "job": job, "name": name, "error": failed.error}),
        Some(Status::Successful(success)) => {
            let locations: Vec<Value> = success
                .partition_location
                .iter()
                .map(|location| {
                    let (id, host) = (location.partition_id.as_ref(), location.executor_meta.as_ref());
                    json!({
                        "stage": id.map(|id| id.stage_id), "partition": id.map(|id| id.partition_id),
                        "executor": host.map(|host| &host.id), "host": host.map(|host| &host.host),
                        "port": host.map(|host| host.port), "file_id": location.file_id,
                        "rows": location.partition_stats.as_ref().map(|stats| stats.num_rows),
                    })
                })
                .collect();
            json!({"state": "successful", "job": job, "name": name, "locations": locations, "flight_proxy": proxy})
        }
    }
}

pub async fn status(url: &str, job: &str) -> Fallible<Value> {
    let request = GetJobStatusParams { job_id: job.to_string() };
    Ok(described(connect(url).await?.get_job_status(request).await?.into_inner()))
}

pub async fn cancel(url: &str, job: &str) -> Fallible<Value> {
    let request = CancelJobParams { job_id: job.to_string() };
    Ok(json!({"cancelled": connect(url).await?.cancel_job(request).await?.into_inner().cancelled}))
}

pub async fn clean(url: &str, job: &str) -> Fallible<Value> {
    let request = CleanJobDataParams { job_id: job.to_string(), remove_stage_ids: vec![] };
    connect(url).await?.clean_job_data(request).await?;
    Ok(json!({}))
}

pub async fn metrics(url: &str, job: &str) -> Fallible<Value> {
    let request = GetJobMetricsParams { job_id: job.to_string() };
    let stages = connect(url).await?.get_job_metrics(request).await?.into_inner().stages;
    let stages: Vec<Value> = stages
        .iter()
        .map(|stage| {
            let operators: Vec<&String> = stage.operators.iter().map(|operator| &operator.operator_type).collect();
            json!({"stage": stage.stage_id, "partitions": stage.partitions, "operators": operators})
        })
        .collect();
    Ok(json!({"stages": stages}))
}
