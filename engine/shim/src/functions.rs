//! Scalar functions of a C function library as DataFusion functions.
use crate::abi::{FunctionArg, FunctionError, ScalarFunction, status};
use crate::error::{Failure, Fallible, c_string};
use crate::features::arrow::array::{Array, ArrayRef, make_array};
use crate::features::arrow::compute::cast;
use crate::features::arrow::datatypes::{DataType, Field, FieldRef};
use crate::features::arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use crate::features::datafusion::common::ScalarValue;
use crate::features::datafusion::error::{DataFusionError, Result};
use crate::features::datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use std::ffi::{CStr, c_char, c_void};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Where a kernel's report is collected; handed to it as `trn_function_error`.
pub struct Report(Option<Failure>);

unsafe extern "C" fn report_fail(owner: *mut c_void, status: i32, condition: *const c_char, message: *const c_char) {
    let text = |pointer: *const c_char| {
        (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
    };
    let report = unsafe { &mut *(owner as *mut Report) };
    let mut failure = Failure::new(status, text(message).unwrap_or_default());
    failure.condition = text(condition);
    if let Some(previous) = report.0.take() {
        failure.params = previous.params;
        failure.position = previous.position;
    }
    report.0 = Some(failure);
}

unsafe extern "C" fn report_param(owner: *mut c_void, key: *const c_char, value: *const c_void, size: usize) {
    let report = unsafe { &mut *(owner as *mut Report) };
    if key.is_null() {
        return;
    }
    let key = unsafe { CStr::from_ptr(key) }.to_string_lossy().into_owned();
    let value = match value.is_null() {
        true => vec![],
        false => unsafe { std::slice::from_raw_parts(value as *const u8, size) }.to_vec(),
    };
    report.0.get_or_insert_with(|| Failure::internal("")).params.push((key, value));
}

unsafe extern "C" fn report_position(owner: *mut c_void, position: i64) {
    let report = unsafe { &mut *(owner as *mut Report) };
    report.0.get_or_insert_with(|| Failure::internal("")).position = position;
}

/// Runs a C callback that reports through `trn_function_error`.
pub fn call(name: &str, body: impl FnOnce(*mut FunctionError) -> i32) -> Fallible<()> {
    let mut report = Report(None);
    let mut error = FunctionError {
        struct_size: size_of::<FunctionError>(),
        owner: &mut report as *mut Report as *mut c_void,
        fail: report_fail,
        add_param: report_param,
        set_position: report_position,
    };
    match body(&mut error) {
        status::OK => Ok(()),
        code => {
            let mut failure = report.0.unwrap_or_else(|| Failure::new(code, format!("{name} failed")));
            failure.status = code;
            Err(failure)
        }
    }
}

/// Tells C of a failure, all that is known of it.
pub unsafe fn send_failure(failure: &Failure, error: *mut FunctionError) {
    let Some(error) = (unsafe { error.as_ref() }) else { return };
    let condition = failure.condition.as_ref().map(|text| c_string(text.as_bytes()));
    let message = c_string(failure.message.as_bytes());
    let condition = condition.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
    unsafe { (error.fail)(error.owner, failure.status, condition, message.as_ptr()) };
    for (key, value) in &failure.params {
        let key = c_string(key.as_bytes());
        unsafe { (error.add_param)(error.owner, key.as_ptr(), value.as_ptr() as *const c_void, value.len()) };
    }
    if failure.position != -1 {
        unsafe { (error.set_position)(error.owner, failure.position) };
    }
}

/// Arguments in C form. Owns what the C structs point to.
pub struct Args {
    types: Vec<Option<FFI_ArrowSchema>>,
    arrays: Vec<Option<(FFI_ArrowArray, bool)>>,
    args: Vec<FunctionArg>,
}

/// The types that kernels know: view layouts are the engine's own.
pub fn kernel_field(field: &FieldRef) -> FieldRef {
    let same = |child: &FieldRef, make: &dyn Fn(FieldRef) -> DataType| make(kernel_field(child));
    let data_type = match field.data_type() {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(child) => same(child, &DataType::List),
        DataType::Map(entries, sorted) => same(entries, &|entries| DataType::Map(entries, *sorted)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(kernel_field).collect()),
        _ => return Arc::clone(field),
    };
    match data_type == *field.data_type() {
        true => Arc::clone(field),
        false => Arc::new(field.as_ref().clone().with_data_type(data_type)),
    }
}

/// Whether an array of `have` may be handed over as `want`: nested nullability may differ, layouts may not.
fn view_free(have: &DataType, want: &DataType) -> bool {
    have == want || !matches!(have, DataType::Utf8View | DataType::BinaryView) && have.equals_datatype(want)
}

impl Args {
    /// `arrays[i]`: None (bind, not a literal), or the array and whether it stands for all rows. Views are laid out as the
    /// kernels know them.
    pub fn new(fields: &[FieldRef], arrays: Vec<Option<(ArrayRef, bool)>>) -> Fallible<Self> {
        Self::with_unknown(&fields.iter().cloned().map(Some).collect::<Vec<_>>(), arrays)
    }

    /// The same, of which some types are not known yet.
    pub fn with_unknown(fields: &[Option<FieldRef>], arrays: Vec<Option<(ArrayRef, bool)>>) -> Fallible<Self> {
        let fields: Vec<Option<FieldRef>> = fields.iter().map(|field| field.as_ref().map(kernel_field)).collect();
        let types = fields.iter().map(|field| field.as_deref().map(FFI_ArrowSchema::try_from).transpose());
        let types = types.collect::<std::result::Result<Vec<_>, _>>()?;
        let mut exported = Vec::with_capacity(arrays.len());
        for (array, field) in arrays.into_iter().zip(&fields) {
            exported.push(match (array, field) {
                (Some((array, is_scalar)), Some(field)) if !view_free(array.data_type(), field.data_type()) => {
                    Some((FFI_ArrowArray::new(&cast(&array, field.data_type())?.to_data()), is_scalar))
                }
                (array, _) => array.map(|(array, is_scalar)| (FFI_ArrowArray::new(&array.to_data()), is_scalar)),
            });
        }
        let mut out = Self { types, arrays: exported, args: vec![] };
        out.args = out
            .types
            .iter()
            .zip(&out.arrays)
            .map(|(data_type, array)| FunctionArg {
                data_type: data_type.as_ref().map_or(std::ptr::null(), |data_type| data_type as *const _),
                array: array.as_ref().map_or(std::ptr::null(), |(array, _)| array as *const _),
                is_scalar: array.as_ref().is_some_and(|(_, is_scalar)| *is_scalar),
            })
            .collect();
        Ok(out)
    }

    pub fn as_ptr(&self) -> *const FunctionArg {
        self.args.as_ptr()
    }

    pub fn len(&self) -> usize {
        self.args.len()
    }
}

/// Takes an array that C gave. C allocators align less than some Arrow types want: those buffers are copied.
pub fn import(array: FFI_ArrowArray, data_type: &DataType) -> Fallible<ArrayRef> {
    if array.is_released() {
        return Err(Failure::internal("a kernel gave no array"));
    }
    let mut data = unsafe { from_ffi_and_data_type(array, data_type.clone()) }?;
    data.align_buffers();
    Ok(make_array(data))
}

pub unsafe fn function_name(pointer: *const c_char) -> Fallible<String> {
    unsafe { crate::runtime::text(pointer, "a function's name") }.map(str::to_string)
}

pub fn volatility(value: i32) -> Fallible<Volatility> {
    match value {
        0 => Ok(Volatility::Immutable),
        1 => Ok(Volatility::Stable),
        2 => Ok(Volatility::Volatile),
        other => Err(Failure::invalid(format!("volatility {other}"))),
    }
}

/// A scalar function. The C table lives as long as the process (libraries are never unloaded).
pub struct LibraryScalar {
    function: *const ScalarFunction,
    name: String,
    signature: Signature,
}

unsafe impl Send for LibraryScalar {}
unsafe impl Sync for LibraryScalar {}

impl std::fmt::Debug for LibraryScalar {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "LibraryScalar({})", self.name)
    }
}

impl PartialEq for LibraryScalar {
    fn eq(&self, other: &Self) -> bool {
        self.function == other.function
    }
}

impl Eq for LibraryScalar {}

impl Hash for LibraryScalar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl LibraryScalar {
    pub unsafe fn new(function: *const ScalarFunction) -> Fallible<Self> {
        let table = unsafe { function.as_ref() }.ok_or_else(|| Failure::invalid("a scalar function is NULL"))?;
        if table.bind.is_none() || table.evaluate.is_none() {
            return Err(Failure::invalid("a scalar function lacks bind or evaluate"));
        }
        let volatility = volatility(table.volatility)?;
        let any = TypeSignature::OneOf(vec![TypeSignature::VariadicAny, TypeSignature::Nullary]);
        Ok(Self { function, name: unsafe { function_name(table.name) }?, signature: Signature::new(any, volatility) })
    }

    fn bind(&self, fields: &[FieldRef], literals: Vec<Option<ArrayRef>>) -> Fallible<FieldRef> {
        let literals = literals.into_iter().map(|literal| literal.map(|array| (array, true))).collect();
        let args = Args::new(fields, literals)?;
        let mut out = FFI_ArrowSchema::empty();
        let bind = unsafe { &*self.function }.bind.ok_or_else(|| Failure::internal("no bind"))?;
        call(&self.name, |error| unsafe { bind(self.function, args.as_ptr(), args.len(), &mut out, error) })?;
        let field = Field::try_from(&out)?;
        Ok(Arc::new(field.with_name(&self.name)))
    }

    fn evaluate(&self, args: ScalarFunctionArgs) -> Fallible<ColumnarValue> {
        let rows = args.number_rows;
        let mut all_scalar = true;
        let mut arrays = Vec::with_capacity(args.args.len());
        for value in args.args {
            arrays.push(Some(match value {
                ColumnarValue::Array(array) => {
                    all_scalar = false;
                    (array, false)
                }
                ColumnarValue::Scalar(scalar) => (scalar.to_array()?, true),
            }));
        }
        let c_args = Args::new(&args.arg_fields, arrays)?;
        let mut out = FFI_ArrowArray::empty();
        let evaluate = unsafe { &*self.function }.evaluate.ok_or_else(|| Failure::internal("no evaluate"))?;
        call(&self.name, |error| unsafe {
            evaluate(self.function, c_args.as_ptr(), c_args.len(), rows as i64, &mut out, error)
        })?;
        let array = import(out, args.return_field.data_type())?;
        let volatile = self.signature.volatility == Volatility::Volatile;
        if all_scalar && !volatile && array.len() == 1 {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
        }
        if array.len() != rows {
            return Err(Failure::internal(format!("{} gave {} rows for {rows}", self.name, array.len())));
        }
        Ok(ColumnarValue::Array(array))
    }
}

impl ScalarUDFImpl for LibraryScalar {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(DataFusionError::Internal(format!("{}: the type depends on the arguments", self.name)))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let mut literals = Vec::with_capacity(args.scalar_arguments.len());
        for value in args.scalar_arguments {
            literals.push(value.map(|value| value.to_array()).transpose()?);
        }
        Ok(self.bind(args.arg_fields, literals)?)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        crate::cancel::check()?;
        Ok(self.evaluate(args)?)
    }
}
