//! Tells the crate by which of cargo's profiles it is built, as the variable `WEIR_PROFILE`. Cargo says
//! whether the profile is like `release` or like `dev`; its own name is in a path alone. Also the build
//! script of `weir-stress`.

use std::path::{Component, Path};

fn main() {
    let out = std::env::var_os("OUT_DIR").unwrap_or_default();
    println!("cargo::rustc-env=WEIR_PROFILE={}", profile(Path::new(&out)).unwrap_or("unknown"));
    // Without a word of what it reads, it would run again whenever any file changes.
    println!("cargo::rerun-if-changed=Cargo.toml");
}

/// The folder of the profile is the one around the last `build`: `target/first/build/weir-0123456789/out`.
fn profile(out: &Path) -> Option<&str> {
    let folders: Vec<Component<'_>> = out.components().collect();
    let build = folders.iter().rposition(|folder| folder.as_os_str() == "build")?;
    folders.get(build.checked_sub(1)?)?.as_os_str().to_str()
}
