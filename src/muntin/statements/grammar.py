"""The SQL that can be read: sqlglot's, with windows as Spark and Flink write them, and the place of every part.

Two things are other than in sqlglot. A function keeps the name that it was called by: sqlglot would translate names
between databases, and `max_by(a, b)` of one is `arg_max(a, b)` of another. And an argument may be a table, as in
`SESSION(TABLE readings PARTITION BY plug, DESCRIPTOR(ts), ...)` of Flink.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.parser import Parser
from sqlglot.tokens import Token, Tokenizer, TokenType

from muntin.statements.places import Text

UNBOUNDED = "UNBOUNDED"
KEYWORDS = frozenset((*Tokenizer.KEYWORDS, "START", "END", "FILTER", "WITHIN", "IGNORE", "RESPECT"))
"""Words that are names only in quotes."""
_FUNCTIONS = ("ALL", "ANY", "SESSION", "SOME")
"""Keywords that are functions, too: Flink's and our own."""
_MOST_DIGITS = 40
"""Python refuses to read numbers of thousands of digits, in words that say nothing of SQL."""


class _Tokens(Tokenizer):  # type: ignore[misc]  # sqlglot is optional, and unknown where it is not installed
    """Text in single quotes, names in backticks or double quotes: Flink's and the standard's."""

    IDENTIFIERS = ["`", '"']  # noqa: RUF012  # sqlglot's metaclass reads it


class _SparkTokens(_Tokens):
    """Text in single or double quotes, with backslashes; names in backticks: Spark's."""

    QUOTES = ["'", '"']  # noqa: RUF012
    IDENTIFIERS = ["`"]  # noqa: RUF012
    STRING_ESCAPES = ["'", '"', "\\"]  # noqa: RUF012


class _PlacedError(ParseError):  # type: ignore[misc]
    """What is no SQL, and where. The parser catches it where it tries one way after another."""

    def __init__(self, message: str, start: int) -> None:
        super().__init__(message)
        self.start = start


class _Statements(Parser):  # type: ignore[misc]
    """sqlglot's parser, with names kept, tables as arguments, and a place for each part."""

    FUNCTIONS: dict[str, Any] = {}  # noqa: RUF012  # every function keeps its name
    FUNCTION_PARSERS: dict[str, Any] = {}  # noqa: RUF012
    NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
        word: parse for word, parse in Parser.NO_PAREN_FUNCTION_PARSERS.items() if word not in _FUNCTIONS
    }
    SUBQUERY_PREDICATES: dict[Any, Any] = {}  # noqa: RUF012

    def raise_error(self, message: str, token: Any = None) -> None:
        """Raise an error that knows its place."""
        token = token or self._curr or self._prev
        raise _PlacedError(message, token.start if token else 0)

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

    def _parse_partition_by(self) -> Any:
        asked = self._curr and self._curr.token_type == TokenType.PARTITION_BY
        found = super()._parse_partition_by()
        if asked and not found:
            self.raise_error("Expecting a column")
        return found

    def _parse_window_spec(self) -> Any:
        """Return a bound of a frame; UNBOUNDED with its place, which sqlglot would not keep."""
        token = self._curr
        found = super()._parse_window_spec()
        if found["value"] == UNBOUNDED:
            found["value"] = exp.var(UNBOUNDED).update_positions(token)
        return found

    def _parse_function_args(self, alias: bool = False) -> Any:
        return self._parse_csv(self._parse_argument)

    def _parse_argument(self) -> Any:
        token = self._curr
        if self._next and self._next.token_type == TokenType.FARROW:
            self._advance(2)
            return exp.Kwarg(this=exp.var(token.text), expression=self._parse_argument()).update_positions(token)
        if self._match(TokenType.TABLE):
            return self._parse_table_argument().update_positions(token)
        return self._parse_lambda(alias=True)

    def _parse_table_argument(self) -> Any:
        table = self._parse_table_parts()
        if self._match(TokenType.PARTITION_BY):
            within = self._curr.token_type == TokenType.L_PAREN
            keys = self._parse_wrapped_csv(self._parse_column) if within else [self._parse_column()]
            if None in keys:
                self.raise_error("Expecting a column")
            table.set("partition", exp.Tuple(expressions=keys))
        return table


def _placed(parse: Callable[..., Any]) -> Callable[..., Any]:
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


for _name in (
    "_parse_cube_or_rollup",
    "_parse_disjunction",
    "_parse_expression",
    "_parse_group",
    "_parse_grouping_sets",
    "_parse_having",
    "_parse_join",
    "_parse_lambda",
    "_parse_limit",
    "_parse_order",
    "_parse_ordered",
    "_parse_select",
    "_parse_statement",
    "_parse_table",
    "_parse_unary",
    "_parse_where",
    "_parse_window",
    "_parse_with",
):
    setattr(_Statements, _name, _placed(getattr(Parser, _name)))


def parsed(text: Text, dialect: str | None) -> exp.Expression:
    """Return the one SELECT of a text as a tree; reject what is none. O(length)."""
    tokens = _tokens(text, dialect)
    _require_one_select(text, tokens)
    try:
        (found,) = (each for each in _Statements().parse(_with_names(tokens), text.sql) if each is not None)
    except _PlacedError as error:
        raise text.refused_at(error.start, f"this is no SQL that can be read: {_words(error)}") from error
    except RecursionError as error:
        raise text.refused_at(0, "this is too deeply nested to be read") from error
    if not isinstance(found, exp.Select):
        raise text.refused(found, "a query is one SELECT ... FROM ..., and no UNION or the like")
    return found


def _tokens(text: Text, dialect: str | None) -> list[Token]:
    tokenizer = _SparkTokens() if dialect == "spark" else _Tokens()
    try:
        tokens = list(tokenizer.tokenize(text.sql))
    except TokenError as error:
        raise text.refused_at(len(text.sql.rstrip()), "a quote is open here, at the end of the text") from error
    for token in tokens:
        if token.token_type == TokenType.NUMBER and len(token.text) > _MOST_DIGITS:
            raise text.refused_at(token.start, f"a number has at most {_MOST_DIGITS} digits")
    return tokens


def _require_one_select(text: Text, tokens: list[Token]) -> None:
    """Reject other statements before the parser, which would warn of those that it does not know."""
    words = [token for token in tokens if token.token_type != TokenType.SEMICOLON]
    if not words:
        raise text.refused_at(0, "there is no statement; write SELECT ... FROM ... GROUP BY ...")
    if words[0].token_type not in (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN):
        raise text.refused_at(words[0].start, f"this begins with {words[0].text}; a query is one SELECT")
    ends = [token.start for token in tokens if token.token_type == TokenType.SEMICOLON]
    later = next((token for token in words if ends and token.start > ends[0]), None)
    if later is not None:
        raise text.refused_at(later.start, "this is a second statement; give one alone")


def _with_names(tokens: list[Token]) -> list[Token]:
    """Return tokens in which keywords are names where they call a function, and `window` outside of its clause."""
    kinds = [*(token.token_type for token in tokens), None, None]
    for i, token in enumerate(tokens):
        calls = token.text.upper() in _FUNCTIONS and kinds[i + 1] == TokenType.L_PAREN
        if calls or (kinds[i] == TokenType.WINDOW and kinds[i + 2] != TokenType.ALIAS):  # WINDOW name AS (...)
            token.token_type = TokenType.VAR
    return tokens


def _words(error: Exception) -> str:
    """Return what sqlglot says in lower case, as the rest of a sentence."""
    words = str(error)
    return words[:1].lower() + words[1:]
