"""``ironic_rs.wsgi``: nothing happens before it is needed, and a bad configuration is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import webob

from ironic_rs import wsgi


def run(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    own = {k: v for k, v in os.environ.items() if "IRONIC" not in k}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**own, **env},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def config(folder: Path, **options: Any) -> Path:
    path = folder / "ironic.conf"
    values = {"auth_strategy": "noauth", "state_path": folder, "transport_url": "fake:/", **options}
    path.write_text("[DEFAULT]\n" + "".join(f"{k} = {v}\n" for k, v in values.items()))
    return path


ASK = """
import webob
from ironic_rs.wsgi import application
answer = webob.Request.blank("/v1").get_response(application)
print(answer.status_int)
"""


def test_an_import_reads_no_configuration() -> None:
    done = run(
        "import ironic_rs.wsgi as w, sys, threading\n"
        "assert 'oslo_messaging' not in sys.modules, 'messaging'\n"
        "assert threading.active_count() == 1\n"
        "print(callable(w.application))",
        OS_IRONIC_RS_CONFIG_FILES="/nosuch/file.conf",
    )
    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.parametrize("variable", ["OS_IRONIC_RS_CONFIG_FILES", "IRONIC_CONFIG_FILE"])
def test_the_environment_names_the_files(tmp_path: Path, variable: str) -> None:
    done = run(ASK, **{variable: str(config(tmp_path))})
    assert done.stdout.split()[-1:] == ["200"], done.stderr[-2000:]


def test_several_files_and_a_directory(tmp_path: Path) -> None:
    first = config(tmp_path)
    second = tmp_path / "second.conf"
    second.write_text("[api]\npublic_endpoint = https://second.example.com\n")
    folder = tmp_path / "conf.d"
    folder.mkdir()
    (folder / "x.conf").write_text("[api]\nmax_limit = 7\n")
    code = ASK + "from ironic_rs.conf import CONF\nprint(CONF.api.max_limit, answer.text)\n"
    done = run(
        code,
        OS_IRONIC_RS_CONFIG_FILES=f"{first}; {second}",
        OS_IRONIC_RS_CONFIG_DIR=str(folder),
    )
    assert "7 {" in done.stdout, done.stderr[-2000:]
    assert "https://second.example.com/v1/" in done.stdout


@pytest.mark.parametrize(
    ("options", "text"),
    [({"rpc_transport": "none"}, "one process only"), ({"host": "x", "debug": "maybe"}, "debug")],
)
def test_a_bad_configuration_is_logged_and_answered_with_503(
    tmp_path: Path, options: dict[str, str], text: str
) -> None:
    code = ASK + "print(answer.headers['Retry-After'], answer.text)\n"
    done = run(code, OS_IRONIC_RS_CONFIG_FILES=str(config(tmp_path, **options)))
    assert done.stdout.startswith("503"), done.stderr[-2000:]
    assert text in done.stderr
    assert done.stderr.count("cannot start") == 1


def test_prepare_raises_what_is_wrong(tmp_path: Path) -> None:
    done = run(
        "from ironic_rs.wsgi import application\napplication.prepare()",
        OS_IRONIC_RS_CONFIG_FILES="/nosuch/file.conf",
    )
    assert done.returncode != 0
    assert "/nosuch/file.conf" in done.stderr


def test_each_process_makes_its_own_application(tmp_path: Path) -> None:
    code = """
import os, webob
from ironic_rs import wsgi
wsgi.application.prepare()
parent = wsgi.application._app
if os.fork() == 0:
    answer = webob.Request.blank("/v1").get_response(wsgi.application)
    ok = answer.status_int == 200 and wsgi.application._app is not parent
    os._exit(0 if ok else 1)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    done = run(code, OS_IRONIC_RS_CONFIG_FILES=str(config(tmp_path)))
    assert done.stdout.split()[-1:] == ["0"], done.stderr[-2000:]


def test_a_refusal_is_not_tried_again_at_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def refuse(self: Any) -> None:
        tried.append(1)
        raise ValueError("bad")

    monkeypatch.setattr(wsgi.Application, "_make", refuse)
    application = wsgi.Application()
    for _ in range(3):
        answer = webob.Request.blank("/v1/nodes").get_response(application)
        assert answer.status_int == 503
        inner = json.loads(answer.json["error_message"])
        assert inner["errorcode"] == "service_unavailable"
        assert "bad" not in answer.text
    assert len(tried) == 1
