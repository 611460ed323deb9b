"""Parts that strategies share: the trials of a campaign as an analysis reads them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from iodyno.campaign.strategy import TrialResult

if TYPE_CHECKING:
    from iodyno.analysis.dataset import Dataset
    from iodyno.analysis.trial import Trial


class Measured:
    """The campaign in a folder, read again only when a trial was told of that is not in what was read before."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._dataset: Dataset | None = None

    def dataset(self, results: Iterable[TrialResult]) -> Dataset:
        """The dataset that has all of these trials."""
        # Imported here: slow, and not needed while the load is on.
        from iodyno.analysis.dataset import read_dataset

        names = {trial.folder.name for trial in results if trial.folder}
        if self._dataset is None or names - {trial.name for trial in self._all(self._dataset)}:
            self._dataset = read_dataset(self._folder)
        return self._dataset

    def trial(self, result: TrialResult) -> Trial | None:
        """One of them; None where nothing is stored of it."""
        name = result.folder.name if result.folder else None
        return next((trial for trial in self._all(self.dataset([result])) if trial.name == name), None)

    @staticmethod
    def _all(dataset: Dataset) -> list[Trial]:
        return [*dataset.trials, *dataset.proofs]


def outcome(result: TrialResult, name: str) -> float | None:
    """An outcome of a trial, such as `goodput_bits_per_s`; None where it has none."""
    from iodyno.analysis.outcomes import OF_TRIAL

    trial = Measured(result.folder.parents[1]).trial(result) if result.folder else None
    return OF_TRIAL[name](trial).value if trial and trial.finished else None
