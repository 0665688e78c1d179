//! Sampling as a relation: per partition, a random number per row, from a seed. The same input partitions give the same
//! sample, and samples of one seed over neighbouring bounds share no row.
use crate::as_is::{AsIs, AsIsExec};
use crate::error::{Failure, Fallible};
use crate::features::arrow::array::{BooleanArray, RecordBatch, UInt64Array};
use crate::features::arrow::compute::{filter_record_batch, take_record_batch};
use crate::features::async_trait::async_trait;
use crate::features::datafusion::catalog::Session;
use crate::features::datafusion::common::DFSchemaRef;
use crate::features::datafusion::common::tree_node::TreeNodeRecursion;
use crate::features::datafusion::error::{DataFusionError, Result};
use crate::features::datafusion::execution::context::QueryPlanner;
use crate::features::datafusion::execution::{SendableRecordBatchStream, TaskContext};
use crate::features::datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use crate::features::datafusion::logical_expr::{
    Expr, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use crate::features::datafusion::physical_expr::PhysicalExpr;
use crate::features::datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use crate::features::datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use crate::features::datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use crate::features::futures::StreamExt;
use std::fmt;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
struct Rule {
    /// Bit patterns: plans are hashed and compared.
    lower: u64,
    upper: u64,
    with_replacement: bool,
    seed: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sample {
    input: LogicalPlan,
    rule: Rule,
}

impl PartialOrd for Sample {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        match self.input.partial_cmp(&other.input) {
            Some(std::cmp::Ordering::Equal) => self.rule.partial_cmp(&other.rule),
            order => order,
        }
    }
}

impl Sample {
    pub fn new(input: LogicalPlan, lower: f64, upper: f64, with_replacement: bool, seed: i64) -> Fallible<Self> {
        let most = if with_replacement { f64::MAX } else { 1.0 };
        // Bounds that are computed may be out by a rounding error.
        if !(lower >= -1e-6 && upper >= lower && upper - lower <= most + 1e-6) || !upper.is_finite() {
            return Err(Failure::invalid(format!("a sample between {lower} and {upper}")));
        }
        let rule = Rule { lower: lower.to_bits(), upper: upper.to_bits(), with_replacement, seed };
        Ok(Self { input, rule })
    }

    /// Lower and upper bound, with replacement, seed.
    pub fn rule(&self) -> (f64, f64, bool, i64) {
        let rule = &self.rule;
        (f64::from_bits(rule.lower), f64::from_bits(rule.upper), rule.with_replacement, rule.seed)
    }
}

impl UserDefinedLogicalNodeCore for Sample {
    fn name(&self) -> &str {
        "Sample"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let (lower, upper) = (f64::from_bits(self.rule.lower), f64::from_bits(self.rule.upper));
        write!(out, "Sample: {lower}..{upper}, seed={}", self.rule.seed)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(input), true) => Ok(Self { input, rule: self.rule.clone() }),
            _ => Err(DataFusionError::Internal("a sample has one input".to_string())),
        }
    }

    fn necessary_children_exprs(&self, columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![columns.to_vec()])
    }
}

/// Small, quick and good enough to sample with: a counter through a mixing function (splitmix64).
struct Random(u64);

impl Random {
    fn new(seed: i64, partition: usize) -> Self {
        let mut out = Self((seed as u64).wrapping_add((partition as u64).wrapping_mul(0xD1B5_4A32_D192_ED03)));
        out.next();
        out
    }

    /// In [0, 1).
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((value ^ (value >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// How often a row is drawn when `mean` are drawn of each (Poisson, by multiplication; large means in parts).
    fn count(&mut self, mean: f64) -> u64 {
        let (mut rest, mut total) = (mean, 0);
        while rest > 0.0 {
            let limit = (-rest.min(16.0)).exp();
            rest -= 16.0;
            let mut product = self.next();
            while product > limit {
                total += 1;
                product *= self.next();
            }
        }
        total
    }
}

/// The most that a row is drawn with replacement on average: what a batch becomes is in memory at once.
const MEAN_MAX: f64 = 1000.0;

impl Rule {
    fn apply(&self, random: &mut Random, batch: &RecordBatch) -> Result<RecordBatch> {
        let (lower, upper) = (f64::from_bits(self.lower), f64::from_bits(self.upper));
        let rows = batch.num_rows();
        if self.with_replacement {
            let mut picks = vec![];
            for row in 0..rows as u64 {
                let count = random.count(upper - lower);
                picks.extend(std::iter::repeat_n(row, count as usize));
            }
            return Ok(take_record_batch(batch, &UInt64Array::from(picks))?);
        }
        let draw = |_| {
            let value = random.next();
            value >= lower && value < upper
        };
        let mask = BooleanArray::from((0..rows).map(draw).collect::<Vec<bool>>());
        Ok(filter_record_batch(batch, &mask)?)
    }
}

#[derive(Debug)]
struct SampleExec {
    input: Arc<dyn ExecutionPlan>,
    rule: Rule,
}

impl DisplayAs for SampleExec {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SampleExec: {}..{}", f64::from_bits(self.rule.lower), f64::from_bits(self.rule.upper))
    }
}

impl ExecutionPlan for SampleExec {
    fn name(&self) -> &str {
        "SampleExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    /// Rows must stay in the partitions that they are in.
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
            (Some(input), true) => Ok(Arc::new(SampleExec { input, rule: self.rule.clone() })),
            _ => Err(DataFusionError::Internal("a sample has one input".to_string())),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let stream = self.input.execute(partition, context)?;
        let rule = self.rule.clone();
        let mut random = Random::new(rule.seed, partition);
        let schema = stream.schema();
        let sampled = stream.map(move |batch| rule.apply(&mut random, &batch?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, sampled)))
    }
}

/// The engine's planner, with our relations.
#[derive(Debug)]
pub struct Planner;

struct SamplePlanner;

#[async_trait]
impl ExtensionPlanner for SamplePlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let [input] = inputs
            && let Some(write) = crate::write::plan(node.as_any(), input, session)?
        {
            return Ok(Some(write));
        }
        if let Some(operator) = crate::operator::plan(node.as_any(), inputs)? {
            return Ok(Some(operator));
        }
        if let Some(as_is) = node.as_any().downcast_ref::<AsIs>() {
            return Ok(Some(Arc::new(AsIsExec::new(Arc::clone(as_is.plan())))));
        }
        let (Some(sample), [input]) = (node.as_any().downcast_ref::<Sample>(), inputs) else { return Ok(None) };
        let (lower, upper) = (f64::from_bits(sample.rule.lower), f64::from_bits(sample.rule.upper));
        if sample.rule.with_replacement && upper - lower > MEAN_MAX {
            return Err(Failure::exhausted(format!("a sample of {upper} times its input, at most {MEAN_MAX}")).into());
        }
        Ok(Some(Arc::new(SampleExec { input: Arc::clone(input), rule: sample.rule.clone() })))
    }
}

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(SamplePlanner)]);
        planner.create_physical_plan(plan, session).await
    }
}
