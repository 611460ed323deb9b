"""The command that goes on with a campaign, as a shell takes it: what every error of a campaign that was stopped advises."""

from __future__ import annotations

import shlex
from pathlib import Path


def again(command: str, file: Path | str, folder: Path, **options: object) -> str:
    """`iodyno COMMAND FILE --resume FOLDER`, quoted where that is needed, with the options that the next start needs, too.

    An option that is True stands without a value, one that is False, None or empty is left out, and one of several values is
    repeated.

    >>> again("run", "a.yaml", Path("sp ace"), prove=True, destroy=("/dev/sdb", "/dev/sdc"), remove=False)
    "iodyno run a.yaml --prove --destroy /dev/sdb --destroy /dev/sdc --resume 'sp ace'"
    """
    words = ["iodyno", command, str(file)]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
            continue
        values = value if isinstance(value, (list, tuple)) else () if value in (None, False, "") else (value,)
        for one in values:
            words += [option, f"{one:g}" if isinstance(one, float) else str(one)]
    return shlex.join([*words, "--resume", str(folder)])
