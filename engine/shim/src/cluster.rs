//! This crate's face to the mains of a cluster: the functions, planners and codecs that plans of ours need on schedulers and
//! executors.
use crate::error::Fallible;
use crate::features::datafusion::error::Result;
use crate::features::datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use crate::library;
use std::sync::Arc;

pub use crate::abi::{EngineBytes, EngineError, FUNCTION_ABI, FunctionLibrary, Kv, status};
pub use crate::error::{Failure, STACK_SIZE, guard, guard_void};
pub use crate::ipc::owned_bytes;
pub use crate::runtime::{silence_panics, slice, text};
pub use crate::travel::{LogicalCodec, PhysicalCodec, prepare};

/// Functions of C libraries and of this crate.
#[derive(Clone)]
pub struct Functions(Arc<library::Functions>);

impl Functions {
    /// The libraries are never unloaded.
    ///
    /// # Safety
    /// Each pointer is to a table as include/trunnion/function.h describes it.
    pub unsafe fn read(libraries: &[*const FunctionLibrary]) -> Fallible<Self> {
        crate::error::mark_failures();
        Ok(Self(Arc::new(unsafe { library::Functions::read(libraries) }?)))
    }

    /// `state`, able to decode and plan what we send: a scheduler's sessions, and what an executor's registry is made from.
    pub fn extend(&self, state: SessionState) -> Result<SessionState> {
        let builder =
            SessionStateBuilder::new_from_existing(state).with_query_planner(Arc::new(crate::sample::Planner));
        let mut state = builder.build();
        self.0.register(&mut state)?;
        Ok(state)
    }

    pub fn count(&self) -> usize {
        self.0.scalars.len() + self.0.aggregates.len() + self.0.windows.len() + self.0.tables.len()
    }
}
