//! Lifting: a LogicalPlan as the encoding. Every column of every relation gets an id of its own; a relation's columns are
//! those of the engine's schema, place by place. Works on plans with a bounded depth. A node without a form in the encoding
//! becomes OPAQUE: the original, over its lifted inputs.
use crate::error::{Failure, Fallible};
use crate::features::arrow::datatypes::DataType;
use crate::features::datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use crate::features::datafusion::common::{Column, DFSchema, JoinType, NullEquality, NullHandling, ScalarValue};
use crate::features::datafusion::datasource::source_as_provider;
use crate::features::datafusion::logical_expr::expr::GroupingSet;
use crate::features::datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprSchemable, Join, LogicalPlan, Operator, Partitioning, Repartition,
    TableScan, Unnest, Values, Window,
};
use crate::lift_expr::unaliased;
use crate::lift_type::Encoder;
use crate::machine::{MAGIC, REL_DEPTH_MAX, VERSION, op};
use crate::named::Named;
use crate::opaque::Original;
use crate::range::Range;
use crate::sample::Sample;
use crate::source::Source;
use std::collections::HashMap;
use std::sync::Arc;

/// The number of a source that no resolver gave.
pub const NO_NUMBER: u32 = u32::MAX;
/// Keys of grouping sets are bits.
const SET_KEYS_MAX: usize = 64;
const SETS_MAX: usize = 4096;

/// What SCAN refers to: a source; or, by its number alone, a view that the caller puts in place.
pub struct LiftedSource {
    pub source: Option<Arc<Source>>,
    pub number: u32,
}

pub struct Lifted {
    pub bytes: Vec<u8>,
    pub sources: Vec<LiftedSource>,
    pub originals: Vec<Original>,
    pub next_column: u32,
}

/// The ids of a relation's columns, by their place in its schema.
pub type Ids = Vec<u32>;

/// What an expression's columns refer to.
pub struct Scope<'a> {
    pub schema: &'a DFSchema,
    pub ids: &'a [u32],
    pub outer: Option<&'a Scope<'a>>,
}

impl Scope<'_> {
    pub fn id(&self, column: &Column) -> Fallible<u32> {
        let place = self.schema.index_of_column(column)?;
        self.ids.get(place).copied().ok_or_else(|| Failure::internal("a column without an id"))
    }

    /// Of a column of an enclosing relation, the nearest first.
    pub fn outer_id(&self, column: &Column) -> Fallible<u32> {
        let mut at = self.outer;
        while let Some(scope) = at {
            if let Ok(id) = scope.id(column) {
                return Ok(id);
            }
            at = scope.outer;
        }
        Err(Failure::unimplemented(format!("lifting of a reference to {column} in an enclosing query")))
    }
}

#[derive(Default)]
pub struct Lifter {
    pub out: Encoder,
    sources: Vec<LiftedSource>,
    originals: Vec<Original>,
    /// By the provider's address: one source for each.
    known: HashMap<usize, u32>,
    next_id: u32,
    depth: u32,
    pub expr_depth: u32,
    /// Variables of lambdas around, innermost last.
    pub lambdas: Vec<(String, u32)>,
}

pub fn lift(plan: &LogicalPlan) -> Fallible<Lifted> {
    let mut lifter = Lifter::default();
    lifter.out.bytes.extend_from_slice(MAGIC);
    lifter.out.u32(VERSION);
    lifter.relation(plan, None)?;
    let Lifter { out, sources, originals, next_id, .. } = lifter;
    Ok(Lifted { bytes: out.bytes, sources, originals, next_column: next_id })
}

fn unknown(plan: &LogicalPlan) -> Failure {
    let text = plan.display().to_string();
    Failure::unimplemented(format!("lifting of {}", text.split([':', ' ']).next().unwrap_or("a relation")))
}

fn is_unimplemented(failure: &Failure) -> bool {
    failure.status == crate::abi::status::UNIMPLEMENTED
}

/// The encoding has left forms of these joins only.
fn is_swapped(join: &Join) -> bool {
    matches!(join.join_type, JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark)
}

/// Whether the node's own expressions refer to relations around it.
fn has_free_references(plan: &LogicalPlan) -> bool {
    let inputs = plan.inputs();
    let known = |expr: &Expr| match expr {
        Expr::OuterReferenceColumn(_, column) => inputs.iter().any(|input| input.schema().has_column(column)),
        _ => false,
    };
    let mut free = false;
    for expr in plan.expressions() {
        let _ = expr.apply(|part| {
            free |= match part {
                Expr::OuterReferenceColumn(_, _) => true,
                Expr::ScalarSubquery(subquery) => subquery.outer_ref_columns.iter().any(|expr| !known(expr)),
                Expr::Exists(exists) => exists.subquery.outer_ref_columns.iter().any(|expr| !known(expr)),
                Expr::InSubquery(within) => within.subquery.outer_ref_columns.iter().any(|expr| !known(expr)),
                Expr::SetComparison(set) => set.subquery.outer_ref_columns.iter().any(|expr| !known(expr)),
                _ => false,
            };
            Ok(if free { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        });
    }
    free
}

impl Lifter {
    pub fn fresh(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id - 1
    }

    fn fresh_ids(&mut self, count: usize) -> Ids {
        (0..count).map(|_| self.fresh()).collect()
    }

    fn put_ids(&mut self, ids: &[u32]) {
        ids.iter().for_each(|id| self.out.u32(*id));
    }

    pub fn relation(&mut self, plan: &LogicalPlan, outer: Option<&Scope>) -> Fallible<Ids> {
        self.depth += 1;
        if self.depth > REL_DEPTH_MAX {
            return Err(Failure::exhausted(format!("the plan nests deeper than {REL_DEPTH_MAX} relations")));
        }
        let ids = stacker::maybe_grow(256 << 10, 4 << 20, || self.any_relation(plan, outer))?;
        self.depth -= 1;
        Ok(ids)
    }

    fn any_relation(&mut self, plan: &LogicalPlan, outer: Option<&Scope>) -> Fallible<Ids> {
        let (start, depth, expr_depth) = (self.out.bytes.len(), self.depth, self.expr_depth);
        let (lambdas, originals) = (self.lambdas.len(), self.originals.len());
        let mut inputs = plan.inputs();
        let swapped = matches!(plan, LogicalPlan::Join(join) if is_swapped(join));
        if swapped {
            inputs.reverse();
        }
        let mut ids = Vec::with_capacity(inputs.len());
        for input in &inputs {
            match self.relation(input, outer) {
                Ok(input) => ids.push(input),
                // A lateral join's right side, which only the join as a whole can run.
                Err(failure)
                    if is_unimplemented(&failure) && outer.is_none() && matches!(plan, LogicalPlan::Join(_)) =>
                {
                    self.out.bytes.truncate(start);
                    self.originals.truncate(originals);
                    (self.depth, self.expr_depth) = (depth, expr_depth);
                    return self.opaque(Original::whole(plan), &[]);
                }
                Err(failure) => return Err(failure),
            }
        }
        let (mark, originals) = (self.out.bytes.len(), self.originals.len());
        match self.node(plan, &ids, outer) {
            Err(failure) if is_unimplemented(&failure) && !has_free_references(plan) => {
                self.out.bytes.truncate(mark);
                self.originals.truncate(originals);
                self.lambdas.truncate(lambdas);
                (self.depth, self.expr_depth) = (depth, expr_depth);
                self.opaque(Original::over_inputs(plan, swapped), &ids)
            }
            other => other,
        }
    }

    fn opaque(&mut self, original: Original, inputs: &[Ids]) -> Fallible<Ids> {
        let plan = Arc::clone(&original.plan);
        let ids = self.fresh_ids(plan.schema().fields().len());
        self.out.u8(op::OPAQUE);
        self.out.u32(self.originals.len() as u32);
        self.out.sized(original.label().as_bytes())?;
        self.out.u32(inputs.len() as u32);
        self.out.u32(ids.len() as u32);
        for (id, field) in ids.iter().zip(plan.schema().fields()) {
            self.out.u32(*id);
            self.out.data_type(field.data_type())?;
            self.out.flag(field.is_nullable());
        }
        self.originals.push(original);
        Ok(ids)
    }

    /// One relation whose inputs are on the stack already.
    fn node(&mut self, plan: &LogicalPlan, inputs: &[Ids], outer: Option<&Scope>) -> Fallible<Ids> {
        let first = || inputs.first().cloned().unwrap_or_default();
        match plan {
            LogicalPlan::Projection(projection) => {
                let input = first();
                let scope = Scope { schema: projection.input.schema(), ids: &input, outer };
                self.project(&scope, &projection.expr)
            }
            LogicalPlan::Filter(filter) => {
                let ids = first();
                let scope = Scope { schema: filter.input.schema(), ids: &ids, outer };
                self.expression(&filter.predicate, &scope)?;
                self.out.u8(op::FILTER);
                Ok(ids)
            }
            LogicalPlan::SubqueryAlias(_) => Ok(first()),
            LogicalPlan::Sort(sort) => {
                let ids = first();
                let scope = Scope { schema: sort.input.schema(), ids: &ids, outer };
                for key in &sort.expr {
                    self.expression(&key.expr, &scope)?;
                }
                self.out.u8(op::SORT);
                self.out.u32(sort.expr.len() as u32);
                sort.expr.iter().for_each(|key| self.out.sort_flag(key));
                self.out.i64(sort.fetch.map_or(-1, |fetch| fetch as i64));
                Ok(ids)
            }
            LogicalPlan::Limit(limit) => {
                let rows = |expr: &Option<Box<Expr>>, none: i64| match expr.as_deref().map(unaliased) {
                    None => Ok(none),
                    Some(Expr::Literal(ScalarValue::Int64(Some(rows)), _)) if *rows >= 0 => Ok(*rows),
                    Some(Expr::Literal(value, _)) if value.is_null() => Ok(none),
                    Some(_) => Err(Failure::unimplemented("lifting of a limit that is computed")),
                };
                let (skip, fetch) = (rows(&limit.skip, 0)?, rows(&limit.fetch, -1)?);
                self.out.u8(op::LIMIT);
                self.out.i64(skip);
                self.out.i64(fetch);
                Ok(first())
            }
            LogicalPlan::TableScan(scan) => self.scan(scan),
            LogicalPlan::Join(join) => self.join(join, inputs, outer),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate, &first(), outer),
            LogicalPlan::Window(window) => self.window(window, &first(), outer),
            LogicalPlan::Unnest(unnest) => self.unnest(unnest, &first()),
            LogicalPlan::Repartition(repartition) => self.repartition(repartition, &first(), outer),
            LogicalPlan::Union(union) => {
                let width = union.schema.fields().len();
                let ids = self.fresh_ids(width);
                self.out.u8(op::UNION);
                self.out.u32(inputs.len() as u32);
                self.out.u32(width as u32);
                self.put_ids(&ids);
                inputs.iter().for_each(|input| self.put_ids(input));
                Ok(ids)
            }
            LogicalPlan::Distinct(Distinct::All(_)) => {
                self.out.u8(op::DISTINCT);
                Ok(first())
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
            LogicalPlan::Extension(extension) => match extension.node.as_any().downcast_ref::<Sample>() {
                Some(sample) => {
                    let (lower, upper, with_replacement, seed) = sample.rule();
                    self.out.u8(op::SAMPLE);
                    self.out.f64(lower);
                    self.out.f64(upper);
                    self.out.flag(with_replacement);
                    self.out.i64(seed);
                    Ok(first())
                }
                None => Err(unknown(plan)),
            },
            other => Err(unknown(other)),
        }
    }

    fn put_project(&mut self, ids: &[u32]) {
        self.out.u8(op::PROJECT);
        self.out.u32(ids.len() as u32);
        self.put_ids(ids);
    }

    /// The columns with these ids and no others, in this order. A column that is there twice gets a new id.
    fn pick(&mut self, ids: &[u32]) -> Ids {
        let mut out: Ids = vec![];
        for id in ids {
            self.out.u8(op::COLUMN);
            self.out.u32(*id);
            let id = if out.contains(id) { self.fresh() } else { *id };
            out.push(id);
        }
        self.put_project(&out);
        out
    }

    fn project(&mut self, scope: &Scope, exprs: &[Expr]) -> Fallible<Ids> {
        let mut ids: Ids = Vec::with_capacity(exprs.len());
        let mut kept = std::collections::HashSet::new();
        for expr in exprs {
            let expr = unaliased(expr);
            self.expression(expr, scope)?;
            // A column keeps its id, the first time.
            let id = match expr {
                Expr::Column(column) => Some(scope.id(column)?).filter(|id| kept.insert(*id)),
                _ => None,
            };
            let id = id.unwrap_or_else(|| self.fresh());
            ids.push(id);
        }
        self.put_project(&ids);
        Ok(ids)
    }

    /// The index of a table among the sources.
    fn source(&mut self, scan: &TableScan) -> Fallible<u32> {
        let provider = source_as_provider(&scan.source)?;
        let (key, source, number) = match provider.downcast_ref::<Named>() {
            Some(named) => (Arc::as_ptr(&provider) as *const () as usize, named.source(), named.number),
            None => {
                let schema = provider.schema();
                let key = Arc::as_ptr(&provider) as *const () as usize;
                (key, Some(Arc::new(Source { provider, schema })), NO_NUMBER)
            }
        };
        if let Some(index) = self.known.get(&key) {
            return Ok(*index);
        }
        self.sources.push(LiftedSource { source, number });
        let index = self.sources.len() as u32 - 1;
        self.known.insert(key, index);
        Ok(index)
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
            let columns: Ids = places.iter().map(|_| id).collect();
            ids = self.pick(&columns);
        } else {
            let index = self.source(scan)?;
            self.out.u8(op::SCAN_TYPED);
            self.out.u32(index);
            self.out.sized(scan.table_name.to_string().as_bytes())?;
            self.out.u32(places.len() as u32);
            for (place, id) in places.iter().zip(&ids) {
                let field = schema.field(*place);
                self.out.u32(*place as u32);
                self.out.u32(*id);
                self.out.data_type(field.data_type())?;
                self.out.flag(field.is_nullable());
            }
        }
        // Filters that the optimizer moved into the scan; their columns may be ones that the projection leaves out.
        let scope = Scope { schema: &scan.projected_schema, ids: &ids, outer: None };
        for filter in &scan.filters {
            if filter.column_refs().iter().any(|column| scope.id(column).is_err()) {
                return Err(Failure::invalid("a scan that filters by a column it does not give"));
            }
            self.expression(filter, &scope)?;
            self.out.u8(op::FILTER);
        }
        if let Some(fetch) = scan.fetch {
            self.out.u8(op::LIMIT);
            self.out.i64(0);
            self.out.i64(fetch as i64);
        }
        Ok(ids)
    }

    fn join(&mut self, join: &Join, inputs: &[Ids], outer: Option<&Scope>) -> Fallible<Ids> {
        let kind = match join.join_type {
            JoinType::Inner => 0,
            JoinType::Left => 1,
            JoinType::Right => 2,
            JoinType::Full => 3,
            JoinType::LeftSemi | JoinType::RightSemi => 4,
            JoinType::LeftAnti | JoinType::RightAnti => 5,
            JoinType::LeftMark | JoinType::RightMark => 6,
        };
        let (mut left, mut right) = (&join.left, &join.right);
        if is_swapped(join) {
            std::mem::swap(&mut left, &mut right);
        }
        let [left_ids, right_ids] = inputs else { return Err(Failure::internal("a join without two inputs")) };
        let both: DFSchema = left.schema().join(right.schema())?;
        let all: Ids = left_ids.iter().chain(right_ids).copied().collect();
        let operator = match join.null_equality {
            NullEquality::NullEqualsNothing => Operator::Eq,
            NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
        };
        let pair = |(a, b): &(Expr, Expr)| {
            Expr::BinaryExpr(BinaryExpr::new(Box::new(a.clone()), operator, Box::new(b.clone())))
        };
        let terms: Vec<Expr> = join.on.iter().map(pair).chain(join.filter.clone()).collect();
        let scope = Scope { schema: &both, ids: &all, outer };
        for (index, term) in terms.iter().enumerate() {
            self.expression(term, &scope)?;
            if index > 0 {
                self.out.call(0, "and", 2, &DataType::Boolean, true)?;
            }
        }
        let mut ids = left_ids.clone();
        let mark = if kind == 6 { self.fresh() } else { 0 };
        match kind {
            0..=3 => ids.extend(right_ids),
            6 => ids.push(mark),
            _ => {}
        }
        self.out.u8(op::JOIN);
        self.out.u8(kind);
        self.out.flag(join.null_aware);
        self.out.flag(!terms.is_empty());
        self.out.u32(mark);
        Ok(ids)
    }

    fn aggregate(&mut self, aggregate: &Aggregate, input: &[u32], outer: Option<&Scope>) -> Fallible<Ids> {
        let scope = Scope { schema: aggregate.input.schema(), ids: input, outer };
        if let [Expr::GroupingSet(set)] = aggregate.group_expr.as_slice() {
            return self.grouping_sets(aggregate, set, &scope);
        }
        for expr in aggregate.group_expr.iter().chain(&aggregate.aggr_expr) {
            self.expression(unaliased(expr), &scope)?;
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

    /// The engine's columns: the keys in their order of appearance, its id of the set, the aggregates. Ours: the id last, a
    /// number of 64 bits.
    fn grouping_sets(&mut self, aggregate: &Aggregate, set: &GroupingSet, scope: &Scope) -> Fallible<Ids> {
        let keys: Vec<&Expr> = set.distinct_expr();
        let bit = |expr: &Expr| {
            let place = keys.iter().position(|key| *key == expr);
            place.map(|place| 1u64 << place).ok_or_else(|| Failure::internal("a grouping set's key got lost"))
        };
        if keys.len() >= SET_KEYS_MAX {
            return Err(Failure::unimplemented("lifting of grouping sets over that many keys"));
        }
        let bits = |list: &[Expr]| list.iter().try_fold(0u64, |bits, expr| Ok::<u64, Failure>(bits | bit(expr)?));
        let sets: Vec<u64> = match set {
            GroupingSet::GroupingSets(lists) => lists.iter().map(|list| bits(list)).collect::<Fallible<_>>()?,
            GroupingSet::Rollup(list) => {
                (0..=list.len()).rev().map(|count| bits(&list[..count])).collect::<Fallible<_>>()?
            }
            GroupingSet::Cube(list) if list.len() <= 12 => {
                let all: Vec<u64> = list.iter().map(bit).collect::<Fallible<_>>()?;
                let pick = |mask: u64| all.iter().enumerate().filter(move |(place, _)| mask & (1 << place) == 0);
                (0..1u64 << all.len()).map(|mask| pick(mask).fold(0, |bits, (_, one)| bits | one)).collect()
            }
            GroupingSet::Cube(_) => return Err(Failure::unimplemented("lifting of a cube over that many keys")),
        };
        let distinct: std::collections::HashSet<u64> = sets.iter().copied().collect();
        if distinct.len() != sets.len() || sets.len() > SETS_MAX {
            return Err(Failure::unimplemented("lifting of a grouping set that is there twice"));
        }
        for key in &keys {
            self.expression(unaliased(key), scope)?;
        }
        for expr in &aggregate.aggr_expr {
            self.expression(unaliased(expr), scope)?;
        }
        let count = keys.len() + aggregate.aggr_expr.len();
        let ids = self.fresh_ids(count + 1);
        self.out.u8(op::AGGREGATE_REL);
        self.out.u32(keys.len() as u32);
        self.out.u32(aggregate.aggr_expr.len() as u32);
        self.put_ids(&ids[..count]);
        self.out.u32(sets.len() as u32);
        sets.iter().for_each(|set| self.out.u64(*set));
        self.out.u32(ids[count]);
        // The engine's order of columns, and its type of the id.
        let id_type = aggregate.schema.field(keys.len()).data_type().clone();
        let mut out: Ids = vec![];
        for place in 0..=count {
            let id = match place {
                place if place < keys.len() => ids[place],
                place if place == keys.len() => ids[count],
                place => ids[place - 1],
            };
            self.out.u8(op::COLUMN);
            self.out.u32(id);
            if place == keys.len() {
                self.out.cast(&id_type, false)?;
                let id = self.fresh();
                out.push(id);
            } else {
                out.push(id);
            }
        }
        self.put_project(&out);
        Ok(out)
    }

    fn window(&mut self, window: &Window, input: &[u32], outer: Option<&Scope>) -> Fallible<Ids> {
        let scope = Scope { schema: window.input.schema(), ids: input, outer };
        for expr in &window.window_expr {
            self.expression(unaliased(expr), &scope)?;
        }
        let own = self.fresh_ids(window.window_expr.len());
        self.out.u8(op::WINDOW_REL);
        self.out.u32(own.len() as u32);
        self.put_ids(&own);
        Ok(input.iter().chain(&own).copied().collect())
    }

    /// One list, one level: the engine puts the element in the list's place.
    fn unnest(&mut self, unnest: &Unnest, input: &[u32]) -> Fallible<Ids> {
        let outer = match unnest.options.null_handling {
            NullHandling::Drop => false,
            NullHandling::PreserveAndExpandEmpty => true,
            NullHandling::Preserve => return Err(Failure::unimplemented("lifting of UNNEST that keeps nulls")),
        };
        let ([(place, list)], true) = (unnest.list_type_columns.as_slice(), unnest.struct_type_columns.is_empty())
        else {
            return Err(Failure::unimplemented("lifting of UNNEST of several columns"));
        };
        if list.depth != 1 || unnest.dependency_indices.len() != input.len() {
            return Err(Failure::unimplemented("lifting of UNNEST of several levels"));
        }
        let element = self.fresh();
        let list = *input.get(*place).ok_or_else(|| Failure::internal("UNNEST of a column that is not there"))?;
        self.out.u8(op::COLUMN);
        self.out.u32(list);
        self.out.u8(op::UNNEST);
        self.out.flag(outer);
        self.out.flag(false);
        self.out.u32(1);
        self.out.u32(element);
        let ids: Ids = input.iter().map(|id| if *id == list { element } else { *id }).collect();
        Ok(self.pick(&ids))
    }

    fn repartition(&mut self, repartition: &Repartition, input: &[u32], outer: Option<&Scope>) -> Fallible<Ids> {
        let scope = Scope { schema: repartition.input.schema(), ids: input, outer };
        let (keys, count): (&[Expr], usize) = match &repartition.partitioning_scheme {
            Partitioning::RoundRobinBatch(count) => (&[], *count),
            Partitioning::Hash(keys, count) => (keys, *count),
            Partitioning::DistributeBy(keys) => (keys, 0),
            _ => return Err(Failure::unimplemented("lifting of a partitioning")),
        };
        for key in keys {
            self.expression(key, &scope)?;
        }
        self.out.u8(op::REPARTITION);
        self.out.u32(u32::try_from(count).map_err(|_| Failure::exhausted("that many partitions"))?);
        self.out.flag(true);
        self.out.flag(false);
        self.out.u32(keys.len() as u32);
        keys.iter().for_each(|_| self.out.u8(0));
        Ok(input.to_vec())
    }

    fn values(&mut self, schema: &DFSchema, rows: &[Vec<Expr>]) -> Fallible<Ids> {
        let empty = DFSchema::empty();
        let scope = Scope { schema: &empty, ids: &[], outer: None };
        for row in rows {
            for (expr, field) in row.iter().zip(schema.fields()) {
                self.expression(unaliased(expr), &scope)?;
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
            self.out.flag(field.is_nullable());
        }
        Ok(ids)
    }
}
