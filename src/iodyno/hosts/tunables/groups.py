"""What a control group, and each one above it, says in its files."""

from __future__ import annotations

from iodyno.hosts.guard import Look

_NEAREST = r"""
look() {
  at=$1$2
  while [ "${#at}" -ge "${#1}" ]; do
    EACH
    at=${at%/*}
  done
}
while IFS=: read -r _ kinds path; do
  case ",$kinds," in
    ,,) look /sys/fs/cgroup "$path"; look /sys/fs/cgroup/unified "$path";;
    *,KIND,*) look "/sys/fs/cgroup/KIND" "$path";;
  esac
done < /proc/self/cgroup
"""


def nearest(kind: str, each: str) -> Look:
    """Look at the group of whoever looks, then at those above it, of a controller (version 1) or of all (version 2), by commands
    that find its folder in `$at`.
    """
    return {"run": ["sh", "-c", _NEAREST.replace("KIND", kind).replace("EACH", each)]}
