//! Links libtrunnion: from TRUNNION_LIB_DIR when set, else where the linker looks.
fn main() {
    println!("cargo::rerun-if-env-changed=TRUNNION_LIB_DIR");
    if let Ok(dir) = std::env::var("TRUNNION_LIB_DIR") {
        println!("cargo::rustc-link-search=native={dir}");
        println!("cargo::rustc-link-arg-examples=-Wl,-rpath,{dir}");
    }
    println!("cargo::rustc-link-lib=dylib=trunnion");
    if std::env::var_os("CARGO_FEATURE_CLUSTER").is_some() {
        println!("cargo::rustc-link-lib=dylib=trunnion_server");
    }
}
