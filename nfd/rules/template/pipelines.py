"""Tokens → pipelines, commands and operands; upstream: Go text/template/parse/parse.go."""

from __future__ import annotations

from collections.abc import Container

from nfd.rules.template import literals
from nfd.rules.template.lexer import Token
from nfd.rules.template.nodes import Chain, Constant, Dot, Field, Identifier, Operand, Pipe, Variable
from nfd.rules.template.refused_functions import REFUSED
from nfd.rules.template.values import TemplateError

MAX_DEPTH = 60
"""How deep blocks and parentheses may be nested."""

OPERANDS = frozenset(("bool", "char", "dot", "field", "identifier", "number", "nil", "string", "variable", "lparen"))


class PipelineParser:
    """A place in the tokens, the variables known there, and the depth."""

    def __init__(self, tokens: list[Token], functions: Container[str]) -> None:
        self._tokens = tokens
        self._functions = functions
        self._pos = 0
        self._depth = 0
        self._variables = ["$"]

    def _peek(self) -> Token:
        return self._tokens[self._pos]

    def _next(self) -> Token:
        token = self._tokens[self._pos]
        self._pos += token.kind != "eof"
        return token

    def _skip_space(self) -> Token:
        while self._peek().kind == "space":
            self._pos += 1
        return self._peek()

    def _expect(self, kind: str, context: str) -> Token:
        if self._skip_space().kind != kind:
            raise self._unexpected(context)
        return self._next()

    def _fail(self, reason: str) -> TemplateError:
        return TemplateError(f"line {self._peek().line}: {reason}")

    def _unexpected(self, context: str) -> TemplateError:
        token = self._peek()
        return self._fail(
            f"unexpected {token.text[:40]!r} in {context}" if token.text else f"unexpected end in {context}"
        )

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._fail(f"nested deeper than {MAX_DEPTH} levels")

    def _pipe(self, context: str, end: str) -> Pipe:
        variables, assigns = self._declarations(context)
        commands: list[tuple[Operand, ...]] = []
        while (token := self._skip_space()).kind != end:
            if token.kind not in OPERANDS:
                raise self._unexpected(context)
            commands.append(self._command())
        if not commands:
            raise self._fail(f"missing value for {context}")
        self._next()
        for stage, command in enumerate(commands[1:], 2):
            if isinstance(command[0], Constant | Dot):
                raise self._fail(f"non executable command in pipeline stage {stage}")
        return Pipe(tuple(commands), tuple(variables), assigns)

    def _declarations(self, context: str) -> tuple[list[str], bool]:
        """`$x :=`, `$x =` or, in a range, `$i, $x :=` at the start of a pipeline; nothing is taken if it is none."""
        names: list[str] = []
        while self._skip_space().kind == "variable":
            start = self._pos
            name = self._next().text
            sign = self._skip_space().kind
            if sign in ("assign", "declare"):
                self._next()
                names.append(name)
                self._variables.append(name)
                return names, sign == "assign"
            if sign != "comma":
                self._pos = start
                break
            self._next()
            names.append(name)
            self._variables.append(name)
            if context != "range" or len(names) > 1:
                raise self._fail(f"too many declarations in {context}")
            if self._skip_space().kind not in ("variable", "right", "rparen"):
                raise self._fail("range can only initialize variables")
        return names, False

    def _command(self) -> tuple[Operand, ...]:
        operands: list[Operand] = []
        while True:
            if self._skip_space().kind in OPERANDS:
                operands.append(self._operand())
            following = self._peek().kind
            if following == "space":
                self._next()
                continue
            if following == "pipe":
                self._next()
            elif following not in ("right", "rparen"):
                raise self._unexpected("operand")
            if not operands:
                raise self._fail("empty command")
            return tuple(operands)

    def _operand(self) -> Operand:
        node = self._term()
        names: list[str] = []
        while self._peek().kind == "field":
            names.append(self._next().text[1:])
        if not names:
            return node
        if isinstance(node, Field):
            return Field((*node.names, *names))
        if isinstance(node, Variable):
            return Variable(node.name, tuple(names))
        if isinstance(node, Constant | Dot):
            raise self._fail("unexpected . after term")
        return Chain(node, tuple(names))

    def _term(self) -> Operand:
        token = self._next()
        if token.kind == "lparen":
            self._deeper()
            pipe = self._pipe("parenthesized pipeline", "rparen")
            self._depth -= 1
            return pipe
        if token.kind == "identifier":
            if token.text in REFUSED:
                raise self._fail(f"function {token.text!r} {REFUSED[token.text]}")
            if token.text not in self._functions:
                raise self._fail(f"function {token.text!r} not defined")
            return Identifier(token.text)
        if token.kind == "variable":
            if token.text not in self._variables:
                raise self._fail(f"undefined variable {token.text!r}")
            return Variable(token.text)
        if token.kind == "field":
            return Field((token.text[1:],))
        if token.kind == "dot":
            return Dot()
        return _constant(token)


def _constant(token: Token) -> Constant:
    try:
        if token.kind == "number":
            return literals.number(token.text)
        if token.kind == "char":
            return literals.character(token.text)
        if token.kind == "string":
            return Constant(literals.unquote(token.text))
        return Constant(token.text == "true" if token.kind == "bool" else None)
    except TemplateError as error:
        raise TemplateError(f"line {token.line}: {error}") from error
