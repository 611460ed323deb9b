"""Analysis of a script."""

from iodyno.core.outcome import not_of
from iodyno.loads.base.analysis import Load

LOADS = {"script": Load(not_of("script"))}
