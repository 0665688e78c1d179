//! DISTINCT for any aggregate: the set of argument rows seen, as the state between stages.
use crate::features::arrow::array::{Array, ArrayRef, AsArray, ListArray};
use crate::features::arrow::buffer::OffsetBuffer;
use crate::features::arrow::datatypes::{DataType, Field, FieldRef};
use crate::features::arrow::row::{OwnedRow, RowConverter, SortField};
use crate::features::datafusion::common::ScalarValue;
use crate::features::datafusion::error::Result;
use crate::features::datafusion::logical_expr::Accumulator;
use crate::features::datafusion::logical_expr::utils::format_state_name;
use std::collections::HashSet;
use std::sync::Arc;

type Make = Box<dyn Fn() -> Result<Box<dyn Accumulator>> + Send + Sync>;

pub struct Distinct {
    make: Make, // the aggregate, empty: windows evaluate again and again
    types: Vec<DataType>,
    converter: RowConverter,
    rows: HashSet<OwnedRow>,
    bytes: usize,
}

fn item(data_type: &DataType) -> FieldRef {
    Arc::new(Field::new_list_field(data_type.clone(), true))
}

/// One list per argument, all of one length: the distinct rows of a group.
pub fn state_fields(name: &str, inputs: &[FieldRef]) -> Vec<FieldRef> {
    let list = |index: usize, field: &FieldRef| {
        let name = format_state_name(name, &format!("distinct{index}"));
        Arc::new(Field::new(name, DataType::List(item(field.data_type())), true))
    };
    inputs.iter().enumerate().map(|(index, field)| list(index, field)).collect()
}

impl std::fmt::Debug for Distinct {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Distinct({} rows)", self.rows.len())
    }
}

impl Distinct {
    pub fn new(make: Make, fields: &[FieldRef]) -> Result<Self> {
        let types: Vec<DataType> = fields.iter().map(|field| field.data_type().clone()).collect();
        let converter = RowConverter::new(types.iter().map(|one| SortField::new(one.clone())).collect())?;
        Ok(Self { make, types, converter, rows: HashSet::new(), bytes: 0 })
    }

    fn add(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = self.converter.convert_columns(values)?;
        for row in rows.iter() {
            let size = row.as_ref().len() + size_of::<OwnedRow>();
            if self.rows.insert(row.owned()) {
                self.bytes += size;
            }
        }
        Ok(())
    }

    fn columns(&self) -> Result<Vec<ArrayRef>> {
        Ok(self.converter.convert_rows(self.rows.iter().map(|row| row.row()))?)
    }
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let columns = self.columns()?;
        let mut aggregate = (self.make)()?;
        aggregate.update_batch(&columns)?;
        aggregate.evaluate()
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.bytes
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let columns = self.columns()?;
        let list = |(array, data_type): (ArrayRef, &DataType)| {
            let offsets = OffsetBuffer::from_lengths([array.len()]);
            Ok(ScalarValue::List(Arc::new(ListArray::try_new(item(data_type), offsets, array, None)?)))
        };
        columns.into_iter().zip(&self.types).map(list).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let count = states.first().map_or(0, |array| array.len());
        for index in 0..count {
            let values: Vec<ArrayRef> = states.iter().map(|array| array.as_list::<i32>().value(index)).collect();
            self.add(&values)?;
        }
        Ok(())
    }
}
