//! Plans for a Ballista cluster: optimized, and made of what travels. DataFusion's protobuf carries files, values and functions by
//! name; what it lacks is said in other words here (ranges, rows in memory, packed expressions), or refused by name.
use crate::error::{Failure, Fallible};
use crate::features::arrow::array::{Array, RecordBatch};
use crate::features::arrow::datatypes::DataType;
use crate::features::datafusion::catalog::{MemTable, TableProvider};
use crate::features::datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use crate::features::datafusion::common::{Column, ScalarValue};
use crate::features::datafusion::datasource::listing::ListingTable;
use crate::features::datafusion::datasource::source_as_provider;
use crate::features::datafusion::error::Result;
use crate::features::datafusion::execution::FunctionRegistry;
use crate::features::datafusion::logical_expr::expr::ScalarFunction;
use crate::features::datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableScan, lit};
use crate::features::datafusion_proto::bytes::logical_plan_to_bytes_with_extension_codec;
use crate::features::datafusion_proto::protobuf::LogicalPlanNode;
use crate::features::futures::executor::block_on;
use crate::features::prost::Message;
use crate::fused::unpacked;
use crate::range::Range;
use crate::runtime::Session;
use crate::travel::{Sender, travels};

pub const FORMAT: &str = "ballista.logical.v1";
/// The same plan below an EXPLAIN: rows of plan_type and plan, both texts, come out.
pub const EXPLAIN_FORMAT: &str = "ballista.explain.v1";

/// Rows in memory that become literals: so many values, so many bytes.
const VALUES_MAX: usize = 100_000;
const BYTES_MAX: usize = 1 << 20;
/// Integers that become a list, which becomes rows.
const RANGE_MAX: u64 = 10_000_000;
/// What a scheduler takes in one message (16 MiB), without what is around the plan.
const PLAN_BYTES_MAX: usize = (16 << 20) - (64 << 10);

pub fn cannot(what: impl std::fmt::Display) -> Failure {
    Failure::unimplemented(format!("{what} cannot run on a Ballista cluster"))
}

// ---- rows ----

fn typed_null(data_type: &DataType) -> Result<Expr> {
    Ok(Expr::Literal(ScalarValue::try_new_null(data_type)?, None))
}

/// Rows of values under these names: VALUES has names of its own, and loses them on the way.
fn values(rows: Vec<Vec<Expr>>, names: &[String]) -> Result<LogicalPlanBuilder> {
    let builder = LogicalPlanBuilder::values(rows)?;
    let columns: Vec<Expr> = builder.schema().columns().into_iter().map(Expr::Column).collect();
    builder.project(columns.into_iter().zip(names).map(|(column, name)| column.alias(name)))
}

/// No rows, with these columns: an empty relation loses its columns on the way.
fn no_rows(columns: &[(String, DataType)]) -> Result<LogicalPlanBuilder> {
    let row = columns.iter().map(|(_, data_type)| typed_null(data_type)).collect::<Result<Vec<_>>>()?;
    let names: Vec<String> = columns.iter().map(|(name, _)| name.clone()).collect();
    values(vec![row], &names)?.filter(lit(false))
}

fn rows_of(batches: &[RecordBatch], places: &[usize]) -> Result<Vec<Vec<Expr>>> {
    let mut out = vec![];
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cell = |place: &usize| Ok(Expr::Literal(ScalarValue::try_from_array(batch.column(*place), row)?, None));
            out.push(places.iter().map(cell).collect::<Result<Vec<_>>>()?);
        }
    }
    Ok(out)
}

fn memory(table: &MemTable, places: &[usize]) -> Result<LogicalPlanBuilder> {
    let mut batches = vec![];
    for partition in &table.batches {
        batches.extend(block_on(partition.read()).iter().cloned());
    }
    let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    let bytes = |batch: &RecordBatch| -> usize {
        places.iter().map(|place| batch.column(*place).to_data().get_slice_memory_size().unwrap_or(BYTES_MAX)).sum()
    };
    if rows.saturating_mul(places.len().max(1)) > VALUES_MAX || batches.iter().map(bytes).sum::<usize>() > BYTES_MAX {
        return Err(cannot(format!("{rows} rows in memory")).into());
    }
    let schema = table.schema();
    let columns: Vec<(String, DataType)> = places
        .iter()
        .map(|place| (schema.field(*place).name().clone(), schema.field(*place).data_type().clone()))
        .collect();
    if columns.is_empty() {
        return Err(cannot("rows without columns").into());
    }
    if rows == 0 {
        return no_rows(&columns);
    }
    let names: Vec<String> = columns.into_iter().map(|(name, _)| name).collect();
    values(rows_of(&batches, places)?, &names)
}

fn range(session: &Session, range: &Range) -> Result<LogicalPlanBuilder> {
    const NAME: &str = "id";
    if range.count > RANGE_MAX {
        return Err(cannot(format!("a range of {} rows", range.count)).into());
    }
    if range.count == 0 {
        return no_rows(&[(NAME.to_string(), DataType::Int64)]);
    }
    // The list's end is what comes after the last one, which may be out of range: then it is one short of that.
    let last = i128::from(range.start) + (i128::from(range.count) - 1) * i128::from(range.step);
    let Ok(end) = i64::try_from(last + i128::from(range.step.signum())) else {
        return Err(cannot("a range up to the end of all integers").into());
    };
    let args = vec![lit(range.start), lit(end), lit(range.step)];
    let list = Expr::ScalarFunction(ScalarFunction::new_udf(session.state.udf("range")?, args));
    let builder = LogicalPlanBuilder::empty(true).project(vec![list.alias(NAME)])?;
    builder.unnest_column(Column::from_name(NAME))
}

/// A scan of what does not travel, in other words; None: it travels.
fn scan(session: &Session, scan: &TableScan) -> Result<Option<LogicalPlan>> {
    let provider = source_as_provider(&scan.source)?;
    let places: Vec<usize> = match &scan.projection {
        Some(places) => places.clone(),
        None => (0..provider.schema().fields().len()).collect(),
    };
    if provider.is::<ListingTable>() {
        return Ok(None);
    }
    let builder = if let Some(table) = provider.downcast_ref::<MemTable>() {
        memory(table, &places)?
    } else if let Some(rows) = provider.downcast_ref::<Range>()
        && places.len() == 1
    {
        range(session, rows)?
    } else {
        return Err(cannot(format!("the table {}", scan.table_name)).into());
    };
    let mut builder = builder.alias(scan.table_name.clone())?;
    for filter in &scan.filters {
        builder = builder.filter(filter.clone())?;
    }
    Ok(Some(builder.build()?))
}

// ---- the plan ----

fn relation(session: &Session, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let plan = plan.map_expressions(|expr| {
        expr.transform_down(|part| {
            Ok(match unpacked(&part)? {
                Some(whole) => Transformed::yes(whole),
                None => Transformed::no(part),
            })
        })
    })?;
    let other = match &plan.data {
        LogicalPlan::TableScan(table) => scan(session, table)?,
        LogicalPlan::Values(rows) => {
            let names: Vec<String> = rows.schema.fields().iter().map(|field| field.name().clone()).collect();
            Some(values(rows.values.clone(), &names)?.build()?)
        }
        LogicalPlan::EmptyRelation(empty) if !empty.produce_one_row && !empty.schema.fields().is_empty() => {
            let fields = empty.schema.fields().iter();
            let columns: Vec<_> = fields.map(|field| (field.name().clone(), field.data_type().clone())).collect();
            Some(no_rows(&columns)?.build()?)
        }
        // Rows are the same in whichever partition.
        LogicalPlan::Repartition(repartition) => Some(repartition.input.as_ref().clone()),
        LogicalPlan::Extension(extension) if !travels(extension.node.as_ref()) => {
            return Err(cannot(extension.node.name()).into());
        }
        LogicalPlan::RecursiveQuery(_) => return Err(cannot("a recursive query").into()),
        _ => None,
    };
    Ok(match other {
        Some(other) => Transformed::yes(other),
        None => plan,
    })
}

/// What stops a query before its plan is looked at more closely; the optimizer would only spend time on it.
fn check(plan: &LogicalPlan) -> Result<()> {
    let (mut writes, mut repartitions) = (false, false);
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::Extension(extension) if !travels(extension.node.as_ref()) => {
                return Err(cannot(extension.node.name()).into());
            }
            LogicalPlan::Extension(extension) => writes |= extension.node.name() == "Write",
            LogicalPlan::Repartition(_) => repartitions = true,
            LogicalPlan::RecursiveQuery(_) => return Err(cannot("a recursive query").into()),
            // A scheduler plans them at the root only, and ours is below the projection that gives names.
            LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => return Err(cannot("EXPLAIN as a query").into()),
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    match writes && repartitions {
        true => Err(cannot("a write into a given number of files").into()),
        false => Ok(()),
    }
}

pub fn encode(session: &Session, plan: &LogicalPlan, is_explained: bool) -> Fallible<Vec<u8>> {
    check(plan)?;
    let plan = session.state.optimize(plan)?;
    let mut plan = plan.transform_up_with_subqueries(|node| relation(session, node))?.data;
    if is_explained {
        plan = LogicalPlanBuilder::from(plan).explain(false, false)?.build()?;
    }
    let bytes = logical_plan_to_bytes_with_extension_codec(&plan, &Sender).map_err(|error| {
        let failure = Failure::from(error);
        match failure.status {
            crate::abi::status::RESOURCE_EXHAUSTED | crate::abi::status::CANCELLED => failure,
            _ => cannot(format!("this query ({})", failure.message)),
        }
    })?;
    if bytes.len() > PLAN_BYTES_MAX {
        return Err(cannot(format!("a plan of {} bytes", bytes.len())));
    }
    // Whoever decodes it gives up where messages nest too deep.
    if LogicalPlanNode::decode(bytes.as_ref()).is_err() {
        return Err(cannot("a plan that nests so deep"));
    }
    Ok(bytes.to_vec())
}
