//! Which loads on connections can be made here: every rule of what goes with what that the job's types leave open.

mod connections;
mod datagrams;
mod rings;

use iodyno_core::message::ErrorCode;
use iodyno_core::network::{Engine, Network, Role, Traffic, Transport};

use crate::error::LoadError;

/// Whether a load is one that this machine carries out; otherwise it says which key is in the way, and what to take.
///
/// # Errors
/// `Unsupported`.
pub fn supports(load: &Network) -> Result<(), LoadError> {
    goes_together(load)?;
    if !load.transport.is_datagram() || load.connects_anew() {
        return connections::has_kernel_for(load);
    }
    datagrams::has_kernel_for(load)
}

/// Whether a load is one that some machine carries out, whatever this one has.
///
/// # Errors
/// `Unsupported`.
pub fn goes_together(load: &Network) -> Result<(), LoadError> {
    let over_tcp = matches!(load.transport, Transport::Tcp | Transport::Tls);
    if let Some(number) = load.socket.numbers.keys().find(|number| number.is_of_tcp() && !over_tcp) {
        let key = format!("socket.numbers.{}", number.name());
        return Err(unsupported(
            "sockets of TCP alone have it".to_owned(),
            &key,
            "leave it away, or take tcp or tls",
        ));
    }
    several_ends(load)?;
    if !load.transport.is_datagram() || load.connects_anew() {
        return connections::goes_together(load);
    }
    match load.engine {
        Engine::Reflector => rings::reflects(load),
        Engine::Rings => rings::serves(load).and_then(|()| datagrams::goes_together(load)),
        _ => datagrams::goes_together(load),
    }
}

/// Whether the sender may be one of several, or have several receivers.
fn several_ends(load: &Network) -> Result<(), LoadError> {
    let ringed = matches!(load.engine, Engine::Rings | Engine::Reflector) && load.role == Role::Send;
    let by_ring = "its frames are those of one client and one server";
    let resumes = matches!(&load.traffic, Traffic::ConnectRequestResponse(anew) if anew.tls_resumption);
    let (several, further) = (load.receivers() > 1, load.first_connection > 0);
    let rules = [
        (
            several && ringed,
            "remote_addresses",
            by_ring,
            "take a client that makes calls of sockets, or one receiver",
        ),
        (
            further && ringed,
            "first_connection",
            by_ring,
            "take clients that make calls of sockets, or one sender",
        ),
        (
            (several || further) && load.transport == Transport::Null,
            "transport",
            "it has no other end",
            "take one sender, without a receiver",
        ),
        (several && resumes, "tls_resumption", "a ticket is good at who gave it alone", "take one receiver"),
    ];
    hold(&rules, |found| format!("the load cannot have several ends: {found}"))
}

/// A rule that is broken, or is not: whether, the key that it is about, what was found, what to take.
type Rule<'a> = (bool, &'a str, &'a str, &'a str);

/// The first broken one of some rules; `says`: the sentence around what was found.
fn hold(rules: &[Rule<'_>], says: impl Fn(&str) -> String) -> Result<(), LoadError> {
    match rules.iter().find(|(broken, ..)| *broken) {
        None => Ok(()),
        Some((_, key, found, advice)) => Err(unsupported(says(found), key, advice)),
    }
}

fn unsupported(what: String, key: &str, advice: &str) -> LoadError {
    LoadError::new(ErrorCode::Unsupported, what, key, advice)
}
