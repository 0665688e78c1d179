//! Statements and lifted plans as the C structs that cross the boundary.
use crate::abi::{Handle, Kv, LiftedOut, StatementInput, StatementOut};
use crate::error::{Failure, Fallible};
use crate::features::arrow::datatypes::Schema;
use crate::features::arrow::ffi::FFI_ArrowSchema;
use crate::lift::Lifted;
use crate::runtime::{Runtime, Session, slice};
use crate::source::Source;
use crate::sql::{Bound, Context};
use crate::statement::Statement;
use crate::{Kept, Plan};
use std::ffi::{CString, c_char, c_void};
use std::sync::Arc;

// ---- lifted plans ----

struct OwnedLift {
    _bytes: Vec<u8>,
    handles: Vec<Handle>,
    numbers: Vec<u32>,
    originals: Vec<Handle>,
    _sources: Vec<Arc<Source>>,
    kept: Vec<Arc<Kept>>,
    runtime: Arc<Runtime>,
}

unsafe extern "C" fn release_lift(owner: *mut c_void) {
    let owned = unsafe { Box::from_raw(owner as *mut OwnedLift) };
    let runtime = Arc::clone(&owned.runtime);
    match owned.kept.is_empty() {
        true => drop(owned),
        // Originals may be deep.
        false => runtime.drop_there(Sendable(owned)),
    }
}

struct Sendable(#[allow(dead_code)] Box<OwnedLift>);
// The raw handles point at what the Arcs beside them own.
unsafe impl Send for Sendable {}

pub fn lifted_out(lifted: Lifted, runtime: &Arc<Runtime>) -> LiftedOut {
    let next_column = lifted.next_column;
    let (data, size) = (lifted.bytes.as_ptr() as *const c_void, lifted.bytes.len());
    let kept: Vec<Arc<Kept>> = lifted
        .originals
        .into_iter()
        .map(|original| Arc::new(Kept { original, runtime: Arc::clone(runtime) }))
        .collect();
    let handle =
        |source: &Option<Arc<Source>>| source.as_ref().map_or(std::ptr::null_mut(), |one| Arc::as_ptr(one) as Handle);
    let owned = Box::new(OwnedLift {
        handles: lifted.sources.iter().map(|one| handle(&one.source)).collect(),
        numbers: lifted.sources.iter().map(|one| one.number).collect(),
        originals: kept.iter().map(|one| Arc::as_ptr(one) as Handle).collect(),
        _sources: lifted.sources.into_iter().filter_map(|one| one.source).collect(),
        _bytes: lifted.bytes,
        kept,
        runtime: Arc::clone(runtime),
    });
    LiftedOut {
        data,
        size,
        sources: owned.handles.as_ptr(),
        numbers: owned.numbers.as_ptr(),
        source_count: owned.handles.len(),
        originals: owned.originals.as_ptr(),
        original_count: owned.originals.len(),
        next_column,
        owner: Box::into_raw(owned) as *mut c_void,
        release: Some(release_lift),
    }
}

// ---- statements ----

pub unsafe fn statement(session: &Session, input: &StatementInput) -> Fallible<Statement> {
    let bytes = unsafe { slice(input.sql as *const u8, input.size, "SQL text") }?;
    let text = std::str::from_utf8(bytes).map_err(|_| Failure::invalid("SQL text that is not UTF-8"))?;
    let bound = match unsafe { (input.parameter_schema.as_ref(), input.parameters.as_ref()) } {
        (Some(schema), Some(array)) => Some(unsafe { Bound::import(schema, array, input.parameter_row) }?),
        _ => None,
    };
    let context = Context::new(&session.state, input.resolve, input.user);
    crate::statement::plan(&context, text, bound.as_ref())
}

/// Texts that live as long as the statement.
#[derive(Default)]
struct Texts {
    owned: Vec<CString>,
}

impl Texts {
    fn add(&mut self, text: &str) -> Fallible<*const c_char> {
        let text = CString::new(text).map_err(|_| Failure::invalid("a NUL in a statement's text"))?;
        let pointer = text.as_ptr(); // of the heap: it stays where it is
        self.owned.push(text);
        Ok(pointer)
    }

    fn maybe(&mut self, text: &Option<String>) -> Fallible<*const c_char> {
        text.as_ref().map_or(Ok(std::ptr::null()), |text| self.add(text))
    }

    fn list(&mut self, texts: &[String]) -> Fallible<Vec<*const c_char>> {
        texts.iter().map(|text| self.add(text)).collect()
    }
}

struct OwnedStatement {
    _texts: Texts,
    lists: [Vec<*const c_char>; 3],
    options: Vec<Kv>,
}

unsafe extern "C" fn release_statement(owner: *mut c_void) {
    drop(unsafe { Box::from_raw(owner as *mut OwnedStatement) });
}

pub fn statement_out(statement: Statement, runtime: &Arc<Runtime>) -> Fallible<StatementOut> {
    let mut texts = Texts::default();
    let lists = [texts.list(&statement.name)?, texts.list(&statement.to)?, texts.list(&statement.columns)?];
    let mut options = vec![];
    for (key, value) in &statement.options {
        options.push(Kv { key: texts.add(key)?, value: texts.add(value)? });
    }
    let (text, format) = (texts.maybe(&statement.text)?, texts.maybe(&statement.format)?);
    let location = texts.maybe(&statement.location)?;
    let schema = match &statement.schema {
        Some(schema) => FFI_ArrowSchema::try_from(schema)?,
        None => FFI_ArrowSchema::empty(),
    };
    let parameters = match statement.parameters.is_empty() {
        true => FFI_ArrowSchema::empty(),
        false => FFI_ArrowSchema::try_from(&Schema::new(statement.parameters))?,
    };
    let plan = match statement.plan {
        Some(plan) => Arc::into_raw(Arc::new(Plan { plan: Arc::new(plan), runtime: Arc::clone(runtime) })) as Handle,
        None => std::ptr::null_mut(),
    };
    let owned = Box::new(OwnedStatement { _texts: texts, lists, options });
    Ok(StatementOut {
        kind: statement.kind,
        flags: statement.flags,
        plan,
        schema,
        parameters,
        name: owned.lists[0].as_ptr(),
        name_count: owned.lists[0].len(),
        to: owned.lists[1].as_ptr(),
        to_count: owned.lists[1].len(),
        columns: owned.lists[2].as_ptr(),
        column_count: owned.lists[2].len(),
        text,
        format,
        location,
        options: owned.options.as_ptr(),
        option_count: owned.options.len(),
        owner: Box::into_raw(owned) as *mut c_void,
        release: Some(release_statement),
    })
}
