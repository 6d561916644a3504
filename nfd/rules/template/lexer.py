"""Template text → tokens; upstream: Go text/template/parse/lex.go, same language, same mistakes noticed."""

from __future__ import annotations

import re
from typing import NamedTuple

from nfd.rules.template.values import TemplateError

LEFT, RIGHT, LEFT_COMMENT, RIGHT_COMMENT = "{{", "}}", "/*", "*/"
SPACES = " \t\r\n"
KEYWORDS = frozenset(("block", "break", "continue", "define", "else", "end", "if", "range", "template", "with"))
_TERMINATORS = frozenset((*SPACES, ".", ",", "|", ":", ")", "(", ""))
_QUOTED = re.compile(r"""(["'])(?:\\.|(?!\1)[^\\\n])*\1""")
_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?(?:[pP][+-]?[0-9_]*)?|0[oO][0-7_]*(?:\.[0-7_]*)?"
    r"|0[bB][01_]*(?:\.[01_]*)?|[0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9_]*)?)i?"
)


class Token(NamedTuple):
    """One token; `kind` is a keyword, `text`, `left`, `right`, `space`, `eof`, or the class of an operand or sign."""

    kind: str
    text: str
    line: int


def tokenize(text: str) -> list[Token]:
    """Split a template into tokens, ending with `eof`. Raises: TemplateError."""
    return _Lexer(text).run()


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0
        self.tokens: list[Token] = []
        self.parens = 0
        self._line, self._line_pos = 1, 0

    def run(self) -> list[Token]:
        while self._lex_text():
            while self._lex_inside():
                pass
        self._emit("eof", "")
        return self.tokens

    def line(self) -> int:
        self._line += self.text.count("\n", self._line_pos, self.pos)
        self._line_pos = max(self.pos, self._line_pos)
        return self._line

    def _fail(self, reason: str) -> TemplateError:
        return TemplateError(f"line {self.line()}: {reason}")

    def _emit(self, kind: str, text: str) -> bool:
        self.tokens.append(Token(kind, text, self.line()))
        return True

    def _lex_text(self) -> bool:
        """Text and comments up to the next action; False at the end of the template."""
        while True:
            start = self.text.find(LEFT, self.pos)
            end = len(self.text) if start < 0 else start
            piece = self.text[self.pos : end]
            trims = start >= 0 and self._trims_left(start + len(LEFT))
            if piece := piece.rstrip(SPACES) if trims else piece:
                self._emit("text", piece)
            self.pos = end
            if start < 0:
                return False
            after = start + len(LEFT) + (2 if trims else 0)
            if not self.text.startswith(LEFT_COMMENT, after):
                self._emit("left", LEFT)
                self.pos = after
                return True
            self._skip_comment(after)

    def _trims_left(self, pos: int) -> bool:
        return self.text[pos : pos + 1] == "-" and self.text[pos + 1 : pos + 2] in tuple(SPACES)

    def _skip_comment(self, start: int) -> None:
        end = self.text.find(RIGHT_COMMENT, start + len(LEFT_COMMENT))
        if end < 0:
            raise self._fail("unclosed comment")
        self.pos = end + len(RIGHT_COMMENT)
        if not self._at_right():
            raise self._fail("comment ends before closing delimiter")
        self._take_right()

    def _at_right(self) -> bool:
        return self.text.startswith(RIGHT, self.pos) or self._trims_right(self.pos)

    def _trims_right(self, pos: int) -> bool:
        text = self.text
        return text[pos : pos + 1] in tuple(SPACES) and text.startswith("-" + RIGHT, pos + 1)

    def _take_right(self) -> None:
        trim = self._trims_right(self.pos)
        self.pos = self._space_end(self.pos + 2 + len(RIGHT)) if trim else self.pos + len(RIGHT)

    def _lex_inside(self) -> bool:
        """One token inside an action; False after its end."""
        if self._at_right():
            if self.parens:
                raise self._fail("unclosed left paren")
            self._emit("right", RIGHT)
            self._take_right()
            return False
        char = self.text[self.pos : self.pos + 1]
        if not char:
            raise self._fail("unclosed action")
        if char in SPACES:
            return self._lex_space()
        if char in _SIGNS:
            return self._sign(char)
        return self._lex_operand(char)

    def _lex_operand(self, char: str) -> bool:
        if char in "\"'":
            return self._quoted(char)
        if char == "`":
            return self._raw()
        if char == "$" or (char == "." and self.text[self.pos + 1 : self.pos + 2] not in tuple("0123456789")):
            return self._field_or_variable(char)
        if char in "+-.0123456789":
            return self._number()
        if _is_word(char):
            return self._word()
        raise self._fail(f"unexpected character {char!r} in action")

    def _lex_space(self) -> bool:
        end = self._space_end(self.pos)
        if self._trims_right(end - 1):
            end -= 1
        if end > self.pos:
            self._emit("space", " ")
        self.pos = end
        return True

    def _sign(self, char: str) -> bool:
        if char == ":" and self.text[self.pos + 1 : self.pos + 2] != "=":
            raise self._fail("expected :=")
        self.parens += {"(": 1, ")": -1}.get(char, 0)
        if self.parens < 0:
            raise self._fail("unexpected right paren")
        self._emit(_SIGNS[char], char)
        self.pos += 2 if char == ":" else 1
        return True

    def _quoted(self, quote: str) -> bool:
        match = _QUOTED.match(self.text, self.pos)
        if match is None:
            raise self._fail("unterminated quoted string" if quote == '"' else "unterminated character constant")
        return self._operand("string" if quote == '"' else "char", match.end())

    def _raw(self) -> bool:
        end = self.text.find("`", self.pos + 1)
        if end < 0:
            raise self._fail("unterminated raw quoted string")
        return self._operand("string", end + 1)

    def _operand(self, kind: str, end: int) -> bool:
        self._emit(kind, self.text[self.pos : end])
        self.pos = end
        return True

    def _field_or_variable(self, char: str) -> bool:
        end = self._word_end(self.pos + 1)
        if not self._at_terminator(end):
            raise self._fail(f"bad character {self.text[end]!r}")
        if char == "." and end == self.pos + 1:
            return self._operand("dot", end)
        return self._operand("field" if char == "." else "variable", end)

    def _word(self) -> bool:
        end = self._word_end(self.pos)
        if not self._at_terminator(end):
            raise self._fail(f"bad character {self.text[end]!r}")
        word = self.text[self.pos : end]
        kind = word if word in KEYWORDS else {"true": "bool", "false": "bool", "nil": "nil"}.get(word, "identifier")
        return self._operand(kind, end)

    def _space_end(self, pos: int) -> int:
        while self.text[pos : pos + 1] in tuple(SPACES):
            pos += 1
        return pos

    def _word_end(self, pos: int) -> int:
        while pos < len(self.text) and _is_word(self.text[pos]):
            pos += 1
        return pos

    def _at_terminator(self, pos: int) -> bool:
        return self.text[pos : pos + 1] in _TERMINATORS or self.text.startswith(RIGHT, pos)

    def _number(self) -> bool:
        end = self._number_end(self.pos)
        if self.text[end : end + 1] in ("+", "-"):
            end = self._number_end(end)
            if self.text[end - 1] != "i":
                raise self._fail(f"bad number syntax: {self.text[self.pos : end]!r}")
        return self._operand("number", end)

    def _number_end(self, pos: int) -> int:
        match = _NUMBER.match(self.text, pos)
        end = match.end() if match else pos
        if end < len(self.text) and _is_word(self.text[end]):
            raise self._fail(f"bad number syntax: {self.text[self.pos : end + 1]!r}")
        return end


_SIGNS = {"=": "assign", ":": "declare", "|": "pipe", "(": "lparen", ")": "rparen", ",": "comma"}


def _is_word(char: str) -> bool:
    return char == "_" or char.isalpha() or char.isdecimal()
