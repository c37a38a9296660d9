"""The request context survives the wire."""

from __future__ import annotations

import json

from oslo_context import context as oslo_context

from ironic_rs.rpc.context import RequestContext, admin_context

_KEPT = (
    "auth_token",
    "user_id",
    "user_name",
    "project_id",
    "project_name",
    "user_domain_id",
    "project_domain_id",
    "roles",
    "system_scope",
    "request_id",
    "global_request_id",
    "is_admin",
)


def test_all_that_matters_travels_as_json() -> None:
    context = RequestContext(
        auth_token="secret",
        user_id="u",
        user_name="un",
        project_id="p",
        project_name="pn",
        user_domain_id="ud",
        project_domain_id="pd",
        roles=["admin", "reader"],
        system_scope="all",
        request_id="req-1",
        global_request_id="req-2",
        is_admin=True,
        is_public_api=True,
        auth_token_info={"token": {"catalog": []}},
    )
    other = RequestContext.from_dict(json.loads(json.dumps(context.to_dict())))
    for name in (*context.FROM_DICT_EXTRA_KEYS, *_KEPT):
        assert getattr(other, name) == getattr(context, name), name
    assert other.global_id == "req-2"


def test_token_is_hidden_from_logs() -> None:
    context = RequestContext(auth_token="secret", auth_token_info={"token": "secret"})
    assert "secret" not in str(context.get_logging_values())


def test_admin_context_leaves_the_context_of_the_thread_alone() -> None:
    mine = RequestContext(user_id="u")
    assert admin_context().is_admin
    assert oslo_context.get_current() is mine
