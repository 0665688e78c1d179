//! Work that nobody wants any more. Planning runs on the thread of its caller, which says where it can be seen (`watch`); a
//! partition that runs sees it while it is polled (`during`). Whatever may take long asks between its steps (`check`).
use crate::error::Failure;
use crate::features::datafusion::config::ConfigOptions;
use crate::features::datafusion::error::Result;
use crate::features::datafusion::logical_expr::LogicalPlan;
use crate::features::datafusion::common::tree_node::Transformed;
use crate::features::datafusion::optimizer::optimizer::{ApplyOrder, Optimizer};
use crate::features::datafusion::optimizer::{Analyzer, AnalyzerRule, OptimizerConfig, OptimizerRule};
use crate::features::datafusion::physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule};
use crate::features::datafusion::physical_plan::ExecutionPlan;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll};

#[derive(Clone)]
enum Wish {
    /// A flag of the caller's, that lives until the next watch.
    Caller(*const AtomicU32),
    Run(Arc<AtomicBool>),
}

thread_local! {
    static WISH: RefCell<Option<Wish>> = const { RefCell::new(None) };
}

/// NULL: nobody cancels.
pub fn watch(flag: *const u32) {
    WISH.set((!flag.is_null()).then_some(Wish::Caller(flag as *const AtomicU32)));
}

pub fn check() -> Result<()> {
    let is_cancelled = WISH.with_borrow(|wish| match wish {
        None => false,
        Some(Wish::Caller(flag)) => unsafe { &**flag }.load(Ordering::Relaxed) != 0,
        Some(Wish::Run(flag)) => flag.load(Ordering::Relaxed),
    });
    if is_cancelled { Err(Failure::cancelled().into()) } else { Ok(()) }
}

/// The future, whose steps see `flag`.
pub fn during<F: Future>(flag: Arc<AtomicBool>, inner: F) -> During<F> {
    During { flag, inner: Box::pin(inner) }
}

pub struct During<F> {
    flag: Arc<AtomicBool>,
    inner: Pin<Box<F>>,
}

/// Puts back what was there, also after a panic.
struct Restore(Option<Wish>);

impl Drop for Restore {
    fn drop(&mut self) {
        WISH.set(self.0.take());
    }
}

impl<F: Future> Future for During<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _restore = Restore(WISH.replace(Some(Wish::Run(Arc::clone(&self.flag)))));
        self.inner.as_mut().poll(context)
    }
}

// ---- rules that ask ----

#[derive(Debug)]
struct Asking<T: ?Sized>(Arc<T>);

impl AnalyzerRule for Asking<dyn AnalyzerRule + Send + Sync> {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        check()?;
        self.0.analyze(plan, config)
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

/// Most rules are applied node by node.
impl OptimizerRule for Asking<dyn OptimizerRule + Send + Sync> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        check()?;
        self.0.rewrite(plan, config)
    }
}

impl PhysicalOptimizerRule for Asking<dyn PhysicalOptimizerRule + Send + Sync> {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        check()?;
        self.0.optimize(plan, config)
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        check()?;
        self.0.optimize_with_context(plan, context)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

pub fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    Analyzer::new().rules.into_iter().map(|rule| Arc::new(Asking(rule)) as _).collect()
}

pub fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    Optimizer::new().rules.into_iter().map(|rule| Arc::new(Asking(rule)) as _).collect()
}

pub fn physical_rules(
    rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    rules.into_iter().map(|rule| Arc::new(Asking(rule)) as _).collect()
}
