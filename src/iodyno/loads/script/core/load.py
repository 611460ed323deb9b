"""Parameters of a script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iodyno.core.workload import Workload
from iodyno.loads.base.core import Load
from iodyno.loads.script.core.parameters import WORKLOAD, workload_of, workload_of_kinds


class ScriptLoad(Load):
    """Parameters of a script, which has variables of its own."""

    def of_content(self, content: Any) -> Workload:
        """Return the workload with the script's variables as parameters."""
        return workload_of(content) if content is not None else self.workload

    def of_variables(self, variables: Mapping[str, Any]) -> Workload:
        """Return the same, of variables whose kinds are known."""
        return workload_of_kinds(variables)


LOADS = {WORKLOAD.name: ScriptLoad(WORKLOAD)}
