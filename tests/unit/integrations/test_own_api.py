"""Where ramdisks find our API."""

from __future__ import annotations

import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.integrations import keystone, own_api


@pytest.fixture
def option():
    CONF([], default_config_files=[], default_config_dirs=[])
    overridden = []

    def override(group, **options):
        for name, value in options.items():
            CONF.set_override(name, value, group)
            overridden.append((name, group))

    override(None, auth_strategy="noauth")
    yield override
    for name, group in overridden:
        CONF.clear_override(name, group)
    keystone.adapter.cache_clear()


def test_the_override_wins(option):
    option("api", public_endpoint="http://public")
    option("service_catalog", endpoint_override="http://internal:6385/")
    assert own_api.url() == "http://internal:6385"


def test_the_public_endpoint_is_the_last_resort(option):
    option("api", public_endpoint="http://public/")
    assert own_api.url() == "http://public"


def test_an_unknown_address_is_an_error_that_says_what_to_do(option):
    with pytest.raises(errors.InvalidParameterValue, match="endpoint_override"):
        own_api.url()


def test_a_catalog_that_can_not_be_asked_is_an_error(option):
    option(None, auth_strategy="keystone")
    with pytest.raises(errors.InvalidParameterValue, match="endpoint_override"):
        own_api.url()
