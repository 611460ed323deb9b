"""What is stored is on the disk before it has its name, and the name is there after it: a power cut takes neither."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from made_campaign import Layout, Truth, make_campaign

Event = tuple[str, Path]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """What is put on the disk ("synced"), and what gets its name ("named"), in order."""
    seen: list[Event] = []
    fsync, rename, replace = os.fsync, os.rename, os.replace

    def synced(descriptor: int) -> None:
        fsync(descriptor)
        seen.append(("synced", Path(f"/proc/self/fd/{descriptor}").readlink()))

    def renamed(old: Path, new: Path) -> None:
        # The folder of a trial is synced under its partial name, and so are the files in it.
        seen.extend(("in it", path) for path in (Path(old), *Path(old).rglob("*")) if path.exists())
        rename(old, new)
        seen.append(("named", Path(new)))

    def replaced(old: Path, new: Path) -> None:
        seen.append(("in it", Path(old)))
        replace(old, new)
        seen.append(("named", Path(new)))
        if ("synced", Path(old)) in seen:
            seen.append(("synced", Path(new)))

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    monkeypatch.setattr(os, "replace", replaced)
    return seen


def test_every_file_and_folder_is_on_the_disk_before_it_is_named_and_its_name_after(
    events: list[Event], tmp_path: Path
) -> None:
    made = make_campaign(tmp_path / "c", [({}, Truth())], layout=Layout(replicates=1, intervals=2))
    named = [(number, path) for number, (what, path) in enumerate(events) if what == "named"]
    assert {path for _, path in named} >= {made / "trials" / "00000-1", made / "campaign.json"}
    for number, path in named:
        synced = {each for what, each in events[:number] if what == "synced"}
        begun = max((at for at, _ in named if at < number), default=-1)
        inside = [each for what, each in events[begun + 1 : number] if what == "in it"]
        assert inside and not [each for each in inside if each not in synced], path
        assert ("synced", path.parent) in events[number:], f"the name of {path}"
