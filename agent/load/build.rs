//! Compiles the kernel-side programs with clang. Without clang the agent is built without them, and says so.

include!("../bpf_compile.rs");

fn main() {
    compile_all(&["ports"], "servers on packet rings are");
}
