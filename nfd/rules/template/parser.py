"""Tokens → nodes; upstream: Go text/template/parse/parse.go."""

from __future__ import annotations

from collections.abc import Container

from nfd.rules.template import literals
from nfd.rules.template.lexer import Token
from nfd.rules.template.nodes import Action, Body, Branch, Call, Jump, Pipe, Range, Statement, Text
from nfd.rules.template.pipelines import PipelineParser

_ENDS = frozenset(("end", "else", "eof"))


def parse(tokens: list[Token], functions: Container[str]) -> dict[str, Body]:
    """Parse a template into its bodies by name, the main one under "". Raises: TemplateError."""
    return _Parser(tokens, functions).run()


class _Parser(PipelineParser):
    """Statements, and the named templates among them."""

    def __init__(self, tokens: list[Token], functions: Container[str]) -> None:
        super().__init__(tokens, functions)
        self._ranges = 0
        self.bodies: dict[str, Body] = {}

    def run(self) -> dict[str, Body]:
        main, end = self._body(top=True)
        if end != "eof":
            raise self._fail(f"unexpected {{{{{end}}}}}")
        self._define("", main)
        return self.bodies

    def _body(self, *, top: bool = False) -> tuple[Body, str]:
        """Statements up to `else`, `end` or the end of the text, and which of these it was."""
        statements: list[Statement] = []
        while True:
            token = self._skip_space()
            if token.kind == "eof":
                return tuple(statements), "eof"
            self._next()
            if token.kind == "text":
                statements.append(Text(token.text))
                continue
            keyword = self._skip_space().kind
            if keyword in _ENDS:
                self._next()
                return tuple(statements), keyword
            if keyword == "define":
                if not top:
                    raise self._unexpected("command")
                self._next()
                self._definition()
            else:
                statements.append(self._action(keyword))

    def _action(self, keyword: str) -> Statement:
        if keyword in ("if", "with", "range"):
            self._next()
            return self._control(keyword)
        if keyword in ("template", "block"):
            self._next()
            return self._call(keyword)
        if keyword in ("break", "continue"):
            self._next()
            self._expect("right", keyword)
            if not self._ranges:
                raise self._fail(f"{{{{{keyword}}}}} outside {{{{range}}}}")
            return Jump(leaves=keyword == "break")
        return Action(self._pipe("command", "right"))

    def _control(self, keyword: str) -> Statement:
        """`if`, `with` or `range` with all that belongs to it; an `else if` goes on where it stands."""
        self._deeper()
        known = len(self._variables)
        arms: list[tuple[Pipe, Body]] = []
        end = keyword
        while end == keyword:
            pipe = self._pipe(keyword, "right")
            self._ranges += keyword == "range"
            body, end = self._body()
            self._ranges -= keyword == "range"
            arms.append((pipe, body))
            if end == "else" and keyword != "range" and self._skip_space().kind == keyword:
                end = self._next().kind
        otherwise = self._otherwise(keyword, end)
        del self._variables[known:]
        self._depth -= 1
        if keyword == "range":
            return Range(pipe, body, otherwise)
        return Branch(tuple(arms), otherwise, sets_dot=keyword == "with")

    def _otherwise(self, keyword: str, end: str) -> Body:
        """What follows the last body: `end`, or `else` and one more body."""
        body: Body = ()
        if end == "else":
            self._expect("right", "else")
            body, end = self._body()
        if end != "end":
            raise self._fail(f"unexpected {'end' if end == 'eof' else end} in {keyword}")
        self._expect("right", "end")
        return body

    def _call(self, keyword: str) -> Statement:
        name = literals.unquote(self._expect("string", f"{keyword} clause").text)
        pipe = None
        if keyword == "block" or self._skip_space().kind != "right":
            pipe = self._pipe(f"{keyword} clause", "right")
        else:
            self._next()
        if keyword == "block":
            self._separate(name)
        return Call(name, pipe)

    def _definition(self) -> None:
        name = literals.unquote(self._expect("string", "define clause").text)
        self._expect("right", "define clause")
        self._separate(name)

    def _separate(self, name: str) -> None:
        """The body of `define` or `block`, a template of its own: no variables, no range around it."""
        self._deeper()
        outer = self._variables, self._ranges
        self._variables, self._ranges = ["$"], 0
        body, end = self._body()
        if end != "end":
            raise self._fail(f"unexpected {end} in definition of {name!r}")
        self._expect("right", "end")
        self._variables, self._ranges = outer
        self._depth -= 1
        self._define(name, body)

    def _define(self, name: str, body: Body) -> None:
        known = self.bodies.get(name)
        if known is None or _is_empty(known):
            self.bodies[name] = body
        elif not _is_empty(body):
            raise self._fail(f"multiple definition of template {name!r}")


def _is_empty(body: Body) -> bool:
    return all(isinstance(node, Text) and not node.text.strip() for node in body)
