//! Window functions of a C function library: a value for each row of a whole partition, or for each row's frame.
use crate::abi::{WindowFunction, status};
use crate::error::{Failure, Fallible};
use crate::features::arrow::array::{Array, ArrayRef};
use crate::features::arrow::datatypes::{DataType, Field, FieldRef};
use crate::features::arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use crate::features::datafusion::common::ScalarValue;
use crate::features::datafusion::error::Result;
use crate::features::datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use crate::features::datafusion::logical_expr::{
    PartitionEvaluator, Signature, TypeSignature, Volatility, WindowUDFImpl,
};
use crate::functions::{Args, call, function_name, import};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

/// The C table lives as long as the process.
#[derive(Clone)]
pub struct LibraryWindow {
    function: &'static WindowFunction,
    name: String,
    signature: Signature,
}

impl fmt::Debug for LibraryWindow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "LibraryWindow({})", self.name)
    }
}

impl PartialEq for LibraryWindow {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.function, other.function)
    }
}

impl Eq for LibraryWindow {}

impl Hash for LibraryWindow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl LibraryWindow {
    pub unsafe fn new(function: *const WindowFunction) -> Fallible<Self> {
        let table: &'static WindowFunction =
            unsafe { function.as_ref() }.ok_or_else(|| Failure::invalid("a window function is NULL"))?;
        if table.bind.is_none() || table.evaluate.is_none() {
            return Err(Failure::invalid("a window function lacks bind or evaluate"));
        }
        let any = TypeSignature::OneOf(vec![TypeSignature::VariadicAny, TypeSignature::Nullary]);
        let signature = Signature::new(any, Volatility::Immutable);
        Ok(Self { function: table, name: unsafe { function_name(table.name) }?, signature })
    }

    fn bind(&self, fields: &[FieldRef]) -> Fallible<Field> {
        let args = Args::new(fields, fields.iter().map(|_| None).collect())?;
        let mut out = FFI_ArrowSchema::empty();
        let bind = self.function.bind.ok_or_else(|| Failure::internal("no bind"))?;
        call(&self.name, |error| unsafe { bind(self.function, args.as_ptr(), args.len(), &mut out, error) })?;
        Ok(Field::try_from(&out)?)
    }
}

impl WindowUDFImpl for LibraryWindow {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        let fields = args.input_fields().to_vec();
        let data_type = self.bind(&fields)?.data_type().clone();
        Ok(Box::new(Evaluator { function: self.clone(), fields, data_type }))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(self.bind(args.input_fields())?.with_name(args.name())))
    }
}

#[derive(Debug)]
struct Evaluator {
    function: LibraryWindow,
    fields: Vec<FieldRef>,
    data_type: DataType,
}

impl Evaluator {
    /// `frames`: of the rows that values are wanted for; none: a value for each row, without frames.
    fn values(&self, columns: &[ArrayRef], rows: usize, frames: Option<&Range<usize>>) -> Fallible<ArrayRef> {
        let arrays = columns.iter().map(|column| Some((Arc::clone(column), false))).collect();
        let args = Args::new(&self.fields, arrays)?;
        let table = self.function.function;
        let evaluate = table.evaluate.ok_or_else(|| Failure::internal("no evaluate"))?;
        let (start, end, count) = match frames {
            Some(frame) => (&raw const frame.start, &raw const frame.end, 1),
            None => (std::ptr::null(), std::ptr::null(), rows),
        };
        let mut out = FFI_ArrowArray::empty();
        call(&self.function.name, |error| unsafe {
            evaluate(table, args.as_ptr(), args.len(), rows as i64, count as i64, start, end, &mut out, error)
        })?;
        let array = import(out, &self.data_type)?;
        match array.len() == count {
            true => Ok(array),
            false => Err(Failure::new(
                status::INTERNAL,
                format!("{} gave {} values for {count}", self.function.name, array.len()),
            )),
        }
    }
}

impl PartitionEvaluator for Evaluator {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Ok(self.values(values, rows, None)?)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        let rows = values.first().map_or(range.end, |column| column.len());
        let value = self.values(values, rows, Some(range))?;
        ScalarValue::try_from_array(&value, 0)
    }

    fn uses_window_frame(&self) -> bool {
        self.function.function.uses_frame
    }
}
