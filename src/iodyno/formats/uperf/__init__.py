"""Profiles of uperf: XML in, `iodyno.core.script.values.Script` out, or one error with every mistake."""

from iodyno.formats.uperf.conversion import converted
from iodyno.formats.uperf.experiment import experiment_keys, host_notes
from iodyno.formats.uperf.profile import (
    MAX_BYTES,
    Profile,
    is_profile,
    parse_profile,
    read_profile,
    script_of,
)
from iodyno.formats.uperf.variables import values_of

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
