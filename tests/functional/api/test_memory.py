"""What requests leave behind in the process."""

from __future__ import annotations

import gc

import webob

from tests.functional.api.harness import Client


def test_an_answer_is_gone_when_it_has_been_sent(api: Client) -> None:
    """No circle of references keeps answers of megabytes until the collector runs."""
    assert api.get("/v1/nodes").status == 200
    gc.collect()
    gc.disable()
    try:
        before = sum(isinstance(o, webob.Response) for o in gc.get_objects())
        for _ in range(3):
            api.get("/v1/nodes")
            api.get("/v1/nodes/nosuch")
        left = sum(isinstance(o, webob.Response) for o in gc.get_objects())
    finally:
        gc.enable()
    assert left == before
