//! What comes over the wire, with changes: it is taken or refused.

mod mutation;

use std::fs;
use std::path::PathBuf;

use iodyno_core::frame::Decoder;
use iodyno_core::message::{Command, Message};

fn golden(name: &str) -> Vec<u8> {
    fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schema/golden").join(name)).unwrap()
}

fn lines(name: &str) -> Vec<Vec<u8>> {
    golden(name).split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}

#[test]
fn frames() {
    let seeds = [golden("commands.bin"), golden("messages.bin")];
    mutation::try_all("frames, agent", &seeds, |data| {
        let mut decoder = Decoder::new();
        decoder.feed(data);
        while let Ok(Some(_)) = decoder.next_payload() {}
        decoder.finish().is_ok()
    });
}

#[test]
fn commands() {
    mutation::try_all("commands", &lines("commands.jsonl"), |data| match serde_json::from_slice(data) {
        Ok(Command::Prepare { job }) => job.check().is_ok(),
        Ok(_) => true,
        Err(_) => false,
    });
}

#[test]
fn messages() {
    mutation::try_all("messages", &lines("messages.jsonl"), |data| {
        serde_json::from_slice::<Message>(data).is_ok()
    });
}
