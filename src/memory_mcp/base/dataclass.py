"""`dataclasses.dataclass` that starts in a tenth of the time: compiling six methods a class was a quarter of a start.

Invariants
1. Fields, equality, order, hash, pickles and errors are those of the standard library, and its functions work on the classes.
   Of `InitVar`, mixed frozen inheritance and a wrong order of defaults the type checker alone complains.
2. A method is compiled when it is first called, and is then the function that would be written by hand.
"""

from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:  # a type checker knows the standard decorator alone
    from dataclasses import dataclass
else:
    import dataclasses
    from collections.abc import Callable, Iterator, Sequence
    from dataclasses import MISSING, FrozenInstanceError
    from functools import partial
    from reprlib import recursive_repr

    def dataclass(
        *, frozen: bool = False, eq: bool = True, order: bool = False, slots: bool = False, kw_only: bool = False
    ) -> Any:
        """Return a decorator that makes a class a dataclass."""

        def decorate(cls: type) -> type:
            written = {name for name, value in vars(cls).items() if name != "__hash__" or value is not None}
            cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
            for name, method in _iter_methods(cls, frozen, eq, order):
                if name not in written:
                    setattr(cls, name, method)
            return cls

        return decorate

    def _iter_methods(cls: type, frozen: bool, eq: bool, order: bool) -> Iterator[tuple[str, Any]]:
        yield "__init__", _compile_later(cls, "__init__", partial(_write_init, frozen))
        yield "__repr__", _make_repr([field.name for field in dataclasses.fields(cls) if field.repr])
        if eq:
            yield "__eq__", _compile_later(cls, "__eq__", partial(_write_comparison, "__eq__", "=="))
            yield "__hash__", _compile_later(cls, "__hash__", _write_hash) if frozen else None
        if order:
            for name, sign in (("__lt__", "<"), ("__le__", "<="), ("__gt__", ">"), ("__ge__", ">=")):
                yield name, _compile_later(cls, name, partial(_write_comparison, name, sign))
        if frozen:
            yield from (("__setattr__", _refuse_setting), ("__delattr__", _refuse_deletion))
            yield from (("__getstate__", _get_state), ("__setstate__", _set_state))

    def _compile_later(cls: type, name: str, write: Callable[[type], tuple[str, dict[str, Any]]]) -> Callable[..., Any]:
        """Return a method that puts a compiled one in its place, and calls it.

        `write` returns the source and what it refers to.
        """

        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            source, scope = write(cls)
            exec(source, scope)
            compiled = scope[name]
            compiled.__qualname__, compiled.__module__ = f"{cls.__qualname__}.{name}", cls.__module__
            setattr(cls, name, compiled)
            return compiled(self, *args, **kwargs)

        return method

    def _write_init(frozen: bool, cls: type) -> tuple[str, dict[str, Any]]:
        scope: dict[str, Any] = {"_set": object.__setattr__, "_MISSING": MISSING}
        has_slots = "__slots__" in vars(cls)
        positional, keyword, lines = [], [], []
        for field in dataclasses.fields(cls):
            name, value = field.name, field.name
            has_factory = field.default_factory is not MISSING
            if has_factory:
                scope[f"_default_{name}"] = field.default_factory
                value = f"_default_{name}() if {name} is _MISSING else {name}" if field.init else f"_default_{name}()"
            elif field.default is not MISSING:
                scope[f"_default_{name}"] = field.default
                value = name if field.init else f"_default_{name}"
            if field.init:
                default = "=_MISSING" if has_factory else "" if field.default is MISSING else f"=_default_{name}"
                (keyword if field.kw_only else positional).append(name + default)
            elif value == name:
                # Without a default it is set by `__post_init__`.
                continue
            if frozen and has_slots:
                # What sets a slot takes two thirds of the time of what looks for it first.
                scope[f"_set_{name}"] = getattr(cls, name).__set__
                lines.append(f"_set_{name}(self, {value})")
            else:
                lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
        if hasattr(cls, "__post_init__"):
            lines.append("self.__post_init__()")
        parameters = ", ".join(["self", *positional, *(["*", *keyword] if keyword else ())])
        return f"def __init__({parameters}):\n " + "\n ".join(lines or ["pass"]), scope

    def _write_comparison(name: str, sign: str, cls: type) -> tuple[str, dict[str, Any]]:
        names = [field.name for field in dataclasses.fields(cls) if field.compare]
        values = f"{_write_tuple('self', names)} {sign} {_write_tuple('other', names)}"
        return f"def {name}(self, other):\n return {values} if other.__class__ is self.__class__ else NotImplemented", {}

    def _write_hash(cls: type) -> tuple[str, dict[str, Any]]:
        hashed = (field for field in dataclasses.fields(cls) if (field.compare if field.hash is None else field.hash))
        return f"def __hash__(self):\n return hash({_write_tuple('self', [field.name for field in hashed])})", {}

    def _write_tuple(owner: str, names: Sequence[str]) -> str:
        return f"({''.join(f'{owner}.{name}, ' for name in names)})"

    def _make_repr(names: Sequence[str]) -> Callable[[Any], str]:
        @recursive_repr()
        def __repr__(self: Any) -> str:  # noqa: N807
            return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

        return __repr__

    def _refuse_setting(_: Any, name: str, _value: Any) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_deletion(_: Any, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def _get_state(self: Any) -> list[Any]:
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    def _set_state(self: Any, state: Sequence[Any]) -> None:
        for field, value in zip(dataclasses.fields(self), state, strict=True):
            object.__setattr__(self, field.name, value)
