//! Writing the encoding: integers, texts, types, literals.
use crate::decode::type_id;
use crate::error::{Failure, Fallible};
use crate::features::arrow::array::{Array, ArrayRef};
use crate::features::arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use crate::features::arrow::ffi::FFI_ArrowSchema;
use crate::features::datafusion::common::ScalarValue;
use crate::features::datafusion::logical_expr::expr::Sort;
use crate::machine::op;

#[derive(Default)]
pub struct Encoder {
    pub bytes: Vec<u8>,
}

impl Encoder {
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub fn flag(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    pub fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn i64(&mut self, value: i64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn f64(&mut self, value: f64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn sized(&mut self, bytes: &[u8]) -> Fallible<()> {
        let size = u32::try_from(bytes.len()).map_err(|_| Failure::exhausted("a literal of 4 GiB"))?;
        self.u32(size);
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    pub fn sort_flag(&mut self, key: &Sort) {
        self.u8(u8::from(!key.asc) | (u8::from(key.nulls_first) << 1));
    }

    pub fn call(&mut self, home: u8, name: &str, count: usize, result: &DataType, nullable: bool) -> Fallible<()> {
        self.u8(op::CALL);
        self.u8(home);
        self.sized(name.as_bytes())?;
        self.u32(count as u32);
        self.data_type(result)?;
        self.flag(nullable);
        Ok(())
    }

    pub fn cast(&mut self, data_type: &DataType, is_try: bool) -> Fallible<()> {
        self.u8(op::CAST);
        self.data_type(data_type)?;
        self.flag(is_try);
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
            self.flag(field.is_nullable());
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
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
                if *scale >= 0 && *scale as u8 <= *precision =>
            {
                (type_id::DECIMAL, *precision, *scale)
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => (type_id::STRING, 0, 0),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => (type_id::BINARY, 0, 0),
            DataType::Date32 => (type_id::DATE, 0, 0),
            DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) if zone.as_ref() == "UTC" => {
                (type_id::TIMESTAMP, 6, 0)
            }
            DataType::Timestamp(TimeUnit::Microsecond, None) => (type_id::TIMESTAMP_NTZ, 6, 0),
            DataType::Time64(TimeUnit::Nanosecond) => (type_id::TIME, 9, 0),
            DataType::Interval(IntervalUnit::YearMonth) => (type_id::INTERVAL_YEAR_MONTH, 0, 1),
            DataType::Duration(TimeUnit::Microsecond) => (type_id::INTERVAL_DAY_TIME, 0, 3),
            DataType::Interval(IntervalUnit::MonthDayNano) => (type_id::INTERVAL_CALENDAR, 0, 0),
            DataType::Dictionary(_, value) => return self.data_type(value),
            DataType::RunEndEncoded(_, values) => return self.data_type(values.data_type()),
            DataType::List(element)
            | DataType::LargeList(element)
            | DataType::FixedSizeList(element, _)
            | DataType::ListView(element)
            | DataType::LargeListView(element) => return self.fields(type_id::ARRAY, &[element]),
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
            DataType::Union(_, _) => return Err(Failure::unimplemented(format!("columns of type {data_type}"))),
            other => return self.other_type(other),
        };
        self.plain_type(id, precision, scale, 0);
        Ok(())
    }

    /// A type that the plan has no name for: by its format in Arrow's C interface.
    fn other_type(&mut self, data_type: &DataType) -> Fallible<()> {
        let schema = FFI_ArrowSchema::try_from(data_type)?;
        self.plain_type(type_id::OTHER, 0, 0, 0);
        self.sized(schema.format().as_bytes())
    }

    /// Elements of one array, as literals.
    fn elements(&mut self, values: &ArrayRef) -> Fallible<usize> {
        for place in 0..values.len() {
            self.literal(&ScalarValue::try_from_array(values, place)?)?;
        }
        Ok(values.len())
    }

    /// The parts of a nested value; none: it is not nested, or null.
    fn parts(&mut self, value: &ScalarValue) -> Fallible<Option<usize>> {
        Ok(match value {
            other if other.is_null() => None,
            ScalarValue::List(array) => Some(self.elements(&array.value(0))?),
            ScalarValue::LargeList(array) => Some(self.elements(&array.value(0))?),
            ScalarValue::FixedSizeList(array) => Some(self.elements(&array.value(0))?),
            ScalarValue::Struct(array) => {
                for column in array.columns() {
                    self.literal(&ScalarValue::try_from_array(column, 0)?)?;
                }
                Some(array.columns().len())
            }
            ScalarValue::Map(array) => {
                let entries = array.value(0);
                for row in 0..entries.len() {
                    for column in entries.columns() {
                        self.literal(&ScalarValue::try_from_array(column, row)?)?;
                    }
                }
                Some(entries.len() * 2)
            }
            _ => None,
        })
    }

    pub fn literal(&mut self, value: &ScalarValue) -> Fallible<()> {
        match value {
            ScalarValue::Dictionary(_, inner) | ScalarValue::RunEndEncoded(_, _, inner) => return self.literal(inner),
            _ => {}
        }
        let parts = self.parts(value)?;
        let start = self.bytes.len();
        self.u8(op::LITERAL);
        self.data_type(&value.data_type())?;
        self.flag(value.is_null());
        if let Some(count) = parts {
            self.u32(count as u32);
            return Ok(());
        }
        if value.is_null() {
            return Ok(());
        }
        match value {
            ScalarValue::Boolean(Some(v)) => self.flag(*v),
            ScalarValue::Int8(Some(v)) => self.i64(i64::from(*v)),
            ScalarValue::Int16(Some(v)) => self.i64(i64::from(*v)),
            ScalarValue::Int32(Some(v)) | ScalarValue::Date32(Some(v)) | ScalarValue::IntervalYearMonth(Some(v)) => {
                self.i64(i64::from(*v))
            }
            ScalarValue::Int64(Some(v))
            | ScalarValue::Time64Nanosecond(Some(v))
            | ScalarValue::DurationMicrosecond(Some(v))
            | ScalarValue::TimestampMicrosecond(Some(v), None) => self.i64(*v),
            ScalarValue::TimestampMicrosecond(Some(v), Some(zone)) if zone.as_ref() == "UTC" => self.i64(*v),
            ScalarValue::Float32(Some(v)) => self.f64(f64::from(*v)),
            ScalarValue::Float64(Some(v)) => self.f64(*v),
            ScalarValue::Decimal32(Some(v), _, scale) if *scale >= 0 => {
                self.bytes.extend_from_slice(&i128::from(*v).to_le_bytes())
            }
            ScalarValue::Decimal64(Some(v), _, scale) if *scale >= 0 => {
                self.bytes.extend_from_slice(&i128::from(*v).to_le_bytes())
            }
            ScalarValue::Decimal128(Some(v), _, scale) if *scale >= 0 => self.bytes.extend_from_slice(&v.to_le_bytes()),
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
            other => {
                self.bytes.truncate(start);
                return self.other_literal(other);
            }
        }
        Ok(())
    }

    /// A value of a type that the plan has no literals of: a cast of one that it has, exact.
    fn other_literal(&mut self, value: &ScalarValue) -> Fallible<()> {
        let data_type = value.data_type();
        let between = match data_type {
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => DataType::Int64,
            DataType::UInt64 => DataType::Decimal128(20, 0),
            DataType::Float16 => DataType::Float32,
            DataType::Date64 | DataType::Timestamp(_, _) | DataType::Time64(_) | DataType::Duration(_) => {
                DataType::Int64
            }
            DataType::Time32(_) => DataType::Int32,
            DataType::FixedSizeBinary(_) => DataType::Binary,
            _ => DataType::Utf8,
        };
        let inner = value.cast_to(&between)?;
        if inner.cast_to(&data_type)? != *value {
            return Err(Failure::unimplemented(format!("lifting of a literal of type {data_type}")));
        }
        self.literal(&inner)?;
        self.cast(&data_type, false)
    }
}
