//! Call stacks where the kernel lets this process see less: what can be had is taken, and what is missing is said.
//!
//! Rights are taken from a child, as they are never given back: this test program starts itself again under each fault.
//! The settings of the kernel are read and left as they are, because they are everybody's.

use std::hint::black_box;
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use iodyno_core::profile::{Mode, Owner, Profile};
use iodyno_profile::Profiler;

/// Past the test program's capture, so that it is seen.
fn say(text: &str, mut out: impl Write) {
    out.write_all(format!("{text}\n").as_bytes()).unwrap();
}

/// Half a second of user code, half of it interrupted by copies of zeros in the kernel.
fn load() {
    let mut memory = vec![0; 1 << 20];
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(500) {
        (0..200_000_u64).for_each(|number| _ = black_box(number));
        std::io::Read::read_exact(&mut std::fs::File::open("/dev/zero").unwrap(), &mut memory).unwrap();
    }
}

fn profile() -> Profile {
    let mut profiler = Profiler::open(997, &iodyno_sys::affinity::allowed().unwrap());
    profiler.begin();
    std::thread::scope(|scope| {
        scope.spawn(load).join().unwrap();
    });
    profiler.end();
    profiler.report("00001-1").unwrap()
}

/// Not a test: what the others start again. A line each: what is missing, samples by mode and owner, functions.
#[test]
#[ignore = "started by the other tests"]
fn child() {
    let profile = profile();
    let samples = |mode, owner| {
        let stacks = profile.stacks.iter().filter(|stack| stack.mode == mode && stack.owner == owner);
        stacks.map(|stack| stack.count).sum::<u64>()
    };
    let counts: Vec<u64> = [Mode::User, Mode::Kernel].iter().map(|&mode| samples(mode, Owner::App)).collect();
    let names: Vec<&str> = profile.functions.iter().map(|function| function.name.as_str()).collect();
    say(&format!("missing {}", profile.missing.as_deref().unwrap_or("nothing")), std::io::stdout());
    say(&format!("samples {} {}", counts[0], counts[1]), std::io::stdout());
    say(&format!("functions {}", names.join(" ")), std::io::stdout());
}

/// What the child says without some capabilities: what is missing, user and kernel samples of its own, names of
/// functions. `None`, said loudly, where no rights can be taken away, or no samples can be had at all.
fn without(capabilities: &str) -> Option<(String, [u64; 2], String)> {
    if iodyno_sys::process::effective_user() != 0 {
        say("SKIPPED: only root can take rights away from a child", std::io::stderr());
        return None;
    }
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", capabilities]).arg(std::env::current_exe().unwrap());
    let output = command.args(["--exact", "child", "--ignored", "--nocapture"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {key}: {text} {output:?}")).to_owned()
    };
    let missing = line("missing");
    if missing.contains("this kernel") || missing.contains("not supported") {
        say(&format!("SKIPPED: {missing}"), std::io::stderr());
        return None;
    }
    let counts = line("samples");
    let (user, kernel) = counts.split_once(' ').unwrap();
    Some((missing, [user.parse().unwrap(), kernel.parse().unwrap()], line("functions")))
}

fn setting(name: &str) -> i64 {
    let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap();
    text.trim().parse().unwrap()
}

#[test]
fn with_less_rights_less_is_sampled_and_that_is_said() {
    let paranoid = setting("perf_event_paranoid");
    let Some((missing, [user, kernel], _)) = without("-perfmon,-sys_admin") else { return };
    match paranoid {
        // Of some distributions: without the capability there are no samples at all.
        3.. => assert!(missing.contains("CAP_PERFMON"), "{missing}"),
        2 => {
            assert!(missing.contains("only user code of the agent's own threads"), "{missing}");
            assert!(user > 0 && kernel == 0, "{user} and {kernel} samples");
        }
        1 => assert!(missing.contains("only the agent's own threads") && user > 0, "{missing}"),
        _ => assert!(user > 0, "{missing}"),
    }
}

#[test]
fn where_the_kernel_hides_its_symbols_samples_are_kept_and_the_setting_is_named() {
    // Addresses are shown to whoever may log the kernel's, or to all who may profile (`kallsyms_show_value`).
    let shown = setting("kptr_restrict") == 0 && setting("perf_event_paranoid") <= 1;
    let Some((missing, [_, kernel], functions)) = without("-syslog") else { return };
    if shown {
        return say("SKIPPED: this kernel shows its symbols to everybody", std::io::stderr());
    }
    assert!(missing.contains("kernel.kptr_restrict") && missing.contains("CAP_SYSLOG"), "{missing}");
    assert!(kernel > 0, "{missing}");
    assert!(functions.contains("[hidden]") && !functions.contains("read_zero"), "{functions}");
}
