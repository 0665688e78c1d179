//! Writing files as a relation: each partition of the input goes to a directory of its own, which the caller chose and
//! who gives the files their final names. One row per partition comes out: how many rows were written.
use crate::abi::status;
use crate::decode::Reader;
use crate::error::{Failure, Fallible};
use crate::features::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use crate::features::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use crate::features::datafusion::catalog::Session;
use crate::features::datafusion::common::config::{CsvOptions, JsonOptions, TableOptions, TableParquetOptions};
use crate::features::datafusion::common::file_options::csv_writer::CsvWriterOptions;
use crate::features::datafusion::common::file_options::json_writer::JsonWriterOptions;
use crate::features::datafusion::common::tree_node::TreeNodeRecursion;
use crate::features::datafusion::common::{DFSchema, DFSchemaRef};
use crate::features::datafusion::datasource::file_format::csv::CsvSink;
use crate::features::datafusion::datasource::file_format::json::JsonSink;
use crate::features::datafusion::datasource::file_format::parquet::ParquetSink;
use crate::features::datafusion::datasource::listing::ListingTableUrl;
use crate::features::datafusion::datasource::physical_plan::{FileGroup, FileOutputMode, FileSinkConfig};
use crate::features::datafusion::datasource::sink::DataSink;
use crate::features::datafusion::error::{DataFusionError, Result};
use crate::features::datafusion::execution::{SendableRecordBatchStream, TaskContext};
use crate::features::datafusion::logical_expr::dml::InsertOp;
use crate::features::datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use crate::features::datafusion::physical_expr::{EquivalenceProperties, OrderingRequirements, PhysicalExpr};
use crate::features::datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use crate::features::datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use crate::features::futures::{StreamExt, TryStreamExt};
use crate::features::url::Url;
use crate::machine::{Columns, Machine, column_name};
use crate::output::Output;
use crate::source::set_all;
use crate::travel::{Place, put_text};
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What to write, as the plan says it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd)]
struct Spec {
    format: String,
    directory: String,
    options: Vec<(String, String)>,
    names: Vec<String>,
    /// Places of the columns that become directories `name=value`, in order.
    partition_by: Vec<usize>,
}

impl Spec {
    fn read(reader: &mut Reader) -> Fallible<Self> {
        let format = reader.str()?.to_string();
        let directory = reader.str()?.to_string();
        let count = reader.count(8)?;
        let mut options = Vec::with_capacity(count);
        for _ in 0..count {
            options.push((reader.str()?.to_string(), reader.str()?.to_string()));
        }
        let count = reader.count(4)?;
        let names = (0..count).map(|_| Ok(reader.str()?.to_string())).collect::<Fallible<Vec<_>>>()?;
        let count = reader.count(4)?;
        let partition_by: Vec<usize> = reader.ids(count)?.into_iter().map(|place| place as usize).collect();
        if partition_by.iter().any(|place| *place >= names.len()) {
            return Err(reader.invalid("a partition column that is not there"));
        }
        if !Path::new(&directory).is_absolute() {
            return Err(reader.invalid("a directory that is not absolute"));
        }
        Ok(Self { format, directory, options, names, partition_by })
    }

    /// As `read` wants it.
    fn put(&self, out: &mut Vec<u8>) {
        let put_count = |out: &mut Vec<u8>, count: usize| out.extend((count as u32).to_le_bytes());
        put_text(out, &self.format);
        put_text(out, &self.directory);
        put_count(out, self.options.len());
        for (key, value) in &self.options {
            put_text(out, key);
            put_text(out, value);
        }
        put_count(out, self.names.len());
        self.names.iter().for_each(|name| put_text(out, name));
        put_count(out, self.partition_by.len());
        self.partition_by.iter().for_each(|place| put_count(out, *place));
    }

    fn pairs(&self) -> Vec<(&str, &str)> {
        self.options.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }

    /// Of partition `number`.
    fn folder(&self, number: usize) -> PathBuf {
        Path::new(&self.directory).join(number.to_string())
    }

    /// A partition's directory, or the one file in it.
    fn url(&self, directory: &Path) -> Fallible<ListingTableUrl> {
        let url = match self.partition_by.is_empty() {
            true => Url::from_file_path(directory.join("data")),
            false => Url::from_directory_path(directory),
        };
        let url = url.map_err(|()| Failure::invalid(format!("not a directory's name: {}", self.directory)))?;
        Ok(ListingTableUrl::try_new(url, None)?)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Write {
    input: LogicalPlan,
    spec: Spec,
    schema: DFSchemaRef,
}

impl PartialOrd for Write {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        match self.input.partial_cmp(&other.input) {
            Some(std::cmp::Ordering::Equal) => self.spec.partial_cmp(&other.spec),
            order => order,
        }
    }
}

impl UserDefinedLogicalNodeCore for Write {
    fn name(&self) -> &str {
        "Write"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "Write: {} {}", self.spec.format, self.spec.directory)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(input), true) => Ok(Self { input, spec: self.spec.clone(), schema: Arc::clone(&self.schema) }),
            _ => Err(DataFusionError::Internal("a write has one input".to_string())),
        }
    }

    /// Filters on the count do not go below.
    fn prevent_predicate_push_down_columns(&self) -> std::collections::HashSet<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }
}

/// The one column that comes out.
fn count_schema(name: &str) -> Fallible<DFSchemaRef> {
    let field = Arc::new(Field::new(name, DataType::Int64, false));
    Ok(Arc::new(DFSchema::from_unqualified_fields(vec![field].into(), HashMap::new())?))
}

impl Write {
    /// For a scheduler; the input travels by itself.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_text(out, self.schema.field(0).name());
        self.spec.put(out);
    }

    pub fn get(reader: &mut Reader, input: LogicalPlan) -> Fallible<Self> {
        let schema = count_schema(reader.str()?)?;
        let spec = Spec::read(reader)?;
        if spec.names.len() != input.schema().fields().len() {
            return Err(reader.invalid("not a name for each column"));
        }
        Ok(Self { input, spec, schema })
    }
}

impl Machine<'_> {
    pub fn write(&mut self) -> Fallible<()> {
        let id = self.reader.u32()?;
        let spec = Spec::read(&mut self.reader)?;
        let input = self.pop_relation()?;
        if spec.names.len() != input.columns.order.len() {
            return Err(self.reader.invalid("not a name for each column"));
        }
        let mut columns = Columns::default();
        let schema = count_schema(&column_name(id))?;
        columns.add(id, Arc::clone(&schema.fields()[0]))?;
        let node = Arc::new(Write { input: input.plan.as_ref().clone(), spec, schema });
        self.push_relation(LogicalPlan::Extension(Extension { node }), Arc::new(columns), &[&input], 1)
    }
}

/// The writer's settings, checked when the query is planned.
#[derive(Debug, Clone)]
enum Settings {
    Parquet(TableParquetOptions),
    Csv(CsvWriterOptions),
    Json(JsonWriterOptions),
}

impl Settings {
    /// `defaults`: with the session's settings in them.
    fn new(defaults: TableOptions, spec: &Spec) -> Fallible<Self> {
        Ok(match spec.format.as_str() {
            "parquet" => {
                let options: TableParquetOptions = defaults.parquet;
                Self::Parquet(set_all(options, &spec.pairs())?)
            }
            "csv" => {
                let options: CsvOptions = set_all(defaults.csv, &spec.pairs())?;
                Self::Csv(CsvWriterOptions::try_from(&options)?)
            }
            "json" => {
                let options: JsonOptions = set_all(defaults.json, &spec.pairs())?;
                Self::Json(JsonWriterOptions::try_from(&options)?)
            }
            other => return Err(Failure::unimplemented(format!("writing files of format {other}"))),
        })
    }

    fn sink(&self, config: FileSinkConfig) -> Arc<dyn DataSink> {
        match self {
            Self::Parquet(options) => Arc::new(ParquetSink::new(config, options.clone())),
            Self::Csv(options) => Arc::new(CsvSink::new(config, options.clone())),
            Self::Json(options) => Arc::new(JsonSink::new(config, options.clone())),
        }
    }
}

#[derive(Debug)]
pub struct WriteExec {
    input: Arc<dyn ExecutionPlan>,
    place: Place,
    spec: Arc<Spec>,
    settings: Settings,
    /// The count's.
    schema: SchemaRef,
    output: Arc<Output>,
    properties: Arc<PlanProperties>,
}

/// What the physical planner makes of a `Write`; None: `node` is something else.
pub fn plan(
    node: &dyn std::any::Any,
    input: &Arc<dyn ExecutionPlan>,
    session: &dyn Session,
) -> Fallible<Option<Arc<dyn ExecutionPlan>>> {
    let Some(write) = node.downcast_ref::<Write>() else { return Ok(None) };
    let defaults = session.default_table_options().combine_with_session_config(session.config_options());
    let settings = Settings::new(defaults, &write.spec)?;
    let schema = Arc::clone(write.schema.inner());
    let exec = WriteExec::new(Arc::clone(input), Place::Here, Arc::new(write.spec.clone()), settings, schema)?;
    Ok(Some(Arc::new(exec)))
}

impl WriteExec {
    fn new(
        input: Arc<dyn ExecutionPlan>,
        place: Place,
        spec: Arc<Spec>,
        settings: Settings,
        schema: SchemaRef,
    ) -> Fallible<Self> {
        let actual = input.schema();
        if actual.fields().len() != spec.names.len() {
            return Err(Failure::internal("a write whose input has other columns than planned"));
        }
        let plain = Output::new(&actual, None)?.schema;
        let fields: Vec<Field> = plain
            .fields()
            .iter()
            .zip(&spec.names)
            .map(|(field, name)| Field::new(name, field.data_type().clone(), true))
            .collect();
        let output = Arc::new(Output::new(&actual, Some(Schema::new(fields)))?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Ok(Self { input, place, spec, settings, schema, output, properties: Arc::new(properties) })
    }

    /// For an executor; the input travels by itself.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_text(out, self.schema.field(0).name());
        self.spec.put(out);
    }

    pub fn get(reader: &mut Reader, input: Arc<dyn ExecutionPlan>, context: &TaskContext) -> Fallible<Self> {
        let schema = Arc::clone(count_schema(reader.str()?)?.inner());
        let spec = Arc::new(Spec::read(reader)?);
        let settings =
            Settings::new(TableOptions::default_from_session_config(context.session_config().options()), &spec)?;
        Self::new(input, Place::Unknown, spec, settings, schema)
    }

    /// The same in a task that has these partitions of the whole.
    pub fn placed(&self, input: Arc<dyn ExecutionPlan>, place: Place) -> Fallible<Self> {
        Self::new(input, place, Arc::clone(&self.spec), self.settings.clone(), Arc::clone(&self.schema))
    }

    fn config(&self, directory: &Path) -> Fallible<FileSinkConfig> {
        let url = self.spec.url(directory)?;
        let fields = self.output.schema.fields();
        Ok(FileSinkConfig {
            original_url: url.to_string(),
            object_store_url: url.object_store(),
            file_group: FileGroup::default(),
            table_paths: vec![url],
            output_schema: Arc::clone(&self.output.schema),
            table_partition_cols: self
                .spec
                .partition_by
                .iter()
                .map(|place| (fields[*place].name().clone(), fields[*place].data_type().clone()))
                .collect(),
            insert_op: InsertOp::Append,
            keep_partition_by_columns: false,
            file_extension: "data".to_string(),
            file_output_mode: match self.spec.partition_by.is_empty() {
                true => FileOutputMode::SingleFile,
                false => FileOutputMode::Directory,
            },
        })
    }
}

/// A task's own directory, until all of its files are there: a task of a cluster may run again, or twice at once, and
/// one of them counts. Those that do not leave nothing; whoever asked for the files passes over names of this form.
struct Attempt {
    folder: PathBuf,
    place: PathBuf,
}

impl Attempt {
    fn new(spec: &Spec, number: usize) -> Result<Self> {
        let directory = Path::new(&spec.directory);
        if !directory.is_dir() {
            let why = "there is no such directory here: the files of a cluster's writes are on all of its machines";
            return Err(not_written(Failure::new(status::FAILED_PRECONDITION, why).into(), &spec.directory));
        }
        // From the system's source of random numbers: other attempts may be on other machines.
        let random = || RandomState::new().build_hasher().finish();
        let name = format!(".attempt-{number}-{:016x}{:016x}", random(), random());
        Ok(Self { folder: directory.join(name), place: spec.folder(number) })
    }

    fn keep(self, rows: u64) -> std::io::Result<()> {
        match std::fs::rename(&self.folder, &self.place) {
            Err(_) if rows == 0 && !self.folder.exists() => Ok(()),
            Err(_) if self.place.is_dir() => Ok(()), // another task has written the same
            result => result,
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder); // none, when it was kept
    }
}

fn not_written(error: DataFusionError, directory: &str) -> DataFusionError {
    let failure = Failure::from(error);
    match failure.status {
        status::CANCELLED | status::RESOURCE_EXHAUSTED => failure,
        _ => failure.condition("TASK_WRITE_FAILED").param("path", directory.as_bytes()),
    }
    .into()
}

impl DisplayAs for WriteExec {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "WriteExec: {} {}", self.spec.format, self.spec.directory)
    }
}

impl ExecutionPlan for WriteExec {
    fn name(&self) -> &str {
        "WriteExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    /// Rows of one directory come together, so that its file can be closed after them.
    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![crate::write_groups::requirement(&self.input.schema(), &self.spec.partition_by)]
    }

    /// A file per partition: as many as the plan has.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(self.placed(input, self.place.clone())?)),
            _ => Err(DataFusionError::Internal("a write has one input".to_string())),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let output = Arc::clone(&self.output);
        // Whose the failure is: the input's errors are handed on as they are.
        let input_failed = Arc::new(AtomicBool::new(false));
        let failed = Arc::clone(&input_failed);
        let named = self.input.execute(partition, Arc::clone(&context))?.map(move |batch| {
            let named = batch.and_then(|batch| Ok(output.apply(batch)?));
            failed.fetch_or(named.is_err(), Ordering::Relaxed);
            named
        });
        let directory = self.spec.directory.clone();
        let number = self.place.of(partition)?;
        let attempt = match &self.place {
            Place::Here => None,
            _ => Some(Attempt::new(&self.spec, number)?),
        };
        let folder = attempt.as_ref().map_or_else(|| self.spec.folder(number), |attempt| attempt.folder.clone());
        let (settings, config) = (self.settings.clone(), self.config(&folder)?);
        let partition_by = self.spec.partition_by.clone();
        // Somebody writes the file of a result without rows, which has the schema.
        let always = number == 0 && self.spec.partition_by.is_empty();
        let names = Arc::clone(&self.output.schema);
        let schema = Arc::clone(&self.schema);
        let written = async move {
            let filled = named.try_filter(|batch: &RecordBatch| std::future::ready(batch.num_rows() > 0));
            let mut rows = Box::pin(filled.peekable());
            let count = match Pin::as_mut(&mut rows).peek().await {
                None if !always => Ok(0),
                _ if partition_by.is_empty() => {
                    let rows = Box::pin(RecordBatchStreamAdapter::new(names, rows));
                    settings.sink(config).write_all(rows, &context).await
                }
                _ => {
                    let sink = || settings.sink(config.clone());
                    crate::write_groups::write(sink, names, rows, &partition_by, &context).await
                }
            };
            let count = count.map_err(|error| match input_failed.load(Ordering::Relaxed) {
                true => error,
                false => not_written(error, &directory),
            })?;
            if let Some(attempt) = attempt {
                attempt.keep(count).map_err(|error| not_written(error.into(), &directory))?;
            }
            let column: ArrayRef = Arc::new(Int64Array::from(vec![i64::try_from(count).unwrap_or(i64::MAX)]));
            Ok(RecordBatch::try_new(schema, vec![column])?)
        };
        let stream = crate::features::futures::stream::once(written);
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream)))
    }
}
