//! A physical plan from outside as a relation: it runs as it came, no rule looks inside.
use crate::error::Failure;
use crate::features::datafusion::common::tree_node::TreeNodeRecursion;
use crate::features::datafusion::common::{DFSchema, DFSchemaRef};
use crate::features::datafusion::error::Result;
use crate::features::datafusion::execution::{SendableRecordBatchStream, TaskContext};
use crate::features::datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use crate::features::datafusion::physical_expr::expressions::Column;
use crate::features::datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use crate::features::datafusion::physical_plan::metrics::MetricsSet;
use crate::features::datafusion::physical_plan::projection::ProjectionExec;
use crate::features::datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Two are equal when they are the same.
#[derive(Debug, Clone)]
pub struct AsIs {
    plan: Arc<dyn ExecutionPlan>,
    schema: DFSchemaRef,
}

impl AsIs {
    pub fn relation(plan: Arc<dyn ExecutionPlan>) -> Result<LogicalPlan> {
        // A relation's names are unique.
        let from = plan.schema();
        let mut names: Vec<String> = vec![];
        let mut exprs: Vec<(Arc<dyn PhysicalExpr>, String)> = vec![];
        for (place, field) in from.fields().iter().enumerate() {
            let is_new = !names.contains(field.name());
            let name = if is_new { field.name().clone() } else { format!("{}:{place}", field.name()) };
            names.push(name.clone());
            exprs.push((Arc::new(Column::new(field.name(), place)), name));
        }
        let plan: Arc<dyn ExecutionPlan> = Arc::new(ProjectionExec::try_new(exprs, plan)?);
        let schema = Arc::new(DFSchema::try_from(plan.schema())?);
        Ok(LogicalPlan::Extension(Extension { node: Arc::new(Self { plan, schema }) }))
    }

    pub fn plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.plan
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.plan) as *const () as usize
    }
}

impl PartialEq for AsIs {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl Eq for AsIs {}

impl Hash for AsIs {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

impl PartialOrd for AsIs {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.address().partial_cmp(&other.address())
    }
}

impl UserDefinedLogicalNodeCore for AsIs {
    fn name(&self) -> &str {
        "AsIs"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "AsIs: {}", self.plan.name())
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        match inputs.is_empty() {
            true => Ok(self.clone()),
            false => Err(Failure::internal("a physical plan has no inputs").into()),
        }
    }
}

/// Hides the plan below from the optimizer.
#[derive(Debug)]
pub struct AsIsExec {
    plan: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl AsIsExec {
    pub fn new(plan: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(plan.schema()),
            plan.output_partitioning().clone(),
            plan.pipeline_behavior(),
            plan.boundedness(),
        );
        Self { plan, properties: Arc::new(properties) }
    }
}

impl DisplayAs for AsIsExec {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "AsIsExec: {}", self.plan.name())
    }
}

impl ExecutionPlan for AsIsExec {
    fn name(&self) -> &str {
        "AsIsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => Err(Failure::internal("a physical plan has no inputs").into()),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.plan.execute(partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.plan.metrics()
    }
}
