"""Values of operands, commands and pipelines; upstream: Go text/template/exec.go with missingkey=error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nfd.errors import Endless
from nfd.rules.template.function_calls import Function, Runtime, check_type, constant_as
from nfd.rules.template.nodes import Chain, Constant, Dot, Field, Identifier, Operand, Pipe, Variable
from nfd.rules.template.values import GoMap, GoObject, TemplateError, truth, type_name

_MISSING = object()
_FEW = 100
"""Variables that are looked through in a moment."""


class Evaluator:
    """The variables in scope, and what is left of the budget."""

    def __init__(self, functions: Mapping[str, Function], runtime: Runtime) -> None:
        self._functions = functions
        self._runtime = runtime
        self._budget = runtime.budget
        self._variables: list[list[Any]] = []

    def _assign(self, name: str, value: Any) -> None:
        for slot in reversed(self._variables):
            if slot[0] == name:
                slot[1] = value
                return
        raise TemplateError(f"undefined variable {name!r}")

    def _pipe(self, pipe: Pipe, dot: Any) -> Any:
        value: Any = _MISSING
        for command in pipe.commands:
            value = self._command(command, dot, value)
        for name in pipe.variables:
            if pipe.assigns:
                self._assign(name, value)
            else:
                self._variables.append([name, value])
        return value

    def _command(self, command: tuple[Operand, ...], dot: Any, final: Any) -> Any:
        first = command[0]
        if isinstance(first, Identifier):
            return self._function(first, command[1:], dot, final)
        arguments = command[1:]
        if isinstance(first, Field | Chain | Variable) and (not isinstance(first, Variable) or first.names):
            return self._fields(first, arguments, dot, final)
        if arguments or final is not _MISSING:
            raise TemplateError("can't give argument to non-function")
        if isinstance(first, Constant) and first.value is None and not first.overflows:
            raise TemplateError("nil is not a command")
        return self._value(first, dot)

    def _value(self, node: Operand, dot: Any) -> Any:
        """The value of an operand that stands by itself."""
        if isinstance(node, Pipe):
            self._budget.spend()
            return self._pipe(node, dot)
        if isinstance(node, Dot):
            return dot
        if isinstance(node, Identifier):
            return self._function(node, (), dot, _MISSING)
        if isinstance(node, Variable) and not node.names:
            return self._variable(node.name)
        if isinstance(node, Constant):
            return constant_as("any", node)
        return self._fields(node, (), dot, _MISSING)

    def _variable(self, name: str) -> Any:
        if len(self._variables) > _FEW:
            self._budget.spend(len(self._variables) // _FEW)
        for slot in reversed(self._variables):
            if slot[0] == name:
                return slot[1]
        raise TemplateError(f"undefined variable {name!r}")

    def _fields(self, node: Operand, arguments: tuple[Operand, ...], dot: Any, final: Any) -> Any:
        if isinstance(node, Field):
            receiver, names = dot, node.names
        elif isinstance(node, Variable):
            receiver, names = self._variable(node.name), node.names
        elif isinstance(node, Chain):
            if isinstance(node.node, Constant):
                raise TemplateError("indirection through explicit nil")
            receiver, names = self._value(node.node, dot), node.names
        else:
            raise TemplateError("can't evaluate field of this operand")
        for name in names[:-1]:
            receiver = self._field(receiver, name, (), dot, _MISSING)
        return self._field(receiver, names[-1], arguments, dot, final)

    def _field(self, receiver: Any, name: str, arguments: tuple[Operand, ...], dot: Any, final: Any) -> Any:
        if receiver is None:
            raise TemplateError(f"nil data; no entry for key {name!r}")
        if isinstance(receiver, GoObject) and name in receiver.methods:
            values = [self._value(argument, dot) for argument in arguments]
            values += [] if final is _MISSING else [final]
            self._budget.spend(1 + sum(len(value) for value in values if isinstance(value, str)))
            return self._guarded(name, lambda: receiver.methods[name](receiver, *values))
        if not isinstance(receiver, GoMap):
            raise TemplateError(f"can't evaluate field {name} in type {type_name(receiver)}")
        if arguments or final is not _MISSING:
            raise TemplateError(f"{name} is not a method but has arguments")
        if name not in receiver:
            raise TemplateError(f"map has no entry for key {name!r}")
        return receiver[name]

    def _function(self, node: Identifier, arguments: tuple[Operand, ...], dot: Any, final: Any) -> Any:
        self._budget.spend()
        function = self._functions[node.name]
        function.check_count(len(arguments) + (final is not _MISSING), node.name)
        if node.name in ("and", "or"):
            return self._short_circuit(node.name == "or", arguments, dot, final)
        values = [self._argument(one, function.type_at(index), dot) for index, one in enumerate(arguments)]
        if final is not _MISSING:
            values.append(check_type(final, function.type_at(len(arguments))))
        return self.call_function(node.name, values)

    def call_function(self, name: str, values: list[Any]) -> Any:
        """Call a function with arguments that fit, and count what that costs. Raises: TemplateError."""
        function = self._functions[name]
        function.account(values, self._budget)
        result = self._guarded(name, lambda: function.invoke(self._runtime, values))
        return self._budget.check(result)

    def _short_circuit(self, wanted: bool, arguments: tuple[Operand, ...], dot: Any, final: Any) -> Any:
        value: Any = None
        for argument in arguments:
            value = self._argument(argument, "any", dot)
            if truth(value) == wanted:
                return value
        return value if final is _MISSING else final

    def _argument(self, node: Operand, wanted: str, dot: Any) -> Any:
        if isinstance(node, Constant):
            return constant_as(wanted, node)
        return check_type(self._value(node, dot), wanted)

    def _guarded(self, name: str, call: Callable[[], Any]) -> Any:
        """Call a function; whatever goes wrong inside fails the template, as a recovered panic does in Go."""
        try:
            return call()
        except TemplateError as error:
            raise type(error)(f"{name}: {error}") from error
        except Endless:
            raise
        except Exception as error:
            raise TemplateError(f"{name}: {type(error).__name__}: {error}") from error
