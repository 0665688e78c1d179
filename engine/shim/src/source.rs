//! Table providers: files, rows in memory.
use crate::abi::Kv;
use crate::cancel::check;
use crate::error::{Failure, Fallible};
use crate::features::arrow::array::{Array, RecordBatch, RecordBatchReader};
use crate::features::arrow::buffer::Buffer;
use crate::features::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use crate::features::arrow::ffi::FFI_ArrowSchema;
use crate::features::arrow::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use crate::features::arrow::ipc::reader::StreamDecoder;
use crate::features::datafusion::catalog::{MemTable, TableProvider};
use crate::features::datafusion::common::config::{ConfigField, CsvOptions, JsonOptions, TableParquetOptions};
use crate::features::datafusion::datasource::file_format::FileFormat;
use crate::features::datafusion::datasource::file_format::arrow::ArrowFormat;
use crate::features::datafusion::datasource::file_format::csv::CsvFormat;
use crate::features::datafusion::datasource::file_format::json::JsonFormat;
use crate::features::datafusion::datasource::file_format::parquet::ParquetFormat;
use crate::features::datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use crate::features::futures::TryStreamExt;
use crate::mapped::Mapped;
use crate::range::Range;
use crate::runtime::{Session, slice, text};
use std::ffi::c_char;
use std::sync::Arc;

#[derive(Debug)]
pub struct Source {
    pub provider: Arc<dyn TableProvider>,
    pub schema: SchemaRef,
}

/// What a table is, for those who must know: the first byte of `about`.
mod about {
    pub const UNKNOWN: u8 = 0;
    /// Then the format and the paths, each ended by a NUL.
    pub const FILES: u8 = 1;
    pub const ROWS: u8 = 2;
    pub const GENERATED: u8 = 3;
}

impl Source {
    pub fn about(&self) -> Vec<u8> {
        let Some(files) = self.provider.downcast_ref::<ListingTable>() else {
            return if self.provider.is::<MemTable>() || self.provider.is::<Mapped>() {
                vec![about::ROWS]
            } else if self.provider.is::<Range>() {
                vec![about::GENERATED]
            } else {
                vec![about::UNKNOWN]
            };
        };
        let mut out = vec![about::FILES];
        let mut put = |text: &str| {
            out.extend(text.bytes().filter(|byte| *byte != 0));
            out.push(0);
        };
        put(&files.options().format.get_ext());
        for path in files.table_paths() {
            // Of a pattern, the directory that all its files are below.
            let local = path.get_url().to_file_path().ok();
            put(local.as_deref().and_then(|local| local.to_str()).unwrap_or(path.as_str()));
        }
        out
    }
}

struct Options<'a> {
    pairs: Vec<(&'a str, &'a str)>,
    extension: Option<&'a str>,
    /// Names of directory levels `name=value`, outermost first: text columns behind those of the files.
    partition_columns: Vec<&'a str>,
}

unsafe fn options<'a>(pairs: *const Kv, count: usize) -> Fallible<Options<'a>> {
    let mut out = Options { pairs: vec![], extension: None, partition_columns: vec![] };
    for pair in unsafe { slice(pairs, count, "options") }? {
        let key = unsafe { text(pair.key, "an option's key") }?;
        if pair.value.is_null() {
            continue;
        }
        let value = unsafe { text(pair.value, key) }?;
        match key {
            "partition_column" => out.partition_columns.push(value),
            "file_extension" => out.extension = Some(value),
            _ => out.pairs.push((key, value)),
        }
    }
    Ok(out)
}

pub fn set_all<T: ConfigField>(mut target: T, pairs: &[(&str, &str)]) -> Fallible<T> {
    for (key, value) in pairs {
        target
            .set(key, value)
            .map_err(|error| Failure::invalid(format!("option {key}={value}: {}", Failure::from(error).message)))?;
    }
    Ok(target)
}

fn file_format(session: &Session, format: &str, pairs: &[(&str, &str)]) -> Fallible<Arc<dyn FileFormat>> {
    let defaults = session.state.default_table_options();
    Ok(match format {
        "parquet" => {
            let mut options: TableParquetOptions = defaults.parquet;
            options.global = session.state.config_options().execution.parquet.clone();
            Arc::new(ParquetFormat::default().with_options(set_all(options, pairs)?))
        }
        "csv" => {
            let options: CsvOptions = set_all(defaults.csv, pairs)?;
            Arc::new(CsvFormat::default().with_options(options))
        }
        "json" => {
            let options: JsonOptions = set_all(defaults.json, pairs)?;
            Arc::new(JsonFormat::default().with_options(options))
        }
        "arrow" => match pairs.first() {
            Some((key, _)) => return Err(Failure::invalid(format!("option {key} for arrow files"))),
            None => Arc::new(ArrowFormat),
        },
        other => return Err(Failure::unimplemented(format!("files of format {other}"))),
    })
}

/// Names of data files under `url`: those that readers of directories skip (markers, checksums) do not count.
async fn data_files(session: &Session, url: &ListingTableUrl) -> Fallible<Vec<String>> {
    let state = session.state.as_ref();
    let store = state.runtime_env().object_store(url)?;
    let files = url.list_all_files(state, store.as_ref(), "").await?;
    let files: Vec<_> = files.try_collect().await?;
    Ok(files
        .iter()
        .filter_map(|file| file.location.filename().map(str::to_string))
        .filter(|name| !name.starts_with(['_', '.']))
        .collect())
}

/// The ending that all names have in common, from their last dot on; none: "".
fn common_extension(names: &[String]) -> String {
    let ending = |name: &String| name.rfind('.').map(|dot| name[dot..].to_string());
    let Some(first) = names.first().and_then(ending) else { return String::new() };
    match names.iter().all(|name| ending(name).as_ref() == Some(&first)) {
        true => first,
        false => String::new(),
    }
}

async fn open_files(
    session: &Session,
    format: Arc<dyn FileFormat>,
    paths: &[&str],
    named: &Options<'_>,
    schema: Option<SchemaRef>,
) -> Fallible<Arc<dyn TableProvider>> {
    let mut urls = Vec::with_capacity(paths.len());
    let mut names = vec![];
    for path in paths {
        let url = ListingTableUrl::parse(path)?;
        let found = match data_files(session, &url).await {
            Err(failure) if failure.status == crate::abi::status::NOT_FOUND => vec![],
            other => other?,
        };
        if found.is_empty() && !is_directory(&url) {
            return Err(Failure::path_not_found(path));
        }
        names.extend(found);
        urls.push(url);
    }
    let extension = named.extension.map_or_else(|| common_extension(&names), str::to_string);
    let levels: Vec<(String, DataType)> =
        named.partition_columns.iter().map(|name| (name.to_string(), DataType::Utf8)).collect();
    let options = ListingOptions::new(format).with_file_extension(extension).with_table_partition_cols(levels);
    let schema = match (schema, urls.first()) {
        (Some(schema), _) => schema,
        (None, Some(_)) if names.is_empty() => {
            return Err(Failure::invalid("no files to infer a schema from")
                .condition("UNABLE_TO_INFER_SCHEMA")
                .param("path", paths.join(",").as_bytes()));
        }
        (None, Some(url)) => options.infer_schema(session.state.as_ref(), url).await?,
        (None, None) => return Err(Failure::invalid("no paths")),
    };
    // A directory's value goes before what its files have under the same name.
    let own = schema.fields().iter().filter(|field| !named.partition_columns.contains(&field.name().as_str()));
    let schema = Arc::new(Schema::new_with_metadata(own.cloned().collect::<Vec<_>>(), schema.metadata().clone()));
    let config = ListingTableConfig::new_with_multi_paths(urls).with_listing_options(options).with_schema(schema);
    let cache = session.state.runtime_env().cache_manager.get_file_statistic_cache();
    Ok(Arc::new(ListingTable::try_new(config)?.with_cache(cache)))
}

fn is_directory(url: &ListingTableUrl) -> bool {
    url.is_folder() && url.get_glob().is_none() && url.get_url().to_file_path().is_ok_and(|path| path.is_dir())
}

#[allow(clippy::too_many_arguments)]
pub unsafe fn files(
    session: &Session,
    format: *const c_char,
    paths: *const *const c_char,
    path_count: usize,
    pairs: *const Kv,
    pair_count: usize,
    schema: *const FFI_ArrowSchema,
) -> Fallible<Arc<Source>> {
    let format = unsafe { text(format, "format") }?;
    let mut list = vec![];
    for path in unsafe { slice(paths, path_count, "paths") }? {
        list.push(unsafe { text(*path, "a path") }?);
    }
    if list.is_empty() {
        return Err(Failure::invalid("no paths"));
    }
    let options = unsafe { options(pairs, pair_count) }?;
    let format = file_format(session, format, &options.pairs)?;
    let schema = match unsafe { schema.as_ref() } {
        Some(schema) => Some(Arc::new(Schema::try_from(schema)?)),
        None => None,
    };
    let opened = open_files(session, format, &list, &options, schema);
    let provider = session.runtime.handle()?.block_on(opened)?;
    let schema = provider.schema();
    Ok(Arc::new(Source { provider, schema }))
}

/// Contiguous runs of rows, one per partition, so that partition order is row order; batches of the engine's size.
fn split(batches: Vec<RecordBatch>, partitions: usize, batch_size: usize) -> Fallible<Vec<Vec<RecordBatch>>> {
    let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    let partitions = partitions.min(rows.div_ceil(batch_size)).max(1);
    let target = rows.div_ceil(partitions).max(1);
    let mut out: Vec<Vec<RecordBatch>> = vec![vec![]];
    let mut filled = 0;
    for batch in batches {
        let mut at = 0;
        while at < batch.num_rows() {
            if filled == target && out.len() < partitions {
                out.push(vec![]);
                filled = 0;
            }
            let room = if out.len() < partitions { target - filled } else { usize::MAX };
            let count = (batch.num_rows() - at).min(batch_size).min(room);
            if let Some(last) = out.last_mut() {
                last.push(batch.slice(at, count));
            }
            at += count;
            filled += count;
            check()?;
        }
    }
    Ok(out)
}

/// Rows cost a bit at least, but for those of no columns or of nulls only: as many as one likes cost nothing to claim.
pub fn check_rows(rows: usize, bytes: usize) -> Fallible<()> {
    const FREE: usize = 1 << 24;
    const PER_BYTE: usize = 1 << 10;
    match rows > FREE.saturating_add(bytes.saturating_mul(PER_BYTE)) {
        true => Err(Failure::exhausted(format!("{rows} rows in {bytes} bytes are more than are read"))),
        false => Ok(()),
    }
}

/// Inside, columns are named by their places: names from outside may repeat.
fn memory(session: &Session, schema: SchemaRef, batches: Vec<RecordBatch>) -> Fallible<Arc<Source>> {
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(index, field)| Field::new(format!("m{index}"), field.data_type().clone(), field.is_nullable()))
        .collect();
    let inner = Arc::new(Schema::new(fields));
    let mut renamed = Vec::with_capacity(batches.len());
    let (mut rows, mut bytes) = (0_usize, 0_usize);
    for batch in batches {
        rows = rows.saturating_add(batch.num_rows());
        for column in batch.columns() {
            bytes = bytes.saturating_add(column.to_data().get_slice_memory_size()?);
        }
        check_rows(rows, bytes)?;
        let options = crate::features::arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        renamed.push(RecordBatch::try_new_with_options(Arc::clone(&inner), batch.columns().to_vec(), &options)?);
    }
    let partitions = split(renamed, session.state.config().target_partitions().max(1), session.batch_size())?;
    let provider = Arc::new(MemTable::try_new(inner, partitions)?);
    Ok(Arc::new(Source { provider, schema }))
}

pub unsafe fn from_stream(session: &Session, stream: *mut FFI_ArrowArrayStream) -> Fallible<Arc<Source>> {
    if stream.is_null() {
        return Err(Failure::invalid("no stream"));
    }
    let reader = unsafe { ArrowArrayStreamReader::from_raw(stream) }?;
    let schema = reader.schema();
    let batches: std::result::Result<Vec<RecordBatch>, _> = reader.collect();
    memory(session, schema, batches?)
}

pub fn from_ipc(session: &Session, bytes: &[u8]) -> Fallible<Arc<Source>> {
    let invalid = |error: crate::features::arrow::error::ArrowError| {
        Failure::invalid(format!("Arrow IPC stream: {}", Failure::from(error).message))
    };
    // The one copy: batches are slices of it.
    let mut buffer = Buffer::from(bytes);
    let mut decoder = StreamDecoder::new();
    let mut batches = vec![];
    while !buffer.is_empty() {
        let before = buffer.len();
        if let Some(batch) = decoder.decode(&mut buffer).map_err(invalid)? {
            batches.push(batch);
        } else if buffer.len() == before {
            break;
        }
    }
    decoder.finish().map_err(invalid)?;
    let schema = decoder.schema().ok_or_else(|| Failure::invalid("an Arrow IPC stream without a schema"))?;
    memory(session, schema, batches)
}
