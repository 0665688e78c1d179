//! Relational operators of a C function library: rows of the inputs in, rows out, with what they need of their inputs.
use crate::abi::{Operator, OperatorRequirement};
use crate::error::{Failure, Fallible};
use crate::features::arrow::array::{Array, RecordBatch, RecordBatchOptions, StructArray};
use crate::features::arrow::compute::SortOptions;
use crate::features::arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use crate::features::arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use crate::features::datafusion::common::tree_node::TreeNodeRecursion;
use crate::features::datafusion::common::{DFSchema, DFSchemaRef};
use crate::features::datafusion::error::{DataFusionError, Result};
use crate::features::datafusion::execution::{SendableRecordBatchStream, TaskContext};
use crate::features::datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use crate::features::datafusion::physical_expr::expressions::Column;
use crate::features::datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexRequirement, OrderingRequirements, Partitioning, PhysicalExpr,
    PhysicalSortRequirement,
};
use crate::features::datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use crate::features::datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use crate::features::datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use crate::features::futures::TryStreamExt;
use crate::features::futures::stream::try_unfold;
use crate::features::tokio::task::spawn_blocking;
use crate::functions::{call, function_name, import};
use crate::lower_rel::renamed;
use crate::machine::{Columns, Machine, Relation};
use crate::runtime::slice;
use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

const INPUTS_MAX: usize = 64;

/// The C table lives as long as the process.
#[derive(Clone)]
pub struct LibraryOperator {
    operator: &'static Operator,
    pub name: String,
}

impl LibraryOperator {
    pub unsafe fn new(operator: *const Operator) -> Fallible<Self> {
        let table: &'static Operator =
            unsafe { operator.as_ref() }.ok_or_else(|| Failure::invalid("an operator is NULL"))?;
        let whole = table.bind.is_some() && table.create.is_some() && table.push.is_some();
        if !whole || table.pull.is_none() || table.destroy.is_none() {
            return Err(Failure::invalid("an operator lacks bind, create, push, pull or destroy"));
        }
        Ok(Self { operator: table, name: unsafe { function_name(table.name) }? })
    }
}

/// An operator with its payload, over inputs with these columns.
#[derive(Clone)]
struct Bound {
    function: LibraryOperator,
    payload: Arc<Vec<u8>>,
    inputs: Vec<SchemaRef>,
}

impl fmt::Debug for Bound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Operator({})", self.function.name)
    }
}

impl PartialEq for Bound {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.function.operator, other.function.operator) && self.payload == other.payload
    }
}

impl Eq for Bound {}

impl Hash for Bound {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name.hash(state);
        self.payload.hash(state);
    }
}

impl Bound {
    fn schemas(&self) -> Fallible<Vec<FFI_ArrowSchema>> {
        let schemas = self.inputs.iter().map(|schema| FFI_ArrowSchema::try_from(schema.as_ref()));
        Ok(schemas.collect::<std::result::Result<Vec<_>, _>>()?)
    }

    fn bind(&self) -> Fallible<Schema> {
        let schemas = self.schemas()?;
        let pointers: Vec<*const FFI_ArrowSchema> = schemas.iter().map(|schema| schema as *const _).collect();
        let table = self.function.operator;
        let bind = table.bind.ok_or_else(|| Failure::internal("no bind"))?;
        let mut out = FFI_ArrowSchema::empty();
        call(&self.function.name, |error| unsafe {
            bind(
                table,
                self.payload.as_ptr().cast(),
                self.payload.len(),
                pointers.as_ptr(),
                pointers.len(),
                &mut out,
                error,
            )
        })?;
        Ok(Schema::try_from(&out)?)
    }

    /// What the operator needs of an input; the arrays in it are the operator's.
    fn requirement(&self, input: usize) -> Fallible<(Distribution, Option<OrderingRequirements>)> {
        let table = self.function.operator;
        let Some(require) = table.require else { return Ok((Distribution::UnspecifiedDistribution, None)) };
        let mut wanted = OperatorRequirement {
            struct_size: size_of::<OperatorRequirement>(),
            distribution: 0,
            keys: std::ptr::null(),
            key_count: 0,
            order: std::ptr::null(),
            order_flags: std::ptr::null(),
            order_count: 0,
        };
        call(&self.function.name, |error| unsafe {
            require(table, self.payload.as_ptr().cast(), self.payload.len(), input, &mut wanted, error)
        })?;
        let schema = &self.inputs[input];
        let column = |place: u32| -> Fallible<Arc<dyn PhysicalExpr>> {
            let field = schema.fields().get(place as usize);
            let field = field
                .ok_or_else(|| Failure::invalid(format!("{} needs a column that is not there", self.function.name)))?;
            Ok(Arc::new(Column::new(field.name(), place as usize)))
        };
        let keys = unsafe { slice(wanted.keys, wanted.key_count, "keys") }?;
        let distribution = match wanted.distribution {
            1 => Distribution::SinglePartition,
            2 => Distribution::KeyPartitioned(keys.iter().map(|key| column(*key)).collect::<Fallible<_>>()?),
            _ => Distribution::UnspecifiedDistribution,
        };
        let order = unsafe { slice(wanted.order, wanted.order_count, "an order") }?;
        let flags = unsafe { slice(wanted.order_flags, wanted.order_count, "an order") }?;
        let mut keys = vec![];
        for (place, flag) in order.iter().zip(flags) {
            let options = SortOptions { descending: flag & 1 != 0, nulls_first: flag & 2 != 0 };
            keys.push(PhysicalSortRequirement::new(column(*place)?, Some(options)));
        }
        Ok((distribution, LexRequirement::new(keys).map(OrderingRequirements::new)))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OperatorNode {
    bound: Bound,
    inputs: Vec<LogicalPlan>,
    schema: DFSchemaRef,
}

impl PartialOrd for OperatorNode {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.inputs.partial_cmp(&other.inputs)
    }
}

impl UserDefinedLogicalNodeCore for OperatorNode {
    fn name(&self) -> &str {
        &self.bound.function.name
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        self.inputs.iter().collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "Operator: {}", self.bound.function.name)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        match inputs.len() == self.inputs.len() {
            true => Ok(Self { inputs, ..self.clone() }),
            false => Err(DataFusionError::Internal("an operator's inputs".to_string())),
        }
    }

    /// Rows come from all columns of the inputs: filters and projections stay above.
    fn prevent_predicate_push_down_columns(&self) -> std::collections::HashSet<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn necessary_children_exprs(&self, _: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(self.bound.inputs.iter().map(|schema| (0..schema.fields().len()).collect()).collect())
    }
}

impl Machine<'_> {
    pub fn extension(&mut self) -> Fallible<()> {
        let name = self.reader.str()?;
        let payload = Arc::new(self.reader.bytes()?.to_vec());
        let input_count = self.reader.u32()? as usize;
        let count = self.reader.count(4)?;
        let ids = self.reader.ids(count)?;
        if input_count > INPUTS_MAX || input_count > self.stack.len() {
            return Err(self.reader.invalid(format!("an operator with {input_count} inputs")));
        }
        let function = self.session.runtime.operators.get(name).cloned();
        let function = function.ok_or_else(|| Failure::invalid(format!("no operator {name}")))?;
        let mut relations: Vec<Relation> = (0..input_count).map(|_| self.pop_relation()).collect::<Fallible<_>>()?;
        relations.reverse();
        let fields = |relation: &Relation| -> SchemaRef {
            let fields: Vec<FieldRef> =
                relation.columns.order.iter().map(|id| Arc::clone(&relation.columns.fields[id])).collect();
            Arc::new(Schema::new(fields))
        };
        let bound = Bound { function, payload, inputs: relations.iter().map(fields).collect() };
        let schema = bound.bind()?;
        if schema.fields().len() != ids.len() {
            return Err(Failure::invalid(format!("{name} gives {} columns, not {}", schema.fields().len(), ids.len())));
        }
        let mut columns = Columns::default();
        for (id, field) in ids.iter().zip(schema.fields()) {
            columns.add(*id, renamed(field, *id))?;
        }
        let fields: Vec<FieldRef> = columns.order.iter().map(|id| Arc::clone(&columns.fields[id])).collect();
        let schema = Arc::new(DFSchema::from_unqualified_fields(fields.into(), HashMap::new())?);
        let inputs = relations.iter().map(|relation| relation.plan.as_ref().clone()).collect();
        let node = Arc::new(OperatorNode { bound, inputs, schema });
        let borrowed: Vec<&Relation> = relations.iter().collect();
        self.push_relation(LogicalPlan::Extension(Extension { node }), Arc::new(columns), &borrowed, 1)
    }
}

// ---- running ----

#[derive(Debug)]
struct OperatorExec {
    bound: Bound,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    requirements: Vec<(Distribution, Option<OrderingRequirements>)>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

/// What the physical planner makes of an operator; None: `node` is something else.
pub fn plan(node: &dyn std::any::Any, inputs: &[Arc<dyn ExecutionPlan>]) -> Fallible<Option<Arc<dyn ExecutionPlan>>> {
    let Some(node) = node.downcast_ref::<OperatorNode>() else { return Ok(None) };
    let schema = Arc::clone(node.schema.inner());
    Ok(Some(Arc::new(OperatorExec::new(node.bound.clone(), inputs.to_vec(), schema)?)))
}

impl OperatorExec {
    fn new(bound: Bound, inputs: Vec<Arc<dyn ExecutionPlan>>, schema: SchemaRef) -> Fallible<Self> {
        let requirements = (0..inputs.len()).map(|input| bound.requirement(input)).collect::<Fallible<Vec<_>>>()?;
        let partitions = inputs.iter().map(|input| input.output_partitioning().partition_count()).max().unwrap_or(1);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self { bound, inputs, requirements, schema, properties: Arc::new(properties) })
    }
}

impl DisplayAs for OperatorExec {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "OperatorExec: {}", self.bound.function.name)
    }
}

impl ExecutionPlan for OperatorExec {
    fn name(&self) -> &str {
        "OperatorExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    #[allow(deprecated)]
    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.requirements.iter().map(|(distribution, _)| distribution.clone()).collect()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.requirements.iter().map(|(_, ordering)| ordering.clone()).collect()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        let by_keys = |(distribution, _): &(Distribution, _)| matches!(distribution, Distribution::KeyPartitioned(_));
        self.requirements.iter().map(by_keys).collect()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(self.bound.clone(), children, Arc::clone(&self.schema))?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut streams = vec![];
        for input in &self.inputs {
            // An input with fewer partitions than another has none for the last ones.
            streams.push(match partition < input.output_partitioning().partition_count() {
                true => Some(input.execute(partition, Arc::clone(&context))?),
                false => None,
            });
        }
        streams.reverse(); // the first input is taken first
        let state = State::create(&self.bound, partition, Arc::clone(&self.schema))?;
        let running = Running { state: Some(state), streams, input: 0 };
        let batches = try_unfold(running, |running| async move { Ok(running.next().await?) });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches)))
    }
}

/// The operator's own state for one partition. Its functions may block: they run on threads for that.
struct State {
    bound: Bound,
    this: *mut c_void,
    schema: SchemaRef,
}
unsafe impl Send for State {}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(destroy) = self.bound.function.operator.destroy {
            unsafe { destroy(self.this) };
        }
    }
}

impl State {
    fn create(bound: &Bound, partition: usize, schema: SchemaRef) -> Fallible<Self> {
        let schemas = bound.schemas()?;
        let pointers: Vec<*const FFI_ArrowSchema> = schemas.iter().map(|schema| schema as *const _).collect();
        let table = bound.function.operator;
        let create = table.create.ok_or_else(|| Failure::internal("no create"))?;
        let mut this = std::ptr::null_mut();
        let partition = u32::try_from(partition).map_err(|_| Failure::internal("that many partitions"))?;
        call(&bound.function.name, |error| unsafe {
            create(
                table,
                bound.payload.as_ptr().cast(),
                bound.payload.len(),
                pointers.as_ptr(),
                pointers.len(),
                partition,
                &mut this,
                error,
            )
        })?;
        Ok(Self { bound: bound.clone(), this, schema })
    }

    /// None: the input is over.
    fn push(&mut self, input: usize, batch: Option<RecordBatch>) -> Fallible<()> {
        let push = self.bound.function.operator.push.ok_or_else(|| Failure::internal("no push"))?;
        let mut rows = match batch {
            Some(batch) => FFI_ArrowArray::new(&StructArray::from(batch).to_data()),
            None => FFI_ArrowArray::empty(),
        };
        // Taken by the operator, also when it fails: it leaves an array that is released, or moved away.
        call(&self.bound.function.name, |error| unsafe { push(self.this, input, &mut rows, error) })
    }

    fn pull(&mut self) -> Fallible<Option<RecordBatch>> {
        let pull = self.bound.function.operator.pull.ok_or_else(|| Failure::internal("no pull"))?;
        let mut rows = FFI_ArrowArray::empty();
        call(&self.bound.function.name, |error| unsafe { pull(self.this, &mut rows, error) })?;
        if rows.is_released() {
            return Ok(None);
        }
        let array = import(rows, &DataType::Struct(self.schema.fields().clone()))?;
        let rows = array.as_any().downcast_ref::<StructArray>();
        let rows = rows.ok_or_else(|| Failure::internal("an operator's rows are no struct"))?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.schema), rows.columns().to_vec(), &options)?))
    }
}

struct Running {
    /// Absent while a thread works with it.
    state: Option<State>,
    /// Inputs that are left, the next one last.
    streams: Vec<Option<SendableRecordBatchStream>>,
    input: usize,
}

impl Running {
    async fn with<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut State) -> Fallible<T> + Send + 'static,
    ) -> Fallible<T> {
        let mut state = self.state.take().ok_or_else(|| Failure::internal("an operator without its state"))?;
        let done = spawn_blocking(move || {
            let result = work(&mut state);
            (state, result)
        });
        let (state, result) = done.await.map_err(|_| Failure::cancelled())?;
        self.state = Some(state);
        result
    }

    async fn next(mut self) -> Fallible<Option<(RecordBatch, Self)>> {
        loop {
            if let Some(batch) = self.with(State::pull).await? {
                return Ok(Some((batch, self)));
            }
            let Some(stream) = self.streams.last_mut() else { return Ok(None) };
            let batch = match stream {
                Some(stream) => stream.try_next().await?,
                None => None,
            };
            let (input, is_end) = (self.input, batch.is_none());
            self.with(move |state| state.push(input, batch)).await?;
            if is_end {
                self.streams.pop();
                self.input += 1;
            }
        }
    }
}
