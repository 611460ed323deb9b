"""Engines of fio that make files or directories, ask for them or remove them, as personalities."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FLOWOPS = {
    "filecreate": "flowop createfile name=create,filesetname=files,fd=1\n    flowop closefile name=close,fd=1",
    "filestat": "flowop statfile name=stat,filesetname=files",
    "filedelete": "flowop deletefile name=delete,filesetname=files",
    "dircreate": "flowop makedir name=create,filesetname=files",
    "dirdelete": "flowop removedir name=delete,filesetname=files",
}
FILE_ENGINES = tuple(_FLOWOPS)
_OF_DIRECTORIES = ("dircreate", "dirdelete")
_UNTIL_DONE = ("filecreate", "filedelete", *_OF_DIRECTORIES)


@dataclass(frozen=True)
class WholeFiles:
    """An engine, how many files (or directories) of which size it has, and by how many threads."""

    engine: str
    directory: str
    count: int
    threads: int
    size_bytes: int

    def alike(self, other: WholeFiles) -> bool:
        """Tell whether both can be one program."""
        mine, theirs = (
            (each.engine, each.directory, each.count // each.threads, each.size_bytes)
            for each in (self, other)
        )
        return mine == theirs

    def personality(self, name: str) -> str:
        """The text of a personality that does it."""
        made = "" if self.engine in ("filecreate", "dircreate") else ",prealloc"
        mode = "set mode quit alldone\n" if self.engine in _UNTIL_DONE else ""
        of = "entries=$nfiles,size=$filesize"
        if self.engine in _OF_DIRECTORIES:
            of = "leafdirs=$nfiles"
        return (
            f"set $nfiles={self.count}\nset $nthreads={self.threads}\nset $filesize={self.size_bytes}\n{mode}"
            f"define fileset name=files,path={_quoted(self.directory)},{of},dirwidth=1000000{made}\n"
            f"define process name={_quoted(name)}\n{{\n  thread name=worker,instances=$nthreads\n  {{\n"
            f"    {_FLOWOPS[self.engine]}\n  }}\n}}\n"
        )


def _quoted(text: str) -> str:
    return '"' + re.sub(r'(["\\$])', r"\\\1", text) + '"'
