//! The engine behind one vtable (src/engine/engine_abi.h). Mechanical: nothing here knows a protocol or a policy.
//! Handles are reference counts turned into pointers; each function says in the header what it takes and gives.
mod abi;
mod aggregates;
mod as_is;
mod cancel;
pub mod cluster;
mod codec;
mod codec_cluster;
mod concat;
mod decode;
mod distinct;
mod error;
mod execute;
mod explain;
mod fold;
mod functions;
mod functions_lambda;
mod functions_table;
mod functions_window;
mod fused;
mod ipc;
mod library;
mod lift;
mod lift_expr;
mod lift_type;
mod lower_expr;
mod lower_group;
mod lower_rel;
mod machine;
mod mapped;
mod named;
mod opaque;
mod operator;
mod output;
mod physical;
mod range;
mod runtime;
mod sample;
mod sort_by;
mod source;
mod sql;
mod statement;
mod table;
mod text;
mod travel;
mod watched;
mod write;
mod write_groups;

pub(crate) use trunnion_features as features;

use crate::abi::{
    ArrayDone, Engine, EngineBytes, EngineError, EngineOptions, Handle, IpcDone, Kv, LiftedOut, StatementInput,
    StatementOut,
};
use crate::error::{Failure, Fallible, guard, guard_deep, guard_void};
use crate::execute::Execution;
use crate::features::arrow::datatypes::Schema;
use crate::features::arrow::ffi::FFI_ArrowSchema;
use crate::features::arrow::ffi_stream::FFI_ArrowArrayStream;
use crate::features::datafusion::logical_expr::LogicalPlan;
use crate::machine::Machine;
use crate::runtime::{Runtime, Session, slice};
use crate::source::Source;
use std::ffi::{c_char, c_void};
use std::sync::Arc;

struct Plan {
    plan: Arc<LogicalPlan>,
    runtime: Arc<Runtime>,
}

/// What an OPAQUE refers to, as C holds it.
struct Kept {
    original: opaque::Original,
    runtime: Arc<Runtime>,
}

fn give<T>(out: *mut Handle, value: Arc<T>) -> Fallible<()> {
    if out.is_null() {
        return Err(Failure::invalid("no place for the result"));
    }
    unsafe { out.write(Arc::into_raw(value) as Handle) };
    Ok(())
}

unsafe fn borrow<'a, T>(handle: Handle) -> Fallible<&'a T> {
    unsafe { (handle as *const T).as_ref() }.ok_or_else(|| Failure::invalid("a handle is NULL"))
}

/// Another reference to what the handle stands for.
unsafe fn share<T>(handle: Handle) -> Fallible<Arc<T>> {
    unsafe { borrow::<T>(handle) }?;
    unsafe { Arc::increment_strong_count(handle as *const T) };
    Ok(unsafe { Arc::from_raw(handle as *const T) })
}

unsafe fn take<T>(handle: Handle) -> Option<Arc<T>> {
    (!handle.is_null()).then(|| unsafe { Arc::from_raw(handle as *const T) })
}

fn give_schema(out: *mut FFI_ArrowSchema, schema: &Schema) -> Fallible<()> {
    if !out.is_null() {
        unsafe { out.write(FFI_ArrowSchema::try_from(schema)?) };
    }
    Ok(())
}

fn give_bytes(out: *mut EngineBytes, bytes: EngineBytes) -> Fallible<()> {
    if out.is_null() {
        if let Some(release) = bytes.release {
            unsafe { release(bytes.owner) };
        }
        return Err(Failure::invalid("no place for the result"));
    }
    unsafe { out.write(bytes) };
    Ok(())
}

fn give_plan(out: *mut Handle, plan: Arc<LogicalPlan>, session: &Session) -> Fallible<()> {
    give(out, Arc::new(Plan { plan, runtime: Arc::clone(&session.runtime) }))
}

unsafe extern "C" fn runtime_create(options: *const EngineOptions, out: *mut Handle, error: *mut EngineError) -> i32 {
    guard(error, || give(out, unsafe { Runtime::create(options) }?))
}

unsafe extern "C" fn runtime_release(handle: Handle) {
    guard_void(|| {
        if let Some(runtime) = unsafe { take::<Runtime>(handle) } {
            Runtime::end(runtime);
        }
    });
}

unsafe extern "C" fn session_create(
    runtime: Handle,
    settings: *const Kv,
    count: usize,
    out: *mut Handle,
    error: *mut EngineError,
) -> i32 {
    guard(error, || give(out, unsafe { Session::create(share(runtime)?, settings, count) }?))
}

unsafe extern "C" fn session_release(handle: Handle) {
    guard_void(|| drop(unsafe { take::<Session>(handle) }));
}

#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn source_files(
    session: Handle,
    format: *const c_char,
    paths: *const *const c_char,
    path_count: usize,
    options: *const Kv,
    option_count: usize,
    schema: *const FFI_ArrowSchema,
    out: *mut Handle,
    out_schema: *mut FFI_ArrowSchema,
    error: *mut EngineError,
) -> i32 {
    guard_deep(error, || {
        let session = unsafe { borrow(session) }?;
        let source = unsafe { source::files(session, format, paths, path_count, options, option_count, schema) }?;
        give_schema(out_schema, &source.schema)?;
        give(out, source)
    })
}

unsafe extern "C" fn source_memory(
    session: Handle,
    stream: *mut FFI_ArrowArrayStream,
    out: *mut Handle,
    error: *mut EngineError,
) -> i32 {
    guard(error, || give(out, unsafe { source::from_stream(borrow(session)?, stream) }?))
}

unsafe extern "C" fn source_ipc(
    session: Handle,
    bytes: *const c_void,
    size: usize,
    out: *mut Handle,
    out_schema: *mut FFI_ArrowSchema,
    error: *mut EngineError,
) -> i32 {
    guard(error, || {
        let bytes = unsafe { slice(bytes as *const u8, size, "IPC bytes") }?;
        let source = source::from_ipc(unsafe { borrow(session) }?, bytes)?;
        give_schema(out_schema, &source.schema)?;
        give(out, source)
    })
}

/// Takes the bytes.
unsafe extern "C" fn source_mapped(
    _: Handle,
    bytes: *const EngineBytes,
    out: *mut Handle,
    out_schema: *mut FFI_ArrowSchema,
    error: *mut EngineError,
) -> i32 {
    guard(error, || {
        let source = mapped::open(unsafe { mapped::taken(bytes) }?)?;
        give_schema(out_schema, &source.schema)?;
        give(out, source)
    })
}

unsafe extern "C" fn source_ref(handle: Handle) -> Handle {
    if !handle.is_null() {
        unsafe { Arc::increment_strong_count(handle as *const Source) };
    }
    handle
}

unsafe extern "C" fn source_release(handle: Handle) {
    guard_void(|| drop(unsafe { take::<Source>(handle) }));
}

unsafe fn lowered(
    session: Handle,
    bytes: *const c_void,
    size: usize,
    sources: &[Handle],
    originals: &[Handle],
    out: *mut Handle,
) -> Fallible<()> {
    let session: &Session = unsafe { borrow(session) }?;
    let bytes = unsafe { slice(bytes as *const u8, size, "plan") }?;
    let mut shared = vec![];
    for source in sources {
        shared.push(unsafe { share::<Source>(*source) }?);
    }
    let mut kept = vec![];
    for original in originals {
        kept.push(unsafe { borrow::<Kept>(*original) }?.original.clone());
    }
    let relation = Machine::new(session, &shared, &kept, bytes).run()?;
    give_plan(out, relation.plan, session)
}

unsafe extern "C" fn plan_lower(
    session: Handle,
    bytes: *const c_void,
    size: usize,
    sources: *const Handle,
    source_count: usize,
    out: *mut Handle,
    error: *mut EngineError,
) -> i32 {
    guard_deep(error, || {
        let sources = unsafe { slice(sources, source_count, "sources") }?;
        unsafe { lowered(session, bytes, size, sources, &[], out) }
    })
}

#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn lower(
    session: Handle,
    bytes: *const c_void,
    size: usize,
    sources: *const Handle,
    source_count: usize,
    originals: *const Handle,
    original_count: usize,
    out: *mut Handle,
    error: *mut EngineError,
) -> i32 {
    guard_deep(error, || {
        let sources = unsafe { slice(sources, source_count, "sources") }?;
        let originals = unsafe { slice(originals, original_count, "originals") }?;
        unsafe { lowered(session, bytes, size, sources, originals, out) }
    })
}

unsafe extern "C" fn plan_lift(
    plan: Handle,
    out: *mut EngineBytes,
    sources: *mut *const Handle,
    source_count: *mut usize,
    error: *mut EngineError,
) -> i32 {
    guard_deep(error, || {
        let plan: &Plan = unsafe { borrow(plan) }?;
        if out.is_null() || sources.is_null() || source_count.is_null() {
            return Err(Failure::invalid("no place for the result"));
        }
        let lifted = text::lifted_out(lift::lift(&plan.plan)?, &plan.runtime);
        unsafe {
            sources.write(lifted.sources);
            source_count.write(lifted.source_count);
        }
        let (data, size) = (lifted.data, lifted.size);
        give_bytes(out, EngineBytes { data, size, owner: lifted.owner, release: lifted.release })
    })
}

unsafe extern "C" fn lift_all(plan: Handle, out: *mut LiftedOut, error: *mut EngineError) -> i32 {
    guard_deep(error, || {
        let plan: &Plan = unsafe { borrow(plan) }?;
        if out.is_null() {
            return Err(Failure::invalid("no place for the result"));
        }
        let lifted = lift::lift(&plan.plan)?;
        unsafe { out.write(text::lifted_out(lifted, &plan.runtime)) };
        Ok(())
    })
}

unsafe extern "C" fn original_ref(handle: Handle) -> Handle {
    if !handle.is_null() {
        unsafe { Arc::increment_strong_count(handle as *const Kept) };
    }
    handle
}

unsafe extern "C" fn original_release(handle: Handle) {
    guard_void(|| {
        if let Some(kept) = unsafe { take::<Kept>(handle) } {
            let runtime = Arc::clone(&kept.runtime);
            runtime.drop_there(kept);
        }
    });
}

unsafe extern "C" fn decode(
    session: Handle,
    format: *const c_char,
    bytes: *const c_void,
    size: usize,
    resolve: Option<abi::TableResolver>,
    user: *mut c_void,
    out: *mut Handle,
    error: *mut EngineError,
) -> i32 {
    guard_deep(error, || {
        let session: &Session = unsafe { borrow(session) }?;
        let format = unsafe { runtime::text(format, "format") }?;
        let bytes = unsafe { slice(bytes as *const u8, size, "plan") }?;
        let plan = unsafe { codec::decode(session, format, bytes, resolve, user) }?;
        give_plan(out, Arc::new(plan), session)
    })
}

unsafe extern "C" fn encode(
    session: Handle,
    plan: Handle,
    format: *const c_char,
    schema: *const FFI_ArrowSchema,
    out: *mut EngineBytes,
    error: *mut EngineError,
) -> i32 {
    guard_deep(error, || {
        let (session, plan): (&Session, &Plan) = unsafe { (borrow(session)?, borrow(plan)?) };
        let format = unsafe { runtime::text(format, "format") }?;
        let schema = match unsafe { schema.as_ref() } {
            Some(schema) => Some(Schema::try_from(schema)?),
            None => None,
        };
        let bytes = codec::encode(session, &plan.plan, format, schema.as_ref())?;
        give_bytes(out, ipc::owned_bytes(bytes))
    })
}

unsafe extern "C" fn source_table(
    _: Handle,
    ops: *const abi::TableOps,
    this: *mut c_void,
    out: *mut Handle,
    error: *mut EngineError,
) -> i32 {
    guard(error, || give(out, unsafe { table::source(ops, this) }?))
}

/// A table provider of another library that speaks the interface of the datafusion-ffi crate; taken.
unsafe extern "C" fn source_ffi(
    _: Handle,
    provider: *mut c_void,
    out: *mut Handle,
    out_schema: *mut FFI_ArrowSchema,
    error: *mut EngineError,
) -> i32 {
    guard(error, || {
        use features::datafusion_ffi::table_provider::FFI_TableProvider;
        if provider.is_null() {
            return Err(Failure::invalid("no table provider"));
        }
        let taken = unsafe { std::ptr::read(provider as *const FFI_TableProvider) };
        let provider: Arc<dyn features::datafusion::catalog::TableProvider> = (&taken).into();
        let schema = provider.schema();
        give_schema(out_schema, &schema)?;
        give(out, Arc::new(Source { provider, schema }))
    })
}

unsafe extern "C" fn source_about(
    source: Handle,
    out: *mut EngineBytes,
    out_schema: *mut FFI_ArrowSchema,
    error: *mut EngineError,
) -> i32 {
    guard(error, || {
        let source: &Source = unsafe { borrow(source) }?;
        give_bytes(out, ipc::owned_bytes(source.about()))?;
        give_schema(out_schema, &source.schema)
    })
}

unsafe extern "C" fn statement_plan(
    session: Handle,
    input: *const StatementInput,
    out: *mut StatementOut,
    error: *mut EngineError,
) -> i32 {
    guard_deep(error, || {
        let session: &Session = unsafe { borrow(session) }?;
        let input = unsafe { input.as_ref() }.ok_or_else(|| Failure::invalid("no statement"))?;
        if out.is_null() || input.struct_size < size_of::<StatementInput>() {
            return Err(Failure::invalid("no place for the result"));
        }
        let statement = unsafe { text::statement(session, input) }?;
        unsafe { out.write(text::statement_out(statement, &session.runtime)?) };
        Ok(())
    })
}

unsafe extern "C" fn plan_sql(
    session: Handle,
    sql: *const c_char,
    size: usize,
    out: *mut Handle,
    error: *mut EngineError,
) -> i32 {
    guard_deep(error, || {
        let session: &Session = unsafe { borrow(session) }?;
        let bytes = unsafe { slice(sql as *const u8, size, "SQL text") }?;
        let text = std::str::from_utf8(bytes).map_err(|_| Failure::invalid("SQL text that is not UTF-8"))?;
        let plan = session.runtime.handle()?.block_on(session.state.create_logical_plan(text))?;
        give_plan(out, Arc::new(plan), session)
    })
}

unsafe extern "C" fn plan_optimize(session: Handle, plan: Handle, out: *mut Handle, error: *mut EngineError) -> i32 {
    guard_deep(error, || {
        let (session, plan): (&Session, &Plan) = unsafe { (borrow(session)?, borrow(plan)?) };
        give_plan(out, Arc::new(session.state.optimize(&plan.plan)?), session)
    })
}

unsafe extern "C" fn plan_schema(plan: Handle, out: *mut FFI_ArrowSchema, error: *mut EngineError) -> i32 {
    guard(error, || {
        let plan: &Plan = unsafe { borrow(plan) }?;
        if out.is_null() {
            return Err(Failure::invalid("no place for the result"));
        }
        give_schema(out, plan.plan.schema().as_arrow())
    })
}

unsafe extern "C" fn plan_explain(
    session: Handle,
    plan: Handle,
    what: i32,
    out: *mut EngineBytes,
    error: *mut EngineError,
) -> i32 {
    guard_deep(error, || {
        let (session, plan): (&Session, &Plan) = unsafe { (borrow(session)?, borrow(plan)?) };
        let mut text = explain::explain(session, &plan.plan, what)?.into_bytes();
        text.push(0);
        let mut bytes = ipc::owned_bytes(text);
        bytes.size -= 1; // the NUL is behind the text
        give_bytes(out, bytes)
    })
}

unsafe extern "C" fn plan_release(handle: Handle) {
    guard_void(|| {
        if let Some(plan) = unsafe { take::<Plan>(handle) } {
            let runtime = Arc::clone(&plan.runtime);
            runtime.drop_there(plan);
        }
    });
}

unsafe extern "C" fn execute_plan(
    session: Handle,
    plan: Handle,
    output: *const FFI_ArrowSchema,
    out: *mut Handle,
    error: *mut EngineError,
) -> i32 {
    guard_deep(error, || {
        let (session, plan): (&Session, &Plan) = unsafe { (borrow(session)?, borrow(plan)?) };
        let output = match unsafe { output.as_ref() } {
            Some(schema) => Some(Schema::try_from(schema)?),
            None => None,
        };
        give(out, Execution::create(session, &plan.plan, output)?)
    })
}

unsafe extern "C" fn execution_schema(execution: Handle, out: *mut FFI_ArrowSchema, error: *mut EngineError) -> i32 {
    guard(error, || {
        let execution: &Execution = unsafe { borrow(execution) }?;
        give_schema(out, &execution.output.schema)
    })
}

unsafe extern "C" fn execution_schema_ipc(execution: Handle, out: *mut EngineBytes, error: *mut EngineError) -> i32 {
    guard(error, || {
        let execution: &Execution = unsafe { borrow(execution) }?;
        let (data, size) = (execution.schema_ipc.as_ptr() as *const c_void, execution.schema_ipc.len());
        give_bytes(out, EngineBytes { data, size, owner: std::ptr::null_mut(), release: None })
    })
}

unsafe extern "C" fn next_array(
    execution: Handle,
    done: Option<ArrayDone>,
    user: *mut c_void,
    error: *mut EngineError,
) -> i32 {
    guard(error, || {
        let done = done.ok_or_else(|| Failure::invalid("no callback"))?;
        unsafe { share::<Execution>(execution) }?.next_array(done, user)
    })
}

unsafe extern "C" fn next_ipc(
    execution: Handle,
    bytes_max: u64,
    done: Option<IpcDone>,
    user: *mut c_void,
    error: *mut EngineError,
) -> i32 {
    guard(error, || {
        let done = done.ok_or_else(|| Failure::invalid("no callback"))?;
        unsafe { share::<Execution>(execution) }?.next_ipc(bytes_max, done, user)
    })
}

unsafe extern "C" fn execution_cancel(execution: Handle) {
    guard_void(|| {
        if let Ok(execution) = unsafe { borrow::<Execution>(execution) } {
            execution.cancel();
        }
    });
}

unsafe extern "C" fn execution_metrics(execution: Handle, out: *mut EngineBytes, error: *mut EngineError) -> i32 {
    guard(error, || {
        let execution: &Execution = unsafe { borrow(execution) }?;
        give_bytes(out, ipc::owned_bytes(explain::metrics(&execution.plan).into_bytes()))
    })
}

unsafe extern "C" fn execution_release(handle: Handle) {
    guard_void(|| {
        if let Some(execution) = unsafe { take::<Execution>(handle) } {
            execution.cancel();
            let runtime = Arc::clone(&execution.runtime);
            runtime.drop_there(execution);
        }
    });
}

unsafe extern "C" fn watch(flag: *const u32) {
    guard_void(|| cancel::watch(flag));
}

static ENGINE: Engine = Engine {
    struct_size: size_of::<Engine>(),
    abi: abi::ENGINE_ABI,
    version: c"DataFusion 55.2.0".as_ptr(),
    runtime_create,
    runtime_release,
    session_create,
    session_release,
    source_files,
    source_memory,
    source_ipc,
    source_ref,
    source_release,
    plan_lower,
    plan_lift,
    plan_sql,
    plan_optimize,
    plan_schema,
    plan_explain,
    plan_release,
    execute: execute_plan,
    execution_schema,
    execution_schema_ipc,
    next_array,
    next_ipc,
    execution_cancel,
    execution_metrics,
    execution_release,
    statement: statement_plan,
    lift: lift_all,
    lower,
    original_ref,
    original_release,
    decode,
    encode,
    source_table,
    source_ffi,
    source_about,
    watch,
    source_mapped,
};

/// The library's only export.
#[unsafe(no_mangle)]
pub extern "C" fn trn_engine_get(abi: u32) -> *const Engine {
    match abi {
        abi::ENGINE_ABI => &ENGINE,
        _ => std::ptr::null(),
    }
}
