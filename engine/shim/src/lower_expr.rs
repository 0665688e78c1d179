//! Lowering of expressions.
use crate::decode::{is_nested, needs_cast, nested};
use crate::error::{Failure, Fallible};
use crate::features::arrow::datatypes::{DataType, Field};
use crate::features::datafusion::common::ScalarValue;
use crate::features::datafusion::execution::FunctionRegistry;
use crate::features::datafusion::logical_expr::expr::{
    AggregateFunction, Case, HigherOrderFunction, InList, Lambda, LambdaVariable, Like, NullTreatment, ScalarFunction,
    Sort, WindowFunction, WindowFunctionParams,
};
use crate::features::datafusion::logical_expr::{
    AggregateUDF, BinaryExpr, Cast, Expr, ExprSchemable, Operator, ScalarUDF, TryCast, WindowFrame, WindowFrameBound,
    WindowFrameUnits, WindowFunctionDefinition,
};
use crate::machine::{Machine, Parts, column_expr, op};
use std::sync::Arc;

mod home {
    pub const NATIVE: u8 = 0;
    pub const ENGINE: u8 = 1;
    pub const LIBRARY: u8 = 2;
}

/// A sort key's flags.
#[derive(Clone, Copy)]
pub struct SortFlag {
    pub descending: bool,
    pub nulls_first: bool,
}

impl SortFlag {
    pub fn sort(self, expr: Expr) -> Sort {
        Sort::new(expr, !self.descending, self.nulls_first)
    }
}

fn binary_operator(name: &str) -> Option<Operator> {
    Some(match name {
        "=" => Operator::Eq,
        "!=" => Operator::NotEq,
        "<" => Operator::Lt,
        "<=" => Operator::LtEq,
        ">" => Operator::Gt,
        ">=" => Operator::GtEq,
        "is_not_distinct_from" => Operator::IsNotDistinctFrom,
        "is_distinct_from" => Operator::IsDistinctFrom,
        "+" => Operator::Plus,
        "-" => Operator::Minus,
        "*" => Operator::Multiply,
        "/" => Operator::Divide,
        "%" => Operator::Modulo,
        "bit_and" => Operator::BitwiseAnd,
        "bit_or" => Operator::BitwiseOr,
        "bit_xor" => Operator::BitwiseXor,
        "||" => Operator::StringConcat,
        "~" => Operator::RegexMatch,
        "~*" => Operator::RegexIMatch,
        "!~" => Operator::RegexNotMatch,
        "!~*" => Operator::RegexNotIMatch,
        "<<" => Operator::BitwiseShiftLeft,
        ">>" => Operator::BitwiseShiftRight,
        "@>" => Operator::AtArrow,
        "<@" => Operator::ArrowAt,
        _ => return None,
    })
}

fn unary(name: &str, operand: Expr) -> Option<Expr> {
    let operand = Box::new(operand);
    Some(match name {
        "not" => Expr::Not(operand),
        "is_null" => Expr::IsNull(operand),
        "is_not_null" => Expr::IsNotNull(operand),
        "is_true" => Expr::IsTrue(operand),
        "is_false" => Expr::IsFalse(operand),
        "is_not_true" => Expr::IsNotTrue(operand),
        "is_not_false" => Expr::IsNotFalse(operand),
        "negative" => Expr::Negative(operand),
        _ => return None,
    })
}

fn variable_name(id: u32) -> String {
    format!("v{id}")
}

fn literal_of(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value),
        _ => None,
    }
}

/// The engine's make_array panics on structs beside untyped nulls: they get the element's type.
fn typed_elements(name: &str, exprs: Vec<Expr>, result: &DataType) -> Fallible<Vec<Expr>> {
    let (true, DataType::List(element)) = (name == "make_array", result) else { return Ok(exprs) };
    let typed = |expr: Expr| match expr {
        Expr::Literal(ScalarValue::Null, metadata) => {
            Ok(Expr::Literal(ScalarValue::try_new_null(element.data_type())?, metadata))
        }
        other => Ok(other),
    };
    exprs.into_iter().map(typed).collect()
}

impl Machine<'_> {
    pub fn expression(&mut self, code: u8) -> Fallible<()> {
        match code {
            op::LITERAL => self.literal(),
            op::COLUMN => {
                let id = self.reader.u32()?;
                self.push_expression(column_expr(id), Parts { columns: vec![id], ..Default::default() })
            }
            op::CALL => self.call(),
            op::CAST => {
                let data_type = self.reader.data_type()?;
                let is_try = self.reader.flag()?;
                let operand = self.pop_expression()?;
                let (mut exprs, parts) = Parts::split(vec![operand]);
                let operand = Box::new(exprs.remove(0));
                let expr = match is_try {
                    true => Expr::TryCast(TryCast::new(operand, data_type)),
                    false => Expr::Cast(Cast::new(operand, data_type)),
                };
                self.push_expression(expr, parts)
            }
            op::CASE => self.case(),
            op::IN_LIST => {
                let count = self.reader.u32()? as usize;
                let negated = self.reader.flag()?;
                if count < 2 {
                    return Err(self.reader.invalid("IN without items"));
                }
                let operands = self.pop_expressions(count)?;
                let (mut exprs, parts) = Parts::split(operands);
                let list = exprs.split_off(1);
                let value = Box::new(exprs.remove(0));
                self.push_expression(Expr::InList(InList::new(value, list, negated)), parts)
            }
            op::AGGREGATE => self.aggregate(),
            op::WINDOW => self.window(),
            op::LAMBDA => {
                let count = self.reader.count(4)?;
                let ids = self.reader.ids(count)?;
                let body = self.pop_expression()?;
                let (mut exprs, parts) = Parts::split(vec![body]);
                let params = ids.iter().map(|id| variable_name(*id)).collect();
                self.push_expression(Expr::Lambda(Lambda::new(params, exprs.remove(0))), parts)
            }
            op::LAMBDA_VARIABLE => {
                let id = self.reader.u32()?;
                let data_type = self.reader.data_type()?;
                let field = Arc::new(Field::new(variable_name(id), data_type, true));
                let variable = LambdaVariable::new(variable_name(id), Some(field));
                self.push_expression(Expr::LambdaVariable(variable), Parts::default())
            }
            other => Err(self.reader.invalid(format!("unknown operation {other}"))),
        }
    }

    fn literal(&mut self) -> Fallible<()> {
        let data_type = self.reader.data_type()?;
        let is_null = self.reader.flag()?;
        let mut parts = Parts::default();
        let value = if is_null {
            ScalarValue::try_new_null(&data_type)?
        } else if is_nested(&data_type) {
            let count = self.reader.u32()? as usize;
            let operands = self.pop_expressions(count)?;
            let (exprs, from) = Parts::split(operands);
            parts = from;
            let items: Option<Vec<ScalarValue>> = exprs.iter().map(|expr| literal_of(expr).cloned()).collect();
            nested(&data_type, &items.ok_or_else(|| self.reader.invalid("a literal of something that is none"))?)?
        } else {
            self.reader.scalar(&data_type)?
        };
        self.push_expression(Expr::Literal(value, None), parts)
    }

    fn case(&mut self) -> Fallible<()> {
        let count = self.reader.u32()? as usize;
        if count < 2 {
            return Err(self.reader.invalid("CASE without a branch"));
        }
        let operands = self.pop_expressions(count)?;
        let (mut exprs, parts) = Parts::split(operands);
        let otherwise = if count % 2 == 1 { exprs.pop().map(Box::new) } else { None };
        let mut branches = Vec::with_capacity(count / 2);
        let mut rest = exprs.into_iter();
        while let (Some(when), Some(then)) = (rest.next(), rest.next()) {
            branches.push((Box::new(when), Box::new(then)));
        }
        self.push_expression(Expr::Case(Case::new(None, branches, otherwise)), parts)
    }

    fn call(&mut self) -> Fallible<()> {
        let home = self.reader.u8()?;
        let name = self.reader.str()?;
        let count = self.reader.u32()? as usize;
        let result = self.reader.data_type()?;
        let nullable = self.reader.flag()?;
        match (home, name) {
            (home::NATIVE, "and") => return self.push_chain(Operator::And, count),
            (home::NATIVE, "or") => return self.push_chain(Operator::Or, count),
            _ => {}
        }
        let operands = self.pop_expressions(count)?;
        let (exprs, parts) = Parts::split(operands);
        let expr = match home {
            home::NATIVE => self.native(name, exprs)?,
            home::ENGINE => {
                let exprs = typed_elements(name, exprs, &result)?;
                let expr = match self.session.state.higher_order_functions().get(name) {
                    Some(function) => Expr::HigherOrderFunction(HigherOrderFunction::new(Arc::clone(function), exprs)),
                    None => self.function(self.engine_scalar(name)?, exprs),
                };
                // Some give views or other widths than the plan counts on.
                match expr.get_type(&self.known) {
                    Ok(is) if needs_cast(&is, &result) => Expr::Cast(Cast::new(Box::new(expr), result.clone())),
                    _ => expr,
                }
            }
            home::LIBRARY => {
                let higher = self.session.state.higher_order_functions();
                match (self.session.runtime.scalars.get(name), higher.get(name)) {
                    (Some(function), _) => self.function(Arc::clone(function), exprs),
                    (None, Some(function)) => {
                        Expr::HigherOrderFunction(HigherOrderFunction::new(Arc::clone(function), exprs))
                    }
                    (None, None) => return Err(Failure::invalid(format!("no library function {name}"))),
                }
            }
            other => return Err(self.reader.invalid(format!("a function at home in {other}"))),
        };
        self.push_call(expr, parts, result, nullable)
    }

    fn engine_scalar(&self, name: &str) -> Fallible<Arc<ScalarUDF>> {
        self.session.state.udf(name).map_err(|_| Failure::invalid(format!("no engine function {name}")))
    }

    fn function(&self, function: Arc<ScalarUDF>, args: Vec<Expr>) -> Expr {
        Expr::ScalarFunction(ScalarFunction::new_udf(function, args))
    }

    fn native(&self, name: &str, mut exprs: Vec<Expr>) -> Fallible<Expr> {
        let count = exprs.len();
        let arity = || self.reader.invalid(format!("operator {name} with {count} operands"));
        match name {
            "get_field" if count == 2 => return Ok(self.function(self.engine_scalar("get_field")?, exprs)),
            "like" | "ilike" | "similar_to" => {
                let escape = match (count, exprs.get(2).and_then(literal_of)) {
                    (2, _) => None,
                    (3, Some(ScalarValue::Utf8(Some(text)))) if text.chars().count() == 1 => text.chars().next(),
                    _ => return Err(arity()),
                };
                exprs.truncate(2);
                let (Some(pattern), Some(value)) = (exprs.pop(), exprs.pop()) else { return Err(arity()) };
                let like = Like::new(false, Box::new(value), Box::new(pattern), escape, name == "ilike");
                return Ok(if name == "similar_to" { Expr::SimilarTo(like) } else { Expr::Like(like) });
            }
            _ => {}
        }
        if let Some(operator) = binary_operator(name) {
            let (2, Some(right), Some(left)) = (count, exprs.pop(), exprs.pop()) else { return Err(arity()) };
            return Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right))));
        }
        if name.starts_with('$') {
            return Err(Failure::invalid(format!("parameter {name} has no value"))
                .condition("UNBOUND_SQL_PARAMETER")
                .param("name", name.as_bytes()));
        }
        let (1, Some(operand)) = (count, exprs.pop()) else {
            return match unary(name, Expr::Literal(ScalarValue::Null, None)) {
                Some(_) => Err(arity()),
                None => Err(Failure::invalid(format!("no operator {name}"))),
            };
        };
        unary(name, operand).ok_or_else(|| Failure::invalid(format!("no operator {name}")))
    }

    fn sort_flag(&mut self) -> Fallible<SortFlag> {
        match self.reader.u8()? {
            bits @ 0..=3 => Ok(SortFlag { descending: bits & 1 != 0, nulls_first: bits & 2 != 0 }),
            other => Err(self.reader.invalid(format!("a sort flag of {other}"))),
        }
    }

    pub fn sort_flags(&mut self, count: usize) -> Fallible<Vec<SortFlag>> {
        self.reader.check_count(count, 1)?;
        (0..count).map(|_| self.sort_flag()).collect()
    }

    fn aggregate_function(&self, home: u8, name: &str, args: &[Expr]) -> Fallible<Arc<AggregateUDF>> {
        match home {
            home::ENGINE => {
                self.session.state.udaf(name).map_err(|_| Failure::invalid(format!("no engine aggregate {name}")))
            }
            home::LIBRARY => {
                let function = self.session.runtime.aggregates.get(name);
                let function = function.ok_or_else(|| Failure::invalid(format!("no library aggregate {name}")))?;
                let literals = args.iter().map(|arg| literal_of(arg).cloned()).collect();
                Ok(Arc::new(AggregateUDF::new_from_impl(function.with_literals(literals))))
            }
            other => Err(self.reader.invalid(format!("an aggregate at home in {other}"))),
        }
    }

    fn aggregate(&mut self) -> Fallible<()> {
        let home = self.reader.u8()?;
        let name = self.reader.str()?;
        let distinct = self.reader.flag()?;
        let has_filter = self.reader.flag()?;
        let order_count = self.reader.count(1)?;
        let flags = self.sort_flags(order_count)?;
        let count = self.reader.u32()? as usize;
        let result = self.reader.data_type()?;
        let total = count.checked_add(order_count + usize::from(has_filter));
        let operands = self.pop_expressions(total.ok_or_else(|| self.reader.invalid("too many arguments"))?)?;
        let (mut args, parts) = Parts::split(operands);
        let filter = if has_filter { args.pop().map(Box::new) } else { None };
        let keys = args.split_off(count);
        let order: Vec<Sort> = keys.into_iter().zip(flags).map(|(key, flag)| flag.sort(key)).collect();
        let function = self.aggregate_function(home, name, &args)?;
        if args.is_empty() && name == "count" {
            args.push(Expr::Literal(ScalarValue::Int64(Some(1)), None));
        }
        let expr = AggregateFunction::new_udf(function, args, distinct, filter, order, None);
        self.push_declared(Expr::AggregateFunction(expr), parts, Some(result))
    }

    fn window(&mut self) -> Fallible<()> {
        let is_aggregate = self.reader.flag()?;
        let home = self.reader.u8()?;
        let name = self.reader.str()?;
        let distinct = self.reader.flag()?;
        let ignore_nulls = self.reader.flag()?;
        let arg_count = self.reader.u32()? as usize;
        let partition_count = self.reader.u32()? as usize;
        let order_count = self.reader.count(1)?;
        let flags = self.sort_flags(order_count)?;
        let (unit, start_kind, end_kind) = (self.reader.u8()?, self.reader.u8()?, self.reader.u8()?);
        let (has_start, has_end) = (self.reader.flag()?, self.reader.flag()?);
        let result = self.reader.data_type()?;
        let bounds = usize::from(has_start) + usize::from(has_end);
        let total = arg_count.checked_add(partition_count).and_then(|sum| sum.checked_add(order_count + bounds));
        let operands = self.pop_expressions(total.ok_or_else(|| self.reader.invalid("too many operands"))?)?;
        let (mut exprs, parts) = Parts::split(operands);
        let end = if has_end { exprs.pop() } else { None };
        let start = if has_start { exprs.pop() } else { None };
        let keys = exprs.split_off(arg_count + partition_count);
        let partition_by = exprs.split_off(arg_count);
        let mut args = exprs;
        let mut order_by: Vec<Sort> = keys.into_iter().zip(flags).map(|(key, flag)| flag.sort(key)).collect();

        let units = match unit {
            0 => WindowFrameUnits::Rows,
            1 => WindowFrameUnits::Range,
            2 => WindowFrameUnits::Groups,
            other => return Err(self.reader.invalid(format!("a frame unit of {other}"))),
        };
        let frame = WindowFrame::new_bounds(
            units,
            self.frame_bound(units, start_kind, start)?,
            self.frame_bound(units, end_kind, end)?,
        );
        frame.regularize_order_bys(&mut order_by)?;
        let fun = if is_aggregate {
            let function = self.aggregate_function(home, name, &args)?;
            if args.is_empty() && name == "count" {
                args.push(Expr::Literal(ScalarValue::Int64(Some(1)), None));
            }
            WindowFunctionDefinition::AggregateUDF(function)
        } else {
            let function = self.session.state.udwf(name);
            WindowFunctionDefinition::WindowUDF(
                function.map_err(|_| Failure::invalid(format!("no window function {name}")))?,
            )
        };
        let params = WindowFunctionParams {
            args,
            partition_by,
            order_by,
            window_frame: frame,
            filter: None,
            null_treatment: ignore_nulls.then_some(NullTreatment::IgnoreNulls),
            distinct,
        };
        self.push_declared(Expr::WindowFunction(Box::new(WindowFunction { fun, params })), parts, Some(result))
    }

    fn frame_bound(&self, units: WindowFrameUnits, kind: u8, value: Option<Expr>) -> Fallible<WindowFrameBound> {
        let unbounded = || ScalarValue::UInt64(None);
        let value = match (kind, value) {
            (0, None) => return Ok(WindowFrameBound::Preceding(unbounded())),
            (2, None) => return Ok(WindowFrameBound::CurrentRow),
            (4, None) => return Ok(WindowFrameBound::Following(unbounded())),
            (1 | 3, Some(Expr::Literal(value, _))) if !value.is_null() => value,
            _ => return Err(self.reader.invalid(format!("a frame bound of kind {kind} and its operand do not match"))),
        };
        let value = match units {
            WindowFrameUnits::Range => value,
            _ => {
                let rows = match value {
                    ScalarValue::Int32(Some(rows)) => u64::try_from(rows).ok(),
                    ScalarValue::Int64(Some(rows)) => u64::try_from(rows).ok(),
                    _ => None,
                };
                ScalarValue::UInt64(Some(rows.ok_or_else(|| self.reader.invalid("a frame bound that is no count"))?))
            }
        };
        Ok(match kind {
            1 => WindowFrameBound::Preceding(value),
            _ => WindowFrameBound::Following(value),
        })
    }
}
