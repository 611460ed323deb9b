//! A load that is a script, as one of its ends carries it out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::JobError;
use crate::network::{check_address, Role};
use crate::script::Script;
use crate::units::Nanos;

/// What an end of a script is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scripted {
    /// Which end this agent is.
    pub role: Role,
    /// Where the link goes to (`Send`) or what to listen on (`Receive`): a numeric address with port.
    #[serde(default)]
    pub address: Option<String>,
    /// Numeric addresses with a port of the other ends of the sender's script beside `address`.
    #[serde(default)]
    pub remote_addresses: Vec<String>,
    /// How long a datagram is waited for, where its operation does not say.
    pub response_timeout_ns: Nanos,
    /// What this end does.
    pub script: Script,
}

impl Scripted {
    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The first key that holds something that is not allowed.
    pub fn check(&self) -> Result<(), JobError> {
        self.script.check()?;
        self.check_remotes()?;
        check_address(true, self.role, self.address.as_deref())
    }

    /// That every other end of the script has an address; a receiving end knows the sender alone.
    fn check_remotes(&self) -> Result<(), JobError> {
        let refuse = |found: String, allowed: &str| {
            Err(JobError { key: "remote_addresses", found, allowed: allowed.to_owned() })
        };
        let (named, given) = (self.script.greatest_remote() as usize, self.remote_addresses.len());
        if self.role == Role::Receive {
            return match given {
                0 => Ok(()),
                _ => refuse(given.to_string(), "none, at the receiving end"),
            };
        }
        if named > given {
            let allowed = format!("{named}: the script names other ends up to that one");
            return refuse(given.to_string(), &allowed);
        }
        let foreign = |address: &&String| {
            address.parse::<core::net::SocketAddr>().map_or(true, |parsed| parsed.port() == 0)
        };
        match self.remote_addresses.iter().find(foreign) {
            Some(address) => refuse(address.clone(), "numeric addresses with a port to connect to"),
            None => Ok(()),
        }
    }
}
