//! One example of every command and message, as files that both languages test against.
//!
//! `schema/golden/commands.jsonl` and `messages.jsonl` hold one message a line; `commands.bin` and
//! `messages.bin` hold the same as frames. To write them anew after a change of the wire:
//! `IODYNO_UPDATE=1 cargo test -p iodyno-core --test golden`, and add a line to `schema/VERSIONS.md`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use iodyno_core::arrivals::{Arrivals, Law, Sizes};
use iodyno_core::disk::{
    ClassCounts, Disk, DiskAccount, DiskFailure, DiskSyscalls, Pattern, Target, TargetAccount, TargetKind,
    Zone,
};
use iodyno_core::file_account::{FileAccount, FileEnd, FilesetAccount, FlowopAccount};
use iodyno_core::file_program::{FileCall, FileFlowop, FileProgram, Fileset, Process, ProgramThread};
use iodyno_core::file_variable::{Real, Value as SizeValue, ValueLaw, Variable};
use iodyno_core::frame::{encode, Decoder};
use iodyno_core::histogram::Histogram;
use iodyno_core::job::{CpuQuotaObtained, Job, Load};
use iodyno_core::message::{
    Capability, ClockFacts, Command, ErrorCode, Hello, HostFacts, JobResult, LoadCounts, Message, NumaNode,
    Progress, Ready, Record, WireError, WIRE_VERSION,
};
use iodyno_core::metric::{Reading, Value};
use iodyno_core::network::{
    Application, Engine, Network, Ring, Role, SocketNumber, SocketOptions, SocketOptionsObtained, Stream,
    Syscalls, Traffic, TrafficKind, Transport,
};
use iodyno_core::phase::{Window, Windows};
use iodyno_core::profile::{Function, Mode, Owner, Profile, Stack};
use iodyno_core::script::Script;
use iodyno_core::scripted::Scripted;
use iodyno_core::units::{Bytes, Nanos};
use serde::de::DeserializeOwned;
use serde::Serialize;

fn job_of(load: Load) -> Job {
    Job {
        trial: "00012-1".to_owned(),
        token: "000102030405060708090a0b0c0d0e0f".to_owned(),
        load,
        ..Job::default()
    }
}

fn network() -> Network {
    let application = Application { think_ns: Nanos(1_000_000), ..Application::default() };
    Network {
        role: Role::Send,
        traffic: Traffic::Stream(Stream { application, ..Stream::default() }),
        transport: Transport::Tcp,
        engine: Engine::Threads,
        syscalls: Syscalls::Batch,
        batch: 64,
        ring: Some(Ring {
            version: 3,
            block_packets: 32,
            block_timeout_ns: Nanos(10_000_000),
            adaptive: false,
        }),
        connections: 100,
        message_bytes: Bytes(65_536),
        message_sizes: Some(Sizes::Uniform { least_bytes: Bytes(64), greatest_bytes: Bytes(65_536) }),
        arrivals: Some(Arrivals {
            law: Law::OnOff { on_ns: Nanos(10_000_000), off_ns: Nanos(90_000_000) },
            operations: 20_000,
            period_ns: Nanos(1_000_000_000),
            per_connection: false,
            seed: 7,
        }),
        address: Some("10.0.0.2:5201".to_owned()),
        socket: SocketOptions {
            send_buffer_bytes: Some(Bytes(262_144)),
            receive_buffer_bytes: None,
            nagle: Some(true),
            congestion_control: Some("cubic".to_owned()),
            busy_poll_ns: None,
            receive_low_water_bytes: None,
            numbers: BTreeMap::from([(SocketNumber::Mss, 1400)]),
        },
        ..Network::default()
    }
}

fn stream_job() -> Job {
    Job {
        windows: Windows {
            warm_up_ns: Nanos(1_000_000_000),
            measured_ns: Nanos(10_000_000_000),
            drain_ns: Nanos(100_000_000),
            interval_ns: Nanos(1_000_000_000),
        },
        cpus: vec![0],
        sensors: Some(vec!["cpu_times".to_owned()]),
        cpu_quota_percent: Some(50),
        profile_hz: 997,
        ..job_of(Load::Network(Box::new(network())))
    }
}

fn exchange_job(traffic: Traffic) -> Job {
    let network = Network {
        traffic,
        address: Some("10.0.0.2:5201".to_owned()),
        remote_addresses: vec!["10.0.0.3:5201".to_owned()],
        first_connection: 4,
        ..Network::default()
    };
    job_of(Load::Network(Box::new(network)))
}

fn script_job() -> Job {
    job_of(Load::Script(Scripted {
        role: Role::Send,
        address: Some("10.0.0.2:5201".to_owned()),
        remote_addresses: vec!["10.0.0.3:5201".to_owned()],
        response_timeout_ns: Nanos(100_000_000),
        script: Script::default(),
    }))
}

fn disk_job() -> Job {
    job_of(Load::Disk(Box::new(Disk {
        targets: vec![Target {
            path: "/var/tmp/target".to_owned(),
            kind: TargetKind::File,
            size_bytes: Some(Bytes(1 << 30)),
            create: false,
        }],
        pattern: Pattern::Zones,
        zones: vec![
            Zone { share_of_space_ppm: 100_000, share_of_operations_ppm: 900_000 },
            Zone { share_of_space_ppm: 900_000, share_of_operations_ppm: 100_000 },
        ],
        read_ratio_ppm: 700_000,
        queue_depth: 16,
        workers: 2,
        syscalls: DiskSyscalls::IoUring,
        direct: true,
        ..Disk::default()
    })))
}

fn files_job() -> Job {
    let law = ValueLaw::Gamma { mean: Real(131_072.0), gamma: Real(1.5), least: Real(0.0) };
    let flowop = |name: &str, call| FileFlowop { fd: Some(1), ..FileFlowop::new(name, call) };
    let thread = ProgramThread {
        name: "worker".to_owned(),
        instances: 16,
        memory_bytes: Bytes(1 << 20),
        io_priority: None,
        flowops: vec![
            FileFlowop { fileset: Some("mail".to_owned()), ..flowop("open", FileCall::OpenFile) },
            FileFlowop {
                io_bytes: Some(SizeValue::of("size")),
                ..flowop("append", FileCall::AppendFileRand)
            },
            flowop("close", FileCall::CloseFile),
        ],
    };
    job_of(Load::Files(Box::new(FileProgram {
        directory: "/var/tmp/target".to_owned(),
        variables: vec![Variable {
            name: "size".to_owned(),
            law,
            least: None,
            greatest: None,
            round: Some(512),
            seed: None,
        }],
        filesets: vec![Fileset {
            name: "mail".to_owned(),
            entries: 1_000,
            size_bytes: SizeValue::of("size"),
            dir_width: 20,
            prealloc_percent: 80,
            ..Fileset::default()
        }],
        processes: vec![Process { name: "server".to_owned(), instances: 1, nice: 0, threads: vec![thread] }],
        events_per_s: Some(SizeValue::Fixed(500)),
        ..FileProgram::default()
    })))
}

fn commands() -> Vec<Command> {
    vec![
        Command::Probe { id: 7 },
        Command::Prepare { job: Box::new(stream_job()) },
        Command::Prepare { job: Box::new(disk_job()) },
        Command::Prepare { job: Box::new(files_job()) },
        Command::Prepare { job: Box::new(exchange_job(TrafficKind::RequestResponse.into())) },
        Command::Prepare { job: Box::new(exchange_job(TrafficKind::ConnectRequestResponse.into())) },
        Command::Prepare { job: Box::new(script_job()) },
        Command::Prepare { job: Box::new(job_of(Load::default())) },
        Command::Arm { start_ns: Nanos(5_000_000_000) },
        Command::Abort { reason: "the other end failed".to_owned() },
        Command::Heartbeat {},
        Command::Bye {},
    ]
}

fn hello() -> Hello {
    Hello {
        wire_version: WIRE_VERSION,
        version: "0.1.0".to_owned(),
        build_hash: "0123456789abcdef".to_owned(),
        program_sha256: Some("00".repeat(32)),
        host: HostFacts {
            hostname: Some("client".to_owned()),
            cpus_online: vec![0, 1],
            addresses: vec!["10.88.0.5/16".to_owned()],
            container: Some("podman".to_owned()),
            numa_nodes: vec![NumaNode { node: 1, cpus: vec![1], devices: vec!["eth0".to_owned()] }],
            ..HostFacts::default()
        },
        clock: ClockFacts {
            operations_timed_with: "tsc".to_owned(),
            tsc_hz: Some(2_000_000_000),
            step_ns: 1.0,
            read_cost_ns: 12.5,
            ..ClockFacts::default()
        },
        capabilities: vec![Capability {
            name: "cycles".to_owned(),
            available: false,
            reason: Some("no hardware counters here".to_owned()),
        }],
        now_ns: Nanos(1_000_000_000),
        wall_ns: Nanos(1_700_000_000_000_000_000),
    }
}

fn record() -> Record {
    Record {
        trial: "00012-1".to_owned(),
        index: 0,
        window: Window::WarmUp,
        begin_ns: Nanos(5_000_000_000),
        end_ns: Nanos(6_000_000_000),
        load: LoadCounts {
            bytes: Bytes(131_072),
            operations: 2,
            service_time: Histogram { count: 2, sum_ns: 300, buckets: vec![100, 200], counts: vec![1, 1] },
            response_time: Some(Histogram {
                count: 2,
                sum_ns: 500,
                buckets: vec![200, 300],
                counts: vec![1, 1],
            }),
            lateness: Some(Histogram { count: 2, sum_ns: 200, buckets: vec![100], counts: vec![2] }),
            waiting: None,
            batch: Some(Histogram { count: 1, sum_ns: 2, buckets: vec![2], counts: vec![1] }),
            connections_active: 2,
            connections_lost: 0,
        },
        classes: Vec::new(),
        sensors: vec![Reading {
            sensor: "cpu_times".to_owned(),
            read_ns: Nanos(6_000_100_000),
            span_ns: Nanos(1_000_000_000),
            cost_ns: Nanos(20_000),
            values: vec![Value("cpu.idle_ns".to_owned(), "cpu=0".to_owned(), 250_000_000)],
            times: Vec::new(),
            missing: None,
        }],
    }
}

fn disk_record() -> Record {
    let histogram = Histogram { count: 2, sum_ns: 300, buckets: vec![100, 200], counts: vec![1, 1] };
    let class = |name: &str| ClassCounts {
        name: name.to_owned(),
        bytes: Bytes(8192),
        operations: 2,
        errors: 0,
        service_time: histogram.clone(),
        response_time: None,
    };
    Record { classes: vec![class("read"), class("write")], sensors: Vec::new(), ..record() }
}

fn disk_account() -> DiskAccount {
    DiskAccount {
        syscalls: DiskSyscalls::IoUring,
        targets: vec![TargetAccount {
            path: "/var/tmp/target".to_owned(),
            size_bytes: Bytes(1 << 30),
            flags: vec!["direct".to_owned()],
            offset_align_bytes: Some(Bytes(512)),
            ..TargetAccount::default()
        }],
        errors: 1,
        first_error: Some(DiskFailure {
            class: "read".to_owned(),
            target: 0,
            offset_bytes: Bytes(4096),
            length_bytes: Bytes(4096),
            error: 5,
            what: "Input/output error".to_owned(),
        }),
        ..DiskAccount::default()
    }
}

fn files_account() -> FileAccount {
    FileAccount {
        end: FileEnd::NoFile,
        ended_by: Some("server-1.worker-3, flowop open".to_owned()),
        elapsed_ns: Nanos(1_234_567_890),
        processes: 1,
        threads: 16,
        threads_done: 1,
        flowops: vec![FlowopAccount {
            class: "open".to_owned(),
            process: "server".to_owned(),
            thread: "worker".to_owned(),
            name: "open".to_owned(),
            call: FileCall::OpenFile,
            operations: 3,
            errors: 1,
            bytes: Bytes(0),
            least_ns: Some(Nanos(900)),
            greatest_ns: Some(Nanos(4_000)),
            total_ns: Nanos(6_000),
            first_error: Some("server-1.worker-2, flowop open (openfile): Input/output error".to_owned()),
        }],
        filesets: vec![FilesetAccount {
            name: "mail".to_owned(),
            entries: 1_000,
            ..FilesetAccount::default()
        }],
        ..FileAccount::default()
    }
}

fn profile() -> Profile {
    let function = |name: &str| Function { name: name.to_owned(), module: "kernel".to_owned() };
    Profile {
        trial: "00012-1".to_owned(),
        hz: 997,
        event: "cpu-clock".to_owned(),
        begin_ns: Nanos(6_000_000_000),
        end_ns: Nanos(16_000_000_000),
        samples: 3,
        idle_samples: 5,
        lost: 0,
        functions: vec![function("tcp_sendmsg"), function("_copy_from_iter")],
        stacks: vec![Stack { owner: Owner::App, mode: Mode::Kernel, frames: vec![0, 1], count: 3 }],
        cost_ns: Nanos(28_000_000),
        symbolise_ns: Nanos(90_000_000),
        missing: None,
    }
}

fn messages() -> Vec<Message> {
    let trial = || "00012-1".to_owned();
    vec![
        Message::Hello(Box::new(hello())),
        Message::ProbeReply { id: 7, received_ns: Nanos(10), sent_ns: Nanos(20) },
        Message::Listening { trial: trial(), port: 5201 },
        Message::Ready(Ready {
            trial: trial(),
            connections: 100,
            workers: 100,
            socket: SocketOptionsObtained { send_buffer_bytes: Some(Bytes(524_288)), ..Default::default() },
            setup_ns: Nanos(30_000_000),
            foreign_refused: 0,
            cpu_quota: Some(CpuQuotaObtained {
                quota_ns: Nanos(5_000_000),
                period_ns: Nanos(10_000_000),
                group: "/sys/fs/cgroup/cpu/iodyno-agent-812-4711".to_owned(),
            }),
        }),
        Message::Armed { trial: trial(), slack_ns: Nanos(90_000_000), realtime: true },
        Message::Progress(Progress::from(&record())),
        Message::Record(Box::new(record())),
        Message::Record(Box::new(disk_record())),
        Message::Drain { trial: trial(), at_ns: Nanos(16_000_000_000) },
        Message::Profile(Box::new(profile())),
        Message::Result(Box::new(JobResult { trial: trial(), records: 12, ..JobResult::default() })),
        Message::Result(Box::new(JobResult {
            trial: trial(),
            records: 12,
            disk: Some(disk_account()),
            ..JobResult::default()
        })),
        Message::Result(Box::new(JobResult {
            trial: trial(),
            records: 2,
            files: Some(files_account()),
            ..JobResult::default()
        })),
        Message::Aborted { trial: trial() },
        Message::Error(WireError {
            code: ErrorCode::Address,
            what: "port 5201 is taken".to_owned(),
            place: "10.0.0.2:5201".to_owned(),
            advice: "name another data_port, or none".to_owned(),
            trial: Some(trial()),
        }),
        Message::Heartbeat {},
    ]
}

fn holds<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(name: &str, examples: &[T]) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schema/golden");
    let lines: Vec<String> = examples.iter().map(|e| serde_json::to_string(e).unwrap()).collect();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let frames: Vec<u8> =
        (0..).zip(&lines).flat_map(|(number, line)| encode(number, line.as_bytes()).unwrap()).collect();
    let (text_file, frame_file) = (folder.join(format!("{name}.jsonl")), folder.join(format!("{name}.bin")));
    if std::env::var_os("IODYNO_UPDATE").is_some() {
        fs::write(&text_file, &text).unwrap();
        fs::write(&frame_file, &frames).unwrap();
    }
    assert_eq!(fs::read_to_string(text_file).unwrap(), text, "{name}.jsonl tells another wire");
    let stored = fs::read(frame_file).unwrap();
    assert_eq!(stored, frames, "{name}.bin tells another wire");

    let mut decoder = Decoder::new();
    decoder.feed(&stored);
    for example in examples {
        let payload = decoder.next_payload().unwrap().expect("a frame for every example");
        assert_eq!(&serde_json::from_slice::<T>(&payload).unwrap(), example);
    }
    assert_eq!(decoder.next_payload(), Ok(None));
    decoder.finish().unwrap();
}

#[test]
fn commands_are_as_the_golden_files_have_them() {
    holds("commands", &commands());
}

#[test]
fn messages_are_as_the_golden_files_have_them() {
    holds("messages", &messages());
}
