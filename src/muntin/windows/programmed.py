"""Windows whose beginning a slide policy chooses, anew after each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from muntin.errors import InvalidArgumentError
from muntin.policies import Policy
from muntin.types import ColumnType
from muntin.windows.base import Context, Measure, Window


@dataclass(frozen=True, repr=False)
class Programmed(Window):
    """One window for each row: what the policy keeps of the window before and this row. Made by `policy`."""

    context: ClassVar[Context] = Context.FORWARD_AWARE
    measure: ClassVar[Measure] = Measure.POLICY
    each_row: ClassVar[bool] = True

    policy: Policy

    def __post_init__(self) -> None:
        """Refuse what is no policy."""
        if not isinstance(self.policy, Policy):
            raise InvalidArgumentError(
                f"window.policy: {self.policy!r} is no policy; make one with policies.define, "
                f"or take one of muntin.policies"
            )

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns that the policy's aggregations read."""
        read = (column for each in self.policy.aggregations.values() for column in each.columns)
        return tuple(dict.fromkeys(read))

    def resolve(self, time: ColumnType) -> Self:
        """Return it as it is; refuse it if the spans of the policy do not fit the unit of the time column. O(1)."""
        self.policy.rule(time)
        return self

    def __hash__(self) -> int:
        """Hash by what the policy does; its aggregations are in a mapping, which has no hash."""
        return hash(self.policy.function)

    def __repr__(self) -> str:
        """Show it as it is written."""
        return f"window.policy({self.policy!r})"
