//! Deep expressions as one node. DataFusion derives an expression's type from its parts again at every level and in every
//! pass, which is cubic in the depth of a chain like a + b + ... (600 terms take minutes). Below a depth limit an expression
//! stays as it is, so that the optimizer sees it; a deeper one is packed into a scalar function of the columns it uses, with the
//! type that the plan declares, and becomes a physical expression when it runs.
use crate::error::Fallible;
use crate::features::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use crate::features::arrow::compute::cast;
use crate::features::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use crate::features::datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use crate::features::datafusion::common::{DFSchema, ScalarValue};
use crate::features::datafusion::error::{DataFusionError, Result};
use crate::features::datafusion::execution::context::ExecutionProps;
use crate::features::datafusion::logical_expr::expr::ScalarFunction;
use crate::features::datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use crate::features::datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use crate::features::datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TypeSignature, Volatility,
};
use crate::features::datafusion::optimizer::simplify_expressions::ExprSimplifier;
use crate::features::datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use crate::machine::{Depth, Machine, Parts, column_expr, column_name};
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

/// Expressions of up to this depth are left to the optimizer.
const DEPTH: u32 = 24;

type Built = (Vec<DataType>, Arc<dyn PhysicalExpr>);

struct Fused {
    expr: Expr,
    columns: Vec<u32>,
    result: FieldRef,
    signature: Signature,
    built: Mutex<Option<Built>>,
}

impl std::fmt::Debug for Fused {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Fused({} columns)", self.columns.len())
    }
}

impl PartialEq for Fused {
    fn eq(&self, other: &Self) -> bool {
        self.expr == other.expr && self.result == other.result
    }
}

impl Eq for Fused {}

impl Hash for Fused {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.expr.hash(state);
    }
}

/// Some of the engine's functions, as coalesce, are never run themselves but as what they say that they mean.
fn runnable(expr: Expr, context: &SimplifyContext) -> Result<Expr> {
    let whole = expr.transform_up(|part| match part {
        Expr::ScalarFunction(ScalarFunction { func, args }) => Ok(match func.simplify(args, context)? {
            ExprSimplifyResult::Simplified(meant) => Transformed::yes(meant),
            ExprSimplifyResult::Original(args) => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
        }),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(whole.data)
}

impl Fused {
    fn schema(&self, fields: &[FieldRef]) -> Schema {
        let named =
            self.columns.iter().zip(fields).map(|(id, field)| field.as_ref().clone().with_name(column_name(*id)));
        Schema::new(named.collect::<Vec<_>>())
    }

    /// The physical expression for arguments of these types; the last one made is kept.
    fn physical(&self, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
        let types: Vec<DataType> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
        let mut built = self.built.lock().unwrap_or_else(|poison| poison.into_inner());
        if let Some((have, expr)) = built.as_ref() {
            if *have == types {
                return Ok(Arc::clone(expr));
            }
        }
        let schema = Arc::new(DFSchema::try_from(schema.clone())?);
        let context = SimplifyContext::builder().with_schema(Arc::clone(&schema)).build();
        let expr = ExprSimplifier::new(context.clone()).coerce(self.expr.clone(), &schema)?;
        let expr = runnable(expr, &context)?;
        let expr = create_physical_expr(&expr, &schema, &ExecutionProps::new(), &PhysicalPlanningContext::default())?;
        *built = Some((types, Arc::clone(&expr)));
        Ok(expr)
    }
}

impl ScalarUDFImpl for Fused {
    fn name(&self) -> &str {
        "fused"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.result.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::clone(&self.result))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let constant = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let schema = self.schema(&args.arg_fields);
        let expr = self.physical(&schema)?;
        let arrays = args.args.into_iter().map(|value| value.into_array(if constant { 1 } else { rows }));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let schema = Schema::new(
            schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>(),
        );
        let options = RecordBatchOptions::new().with_row_count(Some(if constant { 1 } else { rows }));
        let batch = RecordBatch::try_new_with_options(Arc::new(schema), arrays, &options)?;
        let array = expr.evaluate(&batch)?.into_array(batch.num_rows())?;
        let array = match array.data_type() == self.result.data_type() {
            true => array,
            false => cast(&array, self.result.data_type()).map_err(DataFusionError::from)?,
        };
        match constant {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)),
            false => Ok(ColumnarValue::Array(array)),
        }
    }
}

/// The expression that a packed one stands for, over its arguments; None: it is none.
pub fn unpacked(expr: &Expr) -> Result<Option<Expr>> {
    let Expr::ScalarFunction(call) = expr else { return Ok(None) };
    let Some(fused) = call.func.inner().downcast_ref::<Fused>() else { return Ok(None) };
    let names: Vec<String> = fused.columns.iter().map(|id| column_name(*id)).collect();
    let whole = fused.expr.clone().transform_up(|part| {
        let place = match &part {
            Expr::Column(column) => names.iter().position(|name| *name == column.name),
            _ => None,
        };
        Ok(match place.and_then(|place| call.args.get(place)) {
            Some(arg) => Transformed::yes(arg.clone()),
            None => Transformed::no(part),
        })
    })?;
    Ok(Some(whole.data))
}

/// The plan without what is packed: for whoever does not know this file.
pub fn unpacked_plan(plan: LogicalPlan) -> Result<LogicalPlan> {
    let whole = plan.transform_up_with_subqueries(|node| {
        node.map_expressions(|expr| {
            expr.transform_down(|part| {
                Ok(match unpacked(&part)? {
                    Some(whole) => Transformed::yes(whole),
                    None => Transformed::no(part),
                })
            })
        })
    })?;
    Ok(whole.data)
}

/// An expression that may be packed: closed but for columns, and the same however often and whenever it is computed (a
/// query's time is put in by the optimizer, which does not see what is packed).
fn may_fuse(expr: &Expr) -> bool {
    let (mut used, mut bound, mut is_immutable) = (HashSet::new(), HashSet::new(), true);
    let walked = expr.apply(|part| {
        match part {
            Expr::ScalarFunction(call) => is_immutable &= call.func.signature().volatility == Volatility::Immutable,
            // Variables have names of their own, whichever lambda they belong to.
            Expr::LambdaVariable(variable) => _ = used.insert(variable.name.as_str()),
            Expr::Lambda(lambda) => bound.extend(lambda.params.iter().map(String::as_str)),
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.is_ok() && used.is_subset(&bound) && is_immutable && !expr.is_volatile()
}

/// A function with lambdas. The engine moves expressions between schemas and leaves their lambdas' variables where they were
/// (apache/datafusion#24372): one that is packed is not moved.
fn has_lambdas(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => matches!(cast.expr.as_ref(), Expr::HigherOrderFunction(_)),
        other => matches!(other, Expr::HigherOrderFunction(_)),
    }
}

impl Machine<'_> {
    /// Pushes a call, whose declared type is `result`; packs it when it is deep, or has lambdas.
    pub fn push_call(&mut self, expr: Expr, parts: Parts, result: DataType, nullable: bool) -> Fallible<()> {
        let has_lambdas = has_lambdas(&expr);
        if (parts.depth.seen < DEPTH && !has_lambdas) || !may_fuse(&expr) {
            return self.push_expression(expr, parts);
        }
        // What such a function gives follows from its lambdas' bodies, as the engine sees them.
        let result = match has_lambdas {
            true => expr.get_type(&self.known).unwrap_or(result),
            false => result,
        };
        let mut columns = parts.columns;
        columns.sort_unstable(); // each once: they become the fields of a schema
        columns.dedup();
        let any = TypeSignature::OneOf(vec![TypeSignature::VariadicAny, TypeSignature::Nullary]);
        let fused = Fused {
            expr,
            columns: columns.clone(),
            result: Arc::new(Field::new("fused", result, nullable)),
            signature: Signature::new(any, Volatility::Immutable),
            built: Mutex::new(None),
        };
        let args = columns.iter().map(|id| column_expr(*id)).collect();
        let function = Arc::new(ScalarUDF::new_from_impl(fused));
        let depth = Depth { seen: 1, full: parts.depth.full };
        let parts = Parts { depth, nodes: parts.nodes + columns.len() as u64, columns };
        self.push_expression(Expr::ScalarFunction(ScalarFunction::new_udf(function, args)), parts)
    }
}
