"""Statements: sqlglot's SELECT, with windows as Spark and Flink write them, and the place of every part.

An argument may be a table, as in `SESSION(TABLE readings PARTITION BY plug, DESCRIPTOR(ts), ...)` of Flink.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokens import Token, Tokenizer, TokenType

from muntin.expressions.grammar import Expressions, PlacedError, placed, tokens_of, words
from muntin.expressions.places import Text

UNBOUNDED = "UNBOUNDED"
KEYWORDS = frozenset((*Tokenizer.KEYWORDS, "START", "END", "FILTER", "WITHIN", "IGNORE", "RESPECT"))
"""Words that are names only in quotes."""
_FUNCTIONS = ("ALL", "ANY", "SESSION", "SOME")
"""Keywords that are functions, too: Flink's and our own."""


class _Statements(Expressions):
    """sqlglot's parser, with names kept, tables as arguments, and a place for each part."""

    NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
        word: parse for word, parse in Parser.NO_PAREN_FUNCTION_PARSERS.items() if word not in _FUNCTIONS
    }

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


for _name in (
    "_parse_cube_or_rollup",
    "_parse_group",
    "_parse_grouping_sets",
    "_parse_having",
    "_parse_join",
    "_parse_limit",
    "_parse_order",
    "_parse_ordered",
    "_parse_select",
    "_parse_statement",
    "_parse_table",
    "_parse_where",
    "_parse_window",
    "_parse_with",
):
    setattr(_Statements, _name, placed(getattr(Parser, _name)))


def parsed(text: Text, dialect: str | None) -> exp.Expression:
    """Return the one SELECT of a text as a tree; reject what is none. O(length)."""
    tokens = tokens_of(text, spark=dialect == "spark")
    _require_one_select(text, tokens)
    try:
        (found,) = (each for each in _Statements().parse(_with_names(tokens), text.sql) if each is not None)
    except PlacedError as error:
        raise text.refused_at(error.start, f"this is no SQL that can be read: {words(error)}") from error
    except RecursionError as error:
        raise text.refused_at(0, "this is too deeply nested to be read") from error
    if not isinstance(found, exp.Select):
        raise text.refused(found, "a query is one SELECT ... FROM ..., and no UNION or the like")
    return found


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
