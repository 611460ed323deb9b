//! UDP datagrams in Ethernet frames: what a server has to read and write that works below the kernel's own protocols.
//!
//! IPv4 only. An answer goes back the way that its request came: addresses and ports are exchanged. Its UDP checksum
//! is 0, which means that there is none (RFC 768); the kernel's own path between two devices of one machine does not
//! compute one either. One that is longer than the device takes is cut into fragments (RFC 791).

const ETHERNET_BYTES: usize = 14;
const IP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
/// What stands in front of the payload of a datagram, where the header of IP has no options.
pub(crate) const HEADERS_BYTES: usize = ETHERNET_BYTES + IP_BYTES + UDP_BYTES;

const IPV4: [u8; 2] = [0x08, 0x00];
const UDP: u8 = 17;
const MORE_FRAGMENTS: u16 = 0x2000;
/// As the kernel has it by default.
const TIME_TO_LIVE: u8 = 64;

/// Where a datagram came from and where it went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// Destination and source of the link.
    link: [u8; 12],
    source: [u8; 4],
    destination: [u8; 4],
    source_port: [u8; 2],
    destination_port: [u8; 2],
}

/// Reads a frame: its way and its payload; `None`: no whole datagram of UDP over IPv4.
#[inline]
pub(crate) fn read(frame: &[u8]) -> Option<(Way, &[u8])> {
    let (link, packet) = frame.split_first_chunk::<ETHERNET_BYTES>()?;
    let header: &[u8; IP_BYTES] = packet.first_chunk()?;
    let header_bytes = usize::from(header[0] & 0xf) * 4;
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
    if link[12..] != IPV4 || header[0] >> 4 != 4 || header[9] != UDP || fragment != 0 {
        return None;
    }
    let udp: &[u8; UDP_BYTES] = packet.get(header_bytes..)?.first_chunk()?;
    let length = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
    // What is behind it fills the frame up to the link's least length.
    let payload = packet.get(header_bytes + UDP_BYTES..header_bytes + length)?;
    let way = Way {
        link: *link.first_chunk()?,
        source: *header[12..].first_chunk()?,
        destination: *header[16..].first_chunk()?,
        source_port: *udp.first_chunk()?,
        destination_port: *udp[2..].first_chunk()?,
    };
    Some((way, payload))
}

/// How all frames of a flow look: the headers of one that the kernel has sent, but for what depends on the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern([u8; HEADERS_BYTES]);

impl Pattern {
    /// That of a frame with a whole datagram; `None`: it is none, or its header of IP has options.
    pub(crate) fn of(frame: &[u8]) -> Option<Self> {
        read(frame)?;
        let mut headers: [u8; HEADERS_BYTES] = *frame.first_chunk()?;
        // A number is for fragments only (RFC 6864), the sum is made anew, and of UDP there is none.
        headers[18..20].fill(0);
        headers[40..42].fill(0);
        (headers[14] == 0x45).then_some(Pattern(headers))
    }

    /// Writes the headers of a datagram with so much payload, which stands behind them; gives the frame's length.
    ///
    /// # Panics
    /// Where `frame` is too short for the headers, which its maker sees to.
    #[inline]
    pub(crate) fn write(&self, payload: usize, frame: &mut [u8]) -> usize {
        let header: &mut [u8; HEADERS_BYTES] = frame.first_chunk_mut().expect("frames have room for headers");
        *header = self.0;
        header[16..18].copy_from_slice(&((IP_BYTES + UDP_BYTES + payload) as u16).to_be_bytes());
        header[24..26].fill(0);
        let checksum = checksum(&header[ETHERNET_BYTES..ETHERNET_BYTES + IP_BYTES]);
        header[24..26].copy_from_slice(&checksum.to_be_bytes());
        header[38..40].copy_from_slice(&((UDP_BYTES + payload) as u16).to_be_bytes());
        HEADERS_BYTES + payload
    }
}

/// How a datagram is cut into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Bytes of UDP, with its header.
    datagram: usize,
    /// Bytes of it in every frame but the last; a multiple of 8.
    piece: usize,
}

impl Cut {
    /// Of a datagram with so much payload over a device that takes packets of `mtu_bytes`, in frames of at most
    /// `longest_frame`.
    pub(crate) fn new(payload: usize, mtu_bytes: usize, longest_frame: usize) -> Self {
        let datagram = UDP_BYTES + payload;
        let room = mtu_bytes.min(longest_frame.saturating_sub(ETHERNET_BYTES)).saturating_sub(IP_BYTES);
        let piece = if datagram <= room { datagram } else { (room & !7).max(8) };
        Cut { datagram, piece }
    }

    /// Frames of a datagram.
    #[inline]
    pub(crate) fn frames(self) -> usize {
        self.datagram.div_ceil(self.piece)
    }

    /// Length of the longest frame.
    pub(crate) fn longest_frame(self) -> usize {
        ETHERNET_BYTES + IP_BYTES + self.piece
    }

    /// Writes the headers of frame `number` of the answer to what came on `way`, and gives the frame's length. The
    /// payload's first bytes stand behind them in the first frame, from [`HEADERS_BYTES`] on.
    ///
    /// # Panics
    /// Where `frame` is too short for the headers, which its maker sees to.
    #[inline]
    pub(crate) fn write(self, way: &Way, identification: u16, number: usize, frame: &mut [u8]) -> usize {
        let offset = number * self.piece;
        let length = self.piece.min(self.datagram - offset);
        let more = if offset + length < self.datagram { MORE_FRAGMENTS } else { 0 };
        let header: &mut [u8; HEADERS_BYTES] = frame.first_chunk_mut().expect("frames have room for headers");
        header[..6].copy_from_slice(&way.link[6..]);
        header[6..12].copy_from_slice(&way.link[..6]);
        header[12..14].copy_from_slice(&IPV4);
        header[14..16].copy_from_slice(&[0x45, 0]);
        header[16..18].copy_from_slice(&((IP_BYTES + length) as u16).to_be_bytes());
        header[18..20].copy_from_slice(&identification.to_be_bytes());
        header[20..22].copy_from_slice(&(more | (offset / 8) as u16).to_be_bytes());
        header[22..26].copy_from_slice(&[TIME_TO_LIVE, UDP, 0, 0]);
        header[26..30].copy_from_slice(&way.destination);
        header[30..34].copy_from_slice(&way.source);
        let checksum = checksum(&header[ETHERNET_BYTES..ETHERNET_BYTES + IP_BYTES]);
        header[24..26].copy_from_slice(&checksum.to_be_bytes());
        if number == 0 {
            header[34..36].copy_from_slice(&way.destination_port);
            header[36..38].copy_from_slice(&way.source_port);
            header[38..40].copy_from_slice(&(self.datagram as u16).to_be_bytes());
            header[40..42].copy_from_slice(&[0, 0]);
        }
        ETHERNET_BYTES + IP_BYTES + length
    }
}

/// Of the header of IP (RFC 1071).
#[inline]
fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; HEADERS_BYTES];
        frame[..12].copy_from_slice(&[1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16]);
        frame[12..14].copy_from_slice(&IPV4);
        frame[14] = 0x45;
        frame[23] = UDP;
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame[34..38].copy_from_slice(&[0x10, 0x01, 0x20, 0x02]);
        frame[38..40].copy_from_slice(&((UDP_BYTES + payload.len()) as u16).to_be_bytes());
        frame.extend_from_slice(payload);
        frame
    }

    #[test]
    fn an_answer_goes_back_the_way_of_its_request() {
        let frame = request(b"hello");
        let (way, payload) = read(&frame).unwrap();
        assert_eq!(payload, b"hello");
        let cut = Cut::new(100, 1500, 2000);
        let mut answer = vec![0; 200];
        let length = cut.write(&way, 7, 0, &mut answer);
        assert_eq!((cut.frames(), length), (1, HEADERS_BYTES + 100));
        assert_eq!(checksum(&answer[14..34]), 0, "the sum over a header with its checksum is 0");
        let (back, payload) = read(&answer[..length]).unwrap();
        assert_eq!((back.source, back.destination), (way.destination, way.source));
        assert_eq!((back.source_port, back.destination_port), (way.destination_port, way.source_port));
        assert_eq!((&back.link[..6], &back.link[6..]), (&way.link[6..], &way.link[..6]));
        assert_eq!(payload.len(), 100);
    }

    #[test]
    fn frames_after_a_pattern_are_those_of_its_flow() {
        let learned = request(b"hello");
        let pattern = Pattern::of(&learned).unwrap();
        for payload in [24, 64, 1000] {
            let mut frame = vec![7; HEADERS_BYTES + payload + 3];
            let length = pattern.write(payload, &mut frame);
            assert_eq!(length, HEADERS_BYTES + payload);
            assert_eq!(checksum(&frame[14..34]), 0, "the sum over a header with its checksum is 0");
            let (way, found) = read(&frame).unwrap();
            assert_eq!(way, read(&learned).unwrap().0);
            assert_eq!(found, vec![7; payload]);
        }
        assert_eq!(Pattern::of(&learned[..HEADERS_BYTES]), None);
        let mut options = request(&[0; 40]);
        options[14] = 0x46;
        options[42..44].copy_from_slice(&[0, 20]);
        assert_eq!(Pattern::of(&options), None);
    }

    proptest! {
        #[test]
        fn fragments_are_the_datagram_without_gap_or_overlap(
            payload in 24usize..=65_507, mtu in 576usize..=9000, longest in 1024usize..=16384
        ) {
            let frame = request(b"hello");
            let (way, _) = read(&frame).unwrap();
            let cut = Cut::new(payload, mtu, longest);
            let mut filled = 0;
            for number in 0..cut.frames() {
                let mut answer = vec![0; longest];
                let length = cut.write(&way, 7, number, &mut answer);
                prop_assert!(length <= longest && length - ETHERNET_BYTES <= mtu);
                prop_assert!(length <= cut.longest_frame());
                let field = u16::from_be_bytes([answer[20], answer[21]]);
                prop_assert_eq!(usize::from(field & 0x1fff) * 8, filled);
                filled += length - ETHERNET_BYTES - IP_BYTES;
                prop_assert_eq!(field & MORE_FRAGMENTS != 0, filled < UDP_BYTES + payload);
            }
            prop_assert_eq!(filled, UDP_BYTES + payload);
        }

        #[test]
        fn no_frame_does_harm(frame in proptest::collection::vec(any::<u8>(), 0..128)) {
            let _ = read(&frame);
        }
    }

    #[test]
    fn what_is_no_whole_datagram_is_left_alone() {
        let good = request(b"hello");
        for (at, value) in
            [(12, 0x86), (14, 0x65), (14, 0x4f), (23, 6), (20, 0x20), (21, 1), (38, 0xff), (39, 3)]
        {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(read(&bad), None, "byte {at}");
        }
        assert_eq!(read(&good[..good.len() - 1]), None);
    }
}
