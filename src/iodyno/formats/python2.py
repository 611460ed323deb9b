"""Scripts of Python 2, read as such: `print` is a statement, and `/` of two whole numbers rounds down."""

from __future__ import annotations

import ast
import io
import tokenize
from types import CodeType

DIVIDE = "_divide_as_python_2"
NAMES = {"xrange": range, "raw_input": input}
"""Other names that such a script may call."""


def divide(left: object, right: object) -> object:
    """Divide as `/` did in Python 2."""
    whole = isinstance(left, int) and isinstance(right, int)
    return left // right if whole else left / right  # type: ignore[operator]


def compiled(text: str, file: str) -> CodeType:
    """The script, compiled with its own lines; it needs `divide` under the name DIVIDE. Raises SyntaxError."""
    try:
        tree = ast.parse(_print_as_call(text), file)
    except (tokenize.TokenError, IndentationError) as problem:
        raise SyntaxError(str(problem.args[0])) from None
    return compile(ast.fix_missing_locations(_Division().visit(tree)), file, "exec")


def _print_as_call(text: str) -> str:
    words = list(tokenize.generate_tokens(io.StringIO(text).readline))
    lines = text.splitlines(keepends=True)
    put: list[tuple[tuple[int, int], str]] = []
    begins, depth, comma = True, 0, False
    printing = False
    for word in words:
        ends = depth == 0 and (word.type in (tokenize.NEWLINE, tokenize.COMMENT) or word.string == ";")
        if printing and ends:
            put.append((word.start, ' end=" ")' if comma else ")"))
            printing = False
        if begins and word.string == "print":
            put.append((word.end, "("))
            printing = True
        depth += (word.string in ("(", "[", "{")) - (word.string in (")", "]", "}"))
        comma = word.string == ","
        begins = word.type in (
            tokenize.NEWLINE,
            tokenize.NL,
            tokenize.INDENT,
            tokenize.DEDENT,
            tokenize.COMMENT,
        )
        begins = begins or (depth == 0 and word.string in (";", ":"))
    for (line, column), new in reversed(put):
        old = lines[line - 1]
        lines[line - 1] = old[:column] + new + old[column:]
    return "".join(lines)


class _Division(ast.NodeTransformer):
    """Calls `divide` for every `/`."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """`a / b`."""
        self.generic_visit(node)
        return _call(node, node.left, node.right) if isinstance(node.op, ast.Div) else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """`a /= b`."""
        self.generic_visit(node)
        if not isinstance(node.op, ast.Div):
            return node
        before = ast.parse(ast.unparse(node.target), mode="eval").body
        return ast.copy_location(ast.Assign([node.target], _call(node, before, node.value)), node)


def _call(node: ast.AST, left: ast.expr, right: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Call(ast.Name(DIVIDE, ast.Load()), [left, right], []), node)
