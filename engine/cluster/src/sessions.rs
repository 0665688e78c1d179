//! What the published mains give to a scheduler and an executor, with our functions over it where there are any.
use crate::Result;
use ballista_core::object_store::{
    runtime_env_with_s3_support, session_config_with_s3_support, session_state_with_s3_support, state_with_s3_support,
};
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_executor::executor_process::ExecutorProcessConfig;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_server::SessionBuilder;
use std::sync::Arc;
use trunnion_engine::cluster::Functions;

pub fn builder(functions: Option<Functions>) -> SessionBuilder {
    match functions {
        None => Arc::new(session_state_with_s3_support),
        Some(functions) => Arc::new(move |config| functions.extend(session_state_with_s3_support(config)?)),
    }
}

pub fn scheduler(config: SchedulerConfig, functions: Option<Functions>) -> SchedulerConfig {
    config
        .with_override_config_producer(Arc::new(session_config_with_s3_support))
        .with_override_session_builder(builder(functions))
}

pub fn executor(config: &mut ExecutorProcessConfig, functions: Option<Functions>) -> Result<()> {
    config.override_config_producer = Some(Arc::new(session_config_with_s3_support));
    config.override_runtime_producer = Some(Arc::new(runtime_env_with_s3_support));
    if let Some(functions) = functions {
        let state = functions.extend(state_with_s3_support()?)?;
        config.override_function_registry = Some(Arc::new(BallistaFunctionRegistry::from(&state)));
    }
    Ok(())
}
