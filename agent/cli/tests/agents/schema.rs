//! The files in `schema/` say what the agent's types say.

use std::path::PathBuf;
use std::process::Command;

#[test]
fn the_schema_files_are_those_of_this_agent() {
    let kept = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schema");
    let fresh = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("schema");
    let status = Command::new(env!("CARGO_BIN_EXE_iodyno-agent")).arg("schema").arg(&fresh).status().unwrap();
    assert!(status.success());
    for name in ["command.schema.json", "message.schema.json", "metrics.json"] {
        let (now, then) = (std::fs::read(fresh.join(name)).unwrap(), std::fs::read(kept.join(name)));
        assert!(then.is_ok_and(|then| then == now), "schema/{name} is out of date: run `make schema`");
    }
}
