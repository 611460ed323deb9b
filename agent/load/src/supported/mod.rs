//! Which loads on connections can be made here: every rule of what goes with what that the job's types leave open.

mod connections;
mod datagrams;
mod rings;

use iodyno_core::message::ErrorCode;
use iodyno_core::network::{Engine, Network, Transport};

use crate::error::LoadError;

/// Whether a load is one that this machine carries out; otherwise it says which key is in the way, and what to take.
///
/// # Errors
/// `Unsupported`.
pub fn supports(load: &Network) -> Result<(), LoadError> {
    let over_tcp = matches!(load.transport, Transport::Tcp | Transport::Tls);
    if let Some(number) = load.socket.numbers.keys().find(|number| number.is_of_tcp() && !over_tcp) {
        let key = format!("socket.numbers.{}", number.name());
        return Err(unsupported(
            format!("found {}, which sockets of TCP alone have", number.name()),
            &key,
            "leave it away, or take tcp or tls",
        ));
    }
    if !load.transport.is_datagram() || load.connects_anew() {
        return connections::supports(load);
    }
    match load.engine {
        Engine::Reflector => rings::reflects(load),
        Engine::Rings => rings::serves(load).and_then(|()| datagrams::supports(load)),
        _ => datagrams::supports(load),
    }
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
