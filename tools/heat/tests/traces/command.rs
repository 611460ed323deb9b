//! Traces at the command line: the grid, the lines of a region, and what is said of a trace that cannot be read.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{json, Value};

const HEAT: &str = env!("CARGO_BIN_EXE_iodyno-heat");
/// Seconds and microseconds.
const TRACE: &str = "0.5 100\n1.2 300\n1.3 9000\n2.9 120\n3.1 8000\n";

/// What comes of a trace on stdin, which may be a file.
fn reduced(trace: impl Into<Stdio>, bytes: &[u8], options: &[&str]) -> Output {
    let mut process = Command::new(HEAT)
        .args(["--time-unit=s", "--value-unit=us"])
        .args(options)
        .stdin(trace)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    if let Some(mut stdin) = process.stdin.take() {
        // One that has refused its options reads nothing.
        let _ = stdin.write_all(bytes);
    }
    process.wait_with_output().unwrap()
}

fn piped(bytes: &[u8], options: &[&str]) -> Output {
    reduced(Stdio::piped(), bytes, options)
}

/// Exit code and both streams.
fn told(ran: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (ran.status.code().unwrap(), text(&ran.stdout), text(&ran.stderr))
}

#[test]
fn a_trace_becomes_a_grid_of_what_was_asked_for() {
    let options = ["--column=1", "--rows=2", "--min=0", "--max=10ms", "--to=2.5", "--progress"];
    let (code, said, errors) = told(&piped(TRACE.as_bytes(), &options));
    assert_eq!(code, 0, "{errors}");
    let grid: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(grid["edges"], json!([0.0, 5e6, 10e6]));
    // (column, row, count); the last event is 2.6 s after the first.
    assert_eq!(grid["cells"], json!([[0, 0, 2], [0, 1, 1], [2, 0, 1]]));
    assert_eq!((&grid["events"], &grid["outside"], &grid["unit"]), (&json!(5), &json!(1), &json!("ns")));
}

#[test]
fn the_lines_of_a_region_are_printed_as_they_stand() {
    let with_mistake = format!("{TRACE}no line\n");
    for (options, lines, left) in [
        (&["--outliers=250us"][..], "1.2 300\n1.3 9000\n3.1 8000\n", "1 lines could not be read\n"),
        (&["--outliers=250us:8ms"], "1.2 300\n3.1 8000\n", "1 lines could not be read\n"),
        (
            &["--outliers=250", "--limit=1"],
            "1.2 300\n",
            "2 further lines lie in the region; 1 lines could not be read\n",
        ),
        (&["--outliers=:120us", "--from=@2"], "2.9 120\n", "1 lines could not be read\n"),
        (&["--outliers=0", "--from=@1.2", "--to=@1.3"], "1.2 300\n", "1 lines could not be read\n"),
    ] {
        let found = told(&piped(with_mistake.as_bytes(), options));
        assert_eq!(found, (0, lines.to_owned(), left.to_owned()), "{options:?}");
    }
}

#[test]
fn a_region_may_begin_after_the_first_event_of_a_file_alone() {
    let path = std::env::temp_dir().join(format!("iodyno-region-{}", std::process::id()));
    std::fs::write(&path, TRACE).unwrap();
    let name = path.to_str().unwrap();
    let options = ["--outliers=0", "--from=0.8", "--to=2.6"];
    let found = told(&reduced(Stdio::null(), b"", &[&options[..], &[name]].concat()));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(found, (0, "1.3 9000\n2.9 120\n".to_owned(), String::new()));
    let (code, said, errors) = told(&piped(TRACE.as_bytes(), &options));
    assert_eq!((code, said.as_str()), (2, ""));
    assert!(errors.contains("a file instead of a pipe"), "{errors}");
}

#[test]
fn what_cannot_be_reduced_is_one_error_with_its_place() {
    let no_file = ["/no/such/trace"];
    for (options, place, what) in [
        (&["--outliers=x"][..], "--outliers", "no unit"),
        (&["--outliers=1", "--quantity=queue-depth"], "", "no line of the trace has a queue-depth"),
        (&no_file, "/no/such/trace", "No such file"),
        (&["-", "-"], "-", "read once"),
    ] {
        let (code, said, errors) = told(&piped(TRACE.as_bytes(), options));
        assert_eq!((code, said.as_str()), (2, ""), "{options:?}");
        assert!(errors.starts_with("iodyno-heat: error: ") && errors.contains("\n  try: "), "{errors}");
        let (_, _, errors) = told(&piped(TRACE.as_bytes(), &[options, &["--errors-as-json"]].concat()));
        let error: Value = serde_json::from_str(&errors).unwrap();
        assert_eq!(error["where"], place);
        assert!(error["what"].as_str().unwrap().contains(what), "{error}");
    }
    for option in ["--column=0", "--rows=0", "--quantity=x", "--max-quantile=0", "--from=x"] {
        let (code, _, errors) = told(&piped(b"", &[option]));
        let name = option.split('=').next().unwrap();
        assert!(code == 2 && errors.contains(&format!("for '{name}")), "{errors}");
    }
}

#[test]
fn of_a_trace_that_breaks_off_what_can_be_read_is_printed() {
    // A deflate block that holds its bytes as they are, of which the last are missing (RFC 1951, 3.2.4).
    let length = (TRACE.len() + 10) as u16;
    let header = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1];
    let bytes = [&header[..], &length.to_le_bytes(), &(!length).to_le_bytes(), TRACE.as_bytes()].concat();
    let (code, said, errors) = told(&piped(&bytes, &[]));
    assert_eq!(code, 65, "{errors}");
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap()["events"], 5);
    assert!(errors.contains("5 events before that were read"), "{errors}");
    assert_eq!(told(&piped(&bytes, &["--truncated"])).0, 0);
}

#[test]
fn traces_in_parts_make_the_grid_of_all_of_them() {
    let folder = std::env::temp_dir().join(format!("iodyno-parts-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    // Others of another form, in no order, with what cannot be read, values at the edges of buckets and one event alone.
    let first: String = (0..9000).map(|i| format!("{}.{:03} {}\n", i / 300, i % 300, i % 977)).collect();
    let traces = [
        ("a", format!("{first}no line\n")),
        ("b", "time,latency\n40,5.1\n-3,5.2\n7,no number\n".to_owned()),
        ("c", "2 123456.789\n".to_owned()),
    ];
    let names = traces.map(|(name, text)| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let step = |step: &str, number: usize, given: &str, options: &[&str]| {
        let own = [format!("--step={step}"), format!("--trace={number}")];
        let words = [&[own[0].as_str(), own[1].as_str()], options, &names[..]].concat();
        told(&piped(given.as_bytes(), &words))
    };
    let each = |name: &str, given: &str, options: &[&str]| -> String {
        (0..names.len()).map(|number| step(name, number, given, options).1).collect()
    };
    for options in [
        &[][..],
        &["--scale=log", "--rows=7"],
        &["--from=1", "--to=20", "--max=1ms"],
        &["--sub-second"],
        &["--strict"],
        &["--column=1us"],
        &["--quantity=latency", "--operation=read"],
    ] {
        let whole = told(&reduced(Stdio::null(), b"", &[options, &names[..]].concat()));
        let surveys = each("survey", "", options);
        let framed = step("frame", 0, &surveys, options);
        let joined = match framed.0 {
            0 => {
                let counts = each("count", &framed.1, options);
                step("join", 0, &(framed.1 + &counts), options)
            }
            _ => framed,
        };
        if options.contains(&"--strict") {
            assert_eq!(step("survey", 0, "", options), whole);
        } else {
            assert_eq!(joined, whole, "{options:?}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
