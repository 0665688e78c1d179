//! Lifting: a LogicalPlan as the encoding. Every column of every relation gets an id of its own; a relation's scope says
//! which column of the engine's schema has which. Works on plans with a bounded depth.
use crate::error::{Failure, Fallible};
use crate::features::arrow::datatypes::DataType;
use crate::features::datafusion::common::{Column, DFSchema, JoinType, NullEquality, ScalarValue};
use crate::features::datafusion::datasource::source_as_provider;
use crate::features::datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprSchemable, Join, LogicalPlan, Operator, TableScan, Values,
};
use crate::lift_expr::{Encoder, expression, unaliased};
use crate::machine::{MAGIC, REL_DEPTH_MAX, VERSION, op};
use crate::range::Range;
use crate::source::Source;
use std::collections::HashMap;
use std::sync::Arc;

pub struct Lifted {
    pub bytes: Vec<u8>,
    pub sources: Vec<Arc<Source>>,
}

/// The ids of a relation's columns, by their place in its schema.
pub type Ids = Vec<u32>;

/// What an expression's columns refer to.
pub struct Scope<'a> {
    pub schema: &'a DFSchema,
    pub ids: &'a [u32],
}

impl Scope<'_> {
    pub fn id(&self, column: &Column) -> Fallible<u32> {
        let place = self.schema.index_of_column(column)?;
        self.ids.get(place).copied().ok_or_else(|| Failure::internal("a column without an id"))
    }
}

pub struct Lifter {
    pub out: Encoder,
    sources: Vec<Arc<Source>>,
    /// By the provider's address: one source for each.
    known: HashMap<usize, u32>,
    next_id: u32,
    depth: u32,
}

pub fn lift(plan: &LogicalPlan) -> Fallible<Lifted> {
    let mut lifter = Lifter { out: Encoder::default(), sources: vec![], known: HashMap::new(), next_id: 0, depth: 0 };
    lifter.out.bytes.extend_from_slice(MAGIC);
    lifter.out.u32(VERSION);
    lifter.relation(plan)?;
    Ok(Lifted { bytes: lifter.out.bytes, sources: lifter.sources })
}

fn unknown(plan: &LogicalPlan) -> Failure {
    let text = plan.display().to_string();
    Failure::unimplemented(format!("lifting of {}", text.split([':', ' ']).next().unwrap_or("a relation")))
}

impl Lifter {
    fn fresh(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id - 1
    }

    fn fresh_ids(&mut self, count: usize) -> Ids {
        (0..count).map(|_| self.fresh()).collect()
    }

    fn put_ids(&mut self, ids: &[u32]) {
        ids.iter().for_each(|id| self.out.u32(*id));
    }

    fn relation(&mut self, plan: &LogicalPlan) -> Fallible<Ids> {
        self.depth += 1;
        if self.depth > REL_DEPTH_MAX {
            return Err(Failure::exhausted(format!("the plan nests deeper than {REL_DEPTH_MAX} relations")));
        }
        let ids = self.any_relation(plan)?;
        self.depth -= 1;
        Ok(ids)
    }

    fn any_relation(&mut self, plan: &LogicalPlan) -> Fallible<Ids> {
        match plan {
            LogicalPlan::Projection(projection) => {
                let ids = self.relation(&projection.input)?;
                self.project(projection.input.schema(), &ids, &projection.expr)
            }
            LogicalPlan::Filter(filter) => {
                let ids = self.relation(&filter.input)?;
                expression(&mut self.out, &filter.predicate, &Scope { schema: filter.input.schema(), ids: &ids })?;
                self.out.u8(op::FILTER);
                Ok(ids)
            }
            LogicalPlan::SubqueryAlias(alias) => self.relation(&alias.input),
            LogicalPlan::Sort(sort) => {
                let ids = self.relation(&sort.input)?;
                let scope = Scope { schema: sort.input.schema(), ids: &ids };
                for key in &sort.expr {
                    expression(&mut self.out, &key.expr, &scope)?;
                }
                self.out.u8(op::SORT);
                self.out.u32(sort.expr.len() as u32);
                sort.expr.iter().for_each(|key| self.out.sort_flag(key));
                self.out.i64(sort.fetch.map_or(-1, |fetch| fetch as i64));
                Ok(ids)
            }
            LogicalPlan::Limit(limit) => {
                let ids = self.relation(&limit.input)?;
                let rows = |expr: &Option<Box<Expr>>, none: i64| match expr.as_deref() {
                    None => Ok(none),
                    Some(Expr::Literal(ScalarValue::Int64(Some(rows)), _)) => Ok(*rows),
                    Some(Expr::Literal(value, _)) if value.is_null() => Ok(none),
                    Some(_) => Err(Failure::unimplemented("lifting of a limit that is computed")),
                };
                let (skip, fetch) = (rows(&limit.skip, 0)?, rows(&limit.fetch, -1)?);
                self.out.u8(op::LIMIT);
                self.out.i64(skip);
                self.out.i64(fetch);
                Ok(ids)
            }
            LogicalPlan::TableScan(scan) => self.scan(scan),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Union(union) => {
                let width = union.schema.fields().len();
                let mut inputs = vec![];
                for input in &union.inputs {
                    inputs.push(self.relation(input)?);
                }
                let ids = self.fresh_ids(width);
                self.out.u8(op::UNION);
                self.out.u32(inputs.len() as u32);
                self.out.u32(width as u32);
                self.put_ids(&ids);
                inputs.iter().for_each(|input| self.put_ids(input));
                Ok(ids)
            }
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let ids = self.relation(input)?;
                self.out.u8(op::DISTINCT);
                Ok(ids)
            }
            LogicalPlan::EmptyRelation(empty) => {
                // One row has no columns of its own, whatever the schema says.
                let schema = empty.schema.as_ref();
                match empty.produce_one_row {
                    true if schema.fields().is_empty() => self.values(schema, &[vec![]]),
                    true => Err(unknown(plan)),
                    false => self.values(schema, &[]),
                }
            }
            LogicalPlan::Values(Values { schema, values }) => self.values(schema, values),
            other => Err(unknown(other)),
        }
    }

    fn project(&mut self, schema: &DFSchema, input: &[u32], exprs: &[Expr]) -> Fallible<Ids> {
        let scope = Scope { schema, ids: input };
        let mut ids: Ids = vec![];
        for expr in exprs {
            let expr = unaliased(expr);
            expression(&mut self.out, expr, &scope)?;
            // A column keeps its id, the first time.
            let kept = match expr {
                Expr::Column(column) => Some(scope.id(column)?).filter(|id| !ids.contains(id)),
                _ => None,
            };
            let id = kept.unwrap_or_else(|| self.fresh());
            ids.push(id);
        }
        self.out.u8(op::PROJECT);
        self.out.u32(ids.len() as u32);
        self.put_ids(&ids);
        Ok(ids)
    }

    fn scan(&mut self, scan: &TableScan) -> Fallible<Ids> {
        let provider = source_as_provider(&scan.source)?;
        let schema = provider.schema();
        let places: Vec<usize> = match &scan.projection {
            Some(projection) => projection.clone(),
            None => (0..schema.fields().len()).collect(),
        };
        let mut ids = self.fresh_ids(places.len());
        if let Some(range) = provider.downcast_ref::<Range>() {
            let id = self.fresh();
            self.out.u8(op::RANGE);
            self.out.i64(range.start);
            self.out.i64(range.end);
            self.out.i64(range.step);
            self.out.u32(range.partitions);
            self.out.u32(id);
            ids = places.iter().map(|_| id).collect();
        } else {
            let key = Arc::as_ptr(&provider) as *const () as usize;
            let index = match self.known.get(&key) {
                Some(index) => *index,
                None => {
                    let source = Source { provider, schema };
                    self.sources.push(Arc::new(source));
                    let index = self.sources.len() as u32 - 1;
                    self.known.insert(key, index);
                    index
                }
            };
            self.out.u8(op::SCAN);
            self.out.u32(index);
            self.out.u32(places.len() as u32);
            for (place, id) in places.iter().zip(&ids) {
                self.out.u32(*place as u32);
                self.out.u32(*id);
            }
        }
        // Filters that the optimizer moved into the scan; their columns may be ones that the projection leaves out.
        let scope = Scope { schema: &scan.projected_schema, ids: &ids };
        for filter in &scan.filters {
            if filter.column_refs().iter().any(|column| scope.id(column).is_err()) {
                return Err(Failure::unimplemented("lifting of a scan that filters by a column it does not give"));
            }
            expression(&mut self.out, filter, &scope)?;
            self.out.u8(op::FILTER);
        }
        if let Some(fetch) = scan.fetch {
            self.out.u8(op::LIMIT);
            self.out.i64(0);
            self.out.i64(fetch as i64);
        }
        Ok(ids)
    }

    fn join(&mut self, join: &Join) -> Fallible<Ids> {
        let kind = match join.join_type {
            JoinType::Inner => 0,
            JoinType::Left => 1,
            JoinType::Right => 2,
            JoinType::Full => 3,
            JoinType::LeftSemi | JoinType::RightSemi => 4,
            JoinType::LeftAnti | JoinType::RightAnti => 5,
            JoinType::LeftMark | JoinType::RightMark => 6,
        };
        // The encoding has left forms only.
        let swap = matches!(join.join_type, JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark);
        let (mut left, mut right) = (&join.left, &join.right);
        if swap {
            std::mem::swap(&mut left, &mut right);
        }
        let left_ids = self.relation(left)?;
        let right_ids = self.relation(right)?;
        let both: DFSchema = left.schema().join(right.schema())?;
        let mut all = left_ids.clone();
        all.extend(&right_ids);
        let operator = match join.null_equality {
            NullEquality::NullEqualsNothing => Operator::Eq,
            NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
        };
        let pair = |(a, b): &(Expr, Expr)| {
            Expr::BinaryExpr(BinaryExpr::new(Box::new(a.clone()), operator, Box::new(b.clone())))
        };
        let terms: Vec<Expr> = join.on.iter().map(pair).chain(join.filter.clone()).collect();
        let scope = Scope { schema: &both, ids: &all };
        for (index, term) in terms.iter().enumerate() {
            expression(&mut self.out, term, &scope)?;
            if index > 0 {
                self.out.call(0, "and", 2, &DataType::Boolean)?;
            }
        }
        let mut ids = left_ids;
        let mark = if kind == 6 { self.fresh() } else { 0 };
        match kind {
            0..=3 => ids.extend(right_ids),
            6 => ids.push(mark),
            _ => {}
        }
        self.out.u8(op::JOIN);
        self.out.u8(kind);
        self.out.u8(u8::from(join.null_aware));
        self.out.u8(u8::from(!terms.is_empty()));
        self.out.u32(mark);
        Ok(ids)
    }

    fn aggregate(&mut self, aggregate: &Aggregate) -> Fallible<Ids> {
        if aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
            return Err(Failure::unimplemented("lifting of grouping sets"));
        }
        let input = self.relation(&aggregate.input)?;
        let scope = Scope { schema: aggregate.input.schema(), ids: &input };
        for expr in aggregate.group_expr.iter().chain(&aggregate.aggr_expr) {
            expression(&mut self.out, unaliased(expr), &scope)?;
        }
        let ids = self.fresh_ids(aggregate.group_expr.len() + aggregate.aggr_expr.len());
        self.out.u8(op::AGGREGATE_REL);
        self.out.u32(aggregate.group_expr.len() as u32);
        self.out.u32(aggregate.aggr_expr.len() as u32);
        self.put_ids(&ids);
        self.out.u32(0);
        self.out.u32(0);
        Ok(ids)
    }

    fn values(&mut self, schema: &DFSchema, rows: &[Vec<Expr>]) -> Fallible<Ids> {
        let empty = DFSchema::empty();
        let scope = Scope { schema: &empty, ids: &[] };
        for row in rows {
            for (expr, field) in row.iter().zip(schema.fields()) {
                expression(&mut self.out, unaliased(expr), &scope)?;
                if expr.get_type(&empty)? != *field.data_type() {
                    self.out.cast(field.data_type(), false)?;
                }
            }
        }
        let ids = self.fresh_ids(schema.fields().len());
        self.out.u8(op::VALUES);
        self.out.u32(rows.len() as u32);
        self.out.u32(ids.len() as u32);
        for (field, id) in schema.fields().iter().zip(&ids) {
            self.out.u32(*id);
            self.out.data_type(field.data_type())?;
            self.out.u8(u8::from(field.is_nullable()));
        }
        Ok(ids)
    }
}
