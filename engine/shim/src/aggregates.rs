//! Aggregate functions of a C function library as DataFusion aggregates: over groups, over one group, distinct, sliding.
use crate::abi::AggregateFunction;
use crate::error::{Failure, Fallible};
use crate::features::arrow::array::{Array, ArrayRef, BooleanArray, new_empty_array};
use crate::features::arrow::datatypes::{DataType, Field, FieldRef};
use crate::features::arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use crate::features::datafusion::common::ScalarValue;
use crate::features::datafusion::error::{DataFusionError, Result};
use crate::features::datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use crate::features::datafusion::logical_expr::utils::format_state_name;
use crate::features::datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, TypeSignature, Volatility,
};
use crate::features::datafusion::physical_expr::PhysicalExpr;
use crate::features::datafusion::physical_expr::expressions::Literal;
use crate::functions::{Args, call, function_name, import};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// include/trunnion/function.h: state_types gives at most 8.
const STATE_MAX: usize = 8;

/// An aggregate function; per call, with its literal arguments, so that bind and create see them.
#[derive(Clone)]
pub struct LibraryAggregate {
    function: *const AggregateFunction,
    name: String,
    signature: Signature,
    /// One per argument of the call, or empty: nothing known.
    literals: Arc<[Option<ScalarValue>]>,
}

unsafe impl Send for LibraryAggregate {}
unsafe impl Sync for LibraryAggregate {}

impl std::fmt::Debug for LibraryAggregate {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "LibraryAggregate({})", self.name)
    }
}

impl PartialEq for LibraryAggregate {
    fn eq(&self, other: &Self) -> bool {
        self.function == other.function && self.literals == other.literals
    }
}

impl Eq for LibraryAggregate {}

impl Hash for LibraryAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl LibraryAggregate {
    pub unsafe fn new(function: *const AggregateFunction) -> Fallible<Self> {
        let table = unsafe { function.as_ref() }.ok_or_else(|| Failure::invalid("an aggregate function is NULL"))?;
        let complete = table.bind.is_some()
            && table.state_types.is_some()
            && table.create.is_some()
            && table.update.is_some()
            && table.merge.is_some()
            && table.evaluate.is_some()
            && table.emit_state.is_some()
            && table.destroy.is_some();
        if !complete {
            return Err(Failure::invalid("an aggregate function lacks a required slot"));
        }
        let any = TypeSignature::OneOf(vec![TypeSignature::VariadicAny, TypeSignature::Nullary]);
        Ok(Self {
            function,
            name: unsafe { function_name(table.name) }?,
            signature: Signature::new(any, Volatility::Immutable),
            literals: Arc::new([]),
        })
    }

    pub fn function_name(&self) -> &str {
        &self.name
    }

    pub fn with_literals(&self, literals: Vec<Option<ScalarValue>>) -> Self {
        Self { literals: literals.into(), ..self.clone() }
    }

    /// With the literals among the call's arguments, where they are not known yet: a function that came by name.
    fn of_call(&self, args: &AccumulatorArgs) -> Self {
        if !self.literals.is_empty() {
            return self.clone();
        }
        let value = |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Literal>().map(|literal| literal.value().clone());
        self.with_literals(args.exprs.iter().map(value).collect())
    }

    fn literal(&self, index: usize) -> Option<&ScalarValue> {
        self.literals.get(index).and_then(|literal| literal.as_ref())
    }

    fn type_args(&self, fields: &[FieldRef]) -> Fallible<Args> {
        let mut arrays = Vec::with_capacity(fields.len());
        for index in 0..fields.len() {
            arrays.push(match self.literal(index) {
                Some(value) => Some((value.to_array()?, true)),
                None => None,
            });
        }
        Args::new(fields, arrays)
    }

    fn table(&self) -> &AggregateFunction {
        unsafe { &*self.function }
    }

    fn bind(&self, fields: &[FieldRef]) -> Fallible<FieldRef> {
        let args = self.type_args(fields)?;
        let mut out = FFI_ArrowSchema::empty();
        let bind = self.table().bind.ok_or_else(|| Failure::internal("no bind"))?;
        call(&self.name, |error| unsafe { bind(self.function, args.as_ptr(), args.len(), &mut out, error) })?;
        Ok(Arc::new(Field::try_from(&out)?.with_name(&self.name)))
    }

    fn state_types(&self, fields: &[FieldRef]) -> Fallible<Vec<FieldRef>> {
        let args = self.type_args(fields)?;
        let mut out: [FFI_ArrowSchema; STATE_MAX] = std::array::from_fn(|_| FFI_ArrowSchema::empty());
        let mut count = 0usize;
        let state_types = self.table().state_types.ok_or_else(|| Failure::internal("no state_types"))?;
        call(&self.name, |error| unsafe {
            state_types(self.function, args.as_ptr(), args.len(), out.as_mut_ptr(), &mut count, error)
        })?;
        if count == 0 || count > STATE_MAX {
            return Err(Failure::internal(format!("{} has {count} state columns", self.name)));
        }
        let fields: std::result::Result<Vec<_>, _> = out[..count]
            .iter()
            .map(|schema| Field::try_from(schema).map(|field| Arc::new(field.with_nullable(true))))
            .collect();
        Ok(fields?)
    }

    fn create(&self, fields: &[FieldRef], result: &DataType) -> Fallible<State> {
        let args = self.type_args(fields)?;
        let mut state = std::ptr::null_mut();
        let create = self.table().create.ok_or_else(|| Failure::internal("no create"))?;
        call(&self.name, |error| unsafe { create(self.function, args.as_ptr(), args.len(), &mut state, error) })?;
        Ok(State {
            function: self.clone(),
            fields: fields.to_vec(),
            state_types: self.state_types(fields)?.iter().map(|field| field.data_type().clone()).collect(),
            result: result.clone(),
            state,
            groups: 0,
        })
    }
}

/// A C accumulator over groups.
struct State {
    function: LibraryAggregate,
    fields: Vec<FieldRef>,
    state_types: Vec<DataType>,
    result: DataType,
    state: *mut c_void,
    groups: usize,
}

// Used by one thread at a time; through & only its size is asked.
unsafe impl Send for State {}
unsafe impl Sync for State {}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(destroy) = self.function.table().destroy {
            unsafe { destroy(self.state) };
        }
    }
}

impl State {
    fn update(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Fallible<()> {
        let rows = groups.len();
        let mut arrays = Vec::with_capacity(values.len());
        for (index, array) in values.iter().enumerate() {
            arrays.push(Some(match self.function.literal(index) {
                Some(value) => (value.to_array()?, true),
                None => (Arc::clone(array), false),
            }));
        }
        let args = Args::new(&self.fields, arrays)?;
        let mask: Option<Vec<u8>> =
            filter.map(|filter| filter.iter().map(|value| u8::from(value == Some(true))).collect());
        let update = self.function.table().update.ok_or_else(|| Failure::internal("no update"))?;
        call(&self.function.name, |error| unsafe {
            update(
                self.state,
                args.as_ptr(),
                args.len(),
                rows as i64,
                groups.as_ptr(),
                mask.as_ref().map_or(std::ptr::null(), |mask| mask.as_ptr()),
                group_count,
                error,
            )
        })?;
        self.groups = group_count;
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[usize], group_count: usize) -> Fallible<()> {
        let arrays: Vec<FFI_ArrowArray> = states.iter().map(|array| FFI_ArrowArray::new(&array.to_data())).collect();
        let pointers: Vec<*const FFI_ArrowArray> = arrays.iter().map(|array| array as *const _).collect();
        let merge = self.function.table().merge.ok_or_else(|| Failure::internal("no merge"))?;
        call(&self.function.name, |error| unsafe {
            merge(
                self.state,
                pointers.as_ptr(),
                pointers.len(),
                groups.len() as i64,
                groups.as_ptr(),
                group_count,
                error,
            )
        })?;
        self.groups = group_count;
        Ok(())
    }

    /// An ungrouped aggregate without rows still has its one group.
    fn require_group(&mut self) -> Fallible<()> {
        if self.groups > 0 {
            return Ok(());
        }
        let empty: Vec<ArrayRef> = self.fields.iter().map(|field| new_empty_array(field.data_type())).collect();
        self.update(&empty, &[], None, 1)
    }

    fn emit_count(&mut self, emit: EmitTo) -> usize {
        let count = match emit {
            EmitTo::All => self.groups,
            EmitTo::First(count) => count.min(self.groups),
        };
        self.groups -= count;
        count
    }

    fn evaluate(&mut self, emit: EmitTo) -> Fallible<ArrayRef> {
        let count = self.emit_count(emit);
        let mut out = FFI_ArrowArray::empty();
        let evaluate = self.function.table().evaluate.ok_or_else(|| Failure::internal("no evaluate"))?;
        call(&self.function.name, |error| unsafe { evaluate(self.state, count, &mut out, error) })?;
        let array = import(out, &self.result)?;
        self.check(array.len(), count)?;
        Ok(array)
    }

    fn emit_state(&mut self, emit: EmitTo) -> Fallible<Vec<ArrayRef>> {
        let count = self.emit_count(emit);
        let mut out: Vec<FFI_ArrowArray> = self.state_types.iter().map(|_| FFI_ArrowArray::empty()).collect();
        let emit_state = self.function.table().emit_state.ok_or_else(|| Failure::internal("no emit_state"))?;
        call(&self.function.name, |error| unsafe { emit_state(self.state, count, out.as_mut_ptr(), error) })?;
        let mut arrays = Vec::with_capacity(out.len());
        for (array, data_type) in out.into_iter().zip(&self.state_types) {
            let array = import(array, data_type)?;
            self.check(array.len(), count)?;
            arrays.push(array);
        }
        Ok(arrays)
    }

    fn check(&self, given: usize, wanted: usize) -> Fallible<()> {
        match given == wanted {
            true => Ok(()),
            false => Err(Failure::internal(format!("{} gave {given} groups for {wanted}", self.function.name))),
        }
    }

    fn fresh(&self) -> Fallible<State> {
        self.function.create(&self.fields, &self.result)
    }

    fn memory(&self) -> usize {
        let held = self.function.table().memory.map_or(0, |memory| unsafe { memory(self.state) });
        size_of::<Self>().saturating_add(held)
    }
}

struct Groups(State);

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        Ok(self.0.update(values, groups, filter, group_count)?)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        Ok(self.0.evaluate(emit)?)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(self.0.emit_state(emit)?)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], group_count: usize) -> Result<()> {
        Ok(self.0.merge(values, groups, group_count)?)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = match values.first() {
            Some(array) => array.len(),
            None => filter.map_or(0, |filter| filter.len()),
        };
        let groups: Vec<usize> = (0..rows).collect();
        let mut state = self.0.fresh()?;
        state.update(values, &groups, filter, rows)?;
        Ok(state.emit_state(EmitTo::All)?)
    }

    fn size(&self) -> usize {
        self.0.memory()
    }
}

/// One group.
struct Single(State);

impl std::fmt::Debug for Single {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Single({})", self.0.function.name)
    }
}

impl Accumulator for Single {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |array| array.len());
        Ok(self.0.update(values, &vec![0; rows], None, 1)?)
    }

    /// Windows ask again and again, and go on: the group that C forgets is put back from its state.
    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.require_group()?;
        let states = self.0.emit_state(EmitTo::All)?;
        let mut other = self.0.fresh()?;
        other.merge(&states, &[0], 1)?;
        self.0.merge(&states, &[0], 1)?;
        let array = other.evaluate(EmitTo::All)?;
        ScalarValue::try_from_array(&array, 0)
    }

    fn size(&self) -> usize {
        self.0.memory()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.require_group()?;
        self.0.emit_state(EmitTo::All)?.iter().map(|array| ScalarValue::try_from_array(array, 0)).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states.first().map_or(0, |array| array.len());
        Ok(self.0.merge(states, &vec![0; rows], 1)?)
    }
}

/// A frame that moves: the rows in it are kept, and aggregated anew for each row. C accumulators cannot forget rows.
#[derive(Debug)]
struct Sliding {
    start: Single,
    values: VecDeque<Vec<ArrayRef>>,
}

impl Sliding {
    fn run(&self) -> Fallible<Single> {
        let mut single = Single(self.start.0.fresh()?);
        for values in &self.values {
            single.update_batch(values)?;
        }
        Ok(single)
    }
}

impl Accumulator for Sliding {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if values.first().is_some_and(|array| !array.is_empty()) {
            self.values.push_back(values.to_vec());
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut rows = values.first().map_or(0, |array| array.len());
        while rows > 0 {
            let Some(front) = self.values.front_mut() else {
                return Err(DataFusionError::Internal("a frame retracts more than it has".to_string()));
            };
            let have = front.first().map_or(0, |array| array.len());
            if have <= rows {
                rows -= have;
                self.values.pop_front();
            } else {
                for array in front.iter_mut() {
                    *array = array.slice(rows, have - rows);
                }
                rows = 0;
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut single = self.run()?;
        single.0.require_group()?;
        ScalarValue::try_from_array(&single.0.evaluate(EmitTo::All)?, 0)
    }

    fn size(&self) -> usize {
        let values: usize = self.values.iter().flatten().map(|array| array.get_array_memory_size()).sum();
        self.start.size().saturating_add(values)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.run()?.state()
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        Err(DataFusionError::Internal("a sliding frame is not merged".to_string()))
    }
}

impl AggregateUDFImpl for LibraryAggregate {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(DataFusionError::Internal(format!("{}: the type depends on the arguments", self.name)))
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        Ok(self.bind(fields)?)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            let (function, fields) = (self.of_call(&args), args.expr_fields.to_vec());
            let result = args.return_field.data_type().clone();
            let make =
                move || -> Result<Box<dyn Accumulator>> { Ok(Box::new(Single(function.create(&fields, &result)?))) };
            return Ok(Box::new(crate::distinct::Distinct::new(Box::new(make), args.expr_fields)?));
        }
        Ok(Box::new(Single(self.of_call(&args).create(args.expr_fields, args.return_field.data_type())?)))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if args.is_distinct {
            return Ok(crate::distinct::state_fields(args.name, args.input_fields));
        }
        let mut fields = vec![];
        for (index, field) in self.state_types(args.input_fields)?.iter().enumerate() {
            let name = format_state_name(args.name, &format!("state{index}"));
            fields.push(Arc::new(field.as_ref().clone().with_name(name)));
        }
        Ok(fields)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups(self.of_call(&args).create(args.expr_fields, args.return_field.data_type())?)))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return Err(DataFusionError::NotImplemented(format!("{}(DISTINCT) over a moving frame", self.name)));
        }
        let start = Single(self.of_call(&args).create(args.expr_fields, args.return_field.data_type())?);
        Ok(Box::new(Sliding { start, values: VecDeque::new() }))
    }
}
