"""Conditional writes, on every store: two processes that both think they have a window cannot both write."""

from __future__ import annotations

import secrets

from muntin import stores


def test_values_are_set_if_a_key_has_the_expected_value(store: stores.Store) -> None:
    owner, other = (b"muntin:{" + secrets.token_hex(4).encode() + b"}:owner" for _ in range(2))
    value = owner.replace(b"owner", b"manifest0")
    assert not store.put_if(owner, b"me", {value: b"1"})
    assert store.put_if(owner, None, {owner: b"me"})
    assert not store.put_if(owner, None, {owner: b"you"})
    assert store.put_if(owner, b"me", {value: b"2", owner: b"you"})
    assert not store.put_if(owner, b"me", {value: b"3"})
    assert store.get_many([owner, value, other]) == [b"you", b"2", None]
