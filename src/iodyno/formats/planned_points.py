"""Check of every point of a design over its connections, before a host is opened: of designs which say themselves
which levels meet, that is known when they are planned.
"""

from __future__ import annotations

from iodyno.core.design import Design
from iodyno.core.experiment import Experiment
from iodyno.formats import yaml_document
from iodyno.formats.connection_points import place_of, wrong_at
from iodyno.formats.factor_points import varied_at
from iodyno.formats.mistakes import Mistake, dotted, error


def refuse_connections(experiment: Experiment, design: Design, file: str) -> None:
    """Raises ExperimentError, with every mistake and its line in the file, where a point cannot be had."""
    workload = experiment.workload
    varied = varied_at({factor.name: factor for factor in experiment.factors})
    found = {
        (place_of(names, varied, workload.settings, experiment.tunables), text)
        for point in design.points
        for names, text in wrong_at(workload, experiment.settings(point.levels), experiment.hosts)
    }
    if found:
        top, _ = yaml_document.read(experiment.text, {})
        raise error(file, [Mistake(top.line_of(place), dotted(place), text) for place, text in found])
