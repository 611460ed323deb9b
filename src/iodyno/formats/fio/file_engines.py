"""Engines of fio that make files, ask for them or remove them, as personalities."""

from __future__ import annotations

import re

_FLOWOPS = {
    "filecreate": "flowop createfile name=create,filesetname=files,fd=1\n    flowop closefile name=close,fd=1",
    "filestat": "flowop statfile name=stat,filesetname=files",
    "filedelete": "flowop deletefile name=delete,filesetname=files",
}


def personality(engine: str, name: str, directory: str, files: int, threads: int, size_bytes: int) -> str:
    """The text of a personality that does what the engine does to so many files in a directory."""
    made = "" if engine == "filecreate" else ",prealloc"
    mode = "" if engine == "filestat" else "set mode quit alldone\n"
    return (
        f"set $nfiles={files}\nset $nthreads={threads}\nset $filesize={size_bytes}\n{mode}"
        f"define fileset name=files,path={_quoted(directory)},size=$filesize,entries=$nfiles,dirwidth=1000000{made}\n"
        f"define process name={_quoted(name)}\n{{\n  thread name=worker,instances=$nthreads\n  {{\n"
        f"    {_FLOWOPS[engine]}\n  }}\n}}\n"
    )


def _quoted(text: str) -> str:
    return '"' + re.sub(r'(["\\$])', r"\\\1", text) + '"'
