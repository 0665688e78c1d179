//! Functions with lambda arguments of a C function library. The C side computes with whole arrays; what a lambda's body is
//! evaluated over, and which row's columns it sees, is all that this file knows.
use crate::abi::{FunctionError, Lambda, LambdaFunction, LambdaParameters, status};
use crate::error::{Failure, Fallible, STACK_NEEDED, STACK_SIZE};
use crate::features::arrow::array::{Array, ArrayRef, UInt32Array};
use crate::features::arrow::compute::take_arrays;
use crate::features::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use crate::features::arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use crate::features::datafusion::error::Result;
use crate::features::datafusion::logical_expr::{
    ColumnarValue, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature, HigherOrderUDFImpl,
    LambdaArgument, LambdaParametersProgress, ValueOrLambda,
};
use crate::fold::apply;
use crate::functions::{Args, call, function_name, import, kernel_field, send_failure, volatility};
use crate::output::labelled;
use std::ffi::c_void;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The C table lives as long as the process.
pub struct LibraryLambda {
    function: &'static LambdaFunction,
    name: String,
    signature: HigherOrderSignature,
}

impl fmt::Debug for LibraryLambda {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "LibraryLambda({})", self.name)
    }
}

impl PartialEq for LibraryLambda {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.function, other.function)
    }
}

impl Eq for LibraryLambda {}

impl Hash for LibraryLambda {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

// ---- types ----

fn variable_field(field: &FieldRef, nullable: bool) -> FieldRef {
    Arc::new(Field::new(field.name(), variable_type(field.data_type()), nullable))
}

/// A lambda's variable as plans have it: the names and types of decode.rs, and what is inside may be null.
fn variable_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
        }
        DataType::List(field) => DataType::new_list(variable_type(field.data_type()), true),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| variable_field(field, true)).collect()),
        DataType::Map(entries, sorted) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                let key = Field::new("key", variable_type(fields[0].data_type()), false);
                let value = Field::new("value", variable_type(fields[1].data_type()), true);
                let entries = DataType::Struct(vec![key, value].into());
                DataType::Map(Arc::new(Field::new("entries", entries, false)), *sorted)
            }
            _ => data_type.clone(),
        },
        other => other.clone(),
    }
}

/// The field of an argument; of a lambda that of its body, if it is known.
fn known<L>(field: &ValueOrLambda<FieldRef, L>, body: impl Fn(&L) -> Option<FieldRef>) -> Option<FieldRef> {
    match field {
        ValueOrLambda::Value(field) => Some(Arc::clone(field)),
        ValueOrLambda::Lambda(lambda) => body(lambda),
    }
}

impl LibraryLambda {
    pub unsafe fn new(function: *const LambdaFunction) -> Fallible<Self> {
        let table: &'static LambdaFunction =
            unsafe { function.as_ref() }.ok_or_else(|| Failure::invalid("a function with lambdas is NULL"))?;
        if table.parameters.is_none() || table.bind.is_none() || table.evaluate.is_none() {
            return Err(Failure::invalid("a function with lambdas lacks parameters, bind or evaluate"));
        }
        let signature = HigherOrderSignature::variadic_any(volatility(table.volatility)?);
        Ok(Self { function: table, name: unsafe { function_name(table.name) }?, signature })
    }

    /// What the lambda at `index` is given.
    fn parameters(&self, args: &Args, index: usize) -> Fallible<Vec<FieldRef>> {
        let mut out = LambdaParameters::default();
        let parameters = self.function.parameters.ok_or_else(|| Failure::internal("no parameters"))?;
        call(&self.name, |error| unsafe {
            parameters(self.function, args.as_ptr(), args.len(), index, &mut out, error)
        })?;
        let types = out.types.get(..out.count).filter(|types| !types.is_empty());
        let types = types.ok_or_else(|| Failure::internal(format!("{}: no parameters or too many", self.name)))?;
        let field = |schema: &FFI_ArrowSchema| -> Fallible<FieldRef> {
            Ok(Arc::new(Field::new("", variable_type(&DataType::try_from(schema)?), true)))
        };
        types.iter().map(field).collect()
    }

    fn evaluate(&self, call_args: HigherOrderFunctionArgs) -> Fallible<ColumnarValue> {
        let rows = call_args.number_rows;
        let fields: Vec<_> =
            call_args.arg_fields.iter().map(|field| known(field, |body| Some(Arc::clone(body)))).collect();
        let mut arrays = vec![];
        for arg in &call_args.args {
            arrays.push(match arg {
                ValueOrLambda::Value(value) => Some((value.to_array(rows)?, false)),
                ValueOrLambda::Lambda(_) => None,
            });
        }
        let args = Arc::new(Args::with_unknown(&fields, arrays)?);
        let mut bound = vec![];
        for (index, (arg, field)) in call_args.args.iter().zip(&fields).enumerate() {
            bound.push(match (arg, field) {
                (ValueOrLambda::Lambda(lambda), Some(body)) => Some(Bound {
                    lambda,
                    params: self.parameters(&args, index)?,
                    result: kernel_field(body).data_type().clone(),
                    rows,
                    args: &args,
                }),
                _ => None,
            });
        }
        let lambdas: Vec<Option<Lambda>> = bound.iter().map(|lambda| lambda.as_ref().map(Bound::table)).collect();
        let pointers: Vec<*const Lambda> = lambdas
            .iter()
            .map(|lambda| lambda.as_ref().map_or(std::ptr::null(), |lambda| lambda as *const _))
            .collect();
        let mut out = FFI_ArrowArray::empty();
        let evaluate = self.function.evaluate.ok_or_else(|| Failure::internal("no evaluate"))?;
        call(&self.name, |error| unsafe {
            evaluate(self.function, args.as_ptr(), pointers.as_ptr(), args.len(), rows as i64, &mut out, error)
        })?;
        let array = import(out, call_args.return_type())?;
        match array.len() == rows {
            true => Ok(ColumnarValue::Array(array)),
            false => Err(Failure::internal(format!("{} gave {} rows for {rows}", self.name, array.len()))),
        }
    }
}

impl HigherOrderUDFImpl for LibraryLambda {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    /// Lambdas are asked about from left to right, as soon as the types of those before are known.
    fn lambda_parameters(
        &self,
        _: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let types: Vec<_> = fields.iter().map(|field| known(field, Option::clone)).collect();
        let args = Args::with_unknown(&types, types.iter().map(|_| None).collect())?;
        let mut out = vec![];
        let mut are_known = true;
        for (index, field) in fields.iter().enumerate() {
            if let ValueOrLambda::Lambda(body) = field {
                out.push(if are_known { Some(self.parameters(&args, index)?) } else { None });
                are_known = are_known && body.is_some();
            }
        }
        Ok(match out.iter().cloned().collect::<Option<Vec<_>>>() {
            Some(all) => LambdaParametersProgress::Complete(all),
            None => LambdaParametersProgress::Partial(out),
        })
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs) -> Result<FieldRef> {
        let fields: Vec<_> = args.arg_fields.iter().map(|field| known(field, |body| Some(Arc::clone(body)))).collect();
        let mut literals = vec![];
        for value in args.scalar_arguments {
            literals.push(value.map(|value| value.to_array()).transpose()?.map(|array| (array, true)));
        }
        let c_args = Args::with_unknown(&fields, literals)?;
        let mut out = FFI_ArrowSchema::empty();
        let bind = self.function.bind.ok_or_else(|| Failure::internal("no bind"))?;
        call(&self.name, |error| unsafe { bind(self.function, c_args.as_ptr(), c_args.len(), &mut out, error) })?;
        Ok(Arc::new(Field::try_from(&out)?.with_name(&self.name)))
    }

    /// Elements below a null list are nobody's: a lambda is not to be computed for them.
    fn clear_null_values(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        crate::cancel::check()?;
        Ok(self.evaluate(args)?)
    }
}

// ---- lambdas for C ----

/// A lambda in a call.
struct Bound<'a> {
    lambda: &'a LambdaArgument,
    params: Vec<FieldRef>,
    /// What the body gives, as kernels know it.
    result: DataType,
    /// Of the call.
    rows: usize,
    args: &'a Arc<Args>,
}

impl Bound<'_> {
    fn table(&self) -> Lambda {
        Lambda {
            struct_size: size_of::<Lambda>(),
            owner: self as *const Bound<'_> as *mut c_void,
            invoke: lambda_invoke,
            share: lambda_share,
        }
    }

    /// The columns that the body sees, for the rows of its parameters.
    fn captured(&self, columns: &[ArrayRef], rows: usize, origins: Option<&[u32]>) -> Fallible<Vec<ArrayRef>> {
        let Some(origins) = origins else {
            return match rows == self.rows {
                true => Ok(columns.to_vec()),
                false => Err(Failure::internal(format!("a lambda over {rows} rows of {} without origins", self.rows))),
            };
        };
        if let Some(origin) = origins.iter().find(|origin| **origin as usize >= self.rows) {
            return Err(Failure::internal(format!("a lambda over row {origin} of {}", self.rows)));
        }
        Ok(take_arrays(columns, &UInt32Array::from(origins.to_vec()), None)?)
    }

    fn invoke(&self, params: Vec<FFI_ArrowArray>, rows: usize, origins: Option<&[u32]>) -> Fallible<FFI_ArrowArray> {
        crate::cancel::check()?;
        if params.len() != self.params.len() {
            let message = format!("a lambda gets {} arrays, not {}", self.params.len(), params.len());
            return Err(Failure::internal(message));
        }
        let mut arrays = vec![];
        for (array, field) in params.into_iter().zip(&self.params) {
            let array = import(array, field.data_type())?;
            if array.len() != rows {
                return Err(Failure::internal(format!("a lambda over {rows} rows gets {} values", array.len())));
            }
            arrays.push(array);
        }
        let arrays: Vec<&ArrayRef> = arrays.iter().collect();
        let result = apply(self.lambda, &arrays, |columns| Ok(self.captured(columns, rows, origins)?))?;
        if result.len() != rows {
            return Err(Failure::internal(format!("a lambda gave {} values for {rows} rows", result.len())));
        }
        Ok(FFI_ArrowArray::new(&labelled(&result, &self.result)?.to_data()))
    }
}

/// Runs what C called: a failure is told in `error`, nothing unwinds.
unsafe fn answer(
    out: *mut FFI_ArrowArray,
    error: *mut FunctionError,
    body: impl FnOnce() -> Fallible<FFI_ArrowArray>,
) -> i32 {
    let body = AssertUnwindSafe(|| stacker::maybe_grow(STACK_NEEDED, STACK_SIZE, body));
    match catch_unwind(body).unwrap_or_else(|payload| Err(Failure::from_panic(payload))) {
        Ok(array) => {
            unsafe { out.write(array) };
            status::OK
        }
        Err(failure) => {
            unsafe { send_failure(&failure, error) };
            failure.status
        }
    }
}

unsafe extern "C" fn lambda_invoke(
    lambda: *const Lambda,
    params: *mut FFI_ArrowArray,
    count: usize,
    rows: i64,
    origins: *const u32,
    out: *mut FFI_ArrowArray,
    error: *mut FunctionError,
) -> i32 {
    let bound = unsafe { &*((*lambda).owner as *const Bound<'_>) };
    let given: Vec<_> = (0..count).map(|place| unsafe { FFI_ArrowArray::from_raw(params.add(place)) }).collect();
    let body = || {
        let rows = usize::try_from(rows).map_err(|_| Failure::internal("a lambda over less than no rows"))?;
        let origins = (!origins.is_null()).then(|| unsafe { std::slice::from_raw_parts(origins, rows) });
        bound.invoke(given, rows, origins)
    };
    unsafe { answer(out, error, body) }
}

/// struct ArrowArray: what FFI_ArrowArray keeps to itself.
#[repr(C)]
struct RawArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut FFI_ArrowArray,
    dictionary: *mut FFI_ArrowArray,
    release: Option<unsafe extern "C" fn(*mut RawArray)>,
    owner: *const Args,
}
const _: () = assert!(size_of::<RawArray>() == size_of::<FFI_ArrowArray>());

unsafe extern "C" fn release_shared(array: *mut RawArray) {
    let array = unsafe { &mut *array };
    array.release = None;
    drop(unsafe { Arc::from_raw(array.owner) });
}

unsafe extern "C" fn lambda_share(
    lambda: *const Lambda,
    array: *const FFI_ArrowArray,
    out: *mut FFI_ArrowArray,
    _: *mut FunctionError,
) -> i32 {
    let bound = unsafe { &*((*lambda).owner as *const Bound<'_>) };
    let mut shared: RawArray = unsafe { std::ptr::read(array as *const RawArray) };
    shared.release = Some(release_shared);
    shared.owner = Arc::into_raw(Arc::clone(bound.args));
    unsafe { (out as *mut RawArray).write(shared) };
    status::OK
}
