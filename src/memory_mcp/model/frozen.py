"""Copy frozen dataclasses with slots four times as fast as `dataclasses.replace`: an answer copies hundreds of hits."""

from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["copy_with"]

if TYPE_CHECKING:  # a type checker knows the fields of `replace` alone
    from dataclasses import replace as copy_with
else:

    def copy_with(value: Any, /, **changes: Any) -> Any:
        """Return a copy of a frozen dataclass with slots, some fields changed; `__post_init__` is not called.

        Raises TypeError for a field that it does not have.
        """
        values_of, setters = _fields(type(value))
        copy = object.__new__(type(value))
        for set_field, field_value in zip(setters.values(), values_of(value), strict=True):
            set_field(copy, field_value)
        for name, field_value in changes.items():
            if name not in setters:
                raise TypeError(f"{type(value).__name__} has no field {name!r}")
            setters[name](copy, field_value)
        return copy

    @cache
    def _fields(kind: type) -> tuple[Any, dict[str, Any]]:
        """Return what reads all fields of a class at once, and what sets each, by name, in the same order."""
        names = tuple(kind.__dataclass_fields__)
        return attrgetter(*names), {name: getattr(kind, name).__set__ for name in names}
