"""Cases of operators about config drives (field-cases.md K11), from request to tear-down."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import states
from tests.functional.api.harness import Answer
from tests.functional.defects.site import Site

MASK = "******"
PACKED = base64.b64encode(gzip.compress(b"\0" * 32769 + b"CD001")).decode()
#: What is accepted, and whether there is a config drive then.
GOOD: dict[str, tuple[Any, bool]] = {
    "base64 of a gzip": (PACKED, True),
    "base64 in lines": (base64.encodebytes(gzip.compress(b"x" * 99)).decode(), True),
    "plain text of the alphabet": ("plain", True),
    "an unreachable URL": ("http://127.0.0.1:9/drive", True),
    "no parts": ({}, False),
    "no text": ("", False),
    "null": (None, False),
    "empty meta data": ({"meta_data": {}}, True),
    "meta data": ({"meta_data": {"hostname": "h"}}, True),
    "user data as text": ({"user_data": "#!"}, True),
    "user data as an object": ({"user_data": {"a": 1}}, True),
    "user data as a list": ({"user_data": [1, "b"]}, True),
    "no user data": ({"user_data": None}, True),
    "network data": ({"network_data": {"links": [], "networks": [], "services": []}}, True),
    "vendor data": ({"vendor_data": {"v": 1}}, True),
    "all parts": (
        {"meta_data": {}, "user_data": "u", "network_data": {}, "vendor_data": {}},
        True,
    ),
}
#: What is refused, and what the error names.
BAD: dict[str, tuple[Any, str]] = {
    "an unknown part": ({"bogus": 1}, "bogus"),
    "meta data that are text": ({"meta_data": "x"}, "meta_data"),
    "meta data that are a list": ({"meta_data": []}, "meta_data"),
    "no meta data": ({"meta_data": None}, "meta_data"),
    "network data that are a list": ({"network_data": []}, "network_data"),
    "vendor data that are text": ({"vendor_data": "x"}, "vendor_data"),
    "user data that are a number": ({"user_data": 5}, "user_data"),
    "user data that are true": ({"user_data": True}, "user_data"),
    "a number": (5, "configdrive"),
    "true": (True, "configdrive"),
    "a list": ([], "configdrive"),
    "a list of parts": ([{"meta_data": {}}], "configdrive"),
    "text of no alphabet": ("???", "configdrive"),
}


def deployable(site: Site, state: str = states.AVAILABLE) -> str:
    site.kit.offer("deploy", "deploy.deploy", 80)
    return site.node(state)


def ask(site: Site, uuid: str, drive: Any, target: str = "active", version: str = "") -> Answer:
    headers = {"X-OpenStack-Ironic-API-Version": version} if version else {}
    body = {"target": target, "configdrive": drive}
    answer = site.api.put(f"/v1/nodes/{uuid}/states/provision", body, headers=headers)
    site.settle()
    return answer


def shown(site: Site, uuid: str) -> Any:
    """The config drive as users see it."""
    return site.shown(uuid)["instance_info"].get("configdrive")


@pytest.mark.parametrize("name", GOOD)
def test_82_what_is_accepted_is_kept_and_never_shown(site: Site, name: str) -> None:
    drive, is_one = GOOD[name]
    uuid = deployable(site)

    assert ask(site, uuid, drive).status == 202

    node = site.shown(uuid)
    assert (node["provision_state"], node["last_error"]) == (states.ACTIVE, None)
    assert shown(site, uuid) == (MASK if is_one else None)
    assert site.stored(uuid).instance_info.get("configdrive") == (drive if is_one else None)


@pytest.mark.parametrize("target", ["active", "rebuild"])
@pytest.mark.parametrize("name", BAD)
def test_82_what_is_refused_is_named(site: Site, name: str, target: str) -> None:
    drive, word = BAD[name]
    uuid = deployable(site, states.AVAILABLE if target == "active" else states.ACTIVE)
    before = site.shown(uuid)

    answer = ask(site, uuid, drive, target)

    assert answer.status == 400
    assert word in answer.fault["faultstring"]
    assert site.shown(uuid) == before


@pytest.mark.parametrize(
    ("drive", "version", "status"),
    [
        ({"meta_data": {}}, "1.55", 400),
        ({"user_data": "u"}, "1.55", 400),
        ({"meta_data": {}}, "1.56", 202),
        ({"vendor_data": {}}, "1.58", 400),
        ({"vendor_data": {}}, "1.59", 202),
        (PACKED, "1.1", 202),
        ("", "1.1", 202),
    ],
)
def test_82_each_form_is_of_its_version(site: Site, drive: Any, version: str, status: int) -> None:
    uuid = deployable(site)
    assert ask(site, uuid, drive, version=version).status == status
    state = states.ACTIVE if status == 202 else states.AVAILABLE
    assert site.shown(uuid)["provision_state"] == state


@pytest.mark.parametrize("first", [PACKED, {"meta_data": {"a": 1}}], ids=["text", "object"])
def test_82_it_lives_from_rebuild_to_rebuild_until_the_tear_down(site: Site, first: Any) -> None:
    uuid = deployable(site)
    assert ask(site, uuid, first).status == 202

    for nothing in (None, "", {}):
        assert ask(site, uuid, nothing, "rebuild").status == 202
        assert site.shown(uuid)["provision_state"] == states.ACTIVE
        assert site.stored(uuid).instance_info["configdrive"] == first

    second = {"user_data": "the next one"}
    assert ask(site, uuid, second, "rebuild").status == 202
    assert site.stored(uuid).instance_info["configdrive"] == second
    assert shown(site, uuid) == MASK

    CONF.set_override("automated_clean", False, group="conductor")
    site.provision(uuid, "deleted")
    assert site.shown(uuid)["provision_state"] == states.AVAILABLE
    assert site.stored(uuid).instance_info == {}


def test_82_a_rebuild_that_fails_keeps_the_drive_for_the_next(site: Site) -> None:
    uuid = deployable(site)
    assert ask(site, uuid, PACKED).status == 202
    site.kit.results["deploy.deploy"] = RuntimeError("the disk is full")
    second = {"user_data": "the next one"}
    ask(site, uuid, second, "rebuild")
    assert site.shown(uuid)["provision_state"] == states.DEPLOYFAIL
    site.kit.results.clear()
    assert ask(site, uuid, None, "rebuild").status == 202
    assert site.stored(uuid).instance_info["configdrive"] == second


@pytest.mark.parametrize("target", ["manage", "clean", "deleted", "rescue"])
def test_82_it_belongs_to_a_deployment(site: Site, target: str) -> None:
    uuid = deployable(site)
    assert ask(site, uuid, {"meta_data": {}}, target).status == 400
    assert ask(site, uuid, PACKED, target).status == 400
