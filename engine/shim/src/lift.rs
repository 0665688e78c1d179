//! Lifting: a LogicalPlan as the encoding.
use crate::error::{Failure, Fallible};
use crate::features::datafusion::logical_expr::LogicalPlan;
use crate::runtime::Runtime;
use crate::source::Source;
use std::sync::Arc;

pub struct Lifted {
    pub bytes: Vec<u8>,
    pub sources: Vec<Arc<Source>>,
}

pub fn lift(_runtime: &Arc<Runtime>, plan: &LogicalPlan) -> Fallible<Lifted> {
    Err(Failure::unimplemented(format!("lifting of {}", plan.display())))
}
