//! What lies on a block device, by the magic numbers that file systems and volume managers put there.
//!
//! Offsets and numbers are those of each format's own description (in the kernel: `include/uapi/linux/magic.h` and the
//! super-block structures of `fs/*`; UEFI 2.10, 5.3.2 for GPT). What is not known here may still be there: a device that somebody
//! has open for himself is told by opening it, not by its content.

/// The first bytes of a device that are looked at.
const READ_BYTES: u64 = 160 * 1024;
/// Its last ones: where some RAID formats keep theirs.
const END_BYTES: u64 = 192 * 1024;
/// What the formats 0.90 and 1.x of md begin with, as the little-endian machines write it.
const RAID: &[u8] = b"\xfc\x4e\x2b\xa9";

/// Bytes at an offset; from the end of the device when negative.
#[derive(Clone, Copy, Debug)]
pub struct Magic {
    /// What has them.
    pub name: &'static str,
    /// Where.
    pub offset: i64,
    /// What they are.
    pub bytes: &'static [u8],
}

/// All that are known.
#[rustfmt::skip]
pub const MAGICS: &[Magic] = &[
    Magic { name: "an ext2, ext3 or ext4 file system", offset: 0x438, bytes: b"S\xef" },
    Magic { name: "an xfs file system", offset: 0x0, bytes: b"XFSB" },
    Magic { name: "a btrfs file system", offset: 0x10040, bytes: b"_BHRfS_M" },
    Magic { name: "an f2fs file system", offset: 0x400, bytes: b"\x10 \xf5\xf2" },
    Magic { name: "an erofs file system", offset: 0x400, bytes: b"\xe2\xe1\xf5\xe0" },
    Magic { name: "a squashfs file system", offset: 0x0, bytes: b"hsqs" },
    Magic { name: "an ntfs file system", offset: 0x3, bytes: b"NTFS    " },
    Magic { name: "an exfat file system", offset: 0x3, bytes: b"EXFAT   " },
    Magic { name: "a fat file system", offset: 0x36, bytes: b"FAT" },
    Magic { name: "a fat file system", offset: 0x52, bytes: b"FAT32" },
    Magic { name: "an iso9660 file system", offset: 0x8001, bytes: b"CD001" },
    Magic { name: "a udf file system", offset: 0x8001, bytes: b"NSR0" },
    Magic { name: "a jfs file system", offset: 0x8000, bytes: b"JFS1" },
    Magic { name: "a nilfs2 file system", offset: 0x406, bytes: b"44" },
    Magic { name: "a reiserfs file system", offset: 0x10034, bytes: b"ReIsEr" },
    Magic { name: "a bcache device or a bcachefs file system", offset: 0x1018, bytes: b"\xc6\x85s\xf6N\x1aE\xca\x82e\xf5\x7fH\xbam\x81" },
    Magic { name: "a gfs2 file system", offset: 0x10000, bytes: b"\x01\x16\x19p" },
    Magic { name: "an ocfs2 file system", offset: 0x2000, bytes: b"OCFSV2" },
    Magic { name: "a zfs pool", offset: 0x20000, bytes: b"\x0c\xb1\xba\x00" },
    Magic { name: "a zfs pool", offset: 0x21000, bytes: b"\x0c\xb1\xba\x00" },
    Magic { name: "swap space", offset: 0xff6, bytes: b"SWAPSPACE2" },
    Magic { name: "swap space", offset: 0xff6, bytes: b"SWAP-SPACE" },
    Magic { name: "swap space", offset: 0xfff6, bytes: b"SWAPSPACE2" },
    Magic { name: "a LUKS volume", offset: 0x0, bytes: b"LUKS\xba\xbe" },
    Magic { name: "a member of an LVM group", offset: 0x0, bytes: b"LABELONE" },
    Magic { name: "a member of an LVM group", offset: 0x200, bytes: b"LABELONE" },
    Magic { name: "a member of an LVM group", offset: 0x400, bytes: b"LABELONE" },
    Magic { name: "a member of an LVM group", offset: 0x600, bytes: b"LABELONE" },
    Magic { name: "a member of a RAID", offset: 0x0, bytes: b"\xfcN+\xa9" },
    Magic { name: "a member of a RAID", offset: 0x1000, bytes: b"\xfcN+\xa9" },
    Magic { name: "a member of a RAID", offset: -0x2000, bytes: b"\xfcN+\xa9" },
    Magic { name: "a member of a RAID", offset: -0x10000, bytes: b"\xfcN+\xa9" },
    Magic { name: "a GPT partition table", offset: 0x200, bytes: b"EFI PART" },
    Magic { name: "a GPT partition table", offset: 0x1000, bytes: b"EFI PART" },
    Magic { name: "a boot sector or partition table", offset: 0x1fe, bytes: b"U\xaa" },
];

/// What lies on a device; `None`: nothing that is known. `read_at(offset, length)` gives bytes of it.
///
/// # Errors
/// What `read_at` fails with.
pub fn signature_of<E>(
    read_at: &mut dyn FnMut(u64, u64) -> Result<Vec<u8>, E>,
    size_bytes: u64,
) -> Result<Option<&'static str>, E> {
    if size_bytes == 0 {
        return Ok(None);
    }
    let head = read_at(0, READ_BYTES.min(size_bytes))?;
    let begin = size_bytes.saturating_sub(END_BYTES);
    let tail = read_at(begin, size_bytes - begin)?;
    for magic in MAGICS {
        let (held, at) = match usize::try_from(magic.offset) {
            Ok(at) => (&head, Some(at)),
            Err(_) => (&tail, tail.len().checked_sub(magic.offset.unsigned_abs() as usize)),
        };
        if at.and_then(|at| held.get(at..)).is_some_and(|there| there.starts_with(magic.bytes)) {
            return Ok(Some(magic.name));
        }
    }
    // The 0.90 format of md lies in the last whole 64 KiB block but one (Documentation/admin-guide/md.rst).
    let old = (size_bytes & !0xffff).checked_sub(0x10000).and_then(|at| at.checked_sub(begin));
    let old = old.and_then(|at| tail.get(at as usize..));
    Ok(old.filter(|there| there.starts_with(RAID)).map(|_| "a member of a RAID"))
}
