"""JSON text of columns."""

import math

import orjson
import pytest

from ironic_rs.db import jsontext


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        {"a": [1, 2.5, None, True, "x"]},
        {"big": 2**64, "bigger": -(2**200)},
        {"digits": "1" * 30},
        {"umlaut": "ä", "emoji": "😀", "nul": "\x00"},
        {"surrogate": "\ud800"},
        [[[[[[]]]]]],
    ],
)
def test_values_come_back_as_they_went_in(value):
    text = jsontext.dumps(value)
    assert jsontext.loads(text) == value
    assert text.isascii()


def test_what_only_the_standard_library_reads_is_read():
    assert math.isnan(jsontext.loads('{"a": NaN}')["a"])
    assert jsontext.loads("[Infinity]") == [math.inf]


def test_text_of_another_writer_is_read():
    assert jsontext.loads('{"a": "\\u00e4", "b" : [ 1 ]}') == {"a": "ä", "b": [1]}


def test_equal_values_have_one_canonical_text():
    one, other = {"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}
    assert jsontext.canonical(one) == jsontext.canonical(other)
    assert jsontext.canonical({"a": 2**70}) == jsontext.canonical({"a": 2**70})
    assert jsontext.canonical({"a": 1}) != jsontext.canonical({"a": True})


def test_what_json_has_no_form_for_is_refused():
    with pytest.raises(TypeError):
        jsontext.dumps({"a": object()})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (None, b"{}"),
        ("null", b"{}"),
        ('{"b": 1, "a": [1,  2]}', b'{"b": 1, "a": [1,  2]}'),
        ('{"a": NaN}', b'{"a":null}'),
        ('{"a": "NaN"}', b'{"a":"NaN"}'),
        ('{"big": 123456789012345678901234567890}', b'{"big": 123456789012345678901234567890}'),
    ],
)
def test_stored_text_is_shown_as_it_is_when_it_is_json(text, shown):
    assert orjson.dumps(jsontext.fragment(text)) == shown


def test_stored_text_that_was_cut_off_is_not_passed_on():
    with pytest.raises(ValueError, match="Unterminated"):
        jsontext.fragment('{"a": {"b": "c')
