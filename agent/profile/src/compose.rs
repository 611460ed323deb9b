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

/// Names the stacks by `name` and merges those that have become equal. `own` is this process; `hidden`: the
/// kernel's functions have no names, so that any sample of process 0 is taken for an idle one.
pub(crate) fn compose<'fold>(
    stacks: impl Iterator<Item = (Head, &'fold [u64], u64)>,
    name: impl Fn(Place) -> Function,
    own: u32,
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
fn owner(head: Head, functions: &[Function], own: u32, hidden: bool) -> Option<Owner> {
    let any = |names: &[&str]| functions.iter().any(|function| names.contains(&function.name.as_str()));
    let interrupt =
        || any(&INTERRUPTS) || functions.iter().any(|function| function.name.starts_with("asm_sysvec_"));
    match head {
        Head { process, .. } if process == own => Some(Owner::App),
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
