//! Scripts: uperf's profiles, executed call by call, one thread a thread, in step with the other end.
//!
//! - `rendezvous`: the two ends find each other; `acceptor` awaits connections on one port and `preamble` tells whose they are;
//!   `link` is what the ends say to each other beside the data, and `run` is what is known of it.
//! - `thread`: a thread goes through its transactions; `flow`: the calls on its connections, `datagrams`: what is
//!   lost of them; `numbers`: which of them belong together.
//! - `fault`: why an operation was not done; `waiting`, `stall`: when neither end can go on. `tally`: what was done.
//!
//! Blocking calls come back after 20 ms ([`run::SLICE`]), then ever less often, so that a thread notices the end of
//! the job, of the transaction at the other end, and of all hope. Where a transaction lasts for a time, the sending
//! end measures it and says how many iterations it has begun; the other end makes as many, or says that it is ahead,
//! and then the first one follows. So no byte of a transaction is left in a connection for the next one.

mod acceptor;
mod datagrams;
mod fault;
mod files;
mod flow;
mod keys;
mod link;
mod numbers;
mod pair;
mod preamble;
mod rendezvous;
pub(crate) mod run;
mod sctp;
mod sizes;
mod stall;
mod tally;
mod waiting;
mod worker_thread;

pub use rendezvous::{connect_script, listen_script, script_goes_together, script_supports, ScriptListener};
