"""Times as text: `90s`, `20min`, `1.5h`."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator

from cliffordstf.options import Accepts

_UNITS_OF_TIME = {"s": 1, "sec": 1, "min": 60, "h": 3600}


def parse_duration(value: Any) -> Any:
    """Seconds from a number or from text such as `90s`, `20min`, `1.5h`."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*([0-9.]+)\s*(s|sec|min|h)?\s*", value)
    if match is None:
        raise ValueError(f"'{value}' is not a duration; write 90s, 20min or 1.5h")
    return float(match.group(1)) * _UNITS_OF_TIME[match.group(2) or "s"]


Duration = Annotated[float, BeforeValidator(parse_duration), Accepts("a time above 0, such as 90s, 20min or 1.5h")]
