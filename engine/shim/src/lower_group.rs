//! Lowering of the relations that hold functions over many rows: AGGREGATE, WINDOW, UNNEST.
use crate::decode::needs_cast;
use crate::error::{Failure, Fallible};
use crate::features::arrow::datatypes::{DataType, FieldRef};
use crate::features::datafusion::common::DFSchema;
use crate::features::datafusion::common::{Column, NullHandling, ScalarValue, UnnestOptions};
use crate::features::datafusion::execution::FunctionRegistry;
use crate::features::datafusion::logical_expr::expr::{Alias, GroupingSet, ScalarFunction};
use crate::features::datafusion::logical_expr::{
    Aggregate, BinaryExpr, Case, Cast, EmptyRelation, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator,
    Projection, Unnest,
};
use crate::lower_rel::{aliased, projection, renamed};
use crate::machine::{Columns, Expression, Machine, Relation, column_expr, column_name};
use std::collections::HashMap;
use std::sync::Arc;

const SETS_MAX: usize = 1 << 12;
/// Grouping sets are masks of 64 bits.
const SET_KEYS_MAX: usize = 64;

/// Expressions whose names in the engine are unique: equal ones are computed once, different ones of one name (the
/// engine leaves casts out of names) get a name of their own.
#[derive(Default)]
struct Unique {
    exprs: Vec<Expr>,
    places: HashMap<String, usize>,
}

impl Unique {
    /// The place of `expr`; `id` makes a fresh name.
    fn add(&mut self, expr: Expr, id: u32) -> usize {
        let name = expr.schema_name().to_string();
        if let Some(place) = self.places.get(&name).copied() {
            if self.exprs[place] == expr {
                return place;
            }
            let fresh = format!("x{id}");
            return self.insert(Expr::Alias(Alias::new(expr, None::<&str>, fresh.clone())), fresh);
        }
        self.insert(expr, name)
    }

    fn insert(&mut self, expr: Expr, name: String) -> usize {
        self.exprs.push(expr);
        self.places.insert(name, self.exprs.len() - 1);
        self.exprs.len() - 1
    }
}

fn field_expr(schema: &DFSchema, place: usize) -> (Expr, FieldRef) {
    let (qualifier, field) = schema.qualified_field(place);
    (Expr::Column(Column::new(qualifier.cloned(), field.name())), Arc::clone(field))
}

/// What the plan declares: its type where the engine's is another.
fn as_declared((expr, field): (Expr, FieldRef), declared: &Option<DataType>) -> (Expr, FieldRef) {
    match declared {
        Some(declared) if needs_cast(field.data_type(), declared) => {
            let field = Arc::new(field.as_ref().clone().with_data_type(declared.clone()));
            (Expr::Cast(Cast::new(Box::new(expr), declared.clone())), field)
        }
        _ => (expr, field),
    }
}

impl Machine<'_> {
    pub fn aggregate_rel(&mut self) -> Fallible<()> {
        let group_count = self.reader.count(4)?;
        let aggregate_count = self.reader.count(4)?;
        let ids = self.reader.ids(group_count + aggregate_count)?;
        let set_count = self.reader.count(8)?;
        let sets: Vec<u64> = (0..set_count).map(|_| self.reader.u64()).collect::<Fallible<_>>()?;
        let grouping_id = self.reader.u32()?;
        let operands = self.pop_expressions(group_count + aggregate_count)?;
        let input = self.pop_relation()?;
        let mut nodes = 0;
        for operand in &operands {
            input.schema_check(&operand.columns)?;
            nodes += operand.nodes;
        }
        if operands[group_count..].iter().any(|operand| !matches!(operand.expr, Expr::AggregateFunction(_))) {
            return Err(self.reader.invalid("an aggregate that is none"));
        }
        let (plan, columns) = if set_count > 0 {
            self.grouping_sets(&input, operands, group_count, &ids, &sets, grouping_id)?
        } else {
            grouped(&input, operands, group_count, &ids)?
        };
        self.push_relation(plan, Arc::new(columns), &[&input], nodes)
    }

    fn grouping_sets(
        &self,
        input: &Relation,
        operands: Vec<Expression>,
        group_count: usize,
        ids: &[u32],
        sets: &[u64],
        grouping_id: u32,
    ) -> Fallible<(LogicalPlan, Columns)> {
        if sets.len() > SETS_MAX || group_count > SET_KEYS_MAX {
            return Err(Failure::exhausted(format!(
                "{} grouping sets over {group_count} keys, at most {SETS_MAX} over {SET_KEYS_MAX}",
                sets.len()
            )));
        }
        let used = |key: usize| 1u64 << key;
        if group_count < 64 && sets.iter().any(|set| set >> group_count != 0) {
            return Err(self.reader.invalid("a grouping set of keys that are not there"));
        }
        let declared: Vec<Option<DataType>> = operands.iter().map(|operand| operand.declared.clone()).collect();
        let mut exprs = operands.into_iter().map(|operand| operand.expr);
        let keys: Vec<Expr> = exprs.by_ref().take(group_count).collect();
        // Keys become columns of their own, so that each is nulled alone even where an aggregate reads the same column.
        let mut below: Vec<Expr> = input.columns.order.iter().map(|id| column_expr(*id)).collect();
        let key_name = |key: usize| format!("k{}", ids[key]);
        for (key, expr) in keys.iter().enumerate() {
            below.push(Expr::Alias(Alias::new(expr.clone(), None::<&str>, key_name(key))));
        }
        let below = LogicalPlan::Projection(Projection::try_new(below, Arc::clone(&input.plan))?);
        let members = |set: u64| (0..group_count).filter(move |key| set & used(*key) != 0);
        let lists: Vec<Vec<Expr>> = sets
            .iter()
            .map(|set| members(*set).map(|key| Expr::Column(Column::new_unqualified(key_name(key)))).collect())
            .collect();
        let mut unique = Unique::default();
        let places: Vec<usize> = exprs.zip(&ids[group_count..]).map(|(expr, id)| unique.add(expr, *id)).collect();
        let aggregate = Aggregate::try_new(
            Arc::new(below),
            vec![Expr::GroupingSet(GroupingSet::GroupingSets(lists))],
            unique.exprs,
        )?;
        // The engine's key order is that of first appearance in the sets; then its id, then the aggregates.
        let schema = Arc::clone(&aggregate.schema);
        let mut order: Vec<usize> = vec![];
        for set in sets {
            for key in members(*set) {
                if !order.contains(&key) {
                    order.push(key);
                }
            }
        }
        let mut columns = Columns::default();
        let mut out = vec![];
        for (key, id) in ids.iter().enumerate().take(group_count) {
            let (expr, field) = match order.iter().position(|other| *other == key) {
                Some(place) => field_expr(&schema, place),
                None => {
                    let (_, field) = keys[key].to_field(input.columns.as_ref())?;
                    let field = Arc::new(field.as_ref().clone().with_nullable(true));
                    (Expr::Literal(ScalarValue::try_new_null(field.data_type())?, None), field)
                }
            };
            columns.add(*id, renamed(&field, *id))?;
            out.push(aliased(expr, *id));
        }
        for ((place, id), declared) in places.iter().zip(&ids[group_count..]).zip(&declared[group_count..]) {
            let (expr, field) = as_declared(field_expr(&schema, order.len() + 1 + place), declared);
            columns.add(*id, renamed(&field, *id))?;
            out.push(aliased(expr, *id));
        }
        let (engine_id, _) = field_expr(&schema, order.len());
        let id = grouping_bits(engine_id, sets, &order, group_count);
        let id_field = crate::features::arrow::datatypes::Field::new(column_name(grouping_id), DataType::Int64, false);
        columns.add(grouping_id, Arc::new(id_field))?;
        out.push(aliased(id, grouping_id));
        Ok((projection(Arc::new(LogicalPlan::Aggregate(aggregate)), out, &columns)?, columns))
    }

    pub fn window_rel(&mut self) -> Fallible<()> {
        let count = self.reader.count(4)?;
        let ids = self.reader.ids(count)?;
        let operands = self.pop_expressions(count)?;
        let input = self.pop_relation()?;
        let mut unique = Unique::default();
        let mut places = Vec::with_capacity(count);
        let mut declared = Vec::with_capacity(count);
        let mut nodes = 0;
        for (operand, id) in operands.into_iter().zip(&ids) {
            input.schema_check(&operand.columns)?;
            if !matches!(operand.expr, Expr::WindowFunction(_)) {
                return Err(self.reader.invalid("a window function that is none"));
            }
            nodes += operand.nodes;
            declared.push(operand.declared);
            places.push(unique.add(operand.expr, *id));
        }
        if count == 0 {
            let plan = input.plan.as_ref().clone();
            return self.push_relation(plan, Arc::clone(&input.columns), &[&input], 0);
        }
        let names: Vec<String> = unique.exprs.iter().map(|expr| expr.schema_name().to_string()).collect();
        let plan = LogicalPlanBuilder::window_plan(input.plan.as_ref().clone(), unique.exprs)?;
        let by_name: HashMap<&str, FieldRef> = plan
            .schema()
            .fields()
            .iter()
            .skip(input.columns.order.len())
            .map(|field| (field.name().as_str(), Arc::clone(field)))
            .collect();
        let mut columns = input.columns.as_ref().clone();
        let mut exprs: Vec<Expr> = columns.order.iter().map(|id| column_expr(*id)).collect();
        for ((place, id), declared) in places.iter().zip(&ids).zip(&declared) {
            let name = &names[*place];
            let field = by_name.get(name.as_str()).ok_or_else(|| Failure::internal("a window column got lost"))?;
            let column = Expr::Column(Column::new_unqualified(name));
            let (expr, field) = as_declared((column, Arc::clone(field)), declared);
            columns.add(*id, renamed(&field, *id))?;
            exprs.push(aliased(expr, *id));
        }
        let plan = projection(Arc::new(plan), exprs, &columns)?;
        self.push_relation(plan, Arc::new(columns), &[&input], nodes)
    }

    fn engine_call(&self, name: &str, args: Vec<Expr>) -> Fallible<Expr> {
        Ok(Expr::ScalarFunction(ScalarFunction::new_udf(self.session.state.udf(name)?, args)))
    }

    /// The lists to unnest side by side: [positions], then elements, or keys and values.
    fn unnest_lists(&self, value: Expr, data_type: &DataType, with_position: bool) -> Fallible<Vec<Expr>> {
        let mut lists = match data_type {
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(_, _) => vec![value],
            DataType::Map(_, _) => {
                vec![self.engine_call("map_keys", vec![value.clone()])?, self.engine_call("map_values", vec![value])?]
            }
            other => return Err(self.reader.invalid(format!("UNNEST of type {other}"))),
        };
        if with_position {
            let number = |value: i64| Expr::Literal(ScalarValue::Int64(Some(value)), None);
            let length = self.engine_call("array_length", vec![lists[0].clone()])?;
            let length = Expr::Cast(Cast::new(Box::new(length), DataType::Int64));
            // array_length of an empty list is null: it has no positions either, but a list to be empty is needed.
            let length = self.engine_call("coalesce", vec![length, number(0)])?;
            let positions = self.engine_call("range", vec![number(0), length, number(1)])?;
            let known = Expr::IsNotNull(Box::new(lists[0].clone()));
            let branch = vec![(Box::new(known), Box::new(positions))];
            lists.insert(0, Expr::Case(Case::new(None, branch, None)));
        }
        Ok(lists)
    }

    pub fn unnest(&mut self) -> Fallible<()> {
        let outer = self.reader.flag()?;
        let with_position = self.reader.flag()?;
        let count = self.reader.count(4)?;
        let ids = self.reader.ids(count)?;
        let operand = self.pop_expression()?;
        let input = self.pop_relation()?;
        input.schema_check(&operand.columns)?;
        let nodes = operand.nodes;
        let data_type = operand.expr.get_type(input.columns.as_ref())?;
        let lists = self.unnest_lists(operand.expr, &data_type, with_position)?;
        if lists.len() != count {
            return Err(self.reader.invalid(format!("UNNEST gives {} columns, not {count}", lists.len())));
        }
        let mut columns = input.columns.as_ref().clone();
        let mut below: Vec<Expr> = columns.order.iter().map(|id| column_expr(*id)).collect();
        let mut names = vec![];
        for (list, id) in lists.into_iter().zip(&ids) {
            names.push(Column::new_unqualified(format!("u{id}")));
            below.push(Expr::Alias(Alias::new(list, None::<&str>, format!("u{id}"))));
        }
        let below = LogicalPlan::Projection(Projection::try_new(below, Arc::clone(&input.plan))?);
        let handling = if outer { NullHandling::PreserveAndExpandEmpty } else { NullHandling::Drop };
        let options = UnnestOptions::new().with_null_handling(handling);
        let plan = LogicalPlan::Unnest(Unnest::try_new(Arc::new(below), names, options)?);
        let mut exprs: Vec<Expr> = columns.order.iter().map(|id| column_expr(*id)).collect();
        let first = columns.order.len();
        for (index, id) in ids.iter().enumerate() {
            let (mut expr, mut field) = field_expr(plan.schema(), first + index);
            if with_position && index == 0 {
                expr = Expr::Cast(Cast::new(Box::new(expr), DataType::Int32));
                field = Arc::new(field.as_ref().clone().with_data_type(DataType::Int32));
            }
            columns.add(*id, renamed(&field, *id))?;
            exprs.push(aliased(expr, *id));
        }
        let plan = projection(Arc::new(plan), exprs, &columns)?;
        self.push_relation(plan, Arc::new(columns), &[&input], nodes)
    }
}

fn grouped(
    input: &Relation,
    operands: Vec<Expression>,
    group_count: usize,
    ids: &[u32],
) -> Fallible<(LogicalPlan, Columns)> {
    let mut columns = Columns::default();
    if operands.is_empty() {
        // One row without columns, whatever the input.
        let schema = Arc::new(DFSchema::empty());
        return Ok((LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, schema }), columns));
    }
    let mut unique = Unique::default();
    let mut places = Vec::with_capacity(operands.len());
    let mut declared = Vec::with_capacity(operands.len());
    let mut groups = 0;
    for (index, (operand, id)) in operands.into_iter().zip(ids).enumerate() {
        declared.push(operand.declared);
        places.push(unique.add(operand.expr, *id));
        if index < group_count {
            groups = unique.exprs.len();
        }
    }
    let aggregates = unique.exprs.split_off(groups);
    let plan = LogicalPlan::Aggregate(Aggregate::try_new(Arc::clone(&input.plan), unique.exprs, aggregates)?);
    let mut exprs = Vec::with_capacity(ids.len());
    for ((place, id), declared) in places.iter().zip(ids).zip(&declared) {
        let (expr, field) = as_declared(field_expr(plan.schema(), *place), declared);
        columns.add(*id, renamed(&field, *id))?;
        exprs.push(aliased(expr, *id));
    }
    Ok((projection(Arc::new(plan), exprs, &columns)?, columns))
}

/// The id that has a bit for each key that is not in the row's set, the first key highest. The engine's has its keys in
/// their order of appearance, and the count of equal sets above.
fn grouping_bits(engine: Expr, sets: &[u64], order: &[usize], group_count: usize) -> Expr {
    let number = |value: i64| Expr::Literal(ScalarValue::Int64(Some(value)), None);
    let engine_id = |set: u64| order.iter().fold(0u64, |bits, key| (bits << 1) | u64::from(set & (1u64 << *key) == 0));
    let wanted_id =
        |set: u64| (0..group_count).fold(0u64, |bits, key| (bits << 1) | u64::from(set & (1u64 << key) == 0));
    let mask = if order.len() >= 63 { i64::MAX } else { (1i64 << order.len()) - 1 };
    let engine = Expr::Cast(Cast::new(Box::new(engine), DataType::Int64));
    let masked = Expr::BinaryExpr(BinaryExpr::new(Box::new(engine), Operator::BitwiseAnd, Box::new(number(mask))));
    if sets.iter().all(|set| engine_id(*set) == wanted_id(*set)) {
        return masked;
    }
    let mut branches: Vec<(Box<Expr>, Box<Expr>)> = vec![];
    let mut seen = std::collections::HashSet::new();
    for set in sets {
        if seen.insert(engine_id(*set)) {
            let value = number(engine_id(*set) as i64);
            let test = Expr::BinaryExpr(BinaryExpr::new(Box::new(masked.clone()), Operator::Eq, Box::new(value)));
            branches.push((Box::new(test), Box::new(number(wanted_id(*set) as i64))));
        }
    }
    Expr::Case(Case::new(None, branches, Some(Box::new(number(0)))))
}
