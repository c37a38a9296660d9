"""The codes of errors are a promise: unique, stable, documented."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

from ironic_rs.api import errors as api_errors
from ironic_rs.domain import errors

ROOT = Path(__file__).resolve().parents[3]
CONF = SimpleNamespace(debug_tracebacks_in_api=False)
ENVIRON = {"REQUEST_METHOD": "GET", "PATH_INFO": "/v1/nodes"}

#: What programs may rely on: code and status. Lines are added here, never changed or taken away.
PROMISED = Path(__file__).with_name("error_codes.txt")


def ours() -> dict[str, type[errors.IronicError]]:
    return {
        name: cls
        for name, cls in errors.classes().items()
        if cls.__module__.startswith(("ironic_rs.domain.", "ironic_rs.api."))
    }


def codes() -> dict[str, int]:
    found = {cls.machine_code(): cls.code for cls in ours().values()}
    return found | {code: status for code, (status, _) in api_errors.OTHER_CODES.items()}


def test_each_condition_has_a_code_of_its_own() -> None:
    counted = Counter(cls.machine_code() for cls in ours().values())
    counted.update(list(api_errors.OTHER_CODES))
    assert [code for code, number in counted.items() if number > 1] == []
    assert all(re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", code) for code in counted)


def test_what_was_promised_is_kept() -> None:
    promised = dict(line.split() for line in PROMISED.read_text().splitlines())
    present = {code: str(status) for code, status in codes().items()}
    assert {code: present.get(code) for code in promised} == promised


def test_every_code_is_promised() -> None:
    promised = {line.split()[0] for line in PROMISED.read_text().splitlines()}
    assert sorted(codes().keys() - promised) == []


def test_every_code_is_documented() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    missing = [c for c, s in codes().items() if f"| `{c}` | {s} |" not in page]
    assert missing == []


def test_the_codes_of_the_router_are_among_them() -> None:
    for status in (404, 405, 406):
        assert codes()[api_errors.RouterError(status).code] == status


def test_a_lock_and_a_busy_service_say_when_to_come_again_whatever_their_class() -> None:
    for cls in ours().values():
        answer = api_errors.response(cls("text"), CONF, ENVIRON)
        again = answer.headers.get("Retry-After")
        if issubclass(cls, errors.Locked):
            assert again == "1", cls
        elif cls.code == 503:
            assert again == "5", cls
        else:
            assert again is None, cls


def test_an_error_of_another_release_keeps_code_and_time() -> None:
    foreign = errors.IronicError("busy")
    foreign.code = 503
    assert api_errors.response(foreign, CONF, ENVIRON).headers["Retry-After"] == "5"
