"""What the rows of a changelog do: the words of Delta, Flink and Debezium for rows that come and rows that go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.errors import ColumnTypeError, InvalidArgumentError
from muntin.layouts import plain_column, plain_type
from muntin.types import Array

ADDING = ("insert", "update_postimage", "+I", "+U", "c", "r")
"""The words of rows that come; so does a row whose word is null."""
TAKING = ("delete", "update_preimage", "-D", "-U", "d")
"""The words of rows that take an earlier one back."""
_ADVICE = {
    "u": ". An update of Debezium is two rows: give its `before` the word 'update_preimage', and its `after` "
    "'update_postimage'"
}


def require_change_type(kind: pa.DataType, name: str) -> None:
    """Reject a column of other types than text.

    >>> require_change_type(pa.dictionary(pa.int8(), pa.string()), "op")
    """
    kind = plain_type(kind)
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)
    if not any(is_one(inner) for is_one in texts):
        raise ColumnTypeError(f"the column {name!r} holds {kind}, and says what a row does: {in_words()}; make it text")


def deletions(column: Any, name: str) -> Array:
    """Return which rows take another one back; reject an unknown word, named with its row. O(rows).

    >>> deletions(pa.array(["+I", None, "-D", "update_preimage"]), "op").tolist()
    [False, False, True, True]
    """
    require_change_type(column.type, name)
    column = plain_column(column)
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.bool_)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    encoded = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    encoded = pc.dictionary_encode(encoded, null_encoding="encode")
    words = encoded.dictionary.to_pylist()
    unknown = {word for word in words if word is not None and word not in ADDING and word not in TAKING}
    if unknown:
        row = next(i for i, word in enumerate(column.to_pylist()) if word in unknown)
        raise unknown_word(column[row].as_py(), name, f" in row {row}")
    taking = np.array([word in TAKING for word in words], np.bool_)
    if not taking.any():
        return np.zeros(len(column), np.bool_)
    return np.asarray(taking[encoded.indices.to_numpy(zero_copy_only=False)])


def unknown_word(word: str, name: str, where: str) -> InvalidArgumentError:
    """Return the error for a word that says nothing of a row."""
    return InvalidArgumentError(
        f"the column {name!r} holds {word!r}{where}, and says what a row does: {in_words()}{_ADVICE.get(word, '')}"
    )


def in_words() -> str:
    """Return the words that there are.

    >>> in_words()[:24]
    "'insert', 'update_postim"
    """
    return (
        f"{', '.join(map(repr, ADDING))} or null for one that comes, {', '.join(map(repr, TAKING))} for one that goes"
    )
