"""BIOS settings, at the wire of a simulated machine."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ironic_rs.conf import CONF
from ironic_rs.db import bios as db_bios
from ironic_rs.db import nodes, session
from ironic_rs.domain import errors, states
from ironic_rs.drivers.redfish import bios_attributes
from ironic_rs.drivers.redfish.bios import RedfishBIOS
from tests.harness.bmc import SYSTEM, Answer, error, link
from tests.harness.database import database, empty_schema  # noqa: F401

BIOS = f"{SYSTEM}/Bios"
REGISTRY = "/redfish/v1/Registries/Attributes.v1_0_0"
ENTRIES = [
    {
        "AttributeName": "Boot",
        "Type": "Enumeration",
        "Value": [{"ValueName": "Uefi"}, {"ValueDisplayName": "Legacy"}],
    },
    {"AttributeName": "Count", "Type": "Integer", "LowerBound": -1, "UpperBound": 4294967295},
    {"AttributeName": "Turbo", "Type": "Boolean"},
    {
        "AttributeName": "Tag",
        "Type": "String",
        "MinLength": 2,
        "MaxLength": 2**40,
        "ReadOnly": False,
    },
    {"AttributeName": "Serial", "Type": "String", "ReadOnly": True},
]
VALUES = {
    "Boot": "Uefi",
    "Count": 1,
    "Turbo": False,
    "Tag": "ab",
    "Serial": "S1",
    "Sys.Prof~1/a": None,
}


@pytest.fixture
def shown(bmc):
    """The attributes of the BIOS and those that the next boot sets."""
    bmc.system["Bios"] = link(BIOS)
    bmc.tree[BIOS] = {
        "Id": "BIOS",
        "AttributeRegistry": "Attributes.v1_0_0",
        "Attributes": dict(VALUES),
        "@Redfish.Settings": {
            "SettingsObject": link(f"{BIOS}/Settings"),
            "SupportedApplyTimes": ["OnReset"],
        },
        "Actions": {"#Bios.ResetBios": {"target": f"{BIOS}/Actions/Bios.ResetBios"}},
    }
    bmc.tree[f"{BIOS}/Settings"] = {"Id": "Settings", "Attributes": {}}
    bmc.tree["/redfish/v1"]["Registries"] = link("/redfish/v1/Registries")
    bmc.tree["/redfish/v1/Registries"] = {"Members": [link(REGISTRY)]}
    bmc.tree[REGISTRY] = {
        "Id": "Attributes.v1_0_0",
        "Name": "Attributes",
        "Languages": ["en"],
        "Registry": "Attributes.v1_0_0",
        "Location": [{"Language": "en", "Uri": f"{REGISTRY}/File"}],
    }
    bmc.tree[f"{REGISTRY}/File"] = {
        "@odata.type": "#AttributeRegistry.v1_3_0.AttributeRegistry",
        "Id": "Attributes.v1_0_0",
        "Name": "Attributes",
        "Language": "en",
        "OwningEntity": "Test",
        "RegistryVersion": "1.0.0",
        "RegistryEntries": {"Attributes": ENTRIES},
    }
    bmc.script("POST", "ResetBios", Answer(204))
    return bmc.tree[BIOS]["Attributes"]


@pytest.fixture
def task(make_task, bmc, database, shown):  # noqa: F811
    task = make_task(bmc, clean_step={"step": "x"}, provision_state=states.CLEANING)
    record = nodes.create({"driver": "redfish", "driver_info": task.node.driver_info})
    task.node.id = record.id
    task.node.driver_internal_info["cleaning_disable_ramdisk"] = True
    task.driver.bios = RedfishBIOS()
    return task


@pytest.fixture
def bios(task):
    return task.driver.bios


def booted(bmc, progress="OSRunning"):
    """The machine has booted and has its pending settings."""
    later = bmc.tree[f"{BIOS}/Settings"]["Attributes"]
    bmc.tree[BIOS]["Attributes"].update(later)
    later.clear()
    bmc.system["BootProgress"] = {"LastState": progress}


def test_settings_are_stored_with_what_the_registry_says(task, bios):
    bios.cache_bios_settings(task)
    rows = {row.name: row for row in db_bios.of_node(task.node.id)}
    assert {name: row.value for name, row in rows.items()} == {
        "Boot": "Uefi",
        "Count": "1",
        "Turbo": "False",
        "Tag": "ab",
        "Serial": "S1",
        "Sys.Prof~1/a": None,
    }
    assert rows["Boot"].allowable_values == ["Uefi", "Legacy"]
    assert (rows["Count"].lower_bound, rows["Count"].upper_bound) == (-1, 4294967295)
    # A length that the column cannot hold is cut.
    assert (rows["Tag"].min_length, rows["Tag"].max_length) == (2, 2**31 - 1)
    assert rows["Serial"].read_only
    assert rows["Sys.Prof~1/a"].attribute_type is None


def test_only_the_attribute_registry_is_read(task, bios, bmc):
    bmc.tree["/redfish/v1/Registries"]["Members"] += [
        link(f"/redfish/v1/Registries/{n}") for n in range(9)
    ]
    bios.cache_bios_settings(task)
    assert not bmc.asked("GET", r"/Registries/\d")


@pytest.mark.parametrize("fault", ["missing", "no registries", "internet", "nonsense", "500"])
def test_without_a_readable_registry_values_are_stored_alone(task, bios, bmc, fault):
    if fault == "missing":
        bmc.tree["/redfish/v1/Registries"]["Members"] = []
    elif fault == "no registries":
        del bmc.tree["/redfish/v1"]["Registries"]
    elif fault == "internet":
        bmc.tree[REGISTRY]["Location"] = [
            {"Language": "en", "PublicationUri": "http://127.0.0.1:9/x"}
        ]
    elif fault == "nonsense":
        bmc.tree[f"{REGISTRY}/File"]["RegistryEntries"] = None
    else:
        bmc.script("GET", "/Registries", Answer(500, error("broken")))
    bios.cache_bios_settings(task)
    rows = {row.name: row for row in db_bios.of_node(task.node.id)}
    assert (rows["Count"].value, rows["Count"].attribute_type) == ("1", None)


#: What registries of real machines have been seen to say, or might.
ODD_ENTRIES = [
    {"AttributeName": "Boot", "Type": 7, "Value": ["Uefi", {"ValueName": 1}, None], "ReadOnly": 0},
    {"AttributeName": "Count", "Type": "Integer", "LowerBound": "-1", "UpperBound": "4294967295"},
    {"AttributeName": "Count", "Type": "Integer", "LowerBound": "-1", "UpperBound": "4294967295"},
    {"AttributeName": "Turbo", "Type": "x" * 300, "Value": {}, "LowerBound": True},
    {"AttributeName": "Tag", "Type": "String", "MinLength": "two", "MaxLength": 1.5},
    {"AttributeName": "Serial", "Type": "String", "ValueExpression": "^[A-Z]+[0-9]*$"},
    {"AttributeName": "Sys.Prof~1/a", "Type": None, "LowerBound": {}, "Value": "x"},
    {"AttributeName": "NotShown"},
]


def test_an_odd_registry_does_not_keep_settings_from_being_stored(task, bios, bmc):
    bmc.tree[f"{REGISTRY}/File"]["RegistryEntries"]["Attributes"] = ODD_ENTRIES
    bmc.tree[BIOS]["Attributes"] |= {"List": [1, {"a": None}], "Long": "y" * 70000, "n" * 300: 1}
    bios.cache_bios_settings(task)
    rows = {row.name: row for row in db_bios.of_node(task.node.id)}
    assert set(rows) == {*VALUES, "List", "Long"}
    assert (rows["Count"].lower_bound, rows["Count"].upper_bound) == (-1, 4294967295)
    assert rows["Boot"].allowable_values == ["1"]
    assert rows["Turbo"].attribute_type is None
    assert (rows["Tag"].min_length, rows["Tag"].max_length) == (None, None)
    assert rows["Sys.Prof~1/a"].value is None
    assert rows["List"].value == "[1, {'a': None}]"


def test_a_registry_that_becomes_readable_is_stored_with_the_same_values(task, bios, bmc):
    members = bmc.tree["/redfish/v1/Registries"]["Members"]
    bmc.tree["/redfish/v1/Registries"]["Members"] = []
    bios.cache_bios_settings(task)
    bmc.tree["/redfish/v1/Registries"]["Members"] = members
    bios.cache_bios_settings(task)
    with pytest.raises(errors.InvalidParameterValue, match="Boot: 'Other' is none of Uefi, Legacy"):
        apply(bios, task, Boot="Other")
    # It is kept while it is not readable.
    bmc.tree["/redfish/v1/Registries"]["Members"] = []
    bios.cache_bios_settings(task)
    rows = {row.name: row for row in db_bios.of_node(task.node.id)}
    assert rows["Boot"].attribute_type == "Enumeration"


def test_without_registry_the_bmc_decides_and_the_step_fails_at_once_with_its_words(
    task, bios, bmc
):
    bmc.tree["/redfish/v1/Registries"]["Members"] = []
    bios.cache_bios_settings(task)
    refusal = "The value many of Count is not in the list of 1, 2"
    bmc.script("PATCH", "/Settings", Answer(400, error(refusal)))
    with pytest.raises(errors.RedfishError, match=refusal):
        apply(bios, task, Count="many")
    assert "redfish_bios_state" not in task.node.driver_internal_info
    assert task.flows.calls == []


@pytest.mark.parametrize(
    ("name", "value", "sent"),
    [
        ("Count", "5", 5),
        ("Count", "4294967295", 4294967295),
        ("Count", -1, -1),
        ("Turbo", "true", True),
        ("Turbo", "FALSE", False),
        ("Turbo", True, True),
        ("Tag", 12, "12"),
        ("Boot", "Legacy", "Legacy"),
        ("Sys.Prof~1/a", "x", "x"),
        ("Sys.Prof~1/a", None, None),
        ("Count", None, None),
    ],
)
def test_a_value_is_converted_by_the_type_of_its_attribute(task, bios, bmc, name, value, sent):
    bmc.tree[BIOS]["Attributes"] |= {"Count": 3, "Turbo": "?", "Sys.Prof~1/a": "y"}
    bios.cache_bios_settings(task)
    apply(bios, task, **{name: value})
    assert bmc.asked("PATCH")[0].body["Attributes"] == {name: sent}
    assert type(bmc.asked("PATCH")[0].body["Attributes"][name]) is type(sent)


def test_reading_settings_that_have_not_changed_costs_one_statement(task, bios):
    bios.cache_bios_settings(task)
    with session.count_statements() as seen:
        bios.cache_bios_settings(task)
    assert seen.count == 1


def test_a_machine_without_bios_resource_is_told(task, bios, bmc):
    del bmc.system["Bios"]
    with pytest.raises(errors.UnsupportedDriverExtension):
        bios.cache_bios_settings(task)


def apply(bios, task, **settings):
    given = [{"name": name, "value": value} for name, value in settings.items()]
    return bios.apply_configuration(task, given)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("Boot", "Other", "none of Uefi, Legacy"),
        ("Count", 4294967296, "not between -1 and 4294967295"),
        ("Count", "many", "no integer"),
        ("Count", 1.5, "no integer"),
        ("Turbo", "perhaps", "neither true nor false"),
        ("Tag", "a", "shorter than 2"),
        ("Serial", "S2", "read-only"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_before_the_bmc_is_asked(
    task, bios, bmc, name, value, reason
):
    bios.cache_bios_settings(task)
    bmc.forget()
    with pytest.raises(errors.InvalidParameterValue, match=f"{name}: .*{reason}"):
        apply(bios, task, **{name: value})
    assert bmc.requests == []


@pytest.mark.parametrize("settings", [[], None, [{"name": "Boot"}], ["Boot"]])
def test_malformed_settings_are_refused(task, bios, settings):
    with pytest.raises(errors.InvalidParameterValue):
        bios.apply_configuration(task, settings)


def test_values_are_sent_in_the_type_of_the_registry(task, bios, bmc):
    bios.cache_bios_settings(task)
    assert (
        apply(bios, task, Count="5", Turbo="true", Boot="Legacy", Unknown=[1]) == states.CLEANWAIT
    )
    (sent,) = bmc.asked("PATCH")
    assert sent.body == {
        "Attributes": {"Count": 5, "Turbo": True, "Boot": "Legacy", "Unknown": [1]},
        "@Redfish.SettingsApplyTime": {
            "ApplyTime": "OnReset",
            "@odata.type": "#Settings.v1_0_0.PreferredApplyTime",
        },
    }


def test_settings_are_applied_by_a_reboot_and_checked_after_it(task, bios, bmc):
    bios.cache_bios_settings(task)
    assert apply(bios, task, Count=5) == states.CLEANWAIT
    info = task.node.driver_internal_info
    assert info["redfish_bios_state"]["requested_bios_attrs"] == {"Count": 5}
    assert (info["cleaning_reboot"], info["skip_current_clean_step"], info["cleaning_polling"]) == (
        True,
        False,
        True,
    )
    assert ("power", states.REBOOT) in task.flows.calls
    booted(bmc)
    assert apply(bios, task, Count=5) is None
    assert "redfish_bios_state" not in info
    assert db_bios.get(task.node.id, "Count").value == "5"
    assert len(bmc.asked("PATCH")) == 1


def test_nothing_is_done_when_all_is_as_wanted(task, bios, bmc):
    assert apply(bios, task, Count="1", Boot="Uefi") is None
    assert bmc.asked("PATCH") == []
    assert task.flows.calls == []


def test_a_pending_other_value_is_replaced(task, bios, bmc):
    bmc.tree[f"{BIOS}/Settings"]["Attributes"]["Count"] = 9
    assert apply(bios, task, Count=1) == states.CLEANWAIT


def test_settings_that_a_boot_did_not_take_fail_the_step_with_the_words_of_the_bmc(task, bios, bmc):
    apply(bios, task, Count=5, Boot="Legacy")
    bmc.tree[f"{BIOS}/Settings"]["Attributes"] = {}
    bmc.tree[BIOS]["@Redfish.Settings"]["Messages"] = [
        {"MessageId": "X.1", "Message": "licence missing"}
    ]
    bmc.tree[BIOS]["Attributes"]["Count"] = 5
    with pytest.raises(
        errors.RedfishError, match=r"after the reboot: Boot\. The BMC says: licence missing"
    ):
        apply(bios, task, Count=5, Boot="Legacy")
    assert "redfish_bios_state" not in task.node.driver_internal_info


def test_a_refusal_of_the_bmc_fails_the_step_with_its_words(task, bios, bmc):
    bmc.script("PATCH", "/Bios/Settings", Answer(400, error("not while locked down")))
    with pytest.raises(errors.RedfishError, match="not while locked down"):
        apply(bios, task, Count=5)
    assert "redfish_bios_state" not in task.node.driver_internal_info
    assert task.flows.calls == []


def test_factory_reset_reboots_and_reads_the_settings_again(task, bios, bmc):
    assert bios.factory_reset(task) == states.CLEANWAIT
    assert len(bmc.asked("POST", "ResetBios")) == 1
    bmc.tree[BIOS]["Attributes"]["Count"] = 0
    assert bios.factory_reset(task) is None
    assert db_bios.get(task.node.id, "Count").value == "0"
    assert len(bmc.asked("POST", "ResetBios")) == 1


@pytest.fixture
def waiting(task, bios):
    """A shared task on a node that waits for its BIOS settings."""
    apply(bios, task, Count=5)
    task.node.provision_state = states.CLEANWAIT
    task.flows.calls.clear()
    task.shared = True
    return task


@pytest.mark.parametrize("progress", ["OSBootStarted", "OSRunning", None])
def test_the_step_goes_on_when_the_machine_has_booted(waiting, bios, bmc, progress):
    booted(bmc, progress)
    bios._query_bios_apply_status(waiting)
    assert waiting.flows.calls == [("resume", "clean")]
    assert not waiting.shared


def test_while_the_machine_boots_its_step_does_not_time_out(waiting, bios, bmc):
    booted(bmc, "MemoryInitializationStarted")
    bios._query_bios_apply_status(waiting)
    assert waiting.flows.calls == [("touch",)]


def test_a_boot_without_end_times_out(waiting, bios, bmc, clock):
    booted(bmc, "MemoryInitializationStarted")
    waiting.node.driver_internal_info["redfish_bios_state"]["requested_at"] -= 7200
    bios._query_bios_apply_status(waiting)
    assert waiting.flows.calls == []


def test_only_a_machine_without_ramdisk_need_not_boot_a_system(waiting, bios, bmc):
    booted(bmc, "SystemHardwareInitializationComplete")
    del waiting.node.driver_internal_info["cleaning_disable_ramdisk"]
    bios._query_bios_apply_status(waiting)
    assert waiting.flows.calls == [("touch",)]
    waiting.node.driver_internal_info["cleaning_disable_ramdisk"] = True
    bios._query_bios_apply_status(waiting)
    assert waiting.flows.calls[1:] == [("touch",), ("resume", "clean")]


def test_settings_that_are_not_there_yet_are_waited_for(waiting, bios, bmc):
    bmc.system["BootProgress"] = {"LastState": "OSRunning"}
    bios._query_bios_apply_status(waiting)
    assert waiting.flows.calls == []
    assert waiting.shared


def test_settings_that_the_bmc_has_given_up_are_not_waited_for(waiting, bios, bmc):
    bmc.system["BootProgress"] = {"LastState": "OSRunning"}
    said = {"MessageId": "X.1", "Message": "refused", "Severity": "Critical"}
    bmc.tree[BIOS]["@Redfish.Settings"]["Messages"] = [said]
    bios._query_bios_apply_status(waiting)
    # They are still to be set, so the message is about something earlier.
    assert waiting.flows.calls == []
    bmc.tree[f"{BIOS}/Settings"]["Attributes"].clear()
    said["Severity"] = "OK"
    bios._query_bios_apply_status(waiting)
    assert waiting.flows.calls == []
    said["Severity"] = "Critical"
    bios._query_bios_apply_status(waiting)
    assert waiting.flows.calls == [("resume", "clean")]


def test_a_bmc_that_does_not_answer_is_asked_again_later(waiting, bios, bmc):
    bmc.script("GET", "/Systems", Answer(close=True))
    bios._query_bios_apply_status(waiting)
    assert waiting.flows.calls == []


def test_the_state_is_looked_at_again_under_the_lock(waiting, bios, bmc):
    booted(bmc)

    def upgrade_lock(purpose=None, retry=None):
        assert retry is False
        waiting.node.provision_state = states.CLEANFAIL

    waiting.upgrade_lock = upgrade_lock
    bios._query_bios_apply_status(waiting)
    assert waiting.flows.calls == []


def test_the_nodes_to_look_at(config):
    ((mark, _method),) = RedfishBIOS().periodics()
    assert mark.interval(CONF) == 60
    assert mark.filters == {
        "reserved": False,
        "provision_state_in": [states.CLEANWAIT, states.SERVICEWAIT, states.DEPLOYWAIT],
    }
    assert mark.predicate(SimpleNamespace(driver_internal_info={"redfish_bios_state": {"x": 1}}))
    assert not mark.predicate(SimpleNamespace(driver_internal_info={}))


def test_the_steps_are_the_published_ones(config):
    bios = RedfishBIOS()
    for kind in ("clean", "deploy", "service"):
        steps = {step["step"]: step for step in getattr(bios, f"{kind}_steps")}
        assert set(steps) == {"apply_configuration", "factory_reset"}
        for name, step in steps.items():
            assert step["priority"] == 0
            assert step["abortable"] is (kind == "deploy")
            assert step.get("requires_ramdisk", False) is False
            arguments = {
                n: about.get("required", False) for n, about in (step["argsinfo"] or {}).items()
            }
            assert arguments == ({"settings": True} if name == "apply_configuration" else {})


def test_bmcs_that_show_all_attributes_as_pending_tell_nothing_by_it():
    shown = SimpleNamespace(attributes={"a": 1, "b": 2}, pending_attributes={"a": 1, "b": 2})
    assert bios_attributes.unapplied(shown, {"a": 1}) == []
    assert bios_attributes.unapplied(shown, {"a": 1, "b": 2}) == ["a", "b"]
    assert bios_attributes.unapplied(shown, {"a": 2}) == ["a"]
