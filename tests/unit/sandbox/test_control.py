"""The control endpoint."""

from __future__ import annotations

import hashlib
import json
import urllib.request
from urllib.error import HTTPError

import pytest

from ironic_rs.sandbox import demo
from ironic_rs.sandbox.control import Control
from ironic_rs.sandbox.disk import InstalledImage


@pytest.fixture
def control(sandbox):
    """call(method, path, body) -> (status, document)"""

    def request(method, path, body=None, headers=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url + path, data, headers or {}, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as response:
                return response.status, json.load(response)
        except HTTPError as exc:
            with exc:
                return exc.code, json.load(exc)

    async def make():
        endpoint = Control(sandbox.fleet, "127.0.0.1", 0)
        return endpoint, await endpoint.start()

    endpoint, url = sandbox.run(make())
    yield request
    sandbox.run(endpoint.stop())


def test_the_summary_counts_states(control):
    status, summary = control("GET", "/")
    assert status == 200
    assert summary == {
        "machines": 1,
        "power": {"Off": 1},
        "software": {"none": 1},
        "counts": {},
    }


def test_a_machine_is_found_by_name_uuid_and_number(control, sandbox):
    spec = sandbox.machine.spec
    for key in (spec.name, spec.uuid, "1"):
        assert control("GET", f"/machines/{key}")[1]["macs"] == list(spec.macs)
    assert control("GET", "/machines/7") == (404, {"error": "no machine 7"})
    assert control("GET", "/machines")[1]["machines"][0]["name"] == spec.name
    assert control("GET", "/states")[1][spec.name]["power"] == "Off"


def test_faults_come_and_go_at_run_time(control, sandbox):
    faults = sandbox.machine.faults
    assert control("PATCH", "/faults", {"power-stuck": True})[0] == 200
    assert control("PATCH", "/machines/1/faults", {"bmc_delay": 2})[0] == 200
    assert (faults.power_stuck, faults.bmc_delay) == (True, 2.0)
    assert control("DELETE", "/machines/1/faults")[0] == 200
    assert (faults.power_stuck, faults.bmc_delay) == (False, 0.0)


@pytest.mark.parametrize("body", [{"nonsense": 1}, [], {"bmc_delay": "slow"}])
def test_a_bad_fault_is_400(control, body):
    status, answer = control("PATCH", "/faults", body)
    assert status == 400
    assert answer["error"]


def test_a_machine_can_be_switched_from_outside(control, sandbox):
    assert control("POST", "/machines/1/actions/reset", {"type": "On"})[0] == 200
    sandbox.wait(lambda: sandbox.machine.power == "On", "power on")
    assert control("POST", "/machines/1/actions/reset", {"type": "Explode"})[0] == 400
    assert control("POST", "/machines/1/actions/restart-agent")[1] == {"restarted": False}
    assert control("POST", "/machines/1/actions/expire-sessions")[1] == {"expired": 0}
    assert control("POST", "/machines/1/actions/dance")[0] == 404


def test_counters_are_shown_and_reset(control, sandbox):
    sandbox.call(sandbox.machine.reset, "Nmi")
    assert control("GET", "/machines/1/counters")[1]["counts"] == {"bmc.reset.Nmi": 1}
    assert control("GET", "/")[1]["counts"] == {"bmc.reset.Nmi": 1}
    control("POST", "/counters/reset")
    assert control("GET", "/")[1]["counts"] == {}


def test_the_disk_is_digested(control, sandbox, tmp_path):
    disk = sandbox.machine.disk
    answer = control("GET", "/machines/1/disk?bytes=512")[1]
    assert answer["sha256"] == hashlib.sha256(bytes(512)).hexdigest()
    assert (answer["bootable"], answer["allocated"]) == (False, 0)
    digest = demo.make_image(tmp_path / "image", 3)
    content = (tmp_path / "image").read_bytes()
    with disk.path.open("r+b") as stream:
        stream.write(content)
    disk.record(InstalledImage("image", len(content), digest))
    answer = control("GET", "/machines/1/disk")[1]
    assert (answer["sha256"], answer["bytes"], answer["bootable"]) == (digest, len(content), True)
    assert control("GET", "/machines/1/disk?bytes=x")[0] == 400


def test_the_log_of_the_agent_is_shown(control, bench):
    bench.boot()
    lines = control("GET", "/machines/1/logs")[1]["lines"]
    assert any("lookup" in line for line in lines)


def test_web_pages_are_kept_out(control):
    assert control("GET", "/", headers={"Origin": "http://example.com"})[0] == 403


def test_an_unknown_path_is_404(control):
    assert control("GET", "/nothing")[0] == 404
