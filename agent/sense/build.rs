//! Compiles the kernel-side programs with clang. Without clang the agent is built without them, and says so.

include!("../bpf_compile.rs");

fn main() {
    // `refused` is for the tests alone.
    compile_all(
        &["block", "block_floor", "block_times", "cpu", "refused", "syscall_times"],
        "the sensors cpu_exact, block_times and syscall_times and the block trace are",
    );
}
