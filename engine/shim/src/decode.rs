//! The encoding's atoms: integers, texts, types, literals. Every read is checked; the bytes are hostile.
use crate::error::{Failure, Fallible};
use crate::features::arrow::array::{
    Array, ArrayRef, ListArray, MapArray, StructArray, new_empty_array, new_null_array,
};
use crate::features::arrow::buffer::OffsetBuffer;
use crate::features::arrow::compute::{cast, concat};
use crate::features::arrow::datatypes::{DataType, Field, Fields, IntervalMonthDayNano, IntervalUnit, TimeUnit};
use crate::features::arrow::ffi::FFI_ArrowSchema;
use crate::features::datafusion::common::ScalarValue;
use std::sync::Arc;

/// A type nests at most this deep.
pub const TYPE_DEPTH_MAX: u32 = 64;

pub mod type_id {
    pub const NULL: u8 = 0;
    pub const BOOL: u8 = 1;
    pub const INT8: u8 = 2;
    pub const INT16: u8 = 3;
    pub const INT32: u8 = 4;
    pub const INT64: u8 = 5;
    pub const FLOAT32: u8 = 6;
    pub const FLOAT64: u8 = 7;
    pub const DECIMAL: u8 = 8;
    pub const STRING: u8 = 9;
    pub const BINARY: u8 = 10;
    pub const DATE: u8 = 11;
    pub const TIMESTAMP: u8 = 12;
    pub const TIMESTAMP_NTZ: u8 = 13;
    pub const TIME: u8 = 14;
    pub const INTERVAL_YEAR_MONTH: u8 = 15;
    pub const INTERVAL_DAY_TIME: u8 = 16;
    pub const INTERVAL_CALENDAR: u8 = 17;
    pub const ARRAY: u8 = 18;
    pub const MAP: u8 = 19;
    pub const STRUCT: u8 = 20;
    /// Any other type of Arrow's without fields, by its format in the C interface.
    pub const OTHER: u8 = 21;
}

pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub fn is_done(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub fn invalid(&self, what: impl std::fmt::Display) -> Failure {
        Failure::invalid(format!("plan, at byte {}: {what}", self.at))
    }

    pub fn take(&mut self, count: usize) -> Fallible<&'a [u8]> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| self.invalid("truncated"))?;
        let out = &self.bytes[self.at..end];
        self.at = end;
        Ok(out)
    }

    fn fixed<const N: usize>(&mut self) -> Fallible<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub fn u8(&mut self) -> Fallible<u8> {
        Ok(self.fixed::<1>()?[0])
    }

    /// A flag: 0 or 1.
    pub fn flag(&mut self) -> Fallible<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.invalid(format!("a flag of {other}"))),
        }
    }

    pub fn u32(&mut self) -> Fallible<u32> {
        Ok(u32::from_le_bytes(self.fixed()?))
    }

    pub fn i32(&mut self) -> Fallible<i32> {
        Ok(i32::from_le_bytes(self.fixed()?))
    }

    pub fn u64(&mut self) -> Fallible<u64> {
        Ok(u64::from_le_bytes(self.fixed()?))
    }

    pub fn i64(&mut self) -> Fallible<i64> {
        Ok(i64::from_le_bytes(self.fixed()?))
    }

    pub fn f64(&mut self) -> Fallible<f64> {
        Ok(f64::from_le_bytes(self.fixed()?))
    }

    pub fn bytes(&mut self) -> Fallible<&'a [u8]> {
        let size = self.u32()? as usize;
        self.take(size)
    }

    pub fn str(&mut self) -> Fallible<&'a str> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.invalid("a text that is not UTF-8"))
    }

    /// A count of things that take at least `size` bytes each, so that nothing is allocated for what cannot follow.
    pub fn count(&mut self, size: usize) -> Fallible<usize> {
        let count = self.u32()? as usize;
        self.check_count(count, size)
    }

    pub fn check_count(&self, count: usize, size: usize) -> Fallible<usize> {
        match count.checked_mul(size) {
            Some(total) if total <= self.bytes.len() - self.at => Ok(count),
            _ => Err(self.invalid(format!("a count of {count}, but the plan ends before that"))),
        }
    }

    pub fn ids(&mut self, count: usize) -> Fallible<Vec<u32>> {
        self.check_count(count, 4)?;
        (0..count).map(|_| self.u32()).collect()
    }

    pub fn data_type(&mut self) -> Fallible<DataType> {
        self.nested_type(0)
    }

    fn nested_type(&mut self, depth: u32) -> Fallible<DataType> {
        if depth > TYPE_DEPTH_MAX {
            return Err(Failure::exhausted(format!("a type nests deeper than {TYPE_DEPTH_MAX}")));
        }
        let id = self.u8()?;
        let precision = self.u8()?;
        let scale = self.u8()? as i8;
        let _variant = self.u8()?;
        let _length = self.i32()?;
        // Each has a name's size, the flag and a type without fields at least.
        let count = self.count(4 + 1 + 12)?;
        let mut fields = Vec::with_capacity(count);
        for _ in 0..count {
            let name = self.str()?;
            let nullable = self.flag()?;
            let data_type = self.nested_type(depth + 1)?;
            fields.push(Field::new(name, data_type, nullable));
        }
        let wanted = match id {
            type_id::ARRAY => Some(1),
            type_id::MAP => Some(2),
            type_id::STRUCT => None,
            _ => Some(0),
        };
        if wanted.is_some_and(|wanted| wanted != fields.len()) {
            return Err(self.invalid(format!("type {id} with {} fields", fields.len())));
        }
        Ok(match id {
            type_id::NULL => DataType::Null,
            type_id::BOOL => DataType::Boolean,
            type_id::INT8 => DataType::Int8,
            type_id::INT16 => DataType::Int16,
            type_id::INT32 => DataType::Int32,
            type_id::INT64 => DataType::Int64,
            type_id::FLOAT32 => DataType::Float32,
            type_id::FLOAT64 => DataType::Float64,
            type_id::DECIMAL => {
                if !(1..=38).contains(&precision) || scale < 0 || scale as u8 > precision {
                    return Err(self.invalid(format!("decimal({precision},{scale})")));
                }
                DataType::Decimal128(precision, scale)
            }
            type_id::STRING => DataType::Utf8,
            type_id::BINARY => DataType::Binary,
            type_id::DATE => DataType::Date32,
            type_id::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            type_id::TIMESTAMP_NTZ => DataType::Timestamp(TimeUnit::Microsecond, None),
            type_id::TIME => DataType::Time64(TimeUnit::Nanosecond),
            type_id::INTERVAL_YEAR_MONTH => DataType::Interval(IntervalUnit::YearMonth),
            type_id::INTERVAL_DAY_TIME => DataType::Duration(TimeUnit::Microsecond),
            type_id::INTERVAL_CALENDAR => DataType::Interval(IntervalUnit::MonthDayNano),
            // The engine's own names of nested fields: its functions make these.
            type_id::ARRAY => {
                let element = fields.remove(0);
                DataType::new_list(element.data_type().clone(), element.is_nullable())
            }
            type_id::MAP => {
                let key = fields.remove(0).with_name("key").with_nullable(false);
                let value = fields.remove(0).with_name("value");
                let entries = DataType::Struct(Fields::from(vec![key, value]));
                DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
            }
            type_id::STRUCT => DataType::Struct(Fields::from(fields)),
            type_id::OTHER => {
                let format = self.str()?;
                let schema = FFI_ArrowSchema::try_new(format, vec![], None)
                    .map_err(|_| self.invalid("a type's format with a NUL"))?;
                DataType::try_from(&schema).map_err(|_| self.invalid(format!("a type of format {format}")))?
            }
            other => return Err(self.invalid(format!("unknown type {other}"))),
        })
    }

    /// The value of a literal of `data_type` that is not null and not nested.
    pub fn scalar(&mut self, data_type: &DataType) -> Fallible<ScalarValue> {
        Ok(match data_type {
            DataType::Boolean => ScalarValue::Boolean(Some(self.flag()?)),
            DataType::Int8 => ScalarValue::Int8(Some(self.integer()?)),
            DataType::Int16 => ScalarValue::Int16(Some(self.integer()?)),
            DataType::Int32 => ScalarValue::Int32(Some(self.integer()?)),
            DataType::Int64 => ScalarValue::Int64(Some(self.i64()?)),
            DataType::Float32 => ScalarValue::Float32(Some(self.f64()? as f32)),
            DataType::Float64 => ScalarValue::Float64(Some(self.f64()?)),
            DataType::Decimal128(precision, scale) => {
                let (low, high) = (self.u64()?, self.i64()?);
                let value = (i128::from(high) << 64) | i128::from(low);
                if value.unsigned_abs() >= 10u128.pow(u32::from(*precision)) {
                    return Err(self.invalid(format!("a decimal that {precision} digits cannot hold")));
                }
                ScalarValue::Decimal128(Some(value), *precision, *scale)
            }
            DataType::Utf8 => ScalarValue::Utf8(Some(self.str()?.to_string())),
            DataType::Binary => ScalarValue::Binary(Some(self.bytes()?.to_vec())),
            DataType::Date32 => ScalarValue::Date32(Some(self.integer()?)),
            DataType::Timestamp(_, zone) => ScalarValue::TimestampMicrosecond(Some(self.i64()?), zone.clone()),
            DataType::Time64(_) => ScalarValue::Time64Nanosecond(Some(self.i64()?)),
            DataType::Interval(IntervalUnit::YearMonth) => ScalarValue::IntervalYearMonth(Some(self.integer()?)),
            DataType::Duration(_) => ScalarValue::DurationMicrosecond(Some(self.i64()?)),
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                let (months, days, nanos) = (self.i32()?, self.i32()?, self.i64()?);
                ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(months, days, nanos)))
            }
            other => return Err(self.invalid(format!("a literal of type {other}"))),
        })
    }

    fn integer<T: TryFrom<i64>>(&mut self) -> Fallible<T> {
        let value = self.i64()?;
        T::try_from(value).map_err(|_| self.invalid(format!("a literal of {value} is out of its type's range")))
    }
}

/// Whether `is` is the view layout of `plain`. Views that files have stay: operators take either, kernels get the plain
/// layout (functions.rs), and so does the output.
fn is_view_of(is: &DataType, plain: &DataType) -> bool {
    matches!((is, plain), (DataType::Utf8View, DataType::Utf8) | (DataType::BinaryView, DataType::Binary))
}

/// The type that the encoding has for columns of `data_type`: what a source gives is cast to it where it differs.
pub fn engine_type(data_type: &DataType) -> DataType {
    let same = |field: &Arc<Field>| Arc::new(field.as_ref().clone().with_data_type(engine_type(field.data_type())));
    match data_type {
        DataType::LargeUtf8 => DataType::Utf8,
        DataType::LargeBinary | DataType::FixedSizeBinary(_) => DataType::Binary,
        DataType::Timestamp(_, None) => DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(_, Some(_)) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Duration(_) => DataType::Duration(TimeUnit::Microsecond),
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Nanosecond),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal256(precision, scale)
            if *precision <= 38 =>
        {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Dictionary(_, value) => engine_type(value),
        DataType::RunEndEncoded(_, values) => engine_type(values.data_type()),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::ListView(field)
        | DataType::LargeListView(field) => DataType::List(same(field)),
        DataType::Map(entries, sorted) => DataType::Map(same(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(same).collect()),
        other => other.clone(),
    }
}

/// Whether a value of type `is` must be cast to be what the plan declares. Names inside nested types do not count.
pub fn needs_cast(is: &DataType, declared: &DataType) -> bool {
    match declared {
        DataType::Null => false,
        nested if is_nested(nested) => !crate::output::same_layout(is, nested),
        plain => is != plain && !is_view_of(is, plain),
    }
}

pub fn is_nested(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(_) | DataType::Map(_, _) | DataType::Struct(_))
}

/// Values, one after the other, as an array of `data_type`.
fn column(values: &[ScalarValue], data_type: &DataType) -> Fallible<ArrayRef> {
    if values.is_empty() {
        return Ok(new_empty_array(data_type));
    }
    let mut arrays = Vec::with_capacity(values.len());
    for value in values {
        let array = match value.is_null() {
            true => new_null_array(data_type, 1),
            false => value.to_array()?,
        };
        arrays.push(if array.data_type() == data_type { array } else { cast(&array, data_type)? });
    }
    let parts: Vec<&dyn Array> = arrays.iter().map(|array| array.as_ref()).collect();
    Ok(concat(&parts)?)
}

/// A nested literal from the literals that it is made of.
pub fn nested(data_type: &DataType, items: &[ScalarValue]) -> Fallible<ScalarValue> {
    Ok(match data_type {
        DataType::List(field) => {
            let values = column(items, field.data_type())?;
            let offsets = OffsetBuffer::from_lengths([values.len()]);
            ScalarValue::List(Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, None)?))
        }
        DataType::Struct(fields) => {
            if fields.len() != items.len() {
                return Err(Failure::invalid("a struct literal with the wrong number of fields"));
            }
            let mut columns = Vec::with_capacity(fields.len());
            for (field, item) in fields.iter().zip(items) {
                columns.push(column(std::slice::from_ref(item), field.data_type())?);
            }
            ScalarValue::Struct(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, None, 1)?))
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(fields) = entries.data_type() else {
                return Err(Failure::invalid("a map without entries"));
            };
            if fields.len() != 2 || items.len() % 2 != 0 {
                return Err(Failure::invalid("a map literal with a key without its value"));
            }
            let keys: Vec<ScalarValue> = items.iter().step_by(2).cloned().collect();
            let values: Vec<ScalarValue> = items.iter().skip(1).step_by(2).cloned().collect();
            let columns = vec![column(&keys, fields[0].data_type())?, column(&values, fields[1].data_type())?];
            let structs = StructArray::try_new_with_length(fields.clone(), columns, None, keys.len())?;
            let offsets = OffsetBuffer::from_lengths([keys.len()]);
            ScalarValue::Map(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, structs, None, false)?))
        }
        other => return Err(Failure::invalid(format!("a nested literal of type {other}"))),
    })
}
