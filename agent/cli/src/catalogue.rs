//! The schemas of the wire and the list of metrics, written from the agent's own types: the lab, the
//! reference pages and the tests of both languages read these files.

use std::fs;
use std::io;
use std::path::Path;

use iodyno_core::message::{Command, Message};
use schemars::schema_for;
use serde_json::{json, Value};

use crate::{arrivals, parts, tallies, targets};

/// Writes `command.schema.json`, `message.schema.json` and `metrics.json` into `folder`.
pub fn write(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    write_json(&folder.join("command.schema.json"), &schema_for!(Command).to_value())?;
    write_json(&folder.join("message.schema.json"), &schema_for!(Message).to_value())?;
    write_json(&folder.join("metrics.json"), &metrics())
}

fn metrics() -> Value {
    let sensors: Vec<Value> = iodyno_sense::catalogue()
        .into_iter()
        .chain([(arrivals::NAME, &arrivals::METRICS[..]), (targets::NAME, &targets::METRICS[..])])
        .chain(tallies::catalogue())
        .chain([(parts::NAME, &parts::METRICS[..])])
        .map(|(sensor, metrics)| json!({ "sensor": sensor, "metrics": metrics }))
        .collect();
    json!({ "sensors": sensors })
}

fn write_json(path: &Path, value: &Value) -> io::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    fs::write(path, text + "\n")
}
