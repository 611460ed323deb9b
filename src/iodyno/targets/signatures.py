"""What lies on a block device, by the magic numbers that file systems and volume managers put there.

Offsets and numbers are those of each format's own description (in the kernel: include/uapi/linux/magic.h and the
super-block structures of fs/*; UEFI 2.10, 5.3.2 for GPT). What is not known here may still be there: a device that somebody
has open for himself is told by opening it, not by its content.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

READ_BYTES = 160 * 1024
"""The first bytes of a device that are looked at."""
END_BYTES = 192 * 1024
"""Its last ones: where some RAID formats keep theirs."""


@dataclass(frozen=True)
class Magic:
    """Bytes at an offset; from the end of the device when negative."""

    name: str
    offset: int
    bytes: bytes


_BOOT = b"\x55\xaa"
MAGICS = (
    Magic("an ext2, ext3 or ext4 file system", 0x438, b"\x53\xef"),
    Magic("an xfs file system", 0, b"XFSB"),
    Magic("a btrfs file system", 0x10040, b"_BHRfS_M"),
    Magic("an f2fs file system", 0x400, b"\x10\x20\xf5\xf2"),
    Magic("an erofs file system", 0x400, b"\xe2\xe1\xf5\xe0"),
    Magic("a squashfs file system", 0, b"hsqs"),
    Magic("an ntfs file system", 3, b"NTFS    "),
    Magic("an exfat file system", 3, b"EXFAT   "),
    Magic("a fat file system", 54, b"FAT"),
    Magic("a fat file system", 82, b"FAT32"),
    Magic("an iso9660 file system", 0x8001, b"CD001"),
    Magic("a udf file system", 0x8001, b"NSR0"),
    Magic("a jfs file system", 0x8000, b"JFS1"),
    Magic("a nilfs2 file system", 0x406, b"\x34\x34"),
    Magic("a reiserfs file system", 0x10034, b"ReIsEr"),
    Magic(
        "a bcache device or a bcachefs file system", 0x1018, bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")
    ),
    Magic("a gfs2 file system", 0x10000, b"\x01\x16\x19\x70"),
    Magic("an ocfs2 file system", 0x2000, b"OCFSV2"),
    Magic("a zfs pool", 0x20000, b"\x0c\xb1\xba\x00"),
    Magic("a zfs pool", 0x21000, b"\x0c\xb1\xba\x00"),
    Magic("swap space", 4086, b"SWAPSPACE2"),
    Magic("swap space", 4086, b"SWAP-SPACE"),
    Magic("swap space", 65526, b"SWAPSPACE2"),
    Magic("a LUKS volume", 0, b"LUKS\xba\xbe"),
    Magic("a member of an LVM group", 0x000, b"LABELONE"),
    Magic("a member of an LVM group", 0x200, b"LABELONE"),
    Magic("a member of an LVM group", 0x400, b"LABELONE"),
    Magic("a member of an LVM group", 0x600, b"LABELONE"),
    Magic("a member of a RAID", 0, b"\xfc\x4e\x2b\xa9"),
    Magic("a member of a RAID", 0x1000, b"\xfc\x4e\x2b\xa9"),
    Magic("a member of a RAID", -0x2000, b"\xfc\x4e\x2b\xa9"),
    Magic("a member of a RAID", -0x10000, b"\xfc\x4e\x2b\xa9"),
    Magic("a GPT partition table", 0x200, b"EFI PART"),
    Magic("a GPT partition table", 0x1000, b"EFI PART"),
    Magic("a boot sector or partition table", 510, _BOOT),
)


def signature_of(read_at: Callable[[int, int], bytes], size_bytes: int) -> str | None:
    """What lies on a device; None: nothing that is known.

    `read_at(offset, length)` gives bytes of it, fewer at its end. Raises what that raises.
    """
    head = read_at(0, min(READ_BYTES, size_bytes))
    begin = max(0, size_bytes - END_BYTES)
    tail = read_at(begin, size_bytes - begin) if size_bytes else b""
    for magic in MAGICS:
        where, offset = (head, magic.offset) if magic.offset >= 0 else (tail, len(tail) + magic.offset)
        if offset >= 0 and where[offset : offset + len(magic.bytes)] == magic.bytes:
            return magic.name
    # The 0.90 format of md lies in the last whole 64 KiB block but one (Documentation/admin-guide/md.rst).
    old = (size_bytes & ~0xFFFF) - 0x10000 - begin
    if old >= 0 and tail[old : old + 4] == b"\xfc\x4e\x2b\xa9":
        return "a member of a RAID"
    return None
