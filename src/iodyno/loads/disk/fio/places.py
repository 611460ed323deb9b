"""Files, sizes and offsets that a section of a job file reads and writes, and the share of reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iodyno.core import quantity
from iodyno.core.invalid import found, invalid
from iodyno.core.quantity import counted
from iodyno.formats.mistakes import unknown
from iodyno.loads.disk.fio import numbers
from iodyno.loads.disk.fio.ini import Section
from iodyno.loads.disk.fio.reading import SectionReading, WrongError
from iodyno.loads.disk.fio.targets import MOST_FILES, Targets, names_of

PATTERNS: Mapping[str, tuple[bool, float]] = {
    "read": (False, 100.0),
    "write": (False, 0.0),
    "randread": (True, 100.0),
    "randwrite": (True, 0.0),
    "rw": (False, 50.0),
    "readwrite": (False, 50.0),
    "randrw": (True, 50.0),
}
"""Patterns of fio: True for random places, and the share of reads in per cent."""
_TRIMS = ("trim", "randtrim", "trimwrite", "randtrimwrite")


def _bytes_of(path: str) -> int:
    """The length of a file or device. Raises OSError."""
    with Path(path).open("rb") as file:
        return file.seek(0, os.SEEK_END)


class PlaceReading(SectionReading):
    """One section, and the files that others of the job file use."""

    def __init__(self, section: Section, targets: Targets) -> None:
        super().__init__(section)
        self.targets = targets

    def reads(self) -> float:
        """The share of reads in percent. Raises WrongError with a mistake noted."""
        kind = self.word("rw", "read").lower().partition(":")[0]
        key = self.keys.get("rw")
        if kind in _TRIMS:
            self.note(
                key,
                f"invalid value {found(kind)}: it discards blocks of a device (of a file, fio fails) "
                f"and is not carried; expected {', '.join(PATTERNS)}",
            )
            raise WrongError
        if kind not in PATTERNS:
            self.note(key, unknown(kind, PATTERNS))
            raise WrongError
        reads = PATTERNS[kind][1]
        mix = self.last("rwmixread", "rwmixwrite")
        if mix is not None and reads != 50.0:
            self.say(f"{mix.name} is without effect: rw={self.word('rw', 'read')} is no mix")
        if reads != 50.0 or mix is None:
            return reads
        if mix is self.keys.get("rwmixread"):
            return self.get("rwmixread", numbers.whole_percent, 50.0)
        return 100 - self.get("rwmixwrite", numbers.whole_percent, 50.0)

    def places(self, engine: str, numjobs: int) -> dict[str, Any]:
        """Target, size, offset, and who has which part."""
        if engine == "null":
            return {"target": "null", "working_set": quantity.show("size", self.size("size") or 1 << 30)}
        own, paths = self.paths()
        path = paths[0]
        size = self.size("filesize") if "filesize" in self.keys and "-" not in self.word("filesize") else None
        if "filesize" in self.keys and size is None and not self.wrong:
            self.note(self.keys["filesize"], "a range of sizes is not carried: name one size")
        shares = [name for name in ("size", "offset") if "%" in self.word(name)]
        whole = self.whole(paths, size, shares)
        block = self.block_bytes(self.reads())
        if "size" in shares:
            size = self.share("size", whole) // block * block
        elif "size" in self.keys and size is None:
            size = self.size("size")
        elif "size" in self.keys:
            self.say(
                "filesize says how much of the file is used, and size only when the job is over, as in fio"
            )
        if size is not None and len(paths) > 1 and not {"filesize", *shares} & {*self.keys}:
            # The size is that of all files of a job together.
            size //= len(paths)
            self.say(
                f"{len(paths)} files or devices of {quantity.show('size', size)} each, which are used in turn"
            )
        if size is None and not {"size", "filesize"} & {*self.keys} and not path.startswith("/dev/"):
            size = self.there(paths)
        settings: dict[str, Any] = {"target": ", ".join(paths)}
        begin = self.share("offset", whole) if "offset" in shares else self.size("offset", 0) or 0
        offset = -(-begin // block) * block if "offset" in shares else begin
        if whole:
            if offset >= whole:
                self.note(
                    self.keys["offset"],
                    f"invalid value: {offset} bytes; expected less than the {whole} of the file",
                )
            size = min(size or whole, whole - offset)
        increment = self.size("offset_increment", 0) or 0
        if numjobs > 1:
            settings["sequence"] = "each"
            if increment and size:
                if increment != size:
                    self.note(
                        self.keys["offset_increment"],
                        invalid(
                            increment,
                            f"as many bytes as size ({size}), so that each job has a part of its own",
                        ),
                    )
                size, settings["sequence"] = size * numjobs, "split"
            elif own and size:
                self.say(
                    f"numjobs={numjobs}: one file of {numjobs} times the size, of which each worker has a part, for a file each"
                )
                size, settings["sequence"] = size * numjobs, "split"
        if size is not None:
            settings["working_set"] = quantity.show("size", size)
        if offset:
            settings["offset"] = quantity.show("size", offset)
        return settings

    def whole(self, paths: list[str], size: int | None, shares: list[str]) -> int:
        """Bytes of each file or device, which some options are shares of; 0: none are, or a mistake is noted."""
        if size or not shares:
            return size or 0
        try:
            return min(map(_bytes_of, paths))
        except OSError:
            key = self.keys[shares[0]]
            text = (
                f"invalid value {found(key.value)}: a share of a file that is not there yet; expected "
                "a size, or a filesize beside it"
            )
            self.note(key, text)
            return 0

    def share(self, name: str, whole: int) -> int:
        """Bytes of an option that is a share."""
        return self.get(
            name,
            lambda written: int(whole * numbers.whole_percent(written.strip().removesuffix("%")) // 100),
            0,
        )

    def there(self, paths: list[str]) -> int | None:
        """The least size of files that are there already. Notes a mistake where one is not."""
        try:
            sizes = [Path(path).stat().st_size for path in paths]
        except OSError:
            sizes = [0]
        if not min(sizes):
            self.note(self.keys.get("filename"), "missing size: expected size=1g for a file")
            return None
        self.say("there is no size: the file is used as long as it is")
        return min(sizes) // 512 * 512

    def paths(self) -> tuple[bool, list[str]]:
        """Return whether each job has files of its own, and the paths of its targets."""
        written, directory = self.word("filename"), self.word("directory")
        if ":" in directory:
            self.note(
                self.keys["directory"],
                f"invalid value {found(directory)}: several directories, which are not carried; expected one",
            )
            raise WrongError
        count = self.at_least_one("nrfiles")
        if count > MOST_FILES:
            self.note(
                self.keys["nrfiles"],
                invalid(
                    count,
                    (
                        f"1 to {MOST_FILES}; a personality of Filebench has filesets "
                        "(docs/guides/filebench.md)"
                    ),
                ),
            )
            raise WrongError
        own, names = names_of(self.section, count)
        if not own and "nrfiles" in self.keys and count != len(names):
            self.say(f"nrfiles={count} is without effect: the job names its files, as in fio")
        before = self.section.inherited.get("filename")
        if before is not None and before is not self.keys.get("filename"):
            self.say(f"filename adds to that of [global], as in fio: {', '.join(names)}")
        try:
            placed = [self.targets.path(name, directory) for name in names]
        except ValueError as problem:
            self.note(self.keys.get("filename"), str(problem))
            raise WrongError from None
        if len({path for path, _ in placed}) < len(placed):
            text = (
                f"invalid value {found(written)}: one file twice to fio, each time with a part of "
                "size; expected each file once"
            )
            self.note(self.keys["filename"], text)
            raise WrongError
        if len(placed) > 1:
            self.all_in_turn(len(placed))
        said = [note for _, note in placed if note]
        if said:
            self.say(said[0] + (f" (and {counted(len(said) - 1, 'more file')})" if len(said) > 1 else ""))
        return own, [path for path, _ in placed]

    def all_in_turn(self, files: int) -> None:
        """Notes what uses several files otherwise than one block of each in turn."""
        if (service := self.word("file_service_type", "roundrobin").lower()) not in (
            "roundrobin",
            "roundrobin:1",
        ):
            text = (
                f"invalid value {found(service)}: an order of {files} files that is not carried; "
                "expected roundrobin"
            )
            self.note(self.keys["file_service_type"], text)
        if self.count("openfiles", files) < files:
            text = (
                f"invalid value: less than all {files} files, which are open at a time here; expected {files}"
            )
            self.note(self.keys["openfiles"], text)
