//! Running plans: partitions ahead in bounded memory, batches in partition order, pulled one at a time.
use crate::abi::{ArrayDone, EngineError, IpcDone};
use crate::error::{Failure, Fallible, no_error, to_c};
use crate::features::arrow::array::{Array, ArrayRef, RecordBatch, StructArray};
use crate::features::arrow::compute::concat_batches;
use crate::features::arrow::datatypes::Schema;
use crate::features::arrow::ffi::FFI_ArrowArray;
use crate::features::datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use crate::features::datafusion::datasource::source_as_provider;
use crate::features::datafusion::error::DataFusionError;
use crate::features::datafusion::execution::TaskContext;
use crate::features::datafusion::execution::session_state::SessionState;
use crate::features::datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use crate::features::datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use crate::features::futures::StreamExt;
use crate::features::futures::future::{Either, FutureExt, select};
use crate::features::tokio::sync::{mpsc, watch};
use crate::features::tokio::task::AbortHandle;
use crate::features::tokio::time::timeout;
use crate::ipc::{Encoder, Message, no_message, schema_message};
use crate::named::Named;
use crate::output::Output;
use crate::runtime::{Runtime, Session};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Batches that a partition may be ahead of the reader.
const AHEAD: usize = 2;
/// Small batches are joined up to this many bytes.
const JOIN_BYTES_MAX: usize = 16 << 20;
/// What a partition gives at once, where it can: each message costs whoever reads it, and a narrow batch is soon read.
const JOIN_BYTES: usize = 1 << 20;
/// And no more batches in it than this: some have no bytes.
const JOIN_COUNT_MAX: usize = 1024;
/// How long a partition's small batches wait for more.
const JOIN_WAIT: Duration = Duration::from_millis(5);

/// Partitions that run at once. All, within reason: some operators (partitioned hash joins that share a filter) wait for
/// each of their partitions to have started.
const PARALLEL_MAX: usize = 1024;

type Receiver = mpsc::Receiver<Fallible<RecordBatch>>;

/// The reading end: which partitions run, what was read and not delivered.
struct Puller {
    runtime: Arc<Runtime>,
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    output: Arc<Output>,
    next_partition: usize,
    running: VecDeque<Receiver>,
    tasks: Arc<Mutex<Vec<AbortHandle>>>,
    is_cancelled: Arc<AtomicBool>,
    stash: Option<Fallible<RecordBatch>>,
    /// The stream is over: why, when it failed.
    end: Option<Result<(), Failure>>,
    encoder: Option<Encoder>,
    batch_size: usize,
    parallel: usize,
}

#[derive(Default)]
struct Pulling {
    /// Absent while a pull runs.
    puller: Option<Puller>,
    /// Completes the pull that runs with CANCELLED, unless it is complete.
    stop: Option<Box<dyn FnOnce() + Send>>,
    cancelled: bool,
}

pub struct Execution {
    pub runtime: Arc<Runtime>,
    pub plan: Arc<dyn ExecutionPlan>,
    pub output: Arc<Output>,
    pub schema_ipc: Vec<u8>,
    pulling: Mutex<Pulling>,
    tasks: Arc<Mutex<Vec<AbortHandle>>>,
    cancelled: watch::Sender<bool>,
    /// The same, for what computes without waiting.
    is_cancelled: Arc<AtomicBool>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Joins what a partition gives in small pieces: a cross join gives a batch for each row of one side, whatever the other has.
/// The first goes out as it comes, and none waits long: a slow plan's rows are read when they are there.
struct Joiner {
    output: Arc<Output>,
    sender: mpsc::Sender<Fallible<RecordBatch>>,
    small: Vec<RecordBatch>,
    bytes: usize,
    has_sent: bool,
}

/// Of its rows, whatever else is in the buffers that they lie in.
fn bytes_of(batch: &RecordBatch) -> usize {
    let of = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or(JOIN_BYTES);
    batch.columns().iter().map(of).fold(0, usize::saturating_add)
}

impl Joiner {
    /// False: nobody reads.
    async fn send(&mut self, batch: RecordBatch) -> bool {
        self.has_sent = true;
        self.sender.send(Ok(batch)).await.is_ok()
    }

    async fn flush(&mut self) -> Fallible<bool> {
        let small = std::mem::take(&mut self.small);
        self.bytes = 0;
        match small.as_slice() {
            [] => Ok(true),
            [one] => Ok(self.send(one.clone()).await),
            all => {
                let joined = concat_batches(&self.output.schema, all)?;
                Ok(self.send(joined).await)
            }
        }
    }

    async fn push(&mut self, batch: RecordBatch) -> Fallible<bool> {
        if batch.num_rows() == 0 {
            return Ok(true);
        }
        let bytes = bytes_of(&batch);
        if !self.has_sent || bytes >= JOIN_BYTES / 2 {
            return Ok(self.flush().await? && self.send(batch).await);
        }
        self.bytes += bytes;
        self.small.push(batch);
        match self.bytes >= JOIN_BYTES || self.small.len() >= JOIN_COUNT_MAX {
            true => self.flush().await,
            false => Ok(true),
        }
    }
}

async fn run_partition(
    plan: Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
    mut joiner: Joiner,
) -> Fallible<()> {
    let mut stream = plan.execute(partition, context)?;
    loop {
        let next = match joiner.small.is_empty() {
            true => stream.next().await,
            false => match timeout(JOIN_WAIT, stream.next()).await {
                Ok(next) => next,
                Err(_) if joiner.flush().await? => continue,
                Err(_) => return Ok(()),
            },
        };
        // What came before an error is given before it.
        let batch = match next {
            Some(Ok(batch)) => joiner.output.apply(batch)?,
            Some(Err(error)) => {
                joiner.flush().await?;
                return Err(error.into());
            }
            None => {
                joiner.flush().await?;
                return Ok(());
            }
        };
        if !joiner.push(batch).await? {
            return Ok(());
        }
    }
}

impl Puller {
    fn start_partitions(&mut self) -> Fallible<()> {
        let count = self.plan.output_partitioning().partition_count();
        while self.running.len() < self.parallel && self.next_partition < count {
            let (sender, receiver) = mpsc::channel(AHEAD);
            let (plan, context) = (Arc::clone(&self.plan), Arc::clone(&self.context));
            let joiner = Joiner {
                output: Arc::clone(&self.output),
                sender: sender.clone(),
                small: vec![],
                bytes: 0,
                has_sent: false,
            };
            let (partition, is_cancelled) = (self.next_partition, Arc::clone(&self.is_cancelled));
            let task = self.runtime.handle()?.spawn(async move {
                let run = crate::cancel::during(is_cancelled, run_partition(plan, partition, context, joiner));
                let result = AssertUnwindSafe(run).catch_unwind().await;
                let result = result.unwrap_or_else(|payload| Err(Failure::from_panic(payload)));
                if let Err(failure) = result {
                    let _ = sender.send(Err(failure)).await;
                }
            });
            let mut tasks = locked(&self.tasks);
            tasks.retain(|task| !task.is_finished());
            tasks.push(task.abort_handle());
            drop(tasks);
            self.running.push_back(receiver);
            self.next_partition += 1;
        }
        Ok(())
    }

    /// The next batch in partition order.
    async fn receive(&mut self) -> Option<Fallible<RecordBatch>> {
        if let Some(stashed) = self.stash.take() {
            return Some(stashed);
        }
        loop {
            if let Err(failure) = self.start_partitions() {
                return Some(Err(failure));
            }
            match self.running.front_mut()?.recv().await {
                Some(item) => return Some(item),
                None => self.running.pop_front(),
            };
        }
    }

    /// What is there without waiting.
    fn receive_ready(&mut self) -> Option<Fallible<RecordBatch>> {
        loop {
            match self.running.front_mut()?.try_recv() {
                Ok(item) => return Some(item),
                Err(mpsc::error::TryRecvError::Empty) => return None,
                Err(mpsc::error::TryRecvError::Disconnected) => {
                    self.running.pop_front();
                    if let Err(failure) = self.start_partitions() {
                        return Some(Err(failure));
                    }
                }
            }
        }
    }

    async fn next_batch(&mut self) -> Fallible<Option<RecordBatch>> {
        match &self.end {
            Some(Ok(())) => return Ok(None),
            Some(Err(failure)) => return Err(failure.clone()),
            None => {}
        }
        let first = match self.receive().await {
            None => {
                self.end = Some(Ok(()));
                return Ok(None);
            }
            Some(Err(failure)) => {
                self.end = Some(Err(failure.clone()));
                self.abort();
                return Err(failure);
            }
            Some(Ok(batch)) => batch,
        };
        let mut rows = first.num_rows();
        if rows * 2 > self.batch_size {
            return Ok(Some(first));
        }
        let mut bytes = bytes_of(&first);
        let mut batches = vec![first];
        while rows < self.batch_size && bytes < JOIN_BYTES_MAX {
            match self.receive_ready() {
                Some(Ok(batch)) if batch.num_rows() * 2 <= self.batch_size => {
                    rows += batch.num_rows();
                    bytes = bytes.saturating_add(bytes_of(&batch));
                    batches.push(batch);
                }
                Some(other) => {
                    self.stash = Some(other);
                    break;
                }
                None => break,
            }
        }
        if batches.len() == 1 {
            return Ok(batches.pop());
        }
        Ok(Some(concat_batches(&self.output.schema, &batches)?))
    }

    async fn next_message(&mut self, bytes_max: u64) -> Fallible<Option<Message>> {
        let mut encoder = match self.encoder.take() {
            Some(encoder) => encoder,
            None => Encoder::new(&self.output.schema)?,
        };
        if !encoder.has_pending()
            && let Some(batch) = self.next_batch().await?
        {
            encoder.push(batch);
        }
        let message = encoder.next(bytes_max)?;
        self.encoder = Some(encoder);
        Ok(message)
    }

    fn abort(&mut self) {
        self.running.clear();
        locked(&self.tasks).drain(..).for_each(|task| task.abort());
    }
}

/// Calls `done` exactly once: whoever comes first, the pull, a cancel, or the end of both.
struct Callback<D: Deliver>(Mutex<Option<D>>);

trait Deliver: Send + 'static {
    type Item: Send;
    fn deliver(self, result: Fallible<Option<Self::Item>>);
}

impl<D: Deliver> Callback<D> {
    fn call(&self, result: Fallible<Option<D::Item>>) {
        let done = locked(&self.0).take(); // not called with the lock held
        if let Some(done) = done {
            done.deliver(result);
        }
    }
}

impl<D: Deliver> Drop for Callback<D> {
    fn drop(&mut self) {
        self.call(Err(Failure::cancelled()));
    }
}

/// `user` is the caller's: it says that it may be used on the runtime's threads.
struct ToArray(ArrayDone, *mut c_void);
struct ToIpc(IpcDone, *mut c_void);
unsafe impl Send for ToArray {}
unsafe impl Send for ToIpc {}

// What is handed over is the callee's: nothing is dropped here afterwards.
impl Deliver for ToArray {
    type Item = RecordBatch;
    fn deliver(self, result: Fallible<Option<RecordBatch>>) {
        let (array, error) = match result {
            Ok(Some(batch)) => (FFI_ArrowArray::new(&StructArray::from(batch).to_data()), no_error()),
            Ok(None) => (FFI_ArrowArray::empty(), no_error()),
            Err(failure) => (FFI_ArrowArray::empty(), to_c(&failure)),
        };
        let mut array = ManuallyDrop::new(array);
        let mut error: ManuallyDrop<EngineError> = ManuallyDrop::new(error);
        unsafe { (self.0)(self.1, &mut *array, &mut *error) };
    }
}

impl Deliver for ToIpc {
    type Item = Message;
    fn deliver(self, result: Fallible<Option<Message>>) {
        let (mut ipc, mut error) = match result {
            Ok(Some(message)) => (message.into_c(), no_error()),
            Ok(None) => (no_message(), no_error()),
            Err(failure) => (no_message(), to_c(&failure)),
        };
        unsafe { (self.0)(self.1, &mut ipc, &mut error) };
    }
}

/// Whether functions in it give what depends on when they run, now() and the like; also when it cannot be told.
fn asks_for_time(plan: &LogicalPlan) -> Result<bool, DataFusionError> {
    let mut asks = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            // A view is planned when it is read.
            asks |= source_as_provider(&scan.source).map_or(true, |provider| provider.is::<Named>());
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarFunction(call) = expr {
                    asks |= call.func.signature().volatility != Volatility::Immutable;
                }
                Ok(if asks { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    })?;
    Ok(asks)
}

/// What a plan is planned and run with: now() and the like are the start of the query, not of the session.
fn state_for(session: &Session, plan: &LogicalPlan) -> Fallible<(Arc<SessionState>, Arc<TaskContext>)> {
    let runtime = &session.runtime;
    let is_base = Arc::ptr_eq(&session.state, &runtime.base);
    if is_base && !asks_for_time(plan)? {
        return Ok((Arc::clone(&runtime.timeless), Arc::clone(&runtime.context)));
    }
    let mut state = session.state.as_ref().clone();
    state.mark_start_execution();
    let context = if is_base { Arc::clone(&runtime.context) } else { state.task_ctx() };
    Ok((Arc::new(state), context))
}

impl Execution {
    pub fn create(session: &Session, plan: &LogicalPlan, output: Option<Schema>) -> Fallible<Arc<Execution>> {
        let runtime = Arc::clone(&session.runtime);
        let (state, context) = state_for(session, plan)?;
        let physical = runtime.handle()?.block_on(state.create_physical_plan(plan))?;
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let physical = crate::watched::watch(physical, &is_cancelled)?;
        let output = Arc::new(Output::new(&physical.schema(), output)?);
        let tasks = Arc::new(Mutex::new(vec![]));
        let puller = Puller {
            runtime: Arc::clone(&runtime),
            plan: Arc::clone(&physical),
            context,
            output: Arc::clone(&output),
            next_partition: 0,
            running: VecDeque::new(),
            tasks: Arc::clone(&tasks),
            is_cancelled: Arc::clone(&is_cancelled),
            stash: None,
            end: None,
            encoder: None,
            batch_size: session.batch_size(),
            parallel: PARALLEL_MAX,
        };
        Ok(Arc::new(Execution {
            runtime,
            plan: physical,
            schema_ipc: schema_message(&output.schema)?,
            output,
            pulling: Mutex::new(Pulling { puller: Some(puller), ..Default::default() }),
            tasks,
            cancelled: watch::Sender::new(false),
            is_cancelled,
        }))
    }

    pub fn next_array(self: &Arc<Self>, done: ArrayDone, user: *mut c_void) -> Fallible<()> {
        self.pull(ToArray(done, user), |mut puller, mut cancelled| async move {
            let result = until_cancelled(puller.next_batch(), &mut cancelled).await;
            (puller, result)
        })
    }

    pub fn next_ipc(self: &Arc<Self>, bytes_max: u64, done: IpcDone, user: *mut c_void) -> Fallible<()> {
        self.pull(ToIpc(done, user), move |mut puller, mut cancelled| async move {
            let result = until_cancelled(puller.next_message(bytes_max), &mut cancelled).await;
            (puller, result)
        })
    }

    /// Starts a pull: `step` makes one item and gives the puller back.
    fn pull<D, S, F>(self: &Arc<Self>, done: D, step: S) -> Fallible<()>
    where
        D: Deliver,
        S: FnOnce(Puller, watch::Receiver<bool>) -> F,
        F: Future<Output = (Puller, Fallible<Option<D::Item>>)> + Send + 'static,
    {
        let handle = self.runtime.handle()?;
        let callback = Arc::new(Callback(Mutex::new(Some(done))));
        let mut pulling = locked(&self.pulling);
        if pulling.cancelled {
            self.runtime.control(Box::new(move || callback.call(Err(Failure::cancelled()))));
            return Ok(());
        }
        let Some(puller) = pulling.puller.take() else {
            locked(&callback.0).take(); // refused: never called
            return Err(Failure::new(crate::abi::status::FAILED_PRECONDITION, "a pull is outstanding"));
        };
        let stop = Arc::clone(&callback);
        pulling.stop = Some(Box::new(move || stop.call(Err(Failure::cancelled()))));
        drop(pulling);
        let step = step(puller, self.cancelled.subscribe());
        let own = Arc::clone(self);
        handle.spawn(async move {
            let (puller, result) = step.await;
            let mut pulling = locked(&own.pulling);
            let stop = pulling.stop.take();
            pulling.puller = Some(puller);
            drop(pulling);
            drop(stop);
            // From here on the callee may pull again, also from within the call.
            callback.call(result);
            // The last reference to the execution may go here: on a thread with a big stack.
        });
        Ok(())
    }

    pub fn cancel(&self) {
        let mut pulling = locked(&self.pulling);
        pulling.cancelled = true;
        self.is_cancelled.store(true, Ordering::Relaxed);
        let stop = pulling.stop.take();
        drop(pulling);
        self.cancelled.send_replace(true);
        locked(&self.tasks).drain(..).for_each(|task| task.abort());
        if let Some(stop) = stop {
            self.runtime.control(stop);
        }
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.cancel();
    }
}

async fn until_cancelled<T>(
    step: impl Future<Output = Fallible<Option<T>>>,
    cancelled: &mut watch::Receiver<bool>,
) -> Fallible<Option<T>> {
    let step = pin!(AssertUnwindSafe(step).catch_unwind());
    let stop = pin!(cancelled.wait_for(|cancelled| *cancelled));
    match select(stop, step).await {
        Either::Left(_) => Err(Failure::cancelled()),
        Either::Right((Ok(result), _)) => result,
        Either::Right((Err(payload), _)) => Err(Failure::from_panic(payload)),
    }
}
