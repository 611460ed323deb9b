"""The limiter of a point, as a cell, a sentence, a list of evidence and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iodyno.core.experiment import NO_SENSORS
from iodyno.core.limiter import UNKNOWN, Elasticity, Evidence, Finding, Proof, Suspect, kind_of
from iodyno.report.table import Cell

_SAID = {
    "proved": "proved",
    "contradicted": "contradicted",
    "not_testable": "not testable",
    "undecided": "undecided",
    "suspected": "by evidence",
}


@dataclass(frozen=True)
class Line:
    """One line of evidence: a suspect's name once, what was seen, and what would speak against it."""

    suspect: str
    signal: str
    seen: str
    threshold: str
    cite: str
    source: str
    refuted_by: str


def name_of(limiter: str) -> str:
    """A limiter or a signal as people read it: `receive window`, `client: CPU quota`, `client: idle ratio of CPUs`."""
    host, _, name = limiter.rpartition(".")
    words = " ".join(
        {"cpu": "CPU", "cpus": "CPUs", "io": "I/O", "nfs": "NFS"}.get(word, word) for word in name.split("_")
    )
    return f"{host}: {words}" if host else words


def short(finding: Finding) -> str:
    """For a cell of a table. Where trials of a point differ it is not known which, but that it is one of theirs."""
    if finding.name == UNKNOWN:
        either = " or ".join(name_of(name) for name, _ in finding.verdict.apart)
        return f"unknown: {either}" if either else "unknown"
    mark = "" if finding.status == "suspected" else f" ({_SAID[finding.status]})"
    return name_of(finding.name) + mark


def sentence(finding: Finding) -> str:
    """State the limiter, how it is known, and how far the rate follows it."""
    if not finding.verdict.trials:
        return "limiter: not known, no trial finished"
    if finding.name == UNKNOWN and (apart := finding.verdict.apart):
        each = ", ".join(f"{name_of(name)} in {count}" for name, count in apart)
        return f"limiter: unknown, trials of this point differ: {each} of {finding.verdict.trials}"
    if finding.name == UNKNOWN and finding.verdict.name in finding.contradicted:
        (refuted,) = [proof for proof in finding.proofs if proof.limiter == finding.verdict.name]
        named = name_of(refuted.limiter)
        return f"limiter: unknown, the evidence names {named}, and the experiment spoke against it ({refuted.why})"
    if blind(finding):
        return f"limiter: unknown, {NO_SENSORS}"
    if finding.name == UNKNOWN:
        first = nearest(finding)
        near = f"; nearest: {name_of(first.name)} in {first.held:.0%} of the intervals" if first else ""
        return f"limiter: unknown, no evidence holds in 80 % of the intervals{near}"
    said = f"limiter: {name_of(finding.name)}, {_SAID[finding.status]}"
    proof = next((proof for proof in finding.proofs if proof.limiter == finding.name), None)
    suspect = finding.verdict.suspect or next(iter(finding.verdict.ranked), None)
    shown = [proof.why] if proof else []
    if suspect is not None and suspect.name == finding.name:
        shown += [f"{_signal(evidence)} {_value(evidence)}" for evidence in suspect.evidence]
    return f"{said} ({'; '.join(shown)})" if shown else said


def _signal(evidence: Evidence) -> str:
    """A signal, of a metric that another program holds with its source."""
    return f"{evidence.signal} ({evidence.source})" if " " in evidence.source else evidence.signal


def nearest(finding: Finding) -> Suspect | None:
    """Return the suspect whose evidence held longest; None where it is none of the time, to the whole per cent that is shown."""
    first = next(iter(finding.verdict.ranked), None)
    return first if first is not None and round(100 * first.held) else None


def blind(finding: Finding) -> bool:
    """Tell whether nothing is known of what limits because no sensors were read."""
    return finding.name == UNKNOWN and any(text.endswith(NO_SENSORS) for text in finding.verdict.unseen)


def cell(point_id: str, finding: Finding) -> Cell:
    """The limiter of a point in a table, which leads to its evidence."""
    return Cell(short(finding), sentence(finding), f"evidence-{point_id}")


def lines(finding: Finding) -> list[Line]:
    """The evidence for every suspect: that which the verdict names first, those last that an experiment spoke against."""
    said = {proof.limiter: proof.verdict for proof in finding.proofs}
    order = sorted(
        finding.verdict.ranked,
        key=lambda suspect: (suspect.name != finding.name, said.get(suspect.name) == "contradicted"),
    )
    marks = {name: f" ({_SAID[verdict]})" for name, verdict in said.items()}
    return [
        Line(
            suspect=name_of(suspect.name) + marks.get(suspect.name, "") if number == 0 else "",
            signal=name_of(evidence.signal),
            seen=f"{_value(evidence)} in {evidence.over} of {evidence.windows} intervals",
            threshold=f"{'at least' if evidence.above else 'at most'} {evidence.threshold:g}",
            cite=evidence.cite,
            source=evidence.source,
            refuted_by=suspect.refuted_by if number == 0 else "",
        )
        for suspect in order
        for number, evidence in enumerate(suspect.evidence)
    ]


def finding_json(finding: Finding) -> dict[str, Any]:
    """As JSON has it: what the verdict rests on first, then every suspect and every test."""
    suspect = finding.verdict.suspect
    named = next((s for s in finding.verdict.ranked if s.name == finding.name), suspect)
    return {
        "name": finding.name,
        "verdict": finding.status,
        "elasticity": _elasticity(finding.elasticity),
        "evidence": [_evidence(evidence) for evidence in named.evidence] if named else [],
        "refuted_by": kind_of(finding.name).refuted_by,
        "ranked": [
            {
                "name": ranked.name,
                "score": round(ranked.score, 4),
                "held": round(ranked.held, 4),
                "refuted_by": ranked.refuted_by,
                "evidence": [_evidence(evidence) for evidence in ranked.evidence],
            }
            for ranked in finding.verdict.ranked
        ],
        "proofs": [_proof(proof) for proof in finding.proofs],
        "unseen": list(finding.verdict.unseen),
        "apart": dict(finding.verdict.apart),
    }


def _proof(proof: Proof) -> dict[str, Any]:
    return {
        "limiter": proof.limiter,
        "verdict": proof.verdict,
        "why": proof.why,
        "elasticity": _elasticity(proof.elasticity),
        "by_direction": {name: _elasticity(found) for name, found in proof.by_direction.items()},
    }


def _elasticity(found: Elasticity | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "estimate": found.estimate,
        "low": found.low,
        "high": found.high,
        "n": found.n,
        "method": found.method,
    }


def _evidence(evidence: Evidence) -> dict[str, Any]:
    return {
        "signal": evidence.signal,
        "value": evidence.value,
        "unit": evidence.unit,
        "threshold": evidence.threshold,
        "above": evidence.above,
        "over": evidence.over,
        "windows": evidence.windows,
        "source": evidence.source,
        "cite": evidence.cite,
    }


def _value(evidence: Evidence) -> str:
    if evidence.value is None:
        return "not measured"
    shown = f"{evidence.value:.3g}"
    return shown if evidence.unit == "1" else f"{shown} {evidence.unit}"
