"""Commands that take their options as one dataclass.

typer makes an option of each parameter of a function. Here, each field of a frozen dataclass is an
option: its annotation says how the option is written, its default what it is otherwise. Options of
one subject are a dataclass of their own, as which other dataclasses have a field.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_type_hints


def with_options(command: Callable[[Any], None]) -> Callable[..., None]:
    """Return a function for typer, with a parameter for each field of what a command takes.

    A field that is a dataclass stands for its own fields.

    Args:
        command: A function of one parameter, whose annotation is a dataclass.
    """
    hints = get_type_hints(command)
    (options,) = (hints[name] for name in inspect.signature(command).parameters)

    def run(**values: Any) -> None:
        command(_filled(options, values))

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(list(_parameters(options)))  # type: ignore[attr-defined]
    return run


def _typed_fields(options: type) -> Iterator[tuple[Field[Any], Any]]:
    hints = get_type_hints(options, include_extras=True)
    return ((f, hints[f.name]) for f in fields(options))


def _parameters(options: type) -> Iterator[inspect.Parameter]:
    for field, kind in _typed_fields(options):
        if is_dataclass(kind) and isinstance(kind, type):
            yield from _parameters(kind)
        else:
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            yield inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
            )


def _filled(options: type, values: Mapping[str, Any]) -> Any:
    """An instance with these values of its fields, and of the fields of its fields."""
    return options(**{
        field.name: _filled(kind, values)
        if is_dataclass(kind) and isinstance(kind, type)
        else values[field.name]
        for field, kind in _typed_fields(options)
    })  # fmt: skip
