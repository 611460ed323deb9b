// Compiles programs for the kernel with clang, for the build scripts of the crates that have some.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles `bpf/NAME.bpf.c` of each name into the crate's build folder and sets `has_bpf`; without clang the crate is
/// built without them, and `left_out` is said to be missing.
fn compile_all(names: &[&str], left_out: &str) {
    println!("cargo:rustc-check-cfg=cfg(has_bpf)");
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-changed=../bpf_compile.rs");
    if std::env::var_os("CARGO_FEATURE_BPF").is_none() {
        return;
    }
    println!("cargo:rerun-if-env-changed=CLANG");
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    match names.iter().try_for_each(|name| compile(name, &folder)) {
        Ok(()) => println!("cargo:rustc-cfg=has_bpf"),
        Err(reason) => {
            println!("cargo:warning={left_out} left out: {reason}");
            println!("cargo:warning=install clang and libbpf-dev, touch agent/*/bpf, and build again");
        }
    }
}

fn compile(name: &str, folder: &Path) -> Result<(), String> {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let architecture = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let mut command = Command::new(&clang);
    command.args(["-target", "bpf", "-O2", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter", "-c"]);
    if name.ends_with("_times") {
        // It needs arithmetic of 32 bits (Linux 5.1), and typed tracepoints, which are younger.
        command.arg("-mcpu=v3");
    }
    match architecture.as_str() {
        "x86_64" => command.arg("-D__TARGET_ARCH_x86"),
        "aarch64" => command.arg("-D__TARGET_ARCH_arm64"),
        _ => &mut command,
    };
    // Debian keeps the headers of an architecture in a folder of its own, which `-target bpf` does not look into.
    command.arg(format!("-I/usr/include/{architecture}-linux-gnu"));
    // Where it is another one than the machine's own, they come with its cross compiler.
    command.arg(format!("-I/usr/{architecture}-linux-gnu/include"));
    let outcome =
        command.arg(format!("bpf/{name}.bpf.c")).arg("-o").arg(folder.join(format!("{name}.bpf.o"))).output();
    let output = outcome.map_err(|error| format!("{clang} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(said.lines().find(|line| line.contains("error")).unwrap_or("clang failed").to_owned())
}
