"""YAML that stands for more than it shows."""

import pytest
import yaml

from cliffordstf.options.yaml_text import load_yaml


def test_names_for_values_are_allowed():
    assert load_yaml("a: &x [1, 2]\nb: *x") == {"a": [1, 2], "b": [1, 2]}
    assert load_yaml("") is None


def test_a_text_that_stands_for_a_billion_values_is_refused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    with pytest.raises(yaml.YAMLError, match="more than"):
        load_yaml("\n".join(lines))


def test_a_value_that_holds_itself_is_refused():
    with pytest.raises(yaml.YAMLError, match="more than"):
        load_yaml("a: &a [*a]")
