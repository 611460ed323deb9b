"""Profiles of uperf are read as uperf reads them, and what is wrong with one is said once, with its line."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iodyno.core.errors import ExperimentError
from iodyno.loads.script.core.values import Uniform, Variable
from iodyno.loads.script.uperf import is_profile, parse_profile, read_profile, values_of
from iodyno.loads.script.uperf.tags import NoTagError, tags

STREAM = """<?xml version="1.0"?>
<profile name="stream">
  <group nthreads="4">
    <transaction iterations="1">
      <flowop type="connect" options="remotehost=$h protocol=tcp
              wndsz=50k tcp_nodelay"/>
    </transaction>
    <transaction duration="30s">
      <flowop type="write" options="count=10 size=8k"/>
    </transaction>
    <transaction iterations="1">
      <flowop type="disconnect" />
    </transaction>
  </group>
</profile>
"""


def wrapped(flowops: str, transaction: str = 'iterations="1"', group: str = 'nthreads="1"') -> str:
    return f'<profile name="p">\n<group {group}>\n<transaction {transaction}>\n{flowops}\n</transaction>\n</group>\n</profile>'


def options_of(options: str, kind: str = "write") -> dict[str, object]:
    script = parse_profile(wrapped(f'<flowop type="{kind}" options="{options}"/>')).script
    return dict(script.groups[0].transactions[0].flowops[0].options)


def mistakes(text: str | bytes) -> str:
    with pytest.raises(ExperimentError) as caught:
        parse_profile(text)
    return str(caught.value)


def test_a_profile_becomes_groups_transactions_and_flowops() -> None:
    group = parse_profile(STREAM).script.groups[0]
    connect, write, disconnect = group.transactions
    assert group.threads == 4
    assert not group.processes
    assert connect.iterations == 1
    assert connect.flowops[0].options == {
        "remotehost": Variable("h", "host", 5),
        "protocol": "tcp",
        "wndsz": 51200,
        "tcp_nodelay": 1,
    }
    assert (write.duration_ns, write.iterations) == (30 * 10**9, None)
    assert write.flowops[0].options == {"count": 10, "size": 8192}
    assert [flowop.kind for flowop in disconnect.flowops] == ["disconnect"]


@pytest.mark.parametrize(
    "text",
    [
        STREAM.rstrip("\n"),
        STREAM.replace("\n", "").replace("              ", " ").replace("  ", ""),
        STREAM.replace("\n", "\r\n"),
        STREAM.replace('version="1.0"', "version=1.0"),
        STREAM.replace('type="write"', "type=write").replace('type="disconnect"', "type=disconnect"),
        STREAM.replace('"', "'"),
        STREAM.replace("<flowop", "<FlowOp").replace('type="', 'Type="').replace("<profile", "<PROFILE"),
        STREAM.replace("<group", "<!-- a comment with <tags> -- and more -->\n<group"),
        STREAM.replace('type="write" options', 'type = "write"   options'),
        STREAM.replace('size=8k"/>', 'size=8K"></flowop>'),
        STREAM.replace('<flowop type="disconnect" />', '<flowop type="disconnect">'),
        "\ufeff" + STREAM,
        # As in profiles that Kubernetes tools write: the transaction is not closed.
        STREAM.replace("</transaction>", "", 2).replace("</transaction>", "</transaction>", 1),
        # As in a test of uperf's own: a transaction ends twice.
        STREAM.replace("</transaction>", "</transaction>\n</transaction>", 1),
    ],
)
def test_what_uperf_takes_means_the_same_however_it_is_written(text: str) -> None:
    def plain(profile: str) -> list[object]:
        groups = parse_profile(profile).script.groups
        return [
            (
                t.iterations,
                t.duration_ns,
                [(f.kind, {k: str(v).split(", line")[0] for k, v in f.options.items()}) for f in t.flowops],
            )
            for group in groups
            for t in group.transactions
        ]

    assert plain(text) == plain(STREAM)


def test_what_is_not_closed_is_said() -> None:
    profile = parse_profile(STREAM.replace("</transaction>", "", 1))
    assert [note for note in profile.notes if "is not closed" in note and ":4:" in note]


def test_an_end_too_many_is_said() -> None:
    profile = parse_profile(
        "<profile>\n<group>\n<transaction>\n</transaction>\n</transaction>\n</group></profile>"
    )
    assert [note for note in profile.notes if ":5:" in note and "ends nothing" in note]


@pytest.mark.parametrize(
    ("written", "bytes_"),
    [
        ("8k", 8192),
        ("8K", 8192),
        ("64", 64),
        ("64b", 64),
        ("1m", 1 << 20),
        ("1.5k", 1536),
        ("8KB", 8192),
        ("1g", 1 << 30),
    ],
)
def test_sizes_are_powers_of_1024(written: str, bytes_: int) -> None:
    assert options_of(f"size={written}")["size"] == bytes_


@pytest.mark.parametrize(
    ("written", "ns"),
    [("30", 30e9), ("30s", 30e9), ("250ms", 250e6), ("7us", 7000), ("9ns", 9), ("1.5s", 1.5e9)],
)
def test_durations_are_exact_and_seconds_without_a_unit(written: str, ns: float) -> None:
    assert options_of(f"duration={written}", "think")["duration"] == ns
    script = parse_profile(wrapped('<flowop type="nop"/>', f'duration="{written}"')).script
    assert script.groups[0].transactions[0].duration_ns == ns


def test_minutes_are_milliseconds_as_in_uperf_and_that_is_said() -> None:
    profile = parse_profile(wrapped('<flowop type="nop"/>', 'duration="2m"'))
    assert profile.script.groups[0].transactions[0].duration_ns == 2_000_000
    assert "milliseconds" in profile.notes[0]


def test_random_sizes_hold_blanks() -> None:
    assert options_of("size=rand(1, 4k) count=3") == {"size": Uniform(1, 4096), "count": 3}


def test_upper_case_survives_where_it_means_something() -> None:
    options = options_of("remotehost=$HOST protocol=TCP", "connect")
    assert options["remotehost"] == Variable("HOST", "host", 4)
    assert options["protocol"] == "tcp"
    assert options_of("dir=/Data/Files size=8k", "sendfile")["dir"] == "/Data/Files"
    assert options_of("remotehost=Server.Example protocol=tcp", "connect")["remotehost"] == "Server.Example"


def test_a_transaction_runs_once_unless_it_says_otherwise() -> None:
    assert parse_profile(wrapped('<flowop type="nop"/>', "")).script.groups[0].transactions[0].iterations == 1


def test_the_last_of_two_numbers_of_threads_counts_as_in_uperf() -> None:
    profile = parse_profile(wrapped('<flowop type="nop"/>', group='nthreads="2" nprocs="3"'))
    assert (profile.script.groups[0].threads, profile.script.groups[0].processes) == (3, True)
    assert any("both given" in note for note in profile.notes)


def test_what_has_another_meaning_is_said_with_all_its_lines() -> None:
    profile = parse_profile(wrapped('<flowop type="write" options="size=1 count=2"/>\n' * 2))
    assert [note for note in profile.notes if note.startswith("profile.xml:4, 5: count:")]


def test_a_transaction_of_no_iterations_is_left_out_and_said_where_others_have_another_number() -> None:
    never = '</transaction>\n<transaction iterations="0">\n<flowop type="think" options="duration=1s"/>\n'
    after = '</transaction><transaction iterations="3"><flowop type="nop"/>'
    for end, noted in ((after, True), ("", False)):
        profile = parse_profile(wrapped(f'<flowop type="nop"/>\n{never}{end}'))
        kinds = [t.flowops[0].kind for t in profile.script.groups[0].transactions]
        assert kinds == ["nop", "nop"][: 1 + noted]
        assert [note.partition(": ")[0] for note in profile.notes] == ["profile.xml:6"] * noted
    # A duration counts, whatever the iterations.
    timed = parse_profile(wrapped('<flowop type="nop"/>', 'iterations="0" duration="1s"'))
    assert timed.script.groups[0].transactions[0].duration_ns == 10**9


@pytest.mark.parametrize("word", ["&", "8k", ",", ",count=3", "-canfail", "&amp;", "=", "*size = 9"])
def test_option_words_that_begin_with_no_letter_are_skipped_as_in_uperf_and_said(word: str) -> None:
    profile = parse_profile(wrapped(f'<flowop type="write" options="size=8 {word} canfail"/>'))
    assert profile.script.groups[0].transactions[0].flowops[0].options == {"size": 8, "canfail": 1}
    said = [note for note in profile.notes if "profile.xml:4: " in note and "skipped, as in uperf" in note]
    assert len(said) == (word != "=")


@pytest.mark.parametrize(
    ("encoding", "byte", "letter"),
    [("ISO-8859-1", b"\xe9", "é"), ("iso-8859-15", b"\xa4", "€"), ("windows-1252", b"\x80", "€")],
)
def test_text_in_the_encoding_that_the_file_names_is_read(encoding: str, byte: bytes, letter: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?>\n<!-- caf@ -->\n' + wrapped('<flowop type="nop"/>')
    raw = text.replace('name="p"', 'name="p@"').encode().replace(b"@", byte)
    profile = parse_profile(raw)
    assert profile.script.name == f"p{letter}"
    # What was read is kept as text, and read again.
    assert parse_profile(profile.text).script == profile.script
    assert parse_profile(text.replace("@", "é").encode()).script.name == "p"
    message = mistakes(raw.replace(encoding.encode(), b"UTF-8"))
    assert "profile.xml:2:" in message
    assert "iso-8859-1" in message


def test_bytes_that_the_named_encoding_does_not_have_are_a_mistake() -> None:
    message = mistakes(b"<?xml version='1.0' encoding='windows-1252'?>\n<profile name='\x81'/>")
    assert "profile.xml:2: the byte 0x81 is no windows-1252" in message


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (wrapped('<flowop type="nop"/>', 'iterations="0"'), 2, "iterations=0 in every transaction of the group"),
        (wrapped('<flowop type="write" options="size=1 sise=8k"/>'), 4, "did you mean 'size'?"),
        (wrapped('<flowop type="write" options="size=1 rsize=rand(1,2)"/>'), 4, "expected one size"),
        (wrapped('<flowop type="wriet"/>'), 4, "did you mean 'write'?"),
        (wrapped('<flowop type="write" options="size=1 siez=2"/>'), 4, "did you mean 'size'?"),
        (wrapped('<flowop type="write" options="size=1\n\ncuont=2"/>'), 6, "did you mean 'count'?"),
        (wrapped('<flowop type="write" options="size=8q"/>'), 4, "unknown unit 'q'"),
        (wrapped('<flowop type="write" options="size"/>'), 4, "size=VALUE"),
        (wrapped('<flowop type="connect" options="tcp_nodelay=1 protocol=tcp"/>'), 4, "tcp_nodelay alone"),
        (wrapped('<flowop type="connect" options="protocol=tpc"/>'), 4, "did you mean 'tcp'?"),
        (wrapped('<flowop type="connect" options="protocol=rds"/>'), 4, "iodyno does not speak RDS"),
        (wrapped('<flowop type="write"/>'), 4, "missing option size"),
        (wrapped('<flowop type="think" options="duration=0"/>'), 4, ": duration: expected 1ns to"),
        (wrapped('<flowop type="sendfilev" options="dir=/x nfiles=1025"/>'), 4, "nfiles: expected 1 to 1024"),
        (wrapped('<flowop type="write" options="size=1k,count=9"/>'), 4, "divided by blanks: size=1k count=9"),
        (wrapped('<flowop type="write" options="size=1 zzzz=2"/>'), 4, "expected size, rsize, count, repeat, conn, timeout,"
         " duration, canfail, non_blocking, batch_size\n"),
        (wrapped('<flowop type="write" options="size=rand(9,2)"/>'), 4, "smaller size first"),
        (wrapped('<flowop type="nop"/>', 'iteration="3"'), 3, "did you mean 'iterations'?"),
        (wrapped('<flowop type="nop"/>', group='nthreads="0"'), 2, "expected 1 to"),
        (wrapped('<flowop type="nop"/>', 'duration="0"'), 3, ": duration: expected 1ns to 604800s (7 d)"),
        (wrapped('<flowop type="read" options="size=1 timeout=0"/>'), 4, "expected 1ns to 3600s (1 h)"),
        (wrapped('<flowop type="read" options="size=2g"/>'), 4, "size: expected 1B to 1GiB"),
        (wrapped('<flowop type="nop"/>', group='nthreads="-1"'), 2, "nthreads"),
        (wrapped("<loop/>"), 4, "unknown tag"),
        (wrapped("text"), 4, "between the tags"),
        ('<profile name="x">\n<flowop type="nop"/>\n</profile>', 2, "outside of a <transaction>"),
        ('<profile name="x">\n<group nthreads="1">\n', 3, "the file ends within the <group> of line 2"),
        ('<profile>\n<!-- never ends\n', 2, "does not end"),
        (wrapped('<flowop type="nop" type="nop"/>'), 4, "duplicate attribute type="),
        (wrapped('<flowop type="nop" options="conn=$"/>'), 4, "variable"),
    ],
)  # fmt: skip
def test_a_mistake_is_said_with_its_line_and_what_is_allowed(text: str, line: int, said: str) -> None:
    message = mistakes(text)
    assert f"profile.xml:{line}:" in message
    assert said in message


def test_a_group_within_a_group_is_one_mistake() -> None:
    inner = '<group nthreads="1">\n<transaction><flowop type="nop"/></transaction>\n</group>'
    message = mistakes(f'<profile>\n<group nprocs="2">\n{inner}\n</group>\n</profile>\n')
    assert "profile.xml:3:" in message
    assert "within the <group> of line 2" in message
    assert "nothing opens" not in message


@pytest.mark.parametrize(
    "text",
    [
        '<transaction>\n<flowop type="nop"/>\n<flowop type="nop"/>\n</transaction>',
        '<profile>\n<transaction>\n<flowop type="nop">\n<flowop type="nop">\n</transaction>\n<group nthreads="1">\n'
        '<transaction><flowop type="nop"/></transaction></group></profile>',
        '<profile>\n<group nthreads="1">\n<flowop type="nop"/>\n</group>\n</profile>',
        wrapped('<flowop type="nop"/>') * 2,
        wrapped('<flowop type="write" options="sizee=64k"/>'),
        wrapped('<flowop type="wriet"/>'),
    ],
)
def test_what_is_in_something_that_is_refused_is_no_mistake_of_its_own(text: str) -> None:
    message = mistakes(text)
    assert message.count("profile.xml:") == 1, message


def test_after_what_is_refused_the_file_is_read_on() -> None:
    text = '<profile>\n<transaction>\n<flowop type="nop"/>\n<group nthreads="0">\n<transaction>\n<flowop type="wriet"/>'
    message = mistakes(f"{text}</transaction></group></profile>")
    assert [f"profile.xml:{line}:" in message for line in (2, 3, 4, 5, 6)] == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("flowop", "said", "options"),
    [
        ('type="think"', "a think without a duration takes no time, as in uperf", {}),
        ('type="think" options="busy idle duration=1"', "as in uperf, busy counts", {"busy": 1, "idle": 1, "duration": 10**9}),
        ('type="connect" options="protocol=tcp"', "connect names no remotehost and takes the host", {"protocol": "tcp"}),
        ('type="accept" options="protocol=tcp wndsz=512"', "wndsz=512 is less than any buffer of the kernel",
         {"protocol": "tcp", "wndsz": 512}),
        ('type="accept" options="protocol=tcp wndsz=0"', "wndsz=0 asks for no size", {"protocol": "tcp", "wndsz": 0}),
        ('type="sendfilev" options="dir=/x"', "a sendfilev without nfiles sends one file", {"dir": "/x"}),
        ('type="write" options="size=64k, canfail;"', "options are divided by blanks", {"size": 65536, "canfail": 1}),
    ],
)  # fmt: skip
def test_what_uperf_takes_and_few_expect_is_taken_and_said(
    flowop: str, said: str, options: dict[str, object]
) -> None:
    profile = parse_profile(wrapped(f"<flowop {flowop}/>"))
    assert profile.script.groups[0].transactions[0].flowops[0].options == options
    assert [note for note in profile.notes if said in note and note.startswith("profile.xml:4: ")]


def test_an_empty_file_that_is_called_xml_is_a_profile_that_lacks_everything(tmp_path: Path) -> None:
    for name, answer in (("a.xml", True), ("a.XML", True), ("a.yaml", False)):
        (tmp_path / name).write_text(" \n")
        assert is_profile(tmp_path / name) is answer
    assert not is_profile(tmp_path / "none.xml")
    with pytest.raises(ExperimentError, match=r"a\.xml:1: the file is empty; expected <profile>"):
        read_profile(tmp_path / "a.xml")


def test_all_mistakes_are_said_at_once() -> None:
    message = mistakes(wrapped('<flowop type="wriet"/>\n<flowop type="read" options="siez=1"/>'))
    assert "profile.xml:4:" in message
    assert "profile.xml:5:" in message


LAUGHS = '<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>\n<profile name="&b;"></profile>'


@pytest.mark.parametrize(
    "text",
    [
        LAUGHS,
        '<profile name="&lol9;"/>',
        '<!DOCTYPE p SYSTEM "file:///etc/passwd"><profile/>',
        "<profile" + "<group>" * 100_000,
        "<a>" * 200_000,
        '<profile name="' + "a" * (10 << 20) + '"/>',
        wrapped('<flowop type="write" options="' + "size=1 " * 100_000 + '"/>'),
        wrapped('<flowop type="write" options="' + "$" * 500_000 + '"/>'),
        wrapped('<flowop type="nop"/>' * 40_000),
        "<" * 500_000,
        "<!--" * 100_000,
        "<?" * 100_000,
        "<profile " + "a=b " * 200_000 + ">",
        "<profile " + " " * 1_000_000,
        "<profile name='" + "&#65;" * 100_000 + "&#0;'/>",
        b"\xff\xfe<\x00p\x00",
        b"<profile>\x00</profile>",
        b"<profile name='\xc3\x28'/>",
    ],
    ids=range(18),
)
def test_hostile_files_are_one_short_error(text: str | bytes) -> None:
    # Work that grows with the square of such a file would run into the time limit of a test.
    message = mistakes(text)
    assert len(message) < 20_000


def test_a_file_that_is_no_profile_or_not_there_is_one_error(tmp_path) -> None:
    for path in (tmp_path, tmp_path / "absent.xml"):
        with pytest.raises(ExperimentError):
            read_profile(path)
    profile = tmp_path / "named.yaml"
    profile.write_text("\n  <?xml version=1.0?>\n" + STREAM)
    assert is_profile(profile)
    other = tmp_path / "named.xml"
    other.write_text("name: x\n")
    assert not is_profile(other)
    assert not is_profile(tmp_path / "absent")


@given(
    st.lists(st.sampled_from([*"<>/=\"' -!?&;$()[]abg1", "\n", "<profile>", "<group ", "flowop", "-->"])).map(
        "".join
    )
)
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    try:
        parse_profile(text)
    except ExperimentError as problem:
        assert str(problem)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_damaged_profile_is_read_or_refused_in_words(data: st.DataObject) -> None:
    text = STREAM
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 12))
        put = data.draw(
            st.sampled_from(["", "<", ">", '"', "/", "=", "$", "&", "\n", "size=", "<group", "</", "\x00"])
        )
        text = text[:at] + put + text[at + length :]
    try:
        parse_profile(text)
    except ExperimentError as problem:
        assert str(problem)


_NAMES = st.sampled_from(["profile", "group", "transaction", "flowop", "a"])
_TEXTS = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00", exclude_categories=("Cs", "Cc")), max_size=20
)


@st.composite
def elements(draw: st.DrawFn, depth: int = 0) -> ElementTree.Element:
    element = ElementTree.Element(
        draw(_NAMES), draw(st.dictionaries(st.sampled_from("xyz"), _TEXTS, max_size=2))
    )
    if depth < 3:
        element.extend(draw(st.lists(elements(depth + 1), max_size=3)))
    return element


@given(elements())
@settings(max_examples=200, deadline=None)
def test_tags_are_those_that_an_xml_parser_sees(element: ElementTree.Element) -> None:
    """The oracle is expat, on files that are XML."""
    text = ElementTree.tostring(element, encoding="unicode")
    seen = [(node.tag, dict(node.attrib)) for node in ElementTree.fromstring(text).iter()]
    assert [(tag.name, dict(tag.attributes)) for tag in tags(text) if not tag.closes] == seen


def test_tags_carry_the_lines_of_their_attributes() -> None:
    (tag,) = tags('<flowop\n  type="read"\n\n  options="size=1"/>')
    assert (tag.line, dict(tag.lines)) == (1, {"type": 2, "options": 4})
    with pytest.raises(NoTagError) as caught:
        list(tags("<a/>\n\n<b c=>"))
    assert caught.value.line == 3


def test_a_profile_in_utf16_is_known_as_one(tmp_path: Path) -> None:
    """So that no option of profiles is refused as one of them, and the encoding is what is said."""
    for mark in (b"\xff\xfe", b"\xff\xfe\xff\xfe", b"\xfe\xff"):
        file = tmp_path / "wide.xml"
        file.write_bytes(mark + "<profile/>".encode("utf-16-be" if mark == b"\xfe\xff" else "utf-16-le"))
        assert is_profile(file)
        with pytest.raises(ExperimentError, match=r"UTF-16; expected UTF-8"):
            read_profile(file)


def test_a_variable_is_a_whole_value_and_no_part_of_one_or_of_a_name() -> None:
    text = (
        "<profile><group nthreads='1' name='$gname'><transaction>"
        "<flowop type='connect' options='remotehost=$h protocol=tcp'/>"
        "<flowop type='write' options='size={size}'/></transaction></group></profile>"
    )
    with pytest.raises(
        ExperimentError,
        match=r"invalid value 'rand\(\$lo,\$hi\)' for .*: expected .*variable such as \$h for all of it",
    ):
        parse_profile(text.format(size="rand($lo,$hi)"))
    read = parse_profile(text.format(size="$size"))
    assert values_of(read, {}, {"size": "rand(1k,4k)"})["size"] == "rand(1024,4096)"
    with pytest.raises(ExperimentError, match=r"has \$gname only in a name"):
        values_of(read, {}, {"size": "1k", "gname": "x"})
    with pytest.raises(ExperimentError, match=r"unknown variable \$other of profile.xml: expected .*size"):
        values_of(read, {}, {"size": "1k", "other": "x"})
