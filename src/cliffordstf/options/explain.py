"""What an option accepts and what is wrong with a value, in plain words.

Whatever pydantic finds, the message is made from the option itself: its path, the value, and what the option accepts.
"""

import types
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from cliffordstf.options.text import did_you_mean


class Accepts:
    """What an option with a parser of its own accepts, in words; put into its `Annotated` type.

    Example:
        >>> Duration = Annotated[float, Accepts("a duration such as 90s, 20min or 1.5h")]
        >>> describe(Duration)
        'a duration such as 90s, 20min or 1.5h'
    """

    def __init__(self, words: str) -> None:
        self.words = words


def explain(
    error: ValidationError,
    kind: type[BaseModel],
    values: Any,
    prefix: str = "",
    elsewhere: Callable[[str, str], str] | None = None,
) -> str:
    """One sentence about the first bad option.

    Args:
        error: Of pydantic.
        kind: Class that was validated.
        values: What was validated.
        prefix: Path of the options within others.
        elsewhere: As in `parse_options`.
    """
    found = error.errors(include_url=False)
    # A misspelt name explains more than what follows from it.
    first = next((item for item in found if item["type"] == "extra_forbidden"), found[0])
    path, owner, field = _walk(kind, first["loc"])
    where = ".".join([*filter(None, [prefix]), *path])
    if first["type"] == "extra_forbidden":
        name = str(first["loc"][-1])
        choices = list(owner.model_fields)
        known = did_you_mean(name, choices)
        known = elsewhere(where, known) if elsewhere is not None else known
        known = known or f"; choose from {', '.join(choices)}"
        return f"there is no option '{where}'{known}."
    if first["type"] == "missing":
        return f"option '{where}' is missing; give {describe_field(field) if field else 'a value'}."
    if first["type"] == "value_error":
        message = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
        return f"option '{where}': {message}." if where else f"{message}."
    if field is None:
        return f"option '{where}' is {_shown(first['input'])}, which is not valid here."
    value = _value_at(values, path, first["input"])
    return f"option '{where}' is {_shown(value)}, but it must be {describe_field(field)}."


def _walk(
    kind: type[BaseModel], location: tuple[int | str, ...]
) -> tuple[list[str], type[BaseModel], FieldInfo | None]:
    """Path of an option, the class it belongs to, and its field; what pydantic adds about unions is left out."""
    path: list[str] = []
    owner, field = kind, None
    inside: list[type[BaseModel]] = [kind]
    for part in location:
        name = str(part)
        holder = next((model for model in inside if name in model.model_fields), None)
        if holder is not None:
            owner, field = holder, holder.model_fields[name]
            path.append(name)
            inside = list(_models_in(field.annotation))
        elif part is location[-1] and inside:  # a misspelt one
            owner, field = inside[0], None
            path.append(name)
    return path, owner, field


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        return
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _value_at(values: Any, path: list[str], fallback: Any) -> Any:
    for part in path:
        if not isinstance(values, Mapping) or part not in values:
            return fallback
        values = values[part]
    return values


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else f"{value}"
    return text if len(text) <= 60 else f"{text[:57]}…"


def describe_field(field: FieldInfo) -> str:
    """What an option accepts, in words."""
    return describe(field.annotation, field.metadata)


def describe(annotation: Any, metadata: list[Any] | tuple[Any, ...] = ()) -> str:
    """What a type accepts, in words.

    Example:
        >>> describe(Literal["auto"] | float | None)
        "'auto', a number or null"
    """
    words = next((item.words for item in metadata if isinstance(item, Accepts)), None)
    if words is not None:
        return words
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return describe(arguments[0], [*arguments[1:], *metadata])
    if origin is Literal:
        return _either([f"'{choice}'" for choice in arguments])
    if origin in (Union, types.UnionType):
        return _either([describe(argument, metadata) for argument in _null_last(arguments)])
    if arguments and origin in (list, tuple, dict):
        holder = "a mapping from names to" if origin is dict else "a list of"
        return f"{holder} {_plural(describe(arguments[1 if origin is dict else 0]))}"
    return _plain_type(annotation) + _limits(metadata, annotation)


def _null_last(arguments: tuple[Any, ...]) -> list[Any]:
    return sorted(arguments, key=lambda argument: argument is type(None))


def _plain_type(annotation: Any) -> str:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"a mapping with options such as {', '.join(list(annotation.model_fields)[:4])}"
    names = {
        type(None): "null",
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        str: "text",
        Any: "anything",
    }
    return names.get(annotation, "another value")


def _limits(metadata: list[Any] | tuple[Any, ...], annotation: Any) -> str:
    if annotation in (type(None), bool, str):
        return ""
    signs = (("gt", "above"), ("ge", "of at least"), ("lt", "below"), ("le", "of at most"))
    items = [part for item in metadata for part in (item.metadata if isinstance(item, FieldInfo) else [item])]
    found = {sign: getattr(item, sign) for sign, _ in signs for item in items if hasattr(item, sign)}
    if {"ge", "le"} <= set(found):
        return f" from {found['ge']:g} to {found['le']:g}"
    parts = [f"{word} {found[sign]:g}" for sign, word in signs if sign in found]
    return f" {' and '.join(parts)}" if parts else ""


def _either(choices: list[str]) -> str:
    choices = list(dict.fromkeys(choices))
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"


def _plural(words: str) -> str:
    return {"a number": "numbers", "a whole number": "whole numbers", "text": "texts"}.get(words, words)


def leaves(kind: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """Every option of a class and of the options inside it: its path and field."""
    for name, field in kind.model_fields.items():
        models = list(_models_in(field.annotation))
        if models:
            for model in models:
                yield from leaves(model, (*path, name))
        else:
            yield (*path, name), field
