"""The files of jobs of fio: which they are, and where they are in a directory that stands for those of the job file."""

from __future__ import annotations

import pytest

from iodyno.core.errors import ExperimentError
from iodyno.loads.disk.fio import Job, jobs_of, parse_sections


def jobs(text: str, target: str | None = None) -> list[Job]:
    return jobs_of(parse_sections(text, file="j.fio", environment={}), target=target)


def placed(lines: str) -> str:
    return str(jobs(f"[j]\nsize=1m\n{lines}\n", "/t")[0].settings["target"])


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[j]\nfilename=../esc/x\nsize=1m\n", "j.fio:2: invalid value '../esc/x' for [j] filename"),
        ("[j]\nfilename=sub/../../x\nsize=1m\n", "j.fio:2: invalid value 'sub/../../x' for [j] filename"),
        ("[j]\nfilename=a:..\nsize=1m\n", "j.fio:2: invalid value '..' for [j] filename"),
        ("[../../a/b]\nsize=1m\n", "j.fio:1: invalid value '../../a/b.0.0' for [../../a/b]"),
    ],
)
def test_no_file_is_outside_the_target_directory(text: str, place: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        jobs(text, "/t")
    assert f"{place}: it is not within the target directory /t; expected a file in it" in str(caught.value)
    assert placed("filename=sub/../x") == "/t/x"
    assert placed("filename=/dev/../srv/../x") == "/t/x"


@pytest.mark.parametrize(
    ("bodies", "names"),
    [
        (("filename=/osd/ceph-12/fio.dat", "filename=/osd/ceph-13/fio.dat"), ["ceph-12-fio.dat", "ceph-13-fio.dat"]),
        (("filename=/a/x/f", "filename=/b/x/f"), ["a-x-f", "b-x-f"]),
        (("directory=/tmp/x\nfilename=f", "directory=/tmp/y\nfilename=f"), ["x-f", "y-f"]),
        (("directory=/tmp/x\nfilename=d/f", "directory=/tmp/y\nfilename=d/f"), ["d/x-f", "d/y-f"]),
        (("filename=/f", "filename=/g/f"), ["f", "g-f"]),
        (("filename=/a-b/c", "filename=/a/b-c", "filename=/b/c", "filename=/d/b-c"), ["a-b-c", "a-b-c-2", "b-c", "d-b-c"]),
        (("filename=/tmp/f", "filename=/tmp/f"), ["f", "f"]),
    ],
)  # fmt: skip
def test_different_files_stay_different_in_the_target_directory(
    bodies: tuple[str, ...], names: list[str]
) -> None:
    text = "[global]\nsize=1m\n" + "".join(f"[j{number}]\n{body}\n" for number, body in enumerate(bodies))
    read = parse_sections(text, file="j.fio")
    every = jobs_of(read, target="/t")
    assert [job.settings["target"] for job in every] == [f"/t/{name}" for name in names]
    # Whichever job is chosen, its file is called the same.
    assert jobs_of(read[-1:], target="/t", among=read)[0].settings["target"] == f"/t/{names[-1]}"
    if names[0] != "f":
        assert f"{names[0]} in the target directory /t, where jobs have other files" in "\n".join(
            every[0].notes
        )


def test_a_job_that_is_called_as_a_device_is_of_that_device() -> None:
    assert jobs("[/dev/loop7]\nsize=1m\n")[0].settings["target"] == "/dev/loop7"
    assert jobs("[/dev/loop7]\nsize=1m\n", "/t")[0].settings["target"] == "/t/loop7"


def test_files_of_global_and_of_a_job_add_up_and_it_is_said() -> None:
    (job,) = jobs("[global]\nfilename=/srv/x\nsize=1m\n[j]\nfilename=/srv/y\n")
    assert job.settings["target"] == "/srv/x, /srv/y"
    assert "filename adds to that of [global], as in fio: /srv/x, /srv/y" in job.notes


def test_where_many_files_are_is_said_once() -> None:
    (job,) = jobs("[j]\nfilename=/a/x:/a/y:/a/z\nsize=3m\n", "/t")
    assert "filename /a/x: x in the target directory /t (and 2 more files)" in job.notes
    assert not any("/a/y" in note for note in job.notes)
