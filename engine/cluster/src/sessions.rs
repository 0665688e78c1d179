//! What the published mains give to a scheduler and an executor, with our functions over it where there are any.
use crate::Result;
use crate::tasks::Tasks;
use ballista_core::object_store::{
    runtime_env_with_s3_support, session_config_with_s3_support, session_state_with_s3_support, state_with_s3_support,
};
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::{BallistaLogicalExtensionCodec, BallistaPhysicalExtensionCodec};
use ballista_executor::executor_process::ExecutorProcessConfig;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_server::SessionBuilder;
use std::sync::Arc;
use trunnion_engine::cluster::{Functions, LogicalCodec, PhysicalCodec};

pub fn builder(functions: Option<Functions>) -> SessionBuilder {
    match functions {
        None => Arc::new(session_state_with_s3_support),
        Some(functions) => Arc::new(move |config| functions.extend(session_state_with_s3_support(config)?)),
    }
}

fn physical_codec() -> Arc<PhysicalCodec> {
    Arc::new(PhysicalCodec::new(Arc::new(BallistaPhysicalExtensionCodec::default())))
}

/// A scheduler's configuration with our relations in it.
pub fn with_codecs(mut config: SchedulerConfig, logical: Option<Arc<LogicalCodec>>) -> SchedulerConfig {
    let plain = || Arc::new(LogicalCodec::new(Arc::new(BallistaLogicalExtensionCodec::default())));
    config.override_logical_codec = Some(logical.unwrap_or_else(plain));
    config.override_physical_codec = Some(physical_codec());
    config
}

pub async fn scheduler(
    config: SchedulerConfig,
    functions: Option<Functions>,
) -> Result<(BallistaCluster, SchedulerConfig)> {
    let config = config.with_override_config_producer(Arc::new(session_config_with_s3_support));
    match functions {
        None => {
            let config = config.with_override_session_builder(builder(None));
            Ok((BallistaCluster::new_from_config(&config).await?, config))
        }
        Some(functions) => Ok(crate::named::cluster(with_codecs(config, None), builder(Some(functions)))),
    }
}

pub fn executor(config: &mut ExecutorProcessConfig, functions: Option<Functions>) -> Result<()> {
    config.override_config_producer = Some(Arc::new(session_config_with_s3_support));
    config.override_runtime_producer = Some(Arc::new(runtime_env_with_s3_support));
    if let Some(functions) = functions {
        let state = functions.extend(state_with_s3_support()?)?;
        config.override_physical_codec = Some(physical_codec());
        config.override_execution_engine = Some(Arc::new(Tasks::new(config.client_ttl)));
        config.override_function_registry = Some(Arc::new(BallistaFunctionRegistry::from(&state)));
    }
    Ok(())
}
