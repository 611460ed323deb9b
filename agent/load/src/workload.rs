//! What is done on each connection.

pub mod stream;
