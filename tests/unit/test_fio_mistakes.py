"""What job files of fio are refused for, each with one error and its line."""

from __future__ import annotations

from typing import Any

import pytest

from iodyno.core.errors import ExperimentError
from iodyno.loads.disk.fio import parse_sections
from iodyno.loads.disk.fio.experiment import experiment_keys
from iodyno.loads.disk.fio.options import ALIASES


def mistake(text: str | bytes, **more: Any) -> str:
    with pytest.raises(ExperimentError) as caught:
        experiment_keys(
            parse_sections(text, file="j.fio", environment={}, aliases=ALIASES), file="j.fio", **more
        )
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rw=read\n", "j.fio:1: found 'rw=read' before the first section"),
        ("[]\n", "needed: a name in brackets"),
        ("[global]\nrw=read\n", "found no job"),
        ("", "the file is empty"),
        ("[j]\nfilename=/x\nsize=1m\niodeph=4\n", "j.fio:4: [j] iodeph: is no option that is known here; did you mean iodepth?"),
        ("[j]\nfilename=/x\nsize=1m\nlatency_target=5ms\n", "j.fio:4: [j] latency_target: is not carried out: it searches a depth"),  # noqa: E501
        ("[j]\nfilename=/x\nsize=1m\nrw=trim\n", "found 'trim', which discards blocks"),
        ("[j]\nfilename=/x\nsize=1m\nrw=reed\n", "did you mean"),
        ("[j]\nfilename=/x\nsize=1m\nioengine=rbd\n", "j.fio:4: [j] ioengine: found 'rbd', allowed: psync,"),
        ("[j]\nfilename=/x\nsize=1q\n", "j.fio:3: [j] size: found '1q', which is 1 to fio, allowed: a size"),
        ("[j]\nfilename=/x\nrw=read\n", "has no size, needed: size=1g"),
        ("[j]\nfilename=/x:/x\nsize=1m\n", "one file twice to fio, each time with a part of size; allowed: each file once"),
        ("[j]\ndirectory=/x:/y\nsize=1m\n", "several directories, which are not carried"),
        ("[j]\nfilename=/x\nsize=1m\nrw=read:-8k\n", "goes backwards and is not carried"),
        ("[j]\nfilename=/x\nsize=1m\nthinktime=100\nrate_iops=10\n", "a pause beside a rate"),
        ("[j]\nfilename=/x\nsize=1m\nthinktime_spin=100\n", "a pause is asleep (thinktime)"),
        ("[j]\nfilename=/x\nsize=1m\nrw=randrw\nbs=4k,8k\n", "other sizes for reads than for writes"),
        ("[j]\nfilename=/x\nsize=1m\nsync=1\nfsync=4\n", "found o_sync and fsync, allowed: one of them"),
        (
            "[global]\nsize=1m\n[a]\nfilename=/x\n[b]\nfilename=/y\n[c]\nstonewall\nfilename=/z\n",
            "j.fio:5: the jobs [a] and [b] run at the same time, and [c] after others",
        ),
        ("[j]\nfilename=/x\nsize=1m\nbs=64k\nrate=50k\n", "j.fio:5: [j] rate: found '50k', which is 0.78 operations per second"),
        ("[j]\nfilename=/x\nsize=1m\nrate_iops=0.5\n", "j.fio:4: [j] rate_iops: found '0.5', allowed: a whole number"),
        ("[j]\nfilename=/x\nsize=1m\nrate_iops=1.5k\n", "rate_iops: found '1.5k', allowed: a whole number"),
        ("[j]\nfilename=/x\nsize=1m\nrw=randrw\nrate=10m,,5m\n", "which limits reads and not writes"),
        ("[j]\nfilename=/x\nsize=1m\nrate_iops=100\nrate=1m\n", "j.fio:5: [j] rate: found rate and rate_iops"),
        ("[j]\nfilename=/x\nsize=1m\nrw=randrw\nrate_iops=,500\n", "j.fio:5: [j] rate_iops: found ',500', which limits writes and not reads"),  # noqa: E501
        ("[j]\nfilename=/x\nsize=1m\nrw=randrw\nrate=1m,0\n", "which limits reads and not writes"),
        ("[j]\nfilename=/x\nsize=1m\nrw=randrw\nbs=8k,\n", "other sizes for reads than for writes"),
        ("[j]\nfilename=/x\nsize=1m\nrw=read:4k\nbssplit=4k/50:8k/50\n", "with drawn sizes, which is not carried"),
        ("[j]\nfilename=/x\nsize=1m\nrw=write\nverify=crc32c\ndo_verify=1\n", "j.fio:6: [j] do_verify: found 1, which reads everything back"),  # noqa: E501
        ("[j]\nfilename=/x\nsize=1m\nverify=crc32c\nverify_only\n", "it reads what an earlier run has written"),
        ("[j]\nfilename=/x\nsize=1m\nkb_base=10q\n", "j.fio:4: [j] kb_base: found '10q', allowed: 1000, 1024"),
        ("[j]\nfilename=/x\nsize=1m\ncpus_allowed=2-1\n", "the lower one first"),
        ("[j]\nfilename=/x\nsize=1m\ncpumask=0\n", "j.fio:4: [j] cpumask: found '0', allowed: a mask"),
        ("[j]\nfilename=/x:/y\nsize=1m\nfile_service_type=random\n", "an order of 2 files that is not carried"),
        ("[j]\nnrfiles=4\nsize=1m\nopenfiles=2\n", "j.fio:4: [j] openfiles: found less than all 4 files"),
        ("[j]\nfilename=/x\nsize=1m\nrw=randread:8\nrw_sequencer=identical\n", "repeats each of the random places"),
        ("[j]\nfilename=/x\nsize=1m\nrw=randread:8\npercentage_random=50\n", "found '50' with rw=randread:8"),
        ("[j]\nfilename=/x\nsize=1m\nioengine=libaio\niodepth=8\niodepth_low=2\n", "found less than iodepth=8"),
        ("[j]\nfilename=/x\nsize=1m\nfadvise_hint=sequential\nrw=randread\n", "found 'sequential' with rw=randread"),
        ("[j]\nfilename=/x\nsize=1m\nfile_append=1\n", "j.fio:4: [j] file_append: is not carried out"),
        ("[j]\nfilename=/none\noffset=50%\nsize=1m\n", "j.fio:3: [j] offset: found '50%', a share of a file that is not there"),
        ("[global]\nsize=1m\n[a]\n[b]\nstartdelay=5\n", "j.fio:5: [b] begins 5 later than others (startdelay)"),
        ("[lay]\nsize=1m\ncreate_only\n", "j.fio:3: [lay] only creates files (create_only), and no job reads or writes"),
        # Values that mean nothing.
        ("[j]\nfilename=/x\nsize=1m\nverify=crc33\n", "j.fio:4: [j] verify: found 'crc33', allowed: crc32"),
        ("[j]\nfilename=/x\nsize=1m\nrw=randread\nrandom_distribution=zipf:1.2/50\n", "found 'zipf:1.2/50', allowed: zipf:THETA"),
        ("[j]\nfilename=/x\nsize=1m\nbs=\n", "j.fio:4: bs: found nothing after =, needed: a value"),
        ("[j]\nfilename=/x\nsize=1m\nbs\n", "j.fio:4: [j] bs: found no value, needed: bs=..."),
        ("[j]\nfilename=/x\nsize=1m\nnumjobs=0\n", "j.fio:4: [j] numjobs: found '0', allowed: 1 and more"),
        ("[j]\nsize=1m\nnrfiles=0\n", "j.fio:3: [j] nrfiles: found '0', allowed: 1 and more"),
        ("[j]\nfilename=/x\nsize=1m\niodepth=0\n", "j.fio:4: [j] iodepth: found '0', allowed: 1 and more"),
        ("[j]\nfilename=/x\nsize=1m\nrw=randrw\npercentage_random=0,100\n", "j.fio:5: [j] percentage_random: found '0,100', other shares for reads than for writes"),  # noqa: E501
        ("[j]\nfilename=/x\nsize=1m\nrw=randread\npercentage_random=50\nrandom_distribution=zipf:1.1\n", "found '50' with random_distribution=zipf:1.1"),  # noqa: E501
        # Who waits for whom.
        ("[j]\nsize=1m\nwait_for=j\n", "j.fio:3: [j] wait_for: found 'j', this job itself, allowed: none, it is the first job"),
        ("[a]\nsize=1m\n[b]\nsize=1m\nwait_for=c\n", "j.fio:5: [b] wait_for: found 'c', no job of this file, allowed"),
        ("[a]\nsize=1m\nwait_for=b\n[b]\nsize=1m\n", "j.fio:3: [a] wait_for: found 'b', a job that comes after this one"),
        ("[a]\nsize=1m\n[a]\nsize=1m\n[b]\nsize=1m\nwait_for=a\n", "j.fio:7: [b] wait_for: found 'a', the name of several jobs"),
        ("[a]\nsize=1m\n[b]\nsize=1m\n[c]\nsize=1m\nwait_for=a\n", "j.fio:7: [c] waits for [a], and not for [b]"),
        # Checks beside other settings.
        ("[a]\nsize=1m\nrw=randrw\nverify=crc32c\n[b]\nsize=1m\n", "j.fio:4: [a] has checks (verify) and runs at the same time as [b]"),  # noqa: E501
        ("[a]\nsize=1m\nbs=8k\n[b]\nsize=1m\nverify=crc32c\n", "j.fio:6: [b] has checks (verify) and runs at the same time as [a]"),  # noqa: E501
        # One line of [global] is one mistake.
        ("[global]\nsize=1q\n[a]\n[b]\n", "j.fio:2: [a], [b] size: found '1q'"),
        ("[global]\nsize=1q\n[a]\n[b]\n[c]\n[d]\n", "j.fio:2: [a] and 3 more jobs: size: found '1q'"),
        # What does not go together, before any file is laid out.
        ("[j]\nfilename=/x\nsize=1m\nioengine=libaio\nnowait=1\n", "j.fio:5: [j] nowait: is of the engines pvsync2, io_uring"),
        ("[j]\nfilename=/x\nsize=1m\nfixedbufs\n", "j.fio:4: [j] fixedbufs: is of the engines io_uring"),
        ("[j]\nfilename=/x\nsize=1m\nbs=1000\ndirect=1\n", "j.fio:4: [j] bs: found 1000B with direct: on, allowed: multiples"),
        ("[j]\nfilename=/x\nsize=1m\noffset=1000\nbuffered=0\n", "j.fio:4: [j] offset: found 1000B with direct: on"),
        ("[j]\nfilename=/x\nsize=1k\n", "j.fio:3: [j] size: found a block of 4KiB in a working set of 1KiB"),
        ("[j]\nfilename=/x\nsize=8k\nnumjobs=4\nbs=4k\noffset_increment=2k\n", "allowed: as many bytes as size"),
        ("[j]\nfilename=/x\nsize=1m\nioengine=libaio\niodepth=99999\n", "j.fio:5: [j] iodepth: found 99999, allowed: 1 to 32768"),
        (
            "[global]\nioengine=mmap\nsize=1m\nfilename=/x\n[a]\n[b]\nstonewall\nbuffered=0\n",
            "j.fio:8: [b] buffered: found on with syscalls mmap, which is the page cache; allowed: off (it is `direct` here)",
        ),
        ("[a]\nioengine=filestat\n[b]\nioengine=filecreate\n", "[a] and [b] do not do the same to whole files"),
        ("[a]\nfilename=/x\nsize=1m\nrate_iops=5\n[b]\nstonewall\nfilename=/x\nsize=1m\n", "[a] has rate and [b] has none"),
        ("[a]\nfilename=/x\nsize=1m\n[b]\nstonewall\nfilename=/x\nsize=1m\n", "the 2 jobs are all alike"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_error_with_its_line(text: str, said: str) -> None:
    assert said in mistake(text)
