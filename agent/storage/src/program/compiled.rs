//! A program as threads carry it out: names looked up, numbers of files and of streams instead of them.

use std::collections::HashMap;

use iodyno_core::file_program::{FileCall, FileFlowop, FileProgram, ProgramThread, WHOLE_FILE_IO_BYTES};
use iodyno_core::file_variable::Value;
use iodyno_sys::directory::Opening;

/// chosen: descriptors that flowops with `open_next` rotate over, as in Filebench.
const MOST_ROTATED: u64 = 128;

/// A number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Fixed(u64),
    /// Drawn from that stream of the thread.
    Drawn(usize),
}

/// Where the open file of a flowop is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// There.
    One(usize),
    /// In one of `count` from `first` on, the next each time.
    Turn { first: usize, count: usize, rotor: usize },
    /// The one that the thread used last.
    Last,
}

/// A flowop.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub call: FileCall,
    /// Number of the flowop in the program: its class.
    pub class: usize,
    /// Number of the flowop in its thread.
    pub local: usize,
    pub fileset: Option<usize>,
    pub slot: Slot,
    /// Whether the flowop names the number of its open file.
    pub numbered: bool,
    pub source: Option<usize>,
    pub index: Option<Number>,
    pub io_bytes: Number,
    pub iterations: Number,
    pub working_set: Option<Number>,
    pub random: bool,
    pub opening: Opening,
    pub no_readahead: bool,
    pub value: Number,
    pub unit_ns: u64,
    pub blocking: bool,
    /// Semaphores that it ends the wait at; the one that it waits at is found by its thread.
    pub targets: Vec<usize>,
    /// Classes that it counts.
    pub counted: Vec<usize>,
    pub steps: Vec<Step>,
}

/// Threads that do the same.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub process: usize,
    pub thread: usize,
    /// Process instances, and threads in each.
    pub instances: u32,
    pub threads: u32,
    pub steps: Vec<Step>,
    pub slots: usize,
    pub rotors: usize,
    /// Classes of its flowops, by local number.
    pub classes: Vec<usize>,
    /// Semaphores that its flowops wait at, by local number, of its first thread; each further thread has its own ones,
    /// as many, after those.
    pub semaphores: HashMap<usize, usize>,
    /// Whether a flowop waits for events.
    pub paced: bool,
    /// Number of its first thread.
    pub first: usize,
}

impl Group {
    pub(super) fn count(&self) -> usize {
        self.instances as usize * self.threads as usize
    }
}

/// A program.
#[derive(Clone, Debug, Default)]
pub(super) struct Compiled {
    pub groups: Vec<Group>,
    /// High water mark of each semaphore.
    pub semaphores: Vec<Number>,
    pub threads: usize,
}

struct Builder<'a> {
    program: &'a FileProgram,
    streams: HashMap<&'a str, usize>,
    filesets: HashMap<&'a str, usize>,
    class: usize,
}

/// What is known of the thread that is compiled.
#[derive(Default)]
struct Within {
    slots: usize,
    rotors: usize,
    numbered: HashMap<u32, usize>,
    of_fileset: HashMap<usize, usize>,
    rotated: HashMap<usize, (usize, usize)>,
    classes: Vec<usize>,
}

impl<'a> Builder<'a> {
    fn number(&self, value: &Value) -> Number {
        match value {
            Value::Fixed(value) => Number::Fixed(*value),
            // The program was checked: every variable is known.
            Value::Drawn(reference) => self
                .streams
                .get(reference.variable.as_str())
                .map_or(Number::Fixed(0), |at| Number::Drawn(*at)),
        }
    }

    fn slot(&self, within: &mut Within, flowop: &FileFlowop, fileset: Option<usize>) -> Slot {
        match (flowop.fd, fileset) {
            // A number says which, whether or not files are to be used in turn, as in Filebench.
            (Some(fd), _) => Slot::One(within.numbered(fd)),
            (None, Some(fileset)) if flowop.open_next => {
                let entries = self.program.filesets[fileset].entries.clamp(1, MOST_ROTATED) as usize;
                let (first, count) = *within.rotated.entry(fileset).or_insert_with(|| {
                    let first = within.slots;
                    within.slots += entries;
                    (first, entries)
                });
                within.rotors += 1;
                Slot::Turn { first, count, rotor: within.rotors - 1 }
            }
            (None, Some(fileset)) => {
                let slots = &mut within.slots;
                Slot::One(*within.of_fileset.entry(fileset).or_insert_with(|| {
                    *slots += 1;
                    *slots - 1
                }))
            }
            (None, None) => Slot::Last,
        }
    }

    fn steps(&mut self, within: &mut Within, flowops: &'a [FileFlowop]) -> Vec<Step> {
        flowops.iter().map(|flowop| self.step(within, flowop)).collect()
    }

    fn step(&mut self, within: &mut Within, flowop: &'a FileFlowop) -> Step {
        let (class, local) = (self.class, within.classes.len());
        self.class += 1;
        within.classes.push(class);
        let fileset = flowop.fileset.as_deref().and_then(|name| self.filesets.get(name).copied());
        let slot = self.slot(within, flowop, fileset);
        let whole = Number::Fixed(WHOLE_FILE_IO_BYTES);
        let of = fileset.map(|at| &self.program.filesets[at]);
        let io_bytes = match flowop.io_bytes.as_ref().map(|value| self.number(value)) {
            Some(Number::Fixed(0)) | None => whole,
            Some(number) => number,
        };
        Step {
            call: flowop.call,
            class,
            local,
            fileset,
            slot,
            numbered: flowop.fd.is_some(),
            source: flowop.srcfd.map(|fd| within.numbered(fd)),
            index: flowop.index.as_ref().map(|value| self.number(value)),
            io_bytes,
            iterations: self.number(&flowop.iterations),
            working_set: flowop.working_set_bytes.as_ref().map(|value| self.number(value)),
            random: flowop.random,
            opening: Opening {
                read: of.is_none_or(|of| !of.write_only),
                write: of.is_none_or(|of| !of.read_only),
                create: flowop.call == FileCall::CreateFile,
                direct: flowop.direct,
                dsync: flowop.dsync,
            },
            no_readahead: flowop.no_readahead,
            value: self.number(&flowop.value),
            unit_ns: flowop.unit_ns,
            blocking: flowop.blocking,
            targets: Vec::new(),
            counted: Vec::new(),
            steps: self.steps(within, &flowop.flowops),
        }
    }

    fn group(&mut self, process: usize, thread: usize, of: &'a ProgramThread, first: usize) -> Group {
        let mut within = Within::default();
        let steps = self.steps(&mut within, &of.flowops);
        let limits = [FileCall::EventLimit, FileCall::OpsLimit, FileCall::IopsLimit, FileCall::BwLimit];
        Group {
            process,
            thread,
            instances: self.program.processes[process].instances,
            threads: of.instances,
            paced: any(&steps, &|step| limits.contains(&step.call)),
            steps,
            slots: within.slots,
            rotors: within.rotors,
            classes: within.classes,
            semaphores: HashMap::new(),
            first,
        }
    }
}

impl Within {
    fn numbered(&mut self, fd: u32) -> usize {
        let slots = &mut self.slots;
        *self.numbered.entry(fd).or_insert_with(|| {
            *slots += 1;
            *slots - 1
        })
    }
}

fn any(steps: &[Step], what: &impl Fn(&Step) -> bool) -> bool {
    steps.iter().any(|step| what(step) || any(&step.steps, what))
}

fn for_each(steps: &mut [Step], what: &mut impl FnMut(&mut Step)) {
    for step in steps {
        what(step);
        for_each(&mut step.steps, what);
    }
}

impl Compiled {
    /// Of a program that was checked.
    pub(super) fn of(program: &FileProgram) -> Self {
        let streams = program.variables.iter().enumerate().map(|(at, variable)| (variable.name.as_str(), at));
        let filesets = program.filesets.iter().enumerate().map(|(at, fileset)| (fileset.name.as_str(), at));
        let mut builder =
            Builder { program, streams: streams.collect(), filesets: filesets.collect(), class: 0 };
        let mut compiled = Compiled::default();
        for (process, of_process) in program.processes.iter().enumerate() {
            for (thread, of_thread) in of_process.threads.iter().enumerate() {
                let group = builder.group(process, thread, of_thread, compiled.threads);
                compiled.threads += group.count();
                compiled.groups.push(group);
            }
        }
        compiled.link_targets(program, &builder);
        compiled
    }

    /// Finds what every flowop with a target is about.
    fn link_targets(&mut self, program: &FileProgram, builder: &Builder<'_>) {
        let placed = program.placed();
        let mut of_class: HashMap<usize, Vec<usize>> = HashMap::new();
        for group in &mut self.groups {
            let waits: Vec<(usize, usize)> = group
                .classes
                .iter()
                .enumerate()
                .filter(|(_, class)| {
                    matches!(placed[**class].flowop.call, FileCall::Block | FileCall::SemBlock)
                })
                .map(|(local, class)| (local, *class))
                .collect();
            let base = self.semaphores.len();
            for thread in 0..group.count() {
                for (place, (local, class)) in waits.iter().enumerate() {
                    let semaphore = self.semaphores.len();
                    if thread == 0 {
                        group.semaphores.insert(*local, semaphore);
                    }
                    debug_assert_eq!(semaphore, base + thread * waits.len() + place);
                    self.semaphores.push(builder.number(&placed[*class].flowop.high_water));
                    of_class.entry(*class).or_default().push(semaphore);
                }
            }
        }
        let named = |name: &str| -> Vec<usize> {
            (0..placed.len()).filter(|class| placed[*class].flowop.name == name).collect()
        };
        for group in &mut self.groups {
            let own = group.classes.clone();
            for_each(&mut group.steps, &mut |step| {
                let Some(target) = placed[step.class].flowop.target.as_deref() else { return };
                let wanted = match step.call {
                    FileCall::Wakeup => FileCall::Block,
                    FileCall::SemPost => FileCall::SemBlock,
                    _ => {
                        // A flowop of the own thread goes before others of the same name.
                        let all = named(target);
                        let near: Vec<usize> =
                            all.iter().copied().filter(|class| own.contains(class)).collect();
                        step.counted = if near.is_empty() { all } else { near };
                        return;
                    }
                };
                for class in named(target) {
                    if placed[class].flowop.call == wanted {
                        step.targets.extend(of_class.get(&class).into_iter().flatten());
                    }
                }
            });
        }
    }

    /// The semaphore of a flowop that waits, in a thread by its number in the group.
    pub(super) fn semaphore(group: &Group, local: usize, thread: usize) -> Option<usize> {
        group.semaphores.get(&local).map(|first| first + thread * group.semaphores.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iodyno_core::file_program::{Fileset, Process};

    fn flowop(call: FileCall, fd: Option<u32>, fileset: Option<&str>) -> FileFlowop {
        FileFlowop { fd, fileset: fileset.map(str::to_owned), ..FileFlowop::new(call.name(), call) }
    }

    fn program(flowops: Vec<FileFlowop>, instances: u32) -> FileProgram {
        let thread = ProgramThread {
            name: "t".to_owned(),
            instances,
            memory_bytes: Default::default(),
            io_priority: None,
            flowops,
        };
        FileProgram {
            directory: "/d".to_owned(),
            filesets: ["a", "b"]
                .map(|name| Fileset { name: name.to_owned(), entries: 5, ..Fileset::default() })
                .to_vec(),
            processes: vec![Process { name: "p".to_owned(), instances: 2, nice: 0, threads: vec![thread] }],
            ..FileProgram::default()
        }
    }

    #[test]
    fn files_without_a_number_have_a_place_for_each_fileset() {
        let turn = FileFlowop { open_next: true, ..flowop(FileCall::Read, None, Some("a")) };
        let flowops = vec![
            flowop(FileCall::OpenFile, Some(1), Some("a")),
            flowop(FileCall::Read, None, Some("a")),
            flowop(FileCall::Read, None, Some("b")),
            flowop(FileCall::Fsync, None, None),
            turn.clone(),
            turn,
            flowop(FileCall::CloseFile, Some(1), None),
        ];
        let compiled = Compiled::of(&program(flowops, 1));
        let slots: Vec<Slot> = compiled.groups[0].steps.iter().map(|step| step.slot).collect();
        let turn = |rotor| Slot::Turn { first: 3, count: 5, rotor };
        let (one, last) = (Slot::One(0), Slot::Last);
        assert_eq!(slots, [one, Slot::One(1), Slot::One(2), last, turn(0), turn(1), one]);
        assert_eq!((compiled.groups[0].slots, compiled.groups[0].rotors, compiled.threads), (8, 2, 2));
    }

    #[test]
    fn every_thread_waits_at_a_place_of_its_own() {
        let flowops = vec![
            flowop(FileCall::Block, None, None),
            FileFlowop { target: Some("block".to_owned()), ..flowop(FileCall::Wakeup, None, None) },
            flowop(FileCall::SemBlock, None, None),
        ];
        let compiled = Compiled::of(&program(flowops, 3));
        let group = &compiled.groups[0];
        assert_eq!((group.count(), compiled.semaphores.len()), (6, 12));
        assert_eq!(group.steps[1].targets, [0, 2, 4, 6, 8, 10]);
        assert_eq!(Compiled::semaphore(group, 2, 5), Some(11));
        assert_eq!(Compiled::semaphore(group, 1, 0), None);
    }
}
