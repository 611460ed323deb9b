//! What a fileset is to be like: its tree, the sizes of its files, its bytes. Nothing is made here.

use iodyno_core::file_program::{FileProgram, Fileset};
use iodyno_core::file_variable::{Real, Value, ValueLaw, ValueStream, Variable};

use super::tree::{exists_at_first, layout_random, stream_of, Tree};

/// What is to be made, before it is.
pub(super) struct Plan {
    pub tree: Tree,
    pub sizes: Box<[u64]>,
    /// Bytes of the files that are to exist.
    pub bytes: u128,
}

/// The seed of what a fileset is like. One that is used again is alike in every job, whatever else these draw.
pub(super) fn layout_seed(program: &FileProgram, fileset: &Fileset) -> u64 {
    if fileset.reuse {
        0
    } else {
        program.seed
    }
}

/// Values of a number of a fileset for a purpose, one after the other.
fn stream(program: &FileProgram, fileset: &Fileset, value: &Value, purpose: &str) -> Option<ValueStream> {
    let name = value.variable()?;
    let variable = program.variables.iter().find(|variable| variable.name == name)?;
    Some(ValueStream::new(variable, layout_seed(program, fileset), stream_of(purpose)))
}

impl Plan {
    pub fn of(program: &FileProgram, fileset: &Fileset) -> Self {
        let depths = fileset.dir_depth.as_ref().map(|depth| {
            let fixed = |value: u64| {
                let law = ValueLaw::Fixed { value: Real(value as f64) };
                let name = String::new();
                let variable = Variable { name, law, least: None, greatest: None, round: None, seed: None };
                ValueStream::new(&variable, 0, 0)
            };
            match depth {
                Value::Fixed(depth) => fixed(*depth),
                drawn => stream(program, fileset, drawn, &format!("depth of {}", fileset.name))
                    .unwrap_or_else(|| fixed(1)),
            }
        });
        let seed = layout_random(layout_seed(program, fileset), &fileset.name).bits();
        let tree = Tree::of(fileset, seed, depths);
        let mut drawn = stream(program, fileset, &fileset.size_bytes, &format!("size of {}", fileset.name));
        let fixed = if let Value::Fixed(size) = fileset.size_bytes { size } else { 0 };
        let mut draw = || drawn.as_mut().map_or(fixed, ValueStream::draw);
        let sizes: Box<[u64]> = (0..fileset.entries).map(|_| draw()).collect();
        let existing = |number: &usize| exists_at_first(*number as u64, fileset.prealloc_percent);
        let bytes = (0..sizes.len()).filter(existing).map(|number| u128::from(sizes[number])).sum();
        Plan { tree, sizes, bytes }
    }
}
