//! Lowering of relations.
use crate::decode::{engine_type, needs_cast};
use crate::error::{Failure, Fallible};
use crate::features::arrow::array::{ArrayRef, Int8Array, RecordBatch};
use crate::features::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use crate::features::datafusion::catalog::MemTable;
use crate::features::datafusion::common::{
    Column, DFSchema, JoinConstraint, JoinType, NullEquality, ScalarValue, TableReference,
};
use crate::features::datafusion::datasource::provider_as_source;
use crate::features::datafusion::logical_expr::expr::Alias;
use crate::features::datafusion::logical_expr::{
    Cast, Distinct, EmptyRelation, Expr, ExprSchemable, Extension, Filter, Join, Limit, LogicalPlan, Partitioning,
    Projection, Repartition, Sort, TableScanBuilder, Union, Values,
};
use crate::machine::{Columns, Expression, Machine, Parts, Relation, column_expr, column_name, op};
use crate::range::Range;
use crate::sample::Sample;
use std::collections::HashMap;
use std::sync::Arc;

/// A zero-column VALUES has at most this many rows; REPARTITION this many partitions.
const ROWS_MAX: u32 = 1 << 24;
const PARTITIONS_MAX: u32 = 1 << 10;

pub fn renamed(field: &FieldRef, id: u32) -> FieldRef {
    Arc::new(field.as_ref().clone().with_name(column_name(id)))
}

pub fn aliased(expr: Expr, id: u32) -> Expr {
    let name = column_name(id);
    match &expr {
        Expr::Column(column) if column.relation.is_none() && column.name == name => expr,
        _ => Expr::Alias(Alias::new(expr, None::<&str>, name)),
    }
}

/// Casts when the type differs.
pub fn as_type(expr: Expr, is: &DataType, wanted: &DataType) -> Expr {
    match is == wanted {
        true => expr,
        false => Expr::Cast(Cast::new(Box::new(expr), wanted.clone())),
    }
}

/// A projection whose schema is taken from `columns` instead of being derived again.
pub fn projection(input: Arc<LogicalPlan>, exprs: Vec<Expr>, columns: &Columns) -> Fallible<LogicalPlan> {
    let fields: Vec<FieldRef> = columns.order.iter().map(|id| Arc::clone(&columns.fields[id])).collect();
    let schema = DFSchema::from_unqualified_fields(fields.into(), HashMap::new())?;
    Ok(LogicalPlan::Projection(Projection::try_new_with_schema(exprs, input, Arc::new(schema))?))
}

pub fn join_type(code: u8) -> Option<JoinType> {
    Some(match code {
        0 => JoinType::Inner,
        1 => JoinType::Left,
        2 => JoinType::Right,
        3 => JoinType::Full,
        4 => JoinType::LeftSemi,
        5 => JoinType::LeftAnti,
        6 => JoinType::LeftMark,
        _ => return None,
    })
}

impl Machine<'_> {
    pub fn relation(&mut self, code: u8) -> Fallible<()> {
        match code {
            op::SCAN => self.scan(false),
            op::SCAN_TYPED => self.scan(true),
            op::OPAQUE => self.opaque(),
            op::VALUES => self.values(),
            op::RANGE => self.range(),
            op::PROJECT => self.project(),
            op::FILTER => {
                let condition = self.pop_expression()?;
                let input = self.pop_relation()?;
                self.check_condition(&condition, &input)?;
                let plan = LogicalPlan::Filter(Filter::new(condition.expr, Arc::clone(&input.plan)));
                self.push_relation(plan, Arc::clone(&input.columns), &[&input], condition.nodes)
            }
            op::JOIN => self.join(),
            op::AGGREGATE_REL => self.aggregate_rel(),
            op::SORT => self.sort(),
            op::LIMIT => self.limit(),
            op::UNION => self.union(),
            op::DISTINCT => {
                let input = self.pop_relation()?;
                self.push_relation(distinct(&input), Arc::clone(&input.columns), &[&input], 0)
            }
            op::SET => self.set(),
            op::WINDOW_REL => self.window_rel(),
            op::UNNEST => self.unnest(),
            op::SAMPLE => {
                let (lower, upper) = (self.reader.f64()?, self.reader.f64()?);
                let with_replacement = self.reader.flag()?;
                let seed = self.reader.i64()?;
                let input = self.pop_relation()?;
                let node = Arc::new(Sample::new(input.plan.as_ref().clone(), lower, upper, with_replacement, seed)?);
                let plan = LogicalPlan::Extension(Extension { node });
                self.push_relation(plan, Arc::clone(&input.columns), &[&input], 0)
            }
            op::REPARTITION => self.repartition(),
            op::WRITE => self.write(),
            op::EXTENSION => self.extension(),
            other => Err(self.reader.invalid(format!("unknown operation {other}"))),
        }
    }

    fn check_condition(&self, condition: &Expression, input: &Relation) -> Fallible<()> {
        input.schema_check(&condition.columns)?;
        match condition.expr.get_type(input.columns.as_ref())? {
            DataType::Boolean | DataType::Null => Ok(()),
            other => Err(self.reader.invalid(format!("a condition of type {other}"))),
        }
    }

    /// `typed`: with a label, and with the type of each column.
    fn scan(&mut self, typed: bool) -> Fallible<()> {
        let index = self.reader.u32()? as usize;
        let source = self.sources.get(index).ok_or_else(|| self.reader.invalid(format!("no source {index}")))?;
        let label = if typed { self.reader.str()? } else { "" };
        let count = self.reader.count(8)?;
        let schema = source.provider.schema();
        let mut wanted: Vec<usize> = Vec::with_capacity(count); // each source column once
        let mut places: HashMap<usize, usize> = HashMap::new();
        let mut outputs = Vec::with_capacity(count);
        for _ in 0..count {
            let (column, id) = (self.reader.u32()? as usize, self.reader.u32()?);
            if column >= schema.fields().len() {
                return Err(self.reader.invalid(format!("source {index} has no column {column}")));
            }
            let place = *places.entry(column).or_insert_with(|| {
                wanted.push(column);
                wanted.len() - 1
            });
            let declared = match typed {
                true => Some((self.reader.data_type()?, self.reader.flag()?).0),
                false => None,
            };
            outputs.push((place, id, declared));
        }
        let parts: Vec<&str> = label.split('\u{1f}').collect();
        let name = match parts.as_slice() {
            [""] => TableReference::bare(format!("s{}", self.scans)),
            [table] => TableReference::bare(*table),
            [schema, table] => TableReference::partial(*schema, *table),
            [catalog, schema, table] => TableReference::full(*catalog, *schema, *table),
            _ => return Err(self.reader.invalid("a table's name of more than three parts")),
        };
        self.scans += 1;
        let scan = TableScanBuilder::new(name, provider_as_source(Arc::clone(&source.provider)))
            .with_projection(Some(wanted))
            .build()?;
        let mut columns = Columns::default();
        let mut exprs = Vec::with_capacity(count);
        for (place, id, declared) in outputs {
            let (qualifier, field) = scan.projected_schema.qualified_field(place);
            let data_type = match declared {
                Some(declared) if needs_cast(field.data_type(), &declared) => declared,
                Some(_) => field.data_type().clone(),
                None => engine_type(field.data_type()),
            };
            let expr = Expr::Column(Column::new(qualifier.cloned(), field.name()));
            exprs.push(aliased(as_type(expr, field.data_type(), &data_type), id));
            columns.add(id, Arc::new(renamed(field, id).as_ref().clone().with_data_type(data_type)))?;
        }
        let plan = projection(Arc::new(LogicalPlan::TableScan(scan)), exprs, &columns)?;
        self.push_relation(plan, Arc::new(columns), &[], count as u64)
    }

    fn values(&mut self) -> Fallible<()> {
        let rows = self.reader.u32()?;
        let count = self.reader.count(4 + 12 + 1)?;
        let mut columns = Columns::default();
        for _ in 0..count {
            let id = self.reader.u32()?;
            let data_type = self.reader.data_type()?;
            let nullable = self.reader.flag()?;
            columns.add(id, Arc::new(Field::new(column_name(id), data_type, nullable)))?;
        }
        let fields: Vec<FieldRef> = columns.order.iter().map(|id| Arc::clone(&columns.fields[id])).collect();
        let schema = Arc::new(DFSchema::from_unqualified_fields(fields.clone().into(), HashMap::new())?);
        if rows == 0 {
            let plan = LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema });
            return self.push_relation(plan, Arc::new(columns), &[], 0);
        }
        if count == 0 {
            return self.rows_without_columns(rows);
        }
        let cells = (rows as usize).checked_mul(count).ok_or_else(|| self.reader.invalid("too many values"))?;
        let operands = self.pop_expressions(cells)?;
        let (exprs, parts) = Parts::split(operands);
        if !parts.columns.is_empty() {
            return Err(self.reader.invalid("a value that refers to a column"));
        }
        let empty = Columns::default();
        let mut values = Vec::with_capacity(rows as usize);
        let mut rest = exprs.into_iter();
        for _ in 0..rows {
            let mut row = Vec::with_capacity(count);
            for (field, expr) in fields.iter().zip(rest.by_ref().take(count)) {
                let is = expr.get_type(&empty)?;
                row.push(match &expr {
                    Expr::Literal(ScalarValue::Null, _) => {
                        Expr::Literal(ScalarValue::try_new_null(field.data_type())?, None)
                    }
                    _ => as_type(expr, &is, field.data_type()),
                });
            }
            values.push(row);
        }
        let plan = LogicalPlan::Values(Values { schema, values });
        self.push_relation(plan, Arc::new(columns), &[], parts.nodes)
    }

    fn rows_without_columns(&mut self, rows: u32) -> Fallible<()> {
        if rows == 1 {
            let schema = Arc::new(DFSchema::empty());
            let plan = LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, schema });
            return self.push_relation(plan, Arc::new(Columns::default()), &[], 0);
        }
        if rows > ROWS_MAX {
            return Err(Failure::exhausted(format!("{rows} rows without columns, at most {ROWS_MAX}")));
        }
        let schema = Arc::new(Schema::new(vec![Field::new("unused", DataType::Int8, false)]));
        let column: ArrayRef = Arc::new(Int8Array::from(vec![0i8; rows as usize]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column])?;
        let table = MemTable::try_new(schema, vec![vec![batch]])?;
        let scan = TableScanBuilder::new(format!("s{}", self.scans), provider_as_source(Arc::new(table)))
            .with_projection(Some(vec![]))
            .build()?;
        self.scans += 1;
        self.push_relation(LogicalPlan::TableScan(scan), Arc::new(Columns::default()), &[], 0)
    }

    fn range(&mut self) -> Fallible<()> {
        let (start, end, step) = (self.reader.i64()?, self.reader.i64()?, self.reader.i64()?);
        let (partitions, id) = (self.reader.u32()?, self.reader.u32()?);
        let range = Range::new(start, end, step, partitions, "id")?;
        let scan = TableScanBuilder::new(format!("s{}", self.scans), provider_as_source(Arc::new(range))).build()?;
        self.scans += 1;
        let (qualifier, field) = scan.projected_schema.qualified_field(0);
        let mut columns = Columns::default();
        columns.add(id, renamed(field, id))?;
        let exprs = vec![aliased(Expr::Column(Column::new(qualifier.cloned(), field.name())), id)];
        let plan = projection(Arc::new(LogicalPlan::TableScan(scan)), exprs, &columns)?;
        self.push_relation(plan, Arc::new(columns), &[], 1)
    }

    fn project(&mut self) -> Fallible<()> {
        let count = self.reader.count(4)?;
        let ids = self.reader.ids(count)?;
        let operands = self.pop_expressions(count)?;
        let input = self.pop_relation()?;
        let mut columns = Columns::default();
        let mut exprs = Vec::with_capacity(count);
        let mut nodes = 0;
        for (id, operand) in ids.into_iter().zip(operands) {
            input.schema_check(&operand.columns)?;
            let (_, field) = operand.expr.to_field(input.columns.as_ref())?;
            columns.add(id, renamed(&field, id))?;
            exprs.push(aliased(operand.expr, id));
            nodes += operand.nodes;
        }
        let plan = projection(Arc::clone(&input.plan), exprs, &columns)?;
        self.push_relation(plan, Arc::new(columns), &[&input], nodes)
    }

    fn join(&mut self) -> Fallible<()> {
        let code = self.reader.u8()?;
        let kind = join_type(code).ok_or_else(|| self.reader.invalid(format!("a join of type {code}")))?;
        let null_aware = self.reader.flag()?;
        let has_condition = self.reader.flag()?;
        let mark = self.reader.u32()?;
        let condition = if has_condition { Some(self.pop_expression()?) } else { None };
        let right = self.pop_relation()?;
        let left = self.pop_relation()?;
        if null_aware && kind != JoinType::LeftAnti {
            return Err(self.reader.invalid("only an anti join is null aware"));
        }
        let mut both = left.columns.as_ref().clone();
        for id in &right.columns.order {
            both.add(*id, Arc::clone(&right.columns.fields[id]))?;
        }
        let joined = Relation { columns: Arc::new(both), ..left.clone() };
        let nodes = condition.as_ref().map_or(0, |condition| condition.nodes);
        if let Some(condition) = &condition {
            self.check_condition(condition, &joined)?;
        }
        // The optimizer takes the equalities out of the condition.
        let join = Join::try_new(
            Arc::clone(&left.plan),
            Arc::clone(&right.plan),
            vec![],
            condition.map(|condition| condition.expr),
            kind,
            JoinConstraint::On,
            NullEquality::NullEqualsNothing,
            null_aware,
        )?;
        let mut columns = Columns::default();
        let mut ids = left.columns.order.clone();
        if matches!(kind, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full) {
            ids.extend(&right.columns.order);
        }
        for (index, id) in ids.iter().enumerate() {
            columns.add(*id, Arc::clone(join.schema.field(index)))?;
        }
        if kind != JoinType::LeftMark {
            return self.push_relation(LogicalPlan::Join(join), Arc::new(columns), &[&left, &right], nodes);
        }
        let (qualifier, field) = join.schema.qualified_field(ids.len());
        columns.add(mark, renamed(field, mark))?;
        let mut exprs: Vec<Expr> = ids.iter().map(|id| column_expr(*id)).collect();
        exprs.push(aliased(Expr::Column(Column::new(qualifier.cloned(), field.name())), mark));
        let plan = projection(Arc::new(LogicalPlan::Join(join)), exprs, &columns)?;
        self.push_relation(plan, Arc::new(columns), &[&left, &right], nodes)
    }

    fn sort(&mut self) -> Fallible<()> {
        let count = self.reader.count(1)?;
        let flags = self.sort_flags(count)?;
        let fetch = self.reader.i64()?;
        let operands = self.pop_expressions(count)?;
        let input = self.pop_relation()?;
        let (keys, parts) = Parts::split(operands);
        input.schema_check(&parts.columns)?;
        let fetch = if fetch < 0 { None } else { Some(self.row_count(fetch)?) };
        if keys.is_empty() {
            let plan = limited(&input.plan, 0, fetch);
            return self.push_relation(plan, Arc::clone(&input.columns), &[&input], 0);
        }
        let expr = keys.into_iter().zip(flags).map(|(key, flag)| flag.sort(key)).collect();
        let plan = LogicalPlan::Sort(Sort { expr, input: Arc::clone(&input.plan), fetch });
        self.push_relation(plan, Arc::clone(&input.columns), &[&input], parts.nodes)
    }

    fn row_count(&self, value: i64) -> Fallible<usize> {
        usize::try_from(value).map_err(|_| self.reader.invalid(format!("{value} rows")))
    }

    fn limit(&mut self) -> Fallible<()> {
        let (skip, fetch) = (self.reader.i64()?, self.reader.i64()?);
        let skip = self.row_count(skip)?;
        let fetch = if fetch < 0 { None } else { Some(self.row_count(fetch)?) };
        let input = self.pop_relation()?;
        self.push_relation(limited(&input.plan, skip, fetch), Arc::clone(&input.columns), &[&input], 0)
    }

    fn union(&mut self) -> Fallible<()> {
        let input_count = self.reader.count(1)?;
        let count = self.reader.count(4)?;
        let ids = self.reader.ids(count)?;
        let mut places = Vec::with_capacity(input_count);
        for _ in 0..input_count {
            places.push(self.reader.ids(count)?);
        }
        if input_count == 0 || input_count > self.stack.len() {
            return Err(self.reader.invalid(format!("a union of {input_count} relations")));
        }
        let mut inputs = Vec::with_capacity(input_count);
        for _ in 0..input_count {
            inputs.push(self.pop_relation()?);
        }
        inputs.reverse();
        let mut columns = Columns::default();
        for (place, id) in ids.iter().enumerate() {
            let mut field = renamed(inputs[0].columns.get(places[0][place])?, *id).as_ref().clone();
            for (input, from) in inputs.iter().zip(&places) {
                let nullable = field.is_nullable() || input.columns.get(from[place])?.is_nullable();
                field = field.with_nullable(nullable);
            }
            columns.add(*id, Arc::new(field))?;
        }
        let mut plans = Vec::with_capacity(input_count);
        for (input, from) in inputs.iter().zip(&places) {
            plans.push(Arc::new(renaming(input, from, &columns)?));
        }
        let refs: Vec<&Relation> = inputs.iter().collect();
        let nodes = (count * input_count) as u64;
        if plans.len() == 1 {
            return self.push_relation(plans.remove(0).as_ref().clone(), Arc::new(columns), &refs, nodes);
        }
        let fields: Vec<FieldRef> = ids.iter().map(|id| Arc::clone(&columns.fields[id])).collect();
        let schema = Arc::new(DFSchema::from_unqualified_fields(fields.into(), HashMap::new())?);
        self.push_relation(LogicalPlan::Union(Union { inputs: plans, schema }), Arc::new(columns), &refs, nodes)
    }

    /// INTERSECT and EXCEPT as semi and anti joins where null equals null. ALL: equal rows are numbered first.
    fn set(&mut self) -> Fallible<()> {
        let (except, all) = (self.reader.flag()?, self.reader.flag()?);
        let count = self.reader.count(4)?;
        let ids = self.reader.ids(count)?;
        let (left_ids, right_ids) = (self.reader.ids(count)?, self.reader.ids(count)?);
        let right = self.pop_relation()?;
        let left = self.pop_relation()?;
        if count == 0 {
            return Err(Failure::unimplemented("INTERSECT and EXCEPT without columns"));
        }
        let mut columns = Columns::default();
        for (id, from) in ids.iter().zip(&left_ids) {
            columns.add(*id, renamed(left.columns.get(*from)?, *id))?;
        }
        let mut plans = [renaming(&left, &left_ids, &columns)?, renaming(&right, &right_ids, &columns)?];
        if all {
            plans = [numbered(self.session, &plans[0], &columns)?, numbered(self.session, &plans[1], &columns)?];
        }
        let [left_plan, right_plan] = plans;
        let left_schema = Arc::clone(left_plan.schema());
        let other = |name: &str| format!("other_{name}");
        let renames: Vec<Expr> = left_schema
            .fields()
            .iter()
            .map(|field| Expr::Column(Column::new_unqualified(field.name())).alias(other(field.name())))
            .collect();
        let right_plan = LogicalPlan::Projection(Projection::try_new(renames, Arc::new(right_plan))?);
        let mut left_plan = left_plan;
        if !all {
            left_plan = LogicalPlan::Distinct(Distinct::All(Arc::new(left_plan)));
        }
        let on = left_schema
            .fields()
            .iter()
            .map(|field| {
                let name = field.name();
                (Expr::Column(Column::new_unqualified(name)), Expr::Column(Column::new_unqualified(other(name))))
            })
            .collect();
        let join = Join::try_new(
            Arc::new(left_plan),
            Arc::new(right_plan),
            on,
            None,
            if except { JoinType::LeftAnti } else { JoinType::LeftSemi },
            JoinConstraint::On,
            NullEquality::NullEqualsNull,
            false,
        )?;
        let exprs = ids.iter().map(|id| column_expr(*id)).collect();
        let plan = projection(Arc::new(LogicalPlan::Join(join)), exprs, &columns)?;
        self.push_relation(plan, Arc::new(columns), &[&left, &right], 4 * count as u64)
    }

    fn repartition(&mut self) -> Fallible<()> {
        let partitions = self.reader.u32()?;
        let shuffle = self.reader.flag()?;
        let by_range = self.reader.flag()?;
        let count = self.reader.count(1)?;
        let _flags = self.sort_flags(count)?;
        let operands = self.pop_expressions(count)?;
        let input = self.pop_relation()?;
        let (keys, parts) = Parts::split(operands);
        input.schema_check(&parts.columns)?;
        if partitions > PARTITIONS_MAX {
            return Err(Failure::exhausted(format!("{partitions} partitions, at most {PARTITIONS_MAX}")));
        }
        let partitions = match partitions {
            0 => self.session.state.config().target_partitions().max(1),
            wanted => wanted as usize,
        };
        // Rows are the same in whichever partition; what is not a hash keeps the input's partitions.
        if !shuffle || by_range {
            let plan = input.plan.as_ref().clone();
            return self.push_relation(plan, Arc::clone(&input.columns), &[&input], 0);
        }
        let partitioning_scheme = match keys.is_empty() {
            true => Partitioning::RoundRobinBatch(partitions),
            false => Partitioning::Hash(keys, partitions),
        };
        let plan = LogicalPlan::Repartition(Repartition { input: Arc::clone(&input.plan), partitioning_scheme });
        self.push_relation(plan, Arc::clone(&input.columns), &[&input], parts.nodes)
    }
}

fn distinct(input: &Relation) -> LogicalPlan {
    match input.columns.order.is_empty() {
        true => limited(&input.plan, 0, Some(1)), // rows without columns are all equal
        false => LogicalPlan::Distinct(Distinct::All(Arc::clone(&input.plan))),
    }
}

fn limited(input: &Arc<LogicalPlan>, skip: usize, fetch: Option<usize>) -> LogicalPlan {
    let literal = |rows: usize| Box::new(Expr::Literal(ScalarValue::Int64(Some(rows as i64)), None));
    if skip == 0 && fetch.is_none() {
        return input.as_ref().clone();
    }
    LogicalPlan::Limit(Limit {
        skip: (skip > 0).then(|| literal(skip)),
        fetch: fetch.map(literal),
        input: Arc::clone(input),
    })
}

/// `input`'s columns `from`, under the names and types of `columns`.
fn renaming(input: &Relation, from: &[u32], columns: &Columns) -> Fallible<LogicalPlan> {
    let mut exprs = Vec::with_capacity(from.len());
    let mut own = Columns::default();
    for (id, source) in columns.order.iter().zip(from) {
        let (is, wanted) = (input.columns.get(*source)?, &columns.fields[id]);
        exprs.push(aliased(as_type(column_expr(*source), is.data_type(), wanted.data_type()), *id));
        own.add(*id, Arc::new(wanted.as_ref().clone().with_nullable(is.is_nullable())))?;
    }
    projection(Arc::clone(&input.plan), exprs, &own)
}

/// Adds the number of each row among the rows equal to it.
fn numbered(session: &crate::runtime::Session, input: &LogicalPlan, columns: &Columns) -> Fallible<LogicalPlan> {
    use crate::features::datafusion::execution::FunctionRegistry;
    use crate::features::datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
    use crate::features::datafusion::logical_expr::{Window, WindowFrame, WindowFunctionDefinition};
    let function = WindowFunction {
        fun: WindowFunctionDefinition::WindowUDF(session.state.udwf("row_number")?),
        params: WindowFunctionParams {
            args: vec![],
            partition_by: columns.order.iter().map(|id| column_expr(*id)).collect(),
            order_by: vec![],
            window_frame: WindowFrame::new(None),
            filter: None,
            null_treatment: None,
            distinct: false,
        },
    };
    let expr = Expr::Alias(Alias::new(Expr::WindowFunction(Box::new(function)), None::<&str>, "nth"));
    Ok(LogicalPlan::Window(Window::try_new(vec![expr], Arc::new(input.clone()))?))
}
