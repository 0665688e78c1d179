//! Re-exports of the crates whose features this crate fixes; the rest of the workspace uses them from here.
pub use {
    arrow, arrow_flight, async_trait, datafusion, datafusion_ffi, datafusion_proto, datafusion_substrait, futures,
    object_store, prost, tokio, tokio_stream, tonic, url,
};
