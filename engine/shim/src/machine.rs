//! The stack machine of the plan encoding: items, the stack, and the main loop. Expressions are in lower_expr, relations
//! in lower_rel.
use crate::decode::Reader;
use crate::error::{Failure, Fallible};
use crate::features::arrow::datatypes::{DataType, FieldRef};
use crate::features::datafusion::common::{Column, ExprSchema};
use crate::features::datafusion::error::{DataFusionError, Result};
use crate::features::datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use crate::opaque::Original;
use crate::runtime::Session;
use crate::source::Source;
use std::collections::HashMap;
use std::sync::Arc;

/// Deeper expressions are refused: DataFusion's drop and clone recurse, on 32 MiB of stack.
pub const EXPR_DEPTH_MAX: u32 = 10_000;
/// Deeper plans are refused, for the same reason.
pub const REL_DEPTH_MAX: u32 = 2_000;
/// Nodes of a plan with its shared parts written out: sharing must not multiply work beyond this.
pub const PLAN_NODES_MAX: u64 = 1 << 23;

pub mod op {
    pub const LITERAL: u8 = 1;
    pub const COLUMN: u8 = 2;
    pub const CALL: u8 = 3;
    pub const CAST: u8 = 4;
    pub const CASE: u8 = 5;
    pub const IN_LIST: u8 = 6;
    pub const AGGREGATE: u8 = 7;
    pub const WINDOW: u8 = 8;
    pub const LAMBDA: u8 = 9;
    pub const LAMBDA_VARIABLE: u8 = 10;
    /// Lifted only: a column of an enclosing relation, a subquery.
    pub const OUTER: u8 = 11;
    pub const SUBQUERY: u8 = 12;
    pub const SCAN: u8 = 32;
    pub const VALUES: u8 = 33;
    pub const RANGE: u8 = 34;
    pub const PROJECT: u8 = 35;
    pub const FILTER: u8 = 36;
    pub const JOIN: u8 = 37;
    pub const AGGREGATE_REL: u8 = 38;
    pub const SORT: u8 = 39;
    pub const LIMIT: u8 = 40;
    pub const UNION: u8 = 41;
    pub const DISTINCT: u8 = 42;
    pub const SET: u8 = 43;
    pub const WINDOW_REL: u8 = 44;
    pub const UNNEST: u8 = 45;
    pub const SAMPLE: u8 = 46;
    pub const REPARTITION: u8 = 47;
    pub const EXTENSION: u8 = 48;
    pub const WRITE: u8 = 49;
    pub const SCAN_TYPED: u8 = 50;
    pub const OPAQUE: u8 = 51;
    pub const SHARE: u8 = 64;
    pub const SHARED: u8 = 65;
}

pub const MAGIC: &[u8; 4] = b"TRNP";
pub const VERSION: u32 = 1;

pub fn column_name(id: u32) -> String {
    format!("c{id}")
}

pub fn column_expr(id: u32) -> Expr {
    Expr::Column(Column::new_unqualified(column_name(id)))
}

/// A relation's output columns, by id: what DataFusion's own schema finds only by walking it.
#[derive(Debug, Default, Clone)]
pub struct Columns {
    pub order: Vec<u32>,
    pub fields: HashMap<u32, FieldRef>,
}

impl Columns {
    pub fn add(&mut self, id: u32, field: FieldRef) -> Fallible<()> {
        if self.fields.insert(id, field).is_some() {
            return Err(Failure::invalid(format!("column {id} is there twice")));
        }
        self.order.push(id);
        Ok(())
    }

    pub fn get(&self, id: u32) -> Fallible<&FieldRef> {
        self.fields.get(&id).ok_or_else(|| Failure::invalid(format!("column {id} is not in the input")))
    }
}

impl ExprSchema for Columns {
    fn field_from_column(&self, column: &Column) -> Result<&FieldRef> {
        let id = column.name.strip_prefix('c').and_then(|id| id.parse::<u32>().ok());
        id.and_then(|id| self.fields.get(&id))
            .ok_or_else(|| DataFusionError::Plan(format!("column {} is not in the input", column.name)))
    }
}

/// Levels of an expression: those that the optimizer sees, and all of them, with what is packed away (see fused).
#[derive(Debug, Default, Clone, Copy)]
pub struct Depth {
    pub seen: u32,
    pub full: u32,
}

impl Depth {
    fn max(self, other: Self) -> Self {
        Self { seen: self.seen.max(other.seen), full: self.full.max(other.full) }
    }

    fn deeper(self, levels: u32) -> Self {
        Self { seen: self.seen + levels, full: self.full + levels }
    }
}

#[derive(Debug, Clone)]
pub struct Expression {
    pub expr: Expr,
    pub depth: Depth,
    pub nodes: u64,
    /// Ids that are used, with repeats.
    pub columns: Vec<u32>,
    /// Of aggregates and window functions: the type that the plan says they have.
    pub declared: Option<DataType>,
}

#[derive(Debug, Clone)]
pub struct Relation {
    pub plan: Arc<LogicalPlan>,
    pub columns: Arc<Columns>,
    pub depth: u32,
    pub nodes: u64,
}

impl Relation {
    pub fn schema_check(&self, ids: &[u32]) -> Fallible<()> {
        ids.iter().try_for_each(|id| self.columns.get(*id).map(|_| ()))
    }
}

pub enum Item {
    Expression(Expression),
    /// An AND or OR whose terms are still being collected: it becomes a balanced tree, so that a thousand terms are ten deep.
    Chain {
        operator: Operator,
        terms: Vec<Expr>,
        depth: Depth,
        nodes: u64,
        columns: Vec<u32>,
    },
    Relation(Relation),
}

pub struct Machine<'a> {
    pub session: &'a Session,
    pub sources: &'a [Arc<Source>],
    pub originals: &'a [Original],
    pub reader: Reader<'a>,
    pub stack: Vec<Item>,
    pub shared: HashMap<u32, Relation>,
    pub scans: u32,
    /// Every column so far: ids are unique in a plan, and a column's relation comes before what uses it.
    pub known: Columns,
}

/// Combines `terms` (at least one) pairwise.
fn balance(operator: Operator, mut terms: Vec<Expr>) -> Option<Expr> {
    while terms.len() > 1 {
        let mut next = Vec::with_capacity(terms.len().div_ceil(2));
        let mut rest = terms.into_iter();
        while let Some(left) = rest.next() {
            next.push(match rest.next() {
                Some(right) => Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right))),
                None => left,
            });
        }
        terms = next;
    }
    terms.pop()
}

pub fn merge_columns(mut into: Vec<u32>, mut from: Vec<u32>) -> Vec<u32> {
    if into.len() < from.len() {
        std::mem::swap(&mut into, &mut from);
    }
    into.append(&mut from);
    into
}

impl<'a> Machine<'a> {
    pub fn new(session: &'a Session, sources: &'a [Arc<Source>], originals: &'a [Original], bytes: &'a [u8]) -> Self {
        let (reader, known) = (Reader::new(bytes), Columns::default());
        Self { session, sources, originals, reader, stack: vec![], shared: HashMap::new(), scans: 0, known }
    }

    pub fn run(mut self) -> Fallible<Relation> {
        if self.reader.take(4)? != MAGIC {
            return Err(Failure::invalid("not a plan"));
        }
        let version = self.reader.u32()?;
        if version != VERSION {
            return Err(Failure::invalid(format!("a plan of version {version}")));
        }
        while !self.reader.is_done() {
            let code = self.reader.u8()?;
            match code {
                op::LITERAL..=op::LAMBDA_VARIABLE => self.expression(code)?,
                op::SCAN..=op::OPAQUE => self.relation(code)?,
                op::SHARE => {
                    let slot = self.reader.u32()?;
                    let relation = self.pop_relation()?;
                    self.shared.insert(slot, relation.clone());
                    self.stack.push(Item::Relation(relation));
                }
                op::SHARED => {
                    let slot = self.reader.u32()?;
                    let relation = self.shared.get(&slot).cloned();
                    let relation = relation.ok_or_else(|| self.reader.invalid(format!("nothing shared as {slot}")))?;
                    self.stack.push(Item::Relation(relation));
                }
                other => return Err(self.reader.invalid(format!("unknown operation {other}"))),
            }
        }
        let relation = self.pop_relation()?;
        match self.stack.is_empty() {
            true => Ok(relation),
            false => Err(self.reader.invalid("more than one relation is left")),
        }
    }

    pub fn pop_relation(&mut self) -> Fallible<Relation> {
        match self.stack.pop() {
            Some(Item::Relation(relation)) => Ok(relation),
            _ => Err(self.reader.invalid("a relation is missing")),
        }
    }

    pub fn push_relation(
        &mut self,
        plan: LogicalPlan,
        columns: Arc<Columns>,
        inputs: &[&Relation],
        nodes: u64,
    ) -> Fallible<()> {
        let depth = inputs.iter().map(|input| input.depth).max().unwrap_or(0) + 1;
        if depth > REL_DEPTH_MAX {
            return Err(Failure::exhausted(format!("the plan nests deeper than {REL_DEPTH_MAX} relations")));
        }
        let total: u64 = inputs.iter().map(|input| input.nodes).sum::<u64>().saturating_add(nodes).saturating_add(1);
        if total > PLAN_NODES_MAX {
            return Err(Failure::exhausted(format!("the plan has more than {PLAN_NODES_MAX} nodes")));
        }
        if !inputs.iter().any(|input| Arc::ptr_eq(&input.columns, &columns)) {
            for (id, field) in &columns.fields {
                self.known.fields.insert(*id, Arc::clone(field));
            }
        }
        self.stack.push(Item::Relation(Relation { plan: Arc::new(plan), columns, depth, nodes: total }));
        Ok(())
    }

    pub fn pop_expression(&mut self) -> Fallible<Expression> {
        let item = self.stack.pop();
        match item {
            Some(Item::Expression(expression)) => Ok(expression),
            Some(Item::Chain { operator, terms, depth, nodes, columns }) => {
                let levels = usize::BITS - terms.len().leading_zeros();
                let expr = balance(operator, terms).ok_or_else(|| self.reader.invalid("an empty chain"))?;
                Ok(Expression { expr, depth: depth.deeper(levels), nodes, columns, declared: None })
            }
            _ => Err(self.reader.invalid("an expression is missing")),
        }
    }

    /// The last `count` items, which must be expressions, first pushed first.
    pub fn pop_expressions(&mut self, count: usize) -> Fallible<Vec<Expression>> {
        if count > self.stack.len() {
            return Err(self.reader.invalid(format!("{count} operands, but {} are there", self.stack.len())));
        }
        let mut out = Vec::with_capacity(count);
        for _ in 0..count {
            out.push(self.pop_expression()?);
        }
        out.reverse();
        Ok(out)
    }

    /// Pushes an expression made of `expr`, whose parts were `parts`.
    pub fn push_expression(&mut self, expr: Expr, parts: Parts) -> Fallible<()> {
        self.push_declared(expr, parts, None)
    }

    pub fn push_declared(&mut self, expr: Expr, parts: Parts, declared: Option<DataType>) -> Fallible<()> {
        let depth = parts.depth.deeper(1);
        if depth.full > EXPR_DEPTH_MAX {
            return Err(Failure::exhausted(format!("an expression nests deeper than {EXPR_DEPTH_MAX}")));
        }
        let (nodes, columns) = (parts.nodes + 1, parts.columns);
        self.stack.push(Item::Expression(Expression { expr, depth, nodes, columns, declared }));
        Ok(())
    }

    /// AND and OR: collected while they continue the chain on the left.
    pub fn push_chain(&mut self, operator: Operator, count: usize) -> Fallible<()> {
        if count < 2 {
            return Err(self.reader.invalid("and/or with less than two operands"));
        }
        if count > self.stack.len() {
            return Err(self.reader.invalid("operands are missing"));
        }
        let mut rest = self.pop_expressions(count - 1)?;
        let (mut terms, mut depth, mut nodes, mut columns) = match self.stack.pop() {
            Some(Item::Chain { operator: same, terms, depth, nodes, columns }) if same == operator => {
                (terms, depth, nodes, columns)
            }
            Some(item) => {
                self.stack.push(item);
                let first = self.pop_expression()?;
                (vec![first.expr], first.depth, first.nodes, first.columns)
            }
            None => return Err(self.reader.invalid("an operand is missing")),
        };
        for part in rest.drain(..) {
            depth = depth.max(part.depth);
            nodes += part.nodes + 1;
            columns = merge_columns(columns, part.columns);
            terms.push(part.expr);
        }
        if depth.full + 64 > EXPR_DEPTH_MAX {
            return Err(Failure::exhausted(format!("an expression nests deeper than {EXPR_DEPTH_MAX}")));
        }
        self.stack.push(Item::Chain { operator, terms, depth, nodes, columns });
        Ok(())
    }
}

/// What a new expression inherits from its parts.
#[derive(Default)]
pub struct Parts {
    pub depth: Depth,
    pub nodes: u64,
    pub columns: Vec<u32>,
}

impl Parts {
    /// Takes the parts apart: their expressions, and the rest.
    pub fn split(expressions: Vec<Expression>) -> (Vec<Expr>, Parts) {
        let mut parts = Parts::default();
        let mut exprs = Vec::with_capacity(expressions.len());
        for part in expressions {
            parts.depth = parts.depth.max(part.depth);
            parts.nodes = parts.nodes.saturating_add(part.nodes);
            parts.columns = merge_columns(std::mem::take(&mut parts.columns), part.columns);
            exprs.push(part.expr);
        }
        (exprs, parts)
    }
}
