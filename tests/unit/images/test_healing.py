"""Which requests for images may be made again within a step, counted at the server."""

from __future__ import annotations

import socket

import pytest

from ironic_rs.domain import errors
from ironic_rs.images.services import ATTEMPTS, HTTPImages
from ironic_rs.integrations.healing import Partner
from tests.unit.drivers.healer import healed

CONTENT = b"image" * 1000


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_server_is_asked_again(server, tmp_path, status):
    url = server.put("/image", CONTENT, statuses=[status] * (ATTEMPTS + 1))
    with healed(1) as healer:
        HTTPImages().download(url, tmp_path / "image")
    assert (tmp_path / "image").read_bytes() == CONTENT
    ((partner, _, text),) = healer.asked
    assert partner is Partner.IMAGES
    assert f"answered {status}" in text


def test_checking_an_image_is_tried_again_too(server):
    url = server.put("/image", CONTENT, statuses=[503] * ATTEMPTS)
    with healed(1):
        assert HTTPImages().show(url).size == len(CONTENT)


def test_a_transfer_that_breaks_off_begins_anew(server, tmp_path):
    url = server.put("/image", CONTENT, cut=100, cuts=ATTEMPTS)
    with healed(1) as healer:
        HTTPImages().download(url, tmp_path / "image")
    assert (tmp_path / "image").read_bytes() == CONTENT
    assert len(healer.asked) == 1


def test_a_server_that_is_away_is_asked_a_bounded_number_of_times(server):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://user:canary@127.0.0.1:{held.getsockname()[1]}/image?token=canary"
        with healed(2) as healer, pytest.raises(errors.ImageRefValidationFailed):
            HTTPImages().show(url)
    assert len(healer.asked) == 3
    assert "canary" not in repr(healer.asked)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 500])
def test_what_does_not_pass_fails_at_once(server, status):
    url = server.put("/image", CONTENT, status=status)
    with healed(5) as healer, pytest.raises(errors.ImageRefValidationFailed):
        HTTPImages().show(url)
    assert healer.asked == []


def test_outside_of_a_step_nothing_is_made_again(server):
    url = server.put("/image", CONTENT, statuses=[503] * ATTEMPTS)
    with pytest.raises(errors.ImageRefValidationFailed, match="503"):
        HTTPImages().show(url)
