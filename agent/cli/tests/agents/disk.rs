//! Storage jobs, as the lab has them carried out.

use crate::agent::{job, Agent};
use iodyno_core::disk::{Disk, Pattern, Target, TargetKind};
use iodyno_core::job::{Job, Load};
use iodyno_core::message::{Command, ErrorCode, JobResult, Message, Record, WireError};
use iodyno_core::network::Role;
use iodyno_core::phase::Window;
use iodyno_core::units::{Bytes, Nanos};

fn disk_job(disk: Disk) -> Job {
    Job { load: Load::Disk(Box::new(disk)), ..job(Role::Send, 0) }
}

fn on_null() -> Disk {
    Disk {
        targets: vec![Target { kind: TargetKind::Null, ..Target::default() }],
        pattern: Pattern::Random,
        read_ratio_ppm: 700_000,
        ..Disk::default()
    }
}

/// Carries one out: its records and its result, or the error.
fn carried_out(agent: &mut Agent, job: Job) -> Result<(Vec<Record>, JobResult), WireError> {
    agent.send(&Command::Prepare { job: Box::new(job) });
    let mut records = Vec::new();
    loop {
        match agent.next().expect("the agent is still there") {
            Message::Ready(ready) => {
                assert_eq!(ready.connections, 0);
                let start_ns = iodyno_sys::clock::monotonic().plus(Nanos(60_000_000));
                agent.send(&Command::Arm { start_ns });
            }
            Message::Record(record) => records.push(*record),
            Message::Result(result) => return Ok((records, *result)),
            Message::Error(error) => return Err(error),
            _ => {}
        }
    }
}

#[test]
fn records_hold_classes_that_add_up_to_the_load() {
    let mut agent = Agent::start(&[]);
    let (records, result) = carried_out(&mut agent, disk_job(on_null())).unwrap();
    assert_eq!(records.len(), result.records as usize);
    for record in &records {
        let names: Vec<&str> = record.classes.iter().map(|class| class.name.as_str()).collect();
        assert_eq!(names, ["read", "write"]);
        // Counters are read while the load is on: one that ends in between may be in one of the two.
        let operations: u64 = record.classes.iter().map(|class| class.operations).sum();
        assert_eq!(operations, record.load.operations);
        let bytes: u64 = record.classes.iter().map(|class| class.bytes.0).sum();
        assert_eq!(bytes, record.load.bytes.0);
    }
    let measured: Vec<&Record> = records.iter().filter(|record| record.window == Window::Measured).collect();
    assert!(measured.len() == 3 && measured.iter().all(|record| record.load.operations > 0));
    let account = result.disk.expect("an account");
    assert_eq!(account.targets[0].read_bytes.0 + account.targets[0].written_bytes.0, result.bytes.0);
    assert!(result.first_operation_ns.is_some() && result.stopped_ns >= result.start_ns);
}

#[test]
fn a_job_ends_with_its_operations() {
    let mut agent = Agent::start(&[]);
    let disk = Disk { operations: Some(1_000), ..on_null() };
    let mut job = disk_job(disk);
    // A bound that only its operations keep it from: a machine may stand still for longer than a short load lasts.
    job.windows.measured_ns = Nanos(30_000_000_000);
    let (records, result) = carried_out(&mut agent, job).unwrap();
    assert_eq!(result.operations, 1_000);
    assert!(result.disk.unwrap().complete);
    assert_eq!(records.iter().map(|record| record.load.operations).sum::<u64>(), 1_000);
    // A rate is that of the time in which there was a load, and not up to when somebody looked.
    let last = records.last().unwrap();
    let before = last.begin_ns.plus(Nanos(1));
    assert_eq!(last.end_ns, if last.load.operations > 0 { result.stopped_ns } else { before });
}

#[test]
fn what_cannot_be_is_one_error_and_the_agent_takes_the_next_job() {
    let mut agent = Agent::start(&[]);
    let missing = Target { path: "/nowhere/at/all".to_owned(), ..Target::default() };
    let error =
        carried_out(&mut agent, disk_job(Disk { targets: vec![missing], ..Disk::default() })).unwrap_err();
    assert_eq!((error.code, error.place.as_str()), (ErrorCode::Target, "/nowhere/at/all"));
    let deep = Disk { queue_depth: 2, ..on_null() };
    assert_eq!(carried_out(&mut agent, disk_job(deep)).unwrap_err().place, "disk.queue_depth");
    let long = Disk { block_bytes: Bytes(2 << 30), ..on_null() };
    assert_eq!(carried_out(&mut agent, disk_job(long)).unwrap_err().code, ErrorCode::Job);
    assert!(carried_out(&mut agent, disk_job(on_null())).is_ok());
}
