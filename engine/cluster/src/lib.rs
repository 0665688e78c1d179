//! Ballista's scheduler and executor on the published crates, with the functions and codecs that our plans need: what the
//! mains (main.rs) and the scheduler for C (scheduler/) have in common, and the latter.
mod connections;
pub mod functions;
mod named;
mod scheduler;
pub mod sessions;
mod tasks;

pub use ballista_core::error::{BallistaError, Result};
