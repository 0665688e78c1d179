//! array_sort_by(list, (left, right) -> int): the list in the order that a comparator gives, which tells by the sign of
//! its result; equal elements keep their order. A merge sort whose comparisons are made for all rows at once: every
//! element of a left run finds its place in the right run by halving, so that a level needs as many evaluations as its
//! width has bits.
use crate::error::{Failure, Fallible};
use crate::features::arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt32Array};
use crate::features::arrow::buffer::OffsetBuffer;
use crate::features::arrow::compute::{take, take_arrays};
use crate::features::arrow::datatypes::{DataType, FieldRef, Int32Type};
use crate::features::datafusion::common::ScalarValue;
use crate::features::datafusion::error::Result;
use crate::features::datafusion::logical_expr::{
    ColumnarValue, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature, HigherOrderUDFImpl,
    LambdaArgument, LambdaParametersProgress, ValueOrLambda, Volatility,
};
use crate::fold::{apply, element, lambda_at, list_of, list_type, parameter, value_at};
use std::sync::Arc;

/// An element of a left run on its way to its place: `low` elements of the right run come before it, not more than `high`.
struct Probe {
    left: u32,
    right: u32,
    row: u32,
    low: u32,
    high: u32,
}

impl Probe {
    fn middle(&self) -> u32 {
        self.low + (self.high - self.low) / 2
    }
}

struct Sorting<'a> {
    values: &'a ArrayRef,
    compare: &'a LambdaArgument,
    /// Where each row's elements begin and end.
    spans: Vec<(u32, u32)>,
    /// The elements, as they stand so far.
    order: Vec<u32>,
}

fn returned_null(value: &ArrayRef, index: usize) -> Fallible<Failure> {
    let text = ScalarValue::try_from_array(value, index)?.to_string();
    let message = format!("the comparator has returned a NULL for a comparison with {text}");
    // Spark names the same value twice.
    Ok(Failure::invalid(message)
        .condition("COMPARATOR_RETURNS_NULL")
        .param("firstValue", text.as_bytes())
        .param("secondValue", text.as_bytes()))
}

/// The pairs of runs of a span: where the left one begins, where the right one does, and where that ends.
fn pairs(span: (u32, u32), width: u32) -> impl Iterator<Item = (u32, u32, u32)> {
    let (begin, end) = span;
    let step = (width as usize).saturating_mul(2);
    (begin..end).step_by(step).map(move |start| {
        let middle = start.saturating_add(width).min(end);
        (start, middle, middle.saturating_add(width).min(end))
    })
}

impl Sorting<'_> {
    fn probes(&self, width: u32) -> Vec<Probe> {
        let mut probes = vec![];
        for (row, span) in self.spans.iter().enumerate() {
            for (start, middle, stop) in pairs(*span, width).filter(|(_, middle, stop)| middle < stop) {
                let probe = |left| Probe { left, right: middle, row: row as u32, low: 0, high: stop - middle };
                probes.extend((start..middle).map(probe));
            }
        }
        probes
    }

    /// Halves what is open of each probe until nothing is.
    fn search(&self, probes: &mut [Probe]) -> Result<()> {
        let mut open: Vec<usize> = (0..probes.len()).collect();
        while !open.is_empty() {
            let column =
                |of: &dyn Fn(&Probe) -> u32| open.iter().map(|at| Some(of(&probes[*at]))).collect::<UInt32Array>();
            let at = |place: u32| self.order[place as usize];
            let right = take(self.values, &column(&|probe| at(probe.right + probe.middle())), None)?;
            let left = take(self.values, &column(&|probe| at(probe.left)), None)?;
            let rows = column(&|probe| probe.row);
            let signs = apply(self.compare, &[&right, &left], |columns| Ok(take_arrays(columns, &rows, None)?))?;
            let signs = signs.as_primitive_opt::<Int32Type>();
            let signs = signs.ok_or_else(|| Failure::invalid("a comparator that gives no 32-bit integer"))?;
            for (index, place) in open.iter().enumerate() {
                if signs.is_null(index) {
                    return Err(returned_null(&right, index)?.into());
                }
                let probe = &mut probes[*place];
                match signs.value(index) < 0 {
                    true => probe.low = probe.middle() + 1,
                    false => probe.high = probe.middle(),
                }
            }
            open.retain(|place| probes[*place].low < probes[*place].high);
        }
        Ok(())
    }

    /// Puts pairs of runs together. Whatever the comparator says, each element gets one place.
    fn merge(&mut self, width: u32, probes: &[Probe]) {
        let mut merged = Vec::with_capacity(self.order.len());
        let mut probes = probes.iter();
        for span in &self.spans {
            for (start, middle, stop) in pairs(*span, width) {
                let (mut right, alone) = (middle, middle == stop);
                for left in start..middle {
                    let before = if alone { 0 } else { probes.next().map_or(0, |probe| probe.low) };
                    while right < middle + before {
                        merged.push(self.order[right as usize]);
                        right += 1;
                    }
                    merged.push(self.order[left as usize]);
                }
                merged.extend_from_slice(&self.order[right as usize..stop as usize]);
            }
        }
        self.order = merged;
    }

    fn run(&mut self) -> Result<()> {
        let longest = self.spans.iter().map(|(begin, end)| end - begin).max().unwrap_or(0);
        let mut width = 1;
        while width < longest {
            let mut probes = self.probes(width);
            self.search(&mut probes)?;
            self.merge(width, &probes);
            width = width.saturating_mul(2);
        }
        Ok(())
    }
}

fn sorted(lists: &ListArray, compare: &LambdaArgument, field: &FieldRef) -> Result<ListArray> {
    let offsets = lists.value_offsets();
    let (first, last) = (offsets[0], offsets[lists.len()]);
    let values = lists.values().slice(first as usize, (last - first) as usize);
    let spans = offsets.windows(2).map(|pair| ((pair[0] - first) as u32, (pair[1] - first) as u32)).collect();
    let order = (0..values.len() as u32).collect();
    let mut sorting = Sorting { values: &values, compare, spans, order };
    sorting.run()?;
    let order = UInt32Array::from(sorting.order);
    let lengths = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
    let offsets = OffsetBuffer::from_lengths(lengths);
    let values = take(&values, &order, None)?;
    Ok(ListArray::try_new(Arc::clone(field), offsets, values, lists.nulls().cloned())?)
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub struct SortBy {
    signature: HigherOrderSignature,
}

impl SortBy {
    pub fn new() -> Self {
        Self { signature: HigherOrderSignature::user_defined(Volatility::Immutable) }
    }
}

impl HigherOrderUDFImpl for SortBy {
    fn name(&self) -> &str {
        "array_sort_by"
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn coerce_value_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [list] => Ok(vec![list_type(list)?]),
            _ => Err(Failure::invalid("array_sort_by takes a list and a lambda").into()),
        }
    }

    fn lambda_parameters(
        &self,
        _: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let item = parameter(element(value_at(fields, 0)?.data_type())?);
        Ok(LambdaParametersProgress::Complete(vec![vec![Arc::clone(&item), item]]))
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs) -> Result<FieldRef> {
        lambda_at(args.arg_fields, 1)?;
        let list = value_at(args.arg_fields, 0)?;
        element(list.data_type())?;
        Ok(parameter(list.data_type()))
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let lists = value_at(&args.args, 0)?.to_array(args.number_rows)?;
        let DataType::List(field) = lists.data_type() else {
            return Err(Failure::internal(format!("a list is needed, not {}", lists.data_type())).into());
        };
        let sorted = sorted(list_of(&lists)?, lambda_at(&args.args, 1)?, field)?;
        Ok(ColumnarValue::Array(Arc::new(sorted)))
    }
}
