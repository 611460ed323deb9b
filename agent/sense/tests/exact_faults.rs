//! Where programs cannot be loaded into the kernel, or their agent dies: one clear reason, and nothing is left behind.
//!
//! Each fault needs a process of its own, so this test program starts itself again under the fault and looks at what
//! its child says.

mod programs;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use iodyno_sense::{Panel, Roots, Subject};
use iodyno_sys::process::effective_user;
use programs::{alive, held_by};

/// What a child of this test opens: the exact accounting, and what is there without it.
fn readings() -> Vec<iodyno_core::metric::Reading> {
    let wanted = ["cpu_exact".to_owned(), "cpu_times".to_owned()];
    let mut panel = Panel::new(&Roots::default(), &Subject::default(), Some(&wanted)).unwrap();
    panel.baseline();
    panel.read()
}

/// Not a test: what the others start again.
#[test]
#[ignore = "started by the other tests"]
fn child() {
    for reading in readings() {
        let line = format!("{} {} {:?}\n", reading.sensor, reading.values.len(), reading.missing);
        std::io::stdout().write_all(line.as_bytes()).unwrap();
    }
}

/// Not a test: holds the programs until it is killed.
#[test]
#[ignore = "started by the other tests"]
fn holder() {
    let mut panel =
        Panel::new(&Roots::default(), &Subject::default(), Some(&["cpu_exact".to_owned()])).unwrap();
    let line = format!("holding {:?}\n", panel.read().remove(0).missing);
    std::io::stdout().write_all(line.as_bytes()).unwrap();
    thread::sleep(Duration::from_secs(60));
}

/// A command that runs one of the above, behind a prefix such as `setpriv ...`.
fn again(prefix: &[&str], what: &str) -> Command {
    let this = std::env::current_exe().unwrap();
    let mut words: Vec<String> = prefix.iter().map(|word| (*word).to_owned()).collect();
    words.push(this.to_str().unwrap().to_owned());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(["--exact", what, "--ignored", "--nocapture"]);
    command
}

/// What the child says of a sensor under a fault.
fn said(prefix: &[&str], sensor: &str) -> String {
    let output = again(prefix, "child").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.starts_with(sensor));
    line.unwrap_or_else(|| panic!("{prefix:?}: {text} {}", String::from_utf8_lossy(&output.stderr)))
        .to_owned()
}

/// Whether the faults can be made here: by root, in an agent that has the programs.
fn root() -> bool {
    let why = match readings().remove(0).missing {
        Some(why) if why.contains("built without") => why,
        _ if effective_user() != 0 => "only root can take rights away from a child".to_owned(),
        _ => return true,
    };
    // Past the test program's capture, so that it is seen.
    std::io::stderr().write_all(format!("SKIPPED: {why}\n").as_bytes()).unwrap();
    false
}

/// Asserts that the child has no exact accounting for want of rights, and the next tier all the same.
fn assert_not_allowed(prefix: &[&str]) {
    let exact = said(prefix, "cpu_exact");
    assert!(exact.starts_with("cpu_exact 0 ") && exact.contains("CAP_BPF and CAP_PERFMON"), "{exact}");
    let times = said(prefix, "cpu_times");
    assert!(!times.starts_with("cpu_times 0 ") && times.ends_with("None"), "{times}");
}

#[test]
fn without_the_capabilities_it_says_which_ones_it_needs() {
    if root() {
        assert_not_allowed(&["setpriv", "--bounding-set", "-bpf,-sys_admin,-perfmon"]);
        assert_not_allowed(&["setpriv", "--bounding-set", "-perfmon,-sys_admin"]);
    }
}

#[test]
fn with_just_the_capabilities_it_works_and_says_that_its_cost_is_not_known() {
    if root() {
        let exact = said(&["setpriv", "--bounding-set", "+bpf,+perfmon,-sys_admin"], "cpu_exact");
        assert!(!exact.starts_with("cpu_exact 0 "), "{exact}");
        assert!(exact.contains("cost of the observer not measured"), "{exact}");
    }
}

#[test]
fn an_ordinary_user_is_told_the_same() {
    if !root() {
        return;
    }
    // The folder of the build may be closed to others.
    let copy = std::env::temp_dir().join(format!("iodyno-exact-{}", std::process::id()));
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--clear-groups"]).arg(&copy);
    let output = command.args(["--exact", "child", "--ignored", "--nocapture"]).output().unwrap();
    std::fs::remove_file(&copy).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("CAP_BPF and CAP_PERFMON"), "{text} {output:?}");
    assert!(text.lines().any(|line| line.starts_with("cpu_times ") && line.ends_with("None")), "{text}");
}

#[test]
fn a_kernel_without_type_information_will_do() {
    if root() {
        let hide = "mount -t tmpfs none /sys/kernel/btf && exec \"$@\"";
        let exact = said(&["unshare", "--mount", "sh", "-c", hide, "sh"], "cpu_exact");
        assert!(!exact.starts_with("cpu_exact 0 "), "{exact}");
    }
}

#[test]
fn a_cpu_that_is_not_online_is_named_and_the_others_count() {
    if !root() {
        return;
    }
    let cpus = vec![iodyno_sys::affinity::allowed().unwrap()[0], 8_191];
    let subject = Subject { cpus, ..Subject::default() };
    let mut panel = Panel::new(&Roots::default(), &subject, Some(&["cpu_exact".to_owned()])).unwrap();
    panel.baseline();
    let reading = panel.read().remove(0);
    assert!(reading.values.iter().any(|value| value.0 == "exact.idle_ns"), "{reading:?}");
    assert!(reading.missing.unwrap().contains("CPU 8191: not online"));
}

#[test]
fn nothing_is_left_of_an_agent_that_was_killed() {
    if !root() {
        return;
    }
    let mut holder = again(&["env"], "holder").stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let held = lines.map_while(Result::ok).find(|line| line.contains("holding")).unwrap();
    let programs = held_by(holder.id());
    assert!(programs.len() >= 6, "{held}: {programs:?}");
    assert!(alive(&programs) >= 6);
    holder.kill().unwrap();
    holder.wait().unwrap();
    programs::assert_gone(&programs);
}
