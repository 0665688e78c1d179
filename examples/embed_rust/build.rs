//! The program finds libtrunnion where it was linked from.
fn main() {
    println!("cargo::rerun-if-env-changed=TRUNNION_LIB_DIR");
    if let Ok(dir) = std::env::var("TRUNNION_LIB_DIR") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{dir}");
    }
}
