//! An independent meter: bpftrace sums the same tracepoints in the same window by a script of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use iodyno_core::units::Nanos;

/// What it saw on its CPU.
#[derive(Debug)]
pub struct Metered {
    /// Time in soft interrupts, without the hard ones on top.
    pub softirq_ns: u64,
    /// Time in hard interrupts.
    pub hardirq_ns: u64,
    /// Hard interrupts.
    pub hardirqs: u64,
}

/// A meter that runs.
pub struct Meter {
    process: Child,
    lines: BufReader<ChildStdout>,
    /// When its window begins: soon after its programs were in the kernel.
    pub begin: Nanos,
}

/// Interrupts with tracepoints of their own; `irq_work` has too, but the kernel keeps perf events away from it.
const VECTORS: [&str; 4] = ["local_timer", "reschedule", "call_function", "call_function_single"];

/// bpftrace, in a mount namespace of its own where the kernel's tracing tree is surely mounted.
fn bpftrace(script: &str) -> Command {
    let mounted = "for tree in debug:debugfs tracing:tracefs; do \
        mount -t ${tree#*:} none /sys/kernel/${tree%:*} 2>/dev/null; done; exec bpftrace -B none \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", mounted, "sh", "-e", script]);
    command
}

/// Whether bpftrace is here and allowed.
pub fn available() -> bool {
    let tried = bpftrace("tracepoint:irq:softirq_entry { exit(); }").output();
    tried.is_ok_and(|output| output.status.success())
}

/// The script. `$1` CPU, `$2` length of the window. What counts the time to its begin comes last, so that all else is in the
/// kernel by then.
fn script() -> String {
    let hard = |moment: &str, irq: &str| {
        let vectors: Vec<String> =
            VECTORS.iter().map(|vector| format!("tracepoint:irq_vectors:{vector}_{moment}")).collect();
        format!("tracepoint:irq:{irq}, {}", vectors.join(", "))
    };
    let inside = "cpu == $1 && @from && nsecs >= @from && nsecs < @from + $2";
    format!(
        "BEGIN {{ @from = (uint64)0; @soft = (uint64)0; @hard = (uint64)0; @hards = (uint64)0; @in = 0; @h = (uint64)0; }}
tracepoint:irq:softirq_entry /{inside}/ {{ @in = 1; @last = nsecs; }}
tracepoint:irq:softirq_exit /{inside} && @in/ {{ @soft += nsecs - @last; @in = 0; }}
{} /{inside}/ {{ $now = nsecs; if (@in) {{ @soft += $now - @last; }} @h = $now; }}
{} /{inside} && @h/ {{ $now = nsecs; @hard += $now - @h; @hards++; @h = (uint64)0; @last = $now; }}
interval:ms:100 /@from && nsecs > @from + $2/ {{ printf(\"metered %llu %llu %llu\\n\", @soft, @hard, @hards); exit(); }}
interval:ms:100 /!@from/ {{ @from = nsecs + 1000000000; printf(\"from %llu\\n\", @from); }}",
        hard("entry", "irq_handler_entry"),
        hard("exit", "irq_handler_exit"),
    )
}

/// Starts it; it meters for so long. `None` when it ended before it began.
pub fn start(cpu: u32, length: Nanos) -> Option<Meter> {
    let arguments = [cpu.to_string(), length.0.to_string()];
    let mut process = bpftrace(&script()).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap());
    let Some(&[begin]) = numbers(&mut lines, "from ").as_deref() else {
        let _ = process.wait();
        return None;
    };
    Some(Meter { process, lines, begin: Nanos(begin) })
}

/// The numbers of the next line that begins so.
fn numbers(lines: &mut BufReader<ChildStdout>, with: &str) -> Option<Vec<u64>> {
    lines
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix(with)?.split_whitespace().map(|word| word.parse().ok()).collect())
}

impl Meter {
    /// What it saw; `None` when it was ended.
    pub fn finish(mut self) -> Option<Metered> {
        let metered = numbers(&mut self.lines, "metered ");
        let _ = self.process.wait();
        let [softirq_ns, hardirq_ns, hardirqs] = metered?[..] else { return None };
        Some(Metered { softirq_ns, hardirq_ns, hardirqs })
    }
}
