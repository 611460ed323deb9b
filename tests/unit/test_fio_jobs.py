"""Job files of fio become loads on disks: what is carried out, what is named, what is refused with its line."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from iodyno.cli import check
from iodyno.core import quantity
from iodyno.core.errors import ExperimentError
from iodyno.designs import plan
from iodyno.formats.experiment_file import experiment_text, parse_experiment
from iodyno.loads.disk.core.load import WORKLOAD
from iodyno.loads.disk.fio import Job, is_job_file, jobs_of, parse_sections
from iodyno.loads.disk.fio.experiment import chosen, experiment_keys, steps
from iodyno.loads.disk.fio.options import ALIASES, CARRIED, REFUSED, WITHOUT_EFFECT

JOB = """; a job
[global]
ioengine=libaio   ; asynchronous
direct=1
size=64m
runtime=10
time_based
directory=/srv

[first]
rw=randrw
rwmixread=70
bs=8k
iodepth=16

[second]
stonewall
rw=write
bs=1m
fdatasync=16
"""


def jobs(text: str | bytes, **more: Any) -> list[Job]:
    return jobs_of(parse_sections(text, file="j.fio", environment={"DIR": "/env"}, aliases=ALIASES), **more)


def one(lines: str, **more: Any) -> dict[str, Any]:
    base = "size=1m\nrw=randread\n" + ("" if "filename=" in lines else "filename=/srv/x\n")
    return dict(jobs(f"[j]\n{base}{lines}", **more)[0].settings)


def notes(lines: str) -> str:
    return "\n".join(jobs(f"[j]\nfilename=/srv/x\nsize=1m\nrw=randread\n{lines}")[0].notes)


def mistake(text: str | bytes, **more: Any) -> str:
    with pytest.raises(ExperimentError) as caught:
        experiment_keys(
            parse_sections(text, file="j.fio", environment={}, aliases=ALIASES), file="j.fio", **more
        )
    return str(caught.value)


def test_global_keys_are_those_of_the_jobs_after_them() -> None:
    first, second = jobs(JOB)
    assert first.settings == {
        "syscalls": "aio", "target": "/srv/first.0.0", "working_set": "64MiB", "pattern": "shuffled", "read": "70%",
        "block": "8KiB", "queue_depth": 16, "direct": "on",
    }  # fmt: skip
    assert second.settings["sync"] == "fdatasync"
    assert second.settings["sync_every"] == 16
    assert (first.measured_ns, second.alone_after) == (10 * 10**9, True)


def test_jobs_after_each_other_are_levels_of_one_factor() -> None:
    keys, _ = experiment_keys(parse_sections(JOB, file="j.fio", aliases=ALIASES), file="j.fio", repeat=3)
    experiment = parse_experiment(experiment_text(keys))
    factor = experiment.factors["variant"] if isinstance(experiment.factors, dict) else experiment.factors[0]
    assert factor.levels == ("first", "second")
    assert factor.together["block"] == (8192, 1 << 20)
    assert experiment.workload.settings["syscalls"] == "aio"
    assert experiment.design.replicates == 3


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("rw=read", {"pattern": "sequential", "read": "100%"}),
        ("rw=write", {"pattern": "sequential", "read": "0%"}),
        ("readwrite=rw\nrwmixwrite=20", {"pattern": "sequential", "read": "80%"}),
        ("rw=read:4k", {"pattern": "strided", "stride": "8KiB"}),
        ("percentage_random=30", {"pattern": "sequential", "random": "30%"}),
        ("percentage_random=30,100", {"pattern": "sequential", "random": "30%"}),
        ("rw=randwrite\npercentage_random=30,100", {"pattern": "shuffled", "random": None}),
        ("rw=randrw\npercentage_random=40,40", {"pattern": "sequential", "random": "40%"}),
        # Every block comes once before any comes again, unless fio has no map of them.
        ("", {"pattern": "shuffled"}),
        ("norandommap", {"pattern": "random"}),
        ("norandommap=0", {"pattern": "shuffled"}),
        ("bssplit=4k/50:8k/50", {"pattern": "random"}),
        ("rw=randread:8", {"pattern": "random", "in_order": 8}),
        ("rw=randread:1", {"pattern": "shuffled", "in_order": None}),
        ("rw=randrw:4\nrandom_distribution=zipf:1.1", {"pattern": "zipf", "in_order": 4}),
        ("random_distribution=normal:50", {"pattern": "normal(50%)"}),
        ("random_distribution=normal:12.5", {"pattern": "normal(12.5%)"}),
        # The page cache is dropped, and the kernel told of the pattern, unless the job says otherwise.
        ("", {"cached": "each_pass", "advised": "on"}),
        ("invalidate=0\nfadvise_hint=0", {"cached": None, "advised": None}),
        ("pre_read", {"cached": "yes", "advised": "on"}),
        ("direct=1", {"cached": None, "advised": None}),
        ("ioengine=mmap", {"cached": "each_pass", "advised": None}),
        ("ioengine=null", {"cached": None, "advised": None}),
        # After so many operations, or when size is moved, it is over; with time_based neither counts.
        ("number_ios=100", {"operations": 100}),
        ("number_ios=500", {"operations": 256}),
        ("number_ios=500\nloops=3", {"operations": 768}),
        ("number_ios=100\nnumjobs=3", {"operations": 300}),
        ("io_size=64k", {"operations": 16}),
        ("io_size=4m", {"operations": 1024}),
        ("number_ios=100\ntime_based", {"operations": None}),
        ("number_ios=100\nbssplit=4k/50:8k/50", {"operations": 100}),
        # Shares of the file, down to whole blocks; where it begins, up to one.
        ("filesize=2m\nsize=512k\noffset=1m", {"working_set": "1MiB", "offset": "1MiB"}),
        ("filesize=4m\nsize=512k", {"working_set": "4MiB"}),
        ("filesize=4m\nsize=512k\nnumber_ios=9999", {"working_set": "4MiB", "operations": 128}),
        ("rw=read:12k\nbs=20k", {"stride": "32KiB", "block": "20KiB", "align": "4KiB"}),
        ("filesize=1m\nsize=25%\noffset=50%", {"working_set": "256KiB", "offset": "512KiB"}),
        ("filesize=300k\nsize=33%\noffset=34%", {"working_set": "96KiB", "offset": "104KiB"}),
        ("filesize=1m\nsize=75%\noffset=50%", {"working_set": "512KiB", "offset": "512KiB"}),
        ("random_distribution=zipf:1.2", {"pattern": "zipf", "theta": "1.2"}),
        ("random_distribution=zoned:80/20:20/80", {"pattern": "zones(20%: 80%, 80%: 20%)"}),
        # A workload of enterprise drives (JESD219), and zones whose last one is the rest.
        ("random_distribution=zoned:50/5:30/15:20/80", {"pattern": "zones(5%: 50%, 15%: 30%, 80%: 20%)"}),
        ("random_distribution=zoned:50/5:30/15:20/", {"pattern": "zones(5%: 50%, 15%: 30%, 80%: 20%)"}),
        ("random_distribution=pareto:0.9", {"pattern": "self_similar", "hot_operations": "90%", "hot_space": "10%"}),
        ("random_distribution=pareto:0.2", {"pattern": "self_similar", "hot_operations": "80%", "hot_space": "20%"}),
        ("blocksize=16k", {"block": "16KiB"}),
        ("bs=4k,8k", {"block": "4KiB"}),
        ("bs=4k,8k\nrw=randwrite", {"block": "8KiB"}),
        ("bssplit=4k/10:64k/50:32k/", {"block": "mix(4KiB: 1000, 64KiB: 5000, 32KiB: 4000)"}),
        ("bsrange=4k-16k", {"block": "uniform(1B, 16KiB)", "align": "4KiB"}),
        ("bsrange=4k-10k", {"block": "uniform(4KiB, 10KiB)", "align": None}),
        ("bs=(2k*4)", {"block": "8KiB"}),
        # A direction whose value is left empty has the default, as in fio.
        ("bs=,8k", {"block": "4KiB"}),
        ("bs=8k,\nrw=randwrite", {"block": "4KiB"}),
        ("bs=4k,8k\nrw=randrw\nrwmixread=0", {"block": "8KiB"}),
        ("bssplit=4k/100,8k/50:16k/50\nrw=randwrite", {"block": "mix(8KiB: 5000, 16KiB: 5000)", "align": "8KiB"}),
        ("rw=write:4k\nbs=4k,8k", {"pattern": "strided", "stride": "12KiB"}),
        ("ioengine=io_uring\niodepth=32\nfixedbufs\nregisterfiles\nsqthread_poll",
         {"syscalls": "io_uring", "queue_depth": 32, "registered": "on", "sqpoll": "on"}),
        ("ioengine=pvsync2\nhipri", {"syscalls": "preadv2", "hipri": "on"}),
        ("ioengine=mmap", {"syscalls": "mmap"}),
        ("ioengine=posixaio\niodepth=8", {"syscalls": "io_uring", "queue_depth": 8}),
        ("ioengine=null", {"target": "null"}),
        ("buffered=0", {"direct": "on"}),
        ("sync=dsync", {"sync": "o_dsync"}),
        ("sync=1", {"sync": "o_sync"}),
        ("fsync=8", {"sync": "fsync", "sync_every": 8}),
        ("rate_iops=4000\nrate_process=poisson", {"rate": "4000/s", "arrivals": "poisson"}),
        ("rate=8m\nbs=8k", {"rate": "1024/s", "arrivals": "constant"}),
        ("rw=randrw\nrate_iops=600,400", {"rate": "1000/s", "read": "60%"}),
        # Bytes are those of the block of the direction that there is.
        ("rw=write\nbs=8k,64k\nrate=6400k", {"rate": "100/s", "block": "64KiB", "read": "0%"}),
        ("rw=write\nbs=64k,4k\nrate=4m", {"rate": "1024/s"}),
        ("bs=4000\nrate=4m\nkb_base=1000", {"rate": "1000/s"}),
        ("rate_iops=1k\nkb_base=1000", {"rate": "1000/s"}),
        ("bs=192k\nrate=1m\nnumjobs=3", {"rate": "16/s"}),
        ("bsrange=8k-8k\nrate=1m", {"rate": "128/s", "block": "8KiB"}),
        ("bssplit=,16k/100\nbs=8k\nrate=1m", {"rate": "128/s", "block": "8KiB"}),
        # Each direction has a rate of its own, which the mix does not change.
        ("rw=rw\nrate=2m,1m", {"rate": "768/s", "read": "66.6667%"}),
        ("rw=randrw\nrwmixread=70\nrate_iops=1000", {"rate": "2000/s", "read": "50%"}),
        ("rw=rw\nrwmixread=0\nrate=1m", {"rate": "256/s", "read": "0%"}),
        ("rw=randrw\nrwmixread=100\nrate_iops=300", {"rate": "300/s", "read": "100%"}),
        ("rw=randrw\nrate_iops=10,20,30", {"rate": "30/s", "read": "33.3333%"}),
        ("rate_iops=,500", {"rate": None}),
        ("rate_iops=500,", {"rate": "500/s"}),
        ("rate_iops=500\nrate=0", {"rate": "500/s"}),
        ("rate_iops=100\nnumjobs=4", {"rate": "400/s", "workers": 4, "sequence": "each"}),
        ("numjobs=4\noffset_increment=1m", {"workers": 4, "sequence": "split", "working_set": "4MiB"}),
        ("offset=1m", {"offset": "1MiB"}),
        ("verify=crc32c", {"verify": "read"}),
        ("zero_buffers", {"content": "zero"}),
        ("buffer_compress_percentage=40", {"content": "compressible(40%)"}),
        ("verify=crc32c\nrw=write\ndo_verify=0", {"verify": "write"}),
        ("kb_base=1000\nbs=4kib", {"block": "4KiB"}),
        ("kb_base=1000\nbs=4ki", {"block": "4000B"}),
        ("bs=4kib", {"block": "4000B"}),
        ("bs=4ki", {"block": "4KiB"}),
        # A comment begins without a blank, also within a value.
        ("bs=8k#x", {"block": "8KiB"}),
        ("filename=/srv/q#1", {"target": "/srv/q"}),
        ("filename=/srv/q;1", {"target": "/srv/q"}),
        # Files add up, and what a value leaves out for a direction stays what it was.
        ("filename=/srv/a\nfilename=/srv/b:/srv/c", {"target": "/srv/a, /srv/b, /srv/c"}),
        ("bs=16k\nbs=,8k", {"block": "16KiB"}),
        ("rw=randwrite\nbs=16k\nbs=,8k", {"block": "8KiB"}),
        ("kb_base=1000\nbsrange=4k-64k", {"block": "uniform(1B, 64000B)", "align": "4000B"}),
        ("kb_base=1000\nbssplit=4k/50:8k/50", {"block": "mix(4000B: 5000, 8000B: 5000)", "align": "4000B"}),
        ("kb_base=1000\nrw=read:4k\nbs=8k", {"stride": "12000B"}),
        # The last one of two that set the same thing.
        ("direct=1\nbuffered=1", {"direct": "off"}),
        ("buffered=1\ndirect=1", {"direct": "on"}),
        ("direct=0\nbuffered=0", {"direct": "on"}),
        ("rw=randrw\nrwmixread=70\nrwmixwrite=80", {"read": "20%"}),
        ("rw=randrw\nrwmixwrite=80\nrwmixread=70", {"read": "70%"}),
        ("thinktime=500\nthinktime_blocks=4", {"think": "500us", "think_every": 4}),
    ],
)  # fmt: skip
def test_an_option_means_what_it_means_in_fio(lines: str, expected: dict[str, Any]) -> None:
    told = one(lines)
    assert {key: told.get(key) for key in expected} == expected
    for name, value in told.items():
        parameter = WORKLOAD.parameter(name)
        assert parameter is not None, name
        parameter.parse(value == "on" if parameter.kind == "switch" else value)


def test_what_is_without_effect_is_named() -> None:
    said = notes(
        "group_reporting\nwrite_lat_log=x\nexec_prerun=rm -rf /\nstartdelay=5\nnumjobs=2\nioengine=sync"
    )
    for words in (
        "group_reporting is without effect",
        "write_lat_log is without effect",
        "exec_prerun is without effect",
        "startdelay",
        "without the lseek",
        "there is no runtime",
    ):
        assert words in said


def test_the_options_of_a_job_come_after_the_global_ones() -> None:
    text = (
        "[global]\ndirect=0\nrwmixread=70\nsize=1m\nfilename=/x\nrw=randrw\n[j]\nbuffered=0\nrwmixwrite=80\n"
    )
    settings = jobs(text)[0].settings
    assert (settings["direct"], settings["read"]) == ("on", "20%")


def test_what_global_said_was_read_with_the_kb_base_of_that_time() -> None:
    text = "[global]\nbs=4k\nfilename=/x\n[j]\nkb_base=1000\nsize=1m\n"
    settings = jobs(text)[0].settings
    assert (settings["block"], settings["working_set"]) == ("4KiB", "1000000B")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("rw=rw\nrate=2m,1m", "rate=2m,1m: 512 reads and 256 writes per second, drawn from one rate, 66.6667% of it reads in"
         " place of the 50% of the mix, as in fio"),
        ("rw=randrw\nrate_iops=500", "500 reads and 500 writes per second, drawn from one rate, 50% of it reads"),
        ("rate_iops=,500", "rate_iops=,500 limits writes, of which this job has none: it goes as fast as it can"),
        ("bs=48k\nrate=10m", "rate=10m: 213.33 operations per second are rounded to 213"),
        ("bssplit=4k/50:64k/50\nrate_iops=100", "fio holds as many bytes per second as so many of the least size have"),
        ("bs=4kib", "bs=4kib: kib, mib and so on are powers of 1000 where kb_base is 1024, as in fio"),
        ("rw=read\npercentage_random=50", "percentage_random is without effect: rw=read goes in order"),
        ("rw=read\nrandom_distribution=zipf:1.1", "random_distribution is without effect: rw=read goes in order"),
        ("rwmixread=70", "rwmixread is without effect: rw=randread is no mix"),
        ("max_latency=10ms", "a late operation is in the histograms, and ends nothing"),
        ("cpus_allowed_policy=split", "the workers of a job share its CPUs"),
        ("random_distribution=zipf:1.1:0.5", "random_distribution=zipf:1.1:0.5: the centre (0.5) is without effect"),
        ("nrfiles=4", "nrfiles=4 is without effect: the job names its files, as in fio"),
        ("verify=null", "verify=null is without effect: it checks nothing"),
        ("runtime=0\ntime_based", "runtime=0 is none: the load goes on for --seconds"),
        ("exitall", "all jobs of a trial end at one instant, none of them when another is done"),
        ("number_ios=5\ntime_based", "number_ios ends nothing: time_based goes on for its time, as in fio"),
        ("number_ios=5", "the load ends when its operations are done"),
        ("bssplit=4k/50:8k/50", "blocks are drawn with repeats"),
        ("rw=write\nverify=crc32c", "NOT read back at the end, as fio would do"),
        ("rw=randrw\nverify=md5", "NOT read back at the end, as fio would do"),
    ],
)  # fmt: skip
def test_what_is_another_thing_here_is_said(lines: str, words: str) -> None:
    assert words in notes(lines)


def test_no_note_takes_bytes_for_operations_or_speaks_of_reading_back_what_is_only_read() -> None:
    assert "1048576" not in notes("rate=1m\nnumjobs=2") and "2097152" not in notes("rw=rw\nrate=1m")
    assert "read back" not in notes("verify=crc32c") + notes("rw=write\nverify=crc32c\ndo_verify=0")


def test_a_target_directory_stands_for_those_of_the_file() -> None:
    assert one("", target="/t")["target"] == "/t/x"
    assert one("filename=data", target="/t")["target"] == "/t/data"
    assert one("filename=/dev/loop7")["target"] == "/dev/loop7"


def test_a_section_whose_name_begins_with_global_is_no_job() -> None:
    (job,) = jobs("[globals]\nsize=1m\n[j]\n")
    assert (job.name, job.settings["working_set"]) == ("j", "1MiB")


def test_jobs_of_one_name_are_chosen_by_the_names_that_are_shown() -> None:
    text = "[global]\nsize=1m\n[Rand Read]\n[Rand Read]\nstonewall\nbs=8k\n[Rand Read]\nstonewall\nbs=16k\n"
    read = parse_sections(text, file="j.fio")
    keys, _ = experiment_keys(read, file="j.fio")
    levels = keys["factors"]["variant"]["levels"]
    assert levels == ["Rand-Read", "Rand-Read-2", "Rand-Read-3"]
    assert [[job.line for job in chosen(read, [level])] for level in levels] == [[3], [4], [7]]
    assert [job.line for job in chosen(read, ["Rand Read-3"])] == [7]
    assert jobs_of(read)[1].settings["target"].endswith("/Rand Read.0.0")  # as in fio, where they share it
    with pytest.raises(ExperimentError, match="expected Rand Read, Rand Read-2, Rand Read-3"):
        chosen(read, ["Rand-Read-4"])


def test_what_is_said_of_several_jobs_is_said_once() -> None:
    text = "[global]\nsize=1m\nexitall\n" + "".join(f"[j{number}]\n" for number in range(5))
    _, said = experiment_keys(parse_sections(text, file="j.fio"), file="j.fio")
    (only,) = [each for each in said if "exitall" in each]
    assert only.startswith("j.fio: [j0] and 4 more jobs: exitall is without effect")


PARALLEL = """[global]
size=8m
filename=/srv/x
runtime=1
[1 readers]
rw=randread
bs=4k
numjobs=2
[log writer]
rw=write
bs=64k
rate_iops=100
"""


def test_jobs_at_the_same_time_are_clients_with_settings_of_their_own() -> None:
    keys, said = experiment_keys(parse_sections(PARALLEL, file="j.fio"), file="j.fio")
    read = parse_experiment(experiment_text(keys))
    assert list(read.hosts) == ["job-1-readers", "log-writer"] == list(read.workload.hosts)
    assert any("run at the same time" in each for each in said)
    shared = read.settings({})
    reads, writes = (read.workload.settings_of(host, shared) for host in read.workload.hosts)
    assert (reads["pattern"], reads["read"], reads["block"], reads["workers"]) == ("shuffled", 10**6, 4096, 2)
    assert (writes["pattern"], writes["read"], writes["block"], writes["rate"]) == (
        "sequential",
        0,
        65536,
        100,
    )
    assert reads["target"] == writes["target"] == "/srv/x"
    assert "rate" not in reads
    assert "fairness" not in read.outcomes
    assert "log-writer.iops" in read.outcomes


def test_each_of_the_jobs_at_the_same_time_has_its_own_cpus() -> None:
    text = "[global]\nsize=1m\nrw=read\n[a]\ncpus_allowed=0\n[b]\ncpus_allowed=1-2\n[c]\n"
    keys, said = experiment_keys(parse_sections(text, file="j.fio"), file="j.fio")
    assert {name: host.get("cpus") for name, host in keys["hosts"].items()} == {
        "a": [0],
        "b": [1, 2],
        "c": None,
    }
    assert any("divide the CPUs that no other job names" in each for each in said)
    hosts = parse_experiment(experiment_text(keys)).hosts
    assert [host.cpus for host in hosts.values()] == [(0,), (1, 2), ()]


def test_jobs_after_each_other_on_other_cpus_are_campaigns_of_their_own() -> None:
    text = "[global]\nsize=1m\nrw=read\n[a]\ncpus_allowed=0\n[b]\nstonewall\nbs=8k\ncpus_allowed=1\n"
    assert steps(parse_sections(text, file="j.fio")) == (("a",), ("b",))
    assert (
        "j.fio:9: [a] runs on CPUs 0 and [b] on CPUs 1 (cpus_allowed), which cannot be one experiment"
        in mistake(text)
    )
    alike = text.replace("cpus_allowed=1", "cpus_allowed=0")
    keys, _ = experiment_keys(parse_sections(alike, file="j.fio"), file="j.fio")
    assert keys["hosts"]["client"]["cpus"] == [0]


def test_drawn_sizes_and_one_size_may_be_levels_of_one_factor() -> None:
    text = "[global]\nsize=1m\nfilename=/srv/x\n[a]\nbssplit=8k/50:16k/50\n[b]\nstonewall\nbs=4k\n"
    keys, _ = experiment_keys(parse_sections(text, file="j.fio"), file="j.fio")
    (factor,) = parse_experiment(experiment_text(keys)).factors
    assert list(factor.together["align"]) == [8192, 4096]


def test_jobs_that_do_the_same_to_whole_files_are_one_program() -> None:
    text = "[global]\nioengine=dircreate\ndirectory=/srv\nnrfiles=50\nruntime=1\n[a]\n[b]\n[c]\nnumjobs=2\n"
    keys, _ = experiment_keys(parse_sections(text, file="j.fio", aliases=ALIASES), file="j.fio")
    program = parse_experiment(experiment_text(keys)).workload.program
    assert program is not None
    assert "set $nfiles=200" in program.text
    assert "set $nthreads=4" in program.text
    assert "flowop makedir" in program.text


def test_several_files_have_the_size_together() -> None:
    named = one("filename=/srv/a:/srv/b\\:c\nsize=8m\n")
    assert (named["target"], named["working_set"]) == ("/srv/a, /srv/b:c", "4MiB")
    numbered = dict(jobs("[j]\ndirectory=/srv\nnrfiles=2\nfilesize=1m\n")[0].settings)
    assert (numbered["target"], numbered["working_set"]) == ("/srv/j.0.0, /srv/j.0.1", "1MiB")


def test_a_file_that_is_there_needs_no_size(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(10_000))
    (job,) = jobs(f"[j]\nfilename={tmp_path}/x\nrw=read\n")
    assert job.settings["working_set"] == "9728B"


def test_patterns_may_be_levels_of_one_factor() -> None:
    text = (
        "[global]\nsize=1m\nfilename=/srv/x\nrw=randread\n[a]\n[b]\nstonewall\nrandom_distribution=zipf:1.1\n"
    )
    keys, _ = experiment_keys(parse_sections(text, file="j.fio"), file="j.fio")
    (factor,) = parse_experiment(experiment_text(keys)).factors
    assert list(factor.together["pattern"]) == ["shuffled", "zipf"]


def test_jobs_after_each_other_run_in_their_order() -> None:
    text = "[global]\nsize=1m\nfilename=/srv/x\n" + "".join(
        f"[{name}]\nstonewall\nrw={rw}\n"
        for name, rw in (("lay", "write"), ("b", "randread"), ("a", "read"), ("c", "randwrite"))
    )
    keys, _ = experiment_keys(parse_sections(text, file="j.fio"), file="j.fio", repeat=3)
    trials = plan(parse_experiment(experiment_text(keys))).trials
    assert [trial.point.levels["variant"] for trial in trials] == ["lay", "b", "a", "c"] * 3


def test_a_job_that_only_creates_files_is_left_out() -> None:
    text = "[global]\nsize=1m\nfilename=/srv/x\nrw=randread\n[a]\n[lay]\nstonewall\ncreate_only=1\n[b]\nwait_for=lay\n[c]\n"
    first, second, third = jobs(text)
    assert (first.name, second.name, third.name) == ("a", "b", "c")
    assert (second.alone_after, third.alone_after, second.waits_for) == (True, False, None)
    assert any("comes without [lay]" in note for note in first.notes)


def test_shares_are_of_a_file_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(300 << 10))
    (job,) = jobs(f"[j]\nfilename={tmp_path}/x\nrw=read\nsize=33%\noffset=34%\n")
    assert (job.settings["working_set"], job.settings["offset"]) == ("96KiB", "104KiB")
    (job,) = jobs(f"[j]\nfilename={tmp_path}/x\nrw=read\noffset=50%\n")
    assert (job.settings["working_set"], job.settings["offset"]) == ("148KiB", "152KiB")


def test_a_mask_names_cpus() -> None:
    assert jobs("[j]\nfilename=/x\nsize=1m\ncpumask=0x5\n")[0].cpus == (0, 2)
    assert jobs("[j]\nfilename=/x\nsize=1m\ncpumask=3\ncpus_allowed=2\n")[0].cpus == (2,)


def test_jobs_use_parts_of_one_file() -> None:
    text = "[global]\nfilename=/srv/p\nbs=4k\n[lo]\nrw=randread\nsize=8m\n[hi]\nrw=randwrite\noffset=8m\nsize=24m\n"
    keys, _ = experiment_keys(parse_sections(text, file="j.fio"), file="j.fio")
    read = parse_experiment(experiment_text(keys))
    assert [
        (own["working_set"], own.get("offset", 0))
        for own in (read.workload.settings_of(host, read.settings({})) for host in read.workload.hosts)
    ] == [(8 << 20, 0), (24 << 20, 8 << 20)]


def test_words_are_computed_with() -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    assert one("size=1000*$mb_memory")["working_set"] == quantity.show("size", 1000 * memory)
    assert one("filename=/srv/$jobname-1")["target"] == "/srv/j-1"


def test_the_environment_and_words_are_put_in(tmp_path: Path) -> None:
    assert one("filename=${DIR}/$jobname")["target"] == "/env/j"
    assert "${NONE} is not in the environment" in mistake("[j]\nfilename=${NONE}\nsize=1m\n")
    (tmp_path / "base.fio").write_text("bs=16k\nsize=1m\nrw=write\n")
    text = "[global]\ninclude base.fio\n[j]\nfilename=/x\n"
    read = parse_sections(text, file=str(tmp_path / "j.fio"), aliases=ALIASES)
    assert jobs_of(read)[0].settings["block"] == "16KiB"
    (tmp_path / "base.fio").write_text("include base.fio\n")
    with pytest.raises(ExperimentError, match="within each other"):
        parse_sections(text, file=str(tmp_path / "j.fio"))


@pytest.mark.parametrize("engine", ["filecreate", "filestat", "filedelete"])
def test_engines_of_whole_files_become_file_programs(engine: str) -> None:
    text = f"[meta]\nioengine={engine}\ndirectory=/srv\nnrfiles=100\nnumjobs=2\nfilesize=4k\nruntime=5\n"
    keys, said = experiment_keys(parse_sections(text, aliases=ALIASES), file="j.fio")
    experiment = parse_experiment(experiment_text(keys))
    assert experiment.workload.kind == "files"
    assert experiment.workload.program is not None
    assert "a file program of 200 files and 2 threads" in "\n".join(said)


def test_no_option_is_in_two_tables() -> None:
    tables = (set(CARRIED), set(WITHOUT_EFFECT), set(REFUSED))
    for i, table in enumerate(tables):
        for other in tables[i + 1 :]:
            assert not table & other
    assert set(ALIASES.values()) <= set().union(*tables) | {"bwavgtime"}


def test_a_job_file_is_known_by_its_name_or_first_section(tmp_path: Path) -> None:
    for name, text, answer in (
        ("a.fio", "", True),
        ("b", "# x\n[global]\n", True),
        ("c", "[a, b]\n", False),
        ("d.yaml", "[global]\n", False),
    ):
        (tmp_path / name).write_text(text)
        assert is_job_file(tmp_path / name) is answer


@given(st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_a_mutated_job_file_is_read_or_refused_with_one_error(seed: int) -> None:
    drawn = random.Random(seed)
    text = bytearray(JOB.encode())
    names = [*CARRIED, *WITHOUT_EFFECT, *REFUSED]
    for _ in range(drawn.randint(1, 5)):
        at = drawn.randrange(len(text))
        value = drawn.choice(
            [
                "",
                "0",
                "1",
                "-1",
                "4k",
                "1:2",
                "5-3",
                "a",
                "50%",
                "99999999999999999999999",
                "(1+",
                "1,2,3",
                "zipf:9",
            ]
        )
        piece = drawn.choice([b"[", b"]", b"=", b"\xff", b"$", f"\n{drawn.choice(names)}={value}\n".encode()])
        text[at : at + drawn.randint(0, 4)] = piece
    try:
        keys, _ = experiment_keys(
            parse_sections(bytes(text), file="j.fio", environment={}, aliases=ALIASES), file="j.fio"
        )
        parse_experiment(experiment_text(keys), file="j.fio")
    except ExperimentError as error:
        assert error.where.startswith("j.fio")


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        (("a", "b", "c stonewall", "d"), (("a", "b"), ("c", "d"))),
        (("a", "b stonewall", "c", "d stonewall"), (("a",), ("b", "c"), ("d",))),
        (("a", "b stonewall", "c stonewall"), ()),  # levels of one factor
        (("a", "b", "c"), ()),  # clients of one trial
        (("a", "b", "c wait_for=a", "d stonewall"), ()),  # what waits for one of several has no step
        (("a", "b wait_for=a", "c wait_for=a"), (("a",), ("b", "c"))),
        (("a", "b wait_for=a", "c"), ()),  # the last one begins with the first
        (("a", "b wait_for=a", "c wait_for=b"), ()),  # one after the other
        (("a", "b stonewall\nrate_iops=100"), (("a",), ("b",))),  # no level of a rate is to have none
        (("a ioengine=filecreate", "b stonewall\nioengine=filedelete"), (("a",), ("b",))),
        (("a ioengine=filecreate", "b stonewall"), (("a",), ("b",))),
        (("a ioengine=filecreate", "b stonewall\nioengine=filecreate"), ()),  # one program
    ],
)
def test_jobs_at_a_time_and_others_after_them_are_steps(heads: tuple[str, ...], expected: Any) -> None:
    text = "[global]\nfilename=/srv/x\nsize=1m\nrw=read\n"
    for head in heads:
        name, _, line = head.partition(" ")
        text += f"[{name}]\n{line}\n"
    assert steps(parse_sections(text, file="j.fio", environment={}, aliases=ALIASES)) == expected


def test_each_step_is_checked_as_an_experiment_of_its_own(tmp_path: Path) -> None:
    job = tmp_path / "steps.fio"
    job.write_text("[global]\nsize=1m\nrw=read\nruntime=1\n[a]\n[b]\n[c]\nstonewall\n[d]\n", encoding="utf-8")
    shown = CliRunner().invoke(check.command, [str(job), "--target", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert [line.split() for line in shown.stdout.splitlines() if "hosts" in line] == [
        ["hosts", "a", "(local),", "b", "(local)"],
        ["hosts", "c", "(local),", "d", "(local)"],
    ]
    assert "steps-a-b" in shown.stdout and "steps-c-d" in shown.stdout
