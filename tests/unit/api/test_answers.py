"""Answers: JSON that is passed on unparsed, its fall-back, and what is left behind."""

from __future__ import annotations

import datetime
import json

import orjson
import pytest

from ironic_rs.api import body, link_connection
from ironic_rs.api.v1 import node_view
from ironic_rs.db import jsontext

_LATEST = 115


def test_times_without_a_zone_are_shown_as_utc():
    time = datetime.datetime(2026, 1, 2, 3, 4, 5)
    assert body.dump({"t": time}) == b'{"t":"2026-01-02T03:04:05+00:00"}'


def test_an_answer_that_orjson_refuses_keeps_its_unparsed_parts_and_times():
    value = {
        "extra": jsontext.fragment('{"k": "v"}'),
        "big": 2**70,
        "at": datetime.datetime(2026, 1, 2),
    }
    assert json.loads(body.dump(value)) == {
        "extra": {"k": "v"},
        "big": 2**70,
        "at": "2026-01-02T00:00:00+00:00",
    }


def _shown(field: str, text: str) -> object:
    return orjson.loads(orjson.dumps(node_view.NODE.texts[field](text, _LATEST)))


@pytest.mark.parametrize(
    ("field", "text", "shown"),
    [
        (
            "driver_info",
            '{"a_password": "x", "a": 1}',
            {"a_password": "******", "a": 1},
        ),
        ("driver_info", '{"snmp_auth_key": "x"}', {"snmp_auth_key": "******"}),
        ("driver_info", '{"note": "PassWord=abc"}', {"note": "PassWord=******"}),
        ("driver_info", '{"a": {"API_TOKEN": "x"}}', {"a": {"API_TOKEN": "******"}}),
        ("instance_info", '{"configdrive": "x", "a": 1}', {"configdrive": "******", "a": 1}),
        ("instance_info", '{"image_url": "http://u"}', {"image_url": "******"}),
        ("instance_info", '{"image_url": ""}', {"image_url": ""}),
        ("driver_internal_info", '{"agent_secret_token": "x"}', {"agent_secret_token": "******"}),
        ("clean_step", '{"args": {"password": "x"}}', {"args": {"password": "******"}}),
        ("driver_info", '{"address": "10.0.0.1"}', {"address": "10.0.0.1"}),
        ("driver_info", "null", {}),
    ],
)
def test_secrets_in_stored_text_are_masked(field: str, text: str, shown: object) -> None:
    assert _shown(field, text) == shown


@pytest.mark.parametrize(("minor", "hidden"), [(89, True), (90, False), (104, False), (105, True)])
def test_a_vtep_connection_is_shown_in_the_versions_that_have_it(minor: int, hidden: bool) -> None:
    value = {"port_id": "p", "vtep-logical-switch": "l", "vtep-physical-switch": "s"}
    shown = orjson.loads(orjson.dumps(link_connection.shown(json.dumps(value), minor)))
    assert shown == ({} if hidden else value)


def test_a_row_that_is_parsed_already_is_masked_all_the_same() -> None:
    view = node_view.NODE.view(("driver_info",), _LATEST)
    document = view.render({"driver_info": {"ipmi_password": "x"}}, None)  # type: ignore[arg-type]
    assert orjson.loads(orjson.dumps(document)) == {"driver_info": {"ipmi_password": "******"}}
