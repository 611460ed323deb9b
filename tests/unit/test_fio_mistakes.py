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
        ("rw=read\n", "j.fio:1: unexpected 'rw=read' before the first section"),
        ("[]\n", "expected a name in brackets"),
        ("[global]\nrw=read\n", "missing job"),
        ("", "the file is empty"),
        ("[j]\nfilename=/x\nsize=1m\niodeph=4\n", "j.fio:4: [j] iodeph: unknown option; did you mean 'iodepth'?"),
        ("[j]\nfilename=/x\nsize=1m\nlatency_target=5ms\n", "j.fio:4: [j] latency_target: is not carried out: it searches a depth"),  # noqa: E501
        ("[j]\nfilename=/x\nsize=1m\nrw=trim\n", "invalid value 'trim' for [j] rw: it discards blocks"),
        ("[j]\nfilename=/x\nsize=1m\nrw=reed\n", "did you mean"),
        ("[j]\nfilename=/x\nsize=1m\nioengine=rbd\n", "j.fio:4: invalid value 'rbd' for [j] ioengine: expected one of psync,"),
        ("[j]\nfilename=/x\nsize=1q\n", "j.fio:3: invalid value '1q' for [j] size: it is 1 to fio; expected a size"),
        ("[j]\nfilename=/x\nrw=read\n", "missing size: expected size=1g"),
        ("[j]\nfilename=/x:/x\nsize=1m\n", "one file twice to fio, each time with a part of size; expected each file once"),
        ("[j]\ndirectory=/x:/y\nsize=1m\n", "several directories, which are not carried"),
        ("[j]\nfilename=/x\nsize=1m\nrw=read:-8k\n", "goes backwards and is not carried"),
        ("[j]\nfilename=/x\nsize=1m\nthinktime=100\nrate_iops=10\n", "a pause cannot be used with a rate"),
        ("[j]\nfilename=/x\nsize=1m\nthinktime_spin=100\n", "a pause is asleep (thinktime)"),
        ("[j]\nfilename=/x\nsize=1m\nrw=randrw\nbs=4k,8k\n", "other sizes for reads than for writes"),
        ("[j]\nfilename=/x\nsize=1m\nsync=1\nfsync=4\n", "o_sync and fsync cannot be used together"),
        (
            "[global]\nsize=1m\n[a]\nfilename=/x\n[b]\nfilename=/y\n[c]\nstonewall\nfilename=/z\n",
            "j.fio:5: the jobs [a] and [b] run at the same time, and [c] after others",
        ),
        ("[j]\nfilename=/x\nsize=1m\nbs=64k\nrate=50k\n", "j.fio:5: invalid value '50k' for [j] rate: it is 0.78 operations per second"),  # noqa: E501
        ("[j]\nfilename=/x\nsize=1m\nrate_iops=0.5\n", "j.fio:4: invalid value '0.5' for [j] rate_iops: expected a whole number"),
        ("[j]\nfilename=/x\nsize=1m\nrate_iops=1.5k\n", "invalid value '1.5k' for [j] rate_iops: expected a whole number"),
        ("[j]\nfilename=/x\nsize=1m\nrw=randrw\nrate=10m,,5m\n", "it limits reads and not writes"),
        ("[j]\nfilename=/x\nsize=1m\nrate_iops=100\nrate=1m\n", "j.fio:5: [j] rate: rate cannot be used with rate_iops"),
        ("[j]\nfilename=/x\nsize=1m\nrw=randrw\nrate_iops=,500\n", "j.fio:5: invalid value ',500' for [j] rate_iops: it limits writes and not reads"),  # noqa: E501
        ("[j]\nfilename=/x\nsize=1m\nrw=randrw\nrate=1m,0\n", "it limits reads and not writes"),
        ("[j]\nfilename=/x\nsize=1m\nrw=randrw\nbs=8k,\n", "other sizes for reads than for writes"),
        ("[j]\nfilename=/x\nsize=1m\nrw=read:4k\nbssplit=4k/50:8k/50\n", "with drawn sizes, which is not carried"),
        ("[j]\nfilename=/x\nsize=1m\nrw=write\nverify=crc32c\ndo_verify=1\n", "j.fio:6: invalid value for [j] do_verify: 1, which reads everything back"),  # noqa: E501
        ("[j]\nfilename=/x\nsize=1m\nverify=crc32c\nverify_only\n", "it reads what an earlier run has written"),
        ("[j]\nfilename=/x\nsize=1m\nkb_base=10q\n", "j.fio:4: invalid value '10q' for [j] kb_base: expected 1000, 1024"),
        ("[j]\nfilename=/x\nsize=1m\ncpus_allowed=2-1\n", "the lower one first"),
        ("[j]\nfilename=/x\nsize=1m\ncpumask=0\n", "j.fio:4: invalid value '0' for [j] cpumask: expected a mask"),
        ("[j]\nfilename=/x:/y\nsize=1m\nfile_service_type=random\n", "an order of 2 files that is not carried"),
        ("[j]\nnrfiles=4\nsize=1m\nopenfiles=2\n", "j.fio:4: invalid value for [j] openfiles: less than all 4 files"),
        ("[j]\nfilename=/x\nsize=1m\nrw=randread:8\nrw_sequencer=identical\n", "repeats each of the random places"),
        ("[j]\nfilename=/x\nsize=1m\nrw=randread:8\npercentage_random=50\n", "invalid value for [j] percentage_random: '50' with rw=randread:8"),  # noqa: E501
        ("[j]\nfilename=/x\nsize=1m\nioengine=libaio\niodepth=8\niodepth_low=2\n", "invalid value for [j] iodepth_low: less than iodepth=8"),  # noqa: E501
        ("[j]\nfilename=/x\nsize=1m\nfadvise_hint=sequential\nrw=randread\n", "'sequential' with rw=randread"),
        ("[j]\nfilename=/x\nsize=1m\nfile_append=1\n", "j.fio:4: [j] file_append: is not carried out"),
        ("[j]\nfilename=/none\noffset=50%\nsize=1m\n", "j.fio:3: invalid value '50%' for [j] offset: a share of a file that is not there"),  # noqa: E501
        ("[global]\nsize=1m\n[a]\n[b]\nstartdelay=5\n", "j.fio:5: [b] begins 5 later than others (startdelay)"),
        ("[lay]\nsize=1m\ncreate_only\n", "j.fio:3: [lay] only creates files (create_only), and no job reads or writes"),
        # Values that mean nothing.
        ("[j]\nfilename=/x\nsize=1m\nverify=crc33\n", "j.fio:4: invalid value 'crc33' for [j] verify: expected one of crc32"),
        ("[j]\nfilename=/x\nsize=1m\nrw=randread\nrandom_distribution=zipf:1.2/50\n", "invalid value 'zipf:1.2/50' for [j] random_distribution: expected zipf:THETA"),  # noqa: E501
        ("[j]\nfilename=/x\nsize=1m\nbs=\n", "j.fio:4: bs: missing value after ="),
        ("[j]\nfilename=/x\nsize=1m\nbs\n", "j.fio:4: missing value for [j] bs: expected bs=..."),
        ("[j]\nfilename=/x\nsize=1m\nnumjobs=0\n", "j.fio:4: invalid value '0' for [j] numjobs: expected 1 and more"),
        ("[j]\nsize=1m\nnrfiles=0\n", "j.fio:3: invalid value '0' for [j] nrfiles: expected 1 and more"),
        ("[j]\nfilename=/x\nsize=1m\niodepth=0\n", "j.fio:4: invalid value '0' for [j] iodepth: expected 1 and more"),
        ("[j]\nfilename=/x\nsize=1m\nrw=randrw\npercentage_random=0,100\n", "j.fio:5: invalid value '0,100' for [j] percentage_random: other shares for reads than for writes"),  # noqa: E501
        ("[j]\nfilename=/x\nsize=1m\nrw=randread\npercentage_random=50\nrandom_distribution=zipf:1.1\n", "invalid value for [j] percentage_random: '50' with random_distribution=zipf:1.1"),  # noqa: E501
        # Who waits for whom.
        ("[j]\nsize=1m\nwait_for=j\n", "j.fio:3: invalid value 'j' for [j] wait_for: this job itself; expected none, it is the first job"),  # noqa: E501
        ("[a]\nsize=1m\n[b]\nsize=1m\nwait_for=c\n", "j.fio:5: invalid value 'c' for [b] wait_for: no job of this file; expected"),  # noqa: E501
        ("[a]\nsize=1m\nwait_for=b\n[b]\nsize=1m\n", "j.fio:3: invalid value 'b' for [a] wait_for: a job that comes after this one"),  # noqa: E501
        ("[a]\nsize=1m\n[a]\nsize=1m\n[b]\nsize=1m\nwait_for=a\n", "j.fio:7: invalid value 'a' for [b] wait_for: the name of several jobs"),  # noqa: E501
        ("[a]\nsize=1m\n[b]\nsize=1m\n[c]\nsize=1m\nwait_for=a\n", "j.fio:7: [c] waits for [a], and not for [b]"),
        # Checks beside other settings.
        ("[a]\nsize=1m\nrw=randrw\nverify=crc32c\n[b]\nsize=1m\n", "j.fio:4: [a] has checks (verify) and runs at the same time as [b]"),  # noqa: E501
        ("[a]\nsize=1m\nbs=8k\n[b]\nsize=1m\nverify=crc32c\n", "j.fio:6: [b] has checks (verify) and runs at the same time as [a]"),  # noqa: E501
        # One line of [global] is one mistake.
        ("[global]\nsize=1q\n[a]\n[b]\n", "invalid value '1q'"),
        ("[global]\nsize=1q\n[a]\n[b]\n[c]\n[d]\n", "j.fio:2: invalid value '1q' for [a] and 3 more jobs: size"),
        # What does not go together, before any file is laid out.
        ("[j]\nfilename=/x\nsize=1m\nioengine=libaio\nnowait=1\n", "j.fio:5: [j] nowait: can only be used with the engines pvsync2, io_uring"),  # noqa: E501
        ("[j]\nfilename=/x\nsize=1m\nfixedbufs\n", "j.fio:4: [j] fixedbufs: can only be used with the engines io_uring"),
        ("[j]\nfilename=/x\nsize=1m\nbs=1000\ndirect=1\n", "j.fio:4: invalid value for [j] bs: 1000B with direct: on; expected multiples"),  # noqa: E501
        ("[j]\nfilename=/x\nsize=1m\noffset=1000\nbuffered=0\n", "j.fio:4: invalid value for [j] offset: 1000B with direct: on"),
        ("[j]\nfilename=/x\nsize=1k\n", "j.fio:3: invalid value for [j] size: a block of 4KiB in a working set of 1KiB"),
        ("[j]\nfilename=/x\nsize=8k\nnumjobs=4\nbs=4k\noffset_increment=2k\n", "expected as many bytes as size"),
        ("[j]\nfilename=/x\nsize=1m\nioengine=libaio\niodepth=99999\n", "j.fio:5: invalid value 99999 for [j] iodepth: expected 1 to 32768"),  # noqa: E501
        (
            "[global]\nioengine=mmap\nsize=1m\nfilename=/x\n[a]\n[b]\nstonewall\nbuffered=0\n",
            "j.fio:8: invalid value for [b] buffered: on with syscalls mmap, which is the page cache; expected off (it is `direct` here)",  # noqa: E501
        ),
        ("[a]\nioengine=filestat\n[b]\nioengine=filecreate\n", "[a] and [b] do not do the same to whole files"),
        ("[a]\nfilename=/x\nsize=1m\nrate_iops=5\n[b]\nstonewall\nfilename=/x\nsize=1m\n", "[a] has rate and [b] has none"),
        ("[a]\nfilename=/x\nsize=1m\n[b]\nstonewall\nfilename=/x\nsize=1m\n", "the 2 jobs are all alike"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_error_with_its_line(text: str, said: str) -> None:
    assert said in mistake(text)
