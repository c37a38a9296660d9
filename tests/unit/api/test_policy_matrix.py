"""Each rule of the policy against everybody: who passes, and who does not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from ironic_rs.api import policy, policy_rules
from ironic_rs.api.enforcement import RoleBased, get_enforcer
from ironic_rs.conf import opts
from ironic_rs.domain import errors
from ironic_rs.rpc.context import RequestContext
from tests.harness import personas
from tests.harness.personas import OF_ELEVATED_SERVICE, PASSES, SERVICE, SYSTEM_ONLY, TARGET

RULES = {rule.name: rule for rule in policy_rules.list_rules()}


def context(persona: str, **more: Any) -> RequestContext:
    """Return the context of a request of a persona."""
    told = personas.TOKENS[persona]["token"]
    project = told.get("project", {})
    values = {
        "roles": list(personas.roles(persona)),
        "user_id": "user-id",
        "project_id": project.get("id"),
        "project_name": project.get("name"),
        "project_domain_id": project.get("domain", {}).get("id"),
        "domain_id": told.get("domain", {}).get("id"),
        "system_scope": "all" if "system" in told else None,
        **more,
    }
    return RequestContext(overwrite=False, **values)


def configuration(directory: Path) -> cfg.ConfigOpts:
    """Return a configuration of its own, whose policy file does not exist yet."""
    made = cfg.ConfigOpts()
    opts.register_all(made)
    made([], project="test", default_config_files=[], default_config_dirs=[str(directory)])
    return made


@pytest.fixture
def conf(tmp_path: Path) -> Iterator[cfg.ConfigOpts]:
    made = configuration(tmp_path)
    yield made
    # Groups are shared between configurations, and overrides in them.
    made.reset()


@pytest.fixture(scope="module")
def enforcer(tmp_path_factory: pytest.TempPathFactory) -> RoleBased:
    """The defaults."""
    return RoleBased(configuration(tmp_path_factory.mktemp("defaults")))


@pytest.fixture(scope="module")
def elevating(tmp_path_factory: pytest.TempPathFactory) -> RoleBased:
    """The defaults, with elevated services."""
    conf = configuration(tmp_path_factory.mktemp("elevating"))
    conf.set_override("rbac_service_role_elevated_access", True)
    return RoleBased(conf)


def who_passes(enforcer: RoleBased, rule: str) -> set[str]:
    return {p for p in personas.TOKENS if enforcer.allows(context(p), rule, TARGET)}


def test_the_table_has_every_rule_once() -> None:
    listed = [rule for _, rules in personas._TABLE for rule in rules.split()]
    assert len(listed) == len(set(listed))
    assert PASSES.keys() == RULES.keys()


@pytest.mark.parametrize("rule", PASSES)
def test_who_passes(rule: str, enforcer: RoleBased) -> None:
    assert who_passes(enforcer, rule) == PASSES[rule]


@pytest.mark.parametrize("rule", PASSES)
def test_of_objects_without_owner_and_lessee(rule: str, enforcer: RoleBased) -> None:
    """Nobody owns them: neither whoever is in no project, nor whoever is in any."""
    target = dict.fromkeys(TARGET)
    empty = {p for p in personas.TOKENS if enforcer.allows(context(p), rule, target)}
    of_owner_or_lessee = {
        persona
        for persona in PASSES[rule]
        if not enforcer.allows(context(persona), rule, {**target, "runbook.public": False})
    }
    assert empty == PASSES[rule] - of_owner_or_lessee
    assert of_owner_or_lessee <= {p for p in personas.TOKENS if p[0] in "OL"}


#: What was observed of the reference (section 13.2): operations, their rules, and who may.
#: Columns: those of COLUMNS.
COLUMNS = ["SA", "SM", "SR", "SS", "OA", "OM", "OR", "LA", "LM", "LR", "TA", "OS"]
OBSERVED = [
    (
        "node:get node:get_states node:traits:list node:vif:list port:get node:bios:get "
        "node:firmware:get",
        "+ + + + + + + + + + - +",
    ),
    (
        "node:get:last_error node:get:reservation node:get:driver_info node:history:get "
        "node:inventory:get",
        "+ + + + + + + - - - - +",
    ),
    (
        "node:validate node:set_maintenance node:set_provision_state node:vif:attach",
        "+ + - + + + - + - - - +",
    ),
    (
        "node:set_power_state node:set_boot_mode node:set_secure_boot node:vmedia:attach",
        "+ + - + + + - + + - - -",
    ),
    (
        "node:get_boot_device node:set_boot_device node:traits:set node:inject_nmi",
        "+ + - + + - - - - - - +",
    ),
    (
        "node:get_console node:set_raid_state node:set_indicator_state",
        "+ + - + + + - - - - - +",
    ),
    ("node:update_extra node:update", "+ + - + + + - + + - - -"),
    ("node:update_instance_info", "+ + - + + + - + - - - +"),
    (
        "node:update:driver_info node:update:properties node:update:name node:update:lessee "
        "node:update:retired node:update:network_data",
        "+ + - + + + - - - - - +",
    ),
    ("node:update:driver_interfaces", "+ + - + + - - - - - - +"),
    (
        "node:update:owner node:update:conductor_group node:update:parent_node",
        "+ + - - - - - - - - - -",
    ),
    (
        "node:update:chassis_uuid node:update:shard node:update:disable_power_off "
        "node:disable_cleaning",
        "+ - - - - - - - - - - -",
    ),
    ("node:vendor_passthru", "+ - - - - - - - - - - -"),
    ("node:create:self_owned_node", "+ - - + + - - + - - + +"),
    ("node:delete", "+ - - - - - - - - - - -"),
    ("port:create port:delete portgroup:create portgroup:delete", "+ - - + + - - - - - - +"),
    ("port:update portgroup:update", "+ + - + + - - - - - - +"),
    (
        "conductor:get deploy_template:get inspection_rule:get shards:get",
        "+ + + + - - - - - - - -",
    ),
    ("chassis:get driver:get", "+ + + + - - - - - - - -"),
    (
        "deploy_template:create inspection_rule:create events:post",
        "+ - - - - - - - - - - -",
    ),
    ("allocation:create", "+ + - - + + - + + - + -"),
    ("runbook:create", "+ + - + + - - + - - + +"),
]


@pytest.mark.parametrize(("rules", "marks"), OBSERVED, ids=[rules for rules, _ in OBSERVED])
def test_the_table_agrees_with_what_was_observed(rules: str, marks: str) -> None:
    for rule in rules.split():
        found = ["+" if p in PASSES[f"baremetal:{rule}"] else "-" for p in COLUMNS]
        assert found == marks.split(), rule


def test_the_table_says_which_rules_are_for_the_system_alone() -> None:
    scoped = {name for name, rule in RULES.items() if rule.scope_types == ["system"]}
    assert scoped == SYSTEM_ONLY


@pytest.mark.parametrize("rule", PASSES)
def test_an_elevated_service_passes_as_a_member_of_the_system(
    rule: str, elevating: RoleBased
) -> None:
    expected = PASSES[rule] | ({"VS"} if rule in OF_ELEVATED_SERVICE else set())
    assert who_passes(elevating, rule) == expected


def test_the_project_of_services_can_have_another_name(conf: cfg.ConfigOpts) -> None:
    enforcer = RoleBased(conf)
    conf.set_override("rbac_service_role_elevated_access", True)
    conf.set_override("rbac_service_project_name", "admins")
    assert not enforcer.allows(context("VS"), "baremetal:node:list_all", {})
    named = context("VS", project_id=SERVICE, project_name="admins")
    assert enforcer.allows(named, "baremetal:node:list_all", {})


def test_a_public_request_has_no_roles(enforcer: RoleBased) -> None:
    public = RequestContext(is_public_api=True, overwrite=False)
    passed = {rule for rule in RULES if enforcer.allows(public, rule, TARGET)}
    assert passed == {
        "public_api",
        "baremetal:node:ipa_heartbeat",
        "baremetal:driver:ipa_lookup",
        "baremetal:driver:ipa_continue_inspection",
    }


def test_scope_counts_unless_switched_off(conf: cfg.ConfigOpts, enforcer: RoleBased) -> None:
    for rule in ("baremetal:allocation:create_pre_rbac", "baremetal:node:create:self_owned_node"):
        assert "DA" not in who_passes(enforcer, rule)
    conf.set_override("enforce_scope", False, group="oslo_policy")
    unscoped = RoleBased(conf)
    assert "SA" in who_passes(unscoped, "baremetal:allocation:create_pre_rbac")
    assert "DA" in who_passes(unscoped, "baremetal:node:create:self_owned_node")
    # Roles of a project are still not those of the system.
    for rule in SYSTEM_ONLY:
        assert who_passes(unscoped, rule) == PASSES[rule]


class TestLegacy:
    """With ``enforce_new_defaults`` off the rules before scopes pass as well."""

    @pytest.fixture
    def legacy(self, conf: cfg.ConfigOpts) -> RoleBased:
        policy.RoleBased(conf)
        conf.set_override("enforce_new_defaults", False, group="oslo_policy")
        return RoleBased(conf)

    def test_the_admin_of_any_project_may_do_what_had_a_legacy_rule(
        self, legacy: RoleBased
    ) -> None:
        old = {name for name, rule in RULES.items() if rule.deprecated_rule is not None}
        may = {rule for rule in old if legacy.allows(context("TA"), rule, {"node.owner": "x"})}
        assert may == old - SYSTEM_ONLY

    def test_nobody_else_of_another_project_gets_more(self, legacy: RoleBased) -> None:
        others = {"TG", "TM", "TR", "TS", "VS", "ON", "DA"}
        more = {rule for rule in PASSES if (who_passes(legacy, rule) - PASSES[rule]) & others}
        # Whoever may create allocations may say for whom.
        assert more == {"baremetal:allocation:create_restricted"}

    def test_observers_of_the_old_project_may_look(self, legacy: RoleBased) -> None:
        observer = context(
            "TR", roles=["observer"], project_name="baremetal", project_domain_id="default"
        )
        assert legacy.allows(observer, "baremetal:node:get", TARGET)
        assert not legacy.allows(observer, "baremetal:node:update", TARGET)
        assert not legacy.allows(
            context("TR", roles=["observer"], project_name="x"), "baremetal:node:get", TARGET
        )


def write(tmp_path: Path, text: str, name: str = "policy.yaml") -> Path:
    """Write a policy file that is newer than what was there."""
    path = tmp_path / name
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    now = path.stat().st_mtime_ns
    os.utime(path, ns=(now, max(now, before + 1)))
    return path


@pytest.fixture
def file(conf: cfg.ConfigOpts, tmp_path: Path) -> Iterator[Path]:
    """The path of the policy file, which the configuration names."""
    RoleBased(conf)
    path = tmp_path / "policy.yaml"
    conf.set_override("policy_file", str(path), group="oslo_policy")
    conf.set_override("policy_dirs", [str(tmp_path / "policy.d")], group="oslo_policy")
    yield path


def may_list_shards(enforcer: RoleBased) -> bool:
    return enforcer.allows(context("TR"), "baremetal:shards:get", {})


class TestFile:
    def test_the_operators_file_wins(
        self, conf: cfg.ConfigOpts, file: Path, tmp_path: Path
    ) -> None:
        write(tmp_path, '"baremetal:shards:get": "role:reader"\n"show_password": "rule:is_admin"\n')
        enforcer = RoleBased(conf)
        assert may_list_shards(enforcer)
        assert enforcer.allows(context("SA"), policy.SHOW_DRIVER_SECRETS, {})
        assert enforcer.allows(context("OR"), "baremetal:node:get", TARGET)

    def test_a_changed_file_counts_at_once(
        self, conf: cfg.ConfigOpts, file: Path, tmp_path: Path
    ) -> None:
        enforcer = RoleBased(conf)
        assert not may_list_shards(enforcer)
        write(tmp_path, '"baremetal:shards:get": "role:reader"')
        assert may_list_shards(enforcer)
        write(tmp_path, '"baremetal:shards:get": "!"')
        assert not may_list_shards(enforcer)
        file.unlink()
        assert enforcer.allows(context("SR"), "baremetal:shards:get", {})

    def test_so_do_files_of_the_directory(
        self, conf: cfg.ConfigOpts, file: Path, tmp_path: Path
    ) -> None:
        write(tmp_path, '"baremetal:shards:get": "!"')
        enforcer = RoleBased(conf)
        write(tmp_path, '"baremetal:shards:get": "role:reader"', "policy.d/10-shards.yaml")
        assert may_list_shards(enforcer)
        write(tmp_path, '"baremetal:shards:get": "!"', "policy.d/20-shards.yaml")
        assert not may_list_shards(enforcer)

    @pytest.mark.parametrize("text", ["a: [", "just text", "- a list", "\x00"])
    def test_a_bad_file_stops_the_start_and_changes_nothing_later(
        self,
        text: str,
        conf: cfg.ConfigOpts,
        file: Path,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        write(tmp_path, '"baremetal:shards:get": "role:reader"')
        enforcer = RoleBased(conf)
        write(tmp_path, text)
        with pytest.raises(errors.IncorrectConfiguration, match="policy can not be read"):
            RoleBased(conf)
        assert may_list_shards(enforcer)
        assert "the old rules stay in force" in caplog.text
        write(tmp_path, '"baremetal:shards:get": "!"')
        assert not may_list_shards(enforcer)

    def test_a_directory_that_can_not_be_listed_changes_nothing(
        self,
        conf: cfg.ConfigOpts,
        file: Path,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        write(tmp_path, '"baremetal:shards:get": "role:reader"', "policy.d/shards.yaml")
        enforcer = RoleBased(conf)

        def refuse(path: Path) -> Iterator[Path]:
            raise PermissionError(f"{path} can not be listed")

        monkeypatch.setattr(Path, "iterdir", refuse)
        assert may_list_shards(enforcer)
        assert "policy.d can not be listed" in caplog.text
        with pytest.raises(errors.IncorrectConfiguration, match="can not be listed"):
            RoleBased(conf)

    def test_a_missing_file_that_was_named_is_told(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        main = tmp_path / "test.conf"
        main.write_text("[oslo_policy]\npolicy_file = /nowhere/policy.yaml\n")
        conf = cfg.ConfigOpts()
        opts.register_all(conf)
        conf([], project="test", default_config_files=[str(main)])
        with caplog.at_level("WARNING"):
            RoleBased(conf)
        assert "/nowhere/policy.yaml does not exist" in caplog.text

    def test_a_rule_that_runs_in_circles_answers_503(
        self, conf: cfg.ConfigOpts, file: Path, tmp_path: Path
    ) -> None:
        write(tmp_path, '"baremetal:shards:get": "rule:a"\n"a": "rule:b"\n"b": "rule:a"\n')
        enforcer = RoleBased(conf)
        with pytest.raises(errors.TemporaryFailure, match="baremetal:shards:get"):
            may_list_shards(enforcer)

    def test_a_rule_may_ask_another_server_which_may_be_away(
        self, conf: cfg.ConfigOpts, file: Path, tmp_path: Path
    ) -> None:
        write(tmp_path, '"baremetal:shards:get": "http://127.0.0.1:1/check"\n')
        with pytest.raises(errors.TemporaryFailure):
            may_list_shards(RoleBased(conf))

    def test_rules_may_compare_with_the_caller(
        self, conf: cfg.ConfigOpts, file: Path, tmp_path: Path
    ) -> None:
        write(tmp_path, '"baremetal:shards:get": "user_id:%(user_id)s and None:%(node.owner)s"\n')
        enforcer = RoleBased(conf)
        assert enforcer.allows(context("TR"), "baremetal:shards:get", {"node.owner": None})
        assert not enforcer.allows(context("TR"), "baremetal:shards:get", {"node.owner": "x"})


class TestSteps:
    RULE = "baremetal:step:execute:raid.create_configuration"

    def test_steps_without_a_rule_are_not_restricted(self, enforcer: RoleBased) -> None:
        assert enforcer.allows(context("LM"), self.RULE, TARGET)

    def test_a_rule_restricts_its_step(
        self, conf: cfg.ConfigOpts, file: Path, tmp_path: Path
    ) -> None:
        write(tmp_path, f'"{self.RULE}": "rule:baremetal:node:delete"')
        enforcer = RoleBased(conf)
        assert not enforcer.allows(context("LM"), self.RULE, TARGET)
        assert enforcer.allows(context("SA"), self.RULE, TARGET)
        assert enforcer.allows(context("LM"), f"{self.RULE}_other", TARGET)

    def test_a_default_rule_does_not_restrict_steps(
        self, conf: cfg.ConfigOpts, file: Path, tmp_path: Path
    ) -> None:
        write(tmp_path, '"default": "!"')
        assert RoleBased(conf).allows(context("LM"), self.RULE, TARGET)


def test_an_unknown_rule_passes_nobody(enforcer: RoleBased) -> None:
    assert who_passes(enforcer, "baremetal:node:no_such_rule") == set()


def test_the_tools_get_the_rules_in_force() -> None:
    assert RULES.keys() <= get_enforcer().rules.keys()
