//! Several agents on one machine: they share the programs in the kernel, tell each other apart, and outlive each other.
//!
//! The kernel knows agents by their processes, so this test program starts itself again for each of them.

mod programs;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use iodyno_core::metric::Reading;
use iodyno_core::units::Nanos;
use iodyno_sense::{Panel, Roots, Subject};
use iodyno_sys::{affinity, clock, process};
use programs::held_by;

const MILLISECOND: u64 = 1_000_000;
/// Names the process whose tasks an agent is to count as its own.
const ALIKE: &str = "IODYNO_TEST_ALIKE";

/// What an agent says of itself after it has taken some CPU time.
struct Said {
    /// Time in tasks of its own, in those of others, in all classes; how long it observed, and how long its readings took.
    app_ns: u64,
    other_ns: u64,
    whole_ns: u64,
    span_ns: u64,
    reading_ns: u64,
    /// Its system calls a second: those that it counted in the warm-up, and at most as many as it did make.
    counted_per_s: u64,
    calls_per_s: u64,
}

/// Not a test: an agent, which takes as many milliseconds of CPU time as each line says and then says what it sees; its
/// trial ends at `rest`.
#[test]
#[ignore = "started by the other tests"]
fn agent() {
    let alike = std::env::var(ALIKE).ok().and_then(|process| process.parse().ok());
    let watched = alike.map(|process| ("alike".to_owned(), vec![process])).into_iter().collect();
    let subject = Subject { warm_up: Nanos(200 * MILLISECOND), watched, ..Subject::default() };
    let mut panel = Panel::new(&Roots::default(), &subject, Some(&["cpu_exact".to_owned()])).unwrap();
    let begin = clock::monotonic();
    panel.baseline();
    let mut reading_ns = clock::monotonic().minus(begin).0;
    say("ready");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        if line == "rest" {
            break;
        }
        let calls_per_s = take(Nanos(line.parse::<u64>().unwrap() * MILLISECOND));
        let begin = clock::monotonic();
        let reading = panel.read().remove(0);
        reading_ns += clock::monotonic().minus(begin).0;
        let (app, other) = (sum(&reading, "exact.app_ns"), sum(&reading, "exact.other_ns"));
        let rest = ["exact.idle_ns", "exact.hardirq_ns", "exact.softirq_ns"];
        let whole = app + other + rest.iter().map(|metric| sum(&reading, metric)).sum::<u64>();
        let counted = sum(&reading, "syscalls.rate_per_s");
        say(&format!(
            "said {app} {other} {whole} {} {reading_ns} {counted} {calls_per_s}",
            reading.span_ns.0
        ));
    }
    drop(panel);
    say("rests");
    let _ = std::io::stdin().lines().next();
}

/// Takes CPU time by asking for it, a system call each time; how many calls a second there were in the best hundredth.
fn take(time: Nanos) -> u64 {
    let begin = clock::thread_cpu();
    let (mut now, mut part, mut calls, mut most) = (begin, begin, 0, 0);
    while now.minus(begin) < time {
        now = clock::thread_cpu();
        calls += 1;
        if now.minus(part).0 > time.0 / 100 {
            most = most.max(calls * 1_000_000_000 / now.minus(part).0);
            (part, calls) = (now, 0);
        }
    }
    most
}

fn say(line: &str) {
    // Past the test program's capture.
    std::io::stdout().write_all(format!("\n{line}\n").as_bytes()).unwrap();
}

fn sum(reading: &Reading, metric: &str) -> u64 {
    reading.values.iter().filter(|value| value.0 == metric).map(|value| value.2).sum()
}

/// An agent in a process of its own.
struct Agent {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Agent {
    /// Starts one that observes all CPUs; it does when this returns.
    fn start() -> Agent {
        Agent::start_alike("")
    }

    /// Likewise, and counts the tasks of a process as its own.
    fn start_alike(process: &str) -> Agent {
        let mut agent = Agent::spawn_alike(process);
        agent.hear("ready");
        agent
    }

    /// Likewise, without waiting until it does.
    fn spawn() -> Agent {
        Agent::spawn_alike("")
    }

    fn spawn_alike(process: &str) -> Agent {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "agent", "--ignored", "--nocapture"])
            .env(ALIKE, process)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Agent { process, input, output: BufReader::new(output) }
    }

    /// The next line that begins with a word, without it.
    fn hear(&mut self, word: &str) -> String {
        let mut lines = self.output.by_ref().lines().map_while(Result::ok);
        let line = lines.find_map(|line| Some(line.strip_prefix(word)?.trim().to_owned()));
        line.unwrap_or_else(|| panic!("the agent ended without {word}"))
    }

    /// Has it take so many milliseconds of CPU time, and hears what it saw since the last time.
    fn take(&mut self, ms: u64) -> Said {
        writeln!(self.input, "{ms}").unwrap();
        self.said()
    }

    /// What it says next.
    fn said(&mut self) -> Said {
        let line = self.hear("said");
        let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let [app_ns, other_ns, whole_ns, span_ns, reading_ns, counted_per_s, calls_per_s] = numbers[..]
        else {
            panic!("{line}")
        };
        Said { app_ns, other_ns, whole_ns, span_ns, reading_ns, counted_per_s, calls_per_s }
    }

    /// Ends its trial, and waits until it has.
    fn rest(&mut self) {
        writeln!(self.input, "rest").unwrap();
        self.hear("rests");
    }

    /// Programs that it has in the kernel.
    fn programs(&self) -> Vec<u32> {
        held_by(self.process.id())
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// Three that share. One that waited too long for its turn, as on a machine that stalls, has programs for itself: then
/// there is another try, and one that never shares never does.
fn sharing() -> [Agent; 3] {
    for _ in 0..5 {
        let agents = [Agent::start(), Agent::start(), Agent::start()];
        let attached = agents[0].programs();
        assert!(attached.len() >= 6, "{attached:?}");
        // The one that offers has loaded programs besides that nobody uses; those who join hold what is in use.
        let joined = |agent: &Agent| {
            let held = agent.programs();
            held.len() >= 6 && held.iter().all(|id| attached.contains(id))
        };
        if agents[1..].iter().all(joined) {
            return agents;
        }
        agents.into_iter().for_each(Agent::kill);
    }
    panic!("three agents of one machine do not share");
}

/// The classes of all CPUs are all the time there was, but for that of the readings.
fn assert_whole(said: &Said) {
    let span = said.span_ns * affinity::allowed().unwrap().len() as u64;
    let allowed = span / 1000 + said.reading_ns * affinity::allowed().unwrap().len() as u64;
    assert!(said.whole_ns.abs_diff(span) <= allowed, "{} of {span} ns, {allowed} allowed", said.whole_ns);
}

/// What is accounted at least to a thread that took so much time by its own clock: that clock goes on in the interrupts
/// that others' loads bring to its CPU.
fn most_of(milliseconds: u64) -> u64 {
    milliseconds * MILLISECOND / 2
}

/// One test at a time, because all agents of the machine share; `None`, said loudly, where none can look for others.
fn turn() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    if process::effective_user() != 0 {
        std::io::stderr().write_all(b"SKIPPED: only root can share programs in the kernel\n").unwrap();
        return None;
    }
    Some(TURN.lock().unwrap_or_else(PoisonError::into_inner))
}

#[test]
fn agents_of_one_machine_share_their_programs_and_tell_each_other_apart() {
    let Some(_turn) = turn() else { return };
    let [mut first, mut second, mut third] = sharing();
    let busy = second.take(300);
    let (idle, also_idle) = (first.take(0), third.take(0));
    assert!(busy.app_ns >= most_of(300), "{}", busy.app_ns);
    for said in [&idle, &also_idle] {
        assert!(said.app_ns < busy.app_ns / 2, "{} beside {}", said.app_ns, busy.app_ns);
        assert!(said.other_ns >= busy.app_ns / 10 * 9, "{} beside {}", said.other_ns, busy.app_ns);
    }
    [&busy, &idle, &also_idle].into_iter().for_each(assert_whole);
    [first, second, third].into_iter().for_each(Agent::kill);
}

#[test]
fn an_agent_counts_the_tasks_of_those_that_are_alike_as_its_own() {
    let Some(_turn) = turn() else { return };
    let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let mut first = Agent::start_alike(&busy.id().to_string());
    let mut other = Agent::start();
    let (mut app_ns, mut others_ns) = (0, 0);
    for _ in 0..100 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        app_ns += first.take(0).app_ns;
        others_ns += other.take(0).app_ns;
        if app_ns > 20 * MILLISECOND && app_ns > 2 * others_ns {
            break;
        }
    }
    busy.kill().unwrap();
    busy.wait().unwrap();
    assert!(app_ns > 20 * MILLISECOND && app_ns > 2 * others_ns, "{app_ns} beside {others_ns}");
    [first, other].into_iter().for_each(Agent::kill);
}

#[test]
fn what_is_attached_stays_until_the_last_agent_lets_go_and_no_longer() {
    let Some(_turn) = turn() else { return };
    let [first, mut second, other] = sharing();
    other.kill();
    let shared = second.programs();
    first.kill();
    let said = second.take(200);
    assert!(said.app_ns >= most_of(200), "{}", said.app_ns);
    assert_whole(&said);
    // One that comes now joins the one that is left, or, where it waited too long, has its own.
    let mut third = Agent::start();
    second.kill();
    let said = third.take(200);
    assert!(said.app_ns >= most_of(200), "{}", said.app_ns);
    assert_whole(&said);
    third.kill();
    programs::assert_gone(&shared);
}

#[test]
fn an_agent_attaches_what_another_has_loaded_and_does_not_use() {
    let Some(_turn) = turn() else { return };
    // One that waited too long for its turn loads its own.
    for _ in 0..5 {
        let (mut first, mut second) = (Agent::start(), Agent::start());
        let loaded = first.programs();
        [&mut first, &mut second].into_iter().for_each(Agent::rest);
        let mut third = Agent::start();
        let held = third.programs();
        let shares = held.len() >= 6 && held.iter().all(|id| loaded.contains(id));
        let said = third.take(200);
        assert!(said.app_ns >= most_of(200), "{}", said.app_ns);
        assert_whole(&said);
        // It is whole, too, after those have ended that loaded it.
        [first, second].into_iter().for_each(Agent::kill);
        let said = third.take(200);
        assert!(said.app_ns >= most_of(200), "{}", said.app_ns);
        assert_whole(&said);
        third.kill();
        programs::assert_gone(&loaded);
        if shares {
            return;
        }
    }
    panic!("no agent attaches what another one has loaded");
}

#[test]
fn system_calls_that_two_agents_count_at_a_time_count_once() {
    let Some(_turn) = turn() else { return };
    // Both look for system calls at the same time, as those of a trial do.
    let mut agents = [Agent::spawn(), Agent::spawn()];
    for agent in &mut agents {
        writeln!(agent.input, "250").unwrap();
    }
    for agent in &mut agents {
        let said = agent.said();
        // What is counted twice is twice as much, where a CPU was to be had.
        let (counted, made) = (said.counted_per_s, said.calls_per_s);
        assert!(counted < made * 3 / 2, "{counted} of {made} a second");
    }
    agents.into_iter().for_each(Agent::kill);
}
