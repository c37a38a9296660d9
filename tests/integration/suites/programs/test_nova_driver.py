"""Nova's driver of this API, driven as nova-compute does it.

Runs with the interpreter of Nova's environment.  Nova's database is played here:
instances are Nova's own objects, but saving and refreshing them does nothing.
``BAREMETAL_URL`` names the service, ``WORK`` a folder for Nova's files.
"""

from __future__ import annotations

import json
import os
import unittest
import uuid
from pathlib import Path
from typing import Any
from unittest import mock

os.environ["OS_NOVA_DISABLE_EVENTLET_PATCHING"] = "true"

import nova.conf
from nova import context, exception, objects, rpc
from nova.compute import power_state as states
from nova.compute import provider_tree, task_states, vm_states
from nova.network import model, security_group_api
from nova.objects import instance as instance_object
from nova.virt.ironic import driver
from openstack import exceptions as sdk_errors

CONF = nova.conf.CONF
URL = os.environ["BAREMETAL_URL"]
WORK = os.environ["WORK"]
HOST = "compute-1"
IMAGE = "11111111-2222-4333-8444-555555555555"
PROJECT = "22222222-2222-4333-8444-555555555555"


def setUpModule() -> None:
    CONF(["--config-file", os.devnull], project="nova", default_config_dirs=[])
    CONF.set_override("host", HOST)
    CONF.set_override("state_path", WORK)
    CONF.set_override("lock_path", WORK, group="oslo_concurrency")
    CONF.set_override("mkisofs_cmd", archiver())
    CONF.set_override("auth_type", "none", group="ironic")
    CONF.set_override("endpoint_override", URL, group="ironic")
    CONF.set_override("api_retry_interval", 1, group="ironic")
    rpc.init = mock.Mock()
    objects.register_all()


def archiver() -> str:
    """A program that packs a folder as Nova has config drives made, without ISO tools."""
    path = Path(WORK) / "mkisofs"
    path.write_text(
        '#!/bin/sh\n# -o FILE OPTION... FOLDER\nfor last; do :; done\ntar -cf "$2" -C "$last" .\n'
    )
    path.chmod(0o755)
    return str(path)


class Volume(dict[str, Any]):
    """A volume of Cinder that is attached: what Nova knows of it."""

    is_volume = True

    def __init__(self, ident: str, boot_index: int) -> None:
        super().__init__(boot_index=boot_index)
        data = {"target_iqn": "iqn.2025-01:target", "target_portal": "192.0.2.9:3260"}
        self._bdm_obj = mock.Mock(
            volume_id=ident,
            boot_index=boot_index,
            connection_info=json.dumps({"driver_volume_type": "iscsi", "data": data}),
        )


class Case(unittest.TestCase):
    """A nova-compute with its driver, and what the rest of Nova and an operator do."""

    def setUp(self) -> None:
        self.context = context.RequestContext("user", PROJECT, is_admin=True)
        self.instances: list[str] = []
        disks = objects.BlockDeviceMappingList(objects=[])
        for target, name, answer in (
            (objects.ServiceList, "get_all_computes_by_hv_type", []),
            (objects.InstanceList, "get_uuids_by_host", self.instances),
            (objects.BlockDeviceMappingList, "get_by_instance_uuid", disks),
            (security_group_api, "get_instance_security_groups", []),
            (instance_object.Instance, "save", None),
            (instance_object.Instance, "refresh", None),
        ):
            patch = mock.patch.object(target, name, return_value=answer)
            patch.start()
            self.addCleanup(patch.stop)
        self.driver = driver.IronicDriver(mock.Mock())
        self.driver.init_host(HOST)
        self.api = self.driver.ironic_connection

    # Machines, as the operator makes them

    def node(self, **values: Any) -> Any:
        """An available node with a port."""
        body = {
            "resource_class": "gold",
            "properties": {"cpu_arch": "x86_64", "capabilities": "boot_mode:uefi", "cpus": "8"},
            **values,
        }
        node = self.api.create_node(driver="fake-hardware", **body)
        self.addCleanup(self.remove, node.id)
        mac = "52:54:00:" + ":".join(node.id[start : start + 2] for start in (0, 2, 4))
        self.api.create_port(node_uuid=node.id, address=mac)
        self.api.set_node_traits(node.id, ["CUSTOM_GOLD"])
        for target in ("manage", "provide"):
            self.api.set_node_provision_state(node.id, target, wait=True, timeout=60)
        # Fake power knows no state before it is told one, and Nova takes no such machine.
        self.api.set_node_power_state(node.id, "power off", wait=True, timeout=60)
        return self.api.get_node(node.id)

    def remove(self, ident: str) -> None:
        node = self.api.wait_for_node_reservation(self.api.get_node(ident), timeout=60)
        self.api.set_node_maintenance(node)
        self.api.delete_node(node)

    # Instances, as the rest of Nova makes them

    def instance(self, node: Any, **values: Any) -> Any:
        flavor = objects.Flavor(
            id=1,
            flavorid="1",
            name="gold",
            memory_mb=1024,
            vcpus=2,
            root_gb=10,
            ephemeral_gb=0,
            swap=0,
            extra_specs={"trait:CUSTOM_GOLD": "required", "capabilities:boot_mode": "uefi"},
        )
        found = objects.Instance(
            context=self.context,
            id=1,
            uuid=str(uuid.uuid4()),
            host=HOST,
            node=node.id,
            user_id="user",
            project_id=PROJECT,
            display_name="web",
            hostname="web",
            image_ref=IMAGE,
            kernel_id="",
            ramdisk_id="",
            key_name=None,
            key_data=None,
            user_data=None,
            launch_index=0,
            reservation_id="r-1",
            availability_zone="nova",
            config_drive="True",
            root_device_name=None,
            default_ephemeral_device=None,
            default_swap_device=None,
            locked_by=None,
            launched_at=None,
            vm_state=vm_states.BUILDING,
            task_state=task_states.SPAWNING,
            power_state=states.NOSTATE,
            metadata={},
            system_metadata={"owner_user_name": "me", "owner_project_name": "ours"},
            flavor=flavor,
            keypairs=objects.KeyPairList(objects=[]),
            device_metadata=None,
            numa_topology=None,
            ec2_ids=objects.EC2Ids(
                instance_id="i-1", ami_id="ami-1", kernel_id=None, ramdisk_id=None
            ),
            info_cache=objects.InstanceInfoCache(network_info=self.network()),
            security_groups=objects.SecurityGroupList(objects=[]),
            **values,
        )
        self.instances.append(found.uuid)
        return found

    def network(self) -> Any:
        subnet = model.Subnet(
            cidr="192.0.2.0/24",
            ips=[model.FixedIP(address="192.0.2.5")],
            version=4,
            dns=[],
            routes=[],
        )
        network = model.Network(id=str(uuid.uuid4()), label="net", subnets=[subnet])
        vif = model.VIF(id=str(uuid.uuid4()), address="52:54:00:00:00:01", network=network)
        return model.NetworkInfo([vif])

    def image(self) -> Any:
        return objects.ImageMeta.from_dict({"id": IMAGE, "properties": {}})

    def spawn(self, instance: Any, disks: Any = None) -> None:
        self.driver.prepare_for_spawn(instance)
        network = instance.info_cache.network_info
        self.driver.prepare_networks_before_block_device_mapping(instance, network)
        self.driver.spawn(
            self.context,
            instance,
            self.image(),
            [],
            "secret",
            {},
            network_info=network,
            block_device_info=disks,
        )
        instance.vm_state, instance.task_state = vm_states.ACTIVE, None

    def rebuild(self, instance: Any) -> None:
        instance.task_state = task_states.REBUILDING
        self.driver.rebuild(
            self.context,
            instance,
            self.image(),
            [],
            "secret",
            {},
            None,
            None,
            None,
            network_info=instance.info_cache.network_info,
            preserve_ephemeral=True,
        )
        instance.task_state = None

    def inventory(self, node: Any) -> Any:
        tree = provider_tree.ProviderTree()
        tree.new_root(node.id, node.id)
        self.driver.update_provider_tree(tree, node.id)
        return tree.data(node.id)


class TestResources(Case):
    """What Nova tells placement."""

    def test_the_machines_are_resources(self) -> None:
        node = self.node()
        self.assertIn(node.id, self.driver.get_available_nodes(refresh=True))
        self.assertTrue(self.driver.node_is_available(node.id))
        self.assertFalse(self.driver.is_node_deleted(node.id))
        self.assertTrue(self.driver.is_node_deleted(str(uuid.uuid4())))
        self.assertFalse(self.driver.node_is_available(str(uuid.uuid4())))
        resource = self.driver.get_available_resource(node.id)
        self.assertEqual("ironic", resource["hypervisor_type"])
        self.assertEqual("gold", resource["resource_class"])
        self.assertEqual({"cpu_arch": "x86_64", "boot_mode": "uefi"}, resource["stats"])
        data = self.inventory(node)
        self.assertEqual({"CUSTOM_GOLD"}, set(data.traits))
        [(name, amount)] = data.inventory.items()
        self.assertEqual(("CUSTOM_GOLD", 1, 0), (name, amount["total"], amount["reserved"]))

    def test_a_machine_in_maintenance_is_reserved(self) -> None:
        node = self.node()
        self.api.set_node_maintenance(node, "fan")
        self.driver.get_available_nodes(refresh=True)
        self.assertEqual(1, self.inventory(node).inventory["CUSTOM_GOLD"]["reserved"])

    def test_the_machines_of_a_shard_or_group_only(self) -> None:
        node, other = self.node(shard="s1"), self.node()
        with mock.patch.object(driver.CONF.ironic, "shard", "s1", create=True):
            nodes = self.driver.get_available_nodes(refresh=True)
        self.assertEqual([node.id], [found for found in nodes if found in (node.id, other.id)])
        CONF.set_override("conductor_group", "", group="ironic")
        CONF.set_override("peer_list", [HOST], group="ironic")
        self.addCleanup(CONF.clear_override, "conductor_group", "ironic")
        self.assertLess({node.id, other.id}, {*self.driver.get_available_nodes(), "more"})


class TestLife(Case):
    """From the scheduler's choice to the end."""

    def test_the_life_of_an_instance(self) -> None:
        node = self.node()
        instance = self.instance(node)
        self.assertFalse(self.driver.instance_exists(instance))
        self.spawn(instance)
        deployed = self.api.get_node(node.id)
        self.assertEqual("active", deployed.provision_state)
        self.assertEqual(instance.uuid, deployed.instance_id)
        info = deployed.instance_info
        self.assertEqual(IMAGE, info["image_source"])
        self.assertEqual(["CUSTOM_GOLD"], info["traits"])
        self.assertEqual('{"boot_mode": "uefi"}', info["capabilities"])
        self.assertEqual("******", info["configdrive"])
        self.assertTrue(self.driver.instance_exists(instance))
        self.driver.get_available_nodes(refresh=True)
        self.assertIn(instance.uuid, self.driver.list_instance_uuids())
        self.assertEqual(1, self.inventory(node).inventory["CUSTOM_GOLD"]["reserved"])

        def power() -> Any:
            return self.driver.get_info(instance, use_cache=False).state

        self.driver.power_off(instance)
        self.assertEqual(states.SHUTDOWN, power())
        self.driver.power_on(self.context, instance, None)
        self.assertEqual(states.RUNNING, power())
        self.driver.power_off(instance, timeout=30)
        self.assertEqual(states.SHUTDOWN, power())
        for kind in ("HARD", "SOFT"):
            self.driver.reboot(self.context, instance, None, kind)
            self.assertEqual(states.RUNNING, power())

        self.driver.rescue(self.context, instance, None, self.image(), "secret", None, None)
        self.assertEqual("rescue", self.api.get_node(node.id).provision_state)
        self.driver.unrescue(self.context, instance)
        self.assertEqual("active", self.api.get_node(node.id).provision_state)

        self.rebuild(instance)
        rebuilt = self.api.get_node(node.id)
        self.assertEqual("active", rebuilt.provision_state)
        self.assertEqual("True", rebuilt.instance_info["preserve_ephemeral"])

        self.driver.destroy(self.context, instance, instance.info_cache.network_info)
        self.assertFalse(self.driver.instance_exists(instance))
        freed = self.api.wait_for_nodes_provision_state([node.id], "available", timeout=60)[0]
        self.assertEqual((None, {}), (freed.instance_id, freed.instance_info))


class TestVolumes(Case):
    """An instance that boots from a volume."""

    def test_an_instance_boots_from_a_volume(self) -> None:
        node = self.node()
        self.api.create_volume_connector(
            node_uuid=node.id, type="iqn", connector_id="iqn.2025-01:node"
        )
        instance = self.instance(node)
        wanted = {
            "host": "192.0.2.5",
            "ip": "192.0.2.5",
            "initiator": "iqn.2025-01:node",
            "multipath": False,
            "os_type": "baremetal",
            "platform": "x86_64",
        }
        self.assertEqual(wanted, self.driver.get_volume_connector(instance))
        volumes = [Volume("v1", 0), Volume("v2", 1)]
        self.spawn(instance, {"block_device_mapping": volumes})
        self.assertNotIn("image_source", self.api.get_node(node.id).instance_info)
        targets = list(self.api.volume_targets(details=True, node=node.id))
        self.assertEqual(
            [("v1", 0, "iscsi"), ("v2", 1, "iscsi")],
            [(target.volume_id, target.boot_index, target.volume_type) for target in targets],
        )
        self.driver.destroy(self.context, instance, None)
        self.api.wait_for_nodes_provision_state([node.id], "available", timeout=60)
        # Fake deployment leaves the volumes; Nova cleans up what it finds.
        self.driver.prepare_for_spawn(instance)
        self.driver.failed_spawn_cleanup(instance)
        self.assertEqual([], list(self.api.volume_targets(details=True, node=node.id)))


class TestClaims(Case):
    """What is refused, and what is given back."""

    def test_a_machine_is_claimed_once(self) -> None:
        node = self.node()
        self.driver.prepare_for_spawn(self.instance(node))
        with self.assertRaises(exception.ComputeResourcesUnavailable):
            self.driver.prepare_for_spawn(self.instance(node))
        # Two computes that looked at the same time: the second write is refused.
        with self.assertRaises(exception.InstanceDeployFailure):
            self.driver._set_instance_id(node, self.instance(node))

    def test_a_failed_spawn_leaves_no_trace(self) -> None:
        node = self.node()
        change = [{"op": "replace", "path": "/driver", "value": "redfish"}]
        self.api.patch_node(node, change, reset_interfaces=True)
        instance = self.instance(node)
        with self.assertRaises(exception.ValidationError) as caught:
            self.spawn(instance)
        self.assertIn("redfish_address", str(caught.exception))
        left = self.api.get_node(node.id)
        self.assertEqual(
            ("available", None, {}), (left.provision_state, left.instance_id, left.instance_info)
        )

    def test_a_claim_is_given_back(self) -> None:
        node = self.node()
        instance = self.instance(node)
        self.driver.prepare_for_spawn(instance)
        self.driver.failed_spawn_cleanup(instance)
        self.assertIsNone(self.api.get_node(node.id).instance_id)
        self.driver.failed_spawn_cleanup(instance)
        # Nova may destroy what was never deployed, and what is gone.
        self.driver.prepare_for_spawn(instance)
        self.driver.destroy(self.context, instance, None)
        self.assertIsNone(self.api.get_node(node.id).instance_id)
        self.driver.destroy(self.context, instance, None)

    def test_interfaces_come_and_go(self) -> None:
        node = self.node()
        instance = self.instance(node)
        self.spawn(instance)
        [vif] = self.network()
        self.driver.attach_interface(self.context, instance, self.image(), vif)
        self.driver.detach_interface(self.context, instance, vif)
        self.driver.detach_interface(self.context, instance, vif)
        self.driver.destroy(self.context, instance, None)

    def test_what_the_machine_can_not_do(self) -> None:
        node = self.node()
        instance = self.instance(node)
        self.driver.prepare_for_spawn(instance)
        with self.assertRaises(exception.ConsoleTypeUnavailable):
            self.driver.get_serial_console(self.context, instance)
        with self.assertRaises(sdk_errors.BadRequestException):
            self.driver.trigger_crash_dump(instance)
        with self.assertRaises(exception.InstanceRescueFailure):
            self.driver.rescue(self.context, instance, None, self.image(), "secret", None, None)
        with self.assertRaises(exception.InstanceDeployFailure):
            self.rebuild(instance)


if __name__ == "__main__":
    unittest.main()
