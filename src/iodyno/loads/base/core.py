"""Questions of every layer to a load: its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iodyno.core.workload import Workload


class Load:
    """The parameters of a kind of load."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload

    def of_content(self, content: Any) -> Workload:
        """Return the workload with the parameters of its content: those of a script or a personality are its variables."""
        return self.workload

    def of_variables(self, variables: Mapping[str, Any]) -> Workload:
        """Return the same, of variables whose kinds are known."""
        return self.workload
