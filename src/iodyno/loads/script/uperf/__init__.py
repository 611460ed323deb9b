"""Profiles of uperf: XML in, `iodyno.loads.script.core.values.Script` out, or one error with every mistake."""

from iodyno.loads.script.uperf.conversion import converted
from iodyno.loads.script.uperf.experiment import experiment_keys, host_notes
from iodyno.loads.script.uperf.profile import (
    MAX_BYTES,
    Profile,
    is_profile,
    parse_profile,
    read_profile,
    script_of,
)
from iodyno.loads.script.uperf.variables import values_of

__all__ = [
    "MAX_BYTES",
    "Profile",
    "converted",
    "experiment_keys",
    "host_notes",
    "is_profile",
    "parse_profile",
    "read_profile",
    "script_of",
    "values_of",
]
