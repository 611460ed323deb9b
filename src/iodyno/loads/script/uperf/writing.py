"""A script as the text of a profile, which reads back as the same script and which uperf takes, too.

>>> from iodyno.loads.script.core.values import Flowop, Group, Script, Transaction
>>> print(written(Script("p", (Group("g", 2, (Transaction((Flowop("write", {"size": 8192}),), 1),)),))), end="")
<?xml version="1.0"?>
<profile name="p">
  <group name="g" nthreads="2">
    <transaction iterations="1">
      <flowop type="write" options="size=8k"/>
    </transaction>
  </group>
</profile>
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import quoteattr

from iodyno.core import quantity
from iodyno.loads.script.core.flowops import OPTIONS
from iodyno.loads.script.core.values import Flowop, OptionKind, Script, Transaction, Uniform, Value, Variable


def written(script: Script) -> str:
    """The text of the profile."""
    return "".join(f"{line}\n" for line in _lines(script))


def _lines(script: Script) -> Iterator[str]:
    yield '<?xml version="1.0"?>'
    yield f"<profile name={quoteattr(script.name)}>"
    for group in script.groups:
        threads = "nprocs" if group.processes else "nthreads"
        yield f"  <group name={quoteattr(group.name)} {threads}={_quoted(group.threads, 'count')}>"
        for transaction in group.transactions:
            yield f"    <transaction {_attributes(transaction)}>"
            for flowop in transaction.flowops:
                yield f"      {_flowop(flowop)}"
            yield "    </transaction>"
        yield "  </group>"
    yield "</profile>"


def _attributes(transaction: Transaction) -> str:
    parts = []
    if transaction.duration_ns is not None:
        parts.append(f"duration={_quoted(transaction.duration_ns, 'duration')}")
    else:
        parts.append(f"iterations={_quoted(transaction.iterations or 1, 'count')}")
    if transaction.rate is not None:
        parts.append(f"rate={_quoted(transaction.rate, 'count')}")
    return " ".join(parts)


def _flowop(flowop: Flowop) -> str:
    options = " ".join(
        name if OPTIONS[name].kind == "flag" else f"{name}={value_text(value, OPTIONS[name].kind)}"
        for name, value in flowop.options.items()
    )
    return f'<flowop type="{flowop.kind}"' + (f" options={quoteattr(options)}/>" if options else "/>")


def _quoted(value: Value, kind: OptionKind) -> str:
    return quoteattr(value_text(value, kind))


def value_text(value: Value, kind: OptionKind) -> str:
    """A value as uperf writes it."""
    if isinstance(value, Variable):
        return f"${value.name}"
    if isinstance(value, Uniform):
        return f"rand({value_text(value.low_bytes, 'size')},{value_text(value.high_bytes, 'size')})"
    if kind == "duration" and isinstance(value, int):
        return quantity.show("duration", value)
    if kind == "size" and isinstance(value, int):
        for unit, factor in (("g", 1 << 30), ("m", 1 << 20), ("k", 1 << 10)):
            if value and value % factor == 0:
                return f"{value // factor}{unit}"
    return str(value)
