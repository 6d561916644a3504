"""Running a parsed template; upstream: Go text/template/exec.go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nfd.rules.template.budget import MAX_SIZE, Budget
from nfd.rules.template.evaluator import Evaluator
from nfd.rules.template.function_calls import Clock, Function, Runtime
from nfd.rules.template.nodes import Action, Body, Branch, Call, Jump, Pipe, Range, Statement, Text
from nfd.rules.template.printf import sprint
from nfd.rules.template.values import GoList, GoMap, TemplateError, is_integer, legible, truth, type_name
from nfd.rules.time_limit import FREE, Meter

MAX_CALLS = 60
"""How deep templates may call each other."""
MAX_BODIES = 100
"""How deep bodies of blocks and of called templates may be run inside of each other: well within Python's stack."""


TOO_DEEP = f"runs blocks and templates inside of each other deeper than {MAX_BODIES} levels"


class _Break(Exception):
    """Leaves a range."""


class _Continue(Exception):
    """Goes on with the next element of a range."""


def execute(
    bodies: Mapping[str, Body],
    functions: Mapping[str, Function],
    data: GoMap,
    clock: Clock | None = None,
    meter: Meter = FREE,
) -> str:
    """Run the main template on `data`. Raises: TemplateError."""
    run = _Run(bodies, functions, Runtime(Budget(meter=meter), clock))
    try:
        run.call("", data)
    except RecursionError as error:  # the caller has used more of the stack than expected
        raise TemplateError(TOO_DEEP) from error
    return legible("".join(run.output))


class _Run(Evaluator):
    """One execution: statements, and the output so far."""

    def __init__(self, bodies: Mapping[str, Body], functions: Mapping[str, Function], runtime: Runtime) -> None:
        super().__init__(functions, runtime)
        self._bodies = bodies
        self._calls = 0
        self._depth = 0
        self._size = 0
        self.output: list[str] = []

    def call(self, name: str, dot: Any) -> None:
        """Run a named template; it sees none of the caller's variables."""
        if name not in self._bodies:
            raise TemplateError(f"template {name!r} not defined")
        self._calls += 1
        if self._calls > MAX_CALLS:
            raise TemplateError(f"templates call each other deeper than {MAX_CALLS} levels")
        outer, self._variables = self._variables, [["$", dot]]
        self._body(self._bodies[name], dot)
        self._variables = outer
        self._calls -= 1

    def _body(self, body: Body, dot: Any) -> None:
        self._depth += 1
        if self._depth > MAX_BODIES:
            raise TemplateError(TOO_DEEP)
        for statement in body:
            self._budget.spend()
            _STATEMENTS[type(statement)](self, statement, dot)
        self._depth -= 1

    def _write(self, text: str) -> None:
        self._size += len(text)
        if self._size > MAX_SIZE:
            raise TemplateError(f"prints more than {MAX_SIZE} letters")
        self.output.append(text)

    def _text(self, node: Text, _dot: Any) -> None:
        self._write(node.text)

    def _action(self, node: Action, dot: Any) -> None:
        value = self._pipe(node.pipe, dot)
        if not node.pipe.variables:
            text = value if type(value) is str else "<no value>" if value is None else sprint([value], self._budget)
            self._write(text)

    def _branch(self, node: Branch, dot: Any) -> None:
        mark = len(self._variables)
        for pipe, body in node.arms:
            self._budget.spend()
            value = self._pipe(pipe, dot)
            if truth(value):
                self._body(body, value if node.sets_dot else dot)
                break
        else:
            self._body(node.otherwise, dot)
        del self._variables[mark:]

    def _range(self, node: Range, dot: Any) -> None:
        mark = len(self._variables)
        elements = self._elements(self._pipe(node.pipe, dot), node.pipe)
        if elements:
            self._iterate(node, elements)
        else:
            self._body(node.otherwise, dot)
        del self._variables[mark:]

    def _elements(self, value: Any, pipe: Pipe) -> Sequence[tuple[Any, Any]] | _Count:
        if value is None:
            return ()
        if isinstance(value, GoMap):
            return [(key, value[key]) for key in sorted(value)]
        if isinstance(value, GoList):
            return list(enumerate(value))
        if is_integer(value):
            if len(pipe.variables) > 1:
                raise TemplateError(f"can't use {value} to iterate over more than one variable")
            return _Count(value)
        raise TemplateError(f"range can't iterate over a {type_name(value)}")

    def _iterate(self, node: Range, elements: Sequence[tuple[Any, Any]] | _Count) -> None:
        pipe = node.pipe
        mark = len(self._variables)
        variables, calls, depth = self._variables, self._calls, self._depth
        for index, element in elements:
            self._budget.spend()
            if pipe.variables:
                self._bind(pipe, index, element)
            try:
                self._body(node.body, element)
            except _Continue:
                pass
            except _Break:
                break
            finally:
                self._variables, self._calls, self._depth = variables, calls, depth
                del self._variables[mark:]

    def _bind(self, pipe: Pipe, index: Any, element: Any) -> None:
        values = (index, element) if len(pipe.variables) > 1 else (element,)
        if pipe.assigns:
            for name, value in zip(pipe.variables, values, strict=True):
                self._assign(name, value)
        else:
            for slot, value in zip(self._variables[-len(values) :], values, strict=True):
                slot[1] = value

    def _call(self, node: Call, dot: Any) -> None:
        self.call(node.name, None if node.pipe is None else self._pipe(node.pipe, dot))

    def _jump(self, node: Jump, _dot: Any) -> None:
        raise _Break if node.leaves else _Continue


class _Count:
    """A range over a whole number: from zero, without making a list."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._make = type(number)

    def __bool__(self) -> bool:
        return self._number > 0

    def __iter__(self) -> Any:
        return ((None, self._make(index)) for index in range(self._number))


_STATEMENTS: dict[type[Statement], Callable[[_Run, Any, Any], None]] = {
    Text: _Run._text,
    Action: _Run._action,
    Branch: _Run._branch,
    Range: _Run._range,
    Call: _Run._call,
    Jump: _Run._jump,
}
