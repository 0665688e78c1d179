//! The folder of Debian's multi-architecture libraries, e.g. x86_64-linux-gnu: the target without its vendor.
fn main() {
    let target = std::env::var("TARGET").unwrap_or_default();
    let parts: Vec<&str> = target.split('-').collect();
    let triplet = match parts[..] {
        [machine, _, system, abi] => format!("{machine}-{system}-{abi}"),
        _ => target.clone(),
    };
    println!("cargo::rustc-env=TRUNNION_TRIPLET={triplet}");
    println!("cargo::rerun-if-changed=build.rs");
}
