//! Relabelling of results: the schema that clients see, put on the engine's buffers. Casts only where layouts differ.
use crate::error::{Failure, Fallible};
use crate::features::arrow::array::{Array, ArrayData, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use crate::features::arrow::compute::{CastOptions, cast_with_options};
use crate::features::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Keep,
    /// Same buffers under another type.
    Label(DataType),
    Cast(DataType),
}

#[derive(Debug)]
pub struct Output {
    pub schema: SchemaRef,
    steps: Vec<Step>,
    is_identity: bool,
}

fn plain_field(field: &FieldRef) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(plain_type(field.data_type())))
}

/// The type without dictionaries: there are no dictionary messages in a result.
fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, value) => plain_type(value),
        DataType::RunEndEncoded(_, values) => plain_type(values.data_type()),
        DataType::List(field) => DataType::List(plain_field(field)),
        DataType::LargeList(field) => DataType::LargeList(plain_field(field)),
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(plain_field(field), *size),
        DataType::Map(field, sorted) => DataType::Map(plain_field(field), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect::<Fields>()),
        other => other.clone(),
    }
}

/// Whether arrays of the two types have the same buffers.
pub fn same_layout(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::Timestamp(unit, _), DataType::Timestamp(other, _)) => unit == other,
        (DataType::List(a), DataType::List(b)) | (DataType::LargeList(a), DataType::LargeList(b)) => {
            same_layout(a.data_type(), b.data_type())
        }
        (DataType::Map(a, _), DataType::Map(b, _)) => same_layout(a.data_type(), b.data_type()),
        (DataType::FixedSizeList(a, size), DataType::FixedSizeList(b, other)) => {
            size == other && same_layout(a.data_type(), b.data_type())
        }
        (DataType::Struct(a), DataType::Struct(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_layout(a.data_type(), b.data_type()))
        }
        (a, b) => a == b && !matches!(a, DataType::Dictionary(_, _) | DataType::RunEndEncoded(_, _)),
    }
}

fn step(from: &DataType, to: &DataType) -> Step {
    if from == to {
        Step::Keep
    } else if same_layout(from, to) {
        Step::Label(to.clone())
    } else {
        Step::Cast(to.clone())
    }
}

fn relabel(data: ArrayData, data_type: &DataType) -> ArrayData {
    let fields: Vec<&FieldRef> = match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => vec![field],
        DataType::Struct(fields) => fields.iter().collect(),
        _ => vec![],
    };
    let children =
        data.child_data().iter().zip(fields).map(|(child, field)| relabel(child.clone(), field.data_type())).collect();
    let builder = data.into_builder().data_type(data_type.clone()).child_data(children);
    // The buffers are those of a valid array of the same layout.
    unsafe { builder.build_unchecked() }
}

fn take_step(array: &ArrayRef, step: Step) -> Fallible<ArrayRef> {
    Ok(match step {
        Step::Keep => Arc::clone(array),
        Step::Label(data_type) => make_array(relabel(array.to_data(), &data_type)),
        Step::Cast(data_type) => {
            let options = CastOptions { safe: false, ..Default::default() };
            cast_with_options(array, &data_type, &options)?
        }
    })
}

/// The array under another type: the same buffers where layouts are the same.
pub fn labelled(array: &ArrayRef, data_type: &DataType) -> Fallible<ArrayRef> {
    take_step(array, step(array.data_type(), data_type))
}

impl Output {
    /// `wanted`: the schema to put on batches of `actual`; none: `actual` without dictionaries.
    pub fn new(actual: &Schema, wanted: Option<Schema>) -> Fallible<Self> {
        let schema = match wanted {
            Some(schema) => schema,
            None => {
                let fields: Vec<Field> =
                    actual.fields().iter().map(|field| plain_field(field).as_ref().clone()).collect();
                Schema::new(fields)
            }
        };
        if schema.fields().len() != actual.fields().len() {
            return Err(Failure::invalid(format!(
                "the output has {} columns, the plan {}",
                schema.fields().len(),
                actual.fields().len()
            )));
        }
        let steps: Vec<Step> = actual
            .fields()
            .iter()
            .zip(schema.fields())
            .map(|(from, to)| step(from.data_type(), to.data_type()))
            .collect();
        let is_identity = steps.iter().all(|step| *step == Step::Keep) && schema == *actual;
        Ok(Self { schema: Arc::new(schema), steps, is_identity })
    }

    pub fn apply(&self, batch: RecordBatch) -> Fallible<RecordBatch> {
        if batch.num_columns() != self.steps.len() {
            return Err(Failure::internal("a batch with the wrong number of columns"));
        }
        if self.is_identity && batch.schema_ref() == &self.schema {
            return Ok(batch);
        }
        let rows = batch.num_rows();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.steps.len());
        for ((array, planned), field) in batch.columns().iter().zip(&self.steps).zip(self.schema.fields()) {
            // What arrives may differ from what was planned in nested names: look again.
            let actual = match planned {
                Step::Keep if array.data_type() != field.data_type() => step(array.data_type(), field.data_type()),
                Step::Label(_) if !same_layout(array.data_type(), field.data_type()) => {
                    Step::Cast(field.data_type().clone())
                }
                planned => planned.clone(),
            };
            columns.push(take_step(array, actual)?);
        }
        let schema = Arc::clone(&self.schema);
        // A column that is declared without nulls may have some: the values stand, whatever the declaration.
        if columns.iter().zip(schema.fields()).any(|(array, field)| !field.is_nullable() && array.null_count() > 0) {
            return Ok(unsafe { RecordBatch::new_unchecked(schema, columns, rows) });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows)).with_match_field_names(false);
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }
}
