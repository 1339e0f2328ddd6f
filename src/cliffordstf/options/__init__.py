"""Typed options: one base class, and one way to explain in plain words what is wrong with a value.

`base` holds the class and its parser, `explain` the sentences about a bad value, `text` finds the nearest valid name.
"""

from cliffordstf.options.base import Options, parse_options
from cliffordstf.options.explain import Accepts, describe, describe_field, explain, leaves

__all__ = ["Accepts", "Options", "describe", "describe_field", "explain", "leaves", "parse_options"]
