"""The mutants of a module: each is its source with one expression changed.

Not changed: annotations, names of types (`Effect = FillColumn | TruncateRows`), docstrings, decorators, the text of
errors (`raise`, `assert` messages), and imports. They have no part in what the code does, or change only words.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
_TYPE_NAME = re.compile(r"_?[A-Z]\w*[a-z]\w*")
_COMPILED = {"compiled", "inlined"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module with the text between two places replaced. `line` and `end_line` are those of the statement.

    `is_inside` a function says whether only that function differs: neither what is computed when the module is
    imported nor machine code.
    """

    path: Path
    line: int
    end_line: int
    start: int
    end: int
    before: str
    after: str
    compiled: bool
    is_inside: bool

    def source(self) -> str:
        """The module with the change."""
        text = self.path.read_bytes()
        return (text[: self.start] + self.after.encode() + text[self.end :]).decode()


def mutants_of(path: Path, interpreted: bool = False) -> list[Mutant]:
    """All mutants of a module, in the order of its text; where compiled code is `interpreted`, it has none."""
    text = path.read_bytes()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    tree = ast.parse(text)
    bodies = list(_bodies(tree))
    for node, after, statement, compiled in _changes(tree, None, False):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        before = text[start:end].decode()
        lines = statement.lineno, _head_end(statement)
        compiled = compiled and not interpreted
        is_inside = not compiled and any(first <= node.lineno <= last for first, last in bodies)
        found.append(Mutant(path, *lines, start, end, before, f"({after})", compiled, is_inside))
    return found


def _bodies(tree: ast.AST) -> Iterator[tuple[int, int]]:
    """The lines of all bodies of functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.body[0].lineno, node.end_lineno or 0


def _head_end(statement: ast.stmt) -> int:
    """The last line of a statement without the statements inside it."""
    body = getattr(statement, "body", None)
    inside = body[0].lineno - 1 if isinstance(body, list) and body else statement.end_lineno
    return max(statement.lineno, inside or 0)


_Change = tuple[ast.expr, str, ast.stmt, bool]


def _changes(node: ast.AST, statement: ast.stmt | None, compiled: bool) -> Iterator[_Change]:
    if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr) or _names_a_type(node):
        return
    if isinstance(node, ast.stmt):
        statement = node
    if isinstance(node, ast.FunctionDef):
        compiled = compiled or any(isinstance(d, ast.Name) and d.id in _COMPILED for d in node.decorator_list)
    if isinstance(node, ast.expr) and statement is not None:
        for after in _of_expression(node):
            yield node, ast.unparse(after), statement, compiled
    if isinstance(node, ast.Return) and _is_telling(node.value):
        yield node.value, "None", node, compiled
    for name, child in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "msg", "type_params"):
            continue
        for one in child if isinstance(child, list) else [child]:
            if isinstance(one, ast.AST):
                yield from _changes(one, statement, compiled)


def _names_a_type(node: ast.AST) -> bool:
    match node:
        case ast.Assign([ast.Name(name)]):
            return _TYPE_NAME.fullmatch(name) is not None
        case _:
            return False


def _is_telling(value: ast.expr | None) -> bool:
    return value is not None and not (isinstance(value, ast.Constant) and value.value is None)


def _of_expression(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(left, [op], [right]) if type(op) in _COMPARISONS:
            yield ast.Compare(left, [_COMPARISONS[type(op)]()], [right])
        case ast.Compare(left, ops, rest):
            for n, op in enumerate(ops):
                other = [*ops[:n], _COMPARISONS[type(op)](), *ops[n + 1 :]]
                yield ast.Compare(left, other, rest)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.BinOp(left, op, right) if type(op) in _ARITHMETIC and not _is_text(left) and not _is_text(right):
            yield ast.BinOp(left, _ARITHMETIC[type(op)](), right)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() as value):
            yield ast.Constant(value + 1)
        case ast.IfExp(test, body, orelse):
            yield ast.IfExp(test, orelse, body)
        case _:
            return


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
