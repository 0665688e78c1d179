//! Re-exports of the crates whose features this crate fixes; the rest of the workspace uses them from here.
pub use {
    arrow, async_trait, datafusion, datafusion_ffi, datafusion_proto, datafusion_substrait, futures, mimalloc,
    object_store, prost, tokio, url,
};
