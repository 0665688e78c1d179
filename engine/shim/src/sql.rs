//! SQL text: parsing, planning with tables that the caller finds, parameters. Statements are in statement.rs.
use crate::abi::{Handle, TableFound, TableResolver};
use crate::error::{Failure, Fallible};
use crate::features::arrow::array::{Array, StructArray};
use crate::features::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use crate::features::arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use crate::features::datafusion::catalog::cte_worktable::CteWorkTable;
use crate::features::datafusion::catalog::{TableFunctionArgs, TableProvider};
use crate::features::datafusion::common::config::ConfigOptions;
use crate::features::datafusion::common::file_options::file_type::FileType;
use crate::features::datafusion::common::metadata::ScalarAndMetadata;
use crate::features::datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use crate::features::datafusion::common::{DFSchema, ParamValues, ScalarValue, TableReference};
use crate::features::datafusion::datasource::file_format::format_as_file_type;
use crate::features::datafusion::datasource::provider_as_source;
use crate::features::datafusion::error::{DataFusionError, Result};
use crate::features::datafusion::execution::session_state::SessionState;
use crate::features::datafusion::logical_expr::expr::Placeholder;
use crate::features::datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner, TypePlanner};
use crate::features::datafusion::logical_expr::simplify::SimplifyContext;
use crate::features::datafusion::logical_expr::{
    AggregateUDF, Distinct, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF,
};
use crate::features::datafusion::optimizer::OptimizerRule;
use crate::features::datafusion::optimizer::replace_distinct_aggregate::ReplaceDistinctWithAggregate;
use crate::features::datafusion::optimizer::simplify_expressions::ExprSimplifier;
use crate::features::datafusion::sql::parser::{DFParserBuilder, Statement};
use crate::features::datafusion::sql::planner::ParserOptions;
use crate::features::datafusion::sql::sqlparser::dialect::dialect_from_str;
use crate::features::datafusion::sql::sqlparser::parser::ParserError;
use crate::features::datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use crate::library::Hidden;
use crate::named::{Meaning, Named};
use crate::source::Source;
use crate::{Plan, share};
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Marks a failure that the caller's resolver reported: the caller has the error itself.
pub const RESOLVER: &str = "RESOLVER";
/// Parameters of one statement.
const PARAMETERS_MAX: usize = 1 << 16;

// ---- positions ----

/// The byte at a line and column, both from 1, columns in characters.
fn offset(text: &str, line: u64, column: u64) -> Option<u32> {
    let mut start = 0;
    for _ in 1..line {
        start += text.get(start..)?.find('\n')? + 1;
    }
    let rest = text.get(start..)?;
    let within = match column.checked_sub(1)? {
        0 => 0,
        skip => rest.char_indices().nth(skip as usize).map_or(rest.len(), |(at, _)| at),
    };
    u32::try_from(start + within).ok().filter(|at| *at <= i32::MAX as u32)
}

fn positioned(failure: Failure, start: Option<u32>, stop: Option<u32>) -> Failure {
    match (start, stop) {
        (Some(start), stop) => {
            Failure { position: i64::from(start) << 32 | i64::from(stop.unwrap_or(start).max(start)), ..failure }
        }
        _ => failure,
    }
}

/// The parser puts the place behind its message, as " at Line: 1, Column: 2".
fn split_place(message: &str) -> (&str, Option<(u64, u64)>) {
    let Some(at) = message.rfind(" at Line: ") else { return (message, None) };
    let mut numbers = message[at + 10..].split(", Column: ").map(|number| number.trim().parse::<u64>());
    match (numbers.next(), numbers.next()) {
        (Some(Ok(line)), Some(Ok(column))) => (&message[..at], Some((line, column))),
        _ => (message, None),
    }
}

fn syntax_failure(text: &str, error: &ParserError) -> Failure {
    let message = match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
        ParserError::RecursionLimitExceeded => {
            return Failure::exhausted("the statement nests deeper than datafusion.sql_parser.recursion_limit");
        }
    };
    let (message, place) = split_place(message);
    let failure = Failure::invalid(message).condition("PARSE_SYNTAX_ERROR").param("error", message.as_bytes());
    let at = place.and_then(|(line, column)| offset(text, line, column));
    positioned(failure, at, at)
}

/// A failure of parsing or planning, with its place in the text where the engine knows it.
pub fn planning_failure(text: &str, error: DataFusionError) -> Failure {
    if let DataFusionError::SQL(inner, _) = error.find_root() {
        return syntax_failure(text, inner);
    }
    let span = error.diagnostic().and_then(|diagnostic| diagnostic.span);
    let failure = Failure::from(error);
    match span {
        Some(span) if failure.position < 0 => {
            let start = offset(text, span.start.line, span.start.column);
            // The end of a span is behind its last character.
            let stop = offset(text, span.end.line, span.end.column).map(|stop| stop.saturating_sub(1));
            positioned(failure, start, stop)
        }
        _ => failure,
    }
}

// ---- parsing ----

/// The one statement of a text. Question marks become numbered parameters.
pub fn parse(state: &SessionState, text: &str) -> Fallible<Statement> {
    let options = &state.config_options().sql_parser;
    let dialect = dialect_from_str(options.dialect)
        .ok_or_else(|| Failure::invalid(format!("datafusion.sql_parser.dialect: no dialect {}", options.dialect)))?;
    let mut tokens = Tokenizer::new(dialect.as_ref(), text)
        .tokenize_with_location()
        .map_err(|error| syntax_failure(text, &ParserError::from(error)))?;
    let mut parameters = 0;
    for token in &mut tokens {
        if matches!(&token.token, Token::Placeholder(name) if name == "?") {
            parameters += 1;
            token.token = Token::Placeholder(format!("${parameters}"));
        }
    }
    if parameters > PARAMETERS_MAX {
        return Err(Failure::exhausted(format!("{parameters} parameters, at most {PARAMETERS_MAX}")));
    }
    let parsed = DFParserBuilder::new(tokens)
        .with_dialect(dialect.as_ref())
        .with_recursion_limit(options.recursion_limit.get())
        .build()
        .and_then(|mut parser| parser.parse_statements());
    let mut statements = parsed.map_err(|error| planning_failure(text, error))?;
    match (statements.pop_front(), statements.is_empty()) {
        (Some(statement), true) => Ok(statement),
        (Some(_), false) => Err(Failure::invalid("more than one statement").condition("PARSE_SYNTAX_ERROR")),
        (None, _) => Err(Failure::invalid("no statement").condition("PARSE_EMPTY_STATEMENT")),
    }
}

pub fn parser_options(state: &SessionState) -> ParserOptions {
    ParserOptions { collect_spans: true, ..ParserOptions::from(&state.config_options().sql_parser) }
}

// ---- tables and functions ----

struct Resolver {
    resolve: TableResolver,
    user: *mut c_void,
}
// Called while the caller waits, on its thread only; what holds it does not outlive the call.
unsafe impl Send for Resolver {}
unsafe impl Sync for Resolver {}

/// Tables by name, as the caller's resolver knows them.
#[derive(Default)]
pub struct Tables {
    resolver: Option<Resolver>,
    found: Mutex<HashMap<TableReference, Arc<dyn TableProvider>>>,
    numbers: AtomicU32,
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Tables")
    }
}

/// What planning asks: tables, functions of the session.
pub struct Context<'a> {
    pub state: &'a SessionState,
    pub tables: Arc<Tables>,
    hidden: Arc<Hidden>,
    /// The function that was looked for last, and in vain.
    missing: Mutex<Option<String>>,
    is_function_missing: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn parts(name: &TableReference) -> Vec<String> {
    match name {
        TableReference::Bare { table } => vec![table.to_string()],
        TableReference::Partial { schema, table } => vec![schema.to_string(), table.to_string()],
        TableReference::Full { catalog, schema, table } => {
            vec![catalog.to_string(), schema.to_string(), table.to_string()]
        }
    }
}

pub fn no_table(name: &TableReference) -> Failure {
    Failure::new(crate::abi::status::NOT_FOUND, format!("table {name} not found"))
        .condition("TABLE_OR_VIEW_NOT_FOUND")
        .param("relationName", name.to_string().as_bytes())
}

impl Tables {
    pub fn new(resolve: Option<TableResolver>, user: *mut c_void) -> Arc<Self> {
        Arc::new(Self { resolver: resolve.map(|resolve| Resolver { resolve, user }), ..Default::default() })
    }

    /// The table of that name; the same one each time.
    pub fn get(&self, name: &TableReference) -> Fallible<Arc<dyn TableProvider>> {
        if let Some(found) = locked(&self.found).get(name) {
            return Ok(Arc::clone(found));
        }
        let provider = self.resolve(name)?; // not with the lock held
        locked(&self.found).insert(name.clone(), Arc::clone(&provider));
        Ok(provider)
    }

    fn resolve(&self, name: &TableReference) -> Fallible<Arc<dyn TableProvider>> {
        let resolver = self.resolver.as_ref().ok_or_else(|| no_table(name))?;
        let texts: Vec<CString> = parts(name)
            .into_iter()
            .map(|part| CString::new(part).map_err(|_| Failure::invalid("a name with a NUL")))
            .collect::<Fallible<_>>()?;
        let pointers: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
        let schema = FFI_ArrowSchema::empty();
        let mut table = TableFound { source: std::ptr::null_mut(), plan: std::ptr::null_mut(), schema };
        let status = unsafe { (resolver.resolve)(resolver.user, pointers.as_ptr(), pointers.len(), &mut table) };
        if status != crate::abi::status::OK {
            return Err(Failure { status, ..no_table(name) }.condition(RESOLVER));
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let schema: SchemaRef = Arc::new(Schema::try_from(&table.schema)?);
        let meaning = match (table.source.is_null(), table.plan.is_null()) {
            (false, _) => Meaning::Source(unsafe { share::<Source>(table.source as Handle) }?),
            (true, false) => Meaning::View(Arc::clone(&unsafe { share::<Plan>(table.plan as Handle) }?.plan)),
            (true, true) => Meaning::Nothing,
        };
        Ok(Arc::new(Named { number, schema, meaning }))
    }
}

impl<'a> Context<'a> {
    pub fn new(state: &'a SessionState, resolve: Option<TableResolver>, user: *mut c_void) -> Self {
        let (tables, missing) = (Tables::new(resolve, user), Mutex::default());
        let hidden = state.config().get_extension::<Hidden>().unwrap_or_default();
        Self { state, tables, hidden, missing, is_function_missing: AtomicBool::new(false) }
    }

    fn is_public(&self, name: &str) -> bool {
        !self.hidden.0.contains(name)
    }

    /// The same failure, with what is known about an unknown function.
    pub fn explain(&self, failure: Failure) -> Failure {
        let is_missing = self.is_function_missing.load(Ordering::Relaxed) && failure.condition.is_none();
        match (is_missing, locked(&self.missing).take()) {
            (true, Some(name)) => failure.condition("UNRESOLVED_ROUTINE").param("routineName", name.as_bytes()),
            _ => failure,
        }
    }

    fn remember_missing<T>(&self, name: &str, found: Option<T>) -> Option<T> {
        if found.is_none() {
            *locked(&self.missing) = Some(name.to_string());
        }
        found
    }
}

impl ContextProvider for Context<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(self.tables.get(&name)?))
    }

    fn get_file_type(&self, extension: &str) -> Result<Arc<dyn FileType>> {
        match self.state.get_file_format_factory(extension) {
            Some(factory) => Ok(format_as_file_type(factory)),
            None => Err(Failure::unimplemented(format!("files of format {extension}")).into()),
        }
    }

    fn get_table_function_source(&self, name: &str, args: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
        let Some(function) = self.state.table_functions().get(name) else {
            let failure = Failure::invalid(format!("table function {name} not found"));
            return Err(failure.condition("UNRESOLVED_ROUTINE").param("routineName", name.as_bytes()).into());
        };
        let context = SimplifyContext::builder()
            .with_config_options(Arc::clone(self.state.config_options()))
            .with_query_execution_start_time(self.state.execution_props().query_execution_start_time)
            .build();
        let simplifier = ExprSimplifier::new(context);
        let schema = DFSchema::empty();
        let args = args
            .into_iter()
            .map(|arg| simplifier.coerce(arg, &schema).and_then(|arg| simplifier.simplify(arg)))
            .collect::<Result<Vec<_>>>()?;
        let provider = function.create_table_provider_with_args(TableFunctionArgs::new(&args, self.state))?;
        Ok(provider_as_source(provider))
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.state.expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        self.state.relation_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        None
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        let found = self.state.scalar_functions().get(name).filter(|_| self.is_public(name)).cloned();
        self.remember_missing(name, found)
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.state.higher_order_functions().get(name).filter(|_| self.is_public(name)).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state.aggregate_functions().get(name).filter(|_| self.is_public(name)).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).filter(|_| self.is_public(name)).cloned()
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    /// Asked only to make suggestions, when there is no function of a name.
    fn udf_names(&self) -> Vec<String> {
        self.is_function_missing.store(true, Ordering::Relaxed);
        self.state.scalar_functions().keys().filter(|name| self.is_public(name)).cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.state.higher_order_functions().keys().filter(|name| self.is_public(name)).cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().filter(|name| self.is_public(name)).cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().filter(|name| self.is_public(name)).cloned().collect()
    }
}

// ---- parameters ----

/// The parameters of a plan, in order: "$1", "$2", ..., or by their names. A type that nothing tells is null.
pub fn parameters(plan: &LogicalPlan) -> Fallible<Vec<Field>> {
    let fields = plan.get_parameter_fields()?;
    let make = |name: &str, field: &Option<FieldRef>| {
        let data_type = field.as_ref().map_or(DataType::Null, |field| field.data_type().clone());
        Field::new(name, data_type, true)
    };
    let mut numbers: Vec<usize> = fields.keys().filter_map(|name| name[1..].parse::<usize>().ok()).collect();
    numbers.sort_unstable();
    if numbers.len() == fields.len() {
        let count = numbers.last().copied().unwrap_or(0);
        if count > PARAMETERS_MAX {
            return Err(Failure::exhausted(format!("parameter ${count}, at most ${PARAMETERS_MAX}")));
        }
        let named = |number: usize| {
            let name = format!("${number}");
            make(&name, fields.get(&name).unwrap_or(&None))
        };
        return Ok((1..=count).map(named).collect());
    }
    let mut names: Vec<&String> = fields.keys().collect();
    names.sort_unstable();
    Ok(names.into_iter().map(|name| make(name, &fields[name])).collect())
}

/// One row of values, by place or (for named parameters) by name.
pub struct Bound {
    names: Vec<String>,
    values: Vec<ScalarValue>,
}

impl Bound {
    pub unsafe fn import(schema: &FFI_ArrowSchema, array: &FFI_ArrowArray, row: i64) -> Fallible<Self> {
        let Schema { fields, .. } = Schema::try_from(schema)?;
        // The array stays the caller's: what is imported is a shallow copy that releases nothing.
        let borrowed = unsafe { borrowed_array(array) };
        let whole = FFI_ArrowSchema::try_from(DataType::Struct(fields.clone()))?;
        let data = std::mem::ManuallyDrop::new(unsafe { from_ffi(borrowed, &whole) }?);
        let columns = StructArray::from(std::mem::ManuallyDrop::into_inner(data));
        let row = usize::try_from(row).ok().filter(|row| *row < columns.len());
        let row = row.ok_or_else(|| Failure::invalid("no such row of parameter values"))?;
        let mut values = vec![];
        for column in columns.columns() {
            values.push(ScalarValue::try_from_array(column, row)?);
        }
        Ok(Self { names: names(&fields), values })
    }
}

fn names(fields: &Fields) -> Vec<String> {
    fields.iter().map(|field| field.name().trim_start_matches('$').to_string()).collect()
}

unsafe extern "C" fn release_nothing(array: *mut FFI_ArrowArray) {
    if let Some(array) = unsafe { array.cast::<RawArray>().as_mut() } {
        array.release = None;
    }
}

/// struct ArrowArray.
#[repr(C)]
struct RawArray {
    numbers: [i64; 5],
    pointers: [*mut c_void; 3],
    release: Option<unsafe extern "C" fn(*mut FFI_ArrowArray)>,
    private_data: *mut c_void,
}

unsafe fn borrowed_array(array: &FFI_ArrowArray) -> FFI_ArrowArray {
    let mut copy: RawArray = unsafe { std::ptr::read((array as *const FFI_ArrowArray).cast()) };
    copy.release = Some(release_nothing);
    copy.private_data = std::ptr::null_mut();
    unsafe { std::mem::transmute(copy) }
}

fn fits(value: &ScalarValue, field: &Field) -> Fallible<ScalarValue> {
    let (is, wanted) = (value.data_type(), field.data_type());
    if is == *wanted || *wanted == DataType::Null {
        return Ok(value.clone());
    }
    value.cast_to(wanted).map_err(|_| {
        Failure::invalid(format!("parameter {}: a value of type {is} where {wanted} is needed", field.name()))
            .condition("INVALID_PARAMETER_VALUE")
            .param("parameter", field.name().as_bytes())
    })
}

/// Literals in the place of parameters; a value is cast to the type that its parameter was found to have.
pub fn bind(plan: LogicalPlan, bound: &Bound) -> Fallible<LogicalPlan> {
    let fields = parameters(&plan)?;
    if fields.is_empty() {
        return Ok(plan);
    }
    let is_named = fields.iter().any(|field| field.name()[1..].parse::<usize>().is_err());
    let place = |index: usize, field: &Field| match is_named {
        true => bound.names.iter().position(|name| *name == field.name()[1..]),
        false => Some(index).filter(|index| *index < bound.values.len()),
    };
    let mut values = vec![];
    for (index, field) in fields.iter().enumerate() {
        let value = place(index, field).map(|place| &bound.values[place]).ok_or_else(|| {
            Failure::invalid(format!("parameter {} has no value", field.name()))
                .condition("UNBOUND_SQL_PARAMETER")
                .param("name", field.name().as_bytes())
        })?;
        values.push((field.name()[1..].to_string(), ScalarAndMetadata::from(fits(value, field)?)));
    }
    let values = match is_named {
        true => ParamValues::Map(values.into_iter().collect()),
        false => ParamValues::List(values.into_iter().map(|(_, value)| value).collect()),
    };
    Ok(plan.with_param_values(values)?)
}

/// Parameters whose type nothing tells: null, so that the rest of the plan has types.
fn typed_parameters(plan: LogicalPlan) -> Fallible<LogicalPlan> {
    let null = |expr: Expr| match expr {
        Expr::Placeholder(Placeholder { id, field: None }) => {
            let field = Some(Arc::new(Field::new(&id, DataType::Null, true)));
            Ok(Transformed::yes(Expr::Placeholder(Placeholder { id, field })))
        }
        other => Ok(Transformed::no(other)),
    };
    let typed = plan.transform_down_with_subqueries(|plan| plan.map_expressions(|expr| expr.transform(null)))?;
    Ok(typed.data)
}

// ---- what is lifted ----

fn has_distinct_on(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let _ = plan.apply_with_subqueries(|plan| {
        found |= matches!(plan, LogicalPlan::Distinct(Distinct::On(_)));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

/// The plan with the engine's coercions written out, so that every expression has its final type.
pub fn analyzed(state: &SessionState, plan: LogicalPlan) -> Fallible<LogicalPlan> {
    let mut plan = typed_parameters(plan)?;
    if has_distinct_on(&plan) {
        let rule = ReplaceDistinctWithAggregate::new();
        let replaced = plan.transform_down_with_subqueries(|plan| match plan {
            LogicalPlan::Distinct(Distinct::On(_)) => rule.rewrite(plan, state),
            other => Ok(Transformed::no(other)),
        })?;
        plan = replaced.data;
    }
    Ok(state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?)
}
