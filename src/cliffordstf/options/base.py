"""The base class of options, and their parser."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from cliffordstf.errors import ConfigError
from cliffordstf.options.explain import explain

T = TypeVar("T", bound=BaseModel)


class Options(BaseModel):
    """Options that are checked when made and never change."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError(explain(error, type(self), values)) from None

    def __hash__(self) -> int:
        """Options may hold mappings, whose text stands for them."""
        return hash(self.model_dump_json())

    # Options inside others are checked together with these, so that an error has the whole path.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


def parse_options(
    kind: type[T], values: Mapping[str, Any], prefix: str = "", elsewhere: Callable[[str, str], str] | None = None
) -> T:
    """Check values.

    Args:
        kind: Class of the options.
        values: As they come from YAML or the command line.
        prefix: Path of the options within others, such as `data`.
        elsewhere: End of the error about an option that does not exist, from its path and the suggestion of a name
            beside it, which may be empty.

    Raises:
        ConfigError: Names the first bad option by its path, its value, and what it accepts.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ConfigError(explain(error, kind, values, prefix, elsewhere)) from None
