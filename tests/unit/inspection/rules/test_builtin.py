"""The file of built-in rules: what it may hold, and errors with file and line."""

from __future__ import annotations

import pytest

from ironic_rs.domain import errors
from ironic_rs.inspection.rules import builtin

GOOD = """\
# Rules of the site.
- uuid: 1be26c0b-03f2-4d2e-ae87-c02d7f33c123
  description: first
  priority: 123456
  sensitive: true
  phase: main
  conditions:
    - {op: "!eq", args: {values: ["{node.driver}", x]}, loop: [1], multiple: all}
  actions:
    - &action {op: set-attribute, args: {path: extra/day, value: 2026-01-02}}

- actions:
    - *action
    - op: log
      args: [hello]
"""


@pytest.fixture
def load(config, tmp_path):
    path = tmp_path / "rules.yaml"

    def call(text):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        config("inspection_rules", built_in_rules=str(path))
        return builtin.load()

    call.path = path
    return call


def test_without_the_option_there_are_none(config):
    assert builtin.load() == []


@pytest.mark.parametrize("text", ["", "# nothing\n", "[]"])
def test_a_file_may_be_empty(load, text):
    assert load(text) == []


def test_a_good_file(load):
    first, second = load(GOOD)
    assert first.uuid == "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
    assert (first.priority, first.sensitive, first.phase) == (123456, True, "main")
    assert first.conditions[0]["multiple"] == "all"
    # Dates are text, as in JSON.
    assert first.actions[0]["args"]["value"] == "2026-01-02"
    assert second.uuid == "00000000-0000-0000-0000-000000000001"
    assert (second.priority, second.sensitive, second.phase) == (0, False, "main")
    assert second.actions[1] == {"op": "log", "args": ["hello"]}


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("- actions:\n  - {op: fail\n", 3, "expected"),
        ("\n- a: b: c\n", 2, "mapping values are not allowed"),
        ("actions: []", 1, "list of rules"),
        ("x", 1, "list of rules"),
        ("- x", 1, "'x' is no rule"),
        ("[]\n---\n[]", 2, "another document"),
        ("- actions: [{op: fail, args: [x]}]\n- actions: []\n", 2, "at least"),
        ("- actions: [{op: fail, args: [x]}]\n\n- {}\n", 3, "missing: actions"),
        ("- actions: [{op: fly, args: [x]}]", 1, "'fly'"),
        ("- actions: [{op: fail, args: {}}]", 1, "lacks the argument"),
        ("- {bogus: 1, actions: [{op: fail, args: [x]}]}", 1, "bogus"),
        ("- {priority: -1, actions: [{op: fail, args: [x]}]}", 1, "priority is -1"),
        ("- {priority: high, actions: [{op: fail, args: [x]}]}", 1, "priority is 'high'"),
        ("- {priority: true, actions: [{op: fail, args: [x]}]}", 1, "priority is True"),
        ("- {phase: early, actions: [{op: fail, args: [x]}]}", 1, "'early'"),
        ("- {uuid: x, actions: [{op: fail, args: [x]}]}", 1, "uuid"),
        ("- actions: [{op: fail, args: !!python/object:x.y {}}]", 1, "python"),
        ("- &a [*a]", 1, ""),
    ],
)
def test_errors_name_file_and_line(load, text, line, problem):
    with pytest.raises(errors.ConfigInvalid) as failure:
        load(text)
    assert f"{load.path}, line {line}: " in str(failure.value)
    assert problem in str(failure.value)


@pytest.mark.parametrize("text", [b"\xff\xfe\xfa", b"\x00", b"[" * 5000])
def test_files_that_are_no_text_are_refused(load, text):
    with pytest.raises(errors.ConfigInvalid, match=r"rules\.yaml"):
        load(text)


def test_a_directory_is_no_file(config, tmp_path):
    config("inspection_rules", built_in_rules=str(tmp_path))
    with pytest.raises(errors.ConfigInvalid, match="built_in_rules"):
        builtin.load()
