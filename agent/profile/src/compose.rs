//! From stacks of addresses to stacks of functions, as the lab gets them.

use std::collections::HashMap;

use iodyno_core::profile::{Function, Mode, Owner, Stack};

use crate::fold::Head;
use crate::records::Context;
use crate::symbols::{Place, Space, UNKNOWN};

/// Room for functions and stacks in a message. chosen: three quarters of what a frame may hold
/// (`iodyno_core::frame::MAX_PAYLOAD_BYTES`), because lengths are estimated.
pub(crate) const ROOM_BYTES: usize = 12 << 20;
/// The function of stacks that did not fit.
pub(crate) const DROPPED: &str = "[dropped]";

/// Functions of the idle task: it is the idle task because they called what ran. In a name space, processes
/// outside of it have the number 0 too.
const IDLE: [&str; 3] = ["do_idle", "cpu_startup_entry", "cpuidle_idle_call"];
/// Where interrupts begin, on x86 and ARM, from Linux 4.18 on.
const INTERRUPTS: [&str; 14] = [
    "handle_softirqs",
    "__do_softirq",
    "do_softirq",
    "irq_exit",
    "irq_exit_rcu",
    "__irq_exit_rcu",
    "common_interrupt",
    "asm_common_interrupt",
    "do_IRQ",
    "ret_from_intr",
    "apic_timer_interrupt",
    "el1_irq",
    "el1h_64_irq",
    "gic_handle_irq",
];

/// The places of a chain of callers, what ran last first.
pub(crate) fn places(head: Head, chain: &[u64]) -> impl Iterator<Item = Place> + '_ {
    let user = Space::User(head.process);
    let mut space = if head.mode == Mode::User { user } else { Space::Kernel };
    let mut returns = false;
    chain.iter().filter_map(move |&word| match Context::begun_by(word) {
        Some(context) => {
            space = match context {
                Context::Kernel => Space::Kernel,
                Context::User => user,
                Context::Foreign => Space::Foreign,
            };
            returns = false;
            None
        }
        // A caller's address is where it goes on: the call before it may be the last thing in its function.
        None => Some((space, word.saturating_sub(u64::from(std::mem::replace(&mut returns, true))))),
    })
}

/// What the lab gets of the samples.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Composed {
    pub functions: Vec<Function>,
    /// The most frequent first.
    pub stacks: Vec<Stack>,
    pub idle_samples: u64,
    /// Samples whose stacks were merged into one because the message would have been too long.
    pub dropped_samples: u64,
}

/// Names the stacks by `name` and merges those that have become equal. `own`: the processes of the load; `hidden`: the
/// kernel's functions have no names, so that any sample of process 0 is taken for an idle one.
pub(crate) fn compose<'fold>(
    stacks: impl Iterator<Item = (Head, &'fold [u64], u64)>,
    name: impl Fn(Place) -> Function,
    own: &[u32],
    hidden: bool,
    room_bytes: usize,
) -> Composed {
    let mut composed = Composed::default();
    let mut numbers: HashMap<Function, u32> = HashMap::new();
    let mut counts: HashMap<(Owner, Mode, Vec<u32>), u64> = HashMap::new();
    for (head, chain, count) in stacks {
        let mut functions: Vec<Function> = places(head, chain).map(&name).collect();
        // Where names are missing, how many frames there are says nothing, and keeps stacks apart.
        functions.dedup_by(|next, before| next.name == UNKNOWN && next == before);
        functions.reverse();
        match owner(head, &functions, own, hidden) {
            None => composed.idle_samples += count,
            Some(owner) => {
                let mut number = |function| {
                    let next = numbers.len() as u32;
                    *numbers.entry(function).or_insert(next)
                };
                let frames = functions.into_iter().map(&mut number).collect();
                *counts.entry((owner, head.mode, frames)).or_default() += count;
            }
        }
    }
    composed.stacks = counts
        .into_iter()
        .map(|((owner, mode, frames), count)| Stack { owner, mode, frames, count })
        .collect();
    composed
        .stacks
        .sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.frames.cmp(&other.frames)));
    let mut functions: Vec<(u32, Function)> =
        numbers.into_iter().map(|(function, number)| (number, function)).collect();
    functions.sort_unstable_by_key(|(number, _)| *number);
    composed.functions = functions.into_iter().map(|(_, function)| function).collect();
    composed.fit(room_bytes);
    composed
}

/// Whose sample it is; `None`: nobody's, the CPU was idle.
fn owner(head: Head, functions: &[Function], own: &[u32], hidden: bool) -> Option<Owner> {
    let any = |names: &[&str]| functions.iter().any(|function| names.contains(&function.name.as_str()));
    let interrupt =
        || any(&INTERRUPTS) || functions.iter().any(|function| function.name.starts_with("asm_sysvec_"));
    match head {
        Head { process, .. } if own.contains(&process) => Some(Owner::App),
        Head { process: 0, mode: Mode::Kernel } if hidden => None,
        Head { process: 0, mode: Mode::Kernel } if any(&IDLE) => interrupt().then_some(Owner::Idle),
        _ => Some(Owner::Other),
    }
}

impl Composed {
    /// Merges the rarest stacks of each owner and mode into one, so that no more than `room_bytes` are needed.
    fn fit(&mut self, room_bytes: usize) {
        // Lengths in JSON, rounded up: of a function with its two keys, of a stack with its four, of a number.
        let function_bytes = |function: &Function| 32 + function.name.len() + function.module.len();
        let mut seen = vec![false; self.functions.len()];
        let mut needed = 0;
        let fits = self.stacks.iter().take_while(|stack| {
            needed += 80 + 9 * stack.frames.len();
            for &number in &stack.frames {
                if !std::mem::replace(&mut seen[number as usize], true) {
                    needed += function_bytes(&self.functions[number as usize]);
                }
            }
            needed <= room_bytes
        });
        let kept = fits.count();
        if kept == self.stacks.len() {
            return;
        }
        let mut merged: HashMap<(Owner, Mode), u64> = HashMap::new();
        for stack in self.stacks.drain(kept..) {
            *merged.entry((stack.owner, stack.mode)).or_default() += stack.count;
        }
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        let mut functions = Vec::new();
        for number in self.stacks.iter_mut().flat_map(|stack| &mut stack.frames) {
            *number = *numbers.entry(*number).or_insert_with(|| {
                functions.push(self.functions[*number as usize].clone());
                functions.len() as u32 - 1
            });
        }
        let dropped = vec![functions.len() as u32];
        functions.push(Function { name: DROPPED.to_owned(), module: DROPPED.to_owned() });
        self.functions = functions;
        self.dropped_samples = merged.values().sum();
        self.stacks.extend(merged.into_iter().map(|((owner, mode), count)| Stack {
            owner,
            mode,
            frames: dropped.clone(),
            count,
        }));
        self.stacks
            .sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.frames.cmp(&other.frames)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const IN_KERNEL: u64 = -128i64 as u64;
    const IN_USER: u64 = -512i64 as u64;
    const OWN: u32 = 4711;

    fn head(process: u32, mode: Mode) -> Head {
        Head { process, mode }
    }

    /// Names addresses by their hundreds, so that several addresses lie in one function.
    fn name((space, address): Place) -> Function {
        let kernel = ["tcp_sendmsg", "do_idle", "handle_softirqs", "default_idle", "__schedule"];
        let (name, module) = match space {
            Space::Kernel => (kernel[(address / 100) as usize % kernel.len()].to_owned(), "kernel"),
            Space::User(_) if address >= 9000 => (UNKNOWN.to_owned(), "[anonymous]"),
            Space::User(_) => (format!("f{}", address / 100), "prog"),
            Space::Foreign => (UNKNOWN.to_owned(), UNKNOWN),
        };
        Function { name, module: module.to_owned() }
    }

    fn composed(stacks: &[(Head, Vec<u64>, u64)], hidden: bool, room: usize) -> Composed {
        let stacks = stacks.iter().map(|(head, chain, count)| (*head, chain.as_slice(), *count));
        compose(stacks, name, &[OWN], hidden, room)
    }

    fn names(composed: &Composed, stack: usize) -> Vec<&str> {
        let frames = composed.stacks[stack].frames.iter();
        frames.map(|frame| composed.functions[*frame as usize].name.as_str()).collect()
    }

    #[test]
    fn a_chain_becomes_functions_from_the_outermost_to_the_last() {
        let kernel = head(OWN, Mode::Kernel);
        let stacks = [
            (kernel, vec![IN_KERNEL, 7, 401, IN_USER, 150, 301], 3),
            // Other addresses of the same functions; 400 is where `f3` goes on after its last instruction.
            (kernel, vec![IN_KERNEL, 9, 410, IN_USER, 160, 400], 4),
            (head(5, Mode::User), vec![250], 1),
        ];
        let composed = composed(&stacks, false, ROOM_BYTES);
        assert_eq!(names(&composed, 0), ["f3", "f1", "__schedule", "tcp_sendmsg"]);
        let told: Vec<_> =
            composed.stacks.iter().map(|stack| (stack.owner, stack.mode, stack.count)).collect();
        assert_eq!(told, [(Owner::App, Mode::Kernel, 7), (Owner::Other, Mode::User, 1)]);
        assert_eq!((composed.idle_samples, composed.dropped_samples), (0, 0));
    }

    #[test]
    fn an_idle_cpu_is_idle_unless_an_interrupt_runs_on_it() {
        let idle = head(0, Mode::Kernel);
        let stacks = [
            (idle, vec![IN_KERNEL, 300, 101], 50),
            (idle, vec![IN_KERNEL, 1, 201, 301, 101], 6),
            // Not the idle task: a process of another name space.
            (idle, vec![IN_KERNEL, 1, 401], 5),
            (head(0, Mode::User), vec![IN_USER, 100], 4),
        ];
        let told = composed(&stacks, false, ROOM_BYTES);
        let owners: Vec<_> = told.stacks.iter().map(|stack| (stack.owner, stack.count)).collect();
        assert_eq!(owners, [(Owner::Idle, 6), (Owner::Other, 5), (Owner::Other, 4)]);
        assert_eq!(told.idle_samples, 50);
        // Without names nothing of it can be told apart.
        assert_eq!(composed(&stacks, true, ROOM_BYTES).idle_samples, 61);
    }

    #[test]
    fn frames_without_a_name_count_once() {
        let user = head(5, Mode::User);
        let composed = composed(
            &[(user, vec![9001, 9002, 101, 9003], 1), (user, vec![9007, 110, 9004, 9005, 9006], 1)],
            false,
            ROOM_BYTES,
        );
        assert_eq!(names(&composed, 0), [UNKNOWN, "f1", UNKNOWN]);
        assert_eq!(composed.stacks.len(), 1);
    }

    #[test]
    fn what_does_not_fit_is_one_stack_of_its_owner_and_mode() {
        let deep = |base: u64| (0..50).map(|depth| base + depth * 100).collect::<Vec<_>>();
        let stacks = [
            (head(OWN, Mode::User), vec![100], 90),
            (head(OWN, Mode::User), deep(0), 5),
            (head(OWN, Mode::User), deep(100), 4),
            (head(6, Mode::User), deep(0), 3),
        ];
        let composed = composed(&stacks, false, 400);
        assert_eq!(composed.dropped_samples, 12);
        let told: Vec<_> = composed.stacks.iter().map(|stack| (stack.owner, stack.count)).collect();
        assert_eq!(told, [(Owner::App, 90), (Owner::App, 9), (Owner::Other, 3)]);
        assert_eq!(names(&composed, 1), [DROPPED]);
        assert_eq!(composed.functions.len(), 2);
    }

    proptest! {
        #[test]
        fn no_sample_is_lost_and_the_message_has_room(
            stacks in proptest::collection::vec(
                (0u32..3, any::<bool>(), proptest::collection::vec(0u64..9999, 0..30), 1u64..9), 0..40),
            room in 0usize..8000,
        ) {
            let stacks: Vec<_> = stacks.into_iter().map(|(process, user, chain, count)| {
                (head(process, if user { Mode::User } else { Mode::Kernel }), chain, count)
            }).collect();
            let composed = composed(&stacks, false, room);
            let samples: u64 = composed.stacks.iter().map(|stack| stack.count).sum();
            prop_assert_eq!(samples + composed.idle_samples, stacks.iter().map(|(_, _, count)| count).sum::<u64>());
            let frames = composed.stacks.iter().flat_map(|stack| &stack.frames);
            prop_assert!(frames.clone().all(|frame| (*frame as usize) < composed.functions.len()));
            let functions = serde_json::to_vec(&composed.functions).unwrap();
            let written = serde_json::to_vec(&composed.stacks).unwrap();
            // Beside what was kept there are six stacks at most that say what was dropped.
            prop_assert!(functions.len() + written.len() <= room + 1000);
        }
    }
}
