//! Finding and loading the C function library.
use crate::{BallistaError, Result};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use trunnion_engine::cluster::{FunctionLibrary, Functions};

const LIBRARY: &str = "libtrunnion_functions.so";
const VARIABLE: &str = "TRUNNION_FUNCTIONS";

/// In the order in which they are tried: what was asked for; else beside the program, in the libraries of its prefix, and
/// wherever the loader looks.
fn candidates(asked: Option<PathBuf>) -> Vec<PathBuf> {
    if let Some(path) = asked.or_else(|| std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from))
    {
        return vec![path];
    }
    let mut out = vec![];
    if let Ok(program) = std::env::current_exe().and_then(|path| path.canonicalize())
        && let Some(directory) = program.parent()
    {
        // Installed, the program is in PREFIX/libexec/trunnion, and libraries are in PREFIX/lib or PREFIX/lib/TRIPLET.
        out.push(directory.join(LIBRARY));
        let prefix = directory.join("../..");
        for folder in ["lib", "lib64", concat!("lib/", env!("TRUNNION_TRIPLET"))] {
            out.push(prefix.join(folder).join(LIBRARY));
        }
    }
    out.retain(|path| path.exists());
    out.push(PathBuf::from(LIBRARY));
    out
}

fn failure() -> String {
    let text = unsafe { libc::dlerror() };
    match text.is_null() {
        true => "unknown".to_string(),
        false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
    }
}

fn open(path: &Path) -> std::result::Result<*const FunctionLibrary, String> {
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // Never unloaded: functions are used until the process ends.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE) };
    if handle.is_null() {
        return Err(failure());
    }
    let symbol = unsafe { libc::dlsym(handle, c"trn_function_library".as_ptr()) };
    if symbol.is_null() {
        return Err(failure());
    }
    let get: unsafe extern "C" fn() -> *const FunctionLibrary = unsafe { std::mem::transmute(symbol) };
    Ok(unsafe { get() })
}

/// The functions of the library at `asked`, or of the one that is found.
pub fn load(asked: Option<PathBuf>) -> Result<Functions> {
    let mut reasons = vec![];
    for path in candidates(asked) {
        match open(&path) {
            Ok(library) => {
                return unsafe { Functions::read(&[library]) }
                    .map_err(|failure| BallistaError::Configuration(format!("{}: {failure}", path.display())));
            }
            Err(reason) => reasons.push(format!("{}: {reason}", path.display())),
        }
    }
    Err(BallistaError::Configuration(format!("no function library: {}", reasons.join("; "))))
}
