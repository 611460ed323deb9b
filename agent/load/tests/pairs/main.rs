//! Two ends in one process, over loopback: one program for all tests that may run side by side.

#[path = "../pair/mod.rs"]
mod pair;

mod application;
mod batches;
mod combinations;
mod connecting;
mod datagrams;
mod endings;
mod handshake;
mod many_ends;
mod open_loop;
mod request_response;
mod sizes;
mod stream;
