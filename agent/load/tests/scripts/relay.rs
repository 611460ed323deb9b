//! A way between the two ends of a script on which datagrams are dropped, repeated and delayed.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How a datagram of the script fares, by its number in its direction: after how long each copy of it goes on.
pub type Fate = fn(Direction, u64) -> Vec<Duration>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    There,
    Back,
}

/// What the relay has seen of the script's datagrams, there and back.
#[derive(Default)]
pub struct Seen {
    seen: [AtomicU64; 2],
    /// Acknowledgements of greetings that are still to be lost.
    unheard: AtomicU64,
}

impl Seen {
    pub fn number(&self, direction: Direction) -> u64 {
        self.seen[direction as usize].load(SeqCst)
    }

    /// Sends a datagram on, as its fate is.
    fn pass(
        &self,
        fate: Fate,
        direction: Direction,
        bytes: &[u8],
        send: impl Fn(&[u8]) + Clone + Send + 'static,
    ) {
        // A greeting is no datagram of the script.
        if bytes.starts_with(b"iodynosc") {
            let one_less = |unheard: u64| unheard.checked_sub(1);
            if direction == Direction::There || self.unheard.fetch_update(SeqCst, SeqCst, one_less).is_err() {
                send(bytes);
            }
            return;
        }
        let number = self.seen[direction as usize].fetch_add(1, SeqCst);
        for after in fate(direction, number) {
            let (bytes, send) = (bytes.to_vec(), send.clone());
            if after.is_zero() {
                send(&bytes);
                continue;
            }
            thread::spawn(move || {
                thread::sleep(after);
                send(&bytes);
            });
        }
    }
}

/// A port by which the end that listens on `to` is reached, and what passes; `unheard`: how many acknowledgements of greetings
/// are lost first.
pub fn relay(to: u16, fate: Fate, unheard: u64) -> (u16, Arc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(Seen { unheard: AtomicU64::new(unheard), ..Seen::default() });
    let of_link = Arc::clone(&seen);
    thread::spawn(move || {
        let mut near = listener.accept().unwrap().0;
        let mut far = TcpStream::connect(("127.0.0.1", to)).unwrap();
        let (mut from_near, mut to_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        thread::spawn(move || {
            let _ = io::copy(&mut from_near, &mut to_far);
            let _ = to_far.shutdown(Shutdown::Write);
        });
        // Words of six numbers; the one that begins with 2 says where datagrams go, in its third.
        let mut word = [0; 48];
        while word[0] != 2 {
            far.read_exact(&mut word).unwrap();
            if word[0] == 2 {
                let behind = u16::from_le_bytes([word[16], word[17]]);
                let before = datagrams(behind, fate, &of_link);
                word[16..18].copy_from_slice(&before.to_le_bytes());
            }
            near.write_all(&word).unwrap();
        }
        let _ = io::copy(&mut far, &mut near);
        let _ = near.shutdown(Shutdown::Write);
    });
    (port, seen)
}

/// A port from which datagrams go on to `to`, and their answers back.
fn datagrams(to: u16, fate: Fate, seen: &Arc<Seen>) -> u16 {
    let front = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let port = front.local_addr().unwrap().port();
    let seen = Arc::clone(seen);
    thread::spawn(move || {
        let mut flows: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
        let mut bytes = [0; 65_536];
        while let Ok((count, source)) = front.recv_from(&mut bytes) {
            let back = flows.entry(source).or_insert_with(|| {
                let back = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
                back.connect(("127.0.0.1", to)).unwrap();
                let (front, behind, seen) = (Arc::clone(&front), Arc::clone(&back), Arc::clone(&seen));
                thread::spawn(move || {
                    let mut bytes = [0; 65_536];
                    // An end that has closed its socket refuses what comes then.
                    while let Ok(count) = behind.recv(&mut bytes) {
                        let front = Arc::clone(&front);
                        let send = move |bytes: &[u8]| drop(front.send_to(bytes, source));
                        seen.pass(fate, Direction::Back, &bytes[..count], send);
                    }
                });
                back
            });
            let back = Arc::clone(back);
            seen.pass(fate, Direction::There, &bytes[..count], move |bytes| drop(back.send(bytes)));
        }
    });
    port
}
