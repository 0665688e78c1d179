//! Arrow IPC messages whose bodies are the arrays' own buffers.
use crate::abi::{EngineBytes, EngineIpc};
use crate::error::{Failure, Fallible};
use crate::features::arrow::array::RecordBatch;
use crate::features::arrow::buffer::Buffer;
use crate::features::arrow::datatypes::Schema;
use crate::features::arrow::ipc::writer::{
    DictionaryTracker, IpcDataGenerator, IpcWriteOptions, StreamEncoder, write_message,
};
use std::collections::VecDeque;
use std::ffi::c_void;

/// The encapsulated schema message.
pub fn schema_message(schema: &Schema) -> Fallible<Vec<u8>> {
    let options = IpcWriteOptions::default();
    let mut tracker = DictionaryTracker::new(false);
    let encoded = IpcDataGenerator {}.schema_to_bytes_with_dictionary_tracker(schema, &mut tracker, &options);
    let mut out = vec![];
    write_message(&mut out, encoded, &options)?;
    Ok(out)
}

pub struct Message {
    pub buffers: Vec<Buffer>,
    pub size: usize,
    pub rows: usize,
}

pub struct Encoder {
    encoder: StreamEncoder,
    /// Rows still to be encoded, of the batch that was cut.
    pending: VecDeque<RecordBatch>,
}

impl Encoder {
    pub fn new(schema: &Schema) -> Fallible<Self> {
        let mut encoder = StreamEncoder::try_new(schema)?;
        // The first call also gives the schema message, which travels on its own: let that be a call without rows.
        encoder.encode(&RecordBatch::new_empty(std::sync::Arc::new(schema.clone())))?;
        Ok(Self { encoder, pending: VecDeque::new() })
    }

    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    pub fn push(&mut self, batch: RecordBatch) {
        self.pending.push_back(batch);
    }

    /// The next message of what was pushed, cut by rows until it has at most `bytes_max` (0: no limit) or one row.
    pub fn next(&mut self, bytes_max: u64) -> Fallible<Option<Message>> {
        while let Some(batch) = self.pending.pop_front() {
            let rows = batch.num_rows();
            let buffers = self.encoder.encode(&batch)?;
            let size: usize = buffers.iter().map(|buffer| buffer.len()).sum();
            if bytes_max == 0 || size as u64 <= bytes_max || rows <= 1 {
                return Ok(Some(join_header(buffers, size, rows)?));
            }
            let parts = (size as u64).div_ceil(bytes_max).min(rows as u64).max(2) as usize;
            let step = rows.div_ceil(parts);
            for start in (0..rows).step_by(step).rev().collect::<Vec<_>>() {
                self.pending.push_front(batch.slice(start, step.min(rows - start)));
            }
        }
        Ok(None)
    }
}

/// The encoder gives marker, size, flatbuffer and padding apart: together they are the first part.
fn join_header(buffers: Vec<Buffer>, size: usize, rows: usize) -> Fallible<Message> {
    let short = || Failure::internal("an IPC message without a header");
    let mut prefix: Vec<u8> = vec![];
    let mut rest = buffers.into_iter();
    let mut header_size = usize::MAX;
    while prefix.len() < header_size {
        prefix.extend_from_slice(&rest.next().ok_or_else(short)?);
        if prefix.len() >= 8 && header_size == usize::MAX {
            let length = u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]);
            header_size = 8 + length as usize;
        }
    }
    let mut out = vec![Buffer::from_vec(prefix)];
    out.extend(rest.filter(|buffer| !buffer.is_empty()));
    Ok(Message { buffers: out, size, rows })
}

struct OwnedMessage {
    _buffers: Vec<Buffer>,
    parts: Vec<EngineBytes>,
}

unsafe extern "C" fn release_message(owner: *mut c_void) {
    drop(unsafe { Box::from_raw(owner as *mut OwnedMessage) });
}

impl Message {
    pub fn into_c(self) -> EngineIpc {
        let parts = self
            .buffers
            .iter()
            .map(|buffer| EngineBytes {
                data: buffer.as_ptr() as *const c_void,
                size: buffer.len(),
                owner: std::ptr::null_mut(),
                release: None,
            })
            .collect();
        let owned = Box::new(OwnedMessage { _buffers: self.buffers, parts });
        EngineIpc {
            parts: owned.parts.as_ptr(),
            part_count: owned.parts.len(),
            size: self.size,
            rows: self.rows as i64,
            owner: Box::into_raw(owned) as *mut c_void,
            release: Some(release_message),
        }
    }
}

pub fn no_message() -> EngineIpc {
    EngineIpc { parts: std::ptr::null(), part_count: 0, size: 0, rows: 0, owner: std::ptr::null_mut(), release: None }
}

/// Bytes that C releases.
pub fn owned_bytes(bytes: Vec<u8>) -> EngineBytes {
    unsafe extern "C" fn release(owner: *mut c_void) {
        drop(unsafe { Box::from_raw(owner as *mut Vec<u8>) });
    }
    let owned = Box::new(bytes);
    EngineBytes {
        data: owned.as_ptr() as *const c_void,
        size: owned.len(),
        owner: Box::into_raw(owned) as *mut c_void,
        release: Some(release),
    }
}
