from cliffordstf.options.text import did_you_mean, names_in, nearest_of


def test_the_nearest_choice_is_suggested_and_nothing_where_none_is_near():
    assert nearest_of("ethanl", ["aspirin", "ethanol"]) == "ethanol"
    assert nearest_of("ethanol", ["x"]) is None
    assert did_you_mean("ethanl", ["aspirin", "ethanol"]) == " (did you mean 'ethanol'?)"
    assert did_you_mean("ethanol", iter(["x"])) == ""


def test_names_are_separated_by_commas_with_or_without_spaces():
    assert names_in("a, b,c ") == ("a", "b", "c")
