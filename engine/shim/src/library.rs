//! What function libraries, and this crate itself, add to DataFusion's registries.
use crate::abi::{FUNCTIONS_HIDDEN, FunctionLibrary};
use crate::aggregates::LibraryAggregate;
use crate::error::{Failure, Fallible};
use crate::features::datafusion::catalog::TableFunctionImpl;
use crate::features::datafusion::execution::FunctionRegistry;
use crate::features::datafusion::execution::session_state::SessionState;
use crate::features::datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use crate::fold::Fold;
use crate::functions::LibraryScalar;
use crate::functions_lambda::LibraryLambda;
use crate::functions_table::LibraryTable;
use crate::functions_window::LibraryWindow;
use crate::operator::LibraryOperator;
use crate::runtime::slice;
use crate::sort_by::SortBy;
use std::collections::{HashMap, HashSet};
use std::mem::offset_of;
use std::sync::Arc;

/// Names of functions that texts do not know: a session's setting.
#[derive(Default)]
pub struct Hidden(pub HashSet<String>);

pub struct Functions {
    pub scalars: HashMap<String, Arc<ScalarUDF>>,
    pub aggregates: HashMap<String, LibraryAggregate>,
    pub aggregate_functions: Vec<Arc<AggregateUDF>>,
    pub windows: Vec<Arc<WindowUDF>>,
    pub higher: Vec<Arc<HigherOrderUDF>>,
    pub tables: Vec<(String, Arc<dyn TableFunctionImpl>)>,
    pub operators: HashMap<String, LibraryOperator>,
    pub hidden: Hidden,
}

/// Where a member of a library's table ends.
macro_rules! end_of {
    ($member:ident) => {
        offset_of!(FunctionLibrary, $member) + size_of::<usize>()
    };
}

impl Functions {
    /// The libraries' tables live as long as the process.
    pub unsafe fn read(libraries: &[*const FunctionLibrary]) -> Fallible<Self> {
        let mut out = Self {
            scalars: HashMap::new(),
            aggregates: HashMap::new(),
            aggregate_functions: vec![],
            windows: vec![],
            higher: vec![
                Arc::new(HigherOrderUDF::new_from_impl(Fold::new())),
                Arc::new(HigherOrderUDF::new_from_impl(SortBy::new())),
            ],
            tables: vec![],
            operators: HashMap::new(),
            hidden: Hidden::default(),
        };
        for library in libraries {
            let library = unsafe { library.as_ref() }.ok_or_else(|| Failure::invalid("a function library is NULL"))?;
            if library.abi != crate::abi::FUNCTION_ABI {
                return Err(Failure::invalid(format!("a function library has ABI {}", library.abi)));
            }
            unsafe { out.add(library) }?;
        }
        Ok(out)
    }

    unsafe fn add(&mut self, library: &FunctionLibrary) -> Fallible<()> {
        // What an older library does not have.
        let has = |end: usize| library.struct_size >= end;
        let is_hidden = has(end_of!(flags)) && library.flags & FUNCTIONS_HIDDEN != 0;
        let mut names = vec![];
        for function in unsafe { slice(library.scalars, library.scalar_count, "scalar functions") }? {
            let function = unsafe { LibraryScalar::new(*function) }?;
            let udf = Arc::new(ScalarUDF::new_from_impl(function));
            names.push(udf.name().to_string());
            self.scalars.insert(udf.name().to_string(), udf);
        }
        for function in unsafe { slice(library.aggregates, library.aggregate_count, "aggregate functions") }? {
            let function = unsafe { LibraryAggregate::new(*function) }?;
            names.push(function.function_name().to_string());
            self.aggregate_functions.push(Arc::new(AggregateUDF::new_from_impl(function.clone())));
            self.aggregates.insert(function.function_name().to_string(), function);
        }
        if has(end_of!(window_count)) {
            for function in unsafe { slice(library.windows, library.window_count, "window functions") }? {
                let function = unsafe { LibraryWindow::new(*function) }?;
                let function = Arc::new(WindowUDF::new_from_impl(function));
                names.push(function.name().to_string());
                self.windows.push(function);
            }
        }
        if has(end_of!(table_count)) {
            for function in unsafe { slice(library.tables, library.table_count, "table functions") }? {
                let function = unsafe { LibraryTable::new(*function) }?;
                self.tables.push((function.name.clone(), Arc::new(function)));
            }
        }
        if has(end_of!(operator_count)) {
            for operator in unsafe { slice(library.operators, library.operator_count, "operators") }? {
                let operator = unsafe { LibraryOperator::new(*operator) }?;
                self.operators.insert(operator.name.clone(), operator);
            }
        }
        if has(end_of!(lambda_count)) {
            for function in unsafe { slice(library.lambdas, library.lambda_count, "functions with lambdas") }? {
                let function = Arc::new(HigherOrderUDF::new_from_impl(unsafe { LibraryLambda::new(*function) }?));
                names.push(function.name().to_string());
                self.higher.push(function);
            }
        }
        if is_hidden {
            self.hidden.0.extend(names);
        }
        Ok(())
    }

    /// All but operators, which plans carry themselves.
    pub fn register(&self, state: &mut SessionState) -> Fallible<()> {
        for function in self.scalars.values() {
            state.register_udf(Arc::clone(function))?;
        }
        for function in &self.aggregate_functions {
            state.register_udaf(Arc::clone(function))?;
        }
        for function in &self.windows {
            state.register_udwf(Arc::clone(function))?;
        }
        for function in &self.higher {
            state.register_higher_order_function(Arc::clone(function))?;
        }
        for (name, function) in &self.tables {
            state.register_udtf(name, Arc::clone(function));
        }
        Ok(())
    }
}
