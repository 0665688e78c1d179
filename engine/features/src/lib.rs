//! Re-exports of the crates whose features this crate fixes; the rest of the workspace uses them from here.
pub use {arrow, async_trait, datafusion, futures, mimalloc, object_store, tokio, url};
