//! What is in the way of jobs is said without carrying them out.

use std::io::Write;
use std::process::{Command, Stdio};

use iodyno_core::disk::{Disk, Pattern, Region, Target, TargetKind, Verify};
use iodyno_core::job::{Job, Load};
use iodyno_core::message::{ErrorCode, WireError};
use iodyno_core::network::{Engine, RequestResponse, Role, Syscalls, Traffic, Transport};
use iodyno_core::units::Bytes;

use crate::agent::{job, network};

fn check(lines: &[String]) -> Vec<Option<WireError>> {
    let mut agent = Command::new(env!("CARGO_BIN_EXE_iodyno-agent"))
        .args(["check", "--elsewhere"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    agent.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
    let output = agent.wait_with_output().unwrap();
    assert!(output.status.success());
    output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(read).collect()
}

fn read(line: &[u8]) -> Option<WireError> {
    serde_json::from_slice(line).unwrap()
}

fn with(change: impl FnOnce(&mut Job)) -> String {
    let mut job = job(Role::Send, 5201);
    change(&mut job);
    serde_json::to_string(&job).unwrap()
}

#[test]
fn every_job_has_an_answer_that_names_the_key_in_the_way() {
    let said = check(&[
        with(|_| {}),
        with(|job| network(job).syscalls = Syscalls::Segments),
        with(|job| {
            network(job).transport = Transport::Vsock;
            network(job).engine = Engine::IoUring;
        }),
        with(|job| network(job).connections = 0),
        with(|job| {
            let response_bytes = Bytes(100);
            let asking = RequestResponse { multiplexed: true, response_bytes, ..RequestResponse::default() };
            network(job).traffic = Traffic::RequestResponse(asking);
            network(job).transport = Transport::Udp;
            network(job).engine = Engine::Epoll;
        }),
        "{}".to_owned(),
    ]);
    let places: Vec<Option<&str>> =
        said.iter().map(|error| error.as_ref().map(|error| error.place.as_str())).collect();
    assert_eq!(places, [None, Some("syscalls"), None, Some("connections"), Some("multiplexed"), Some("job")]);
    let refused = said[1].as_ref().unwrap();
    assert_eq!(refused.code, ErrorCode::Unsupported);
    assert!(refused.trial.is_some() && refused.advice.contains("read_write"), "{refused:?}");
}

#[test]
fn a_disk_job_that_cannot_fit_its_target_is_refused_and_the_target_is_not_touched() {
    const GIB: u64 = 1 << 30;
    let on = |size: Option<u64>, change: fn(&mut Disk)| {
        let target =
            Target { kind: TargetKind::File, path: "/nowhere/at/all".to_owned(), ..Target::default() };
        let mut disk = Disk {
            targets: vec![Target { size_bytes: size.map(Bytes), ..target }],
            read_ratio_ppm: 0,
            ..Disk::default()
        };
        change(&mut disk);
        with(|job| job.load = Load::Disk(Box::new(disk)))
    };
    let many: fn(&mut Disk) = |disk| (disk.pattern, disk.workers) = (Pattern::Sequential, 64);
    let region: fn(&mut Disk) =
        |disk| disk.region = Some(Region { offset_bytes: Bytes(GIB), length_bytes: Bytes(4096) });
    let said = check(&[
        on(Some(GIB), |_| {}),
        on(Some(64 * 4096), many),
        on(Some(63 * 4096), many),
        on(None, many),
        on(Some(4095), |_| {}),
        on(Some(GIB), region),
        on(None, region),
        on(Some(64 * GIB), |disk| disk.verify = Verify::Write),
        on(Some(65 * GIB), |disk| disk.verify = Verify::Write),
        on(Some(65 * GIB), |disk| disk.verify = Verify::None),
        on(Some(8192), |disk| disk.pattern = Pattern::Append),
    ]);
    let places: Vec<Option<&str>> =
        said.iter().map(|error| error.as_ref().map(|error| error.place.as_str())).collect();
    let (region, verify) = (Some("disk.region"), Some("disk.verify"));
    assert_eq!(
        places,
        [None, None, region, None, region, region, None, None, verify, None, None],
        "{said:?}"
    );
}
