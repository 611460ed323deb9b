//! Two ends in one process: they come to terms, carry every byte, change keys, and refuse who is not the trial's.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread;

use iodyno_core::network::TlsCipher;
use rustls::crypto::cipher::{OutboundChunks, OutboundPlainMessage};
use rustls::{
    CipherSuiteCommon, ClientConfig, ConnectionTrafficSecrets, ContentType, HandshakeKind, ProtocolVersion,
    Tls13CipherSuite,
};

use super::*;

const CIPHERS: [TlsCipher; 3] = [TlsCipher::Aes128Gcm, TlsCipher::Aes256Gcm, TlsCipher::Chacha20];

fn terms(role: Role, token: &str, cipher: TlsCipher, resumes: bool) -> Terms {
    let job = Job::<Network> { token: token.repeat(2), ..Job::default() };
    Terms::new(job.token_bytes().unwrap_or_default(), cipher, resumes, role, 100_000).unwrap()
}

fn shake_hands(terms: &Terms, socket: &UnixStream, opened: bool) -> io::Result<Session> {
    socket.set_nonblocking(true)?;
    let until = clock::monotonic().plus(Nanos(5_000_000_000));
    let session = shake(terms.begin(opened)?, socket.as_fd(), until, &Cancel::default())?;
    socket.set_nonblocking(false)?;
    Ok(session)
}

/// Both ends of a connection.
fn open(client: &Terms, server: &Terms) -> (io::Result<Session>, io::Result<Session>, [UnixStream; 2]) {
    let (near, far) = UnixStream::pair().unwrap();
    let (ours, theirs) = thread::scope(|scope| {
        let theirs = scope.spawn(|| {
            let outcome = shake_hands(server, &far, false);
            if outcome.is_err() {
                let _ = far.shutdown(std::net::Shutdown::Both);
            }
            outcome
        });
        let ours = shake_hands(client, &near, true);
        if ours.is_err() {
            let _ = near.shutdown(std::net::Shutdown::Both);
        }
        (ours, theirs.join().unwrap())
    });
    (ours, theirs, [near, far])
}

const TOKEN: &str = "0123456789abcdef";

/// Sends `bytes` from one end, takes them at the other.
fn carry(from: (&Session, &UnixStream), to: (&Session, &UnixStream), bytes: usize) {
    let source = vec![7; bytes];
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut left = bytes;
            while left > 0 {
                match from.0.send(from.1.as_fd(), &source[..left]) {
                    Ok(taken) => left -= taken,
                    Err(error) => assert_eq!(error.raw_os_error(), Some(errno::EAGAIN), "{error}"),
                }
            }
        });
        let mut left = bytes;
        while left > 0 {
            left -= to.0.receive(to.1.as_fd(), 5_000.min(left)).unwrap();
        }
        assert!(!to.0.holds_payload());
    });
}

#[test]
fn every_cipher_carries_every_byte_both_ways_and_ends() {
    for cipher in CIPHERS {
        let (client, server) =
            (terms(Role::Send, TOKEN, cipher, false), terms(Role::Receive, TOKEN, cipher, false));
        let (near, far, [near_socket, far_socket]) = open(&client, &server);
        let (near, far) = (near.unwrap(), far.unwrap());
        for bytes in [1, 16_384, 16_385, 1_000_003] {
            carry((&near, &near_socket), (&far, &far_socket), bytes);
            carry((&far, &far_socket), (&near, &near_socket), bytes);
        }
        near.finish(near_socket.as_fd());
        assert_eq!(far.receive(far_socket.as_fd(), 10).unwrap(), 0, "{cipher:?}");
    }
}

/// Has both ends change keys after so many records.
fn limit_keys(terms: &mut Terms, cipher: TlsCipher, records: u64) {
    let suite = identity::suite(cipher).tls13().unwrap();
    let common = CipherSuiteCommon { confidentiality_limit: records, ..suite.common };
    let suite = Tls13CipherSuite { common, ..*suite };
    let suite: &'static _ = Box::leak(Box::new(suite));
    let identity = Identity::with_suite([7; 16], suite.into(), false).unwrap();
    terms.identity = Arc::new(identity);
}

#[test]
fn keys_change_in_the_middle_of_a_stream() {
    for cipher in CIPHERS {
        let (mut client, mut server) =
            (terms(Role::Send, TOKEN, cipher, false), terms(Role::Receive, TOKEN, cipher, false));
        limit_keys(&mut client, cipher, 5);
        limit_keys(&mut server, cipher, 3);
        let (near, far, [near_socket, far_socket]) = open(&client, &server);
        let (near, far) = (near.unwrap(), far.unwrap());
        for _ in 0..3 {
            carry((&near, &near_socket), (&far, &far_socket), 500_000);
            carry((&far, &far_socket), (&near, &near_socket), 300_000);
        }
    }
}

#[test]
fn who_has_another_certificate_is_refused() {
    let cipher = TlsCipher::default();
    let (client, server) =
        (terms(Role::Send, TOKEN, cipher, false), terms(Role::Receive, "fedcba9876543210", cipher, false));
    let (near, far, _) = open(&client, &server);
    let refused = near.err().unwrap().to_string();
    assert!(refused.contains("certificate"), "{refused}");
    assert!(far.is_err());
    // Nor do ends agree that have different ciphers.
    let server = terms(Role::Receive, TOKEN, TlsCipher::Chacha20, false);
    let (near, far, _) = open(&client, &server);
    assert!(near.is_err() && far.is_err());
}

#[test]
fn sessions_are_taken_up_again_where_that_is_asked_for() {
    for cipher in CIPHERS {
        let (client, server) =
            (terms(Role::Send, TOKEN, cipher, true), terms(Role::Receive, TOKEN, cipher, true));
        for number in 0..5 {
            let (near, far, [near_socket, far_socket]) = open(&client, &server);
            let (near, far) = (near.unwrap(), far.unwrap());
            carry((&near, &near_socket), (&far, &far_socket), 64);
            carry((&far, &far_socket), (&near, &near_socket), 64);
            let expected = if number > 0 { HandshakeKind::Resumed } else { HandshakeKind::Full };
            for end in [&near, &far] {
                let connection = locked(&end.connection);
                let kind = connection.as_ref().unwrap().common().handshake_kind();
                assert_eq!(kind, Some(expected), "{cipher:?} {number}");
            }
        }
    }
}

#[test]
fn what_comes_with_the_end_of_the_handshake_is_not_lost() {
    for resumes in [false, true] {
        let cipher = TlsCipher::default();
        let (client, server) =
            (terms(Role::Send, TOKEN, cipher, resumes), terms(Role::Receive, TOKEN, cipher, resumes));
        for _ in 0..3 {
            let (near, far) = UnixStream::pair().unwrap();
            near.set_nonblocking(true).unwrap();
            far.set_nonblocking(true).unwrap();
            let (mut ours, mut theirs) = (client.begin(true).unwrap(), server.begin(false).unwrap());
            let waits = |outcome: io::Result<Session>| outcome.err().unwrap().raw_os_error();
            assert_eq!(waits(ours.step(near.as_fd())), Some(errno::EAGAIN));
            assert_eq!(waits(theirs.step(far.as_fd())), Some(errno::EAGAIN));
            let ours = ours.step(near.as_fd()).unwrap();
            // The last word of the handshake and this are there together.
            assert_eq!(ours.send(near.as_fd(), &[1; 64]).unwrap(), 64);
            let theirs = theirs.step(far.as_fd()).unwrap();
            assert_eq!(theirs.receive(far.as_fd(), 1_000).unwrap(), 64, "{resumes}");
            assert_eq!(theirs.send(far.as_fd(), &[1; 100]).unwrap(), 100);
            assert_eq!(ours.receive(near.as_fd(), 1_000).unwrap(), 100, "{resumes}");
        }
    }
}

#[test]
fn what_was_tampered_with_ends_the_connection() {
    let cipher = TlsCipher::default();
    let (client, server) =
        (terms(Role::Send, TOKEN, cipher, false), terms(Role::Receive, TOKEN, cipher, false));
    for flipped in [4, 5, 20, 40] {
        let (near, far, [near_socket, far_socket]) = open(&client, &server);
        let (near, far) = (near.unwrap(), far.unwrap());
        let (own, other) = UnixStream::pair().unwrap();
        assert_eq!(near.send(own.as_fd(), &[1; 30]).unwrap(), 30);
        let mut record = [0; 200];
        let length = socket::receive_into(other.as_fd(), &mut record).unwrap();
        record[flipped] ^= 1;
        socket::send(near_socket.as_fd(), &record[..length]).unwrap();
        near_socket.shutdown(std::net::Shutdown::Write).unwrap();
        match far.receive(far_socket.as_fd(), 100) {
            Err(error) => assert_eq!(error.raw_os_error(), Some(errno::EBADMSG), "{flipped}"),
            // A record that says that it is longer never comes to its end.
            Ok(count) => assert_eq!((count, flipped), (0, 4)),
        }
    }
}

#[test]
fn a_message_that_goes_on_in_another_record_ends_the_connection() {
    let cipher = TlsCipher::Chacha20;
    let mut client = terms(Role::Send, TOKEN, cipher, false);
    let mut config = ClientConfig::clone(&client.identity.client);
    config.enable_secret_extraction = true;
    let server = Arc::clone(&client.identity.server);
    client.identity = Arc::new(Identity { client: Arc::new(config), server });
    let (near, far, [near_socket, far_socket]) = open(&client, &terms(Role::Receive, TOKEN, cipher, false));
    let (near, far) = (near.unwrap(), far.unwrap());
    let Some(Connection::Client(connection)) = locked(&near.connection).take() else { panic!() };
    let (secrets, _) = connection.dangerous_into_kernel_connection().unwrap();
    let (sequence, secrets) = secrets.tx;
    let ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } = secrets else { panic!() };
    let mut encrypter = identity::suite(cipher).tls13().unwrap().aead_alg.encrypter(key, iv);
    // The begin of a change of keys, of which more would come.
    let payload = OutboundChunks::Single(&[24, 0, 0]);
    let part =
        OutboundPlainMessage { typ: ContentType::Handshake, version: ProtocolVersion::TLSv1_2, payload };
    let record = encrypter.encrypt(part, sequence).unwrap().encode();
    socket::send(near_socket.as_fd(), &record).unwrap();
    let refused = far.receive(far_socket.as_fd(), 100).err().unwrap();
    assert_eq!(refused.raw_os_error(), Some(errno::EBADMSG));
    // Nor does this end go on.
    let refused = far.send(far_socket.as_fd(), &[1; 10]).err().unwrap();
    assert_eq!(refused.raw_os_error(), Some(errno::EBADMSG));
}
