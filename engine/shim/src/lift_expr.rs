//! Lifting of expressions.
use crate::error::{Failure, Fallible};
use crate::features::arrow::datatypes::{DataType, IntervalUnit};
use crate::features::datafusion::common::ScalarValue;
use crate::features::datafusion::logical_expr::expr::{HigherOrderFunction, NullTreatment, WindowFunction};
use crate::features::datafusion::logical_expr::{
    Between, Expr, ExprSchemable, Operator, Subquery, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
};
use crate::lift::{Lifter, Scope};
use crate::machine::{EXPR_DEPTH_MAX, op};

pub fn unaliased(expr: &Expr) -> &Expr {
    let mut at = expr;
    while let Expr::Alias(alias) = at {
        at = &alias.expr;
    }
    at
}

fn operator_name(operator: Operator) -> Option<&'static str> {
    Some(match operator {
        Operator::Eq => "=",
        Operator::NotEq => "!=",
        Operator::Lt => "<",
        Operator::LtEq => "<=",
        Operator::Gt => ">",
        Operator::GtEq => ">=",
        Operator::IsNotDistinctFrom => "is_not_distinct_from",
        Operator::IsDistinctFrom => "is_distinct_from",
        Operator::And => "and",
        Operator::Or => "or",
        Operator::Plus => "+",
        Operator::Minus => "-",
        Operator::Multiply => "*",
        Operator::Divide => "/",
        Operator::Modulo => "%",
        Operator::BitwiseAnd => "bit_and",
        Operator::BitwiseOr => "bit_or",
        Operator::BitwiseXor => "bit_xor",
        Operator::StringConcat => "||",
        Operator::RegexMatch => "~",
        Operator::RegexIMatch => "~*",
        Operator::RegexNotMatch => "!~",
        Operator::RegexNotIMatch => "!~*",
        Operator::BitwiseShiftLeft => "<<",
        Operator::BitwiseShiftRight => ">>",
        Operator::AtArrow => "@>",
        Operator::ArrowAt => "<@",
        _ => return None,
    })
}

/// Where a function lives: the library's names have a dot, the engine's none.
fn home(name: &str) -> u8 {
    if name.contains('.') { 2 } else { 1 }
}

fn no_form(what: impl std::fmt::Display) -> Failure {
    Failure::unimplemented(format!("lifting of {what}"))
}

impl Lifter {
    pub fn expression(&mut self, expr: &Expr, scope: &Scope) -> Fallible<()> {
        self.expr_depth += 1;
        if self.expr_depth > EXPR_DEPTH_MAX {
            return Err(Failure::exhausted(format!("an expression nests deeper than {EXPR_DEPTH_MAX}")));
        }
        stacker::maybe_grow(128 << 10, 4 << 20, || self.any_expression(expr, scope))?;
        self.expr_depth -= 1;
        Ok(())
    }

    fn all<'a>(&mut self, exprs: impl IntoIterator<Item = &'a Expr>, scope: &Scope) -> Fallible<usize> {
        let mut count = 0;
        for expr in exprs {
            self.expression(expr, scope)?;
            count += 1;
        }
        Ok(count)
    }

    /// A call whose operands are written already: with the type and nullability that the engine derives.
    fn call(&mut self, home: u8, name: &str, count: usize, expr: &Expr, scope: &Scope) -> Fallible<()> {
        let (_, field) = expr.to_field(scope.schema)?;
        self.out.call(home, name, count, field.data_type(), field.is_nullable())
    }

    fn unary(&mut self, name: &str, operand: &Expr, expr: &Expr, scope: &Scope) -> Fallible<()> {
        self.expression(operand, scope)?;
        self.call(0, name, 1, expr, scope)
    }

    fn negate(&mut self, negated: bool) -> Fallible<()> {
        match negated {
            true => self.out.call(0, "not", 1, &DataType::Boolean, true),
            false => Ok(()),
        }
    }

    fn any_expression(&mut self, expr: &Expr, scope: &Scope) -> Fallible<()> {
        match expr {
            Expr::Alias(alias) => self.expression(&alias.expr, scope),
            Expr::Column(column) => {
                let id = scope.id(column)?;
                self.out.u8(op::COLUMN);
                self.out.u32(id);
                Ok(())
            }
            Expr::OuterReferenceColumn(_, column) => {
                let id = scope.outer_id(column)?;
                self.out.u8(op::OUTER);
                self.out.u32(id);
                Ok(())
            }
            Expr::Literal(value, _) => self.out.literal(value),
            Expr::BinaryExpr(binary) => {
                let name = operator_name(binary.op).ok_or_else(|| no_form(format!("operator {}", binary.op)))?;
                self.all([binary.left.as_ref(), binary.right.as_ref()], scope)?;
                self.call(0, name, 2, expr, scope)
            }
            Expr::Not(operand) => self.unary("not", operand, expr, scope),
            Expr::IsNull(operand) | Expr::IsUnknown(operand) => self.unary("is_null", operand, expr, scope),
            Expr::IsNotNull(operand) | Expr::IsNotUnknown(operand) => self.unary("is_not_null", operand, expr, scope),
            Expr::IsTrue(operand) => self.unary("is_true", operand, expr, scope),
            Expr::IsFalse(operand) => self.unary("is_false", operand, expr, scope),
            Expr::IsNotTrue(operand) => self.unary("is_not_true", operand, expr, scope),
            Expr::IsNotFalse(operand) => self.unary("is_not_false", operand, expr, scope),
            Expr::Negative(operand) => self.unary("negative", operand, expr, scope),
            Expr::Like(like) | Expr::SimilarTo(like) => {
                let name = match (matches!(expr, Expr::SimilarTo(_)), like.case_insensitive) {
                    (true, true) => return Err(no_form("SIMILAR TO without case")),
                    (true, false) => "similar_to",
                    (false, true) => "ilike",
                    (false, false) => "like",
                };
                let mut count = self.all([like.expr.as_ref(), like.pattern.as_ref()], scope)?;
                if let Some(escape) = like.escape_char {
                    self.out.literal(&ScalarValue::Utf8(Some(escape.to_string())))?;
                    count += 1;
                }
                self.out.call(0, name, count, &DataType::Boolean, true)?;
                self.negate(like.negated)
            }
            Expr::Between(between) => self.between(between, scope),
            Expr::Case(case) => {
                let mut count = 0;
                for (when, then) in &case.when_then_expr {
                    self.expression(when, scope)?;
                    if let Some(value) = &case.expr {
                        self.expression(value, scope)?;
                        self.out.call(0, "=", 2, &DataType::Boolean, true)?;
                    }
                    self.expression(then, scope)?;
                    count += 2;
                }
                count += self.all(case.else_expr.as_deref(), scope)?;
                self.out.u8(op::CASE);
                self.out.u32(count as u32);
                Ok(())
            }
            Expr::Cast(cast) => {
                self.expression(&cast.expr, scope)?;
                self.out.cast(cast.field.data_type(), false)
            }
            Expr::TryCast(cast) => {
                self.expression(&cast.expr, scope)?;
                self.out.cast(cast.field.data_type(), true)
            }
            Expr::InList(list) if list.list.is_empty() => Err(no_form("IN without items")),
            Expr::InList(list) => {
                let count = self.all(std::iter::once(list.expr.as_ref()).chain(&list.list), scope)?;
                self.out.u8(op::IN_LIST);
                self.out.u32(count as u32);
                self.out.flag(list.negated);
                Ok(())
            }
            Expr::ScalarFunction(function) => {
                let count = self.all(&function.args, scope)?;
                self.call(home(function.name()), function.name(), count, expr, scope)
            }
            Expr::HigherOrderFunction(function) => self.higher_order(function, expr, scope),
            Expr::Lambda(_) => Err(no_form("a lambda outside of a function")),
            Expr::LambdaVariable(variable) => {
                let known = self.lambdas.iter().rev().find(|(name, _)| *name == variable.name).map(|(_, id)| *id);
                let field = variable.field.as_ref().ok_or_else(|| no_form("a lambda variable without a type"))?;
                let id = known.ok_or_else(|| no_form("a lambda variable outside of its lambda"))?;
                self.out.u8(op::LAMBDA_VARIABLE);
                self.out.u32(id);
                self.out.data_type(field.data_type())
            }
            Expr::AggregateFunction(function) => {
                let params = &function.params;
                if params.null_treatment == Some(NullTreatment::IgnoreNulls) {
                    return Err(no_form("IGNORE NULLS"));
                }
                let count = self.all(&params.args, scope)?;
                self.all(params.order_by.iter().map(|key| &key.expr), scope)?;
                self.all(params.filter.as_deref(), scope)?;
                self.out.u8(op::AGGREGATE);
                self.out.u8(home(function.func.name()));
                self.out.sized(function.func.name().as_bytes())?;
                self.out.flag(params.distinct);
                self.out.flag(params.filter.is_some());
                self.out.u32(params.order_by.len() as u32);
                params.order_by.iter().for_each(|key| self.out.sort_flag(key));
                self.out.u32(count as u32);
                self.out.data_type(&expr.get_type(scope.schema)?)
            }
            Expr::WindowFunction(function) => self.window_function(function, expr, scope),
            Expr::ScalarSubquery(subquery) => self.subquery(subquery, 0, false, None, expr, scope),
            Expr::Exists(exists) => self.subquery(&exists.subquery, 1, exists.negated, None, expr, scope),
            Expr::InSubquery(within) => {
                self.subquery(&within.subquery, 2, within.negated, Some(&within.expr), expr, scope)
            }
            // A value that is not there yet: the plan cannot be run, but it has a schema.
            Expr::Placeholder(placeholder) => {
                let data_type = placeholder.field.as_ref().map_or(DataType::Null, |field| field.data_type().clone());
                self.out.call(0, &placeholder.id, 0, &data_type, true)
            }
            other => Err(no_form(other.variant_name())),
        }
    }

    fn between(&mut self, between: &Between, scope: &Scope) -> Fallible<()> {
        let boolean = DataType::Boolean;
        self.all([between.expr.as_ref(), between.low.as_ref()], scope)?;
        self.out.call(0, ">=", 2, &boolean, true)?;
        self.all([between.expr.as_ref(), between.high.as_ref()], scope)?;
        self.out.call(0, "<=", 2, &boolean, true)?;
        self.out.call(0, "and", 2, &boolean, true)?;
        self.negate(between.negated)
    }

    fn higher_order(&mut self, function: &HigherOrderFunction, expr: &Expr, scope: &Scope) -> Fallible<()> {
        for arg in &function.args {
            let Expr::Lambda(lambda) = arg else {
                self.expression(arg, scope)?;
                continue;
            };
            let around = self.lambdas.len();
            let mut ids = vec![];
            for name in &lambda.params {
                let id = self.fresh();
                ids.push(id);
                self.lambdas.push((name.clone(), id));
            }
            self.expression(&lambda.body, scope)?;
            self.lambdas.truncate(around);
            self.out.u8(op::LAMBDA);
            self.out.u32(ids.len() as u32);
            ids.iter().for_each(|id| self.out.u32(*id));
        }
        self.call(home(function.name()), function.name(), function.args.len(), expr, scope)
    }

    fn subquery(
        &mut self,
        subquery: &Subquery,
        kind: u8,
        negated: bool,
        value: Option<&Expr>,
        expr: &Expr,
        scope: &Scope,
    ) -> Fallible<()> {
        self.relation(&subquery.subquery, Some(scope))?;
        let count = self.all(value, scope)?;
        let (_, field) = expr.to_field(scope.schema)?;
        self.out.u8(op::SUBQUERY);
        self.out.u8(kind);
        self.out.flag(negated);
        self.out.u32(count as u32);
        self.out.data_type(field.data_type())?;
        self.out.flag(field.is_nullable());
        Ok(())
    }

    fn window_function(&mut self, function: &WindowFunction, expr: &Expr, scope: &Scope) -> Fallible<()> {
        let params = &function.params;
        if params.filter.is_some() {
            return Err(no_form("FILTER of a window function"));
        }
        let (is_aggregate, name) = match &function.fun {
            WindowFunctionDefinition::AggregateUDF(function) => (true, function.name()),
            WindowFunctionDefinition::WindowUDF(function) => (false, function.name()),
        };
        let frame = &params.window_frame;
        let unit = match frame.units {
            WindowFrameUnits::Rows => 0,
            WindowFrameUnits::Range => 1,
            WindowFrameUnits::Groups => 2,
        };
        let (start, end) = (frame_bound(&frame.start_bound, unit)?, frame_bound(&frame.end_bound, unit)?);
        let count = self.all(&params.args, scope)?;
        self.all(&params.partition_by, scope)?;
        self.all(params.order_by.iter().map(|key| &key.expr), scope)?;
        for (_, value) in [&start, &end] {
            if let Some(value) = value {
                self.out.literal(value)?;
            }
        }
        self.out.u8(op::WINDOW);
        self.out.flag(is_aggregate);
        self.out.u8(home(name));
        self.out.sized(name.as_bytes())?;
        self.out.flag(params.distinct);
        self.out.flag(params.null_treatment == Some(NullTreatment::IgnoreNulls));
        self.out.u32(count as u32);
        self.out.u32(params.partition_by.len() as u32);
        self.out.u32(params.order_by.len() as u32);
        params.order_by.iter().for_each(|key| self.out.sort_flag(key));
        self.out.u8(unit);
        self.out.u8(start.0);
        self.out.u8(end.0);
        self.out.flag(start.1.is_some());
        self.out.flag(end.1.is_some());
        self.out.data_type(&expr.get_type(scope.schema)?)
    }
}

/// The kind of a bound and its literal.
fn frame_bound(bound: &WindowFrameBound, unit: u8) -> Fallible<(u8, Option<ScalarValue>)> {
    let (kind, value) = match bound {
        WindowFrameBound::Preceding(value) if value.is_null() => return Ok((0, None)),
        WindowFrameBound::Preceding(value) => (1, value),
        WindowFrameBound::CurrentRow => return Ok((2, None)),
        WindowFrameBound::Following(value) if value.is_null() => return Ok((4, None)),
        WindowFrameBound::Following(value) => (3, value),
    };
    let value = match (unit, value) {
        (0 | 2, ScalarValue::UInt64(Some(rows))) => {
            let rows = i64::try_from(*rows).map_err(|_| no_form("a frame of that many rows"))?;
            ScalarValue::Int64(Some(rows))
        }
        _ => value.clone(),
    };
    match value.data_type() {
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 | DataType::Utf8 => {
            Err(no_form("a frame bound of that type"))
        }
        DataType::Timestamp(_, _) | DataType::Date64 | DataType::Interval(IntervalUnit::DayTime) => {
            Err(no_form("a frame bound of that type"))
        }
        _ => Ok((kind, Some(value))),
    }
}
