//! Physical rules of our own, for what the engine's own rules get wrong.
use crate::concat::ConcatExec;
use crate::features::datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use crate::features::datafusion::config::ConfigOptions;
use crate::features::datafusion::error::{DataFusionError, Result};
use crate::features::datafusion::execution::{SendableRecordBatchStream, TaskContext};
use crate::features::datafusion::physical_expr::PhysicalExpr;
use crate::features::datafusion::physical_optimizer::PhysicalOptimizerRule;
use crate::features::datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use crate::features::datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use crate::features::datafusion::physical_plan::coop::CooperativeExec;
use crate::features::datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use crate::features::datafusion::physical_plan::limit::GlobalLimitExec;
use crate::features::datafusion::physical_plan::unnest::UnnestExec;
use crate::features::datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use std::fmt;
use std::sync::Arc;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// The engine's rules with ours among them.
pub fn rules() -> Vec<Rule> {
    let mut out: Vec<Rule> = vec![];
    for rule in PhysicalOptimizer::new().rules {
        // What adds sorts also moves them below limits: a limit's rows must be those of its input as it is.
        let adds_sorts = rule.name() == "EnsureRequirements";
        if adds_sorts {
            out.push(Arc::new(FenceLimits { add: true }));
        }
        out.push(rule);
        if adds_sorts {
            out.push(Arc::new(FenceLimits { add: false }));
        }
    }
    out.push(Arc::new(LimitsInOrder));
    out.push(Arc::new(YieldInJoins));
    out
}

/// Stands above a limit while sorts are placed, and is gone afterwards. Without it, a sort over a limit becomes a TopK
/// below it: other rows, and too few with an offset (fixed upstream for the offset only, after 55.2).
#[derive(Debug)]
struct Fence {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for Fence {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Fence")
    }
}

impl ExecutionPlan for Fence {
    fn name(&self) -> &str {
        "Fence"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    /// It does; but whoever says so is asked to pass sorts on.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(Fence { input })),
            _ => Err(DataFusionError::Internal("a fence has one input".to_string())),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}

#[derive(Debug)]
struct FenceLimits {
    add: bool,
}

impl PhysicalOptimizerRule for FenceLimits {
    fn name(&self) -> &str {
        "FenceLimits"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            if self.add && node.is::<GlobalLimitExec>() {
                return Ok(Transformed::yes(Arc::new(Fence { input: node }) as Arc<dyn ExecutionPlan>));
            }
            Ok(match node.downcast_ref::<Fence>() {
                Some(fence) if !self.add => Transformed::yes(Arc::clone(&fence.input)),
                _ => Transformed::no(node),
            })
        })
        .map(|transformed| transformed.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A limit over several partitions takes the first rows in their order.
#[derive(Debug)]
struct LimitsInOrder;

impl PhysicalOptimizerRule for LimitsInOrder {
    fn name(&self) -> &str {
        "LimitsInOrder"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some((input, fetch)) = node
                .downcast_ref::<CoalescePartitionsExec>()
                .and_then(|coalesce| coalesce.fetch().map(|fetch| (Arc::clone(coalesce.input()), fetch)))
            else {
                return Ok(Transformed::no(node));
            };
            let properties = Arc::clone(node.properties());
            Ok(Transformed::yes(Arc::new(ConcatExec { input, fetch, properties }) as Arc<dyn ExecutionPlan>))
        })
        .map(|transformed| transformed.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What `YieldInJoins` does.
pub fn yielding(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        let multiplies = node.is::<NestedLoopJoinExec>()
            || node.is::<CrossJoinExec>()
            || node.is::<HashJoinExec>()
            || node.is::<SortMergeJoinExec>()
            || node.is::<UnnestExec>();
        Ok(match multiplies {
            true => Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>),
            false => Transformed::no(node),
        })
    })
    .map(|transformed| transformed.data)
}

/// Operators that make many batches out of one hand the thread back now and then: otherwise a cross join holds it, and
/// cannot be cancelled, until it is done.
#[derive(Debug)]
struct YieldInJoins;

impl PhysicalOptimizerRule for YieldInJoins {
    fn name(&self) -> &str {
        "YieldInJoins"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        yielding(plan)
    }

    fn schema_check(&self) -> bool {
        true
    }
}
