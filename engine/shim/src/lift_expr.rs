//! Lifting of expressions, types, literals.
use crate::decode::type_id;
use crate::error::{Failure, Fallible};
use crate::features::arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use crate::features::datafusion::common::ScalarValue;
use crate::features::datafusion::logical_expr::expr::{NullTreatment, Sort};
use crate::features::datafusion::logical_expr::{Between, Expr, ExprSchemable, Operator};
use crate::lift::Scope;
use crate::machine::{EXPR_DEPTH_MAX, op};

#[derive(Default)]
pub struct Encoder {
    pub bytes: Vec<u8>,
    depth: u32,
}

impl Encoder {
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn i64(&mut self, value: i64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    fn sized(&mut self, bytes: &[u8]) -> Fallible<()> {
        let size = u32::try_from(bytes.len()).map_err(|_| Failure::exhausted("a literal of 4 GiB"))?;
        self.u32(size);
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    pub fn sort_flag(&mut self, key: &Sort) {
        self.u8(u8::from(!key.asc) | (u8::from(key.nulls_first) << 1));
    }

    pub fn call(&mut self, home: u8, name: &str, count: usize, result: &DataType) -> Fallible<()> {
        self.u8(op::CALL);
        self.u8(home);
        self.sized(name.as_bytes())?;
        self.u32(count as u32);
        self.data_type(result)?;
        self.u8(1);
        Ok(())
    }

    pub fn cast(&mut self, data_type: &DataType, is_try: bool) -> Fallible<()> {
        self.u8(op::CAST);
        self.data_type(data_type)?;
        self.u8(u8::from(is_try));
        Ok(())
    }

    fn plain_type(&mut self, id: u8, precision: u8, scale: i8, fields: usize) {
        self.bytes.extend_from_slice(&[id, precision, scale as u8, 0]);
        self.u32(0);
        self.u32(fields as u32);
    }

    fn fields(&mut self, id: u8, fields: &[&Field]) -> Fallible<()> {
        self.plain_type(id, 0, 0, fields.len());
        for field in fields {
            self.sized(field.name().as_bytes())?;
            self.u8(u8::from(field.is_nullable()));
            self.data_type(field.data_type())?;
        }
        Ok(())
    }

    pub fn data_type(&mut self, data_type: &DataType) -> Fallible<()> {
        let (id, precision, scale) = match data_type {
            DataType::Null => (type_id::NULL, 0, 0),
            DataType::Boolean => (type_id::BOOL, 0, 0),
            DataType::Int8 => (type_id::INT8, 0, 0),
            DataType::Int16 => (type_id::INT16, 0, 0),
            DataType::Int32 => (type_id::INT32, 0, 0),
            DataType::Int64 => (type_id::INT64, 0, 0),
            DataType::Float32 => (type_id::FLOAT32, 0, 0),
            DataType::Float64 => (type_id::FLOAT64, 0, 0),
            DataType::Decimal128(precision, scale) if *scale >= 0 => (type_id::DECIMAL, *precision, *scale),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => (type_id::STRING, 0, 0),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => (type_id::BINARY, 0, 0),
            DataType::Date32 => (type_id::DATE, 0, 0),
            DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => (type_id::TIMESTAMP, 6, 0),
            DataType::Timestamp(TimeUnit::Microsecond, None) => (type_id::TIMESTAMP_NTZ, 6, 0),
            DataType::Time64(TimeUnit::Nanosecond) => (type_id::TIME, 9, 0),
            DataType::Interval(IntervalUnit::YearMonth) => (type_id::INTERVAL_YEAR_MONTH, 0, 1),
            DataType::Duration(TimeUnit::Microsecond) => (type_id::INTERVAL_DAY_TIME, 0, 3),
            DataType::Interval(IntervalUnit::MonthDayNano) => (type_id::INTERVAL_CALENDAR, 0, 0),
            DataType::Dictionary(_, value) => return self.data_type(value),
            DataType::List(element) | DataType::LargeList(element) => return self.fields(type_id::ARRAY, &[element]),
            DataType::Struct(fields) => {
                let fields: Vec<&Field> = fields.iter().map(|field| field.as_ref()).collect();
                return self.fields(type_id::STRUCT, &fields);
            }
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) if fields.len() == 2 => {
                    return self.fields(type_id::MAP, &[&fields[0], &fields[1]]);
                }
                _ => return Err(Failure::unimplemented("lifting of a map without entries")),
            },
            other => return Err(Failure::unimplemented(format!("lifting of type {other}"))),
        };
        self.plain_type(id, precision, scale, 0);
        Ok(())
    }

    fn literal(&mut self, value: &ScalarValue) -> Fallible<()> {
        let data_type = value.data_type();
        let start = self.bytes.len();
        self.u8(op::LITERAL);
        self.data_type(&data_type)?;
        self.u8(u8::from(value.is_null()));
        if value.is_null() {
            return Ok(());
        }
        match value {
            ScalarValue::Boolean(Some(v)) => self.u8(u8::from(*v)),
            ScalarValue::Int8(Some(v)) => self.i64(i64::from(*v)),
            ScalarValue::Int16(Some(v)) => self.i64(i64::from(*v)),
            ScalarValue::Int32(Some(v)) | ScalarValue::Date32(Some(v)) | ScalarValue::IntervalYearMonth(Some(v)) => {
                self.i64(i64::from(*v))
            }
            ScalarValue::Int64(Some(v))
            | ScalarValue::TimestampMicrosecond(Some(v), _)
            | ScalarValue::Time64Nanosecond(Some(v))
            | ScalarValue::DurationMicrosecond(Some(v)) => self.i64(*v),
            ScalarValue::Float32(Some(v)) => self.bytes.extend_from_slice(&f64::from(*v).to_le_bytes()),
            ScalarValue::Float64(Some(v)) => self.bytes.extend_from_slice(&v.to_le_bytes()),
            ScalarValue::Decimal128(Some(v), _, _) => self.bytes.extend_from_slice(&v.to_le_bytes()),
            ScalarValue::Utf8(Some(v)) | ScalarValue::LargeUtf8(Some(v)) | ScalarValue::Utf8View(Some(v)) => {
                self.sized(v.as_bytes())?
            }
            ScalarValue::Binary(Some(v)) | ScalarValue::LargeBinary(Some(v)) | ScalarValue::BinaryView(Some(v)) => {
                self.sized(v)?
            }
            ScalarValue::IntervalMonthDayNano(Some(v)) => {
                self.u32(v.months as u32);
                self.u32(v.days as u32);
                self.i64(v.nanoseconds);
            }
            ScalarValue::Dictionary(_, inner) => {
                self.bytes.truncate(start);
                return self.literal(inner);
            }
            other => return Err(Failure::unimplemented(format!("lifting of a literal of type {}", other.data_type()))),
        }
        Ok(())
    }
}

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
        _ => return None,
    })
}

/// Where a function lives: the library's names have a dot, the engine's none.
fn home(name: &str) -> u8 {
    if name.contains('.') { 2 } else { 1 }
}

pub fn expression(out: &mut Encoder, expr: &Expr, scope: &Scope) -> Fallible<()> {
    out.depth += 1;
    if out.depth > EXPR_DEPTH_MAX {
        return Err(Failure::exhausted(format!("an expression nests deeper than {EXPR_DEPTH_MAX}")));
    }
    any_expression(out, expr, scope)?;
    out.depth -= 1;
    Ok(())
}

fn all<'a>(out: &mut Encoder, exprs: impl IntoIterator<Item = &'a Expr>, scope: &Scope) -> Fallible<usize> {
    let mut count = 0;
    for expr in exprs {
        expression(out, expr, scope)?;
        count += 1;
    }
    Ok(count)
}

fn unary(out: &mut Encoder, name: &str, operand: &Expr, result: &DataType, scope: &Scope) -> Fallible<()> {
    expression(out, operand, scope)?;
    out.call(0, name, 1, result)
}

fn any_expression(out: &mut Encoder, expr: &Expr, scope: &Scope) -> Fallible<()> {
    let boolean = DataType::Boolean;
    match expr {
        Expr::Alias(alias) => expression(out, &alias.expr, scope),
        Expr::Column(column) => {
            let id = scope.id(column)?;
            out.u8(op::COLUMN);
            out.u32(id);
            Ok(())
        }
        Expr::Literal(value, _) => out.literal(value),
        Expr::BinaryExpr(binary) => {
            let name = operator_name(binary.op)
                .ok_or_else(|| Failure::unimplemented(format!("lifting of operator {}", binary.op)))?;
            all(out, [binary.left.as_ref(), binary.right.as_ref()], scope)?;
            out.call(0, name, 2, &expr.get_type(scope.schema)?)
        }
        Expr::Not(operand) => unary(out, "not", operand, &boolean, scope),
        Expr::IsNull(operand) | Expr::IsUnknown(operand) => unary(out, "is_null", operand, &boolean, scope),
        Expr::IsNotNull(operand) | Expr::IsNotUnknown(operand) => unary(out, "is_not_null", operand, &boolean, scope),
        Expr::IsTrue(operand) => unary(out, "is_true", operand, &boolean, scope),
        Expr::IsFalse(operand) => unary(out, "is_false", operand, &boolean, scope),
        Expr::IsNotTrue(operand) => unary(out, "is_not_true", operand, &boolean, scope),
        Expr::IsNotFalse(operand) => unary(out, "is_not_false", operand, &boolean, scope),
        Expr::Negative(operand) => unary(out, "negative", operand, &expr.get_type(scope.schema)?, scope),
        Expr::Like(like) => {
            let name = if like.case_insensitive { "ilike" } else { "like" };
            let mut count = all(out, [like.expr.as_ref(), like.pattern.as_ref()], scope)?;
            if let Some(escape) = like.escape_char {
                out.literal(&ScalarValue::Utf8(Some(escape.to_string())))?;
                count += 1;
            }
            out.call(0, name, count, &boolean)?;
            negate(out, like.negated)
        }
        Expr::Between(between) => lift_between(out, between, scope),
        Expr::Case(case) => {
            let mut count = 0;
            for (when, then) in &case.when_then_expr {
                expression(out, when, scope)?;
                if let Some(value) = &case.expr {
                    expression(out, value, scope)?;
                    out.call(0, "=", 2, &boolean)?;
                }
                expression(out, then, scope)?;
                count += 2;
            }
            count += all(out, case.else_expr.as_deref(), scope)?;
            out.u8(op::CASE);
            out.u32(count as u32);
            Ok(())
        }
        Expr::Cast(cast) => {
            expression(out, &cast.expr, scope)?;
            out.cast(cast.field.data_type(), false)
        }
        Expr::TryCast(cast) => {
            expression(out, &cast.expr, scope)?;
            out.cast(cast.field.data_type(), true)
        }
        Expr::InList(list) => {
            let count = all(out, std::iter::once(list.expr.as_ref()).chain(&list.list), scope)?;
            out.u8(op::IN_LIST);
            out.u32(count as u32);
            out.u8(u8::from(list.negated));
            Ok(())
        }
        Expr::ScalarFunction(function) => {
            let count = all(out, &function.args, scope)?;
            out.call(home(function.name()), function.name(), count, &expr.get_type(scope.schema)?)
        }
        Expr::AggregateFunction(function) => {
            let params = &function.params;
            if params.null_treatment == Some(NullTreatment::IgnoreNulls) {
                return Err(Failure::unimplemented("lifting of IGNORE NULLS"));
            }
            let count = all(out, &params.args, scope)?;
            all(out, params.order_by.iter().map(|key| &key.expr), scope)?;
            all(out, params.filter.as_deref(), scope)?;
            out.u8(op::AGGREGATE);
            out.u8(home(function.func.name()));
            out.sized(function.func.name().as_bytes())?;
            out.u8(u8::from(params.distinct));
            out.u8(u8::from(params.filter.is_some()));
            out.u32(params.order_by.len() as u32);
            params.order_by.iter().for_each(|key| out.sort_flag(key));
            out.u32(count as u32);
            out.data_type(&expr.get_type(scope.schema)?)
        }
        other => Err(Failure::unimplemented(format!("lifting of {}", other.variant_name()))),
    }
}

fn negate(out: &mut Encoder, negated: bool) -> Fallible<()> {
    match negated {
        true => out.call(0, "not", 1, &DataType::Boolean),
        false => Ok(()),
    }
}

fn lift_between(out: &mut Encoder, between: &Between, scope: &Scope) -> Fallible<()> {
    let boolean = DataType::Boolean;
    all(out, [between.expr.as_ref(), between.low.as_ref()], scope)?;
    out.call(0, ">=", 2, &boolean)?;
    all(out, [between.expr.as_ref(), between.high.as_ref()], scope)?;
    out.call(0, "<=", 2, &boolean)?;
    out.call(0, "and", 2, &boolean)?;
    negate(out, between.negated)
}
