"""NFSv3 over TCP: Ganesha exports a folder, whose image the client daemon opens."""

from __future__ import annotations

import shlex
from pathlib import Path

from iodyno.paths.volumes import daemon, server
from iodyno.paths.volumes.server import Export
from iodyno.paths.volumes.volume import Place, Volume, program, start, wait_until

PORT, MOUNT_PORT = 2049, 20048

_CONFIGURATION = """\
NFS_KRB5 {{ Active_krb5 = false; }}
NFS_CORE_PARAM {{
  Bind_addr = {address}; NFS_Port = {port}; MNT_Port = {mount_port};
  Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; Protocols = 3,4; mount_path_pseudo = true;
}}
NFSV4 {{ Graceless = true; RecoveryRoot = "{recovery}"; }}
EXPORT {{
  Export_Id = 1; Path = "{path}"; Pseudo = /disk; Access_Type = RW; Squash = no_root_squash;
  SecType = sys; Transports = TCP; Protocols = 3,4; PrivilegedPort = false; FSAL {{ Name = VFS; }}
}}
"""
_WITH_PORTMAPPER = (
    "mount -t tmpfs none /run && mkdir -p /run/rpcbind && { rpcbind -f & } && "
    "for i in 1 2 3 4 5 6 7 8 9 10; do [ -S /run/rpcbind.sock ] && break; sleep 0.1; done; exec"
)
"""Ganesha serves NFSv3 only where it reaches a port mapper, which gets a /run of its own beside it."""


def unavailable() -> str | None:
    """Why there is none; None: there is."""
    if why := server.unavailable() or program("ganesha.nfsd", "nfs-ganesha nfs-ganesha-vfs"):
        return why
    if why := program("rpcbind", "rpcbind"):
        return why
    if not Path("/usr/lib/x86_64-linux-gnu/ganesha/libfsalvfs.so").exists():
        return "Ganesha has no VFS (Debian: apt-get install nfs-ganesha-vfs)"
    if not Path("/etc/services").exists():
        return "clients look the service nfs up in /etc/services (Debian: apt-get install netbase)"
    return (
        None
        if (daemon.BLOCKS / "block-nfs.so").exists()
        else "no NFS client (Debian: apt-get install qemu-block-extra)"
    )


async def make(place: Place) -> Volume:
    """Makes the server and its client."""
    return await server.make("nfs", place, _serve)


async def _serve(volume: Volume, place: Place, export: Export) -> str:
    above = export.folder.parent
    recovery = above / "recovery"
    recovery.mkdir()
    configuration = above / "ganesha.conf"
    configuration.write_text(
        _CONFIGURATION.format(
            address=export.address, port=PORT, mount_port=MOUNT_PORT, recovery=recovery, path=export.folder
        ),
        encoding="utf-8",
    )
    export.image.chmod(0o666)
    words = [
        "ganesha.nfsd",
        "-F",
        "-f",
        configuration,
        "-L",
        export.log,
        "-N",
        "NIV_WARN",
        "-p",
        above / "ganesha.pid",
    ]
    serve = f"{_WITH_PORTMAPPER} {shlex.join(map(str, words))}"
    # A process namespace, so that the port mapper ends with the server.
    command = [
        "unshare",
        "-m",
        "--propagation",
        "private",
        "-p",
        "-f",
        "--kill-child",
        "--mount-proc",
        "sh",
        "-c",
        serve,
    ]
    process = await start(volume.note, command, namespace=export.namespace, log=export.log)
    server.add(volume, process)
    await wait_until(
        lambda: server.listens(process.pid, PORT) and server.listens(process.pid, MOUNT_PORT),
        process,
        "ganesha.nfsd",
        export.log,
    )
    return f"driver=nfs,server.type=inet,server.host={export.address},path=/disk/image,user=0,group=0"
