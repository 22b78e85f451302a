"""Make and copy frozen dataclasses with slots in a third of the usual time: an answer reads and copies hundreds of values."""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["copy_with", "find_maker"]

T = TypeVar("T")


def find_maker(kind: type[T]) -> Callable[..., T]:
    """Return what makes a value of all its fields, in order; `__post_init__` is not called."""
    setters = {name: getattr(kind, name).__set__ for name in kind.__dataclass_fields__}  # type: ignore[attr-defined]
    scope: dict[str, Any] = {"_new": object.__new__, "_kind": kind, **{f"set_{name}": setters[name] for name in setters}}
    # Written out it takes a third of the time of a loop.
    lines = [f"    set_{name}(_made, {name})" for name in setters]
    exec("\n".join([f"def make({', '.join(setters)}):", "    _made = _new(_kind)", *lines, "    return _made"]), scope)
    make: Callable[..., T] = scope["make"]
    return make


if TYPE_CHECKING:  # a type checker knows the fields of `replace` alone
    from dataclasses import replace as copy_with
else:

    def copy_with(value: Any, /, **changes: Any) -> Any:
        """Return a copy of a frozen dataclass with slots, some fields changed; `__post_init__` is not called.

        Raises TypeError for a field that it does not have.
        """
        copy_fields, setters = _fields(type(value))
        copy = object.__new__(type(value))
        copy_fields(value, copy)
        for name, field_value in changes.items():
            if name not in setters:
                raise TypeError(f"{type(value).__name__} has no field {name!r}")
            setters[name](copy, field_value)
        return copy

    @cache
    def _fields(kind: type) -> tuple[Any, dict[str, Any]]:
        """Return what copies all fields from one value to another, and what sets each, by name."""
        setters = {name: getattr(kind, name).__set__ for name in kind.__dataclass_fields__}
        # Written out it takes a third of the time of a loop.
        lines = ["def copy_fields(value, copy):", *(f"    set_{name}(copy, value.{name})" for name in setters)]
        scope = {f"set_{name}": set_field for name, set_field in setters.items()}
        exec("\n".join(lines), scope)
        return scope["copy_fields"], setters
