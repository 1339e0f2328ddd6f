"""Bad options are explained in words of the field, never in pydantic's."""

from typing import Annotated, Literal

import pytest
from pydantic import Field, PositiveInt

from cliffordstf.errors import ConfigError
from cliffordstf.options import Accepts, Options, describe, leaves, parse_options


class Inner(Options):
    rate: Annotated[float, Field(gt=0)] | Literal["auto"] = "auto"
    names: tuple[str, ...] = ()


class Outer(Options):
    inner: Inner = Inner()
    kind: Literal["cosine", "constant"] = "cosine"
    size: PositiveInt | Literal["auto"] | None = None
    share: float = Field(0.5, ge=0, lt=1)
    table: dict[str, float] = Field({})
    flag: bool = False
    time: Annotated[float | None, Accepts("a duration such as 90s")] = None
    needed: str


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"inner": {"rate": -1}}, "option 'inner.rate' is -1, but it must be a number above 0 or 'auto'."),
        ({"inner": {"rate": "fast"}}, "option 'inner.rate' is 'fast', but it must be a number above 0 or 'auto'."),
        ({"inner": {"rte": 1}}, "there is no option 'inner.rte' (did you mean 'rate'?)."),
        ({"inner": 3}, "option 'inner' is 3, but it must be a mapping with options such as rate, names."),
        ({"inner": {"names": 5}}, "option 'inner.names' is 5, but it must be a list of texts."),
        ({"kind": "cosin"}, "option 'kind' is 'cosin', but it must be 'cosine' or 'constant'."),
        ({"size": 0}, "option 'size' is 0, but it must be a whole number above 0, 'auto' or null."),
        ({"size": 2.5}, "option 'size' is 2.5, but it must be a whole number above 0, 'auto' or null."),
        ({"share": 1}, "option 'share' is 1, but it must be a number of at least 0 and below 1."),
        ({"share": float("nan")}, "option 'share' is nan, but it must be a number of at least 0 and below 1."),
        ({"table": {"H": "x"}}, "option 'table' is {'H': 'x'}, but it must be a mapping from names to numbers."),
        ({"flag": "perhaps"}, "option 'flag' is 'perhaps', but it must be true or false."),
        ({"time": "soon"}, "option 'time' is 'soon', but it must be a duration such as 90s."),
        ({"zzz": 1}, "there is no option 'zzz'; choose from inner, kind, size, share, table, flag, time, needed."),
    ],
)
def test_every_kind_of_mistake_is_one_sentence(values, message):
    with pytest.raises(ConfigError) as caught:
        parse_options(Outer, {"needed": "x", **values})
    assert str(caught.value) == message


def test_missing_options_and_prefixes():
    with pytest.raises(ConfigError, match=r"^option 'run.needed' is missing; give text\.$"):
        parse_options(Outer, {}, "run")
    with pytest.raises(ConfigError, match=r"^option 'run.kind' is 3, but it must be 'cosine' or 'constant'\.$"):
        parse_options(Outer, {"needed": "x", "kind": 3}, "run")


def test_direct_construction_raises_the_same():
    with pytest.raises(ConfigError, match="option 'rate' is 'x', but it must be a number above 0 or 'auto'"):
        Inner(rate="x")


def test_words_for_types():
    assert describe(bool | None) == "true or false or null"
    assert describe(Annotated[int, Field(ge=2)]) == "a whole number of at least 2"
    assert describe(list[Inner]) == "a list of a mapping with options such as rate, names"


def test_leaves_are_all_options_with_their_paths():
    assert [".".join(path) for path, _ in leaves(Outer)][:3] == ["inner.rate", "inner.names", "kind"]
