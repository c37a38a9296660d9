"""The request context that travels with every RPC and every worker.

Source: specification conductor.md section 1.1 (Context).
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

from oslo_context import context as oslo_context


class RequestContext(oslo_context.RequestContext):
    """Who asks, and under which request id.

    :param is_public_api: the request came through an endpoint without
        authentication (lookup, heartbeat, ...).
    :param auth_token_info: what Keystone said about the token (a dict), or None.
    :ivar if_match: revisions of the record that the caller accepts, or None for any; it
        goes with the call as an argument, not in the dict, and is None once it was looked
        at.
    :ivar node_seen: what :func:`ironic_rs.domain.state_since.stamp` gave of the node on
        which the caller has decided, or None; it travels in the dict, which a conductor of
        an earlier release does not look at, and is None once it was looked at.
    """

    FROM_DICT_EXTRA_KEYS = ["is_public_api", "auth_token_info", "node_seen"]  # noqa: RUF012

    def __init__(
        self,
        is_public_api: bool = False,
        auth_token_info: Mapping[str, Any] | None = None,
        node_seen: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.is_public_api = bool(is_public_api)
        self.auth_token_info = auth_token_info
        self.if_match: Sequence[str] | None = None
        self.node_seen = node_seen

    def to_policy_values(self) -> MutableMapping[str, Any]:
        """Return what rules of the policy may ask about the caller.

        Whoever is in no project has no ``project_id`` there: the rules compare it as
        text, and "no project" must not be taken for the owner of a node without one.
        """
        # A plain dict: that of the base class warns about every key that is added.
        values = dict(super().to_policy_values())
        values["project_name"] = self.project_name
        values["is_public_api"] = self.is_public_api
        if self.project_id is None:
            del values["project_id"]
        return values

    def take_condition(self) -> Sequence[str] | None:
        """Return ``if_match``, for the one who looks at it."""
        condition, self.if_match = self.if_match, None
        return condition

    @property
    def unconditional(self) -> bool:
        """Whether the request is to be done whatever the record is like by now."""
        return self.if_match is None and self.node_seen is None

    def take_seen(self) -> str | None:
        """Return ``node_seen``, for the one who looks at it."""
        seen, self.node_seen = self.node_seen, None
        return seen

    def to_dict(self) -> dict[str, Any]:
        """Return the context as plain JSON; :meth:`from_dict` takes it back."""
        values = super().to_dict()
        # The base class leaves the names out, and logs of the conductor want them.
        values.update(
            user_name=self.user_name,
            project_name=self.project_name,
            domain_name=self.domain_name,
            user_domain_name=self.user_domain_name,
            project_domain_name=self.project_domain_name,
            is_public_api=self.is_public_api,
            auth_token_info=self.auth_token_info,
            node_seen=self.node_seen,
        )
        return values


def admin_context(global_request_id: str | None = None) -> RequestContext:
    """Return a context for work that the conductor starts by itself."""
    return RequestContext(
        auth_token=None, is_admin=True, overwrite=False, global_request_id=global_request_id
    )
