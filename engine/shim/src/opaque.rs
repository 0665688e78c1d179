//! Nodes that lifting did not know: the engine's original, and how it is put over inputs that were lowered again.
use crate::as_is::AsIs;
use crate::error::{Failure, Fallible};
use crate::features::datafusion::common::Column;
use crate::features::datafusion::common::tree_node::TreeNode;
use crate::features::datafusion::logical_expr::expr::Alias;
use crate::features::datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use crate::lower_rel::{aliased, as_type, projection, renamed};
use crate::machine::{Columns, Machine, Relation, column_expr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A label is cut to this many bytes.
const LABEL_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, Clone)]
pub struct Original {
    pub plan: Arc<LogicalPlan>,
    /// The inputs of the plan are not replaced.
    whole: bool,
    /// The lifted inputs are in the other order.
    reversed: bool,
}

impl Original {
    pub fn whole(plan: &LogicalPlan) -> Self {
        Self { plan: Arc::new(plan.clone()), whole: true, reversed: false }
    }

    pub fn over_inputs(plan: &LogicalPlan, reversed: bool) -> Self {
        Self { plan: Arc::new(plan.clone()), whole: false, reversed }
    }

    /// Whether it reads tables that are not among its lifted inputs.
    fn has_tables(&self) -> bool {
        let is_subquery = |expr: &Expr| {
            matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_))
        };
        let exists = |expr: Expr| expr.exists(|part| Ok(is_subquery(part))).unwrap_or(true);
        let is_physical = match self.plan.as_ref() {
            LogicalPlan::Extension(extension) => extension.node.as_any().is::<AsIs>(),
            _ => false,
        };
        is_physical || self.whole || self.plan.expressions().into_iter().any(exists)
    }

    /// What the node does, as text: equal only for nodes that do the same.
    pub fn label(&self) -> String {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let mut text = match self.whole {
            true => self.plan.display_indent().to_string(),
            false => self.plan.display().to_string(),
        };
        // Tables have names in it, which may mean something else tomorrow.
        if self.has_tables() || text.len() > LABEL_BYTES_MAX {
            text.insert_str(0, &format!("#{} ", SERIAL.fetch_add(1, Ordering::Relaxed)));
        }
        if text.len() > LABEL_BYTES_MAX {
            let end = (0..=LABEL_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text.truncate(end);
        }
        text
    }

    /// These run as the root only, and their columns keep their names.
    fn is_root_only(&self) -> bool {
        matches!(self.plan.as_ref(), LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) | LogicalPlan::DescribeTable(_))
    }
}

/// A relation with the names and types that the original's expressions count on.
fn as_input(relation: &Relation, original: &LogicalPlan) -> Fallible<LogicalPlan> {
    let schema = original.schema();
    if schema.fields().len() != relation.columns.order.len() {
        return Err(Failure::invalid(format!(
            "an operator over {} columns, but its input has {}",
            schema.fields().len(),
            relation.columns.order.len()
        )));
    }
    let mut exprs = Vec::with_capacity(schema.fields().len());
    for (id, (qualifier, field)) in relation.columns.order.iter().zip(schema.iter()) {
        let is = relation.columns.get(*id)?.data_type();
        let expr = as_type(column_expr(*id), is, field.data_type());
        exprs.push(Expr::Alias(Alias::new(expr, qualifier.cloned(), field.name())));
    }
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::clone(&relation.plan))?))
}

impl Machine<'_> {
    pub fn opaque(&mut self) -> Fallible<()> {
        let index = self.reader.u32()? as usize;
        let original = self.originals.get(index).cloned();
        let original = original.ok_or_else(|| self.reader.invalid(format!("no original {index}")))?;
        self.reader.str()?;
        let input_count = self.reader.u32()? as usize;
        let count = self.reader.count(4 + 12 + 1)?;
        let mut ids = Vec::with_capacity(count);
        for _ in 0..count {
            ids.push(self.reader.u32()?);
            self.reader.data_type()?;
            self.reader.flag()?;
        }
        let wanted = if original.whole { vec![] } else { original.plan.inputs() };
        if input_count != wanted.len() || input_count > self.stack.len() {
            return Err(self.reader.invalid(format!("an operator with {input_count} inputs")));
        }
        let mut inputs: Vec<Relation> = (0..input_count).map(|_| self.pop_relation()).collect::<Fallible<_>>()?;
        if !original.reversed {
            inputs.reverse(); // they were popped last first
        }
        let plan = match original.whole {
            true => original.plan.as_ref().clone(),
            false => {
                let mut plans = Vec::with_capacity(inputs.len());
                for (relation, original) in inputs.iter().zip(&wanted) {
                    plans.push(as_input(relation, original)?);
                }
                original.plan.with_new_exprs(original.plan.expressions(), plans)?
            }
        };
        let borrowed: Vec<&Relation> = inputs.iter().collect();
        self.place(plan, &ids, &borrowed, original.is_root_only())
    }

    fn place(&mut self, plan: LogicalPlan, ids: &[u32], inputs: &[&Relation], keep: bool) -> Fallible<()> {
        let schema = Arc::clone(plan.schema());
        if schema.fields().len() != ids.len() {
            return Err(self.reader.invalid(format!("an operator gives {} columns", schema.fields().len())));
        }
        let mut columns = Columns::default();
        let mut exprs = Vec::with_capacity(ids.len());
        for (id, (qualifier, field)) in ids.iter().zip(schema.iter()) {
            columns.add(*id, renamed(field, *id))?;
            exprs.push(aliased(Expr::Column(Column::new(qualifier.cloned(), field.name())), *id));
        }
        let nodes = ids.len() as u64;
        match keep {
            true => self.push_relation(plan, Arc::new(columns), inputs, nodes),
            false => {
                let plan = projection(Arc::new(plan), exprs, &columns)?;
                self.push_relation(plan, Arc::new(columns), inputs, nodes)
            }
        }
    }
}
