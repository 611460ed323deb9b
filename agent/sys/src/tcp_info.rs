//! `TCP_INFO` of a socket.
