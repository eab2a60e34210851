"""The SQL that can be read: sqlglot's, with the names of functions kept, and the place of every part.

A function keeps the name that it was called by: sqlglot would translate names between databases, and `max_by(a, b)` of
one is `arg_max(a, b)` of another. The type of CAST stays the words that it was written in: Spark's names are not those
of others.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.parser import Parser
from sqlglot.tokens import Token, Tokenizer, TokenType

from muntin.expressions.places import Text

_MOST_DIGITS = 40
"""Python refuses to read numbers of thousands of digits, in words that say nothing of SQL."""
_MOST_SIGNS = 100_000
_SUFFIX = re.compile("L|S|Y|D|F|BD", re.IGNORECASE)
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[01][0-7]{2}|.)", re.DOTALL)
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


class Tokens(Tokenizer):  # type: ignore[misc]  # sqlglot is optional, and unknown where it is not installed
    """Text in single quotes, names in backticks or double quotes: Flink's and the standard's."""

    IDENTIFIERS = ["`", '"']  # noqa: RUF012  # sqlglot's metaclass reads it


class SparkTokens(Tokens):
    """Text in single or double quotes, with backslashes; names in backticks: Spark's."""

    QUOTES = ["'", '"']  # noqa: RUF012
    IDENTIFIERS = ["`"]  # noqa: RUF012
    STRING_ESCAPES = ["'", '"', "\\"]  # noqa: RUF012


class PlacedError(ParseError):  # type: ignore[misc]
    """What is no SQL, and where. The parser catches it where it tries one way after another."""

    def __init__(self, message: str, start: int) -> None:
        super().__init__(message, [{"description": message}])  # which sqlglot expects of each error
        self.start = start


class Expressions(Parser):  # type: ignore[misc]
    """sqlglot's parser, with names kept, and a place for each part."""

    FUNCTIONS: dict[str, Any] = {}  # noqa: RUF012  # every function keeps its name
    FUNCTION_PARSERS: dict[str, Any] = {  # noqa: RUF012
        "CAST": lambda self: self._parse_cast_words(),
        "EXTRACT": lambda self: self._parse_extract_words(),
        "SUBSTRING": lambda self: self._parse_substring_words(),
    }
    SUBQUERY_PREDICATES: dict[Any, Any] = {}  # noqa: RUF012

    def raise_error(self, message: str, token: Any = None) -> None:
        """Raise an error that knows its place."""
        token = token or self._curr or self._prev
        raise PlacedError(message, token.start if token else 0)

    def _parse_csv(self, parse_method: Callable[[], Any], sep: Any = TokenType.COMMA) -> Any:
        """Return the items of a list; sqlglot would leave out those that are missing between commas."""
        items, missing = [], []

        def parse_item() -> Any:
            token = self._curr
            items.append(parse_method())
            missing.extend([token or self._prev] if items[-1] is None else [])
            return items[-1]

        found = super()._parse_csv(parse_item, sep)
        if missing and len(items) > 1:
            self.raise_error("Expecting something before or after a comma", missing[0])
        return found

    def _parse_cast_words(self) -> Any:
        """Return CAST with its type as text."""
        value = self._parse_disjunction()
        if value is None or not self._match(TokenType.ALIAS):
            self.raise_error("Expected AS and a type after the value of CAST")
        first, depth = self._curr, 0
        while self._curr and (depth or self._curr.token_type != TokenType.R_PAREN):
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(self._curr.token_type, 0)
            self._advance()
        words = " ".join(self.sql[first.start : self._prev.end + 1].split()) if first else ""
        kind = exp.Literal.string(words)
        kind.meta["start"] = first.start if first else 0
        return exp.Anonymous(this="CAST", expressions=[value, kind])

    def _parse_extract_words(self) -> Any:
        """Return EXTRACT with its unit as text."""
        token = self._curr
        unit = exp.Literal.string(token.text)
        unit.meta["start"] = token.start
        self._advance()
        if not self._match(TokenType.FROM):
            self.raise_error("Expected FROM after the unit of EXTRACT")
        return exp.Anonymous(this="EXTRACT", expressions=[self._parse_disjunction(), unit])

    def _parse_substring_words(self) -> Any:
        """Return SUBSTRING with its places, which may stand behind FROM and FOR."""
        given = self._parse_csv(self._parse_disjunction)
        if len(given) == 1 and self._match(TokenType.FROM):
            given.append(self._parse_bitwise())
            if self._match(TokenType.FOR):
                given.append(self._parse_bitwise())
        return exp.Anonymous(this="SUBSTRING", expressions=given)


def placed(parse: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method of the parser note where each part begins and ends in the text.

    Some are given what was parsed so far, to which they may add something, such as OVER to a function.
    """

    def parse_and_note(self: Any, *args: Any, **options: Any) -> Any:
        before = args[0] if args and isinstance(args[0], exp.Expression) else None
        if before is not None:
            before.meta.setdefault("stop", self._prev.end + 1)
        first = self._curr
        found = parse(self, *args, **options)
        if first and found is not before and isinstance(found, exp.Expression):
            found.meta.setdefault("start", first.start)
            found.meta.setdefault("stop", self._prev.end + 1)
        return found

    return parse_and_note


for _name in ("_parse_disjunction", "_parse_expression", "_parse_lambda", "_parse_unary"):
    setattr(Expressions, _name, placed(getattr(Parser, _name)))


def parsed_expression(text: Text) -> Any:
    """Return the one expression of a text as sqlglot's tree; reject what is none. O(length)."""
    if len(text.sql) > _MOST_SIGNS:
        raise text.refused_at(0, f"the text has {len(text.sql):,} characters, and at most {_MOST_SIGNS:,} are read")
    tokens = tokens_of(text, spark=True)
    if not tokens:
        raise text.refused_at(0, "there is no expression")
    end = next((token for token in tokens if token.token_type == TokenType.SEMICOLON), None)
    if end is not None:
        raise text.refused_at(end.start, "an expression has no semicolon")
    try:
        (found,) = Expressions().parse_into(exp.Condition, tokens, text.sql)
    except ParseError as error:
        cause = error if isinstance(error, PlacedError) else error.__cause__
        start = cause.start if isinstance(cause, PlacedError) else 0
        raise text.refused_at(start, f"this is no expression that can be read: {words(cause or error)}") from error
    except RecursionError as error:
        raise text.refused_at(0, "this is too deeply nested to be read") from error
    if found is None:
        raise text.refused_at(tokens[0].start, "there is no expression")
    return found


def tokens_of(text: Text, *, spark: bool) -> list[Token]:
    """Return the tokens of a text, in Spark's dialect or in the standard's; reject an open quote. O(length)."""
    tokenizer = SparkTokens() if spark else Tokens()
    try:
        tokens = list(tokenizer.tokenize(text.sql))
    except TokenError as error:
        raise text.refused_at(len(text.sql.rstrip()), "a quote is open here, at the end of the text") from error
    tokens = _with_suffixes(tokens)
    for token in tokens:
        if token.token_type == TokenType.NUMBER and len(token.text) > _MOST_DIGITS:
            raise text.refused_at(token.start, f"a number has at most {_MOST_DIGITS} digits")
        if spark and token.token_type == TokenType.STRING:
            token.text = _unescaped(text.sql[token.start : token.end + 1])
    return tokens


def _with_suffixes(tokens: list[Token]) -> list[Token]:
    """Return tokens in which a number has the letter of its type: 5L, 2.5D."""
    found: list[Token] = []
    for token in tokens:
        last = found[-1] if found else None
        beside = last is not None and last.token_type == TokenType.NUMBER and last.end + 1 == token.start
        if beside and token.token_type == TokenType.VAR and _SUFFIX.fullmatch(token.text):
            assert last is not None
            merged = Token(TokenType.NUMBER, last.text + token.text, last.line, last.col, last.start, token.end)
            found[-1] = merged
        else:
            found.append(token)
    return found


def _unescaped(written: str) -> str:
    """Return what a text in quotes means: Spark's escapes, and quotes that are doubled."""
    quote, inner = written[0], written[1:-1]

    def meant(found: re.Match[str]) -> str:
        sign = found[1]
        if len(sign) > 1:
            return chr(int(sign[1:], 16)) if sign[0] in "uU" else chr(int(sign, 8))
        return _ESCAPES.get(sign, sign)

    parts = inner.split(quote * 2) if "\\" not in inner else [inner]
    return quote.join(_ESCAPED.sub(meant, each) for each in parts)


def words(error: Exception) -> str:
    """Return what sqlglot says in lower case, as the rest of a sentence."""
    words = str(error)
    return words[:1].lower() + words[1:]
