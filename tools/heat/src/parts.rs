//! The grid of many traces in parts, each in a process of its own, on any machine that can read the trace.
//!
//! [`survey`] and [`count`] each trace; [`frame`] and [`join`] once. Each step has all traces named and looks at their
//! beginnings, so that each decides alike what is wanted. Parts are joined as threads are, so that the grid is that of
//! [`reduce`](crate::reduce::reduce).

use std::io;

use serde::{Deserialize, Serialize};

use crate::counts::{self, Counts};
use crate::event::Place;
use crate::failure::{Failure, Mistake};
use crate::frame::{self, Frame};
use crate::pass::{Pass, Progress, Told};
use crate::reduce::{
    counting_threads, parsers, reduced, said, stop_if_asked, strict, with_unreadable, Opened, Reduced,
    Request, Task,
};
use crate::source::Source;
use crate::survey::{self, Survey};

/// Bits of a place that are its line; those above are the number of its trace. Chosen: a million million lines.
const LINE_BITS: u32 = 40;

/// What a trace holds.
#[derive(Serialize, Deserialize)]
pub struct Surveyed {
    survey: survey::Flat,
    told: Told,
}

/// Columns and rows for all traces.
#[derive(Serialize, Deserialize)]
pub struct Framed {
    frame: Frame,
    told: Told,
}

/// Counts of a trace.
#[derive(Serialize, Deserialize)]
pub struct Counted {
    counts: counts::Flat,
    unreadable: u64,
}

/// Surveys trace number `at`.
///
/// # Errors
/// [`Mistake`]s of traces and options; what the machine refuses.
pub fn survey(
    sources: Vec<Source>,
    request: &Request,
    at: usize,
    progress: &Progress,
) -> Result<Surveyed, Failure> {
    let task = task(sources, request)?;
    let trace = trace(&task, at)?;
    let mut pass = Pass::new(request.threads, request.strict, progress);
    let mut survey = Survey::default();
    let parser = parsers(trace, request, &task.wanted)?;
    pass.read(&trace.source, trace.form, &parser, None, &mut survey)?;
    stop_if_asked(progress)?;
    let told = pass.tally.told();
    strict(&told, request, &task.names[at..=at])?;
    Ok(Surveyed { survey: survey.flat(|place| pass.tally.line_of(place).1), told })
}

/// Chooses columns and rows from the surveys of all traces, in their order.
///
/// # Errors
/// [`Mistake`]s of traces and options; a survey that cannot be read.
pub fn frame(
    sources: Vec<Source>,
    request: &Request,
    surveys: impl Iterator<Item = io::Result<Surveyed>>,
) -> Result<Framed, Failure> {
    let task = task(sources, request)?;
    let (mut survey, mut told) = (Survey::default(), Told::default());
    for (at, part) in surveys.enumerate() {
        let part = part?;
        survey.join_flat(part.survey, |line| (at as u64) << LINE_BITS | line);
        told.join(part.told, at);
    }
    let line_of =
        |place: Place| said(((place >> LINE_BITS) as usize, place & ((1 << LINE_BITS) - 1)), &task.names);
    let frame = frame::choose(&task.asked, &survey, task.unit, &line_of)
        .map_err(|mistake| with_unreadable(mistake, &told, &task.names).at(task.names.join(", ")))?;
    Ok(Framed { frame, told })
}

/// Counts trace number `at`.
///
/// # Errors
/// [`Mistake`]s of traces and options; what the machine refuses.
pub fn count(
    sources: Vec<Source>,
    request: &Request,
    framed: &Framed,
    at: usize,
    progress: &Progress,
) -> Result<Counted, Failure> {
    let task = task(sources, request)?;
    let trace = trace(&task, at)?;
    let mut pass = Pass::new(counting_threads(&framed.frame, request), false, progress);
    let mut counts = Counts::new(&framed.frame);
    let parser = parsers(trace, request, &task.wanted)?;
    pass.read(&trace.source, trace.form, &parser, None, &mut counts)?;
    stop_if_asked(progress)?;
    Ok(Counted { counts: counts.flat(), unreadable: pass.tally.unreadable })
}

/// Joins the counts of all traces.
///
/// # Errors
/// [`Mistake`]s of traces; one that changed meanwhile; counts that cannot be read.
pub fn join(
    sources: Vec<Source>,
    request: &Request,
    framed: Framed,
    counted: impl Iterator<Item = io::Result<Counted>>,
) -> Result<Reduced, Failure> {
    let task = task(sources, request)?;
    let (mut counts, mut unreadable) = (Counts::new(&framed.frame), 0);
    for part in counted {
        let part = part?;
        counts.join_flat(&part.counts);
        unreadable += part.unreadable;
    }
    if unreadable != framed.told.unreadable {
        return Err(Mistake::new("a trace changed while it was read", "wait until they are written")
            .at(task.names.join(", "))
            .into());
    }
    let Task { names, opened, wanted, unit, .. } = task;
    Ok(reduced(&opened, &wanted, unit, framed.frame, counts, &framed.told, &names))
}

/// The traces, where each can be read by itself.
fn task(sources: Vec<Source>, request: &Request) -> Result<Task, Mistake> {
    let task = Task::new(sources, request)?;
    if task.wanted.quantity.is_derived() {
        return Err(Mistake::new(
            format!("a {} follows from all traces together, in no parts", task.wanted.quantity.name()),
            "leave --cluster out",
        ));
    }
    match task.opened.iter().find(|trace| !trace.source.is_file()) {
        None => Ok(task),
        Some(pipe) => Err(Mistake::new(
            "a pipe is read once, by one machine",
            "files that all workers can read, or leave --cluster out",
        )
        .at(&pipe.source.name)),
    }
}

fn trace(task: &Task, at: usize) -> Result<&Opened, Mistake> {
    task.opened.get(at).ok_or_else(|| Mistake::new(format!("there is no trace {at}"), "a number from 0"))
}
