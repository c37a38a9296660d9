"""Only what is registered can be called."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_rs.domain import errors
from ironic_rs.rpc.context import RequestContext, admin_context
from ironic_rs.rpc.registry import Registry, rpc_method, version_tuple


class Endpoint:
    def __init__(self, conductor: str) -> None:
        self.conductor = conductor

    @rpc_method("add", since="1.2")
    def add(self, context: RequestContext, a: int, b: int = 1) -> int:
        return a + b

    @rpc_method("who")
    def _who(self, context: RequestContext) -> dict[str, Any]:
        return {"conductor": self.conductor, "user": context.user_id}

    def secret(self, context: RequestContext) -> str:
        return "never"


@pytest.fixture
def registry() -> Registry:
    return Registry([Endpoint("c")])


def test_registered_methods_are_called_by_their_wire_name(registry: Registry) -> None:
    assert registry.names == ["add", "who"]
    assert registry.dispatch("add", admin_context(), {"a": 2}) == 3
    context = RequestContext(user_id="u", overwrite=False)
    assert registry.dispatch("who", context, {}) == {"conductor": "c", "user": "u"}


@pytest.mark.parametrize("name", ["secret", "_who", "__init__", "conductor", "nothing"])
def test_nothing_else_can_be_called(registry: Registry, name: str) -> None:
    assert name not in registry
    with pytest.raises(errors.IronicError, match="does not offer the RPC method"):
        registry.dispatch(name, admin_context(), {})


@pytest.mark.parametrize("arguments", [{}, {"a": 1, "c": 2}])
def test_arguments_that_do_not_fit_are_named(registry: Registry, arguments: dict[str, int]) -> None:
    with pytest.raises(errors.IronicError, match="Arguments of the RPC method 'add'"):
        registry.dispatch("add", admin_context(), arguments)


def test_a_name_can_be_taken_only_once(registry: Registry) -> None:
    with pytest.raises(ValueError, match="is offered twice"):
        registry.add(Endpoint("d"))


def test_versions_compare_as_numbers() -> None:
    assert version_tuple("1.62") > version_tuple("1.7")


class Conditional:
    @rpc_method("looks")
    def looks(self, context: RequestContext, node_id: str) -> list[str]:
        return list(context.take_condition() or ())

    @rpc_method("ignores")
    def ignores(self, context: RequestContext, node_id: str) -> None:
        return None


def test_a_condition_reaches_the_handler_and_must_be_looked_at() -> None:
    registry = Registry([Conditional()])
    given = {"node_id": "n", "if_match": ["a"]}
    assert registry.dispatch("looks", RequestContext(), given) == ["a"]
    assert registry.dispatch("looks", RequestContext(), {"node_id": "n"}) == []
    with pytest.raises(RuntimeError, match="does not look at the condition"):
        registry.dispatch("ignores", RequestContext(), given)
