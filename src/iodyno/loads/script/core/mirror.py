"""The other end of a script: what uperf's slave does while its master follows the profile.

Only one end's flowops are written down. The other end does the opposite of each, in the same order, with the same
options: it reads where this one writes, and takes the connection where this one opens it.

>>> from iodyno.loads.script.core.values import Flowop
>>> mirrored_flowop(Flowop("sendfile", {"dir": "/srv", "size": 8192, "rsize": 1024}))
Flowop(kind='read', options={'size': 8192, 'call': 1024}, line=0)
"""

from __future__ import annotations

from dataclasses import replace

from iodyno.loads.script.core.flowops import FLOWOPS, OPENING
from iodyno.loads.script.core.values import Flowop, Group, Script, Transaction

CALL = "call"
"""Option of the other end alone: bytes of one call, which a profile calls `rsize`."""

_STAYS_HERE = ("dir", "nfiles", "rsize", "remotehost", "localhost", "port")


def mirrored(script: Script) -> Script:
    """Return the script of the other end."""
    return replace(script, groups=tuple(map(_group, script.groups)))


def _group(group: Group) -> Group:
    return replace(group, transactions=tuple(map(_transaction, group.transactions)))


def _transaction(transaction: Transaction) -> Transaction:
    return replace(transaction, flowops=tuple(map(mirrored_flowop, transaction.flowops)))


def mirrored_flowop(flowop: Flowop) -> Flowop:
    """The opposite of one flowop. Streams of SCTP that come in here go out there."""
    opposite = {"sctp_in_streams": "sctp_out_streams", "sctp_out_streams": "sctp_in_streams"}
    options = {
        opposite.get(name, name) if flowop.kind in OPENING else name: value
        for name, value in flowop.options.items()
        if name not in _STAYS_HERE
    }
    if "rsize" in flowop.options:
        options[CALL] = flowop.options["rsize"]
    return replace(flowop, kind=FLOWOPS[flowop.kind].mirror, options=options)
