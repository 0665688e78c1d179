//! array_fold(list, zero, (state, element) -> state[, state -> result]): one value made of a list's elements, in order.
//! Step i takes the i-th elements of all rows that have one at once: there are as many steps as the longest list has
//! elements, whatever the number of rows.
use crate::error::{Failure, Fallible};
use crate::features::arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt32Array, new_null_array};
use crate::features::arrow::compute::{concat, take, take_arrays};
use crate::features::arrow::datatypes::{DataType, Field, FieldRef};
use crate::features::datafusion::error::Result;
use crate::features::datafusion::logical_expr::{
    ColumnarValue, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature, HigherOrderUDFImpl,
    LambdaArgument, LambdaParametersProgress, ValueOrLambda, Volatility,
};
use crate::output::labelled;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::sync::Arc;

// ---- what functions of lists and lambdas share ----

pub fn value_at<'a, V, L>(args: &'a [ValueOrLambda<V, L>], index: usize) -> Fallible<&'a V> {
    match args.get(index) {
        Some(ValueOrLambda::Value(value)) => Ok(value),
        _ => Err(Failure::invalid(format!("argument {index} is no value"))),
    }
}

pub fn lambda_at<'a, V, L>(args: &'a [ValueOrLambda<V, L>], index: usize) -> Fallible<&'a L> {
    match args.get(index) {
        Some(ValueOrLambda::Lambda(lambda)) => Ok(lambda),
        _ => Err(Failure::invalid(format!("argument {index} is no lambda"))),
    }
}

/// A parameter of a lambda: it may be null, whatever the value that it stands for.
pub fn parameter(data_type: &DataType) -> FieldRef {
    Arc::new(Field::new("", data_type.clone(), true))
}

pub fn element(list: &DataType) -> Fallible<&DataType> {
    match list {
        DataType::List(field) => Ok(field.data_type()),
        other => Err(Failure::invalid(format!("a list is needed, not {other}"))),
    }
}

/// The type that an argument is cast to: one kind of list.
pub fn list_type(data_type: &DataType) -> Fallible<DataType> {
    match data_type {
        DataType::List(_) => Ok(data_type.clone()),
        DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _) => Ok(DataType::List(Arc::clone(field))),
        DataType::Null => Ok(DataType::new_list(DataType::Null, true)),
        other => Err(Failure::invalid(format!("a list is needed, not {other}"))),
    }
}

pub fn list_of(array: &ArrayRef) -> Fallible<&ListArray> {
    array.as_list_opt::<i32>().ok_or_else(|| Failure::internal(format!("a list is needed, not {}", array.data_type())))
}

/// The lambda's value for every row of `params`; `captures` gives the outer columns for these rows.
pub fn apply(
    lambda: &LambdaArgument,
    params: &[&ArrayRef],
    captures: impl FnOnce(&[ArrayRef]) -> Result<Vec<ArrayRef>>,
) -> Result<ArrayRef> {
    let rows = params.first().map_or(0, |param| param.len());
    let given: Vec<_> = params.iter().map(|param| move || -> Result<ArrayRef> { Ok(Arc::clone(param)) }).collect();
    let given: Vec<&dyn Fn() -> Result<ArrayRef>> =
        given.iter().map(|param| param as &dyn Fn() -> Result<ArrayRef>).collect();
    lambda.evaluate(&given, captures)?.into_array(rows)
}

// ---- the fold ----

/// Outer columns in the order of the rows, put in that order once.
struct Captures<'a> {
    order: &'a UInt32Array,
    ordered: RefCell<Option<Vec<ArrayRef>>>,
}

impl<'a> Captures<'a> {
    fn new(order: &'a UInt32Array) -> Self {
        Self { order, ordered: RefCell::new(None) }
    }

    fn first(&self, columns: &[ArrayRef], count: usize) -> Result<Vec<ArrayRef>> {
        let mut ordered = self.ordered.borrow_mut();
        let all = match ordered.take() {
            Some(all) => all,
            None => take_arrays(columns, self.order, None)?,
        };
        let part = all.iter().map(|column| column.slice(0, count)).collect();
        *ordered = Some(all);
        Ok(part)
    }
}

/// The states of the rows of `order`, whose lists get shorter.
fn fold(lists: &ListArray, zero: &ArrayRef, merge: &LambdaArgument, order: &UInt32Array) -> Result<ArrayRef> {
    let state_type = zero.data_type();
    let captures = Captures::new(order);
    let offsets = lists.value_offsets();
    let start = |row: u32| offsets[row as usize] as u32;
    let length = |row: u32| offsets[row as usize + 1] as u32 - start(row);
    let rows = order.values();
    let mut states = take(zero, order, None)?;
    // States of the rows whose lists have ended, the shortest lists first.
    let mut ended: Vec<ArrayRef> = vec![];
    let mut live = rows.len();
    let mut step = 0;
    loop {
        crate::cancel::check()?;
        let longer = rows[..live].partition_point(|row| length(*row) > step);
        if longer < live {
            ended.push(states.slice(longer, live - longer));
            states = states.slice(0, longer);
            live = longer;
        }
        if live == 0 {
            break;
        }
        let places: UInt32Array = rows[..live].iter().map(|row| Some(start(*row) + step)).collect();
        let elements = take(lists.values(), &places, None)?;
        let next = apply(merge, &[&states, &elements], |columns| captures.first(columns, live))?;
        states = labelled(&next, state_type)?;
        step += 1;
    }
    ended.reverse();
    let parts: Vec<&dyn Array> = ended.iter().map(|part| part.as_ref()).collect();
    Ok(concat(&parts)?)
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Fold {
    signature: HigherOrderSignature,
}

impl Fold {
    pub fn new() -> Self {
        Self { signature: HigherOrderSignature::user_defined(Volatility::Immutable) }
    }
}

impl HigherOrderUDFImpl for Fold {
    fn name(&self) -> &str {
        "array_fold"
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn coerce_value_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [list, zero] => Ok(vec![list_type(list)?, zero.clone()]),
            _ => Err(Failure::invalid("array_fold takes a list, a value and one or two lambdas").into()),
        }
    }

    fn lambda_parameters(
        &self,
        _: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let (list, zero) = (value_at(fields, 0)?, value_at(fields, 1)?);
        let state = || parameter(zero.data_type());
        let mut params = vec![vec![state(), parameter(element(list.data_type())?)]];
        if fields.len() > 3 {
            params.push(vec![state()]);
        }
        Ok(LambdaParametersProgress::Complete(params))
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs) -> Result<FieldRef> {
        lambda_at(args.arg_fields, 2)?;
        match args.arg_fields.len() {
            3 => Ok(parameter(value_at(args.arg_fields, 1)?.data_type())),
            4 => Ok(parameter(lambda_at(args.arg_fields, 3)?.data_type())),
            _ => Err(Failure::invalid("array_fold takes a list, a value and one or two lambdas").into()),
        }
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let lists = value_at(&args.args, 0)?.to_array(rows)?;
        let lists = list_of(&lists)?;
        let zero = value_at(&args.args, 1)?.to_array(rows)?;
        let zero = labelled(&zero, value_at(&args.arg_fields, 1)?.data_type())?;

        let offsets = lists.value_offsets();
        let mut order: Vec<u32> = (0..rows).filter(|row| lists.is_valid(*row)).map(|row| row as u32).collect();
        if order.is_empty() {
            return Ok(ColumnarValue::Array(new_null_array(args.return_type(), rows)));
        }
        order.sort_by_key(|row| Reverse(offsets[*row as usize + 1] - offsets[*row as usize]));
        let order = UInt32Array::from(order);
        let mut folded = fold(lists, &zero, lambda_at(&args.args, 2)?, &order)?;
        if args.args.len() > 3 {
            let captures = Captures::new(&order);
            folded = apply(lambda_at(&args.args, 3)?, &[&folded], |columns| captures.first(columns, order.len()))?;
        }
        // Back to the rows' own order; a null list has no result.
        let mut places: Vec<Option<u32>> = vec![None; rows];
        for (place, row) in order.values().iter().enumerate() {
            places[*row as usize] = Some(place as u32);
        }
        let folded = take(&folded, &UInt32Array::from(places), None)?;
        Ok(ColumnarValue::Array(labelled(&folded, args.return_type())?))
    }
}
