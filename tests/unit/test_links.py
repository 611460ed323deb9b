"""Links in the folder of a campaign, which may be somebody else's: what is written there never leaves it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from made_calls import receiver, sender
from made_campaign import Truth, make_campaign
from places import PROGRAM, Stopped, experiment
from places import run as run_simulated

from iodyno.cli.main import run
from iodyno.core.errors import StoreError

THEIRS = b"somebody else's\n"
WRITERS = {
    "report.html": ["report", "{c}"],
    "page.html": ["report", "{c}", "--html", "{at}"],
    "heat.svg": ["heatmap", "{c}", "-o", "{at}"],
    "heat.html": ["heatmap", "{c}", "-o", "{at}"],
    "calls.folded": ["profile", "{c}", "--format", "folded", "--output", "{at}"],
    "again.yaml": ["convert", "{profile}", "--force", "-o", "{at}"],
}
"""What commands write, by the file's name in the campaign."""
PROFILE = (
    '<profile name="p"><group nthreads="1"><transaction iterations="1"><flowop type="connect" '
    'options="remotehost=127.0.0.1 protocol=tcp"/></transaction><transaction duration="1s"><flowop type="write" '
    'options="size=1k"/></transaction></group></profile>'
)


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    truth = Truth(calls={"client": sender(), "server": receiver()})
    return make_campaign(tmp_path / "c", [({"connections": 1, "size": 65536}, truth)])


def words(tmp_path: Path, campaign: Path, name: str, at: Path) -> list[str]:
    profile = tmp_path / "p.xml"
    profile.write_text(PROFILE)
    return [word.format(c=campaign, at=at, profile=profile) for word in WRITERS[name]]


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("hard", [False, True], ids=["link", "hard_link"])
def test_a_link_where_a_file_is_written_is_replaced(
    campaign: Path, tmp_path: Path, name: str, hard: bool
) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_bytes(THEIRS)
    at = campaign / name
    at.hardlink_to(theirs) if hard else at.symlink_to(theirs)
    assert run(words(tmp_path, campaign, name, at)) == 0
    assert theirs.read_bytes() == THEIRS
    assert at.is_file() and not at.is_symlink() and at.read_bytes() != THEIRS
    assert not list(campaign.glob("**/.partial-*"))


@pytest.mark.parametrize("name", [name for name in WRITERS if name != "report.html"])
def test_a_folder_in_a_campaign_that_is_a_link_is_refused(
    campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (campaign / "pictures").symlink_to(theirs)
    assert run(words(tmp_path, campaign, name, campaign / "pictures" / name)) == 6
    assert f"{campaign / 'pictures'}: is a link to {theirs}" in capsys.readouterr().err
    assert not list(theirs.iterdir())


def test_a_link_that_is_in_no_campaign_is_written_to(campaign: Path, tmp_path: Path) -> None:
    latest, place = tmp_path / "latest.html", tmp_path / "place.html"
    latest.symlink_to(place)
    assert run(["report", str(campaign), "--html", str(latest)]) == 0
    assert latest.is_symlink() and place.read_text().startswith("<!doctype html>")
    assert run(["report", str(campaign), "--html", "/dev/null"]) == 0
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize(
    "name", ["trials", "background", "background/before", "background/after", "damaged", "feed", ".lock"]
)
def test_a_campaign_does_not_go_on_where_a_link_leads_out_of_it(tmp_path: Path, name: str) -> None:
    into = tmp_path / "campaigns"
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run_simulated(experiment(), into, notes=Stopped(5), program=PROGRAM))
    (folder,) = into.iterdir()
    place, theirs = folder / name, tmp_path / "theirs"
    if name == ".lock":
        theirs.write_bytes(THEIRS)
        place.unlink()
    else:
        (theirs / ".partial-mine").mkdir(parents=True)
        (theirs / "before").mkdir()
        if place.exists():
            place.rename(tmp_path / "own")
        place.parent.mkdir(exist_ok=True)
    place.symlink_to(theirs)
    before = sorted(theirs.rglob("*"))
    with pytest.raises(StoreError, match=f"is a link to {theirs}") as error:
        asyncio.run(run_simulated(experiment(), into, resume=folder, program=PROGRAM))
    assert error.value.where == str(place)
    assert sorted(theirs.rglob("*")) == before
    assert name != ".lock" or theirs.read_bytes() == THEIRS
