//! Runtime (threads, memory, functions) and session (settings over the shared base).
use crate::abi::{EngineOptions, Kv};
use crate::aggregates::LibraryAggregate;
use crate::error::{Failure, Fallible, STACK_SIZE};
use crate::features::datafusion::execution::TaskContext;
use crate::features::datafusion::execution::memory_pool::FairSpillPool;
use crate::features::datafusion::execution::runtime_env::RuntimeEnvBuilder;
use crate::features::datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use crate::features::datafusion::logical_expr::ScalarUDF;
use crate::features::datafusion::prelude::SessionConfig;
use crate::features::tokio::runtime::{Builder, Handle, Runtime as Tokio};
use crate::library::Functions;
use crate::operator::LibraryOperator;
use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::{Arc, Once, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the end of a runtime waits for what uses it.
const END_WAIT: Duration = Duration::from_secs(5);

type Job = Box<dyn FnOnce() + Send>;

pub struct Runtime {
    tokio: Option<Tokio>,
    /// A thread that never computes: it completes what was cancelled while all others are busy. Ends with the sender.
    control: Option<mpsc::Sender<Job>>,
    control_thread: Option<JoinHandle<()>>,
    pub base: Arc<SessionState>,
    /// The base for queries that do not ask what time it is: a copy for each would cost as much as a small query.
    pub timeless: Arc<SessionState>,
    pub context: Arc<TaskContext>,
    pub scalars: HashMap<String, Arc<ScalarUDF>>,
    pub aggregates: HashMap<String, LibraryAggregate>,
    pub operators: HashMap<String, LibraryOperator>,
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // The last reference may go on one of its own threads, where waiting is not allowed.
        if let Some(tokio) = self.tokio.take() {
            tokio.shutdown_background();
        }
    }
}

/// A NUL-terminated text from outside.
pub unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Fallible<&'a str> {
    if pointer.is_null() {
        return Err(Failure::invalid(format!("{what} is missing")));
    }
    unsafe { CStr::from_ptr(pointer) }.to_str().map_err(|_| Failure::invalid(format!("{what} is not UTF-8")))
}

pub unsafe fn slice<'a, T>(pointer: *const T, count: usize, what: &str) -> Fallible<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() || count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Failure::invalid(format!("{what}: no memory behind a count of {count}")));
    }
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// The library never prints: panics are caught at the boundary and carry their text there.
pub fn silence_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
}

impl Runtime {
    pub unsafe fn create(options: *const EngineOptions) -> Fallible<Arc<Runtime>> {
        silence_panics();
        let options = unsafe { options.as_ref() }.ok_or_else(|| Failure::invalid("options are missing"))?;
        if options.struct_size < size_of::<EngineOptions>() {
            return Err(Failure::invalid("options are of an older layout"));
        }
        let threads = match options.threads {
            0 => std::thread::available_parallelism().map_or(1, |count| count.get()),
            count => count.min(1024) as usize,
        };
        let tokio = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("trn-engine")
            .thread_stack_size(STACK_SIZE)
            .enable_time() // and no more: no socket of ours in the process
            .build()
            .map_err(|error| Failure::exhausted(format!("engine threads: {error}")))?;

        // Listings are not kept: a directory that was written to since must show what is in it now.
        let mut environment = RuntimeEnvBuilder::new().with_object_list_cache_limit(0);
        if options.memory_bytes > 0 {
            let bytes = usize::try_from(options.memory_bytes).unwrap_or(usize::MAX);
            environment = environment.with_memory_pool(Arc::new(FairSpillPool::new(bytes)));
        }
        if !options.spill_directory.is_null() {
            environment = environment.with_temp_file_path(unsafe { text(options.spill_directory, "spill directory") }?);
        }
        let mut config = SessionConfig::new().with_target_partitions(threads);
        // Strings are plain utf8 unless a setting says otherwise: what is planned is then what arrives.
        config.options_mut().execution.parquet.schema_force_view_types = false;
        // Sources come in partitions already; dealing batches out again would only mix up the order of rows.
        config.options_mut().optimizer.enable_round_robin_repartition = false;
        config.options_mut().sql_parser.map_string_types_to_utf8view = false;
        let libraries = unsafe { slice(options.libraries, options.library_count, "libraries") }?;
        let mut functions = unsafe { Functions::read(libraries) }?;
        config.set_extension(Arc::new(std::mem::take(&mut functions.hidden)));
        let mut base = SessionStateBuilder::new_with_default_features()
            .with_config(config)
            .with_runtime_env(environment.build_arc()?)
            .with_query_planner(Arc::new(crate::sample::Planner))
            .with_analyzer_rules(crate::cancel::analyzer_rules())
            .with_optimizer_rules(crate::cancel::optimizer_rules())
            .with_physical_optimizer_rules(crate::cancel::physical_rules(crate::physical::rules()))
            .build();
        functions.register(&mut base)?;
        let Functions { scalars, aggregates, operators, .. } = functions;
        let (control, jobs) = mpsc::channel::<Job>();
        let control_thread = std::thread::Builder::new()
            .name("trn-engine-control".to_string())
            .stack_size(STACK_SIZE)
            .spawn(move || jobs.iter().for_each(|job| crate::error::guard_void(job)))
            .map_err(|error| Failure::exhausted(format!("engine threads: {error}")))?;
        let (control, control_thread) = (Some(control), Some(control_thread));
        let mut timeless = base.clone();
        timeless.mark_start_execution();
        let (tokio, context) = (Some(tokio), base.task_ctx());
        let (base, timeless) = (Arc::new(base), Arc::new(timeless));
        Ok(Arc::new(Runtime {
            tokio,
            control,
            control_thread,
            base,
            timeless,
            context,
            scalars,
            aggregates,
            operators,
        }))
    }

    /// Ends the threads, and waits for them within bounds: first for what still uses the runtime, then for what runs.
    pub fn end(runtime: Arc<Runtime>) {
        let start = Instant::now();
        let mut runtime = runtime;
        let mut alone = loop {
            runtime = match Arc::try_unwrap(runtime) {
                Ok(alone) => break alone,
                Err(shared) if start.elapsed() > END_WAIT || Handle::try_current().is_ok() => {
                    drop(shared);
                    return;
                }
                Err(shared) => shared,
            };
            std::thread::sleep(Duration::from_millis(1));
        };
        if let Some(tokio) = alone.tokio.take() {
            match Handle::try_current() {
                Ok(_) => tokio.shutdown_background(),
                Err(_) => tokio.shutdown_timeout(END_WAIT.saturating_sub(start.elapsed())),
            }
        }
        drop(alone.control.take());
        if let Some(thread) = alone.control_thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }

    /// Present until the runtime is dropped.
    pub fn handle(&self) -> Fallible<&Handle> {
        self.tokio.as_ref().map(|tokio| tokio.handle()).ok_or_else(|| Failure::internal("the runtime is gone"))
    }

    /// Runs `job` soon, whatever the workers do. It must not block or compute.
    pub fn control(&self, job: Job) {
        if let Some(control) = &self.control {
            let _ = control.send(job);
        }
    }

    /// Drops `value` on a thread with a big stack. The runtime lives until that is done.
    pub fn drop_there<T: Send + 'static>(self: &Arc<Self>, value: T) {
        let runtime = Arc::clone(self);
        if let Some(tokio) = &self.tokio {
            tokio.spawn(async move {
                drop(value);
                drop(runtime);
            });
        }
    }
}

pub struct Session {
    pub runtime: Arc<Runtime>,
    pub state: Arc<SessionState>,
}

impl Session {
    pub unsafe fn create(runtime: Arc<Runtime>, settings: *const Kv, count: usize) -> Fallible<Arc<Session>> {
        let settings = unsafe { slice(settings, count, "settings") }?;
        if settings.is_empty() {
            let state = Arc::clone(&runtime.base);
            return Ok(Arc::new(Session { runtime, state }));
        }
        let mut state = runtime.base.as_ref().clone();
        let options = state.config_mut().options_mut();
        for setting in settings {
            let key = unsafe { text(setting.key, "a setting's key") }?;
            if setting.value.is_null() {
                continue;
            }
            let value = unsafe { text(setting.value, key) }?;
            options.set(key, value).map_err(|error| {
                let failure = Failure::from(error);
                Failure::invalid(format!("setting {key}: {}", failure.message))
            })?;
        }
        Ok(Arc::new(Session { runtime, state: Arc::new(state) }))
    }

    pub fn batch_size(&self) -> usize {
        self.state.config().batch_size().max(1)
    }
}
