//! Who the two ends are to each other: a certificate that both derive from the trial's token.
//!
//! The key is Ed25519 (RFC 8032) with the seed SHA-256 of a label and the token; its signatures are deterministic, and
//! so both ends make the same self-signed certificate, byte by byte. The end that connects takes that one and no other.

use std::fmt;
use std::sync::Arc;

use iodyno_core::network::TlsCipher;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::Resumption;
use rustls::crypto::ring::{cipher_suite, default_provider, sign};
use rustls::crypto::{verify_tls13_signature, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, PeerMisbehaved, ServerConfig,
    SignatureScheme, SupportedCipherSuite,
};
use sha2::{Digest, Sha256};

/// What both ends of a job bring to a handshake.
pub(crate) struct Identity {
    pub client: Arc<ClientConfig>,
    pub server: Arc<ServerConfig>,
}

impl Identity {
    /// Of the trial with this token.
    pub(crate) fn new(token: [u8; 16], cipher: TlsCipher, resumes: bool) -> Result<Self, Error> {
        Identity::with_suite(token, suite(cipher), resumes)
    }

    /// As [`Identity::new`], with a suite that a test has changed.
    pub(super) fn with_suite(
        token: [u8; 16],
        suite: SupportedCipherSuite,
        resumes: bool,
    ) -> Result<Self, Error> {
        let seed = Sha256::new_with_prefix(b"iodyno tls key ").chain_update(token).finalize();
        let key = sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(private_key(&seed)))?;
        let certificate = CertificateDer::from(certificate(&*key)?);
        let mut provider = default_provider();
        provider.cipher_suites = vec![suite];
        let provider = Arc::new(provider);

        let pinned = Pinned {
            certificate: certificate.clone(),
            algorithms: provider.signature_verification_algorithms,
        };
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(pinned))
            .with_no_client_auth();
        client.resumption =
            if resumes { Resumption::in_memory_sessions(256) } else { Resumption::disabled() };

        let certified = CertifiedKey::new(vec![certificate], key);
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        server.send_tls13_tickets = usize::from(resumes);
        if !resumes {
            server.session_storage = Arc::new(NoServerSessionStorage {});
        }
        Ok(Identity { client: Arc::new(client), server: Arc::new(server) })
    }
}

/// The suite of a cipher.
pub(super) fn suite(cipher: TlsCipher) -> SupportedCipherSuite {
    match cipher {
        TlsCipher::Aes128Gcm => cipher_suite::TLS13_AES_128_GCM_SHA256,
        TlsCipher::Aes256Gcm => cipher_suite::TLS13_AES_256_GCM_SHA384,
        TlsCipher::Chacha20 => cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    }
}

/// The one certificate that is taken.
struct Pinned {
    certificate: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl fmt::Debug for Pinned {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Pinned")
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if end_entity.as_ref() == self.certificate.as_ref() {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::PeerMisbehaved(PeerMisbehaved::SelectedUnofferedCipherSuite))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

/// PKCS #8 of an Ed25519 key (RFC 8410, section 7).
fn private_key(seed: &[u8]) -> Vec<u8> {
    let head =
        [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
    [&head[..], seed].concat()
}

/// One element of DER (X.690): a tag, the length, the content.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    // Nothing here is longer than 65 535 bytes.
    let head = match length {
        0..=127 => vec![tag, length as u8],
        128..=255 => vec![tag, 0x81, length as u8],
        _ => vec![tag, 0x82, (length >> 8) as u8, length as u8],
    };
    [&head[..], content].concat()
}

/// A self-signed certificate (RFC 5280) whose subject and issuer are `iodyno`, valid always: the token is what
/// bounds it.
fn certificate(key: &dyn SigningKey) -> Result<Vec<u8>, Error> {
    let lacks = || Error::General("a key that is not Ed25519".into());
    let signer = key.choose_scheme(&[SignatureScheme::ED25519]).ok_or_else(lacks)?;
    let public = key.public_key().ok_or_else(lacks)?;
    const SEQUENCE: u8 = 0x30;
    let ed25519 = element(SEQUENCE, &element(0x06, &[0x2b, 0x65, 0x70]));
    let common_name = [element(0x06, &[0x55, 0x04, 0x03]), element(0x0c, b"iodyno")].concat();
    let name = element(SEQUENCE, &element(0x31, &element(SEQUENCE, &common_name)));
    // GeneralizedTime; the last is "no well-defined expiration date" (RFC 5280, 4.1.2.5).
    let validity = [element(0x18, b"20000101000000Z"), element(0x18, b"99991231235959Z")].concat();
    let signed = [
        element(0xa0, &element(0x02, &[2])),
        element(0x02, &[1]),
        ed25519.clone(),
        name.clone(),
        element(SEQUENCE, &validity),
        name,
        public.to_vec(),
    ]
    .concat();
    let signed = element(SEQUENCE, &signed);
    let signature = [&[0][..], &signer.sign(&signed)?].concat();
    Ok(element(SEQUENCE, &[signed, ed25519, element(0x03, &signature)].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(token: [u8; 16]) -> Vec<u8> {
        let key = private_key(&Sha256::digest(token));
        certificate(&*sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(key)).unwrap()).unwrap()
    }

    #[test]
    fn the_certificate_follows_from_the_token_alone_and_is_one() {
        assert_eq!(of([1; 16]), of([1; 16]));
        assert_ne!(of([1; 16]), of([2; 16]));
        // Read by a parser that is not ours.
        let der = CertificateDer::from(of([1; 16]));
        let parsed = rustls::server::ParsedCertificate::try_from(&der);
        assert!(parsed.is_ok(), "{:?}", parsed.err());
    }
}
