"""Personalities of Filebench are read as its model language says, older words too, and what is wrong is said with its place."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iodyno.core.errors import ExperimentError
from iodyno.loads.files.core.binding import bound, laws_used
from iodyno.loads.files.core.bound import Bound, Flowop, Use
from iodyno.loads.files.core.parameters import kinds_of, workload_of
from iodyno.loads.files.core.wire import directory_of, places, program
from iodyno.loads.files.wml import is_personality, parse_personality, read_personality

SHAPES = sorted((Path(__file__).parent.parent / "fixtures" / "wml").glob("*.f"))
FILES = "define fileset name=tree,path=/srv,size=4k,entries=10,dirwidth=20,prealloc=80\n"


def personality(
    flowops: str = "flowop statfile name=ask,filesetname=tree", before: str = FILES, after: str = ""
) -> str:
    return f"{before}define process name=p {{\n  thread name=t {{\n    {flowops}\n  }}\n}}\n{after}"


def read(text: str | bytes, **given: int | float | bool | str) -> Bound:
    return bound(parse_personality(text, file="p.f"), given)


def only(text: str, **given: int | float | bool | str) -> Flowop:
    return read(personality(text), **given).processes[0].threads[0].flowops[0]


def mistake(text: str | bytes, **given: int | float | bool | str) -> str:
    with pytest.raises(ExperimentError) as caught:
        program(read(text, **given))
    return str(caught.value)


@pytest.mark.parametrize("path", SHAPES, ids=lambda path: path.stem)
def test_every_shape_that_filebench_ships_becomes_a_program(path: Path) -> None:
    held = bound(read_personality(path))
    told = program(held, target="/mnt/t")
    names = {fileset["name"] for fileset in told["filesets"]}
    variables = {variable["name"] for variable in told["variables"]}
    assert told["directory"] == "/mnt/t"

    def check(flowops: list[dict[str, object]]) -> int:
        count = 0
        for flowop in flowops:
            assert flowop.get("fileset", next(iter(names))) in names
            for value in flowop.values():
                if isinstance(value, dict):
                    assert value["variable"] in variables
            inner = flowop.get("flowops", [])
            assert isinstance(inner, list)
            assert (flowop["call"] == "composite") == bool(inner)
            count += 1 + check(inner)
        return count

    assert all(check(t["flowops"]) for p in told["processes"] for t in p["threads"])


def test_there_is_a_shape_for_each_of_the_47() -> None:
    assert len(SHAPES) == 47


def test_a_personality_becomes_files_threads_and_flowops() -> None:
    held = bound(read_personality(next(p for p in SHAPES if p.stem == "fileserver")))
    (files,), (process,) = held.files, held.processes
    assert (files.name, files.path, files.entries, files.size, files.made_percent) == (
        "tree",
        "/srv",
        100,
        Use("size"),
        80,
    )
    assert (process.threads[0].instances, process.threads[0].memory_bytes) == (4, 1 << 20)
    assert [f.kind for f in held.flowops()][:3] == ["createfile", "writewholefile", "closefile"]
    assert (held.seconds, held.mode, held.threads()) == (60, "timeout", 4)
    (law,) = laws_used(held)
    assert (law.law, law.parameters) == ("gamma", {"mean": 16384.0, "gamma": 1.5})


@pytest.mark.parametrize(
    ("written", "value"),
    [("8k", 8192), ("2m", 2 << 20), ("1g", 1 << 30), ("1.5k", 1536), ("4096", 4096), ("08", 8), ("1K", 1024), ("(2k + 2k) * 2", 8192),  # noqa: E501
     ("$n * 4k", 8192), ("$n*4k/2", 4096), ("16k - $n", 16382)],
)  # fmt: skip
def test_numbers_are_powers_of_1024_and_may_be_computed(written: str, value: int) -> None:
    text = f"set $n=2\nset $io={written}\n" + personality("flowop write name=w,filesetname=tree,iosize=$io")
    assert next(read(text).flowops()).options["iosize"] == value


def test_what_a_variable_holds_at_the_end_counts_and_what_is_given_wins() -> None:
    text = "set $io=4k\nset $double=$io * 2\n" + personality(
        "flowop write name=w,filesetname=tree,iosize=$io,workingset=$double", after="set $io=16k\nrun 5"
    )
    assert next(read(text).flowops()).options == {"filename": "tree", "iosize": 16384, "workingset": 8192}
    assert next(read(text, io=1024).flowops()).options == {
        "filename": "tree",
        "iosize": 1024,
        "workingset": 2048,
    }


def test_a_variable_that_is_not_set_comes_from_outside() -> None:
    text = personality("flowop write name=w,filesetname=tree,iosize=$io")
    held = bound(parse_personality(text), {}, {"io": "64k"})
    assert next(held.flowops()).options["iosize"] == 65536
    assert held.settings["io"] == 65536
    assert "the variable $io has no value" in mistake(text)


def test_paths_are_joined_and_files_lie_below_what_they_share() -> None:
    text = (
        'set $dir="/data/a b"\ndefine file name=one,path=$dir/x\ndefine file name=two,path=$dir/y/2\n'
        + personality("flowop read name=r,filename=one,iosize=4k", "")
    )
    held = read(text)
    assert [files.path for files in held.files] == ["/data/a b/x", "/data/a b/y/2"]
    assert directory_of(held) == "/data/a b"
    assert places(held) == {"one": "x", "two": "y/2"}
    assert directory_of(held, "/t") == "/t"


@given(st.lists(st.text("ab./$", min_size=1, max_size=12), min_size=1, max_size=3))
@settings(max_examples=100, deadline=None)
def test_nothing_lies_outside_of_the_target(paths: list[str]) -> None:
    lines = "".join(
        f'define file name=f{i},path="/{path.replace("$", "")}"\n' for i, path in enumerate(paths)
    )
    told = program(read(personality("flowop read name=r,filename=f0,iosize=4k", lines)), target="/t")
    for fileset in told["filesets"]:
        assert not fileset["path"].startswith("/")
        assert ".." not in fileset["path"].split("/")


def test_composite_flowops_are_put_in_with_their_variables() -> None:
    text = (
        FILES
        + "define flowop name=inner, $set, $size=8k {\n flowop write name=w,filesetname=$set,iosize=$size,iters=$times\n}\n"
        + "define flowop name=outer, $where {\n flowop inner name=i, $set=$where, $size=2k, iters=2\n}\nset $times=3\n"
        + personality("flowop outer name=o, iters=5, $where=tree", "")
    )
    outer = read(text).processes[0].threads[0].flowops[0]
    assert (outer.kind, outer.iterations, outer.flowops[0].iterations) == ("composite", 5, 2)
    (write,) = outer.each()
    assert (write.options, write.iterations) == ({"filename": "tree", "iosize": 2048}, 3)


def test_older_words_are_read_and_named() -> None:
    text = (
        "define randvar name=$size, type=uniform, min=1k, mean=3k, round=512, randsrc=urandom\n"
        + "define fileset name=tree,path=/srv,filesize=$size,entries=10,dirwidth=20,prealloc,cached=true\n"
        + personality(
            "flowop limit name=l\n flowop statfile name=ask,filesetname=tree",
            "",
            'stats snap\nusage "none"\n',
        )
    )
    held = read(text)
    assert held.files[0].made_percent == 100
    assert held.laws[0].parameters == {"least": 1024, "greatest": 5120}
    said = "\n".join(held.notes)
    for words in (
        "`define randvar` of older versions",
        "cached= of older versions (held in the page cache)",
        "the flowop limit of older versions: eventlimit",
        "stats is without effect",
    ):
        assert words in said


def test_what_is_not_carried_out_is_named() -> None:
    after = 'system "rm -rf $dir"\nsleep 5\npsrun -10 30\nenable multi master="a",client=b\ndomultisync value=1\necho "done $nothing"\n'  # noqa: E501
    held = read(personality(after=after))
    said = "\n".join(held.notes)
    assert held.seconds == 30
    for words in (
        "system 'rm -rf $dir' is not carried out",
        "sleep 5 is not carried out",
        "psrun -10",
        "clients are started together",
    ):
        assert words in said


def test_the_run_says_for_how_long_and_how_it_ends() -> None:
    assert read(personality()).seconds is None
    assert read(personality(after="run")).seconds == 60
    assert read(personality(after="set $s=7\nrun $s")).seconds == 7
    firstdone = read("set mode quit firstdone\n" + personality(after="run"))
    assert (firstdone.mode, firstdone.seconds) == ("firstdone", None)
    assert (
        read(
            personality(
                after="create files\ncreate processes\nstats clear\nsleep 2\nstats snap\nsleep 1\nquit"
            )
        ).seconds
        == 3
    )
    assert (
        read(personality(after="sleep 9\ncreate processes\nsleep 2\nshutdown processes\nsleep 9")).seconds
        == 2
    )
    assert read(personality(after="create processes\nsleep 2\nrun 7")).seconds == 7
    assert "one run is carried out" in "\n".join(read(personality(after="run 5\nrun 9")).notes)


@pytest.mark.parametrize(
    ("before", "after", "factors"),
    [
        ("set $t=2\n", "run $t", set()),
        ("set $t=2\nset $u=$t\n", "psrun -1 $u", set()),
        ("set $t=2\n", "create processes\nsleep $t", set()),
        ("set $t=2\nset $n=3\ndefine fileset name=more,path=/srv,entries=$n\n", "run $t", {"n"}),
        ("set $t=2\ndefine fileset name=more,path=/srv,entries=$t\n", "run $t", {"t"}),
    ],
)
def test_a_variable_that_only_says_how_long_it_runs_is_no_factor(
    before: str, after: str, factors: set[str]
) -> None:
    text = personality(before=before + FILES, after=after)
    assert set(kinds_of(parse_personality(text, file="p.f"))) == factors
    if not factors:
        assert read(text, t=7).seconds == 7  # `--set t=7`


def test_a_table_is_scaled_to_a_mean_and_a_min_is_where_a_gamma_begins() -> None:
    text = "set $s = randvar(type=tabular, mean=6k, randtable={{50,1k,3k},{50,3k,5k}})\n" + personality(
        "flowop write name=w,filesetname=tree,iosize=$s"
    )
    (law,) = read(text).laws
    assert law.rows == ((50, 2048, 6144), (50, 6144, 10240))
    gamma = read(
        text.replace(
            "tabular, mean=6k, randtable={{50,1k,3k},{50,3k,5k}}", "gamma, mean=6k, min=2k, gamma=2000"
        )
    ).laws[0]
    assert gamma.parameters == {"mean": 6144, "gamma": 2.0, "least": 2048}


def test_the_stages_of_an_erlang_law_are_a_whole_number_for_agents() -> None:
    """What is no whole number by its type is refused there, whatever its value."""
    text = "set $s=cvar(type=cvar-erlang,parameters=shape:3;rate:0.001)\n" + personality(
        "flowop write name=w,filesetname=tree,iosize=$s"
    )
    (variable,) = program(read(text))["variables"]
    assert json.loads(json.dumps(variable))["law"] == {"kind": "erlang", "shape": 3, "rate": 0.001}
    assert '"shape": 3,' in json.dumps(variable)


def test_an_index_without_a_mean_is_a_part_of_half_of_the_entries() -> None:
    told = program(
        read(
            "set $i = randvar(type=gamma, min=0, gamma=100)\n"
            + personality("flowop statfile name=s,filesetname=tree,indexed=$i")
        )
    )
    (law,) = [v for v in told["variables"] if "*" in v["name"]]
    assert law["law"]["mean"] == pytest.approx(0.1 * 5)


def test_a_file_that_is_loaded_lies_beside_and_is_part_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "base.f").write_text("set $n=3\n" + FILES)
    (tmp_path / "main.f").write_text(
        "load base\n" + personality("flowop statfile name=s,filesetname=tree,iters=$n", "", "run 5\n")
    )
    held = read_personality(tmp_path / "main.f")
    assert next(bound(held).flowops()).iterations == 3
    assert bound(parse_personality(held.text)).flowops().__next__().iterations == 3
    (tmp_path / "base.f").write_text("load main\n")
    with pytest.raises(ExperimentError, match="load each other"):
        read_personality(tmp_path / "main.f")


def test_variables_are_parameters_with_units() -> None:
    text = "set $io=8k\nset $n=4\nset $durable=true\nset $twice=$n * 2\nset $kind=x\n" + personality(
        "flowop write name=w,filesetname=tree,iosize=$io,iters=$n,dsync=$durable"
    )
    held = parse_personality(text)
    assert kinds_of(held) == {"io": "size", "n": "count", "durable": "switch"}
    parameter = workload_of(held).parameter("io")
    assert parameter is not None
    assert parameter.parse("64KiB") == 65536


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sett $a=1", "p.f:1:1: unexpected 'sett' at the begin of a statement: expected set,"),
        ("set a=1", "p.f:1:5: unexpected 'a' after set: expected a variable such as $nfiles, or mode\n  try: set $a = ..."),
        ("set $a 1", "p.f:1:8: unexpected '1': expected = after $a"),
        ('set $a="x', "p.f:1:8: the text that begins here has no closing quote"),
        ("set $a=5q", "p.f:1:8: invalid value '5q': expected a number such as 16, 8k, 4m or 1g"),
        ("set $a=8/²", "p.f:1:9: unexpected '/²'"),
        ("set $a=\x01", "which begins nothing that a personality holds"),
        ("set mode quit later", "p.f:1:15: unexpected 'later' after set mode quit: expected timeout, alldone, firstdone"),
        ("foreach $x in 1,2 { run }", "repeats runs"),
        ("define fileset nam=x,path=/y", "p.f:1:16: unexpected 'nam' of a fileset: expected name, path,"),
        ("define proces name=x", "did you mean 'process'?"),
        ("define process name=p thread name=t { flowop read name=r }", "expected { before the threads of a process"),
        ("define process name=p { thread name=t { flowop read name=r ", "p.f:1:39: the { that is here is never closed"),
        ("define process name=p { }", "a process without a thread"),
        ("", "the file is empty"),
        ("run 5", "found no `define process`, so nothing would run"),
        (FILES + FILES + personality(before=""), "duplicate name tree of a file or fileset (first in line 1)"),
        (personality("flowop reed name=r"), "p.f:4:12: unknown flowop 'reed': expected read, write,"),
        (personality("flowop read name=r,filename=three,iosize=1k"), "no file or fileset has the name 'three'; those there are: tree; did you mean 'tree'?"),  # noqa: E501
        (personality("flowop read name=r,filename=tree"), "p.f:4:12: read without iosize=: expected iosize=..."),
        (personality("flowop read name=r,filename=tree,iosize=big"), "invalid value 'big' for iosize: expected a number"),
        (personality("flowop read name=r,filename=tree,iosize=$x"), "the variable $x has no value; those that have one: none yet\n  try: --set x=VALUE"),  # noqa: E501
        (personality("flowop wakeup name=w,target=nobody"), "unknown target 'nobody': expected w"),
        (personality("flowop sempost name=w,target=s,value=1\n flowop statfile name=s,filesetname=tree"), "invalid value 's' for target: a statfile; expected a semblock"),  # noqa: E501
        (personality("flowop makedir name=m,filesetname=tree"), "which has no leaf directories"),
        ("set $s=randvar(type=uniform,min=4k,max=12k,round=1k)\n" + personality("flowop read name=r,filename=tree,iosize=$s"), "a randvar of type uniform with min=4096 and without a mean; expected mean="),  # noqa: E501
        ("set $s=randvar(type=tabular,randtable={{50,1,2}})\n" + personality(), "the percentages of the table add up to 50; expected 100"),  # noqa: E501
        ("set $s=cvar(type=cvar-gama)\n" + personality(), "invalid value 'cvar-gama' for type: expected uniform, normal,"),
        ("set $s=cvar(type=cvar-gamma,parameters=mena:5)\n" + personality(), "invalid value 'mena:5' for parameters: expected parameters of cvar-gamma, mean, gamma"),  # noqa: E501
        ("set $s=cvar(type=cvar-erlang,parameters=shape:2.5)\n" + personality(), "p.f:1:41: invalid value 'shape:2.5' for parameters: expected a whole number of cvar-erlang, 1 to 1000"),  # noqa: E501
        ("set $s=cvar(type=cvar-normal,min=9,max=8)\n" + personality(), "p.f:1:34: invalid value 9 for min: expected max=8 or less"),  # noqa: E501
        ("set $s=randvar(type=tabular,min=9,max=8,randtable={{100,1,2}})\n" + personality(), "p.f:1:33: invalid value 9 for min: expected max=8 or less"),  # noqa: E501
        ("set $s=cvar(type=cvar-normal,round=-4)\n" + personality(), "p.f:1:36: invalid value -4 for round: expected a whole number of bytes"),  # noqa: E501
        ("set $s=cvar(type=cvar-lognormal,parameters=scale:4096)\n" + personality(), "invalid value 4096 for mu of s: expected up to 1000"),  # noqa: E501
        ("set $s=randvar(type=uniform,mean=4611686018427387904)\n" + personality(), "invalid value 9.22337e+18 for greatest of s: expected up to 9.2e+18"),  # noqa: E501
        ("set $a=1\nset $b=$a / 0\n" + personality(), "p.f:2:11: a division by 0"),
        ("define flowop name=c { flowop c name=x }\n" + personality("flowop c name=y"), "is done within itself"),
        (personality("flowop statfile name=s,filesetname=tree,$x=1"), "$x can only be used with a composite flowop, not with statfile"),  # noqa: E501
        (personality(before="define file name=sda,path=/dev\n", flowops="flowop read name=r,filename=sda,iosize=4k"), "where devices and kernel are"),  # noqa: E501
        (personality(before="define file name=a,path=here\n", flowops="flowop read name=r,filename=a,iosize=4k"), "is not absolute"),  # noqa: E501
        ("load other\n", "p.f:1:1: load 'other': neither other nor other.f is there"),
        (b"run\xff 5", "p.f:1:4: invalid value: a byte that is no UTF-8"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_error_with_line_and_column(text: str | bytes, said: str) -> None:
    assert said in mistake(text)


def test_a_personality_is_known_by_its_name_or_its_first_statement(tmp_path: Path) -> None:
    for name, text, answer in (
        ("a.f", "", True), ("b", "# x\nset $a=1\n", True), ("c", "define process name=x {", True),
        ("d.yaml", "set $a=1", False), ("e", "name: x\n", False), ("f", "[global]\n", False),
    ):  # fmt: skip
        (tmp_path / name).write_text(text)
        assert is_personality(tmp_path / name) is answer
    assert not is_personality(tmp_path / "missing")


_CORPUS = [path.read_bytes() for path in SHAPES]


@given(st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_a_mutated_personality_is_read_or_refused_with_one_error(seed: int) -> None:
    drawn = random.Random(seed)
    text = bytearray(drawn.choice(_CORPUS))
    for _ in range(drawn.randint(1, 6)):
        at = drawn.randrange(len(text))
        piece = drawn.choice(
            [
                b"",
                b"{",
                b"}",
                b"$",
                b'"',
                b",",
                b"=",
                b"(",
                b"99999999999999999999",
                b"flowop ",
                b"\xff",
                b"-",
                b"/",
                b"set $x=$x\n",
            ]
        )
        text[at : at + drawn.randint(0, 8)] = piece
    try:
        program(read(bytes(text)), target="/t")
    except ExperimentError as error:
        assert error.where.startswith("p.f")
        assert error.what


@given(st.binary(max_size=200))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_read_or_refused_with_one_error(raw: bytes) -> None:
    try:
        program(read(raw), target="/t")
    except ExperimentError as error:
        assert error.where.startswith("p.f")


def test_brackets_within_brackets_end_with_an_error() -> None:
    assert "expected 64 deep" in mistake("set $a=" + "(" * 5000)


@pytest.mark.parametrize("attribute", ["entries", "dirwidth"])
def test_a_count_that_is_not_set_is_one_from_wherever_it_comes(attribute: str) -> None:
    text = personality(before=f"define fileset name=tree,path=/srv,size=4k,{attribute}=$NF,leafdirs=2\n")
    read_text = parse_personality(text, file="p.f")
    assert kinds_of(read_text)["NF"] == "count"
    for held in (
        bound(read_text, {"NF": 7}),
        bound(read_text, {"NF": "7"}),
        bound(read_text, {}, {"NF": "7"}),
    ):
        files = held.files[0]
        assert 7 in (files.entries, files.directory_width)


def test_numbers_from_outside_are_numbers_where_they_are_used() -> None:
    before = "set $n=$(NFILES)\ndefine fileset name=tree,path=/srv,size=4k,entries=$n\n"
    text = personality(
        "flowop read name=r,filesetname=tree,fd=$FD,iosize=4k,iters=$IT,directio=$D\n    flowop delay name=d,value=$V",
        before,
        "eventgen rate=$RATE\n",
    )
    written = parse_personality(text, file="p.f")
    kinds = kinds_of(written)
    assert {kinds[name] for name in ("NFILES", "FD", "IT")} == {"count"}
    told = {"NFILES": "5", "FD": "2", "IT": "3", "D": "0", "V": "0.5", "RATE": "10"}
    held = bound(written, told)
    flowop, pause = held.processes[0].threads[0].flowops
    assert (held.files[0].entries, held.events_per_s) == (5, 10)
    assert (flowop.options["fd"], flowop.iterations, flowop.options["directio"]) == (2, 3, False)
    assert pause.options["value"] == 0.5


@pytest.mark.parametrize(
    ("flowops", "said"),
    [
        ("flowop read name=r,filesetname=tree,iosize=0", "p.f:4:48: invalid value for iosize: 0 (read r)"),
        (
            "flowop write name=r,filesetname=tree,iosize=1000,directio",
            "p.f:4:49: invalid value for iosize: 1000 with directio",
        ),
        (
            "flowop openfile name=o,filesetname=tree,fd=1,directio\n    flowop read name=r,fd=1,iosize=700",
            "p.f:5:",
        ),
        ("flowop read name=r,filesetname=tree,iosize=4k,iters=0", "invalid value 0 for iters: expected 1 to"),
        ("flowop read name=r,filesetname=out,iosize=4k", "which is writeonly (line 2)"),
        (
            "flowop openfile name=o,filesetname=in,fd=1\n    flowop appendfile name=a,fd=1,iosize=4k",
            "readonly",
        ),
    ],
)
def test_what_no_call_could_do_is_refused_with_its_place(flowops: str, said: str) -> None:
    before = (
        FILES
        + "define file name=out,path=/srv,size=4k,writeonly\ndefine file name=in,path=/srv,size=4k,readonly\n"
    )
    assert said in mistake(personality(flowops, before)).replace("p.f:6:", "p.f:4:").replace(
        "p.f:7:", "p.f:5:"
    )


def test_a_whole_file_has_no_length_and_lengths_of_sectors_may_go_direct() -> None:
    assert only("flowop readwholefile name=r,filesetname=tree,iosize=0").options["iosize"] == 0
    assert only("flowop read name=r,filesetname=tree,iosize=1536,directio").options["iosize"] == 1536
