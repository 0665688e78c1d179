//! The C structs of src/engine/engine_abi.h and include/trunnion/function.h, by hand. The assertions at the end fix
//! sizes and offsets; tests/engine/test_engine_seam.c asserts the same numbers from the C side.
use crate::features::arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use crate::features::arrow::ffi_stream::FFI_ArrowArrayStream;
use std::ffi::{c_char, c_void};
use std::mem::{offset_of, size_of};

pub const ENGINE_ABI: u32 = 1;
pub const FUNCTION_ABI: u32 = 1;

pub mod status {
    pub const OK: i32 = 0;
    pub const CANCELLED: i32 = 1;
    pub const INVALID_ARGUMENT: i32 = 3;
    pub const NOT_FOUND: i32 = 5;
    pub const ALREADY_EXISTS: i32 = 6;
    pub const PERMISSION_DENIED: i32 = 7;
    pub const RESOURCE_EXHAUSTED: i32 = 8;
    pub const FAILED_PRECONDITION: i32 = 9;
    pub const UNIMPLEMENTED: i32 = 12;
    pub const INTERNAL: i32 = 13;
    pub const UNAVAILABLE: i32 = 14;
    pub const DATA_LOSS: i32 = 15;
}

#[repr(C)]
pub struct Kv {
    pub key: *const c_char,
    pub value: *const c_char,
}

#[repr(C)]
pub struct EngineError {
    pub status: i32,
    pub condition: *const c_char,
    pub message: *const c_char,
    pub params: *const Kv,
    pub param_count: usize,
    pub position: i64,
    pub owner: *mut c_void,
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
}

#[repr(C)]
pub struct EngineOptions {
    pub struct_size: usize,
    pub threads: u32,
    pub memory_bytes: u64,
    pub spill_directory: *const c_char,
    pub libraries: *const *const FunctionLibrary,
    pub library_count: usize,
}

#[repr(C)]
pub struct EngineBytes {
    pub data: *const c_void,
    pub size: usize,
    pub owner: *mut c_void,
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
}

#[repr(C)]
pub struct EngineIpc {
    pub parts: *const EngineBytes,
    pub part_count: usize,
    pub size: usize,
    pub rows: i64,
    pub owner: *mut c_void,
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
}

pub type ArrayDone = unsafe extern "C" fn(*mut c_void, *mut FFI_ArrowArray, *mut EngineError);
pub type IpcDone = unsafe extern "C" fn(*mut c_void, *mut EngineIpc, *mut EngineError);

/// What a resolver gives: a source or a view's plan, both borrowed; the schema is taken.
#[repr(C)]
pub struct TableFound {
    pub source: Handle,
    pub plan: Handle,
    pub schema: FFI_ArrowSchema,
}

pub type TableResolver = unsafe extern "C" fn(*mut c_void, *const *const c_char, usize, *mut TableFound) -> i32;

#[repr(C)]
pub struct StatementInput {
    pub struct_size: usize,
    pub sql: *const c_char,
    pub size: usize,
    pub resolve: Option<TableResolver>,
    pub user: *mut c_void,
    pub parameter_schema: *const FFI_ArrowSchema,
    pub parameters: *const FFI_ArrowArray,
    pub parameter_row: i64,
}

#[repr(C)]
pub struct StatementOut {
    pub kind: i32,
    pub flags: u32,
    pub plan: Handle,
    pub schema: FFI_ArrowSchema,
    pub parameters: FFI_ArrowSchema,
    pub name: *const *const c_char,
    pub name_count: usize,
    pub to: *const *const c_char,
    pub to_count: usize,
    pub columns: *const *const c_char,
    pub column_count: usize,
    pub text: *const c_char,
    pub format: *const c_char,
    pub location: *const c_char,
    pub options: *const Kv,
    pub option_count: usize,
    pub owner: *mut c_void,
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
}

#[repr(C)]
pub struct LiftedOut {
    pub data: *const c_void,
    pub size: usize,
    pub sources: *const Handle,
    pub numbers: *const u32,
    pub source_count: usize,
    pub originals: *const Handle,
    pub original_count: usize,
    pub next_column: u32,
    pub owner: *mut c_void,
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// trn_engine_table_ops: a table that the caller implements. All but `schema` of the request are borrowed.
#[repr(C)]
pub struct TableScan {
    pub struct_size: usize,
    pub projection: *const u32,
    pub projection_count: usize,
    /// Encoded expressions over the table's columns by their places, and what was answered of each.
    pub filters: *const c_void,
    pub filters_size: usize,
    pub filter_count: usize,
    pub limit: i64,
    pub partition: u32,
}

#[repr(C)]
pub struct TableStatistics {
    pub rows: i64,
    pub bytes: i64,
    pub is_exact: bool,
}

pub type TableNextDone = unsafe extern "C" fn(*mut c_void, *mut FFI_ArrowArray, *mut EngineError);

#[repr(C)]
pub struct TableOps {
    pub struct_size: usize,
    pub schema: unsafe extern "C" fn(*mut c_void, *mut FFI_ArrowSchema, *mut EngineError) -> i32,
    pub supports: unsafe extern "C" fn(*mut c_void, *const c_void, usize, usize, *mut u8),
    pub partitions: unsafe extern "C" fn(*mut c_void) -> u32,
    pub statistics: unsafe extern "C" fn(*mut c_void, *mut TableStatistics),
    pub scan: unsafe extern "C" fn(*mut c_void, *const TableScan, *mut *mut c_void, *mut EngineError) -> i32,
    pub next: unsafe extern "C" fn(*mut c_void, TableNextDone, *mut c_void, *mut EngineError) -> i32,
    pub close: unsafe extern "C" fn(*mut c_void),
    pub destroy: unsafe extern "C" fn(*mut c_void),
}

/// The opaque handles, as C sees them.
pub type Handle = *mut c_void;

type Out<T> = *mut T;

#[repr(C)]
pub struct Engine {
    pub struct_size: usize,
    pub abi: u32,
    pub version: *const c_char,
    pub runtime_create: unsafe extern "C" fn(*const EngineOptions, Out<Handle>, Out<EngineError>) -> i32,
    pub runtime_release: unsafe extern "C" fn(Handle),
    pub session_create: unsafe extern "C" fn(Handle, *const Kv, usize, Out<Handle>, Out<EngineError>) -> i32,
    pub session_release: unsafe extern "C" fn(Handle),
    pub source_files: unsafe extern "C" fn(
        Handle,
        *const c_char,
        *const *const c_char,
        usize,
        *const Kv,
        usize,
        *const FFI_ArrowSchema,
        Out<Handle>,
        Out<FFI_ArrowSchema>,
        Out<EngineError>,
    ) -> i32,
    pub source_memory: unsafe extern "C" fn(Handle, *mut FFI_ArrowArrayStream, Out<Handle>, Out<EngineError>) -> i32,
    pub source_ipc:
        unsafe extern "C" fn(Handle, *const c_void, usize, Out<Handle>, Out<FFI_ArrowSchema>, Out<EngineError>) -> i32,
    pub source_ref: unsafe extern "C" fn(Handle) -> Handle,
    pub source_release: unsafe extern "C" fn(Handle),
    pub plan_lower:
        unsafe extern "C" fn(Handle, *const c_void, usize, *const Handle, usize, Out<Handle>, Out<EngineError>) -> i32,
    pub plan_lift:
        unsafe extern "C" fn(Handle, Out<EngineBytes>, Out<*const Handle>, Out<usize>, Out<EngineError>) -> i32,
    pub plan_sql: unsafe extern "C" fn(Handle, *const c_char, usize, Out<Handle>, Out<EngineError>) -> i32,
    pub plan_optimize: unsafe extern "C" fn(Handle, Handle, Out<Handle>, Out<EngineError>) -> i32,
    pub plan_schema: unsafe extern "C" fn(Handle, Out<FFI_ArrowSchema>, Out<EngineError>) -> i32,
    pub plan_explain: unsafe extern "C" fn(Handle, Handle, i32, Out<EngineBytes>, Out<EngineError>) -> i32,
    pub plan_release: unsafe extern "C" fn(Handle),
    pub execute: unsafe extern "C" fn(Handle, Handle, *const FFI_ArrowSchema, Out<Handle>, Out<EngineError>) -> i32,
    pub execution_schema: unsafe extern "C" fn(Handle, Out<FFI_ArrowSchema>, Out<EngineError>) -> i32,
    pub execution_schema_ipc: unsafe extern "C" fn(Handle, Out<EngineBytes>, Out<EngineError>) -> i32,
    pub next_array: unsafe extern "C" fn(Handle, Option<ArrayDone>, *mut c_void, Out<EngineError>) -> i32,
    pub next_ipc: unsafe extern "C" fn(Handle, u64, Option<IpcDone>, *mut c_void, Out<EngineError>) -> i32,
    pub execution_cancel: unsafe extern "C" fn(Handle),
    pub execution_metrics: unsafe extern "C" fn(Handle, Out<EngineBytes>, Out<EngineError>) -> i32,
    pub execution_release: unsafe extern "C" fn(Handle),
    pub statement: unsafe extern "C" fn(Handle, *const StatementInput, Out<StatementOut>, Out<EngineError>) -> i32,
    pub lift: unsafe extern "C" fn(Handle, Out<LiftedOut>, Out<EngineError>) -> i32,
    pub lower: unsafe extern "C" fn(
        Handle,
        *const c_void,
        usize,
        *const Handle,
        usize,
        *const Handle,
        usize,
        Out<Handle>,
        Out<EngineError>,
    ) -> i32,
    pub original_ref: unsafe extern "C" fn(Handle) -> Handle,
    pub original_release: unsafe extern "C" fn(Handle),
    pub decode: unsafe extern "C" fn(
        Handle,
        *const c_char,
        *const c_void,
        usize,
        Option<TableResolver>,
        *mut c_void,
        Out<Handle>,
        Out<EngineError>,
    ) -> i32,
    pub encode: unsafe extern "C" fn(
        Handle,
        Handle,
        *const c_char,
        *const FFI_ArrowSchema,
        Out<EngineBytes>,
        Out<EngineError>,
    ) -> i32,
    pub source_table: unsafe extern "C" fn(Handle, *const TableOps, *mut c_void, Out<Handle>, Out<EngineError>) -> i32,
    pub source_ffi:
        unsafe extern "C" fn(Handle, *mut c_void, Out<Handle>, Out<FFI_ArrowSchema>, Out<EngineError>) -> i32,
    pub source_about: unsafe extern "C" fn(Handle, Out<EngineBytes>, Out<FFI_ArrowSchema>, Out<EngineError>) -> i32,
    pub watch: unsafe extern "C" fn(*const u32),
    pub source_mapped: unsafe extern "C" fn(
        Handle,
        *const EngineBytes,
        Out<Handle>,
        Out<FFI_ArrowSchema>,
        Out<EngineError>,
    ) -> i32,
}

// The table is constant: its pointers are to constants and functions.
unsafe impl Sync for Engine {}

// ---- include/trunnion/function.h ----

#[repr(C)]
pub struct FunctionError {
    pub struct_size: usize,
    pub owner: *mut c_void,
    pub fail: unsafe extern "C" fn(*mut c_void, i32, *const c_char, *const c_char),
    pub add_param: unsafe extern "C" fn(*mut c_void, *const c_char, *const c_void, usize),
    pub set_position: unsafe extern "C" fn(*mut c_void, i64),
}

#[repr(C)]
pub struct FunctionArg {
    pub data_type: *const FFI_ArrowSchema,
    pub array: *const FFI_ArrowArray,
    pub is_scalar: bool,
}

#[repr(C)]
pub struct ScalarFunction {
    pub struct_size: usize,
    pub name: *const c_char,
    pub volatility: i32,
    pub bind: Option<
        unsafe extern "C" fn(
            *const ScalarFunction,
            *const FunctionArg,
            usize,
            *mut FFI_ArrowSchema,
            *mut FunctionError,
        ) -> i32,
    >,
    pub evaluate: Option<
        unsafe extern "C" fn(
            *const ScalarFunction,
            *const FunctionArg,
            usize,
            i64,
            *mut FFI_ArrowArray,
            *mut FunctionError,
        ) -> i32,
    >,
    pub data: *const c_void,
}

#[repr(C)]
pub struct AggregateFunction {
    pub struct_size: usize,
    pub name: *const c_char,
    pub bind: Option<
        unsafe extern "C" fn(
            *const AggregateFunction,
            *const FunctionArg,
            usize,
            *mut FFI_ArrowSchema,
            *mut FunctionError,
        ) -> i32,
    >,
    pub state_types: Option<
        unsafe extern "C" fn(
            *const AggregateFunction,
            *const FunctionArg,
            usize,
            *mut FFI_ArrowSchema,
            *mut usize,
            *mut FunctionError,
        ) -> i32,
    >,
    pub create: Option<
        unsafe extern "C" fn(
            *const AggregateFunction,
            *const FunctionArg,
            usize,
            *mut *mut c_void,
            *mut FunctionError,
        ) -> i32,
    >,
    pub update: Option<
        unsafe extern "C" fn(
            *mut c_void,
            *const FunctionArg,
            usize,
            i64,
            *const usize,
            *const u8,
            usize,
            *mut FunctionError,
        ) -> i32,
    >,
    pub merge: Option<
        unsafe extern "C" fn(
            *mut c_void,
            *const *const FFI_ArrowArray,
            usize,
            i64,
            *const usize,
            usize,
            *mut FunctionError,
        ) -> i32,
    >,
    pub evaluate: Option<unsafe extern "C" fn(*mut c_void, usize, *mut FFI_ArrowArray, *mut FunctionError) -> i32>,
    pub emit_state: Option<unsafe extern "C" fn(*mut c_void, usize, *mut FFI_ArrowArray, *mut FunctionError) -> i32>,
    pub memory: Option<unsafe extern "C" fn(*const c_void) -> usize>,
    pub destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    pub data: *const c_void,
}

pub const LAMBDA_PARAMETERS_MAX: usize = 8;

#[repr(C)]
pub struct LambdaParameters {
    pub struct_size: usize,
    pub count: usize,
    pub least: usize,
    pub types: [FFI_ArrowSchema; LAMBDA_PARAMETERS_MAX],
}

impl Default for LambdaParameters {
    fn default() -> Self {
        let types = std::array::from_fn(|_| FFI_ArrowSchema::empty());
        Self { struct_size: size_of::<Self>(), count: 0, least: 0, types }
    }
}

#[repr(C)]
pub struct Lambda {
    pub struct_size: usize,
    pub owner: *mut c_void,
    pub invoke: unsafe extern "C" fn(
        *const Lambda,
        *mut FFI_ArrowArray,
        usize,
        i64,
        *const u32,
        *mut FFI_ArrowArray,
        *mut FunctionError,
    ) -> i32,
    pub share:
        unsafe extern "C" fn(*const Lambda, *const FFI_ArrowArray, *mut FFI_ArrowArray, *mut FunctionError) -> i32,
}

#[repr(C)]
pub struct LambdaFunction {
    pub struct_size: usize,
    pub name: *const c_char,
    pub volatility: i32,
    /// Checked where the library is added.
    pub arguments: *const c_char,
    pub parameters: Option<
        unsafe extern "C" fn(
            *const LambdaFunction,
            *const FunctionArg,
            usize,
            usize,
            *mut LambdaParameters,
            *mut FunctionError,
        ) -> i32,
    >,
    pub bind: Option<
        unsafe extern "C" fn(
            *const LambdaFunction,
            *const FunctionArg,
            usize,
            *mut FFI_ArrowSchema,
            *mut FunctionError,
        ) -> i32,
    >,
    pub evaluate: Option<
        unsafe extern "C" fn(
            *const LambdaFunction,
            *const FunctionArg,
            *const *const Lambda,
            usize,
            i64,
            *mut FFI_ArrowArray,
            *mut FunctionError,
        ) -> i32,
    >,
    pub data: *const c_void,
}

#[repr(C)]
pub struct WindowFunction {
    pub struct_size: usize,
    pub name: *const c_char,
    pub uses_frame: bool,
    pub bind: Option<
        unsafe extern "C" fn(
            *const WindowFunction,
            *const FunctionArg,
            usize,
            *mut FFI_ArrowSchema,
            *mut FunctionError,
        ) -> i32,
    >,
    pub evaluate: Option<
        unsafe extern "C" fn(
            *const WindowFunction,
            *const FunctionArg,
            usize,
            i64,
            i64,
            *const usize,
            *const usize,
            *mut FFI_ArrowArray,
            *mut FunctionError,
        ) -> i32,
    >,
    pub data: *const c_void,
}

#[repr(C)]
pub struct TableFunction {
    pub struct_size: usize,
    pub name: *const c_char,
    pub bind: Option<
        unsafe extern "C" fn(
            *const TableFunction,
            *const FunctionArg,
            usize,
            *mut FFI_ArrowSchema,
            *mut FunctionError,
        ) -> i32,
    >,
    pub open: Option<
        unsafe extern "C" fn(
            *const TableFunction,
            *const FunctionArg,
            usize,
            *mut FFI_ArrowArrayStream,
            *mut FunctionError,
        ) -> i32,
    >,
    pub data: *const c_void,
}
#[repr(C)]
pub struct OperatorRequirement {
    pub struct_size: usize,
    pub distribution: i32,
    pub keys: *const u32,
    pub key_count: usize,
    pub order: *const u32,
    pub order_flags: *const u8,
    pub order_count: usize,
}

type Schemas = *const *const FFI_ArrowSchema;

#[repr(C)]
pub struct Operator {
    pub struct_size: usize,
    pub name: *const c_char,
    pub bind: Option<
        unsafe extern "C" fn(
            *const Operator,
            *const c_void,
            usize,
            Schemas,
            usize,
            *mut FFI_ArrowSchema,
            *mut FunctionError,
        ) -> i32,
    >,
    pub require: Option<
        unsafe extern "C" fn(
            *const Operator,
            *const c_void,
            usize,
            usize,
            *mut OperatorRequirement,
            *mut FunctionError,
        ) -> i32,
    >,
    pub create: Option<
        unsafe extern "C" fn(
            *const Operator,
            *const c_void,
            usize,
            Schemas,
            usize,
            u32,
            *mut *mut c_void,
            *mut FunctionError,
        ) -> i32,
    >,
    pub push: Option<unsafe extern "C" fn(*mut c_void, usize, *mut FFI_ArrowArray, *mut FunctionError) -> i32>,
    pub pull: Option<unsafe extern "C" fn(*mut c_void, *mut FFI_ArrowArray, *mut FunctionError) -> i32>,
    pub destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    pub data: *const c_void,
}
unsafe impl Send for Operator {}
unsafe impl Sync for Operator {}
// Constants of a library that is never unloaded, which says that they may be used on any thread.
unsafe impl Send for WindowFunction {}
unsafe impl Sync for WindowFunction {}
unsafe impl Send for TableFunction {}
unsafe impl Sync for TableFunction {}
unsafe impl Send for LambdaFunction {}
unsafe impl Sync for LambdaFunction {}

#[repr(C)]
pub struct FunctionLibrary {
    pub struct_size: usize,
    pub abi: u32,
    pub name: *const c_char,
    pub version: *const c_char,
    pub scalars: *const *const ScalarFunction,
    pub scalar_count: usize,
    pub aggregates: *const *const AggregateFunction,
    pub aggregate_count: usize,
    // Only in libraries whose struct_size covers them.
    pub windows: *const *const WindowFunction,
    pub window_count: usize,
    pub tables: *const *const TableFunction,
    pub table_count: usize,
    pub operators: *const *const Operator,
    pub operator_count: usize,
    pub lambdas: *const *const LambdaFunction,
    pub lambda_count: usize,
    pub flags: u32,
}

/// The library's functions are for plans: texts do not know them.
pub const FUNCTIONS_HIDDEN: u32 = 1;

const _: () = {
    assert!(size_of::<Kv>() == 16);
    assert!(size_of::<EngineError>() == 64);
    assert!(offset_of!(EngineError, position) == 40);
    assert!(offset_of!(EngineError, release) == 56);
    assert!(size_of::<EngineOptions>() == 48);
    assert!(offset_of!(EngineOptions, memory_bytes) == 16);
    assert!(size_of::<EngineBytes>() == 32);
    assert!(size_of::<EngineIpc>() == 48);
    assert!(offset_of!(EngineIpc, rows) == 24);
    assert!(size_of::<Engine>() == 312);
    assert!(size_of::<StatementInput>() == 64);
    assert!(size_of::<StatementOut>() == 264);
    assert!(size_of::<LiftedOut>() == 80);
    assert!(size_of::<TableFound>() == 88);
    assert!(size_of::<TableOps>() == 72);
    assert!(size_of::<TableScan>() == 64);
    assert!(offset_of!(Engine, source_files) == 56);
    assert!(offset_of!(Engine, plan_lower) == 96);
    assert!(offset_of!(Engine, execute) == 152);
    assert!(offset_of!(Engine, execution_release) == 208);
    assert!(size_of::<FunctionError>() == 40);
    assert!(size_of::<FunctionArg>() == 24);
    assert!(size_of::<ScalarFunction>() == 48);
    assert!(offset_of!(ScalarFunction, bind) == 24);
    assert!(size_of::<AggregateFunction>() == 96);
    assert!(offset_of!(AggregateFunction, memory) == 72);
    assert!(offset_of!(FunctionLibrary, windows) == 64);
    assert!(offset_of!(FunctionLibrary, lambdas) == 112);
    assert!(size_of::<FunctionLibrary>() == 136);
    assert!(size_of::<LambdaFunction>() == 64);
    assert!(size_of::<Lambda>() == 32);
    assert!(offset_of!(LambdaParameters, types) == 24);
    assert!(size_of::<Operator>() == 72);
    assert!(size_of::<OperatorRequirement>() == 56);
    assert!(size_of::<WindowFunction>() == 48);
    assert!(size_of::<TableFunction>() == 40);
    assert!(size_of::<FFI_ArrowSchema>() == 72);
    assert!(size_of::<FFI_ArrowArray>() == 80);
    assert!(size_of::<FFI_ArrowArrayStream>() == 40);
};
