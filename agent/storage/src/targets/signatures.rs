//! What lies on a block device, by the magic numbers that file systems and volume managers put there.
//!
//! Offsets and numbers are those of each format's own description (in the kernel: `include/uapi/linux/magic.h` and the
//! super-block structures of `fs/*`; UEFI 2.10, 5.3.2 for GPT; SNIA's Common RAID Disk Data Format 2.0, 5.3, for DDF) and those that
//! libblkid documents. What is not known here may still be there: a device that somebody
//! has open for himself is told by opening it, not by its content.

/// The first bytes of a device that are looked at: VMFS begins 2 MiB behind its begin.
const READ_BYTES: u64 = (2 << 20) + 4096;
/// Its last ones: where some RAID formats keep theirs.
const END_BYTES: u64 = 192 * 1024;
/// What the formats 0.90 and 1.x of md begin with, as the little-endian machines write it.
const RAID: &[u8] = b"\xfc\x4e\x2b\xa9";

/// What the last ten bytes of the first page of swap space say: in use as such, or with a system that sleeps in it (`kernel/power`,
/// uswsusp, TuxOnIce). It has the page length of the machine that made it.
pub const SWAPS: &[(&str, &[u8])] = &[
    ("swap space", b"SWAPSPACE2"),
    ("swap space", b"SWAP-SPACE"),
    ("a hibernated system in swap space", b"S1SUSPEND"),
    ("a hibernated system in swap space", b"S2SUSPEND"),
    ("a hibernated system in swap space", b"ULSUSPEND"),
    ("a hibernated system in swap space", b"LINHIB0001"),
    ("a hibernated system in swap space", b"\xed\xc3\x02\xe9\x98V\xe5\x0c"),
];
/// Lengths of pages.
pub const PAGES_BYTES: [usize; 5] = [4096, 8192, 16_384, 32_768, 65_536];

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
    Magic { name: "a LUKS volume", offset: 0x0, bytes: b"LUKS\xba\xbe" },
    Magic { name: "a member of an LVM group", offset: 0x0, bytes: b"LABELONE" },
    Magic { name: "a member of an LVM group", offset: 0x200, bytes: b"LABELONE" },
    Magic { name: "a member of an LVM group", offset: 0x400, bytes: b"LABELONE" },
    Magic { name: "a member of an LVM group", offset: 0x600, bytes: b"LABELONE" },
    Magic { name: "a member of a RAID", offset: 0x0, bytes: b"\xfcN+\xa9" },
    Magic { name: "a member of a RAID", offset: 0x1000, bytes: b"\xfcN+\xa9" },
    Magic { name: "a member of a RAID", offset: -0x2000, bytes: b"\xfcN+\xa9" },
    Magic { name: "a member of a RAID", offset: -0x10000, bytes: b"\xfcN+\xa9" },
    Magic { name: "a ceph bluestore device", offset: 0x0, bytes: b"bluestore block device" },
    Magic { name: "a stratis pool", offset: 0x210, bytes: b"!Stra0tis\x86\xff\x02^Arh" },
    Magic { name: "a stratis pool", offset: 0x1210, bytes: b"!Stra0tis\x86\xff\x02^Arh" },
    Magic { name: "a vdo volume", offset: 0x0, bytes: b"dmvdo001" },
    Magic { name: "an oracle asm disk", offset: 0x20, bytes: b"ORCLDISK" },
    Magic { name: "an apfs container", offset: 0x20, bytes: b"NXSB" },
    Magic { name: "a vmfs volume", offset: 0x100000, bytes: b"\x0d\xd0\x01\xc0" },
    Magic { name: "a vmfs file system", offset: 0x200000, bytes: b"^\xf1\xab/" },
    Magic { name: "a cramfs file system", offset: 0x0, bytes: b"E=\xcd(" },
    Magic { name: "a cramfs file system", offset: 0x0, bytes: b"(\xcd=E" },
    Magic { name: "a cramfs file system", offset: 0x200, bytes: b"E=\xcd(" },
    Magic { name: "a romfs file system", offset: 0x0, bytes: b"-rom1fs-" },
    Magic { name: "a squashfs file system", offset: 0x0, bytes: b"sqsh" },
    Magic { name: "a minix file system", offset: 0x410, bytes: b"\x7f\x13" },
    Magic { name: "a minix file system", offset: 0x410, bytes: b"\x8f\x13" },
    Magic { name: "a minix file system", offset: 0x410, bytes: b"h$" },
    Magic { name: "a minix file system", offset: 0x410, bytes: b"x$" },
    Magic { name: "a minix file system", offset: 0x410, bytes: b"\x13\x7f" },
    Magic { name: "a minix file system", offset: 0x410, bytes: b"\x13\x8f" },
    Magic { name: "a minix file system", offset: 0x410, bytes: b"$h" },
    Magic { name: "a minix file system", offset: 0x410, bytes: b"$x" },
    Magic { name: "a minix file system", offset: 0x418, bytes: b"ZM" },
    Magic { name: "a minix file system", offset: 0x418, bytes: b"MZ" },
    Magic { name: "an hfs file system", offset: 0x400, bytes: b"BD" },
    Magic { name: "an hfs+ file system", offset: 0x400, bytes: b"H+\0\x04" },
    Magic { name: "an hfs+ file system", offset: 0x400, bytes: b"HX\0\x05" },
    Magic { name: "a ufs1 file system", offset: 0x55c, bytes: b"T\x19\x01\0" },
    Magic { name: "a ufs1 file system", offset: 0x55c, bytes: b"\0\x01\x19T" },
    Magic { name: "a ufs2 file system", offset: 0x55c, bytes: b"\x19\x01T\x19" },
    Magic { name: "a ufs2 file system", offset: 0x55c, bytes: b"\x19T\x01\x19" },
    Magic { name: "a ufs1 file system", offset: 0x255c, bytes: b"T\x19\x01\0" },
    Magic { name: "a ufs1 file system", offset: 0x255c, bytes: b"\0\x01\x19T" },
    Magic { name: "a ufs2 file system", offset: 0x255c, bytes: b"\x19\x01T\x19" },
    Magic { name: "a ufs2 file system", offset: 0x255c, bytes: b"\x19T\x01\x19" },
    Magic { name: "a ufs1 file system", offset: 0x1055c, bytes: b"T\x19\x01\0" },
    Magic { name: "a ufs1 file system", offset: 0x1055c, bytes: b"\0\x01\x19T" },
    Magic { name: "a ufs2 file system", offset: 0x1055c, bytes: b"\x19\x01T\x19" },
    Magic { name: "a ufs2 file system", offset: 0x1055c, bytes: b"\x19T\x01\x19" },
    Magic { name: "a ufs1 file system", offset: 0x4055c, bytes: b"T\x19\x01\0" },
    Magic { name: "a ufs1 file system", offset: 0x4055c, bytes: b"\0\x01\x19T" },
    Magic { name: "a ufs2 file system", offset: 0x4055c, bytes: b"\x19\x01T\x19" },
    Magic { name: "a ufs2 file system", offset: 0x4055c, bytes: b"\x19T\x01\x19" },
    Magic { name: "a vxfs file system", offset: 0x400, bytes: b"\xf5\xfc\x01\xa5" },
    Magic { name: "a befs file system", offset: 0x20, bytes: b"1SFB" },
    Magic { name: "a befs file system", offset: 0x220, bytes: b"1SFB" },
    Magic { name: "a reiser4 file system", offset: 0x10000, bytes: b"ReIsEr4" },
    Magic { name: "a refs file system", offset: 0x0, bytes: b"\0\0\0ReFS\0" },
    Magic { name: "a BitLocker volume", offset: 0x3, bytes: b"-FVE-FS-" },
    Magic { name: "a dm-verity hash device", offset: 0x0, bytes: b"verity\0\0" },
    Magic { name: "a dm-integrity device", offset: 0x0, bytes: b"integrt\0" },
    Magic { name: "a member of a RAID (DDF)", offset: -0x200, bytes: b"\xde\x11\xde\x11" },
    Magic { name: "a member of a RAID (DDF)", offset: -0x20200, bytes: b"\xde\x11\xde\x11" },
    Magic { name: "a member of a RAID (Intel)", offset: -0x400, bytes: b"Intel Raid ISM Cfg Sig. " },
    Magic { name: "a GPT partition table", offset: 0x200, bytes: b"EFI PART" },
    Magic { name: "a GPT partition table", offset: 0x1000, bytes: b"EFI PART" },
    Magic { name: "the backup of a GPT partition table", offset: -0x200, bytes: b"EFI PART" },
    Magic { name: "the backup of a GPT partition table", offset: -0x1000, bytes: b"EFI PART" },
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
    for (name, bytes) in SWAPS {
        let at = |page: &usize| head.get(page - 10..).is_some_and(|there| there.starts_with(bytes));
        if PAGES_BYTES.iter().any(at) {
            return Ok(Some(name));
        }
    }
    // The 0.90 format of md lies in the last whole 64 KiB block but one (Documentation/admin-guide/md.rst).
    let old = (size_bytes & !0xffff).checked_sub(0x10000).and_then(|at| at.checked_sub(begin));
    let old = old.and_then(|at| tail.get(at as usize..));
    Ok(old.filter(|there| there.starts_with(RAID)).map(|_| "a member of a RAID"))
}
