//! Tables that the caller implements: asked for partitions of columns, with the filters that they said they can apply.
use crate::abi::{EngineError, TableNextDone, TableOps, TableScan, TableStatistics};
use crate::error::{Failure, Fallible, from_c, no_error};
use crate::features::arrow::array::{Array, RecordBatch, RecordBatchOptions, StructArray};
use crate::features::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use crate::features::arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use crate::features::async_trait::async_trait;
use crate::features::datafusion::catalog::{Session, TableProvider};
use crate::features::datafusion::common::stats::Precision;
use crate::features::datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use crate::features::datafusion::common::{Column, DFSchema, Statistics};
use crate::features::datafusion::error::Result;
use crate::features::datafusion::execution::{SendableRecordBatchStream, TaskContext};
use crate::features::datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use crate::features::datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use crate::features::datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use crate::features::datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use crate::features::datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use crate::features::futures::stream::try_unfold;
use crate::features::tokio::sync::oneshot;
use crate::lift::{Lifter, Scope};
use crate::machine::{MAGIC, VERSION};
use crate::source::Source;
use std::ffi::c_void;
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

const PARTITIONS_MAX: u32 = 1 << 10;

/// The caller's side: its functions may be called from any thread.
struct Callee {
    ops: &'static TableOps,
    this: *mut c_void,
}
unsafe impl Send for Callee {}
unsafe impl Sync for Callee {}

impl fmt::Debug for Callee {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Callee")
    }
}

impl Drop for Callee {
    fn drop(&mut self) {
        unsafe { (self.ops.destroy)(self.this) };
    }
}

#[derive(Debug)]
pub struct CallerTable {
    callee: Arc<Callee>,
    /// Inside, columns are named by their places: names from outside may repeat.
    schema: SchemaRef,
}

pub fn placed(schema: &Schema) -> Schema {
    let field = |(place, field): (usize, &Arc<Field>)| {
        Field::new(format!("m{place}"), field.data_type().clone(), field.is_nullable())
    };
    Schema::new(schema.fields().iter().enumerate().map(field).collect::<Vec<_>>())
}

/// Takes `this` on success only.
pub unsafe fn source(ops: *const TableOps, this: *mut c_void) -> Fallible<Arc<Source>> {
    let ops: &'static TableOps =
        unsafe { ops.as_ref() }.ok_or_else(|| Failure::invalid("a table without functions"))?;
    if ops.struct_size < size_of::<TableOps>() {
        return Err(Failure::invalid("a table's functions are of an older layout"));
    }
    let (mut schema, mut error) = (FFI_ArrowSchema::empty(), ManuallyDrop::new(no_error()));
    if unsafe { (ops.schema)(this, &mut schema, &mut *error) } != crate::abi::status::OK {
        return Err(unsafe { from_c(&mut error) });
    }
    let schema = Arc::new(Schema::try_from(&schema)?);
    let callee = Arc::new(Callee { ops, this });
    let provider = Arc::new(CallerTable { callee, schema: Arc::new(placed(&schema)) });
    Ok(Arc::new(Source { provider, schema }))
}

impl CallerTable {
    /// The filters as the encoding's expressions, one after the other; None: one of them has no form.
    fn encoded(&self, filters: &[&Expr]) -> Option<Vec<u8>> {
        let schema = DFSchema::try_from(self.schema.as_ref().clone()).ok()?;
        let ids: Vec<u32> = (0..self.schema.fields().len() as u32).collect();
        let mut lifter = Lifter::default();
        lifter.out.bytes.extend_from_slice(MAGIC);
        lifter.out.u32(VERSION);
        let scope = Scope { schema: &schema, ids: &ids, outer: None };
        for filter in filters {
            let plain = (*filter).clone().transform(|expr| {
                Ok(match expr {
                    Expr::Column(column) => Transformed::yes(Expr::Column(Column::new_unqualified(column.name))),
                    other => Transformed::no(other),
                })
            });
            lifter.expression(&plain.ok()?.data, &scope).ok()?;
        }
        Some(lifter.out.bytes)
    }

    fn support(&self, filter: &Expr) -> TableProviderFilterPushDown {
        let mut answer = 0u8;
        if let Some(bytes) = self.encoded(&[filter]) {
            let callee = &self.callee;
            unsafe { (callee.ops.supports)(callee.this, bytes.as_ptr().cast(), bytes.len(), 1, &mut answer) };
        }
        match answer {
            1 => TableProviderFilterPushDown::Inexact,
            2 => TableProviderFilterPushDown::Exact,
            _ => TableProviderFilterPushDown::Unsupported,
        }
    }
}

#[async_trait]
impl TableProvider for CallerTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters.iter().map(|filter| self.support(filter)).collect())
    }

    fn statistics(&self) -> Option<Statistics> {
        let mut known = TableStatistics { rows: -1, bytes: -1, is_exact: false };
        unsafe { (self.callee.ops.statistics)(self.callee.this, &mut known) };
        let precision = |value: i64| match (usize::try_from(value), known.is_exact) {
            (Ok(value), true) => Precision::Exact(value),
            (Ok(value), false) => Precision::Inexact(value),
            (Err(_), _) => Precision::Absent,
        };
        let mut out = Statistics::new_unknown(&self.schema);
        (out.num_rows, out.total_byte_size) = (precision(known.rows), precision(known.bytes));
        Some(out)
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let places = projection.unwrap_or(&all);
        let schema = Arc::new(self.schema.project(places)?);
        let partitions = unsafe { (self.callee.ops.partitions)(self.callee.this) };
        if partitions > PARTITIONS_MAX {
            return Err(
                Failure::exhausted(format!("a table of {partitions} partitions, at most {PARTITIONS_MAX}")).into()
            );
        }
        let borrowed: Vec<&Expr> = filters.iter().collect();
        let encoded =
            self.encoded(&borrowed).ok_or_else(|| Failure::internal("a filter that was accepted got lost"))?;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions.max(1) as usize),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Arc::new(CallerExec {
            callee: Arc::clone(&self.callee),
            schema,
            places: places.iter().map(|place| *place as u32).collect(),
            filters: encoded,
            filter_count: filters.len(),
            limit: limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(-1),
            properties: Arc::new(properties),
        }))
    }
}

#[derive(Debug)]
struct CallerExec {
    callee: Arc<Callee>,
    schema: SchemaRef,
    places: Vec<u32>,
    filters: Vec<u8>,
    filter_count: usize,
    limit: i64,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for CallerExec {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "CallerExec: columns={:?}, filters={}", self.places, self.filter_count)
    }
}

impl ExecutionPlan for CallerExec {
    fn name(&self) -> &str {
        "CallerExec"
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
            false => Err(Failure::internal("a table has no inputs").into()),
        }
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let scan = TableScan {
            struct_size: size_of::<TableScan>(),
            projection: self.places.as_ptr(),
            projection_count: self.places.len(),
            filters: self.filters.as_ptr().cast(),
            filters_size: self.filters.len(),
            filter_count: self.filter_count,
            limit: self.limit,
            partition: u32::try_from(partition).unwrap_or(u32::MAX),
        };
        let (mut stream, mut error) = (std::ptr::null_mut(), ManuallyDrop::new(no_error()));
        let ops = self.callee.ops;
        if unsafe { (ops.scan)(self.callee.this, &scan, &mut stream, &mut *error) } != crate::abi::status::OK {
            return Err(unsafe { from_c(&mut error) }.into());
        }
        let open = Open { callee: Arc::clone(&self.callee), stream, schema: Arc::clone(&self.schema) };
        let batches = try_unfold(open, |open| async move { Ok(open.next().await?.map(|batch| (batch, open))) });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches)))
    }
}

/// A stream of the caller's.
struct Open {
    callee: Arc<Callee>,
    stream: *mut c_void,
    schema: SchemaRef,
}
// Used by one task at a time.
unsafe impl Send for Open {}
unsafe impl Sync for Open {}

impl Drop for Open {
    fn drop(&mut self) {
        unsafe { (self.callee.ops.close)(self.stream) };
    }
}

type Sender = oneshot::Sender<Fallible<Option<FFI_ArrowArray>>>;

unsafe extern "C" fn arrived(user: *mut c_void, array: *mut FFI_ArrowArray, error: *mut EngineError) {
    let sender = unsafe { Box::from_raw(user as *mut Sender) };
    let result = match unsafe { error.as_mut() } {
        Some(error) if error.status != crate::abi::status::OK => Err(unsafe { from_c(error) }),
        _ if array.is_null() => Ok(None),
        _ => {
            let array = unsafe { FFI_ArrowArray::from_raw(array) };
            Ok((!array.is_released()).then_some(array))
        }
    };
    let _ = sender.send(result);
}

const ARRIVED: TableNextDone = arrived;

impl Open {
    fn ask(&self) -> Fallible<oneshot::Receiver<Fallible<Option<FFI_ArrowArray>>>> {
        let (sender, receiver) = oneshot::channel();
        let user = Box::into_raw(Box::new(sender));
        let mut error = ManuallyDrop::new(no_error());
        match unsafe { (self.callee.ops.next)(self.stream, ARRIVED, user.cast(), &mut *error) } {
            crate::abi::status::OK => Ok(receiver),
            _ => {
                drop(unsafe { Box::from_raw(user) }); // refused: never called
                Err(unsafe { from_c(&mut error) })
            }
        }
    }

    async fn next(&self) -> Fallible<Option<RecordBatch>> {
        let arrived = self.ask()?.await.map_err(|_| Failure::cancelled())??;
        let Some(array) = arrived else { return Ok(None) };
        let wanted = DataType::Struct(self.schema.fields().clone());
        // Checked: what arrives is not what the table promised until it was looked at.
        let data = unsafe { from_ffi(array, &FFI_ArrowSchema::try_from(&wanted)?) }?;
        data.validate_full()?;
        let rows = StructArray::from(data);
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.schema), rows.columns().to_vec(), &options)?))
    }
}
