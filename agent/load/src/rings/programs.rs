//! The programs at a device, as long as they are wanted.
//!
//! All are attached by links, which belong to this process: however the agent ends, they are gone with it, and nothing
//! is left for the next start to remove. Links of XDP exist since Linux 5.9, those of the traffic control's ingress
//! (TCX) since 6.6.

use std::error::Error;
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::BorrowedFd;
use std::path::Path;

use aya::maps::{Array, MapData, PerCpuArray, XskMap};
use aya::programs::tc::{SchedClassifier, TcAttachOptions, TcAttachType};
use aya::programs::{LinkOrder, ProgramError, Xdp, XdpFlags};
use aya::{include_bytes_aligned, Ebpf, EbpfLoader};

use super::place::unsupported;
use crate::error::LoadError;

/// The programs, as clang has compiled them.
static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/ports.bpf.o"));

/// Programs at a device. When dropped, they are taken away.
pub(super) struct Programs(#[allow(dead_code, reason = "it holds the links")] Ebpf);

/// Keeps the datagrams to this address from the kernel's IP; packet sockets have seen them by then.
pub(super) fn drop_at(device: &str, to: SocketAddrV4) -> Result<Programs, LoadError> {
    drop_by(device, load(device, to, false)?)
}

/// The same of those that come from it.
pub(super) fn drop_from(device: &str, from: SocketAddrV4) -> Result<Programs, LoadError> {
    drop_by(device, load(device, from, true)?)
}

fn drop_by(device: &str, mut loaded: Ebpf) -> Result<Programs, LoadError> {
    let refused = |error: ProgramError| refusal(&error, device, "a program at its ingress (TCX, Linux 6.6)");
    let program: &mut SchedClassifier = program(&mut loaded, "drop", device)?;
    program.load().map_err(refused)?;
    let order = TcAttachOptions::TcxOrder(LinkOrder::default());
    program.attach_with_options(device, TcAttachType::Ingress, order).map_err(refused)?;
    Ok(Programs(loaded))
}

/// Whether a device is a network adapter, and not one that the kernel makes up. The two ends of a pair of virtual
/// devices lie on one machine, where the driver's way would have a server's frames received on the CPU of the client
/// that sends them. The generic way comes behind receive packet steering: the server pays for what it receives, as
/// it does with an adapter's interrupts. (Measured on such a pair: no slower.)
fn is_adapter(device: &str) -> bool {
    Path::new("/sys/class/net").join(device).join("device").exists()
}

/// Brings the datagrams to this address to an `AF_XDP` socket: at an adapter by its driver, and otherwise, or where the
/// driver cannot, by the kernel's generic way.
pub(super) fn redirect_at(
    device: &str,
    to: SocketAddrV4,
    socket: BorrowedFd<'_>,
) -> Result<Programs, LoadError> {
    redirect_by(device, load(device, to, false)?, socket)
}

/// The same of those that come from it.
pub(super) fn redirect_from(
    device: &str,
    from: SocketAddrV4,
    socket: BorrowedFd<'_>,
) -> Result<Programs, LoadError> {
    redirect_by(device, load(device, from, true)?, socket)
}

fn redirect_by(device: &str, mut loaded: Ebpf, socket: BorrowedFd<'_>) -> Result<Programs, LoadError> {
    let refused = |error: ProgramError| refusal(&error, device, "an XDP program");
    let mut sockets = loaded
        .take_map("sockets")
        .and_then(|map| XskMap::try_from(map).ok())
        .ok_or_else(|| unsupported("a map is not in the object".to_owned(), device, ""))?;
    sockets.set(0, socket, 0).map_err(|error| refusal(&error, device, "a map of AF_XDP sockets"))?;
    let program: &mut Xdp = program(&mut loaded, "redirect", device)?;
    program.load().map_err(refused)?;
    if !is_adapter(device) || program.attach(device, XdpFlags::DRV_MODE).is_err() {
        program.attach(device, XdpFlags::SKB_MODE).map_err(refused)?;
    }
    Ok(Programs(loaded))
}

/// What a client without a process is told and says.
pub(super) struct Loops {
    /// It holds the link.
    _programs: Programs,
    rounds: Array<MapData, u64>,
    reflected: PerCpuArray<MapData, [u64; 2]>,
}

/// Has every answer of a server become the next request of its flow, at the device of the client. By the kernel's
/// generic way: the devices' own way out needs a counterpart at the device on the other side.
pub(super) fn reflect_at(
    device: &str,
    server: SocketAddrV4,
    mark: u64,
    request_bytes: u32,
) -> Result<Loops, LoadError> {
    let mut loaded = load_with(device, server, false, mark, request_bytes)?;
    let refused = |error: ProgramError| refusal(&error, device, "an XDP program");
    let missing = || unsupported("a map is not in the object".to_owned(), device, "");
    let rounds = loaded.take_map("rounds").and_then(|map| Array::try_from(map).ok()).ok_or_else(missing)?;
    let reflected =
        loaded.take_map("reflected").and_then(|map| PerCpuArray::try_from(map).ok()).ok_or_else(missing)?;
    let program: &mut Xdp = program(&mut loaded, "reflect", device)?;
    program.load().map_err(refused)?;
    program.attach(device, XdpFlags::SKB_MODE).map_err(refused)?;
    Ok(Loops { _programs: Programs(loaded), rounds, reflected })
}

impl Loops {
    /// Has a flow reflect what belongs to this round and nothing else; 0: nothing at all.
    pub fn begin(&mut self, flow: u32, round: u64) -> Result<(), LoadError> {
        self.rounds.set(flow, round, 0).map_err(|error| refusal(&error, "rounds", "a map"))
    }

    /// Answers to a flow that became requests, and those that belonged to another round.
    pub fn counts(&self, flow: u32) -> (u64, u64) {
        // It fails for a flow that is none only.
        let values = self.reflected.get(&flow, 0);
        values.map_or((0, 0), |cpus| cpus.iter().fold((0, 0), |sum, cpu| (sum.0 + cpu[0], sum.1 + cpu[1])))
    }
}

fn load(device: &str, to: SocketAddrV4, back: bool) -> Result<Ebpf, LoadError> {
    load_with(device, to, back, 0, 0)
}

fn load_with(
    device: &str,
    to: SocketAddrV4,
    back: bool,
    mark: u64,
    request_bytes: u32,
) -> Result<Ebpf, LoadError> {
    let (address, port) = (u32::from_ne_bytes(to.ip().octets()), to.port().to_be());
    EbpfLoader::new()
        .set_global("address", &address, true)
        .set_global("port", &port, true)
        .set_global("back", &u8::from(back), true)
        .set_global("mark", &mark, true)
        .set_global("request_bytes", &request_bytes, true)
        .load(OBJECT)
        .map_err(|error| refusal(&error, device, "programs for the kernel (BPF)"))
}

fn program<'a, P>(loaded: &'a mut Ebpf, name: &str, device: &str) -> Result<&'a mut P, LoadError>
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program>,
{
    loaded
        .program_mut(name)
        .and_then(|program| program.try_into().ok())
        .ok_or_else(|| unsupported(format!("program {name} is not in the object"), device, ""))
}

/// Why the kernel does not take it, in one line; the cause is the last link of the chain.
fn refusal(error: &(dyn Error + 'static), device: &str, what: &str) -> LoadError {
    let place = format!("device {device}");
    if let Some(ProgramError::LoadError { verifier_log, .. }) = error.downcast_ref::<ProgramError>() {
        // The last lines are statistics, the one before says what is wrong. Without any, it was not looked at.
        let log = verifier_log.to_string();
        let lines = log.lines().rev();
        if let Some(line) = lines.into_iter().find(|line| !line.starts_with("processed") && !line.is_empty())
        {
            let told = format!("the kernel's verifier refused {what}: {line}");
            return unsupported(told, &place, "take another client or server");
        }
    }
    let mut told = error.to_string();
    let mut inner = Some(error);
    while let Some(link) = inner {
        if let Some(cause) = link.downcast_ref::<io::Error>() {
            if cause.kind() == io::ErrorKind::PermissionDenied {
                let told = format!("the agent is not allowed to use {what}");
                return unsupported(told, &place, "run it as root, or with CAP_BPF and CAP_NET_ADMIN");
            }
        }
        told = link.to_string();
        inner = link.source();
    }
    let told = told.lines().last().unwrap_or_default().to_owned();
    unsupported(format!("the kernel refused {what}: {told}"), &place, "take another server")
}
