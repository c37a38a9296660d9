"""Redfish resources that a BMC shows, as functions of its machine.

Keys of :data:`DOCUMENTS` are paths below ``/redfish/v1`` with ``{system}`` for the id of
the system.  Schemas: DMTF DSP0266 (protocol) and DSP0268 (data model).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from ironic_rs.sandbox.machine import BOOT_TARGETS, RESET_TYPES, Machine
from ironic_rs.sandbox.redfish import bios, dell, events, others, storage, update
from ironic_rs.sandbox.redfish.forms import OK, ROOT, Document, collection, link, resource

MANAGER = f"{ROOT}/Managers/BMC"
CHASSIS = f"{ROOT}/Chassis/Tray"
DRIVE_ID = "Disk.0"


def _root(machine: Machine) -> Document:
    return resource(
        "ServiceRoot",
        "v1_5_0",
        f"{ROOT}/",
        Id="RootService",
        Name="Sandbox BMC",
        RedfishVersion="1.6.0",
        UUID=machine.spec.uuid,
        Vendor="Sandbox",
        ProtocolFeaturesSupported={
            "ExpandQuery": {
                "ExpandAll": False,
                "Levels": True,
                "Links": False,
                "NoLinks": True,
                "MaxLevels": 1,
            }
        },
        Systems=link(f"{ROOT}/Systems"),
        Managers=link(f"{ROOT}/Managers"),
        Chassis=link(f"{ROOT}/Chassis"),
        SessionService=link(f"{ROOT}/SessionService"),
        Registries=link(f"{ROOT}/Registries"),
        UpdateService=link(f"{ROOT}/UpdateService"),
        EventService=link(f"{ROOT}/EventService"),
        Links={"Sessions": link(f"{ROOT}/SessionService/Sessions")},
    )


def _session_service(machine: Machine) -> Document:
    return resource(
        "SessionService",
        "v1_1_6",
        f"{ROOT}/SessionService",
        Id="SessionService",
        Name="Session Service",
        ServiceEnabled=True,
        SessionTimeout=max(int(machine.settings.session_lifetime), 30),
        Sessions=link(f"{ROOT}/SessionService/Sessions"),
        Status=OK,
    )


def _system(machine: Machine) -> Document:
    spec, boot, path = machine.spec, machine.boot, machine.spec.system_path
    return resource(
        "ComputerSystem",
        "v1_10_0",
        path,
        Id=spec.uuid,
        Name=spec.name,
        UUID=spec.uuid,
        SystemType="Physical",
        Manufacturer="Sandbox",
        Model="Simulated machine",
        SKU="SIM-1",
        SerialNumber=f"SIM{spec.index + 1:06d}",
        BiosVersion=machine.firmware.versions["bios"],
        PowerState=machine.reported_power(),
        IndicatorLED=machine.indicator,
        Status=OK,
        Boot={
            "BootSourceOverrideEnabled": boot.enabled,
            "BootSourceOverrideTarget": boot.target,
            "BootSourceOverrideTarget@Redfish.AllowableValues": list(BOOT_TARGETS),
            "BootSourceOverrideMode": boot.mode,
            "BootSourceOverrideMode@Redfish.AllowableValues": ["UEFI", "Legacy"],
            "BootOrder": list(machine.boot_order),
            "HttpBootUri": boot.http_uri or None,
        },
        BootProgress={"LastState": _boot_progress(machine)},
        ProcessorSummary={
            "Count": 1,
            "LogicalProcessorCount": machine.settings.cpus,
            "Model": "Simulated CPU",
            "Status": OK,
        },
        MemorySummary={
            "TotalSystemMemoryGiB": machine.settings.memory_gib,
            "Status": OK,
        },
        Processors=link(f"{path}/Processors"),
        Memory=link(f"{path}/Memory"),
        EthernetInterfaces=link(f"{path}/EthernetInterfaces"),
        Storage=link(f"{path}/Storage"),
        SimpleStorage=link(f"{path}/SimpleStorage"),
        Bios=link(f"{path}/Bios"),
        SecureBoot=link(f"{path}/SecureBoot"),
        VirtualMedia=link(f"{path}/VirtualMedia"),
        Links={"ManagedBy": [link(MANAGER)], "Chassis": [link(CHASSIS)]},
        Actions={
            "#ComputerSystem.Reset": {
                "target": f"{path}/Actions/ComputerSystem.Reset",
                "ResetType@Redfish.AllowableValues": list(RESET_TYPES),
            }
        },
    )


def _boot_progress(machine: Machine) -> str:
    if machine.power == "Off":
        return "None"
    if machine.software == "instance":
        return "OSRunning"
    if machine.software == "agent":
        return "OSBootStarted"
    if machine.in_post:
        return "PrimaryProcessorInitializationStarted"
    return "SystemHardwareInitializationComplete"


def _processor(machine: Machine) -> Document:
    return resource(
        "Processor",
        "v1_5_0",
        f"{machine.spec.system_path}/Processors/CPU0",
        Id="CPU0",
        Name="CPU0",
        Socket="CPU 0",
        ProcessorType="CPU",
        ProcessorArchitecture="x86",
        InstructionSet="x86-64",
        Manufacturer="Sandbox",
        Model="Simulated CPU",
        MaxSpeedMHz=3000,
        TotalCores=machine.settings.cpus,
        TotalThreads=machine.settings.cpus,
        Status=OK,
    )


def _memory(machine: Machine) -> Document:
    return resource(
        "Memory",
        "v1_7_0",
        f"{machine.spec.system_path}/Memory/DIMM0",
        Id="DIMM0",
        Name="DIMM0",
        CapacityMiB=machine.settings.memory_gib * 1024,
        MemoryDeviceType="DDR4",
        OperatingSpeedMhz=2933,
        Manufacturer="Sandbox",
        Status=OK,
    )


def _nic(machine: Machine, index: int) -> Document:
    mac = machine.spec.macs[index]
    return resource(
        "EthernetInterface",
        "v1_5_0",
        f"{machine.spec.system_path}/EthernetInterfaces/NIC{index}",
        Id=f"NIC{index}",
        Name=f"NIC {index}",
        MACAddress=mac,
        PermanentMACAddress=mac,
        SpeedMbps=10000,
        LinkStatus="LinkUp",
        Status=OK,
    )


_CONTROLLER = {
    "Name": "Simulated controller",
    "SpeedGbps": 12,
    "SupportedControllerProtocols": ["PCIe"],
    "SupportedDeviceProtocols": ["SATA"],
    "SupportedRAIDTypes": [],
    "Status": OK,
}


def _storage_controller(machine: Machine) -> Document:
    path = f"{machine.spec.system_path}/Storage/1/Controllers/0"
    return resource("StorageController", "v1_0_0", path, Id="0", **_CONTROLLER)


def _storage(machine: Machine) -> Document:
    path = f"{machine.spec.system_path}/Storage/1"
    controller = {"@odata.id": f"{path}#/StorageControllers/0", "MemberId": "0", **_CONTROLLER}
    return resource(
        "Storage",
        "v1_7_1",
        path,
        Id="1",
        Name="Local storage",
        StorageControllers=[controller],
        Controllers=link(f"{path}/Controllers"),
        Drives=[link(f"{path}/Drives/{DRIVE_ID}")],
        Volumes=link(f"{path}/Volumes"),
        Status=OK,
    )


def _drive(machine: Machine) -> Document:
    return resource(
        "Drive",
        "v1_8_0",
        f"{machine.spec.system_path}/Storage/1/Drives/{DRIVE_ID}",
        Id=DRIVE_ID,
        Name="Disk 0",
        CapacityBytes=machine.settings.disk_bytes,
        MediaType="SSD",
        Protocol="SATA",
        Manufacturer="Sandbox",
        Model="Sparse file",
        SerialNumber=f"DSK{machine.spec.index + 1:06d}",
        Revision="1",
        IndicatorLED="Off",
        Status=OK,
    )


def _simple_storage(machine: Machine) -> Document:
    return resource(
        "SimpleStorage",
        "v1_2_3",
        f"{machine.spec.system_path}/SimpleStorage/1",
        Id="1",
        Name="Simple storage",
        Devices=[
            {
                "Name": "Disk 0",
                "Manufacturer": "Sandbox",
                "Model": "Sparse file",
                "CapacityBytes": machine.settings.disk_bytes,
                "Status": OK,
            }
        ],
        Status=OK,
    )


def _secure_boot(machine: Machine) -> Document:
    firmware, path = machine.firmware, f"{machine.spec.system_path}/SecureBoot"
    pending = firmware.pending_secure_boot
    return resource(
        "SecureBoot",
        "v1_1_0",
        path,
        Id="SecureBoot",
        Name="UEFI Secure Boot",
        SecureBootEnable=firmware.secure_boot if pending is None else pending,
        SecureBootCurrentBoot="Enabled" if firmware.secure_boot else "Disabled",
        SecureBootMode="UserMode" if firmware.secure_boot else "SetupMode",
        Actions={
            "#SecureBoot.ResetKeys": {
                "target": f"{path}/Actions/SecureBoot.ResetKeys",
                "ResetKeysType@Redfish.AllowableValues": [
                    "ResetAllKeysToDefault",
                    "DeleteAllKeys",
                    "DeletePK",
                ],
            }
        },
    )


def _virtual_medium(machine: Machine, parent: str, device: str) -> Document:
    medium, path = machine.media_slots()[device], f"{parent}/VirtualMedia/{device}"
    types = medium.media_types
    return resource(
        "VirtualMedia",
        "v1_3_2",
        path,
        Id=device,
        Name=f"Virtual {device}",
        MediaTypes=None if types is None else list(types),
        Image=medium.image or None,
        ImageName=medium.image.rsplit("/", 1)[-1] or None,
        Inserted=medium.inserted,
        WriteProtected=medium.write_protected,
        ConnectedVia="URI" if medium.inserted else "NotConnected",
        UserName=medium.username or None,
        Password=None,
        TransferMethod=medium.transfer_method or None,
        TransferProtocolType=medium.transfer_protocol or None,
        Actions={
            "#VirtualMedia.InsertMedia": {
                "target": f"{path}/Actions/VirtualMedia.InsertMedia",
                "TransferProtocolType@Redfish.AllowableValues": ["HTTP", "HTTPS"],
            },
            "#VirtualMedia.EjectMedia": {"target": f"{path}/Actions/VirtualMedia.EjectMedia"},
        }
        if medium.usable
        else {},
    )


def _manager(machine: Machine) -> Document:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00")
    return resource(
        "Manager",
        "v1_9_0",
        MANAGER,
        Id="BMC",
        Name="Simulated BMC",
        ManagerType="BMC",
        UUID=machine.spec.uuid,
        Model="Sandbox BMC",
        FirmwareVersion=machine.firmware.versions["bmc"],
        PowerState="On",
        DateTime=now,
        DateTimeLocalOffset="+00:00",
        Status=OK,
        VirtualMedia=link(f"{MANAGER}/VirtualMedia"),
        Links={
            "ManagerForServers": [link(machine.spec.system_path)],
            "ManagerForChassis": [link(CHASSIS)],
            "Oem": dell.links(),
        },
        Actions={"Oem": dell.actions()},
    )


def _chassis(machine: Machine) -> Document:
    return resource(
        "Chassis",
        "v1_12_0",
        CHASSIS,
        Id="Tray",
        Name="Simulated chassis",
        ChassisType="RackMount",
        Manufacturer="Sandbox",
        Model="Simulated chassis",
        SerialNumber=f"CHS{machine.spec.index + 1:06d}",
        PowerState="On",
        IndicatorLED=machine.indicator,
        Status=OK,
        NetworkAdapters=link(f"{CHASSIS}/NetworkAdapters"),
        Thermal=link(f"{CHASSIS}/Thermal"),
        Power=link(f"{CHASSIS}/Power"),
        Links={
            "ComputerSystems": [link(machine.spec.system_path)],
            "ManagedBy": [link(MANAGER)],
        },
    )


def _thermal(_machine: Machine) -> Document:
    path = f"{CHASSIS}/Thermal"
    return resource(
        "Thermal",
        "v1_6_0",
        path,
        Id="Thermal",
        Name="Thermal",
        Temperatures=[
            {
                "@odata.id": f"{path}#/Temperatures/0",
                "MemberId": "0",
                "Name": "CPU 0",
                "SensorNumber": 1,
                "ReadingCelsius": 41,
                "MinReadingRangeTemp": 0,
                "MaxReadingRangeTemp": 120,
                "PhysicalContext": "CPU",
                "Status": OK,
            }
        ],
        Fans=[
            {
                "@odata.id": f"{path}#/Fans/0",
                "MemberId": "0",
                "Name": "Fan 0",
                "Reading": 4200,
                "ReadingUnits": "RPM",
                "MinReadingRange": 0,
                "MaxReadingRange": 9000,
                "PhysicalContext": "Backplane",
                "Status": OK,
            }
        ],
    )


def _power(_machine: Machine) -> Document:
    path = f"{CHASSIS}/Power"
    return resource(
        "Power",
        "v1_6_0",
        path,
        Id="Power",
        Name="Power",
        PowerSupplies=[
            {
                "@odata.id": f"{path}#/PowerSupplies/0",
                "MemberId": "0",
                "Name": "PSU 0",
                "PowerCapacityWatts": 800,
                "LastPowerOutputWatts": 120,
                "LineInputVoltage": 230,
                "SerialNumber": "PSU0",
                "Status": OK,
            }
        ],
    )


def _members(kind: str, path: str, *names: str) -> Callable[[Machine], Document]:
    """A collection whose members never change."""

    def build(machine: Machine) -> Document:
        here = f"{ROOT}/{path}".replace("{system}", machine.spec.uuid)
        members = [f"{here}/{name}".replace("{system}", machine.spec.uuid) for name in names]
        return collection(kind, here, members)

    return build


def _storages(machine: Machine) -> Document:
    path = f"{machine.spec.system_path}/Storage"
    return collection("Storage", path, [f"{path}/1", *storage.paths(machine)])


def _nic_collection(machine: Machine) -> Document:
    path = f"{machine.spec.system_path}/EthernetInterfaces"
    names = [f"{path}/NIC{index}" for index in range(len(machine.spec.macs))]
    return collection("EthernetInterface", path, names)


def _systems(machine: Machine) -> Document:
    paths = [machine.spec.system_path, *others.paths(machine)]
    return collection("ComputerSystem", f"{ROOT}/Systems", paths)


def _subscriptions(machine: Machine) -> Document:
    return collection("EventDestination", f"{ROOT}/{events.SUBSCRIPTIONS}", events.paths(machine))


_SYSTEM = "Systems/{system}"

DOCUMENTS: dict[str, Callable[[Machine], Document]] = {
    "": _root,
    "SessionService": _session_service,
    "Systems": _systems,
    _SYSTEM: _system,
    f"{_SYSTEM}/Processors": _members("Processor", f"{_SYSTEM}/Processors", "CPU0"),
    f"{_SYSTEM}/Processors/CPU0": _processor,
    f"{_SYSTEM}/Memory": _members("Memory", f"{_SYSTEM}/Memory", "DIMM0"),
    f"{_SYSTEM}/Memory/DIMM0": _memory,
    f"{_SYSTEM}/EthernetInterfaces": _nic_collection,
    f"{_SYSTEM}/Storage": _storages,
    f"{_SYSTEM}/Storage/1": _storage,
    f"{_SYSTEM}/Storage/1/Controllers": _members(
        "StorageController", f"{_SYSTEM}/Storage/1/Controllers", "0"
    ),
    f"{_SYSTEM}/Storage/1/Controllers/0": _storage_controller,
    f"{_SYSTEM}/Storage/1/Drives/{DRIVE_ID}": _drive,
    f"{_SYSTEM}/Storage/1/Volumes": _members("Volume", f"{_SYSTEM}/Storage/1/Volumes"),
    f"{_SYSTEM}/SimpleStorage": _members("SimpleStorage", f"{_SYSTEM}/SimpleStorage", "1"),
    f"{_SYSTEM}/SimpleStorage/1": _simple_storage,
    f"{_SYSTEM}/Bios": bios.bios,
    f"{_SYSTEM}/Bios/Settings": bios.settings,
    "Registries": _members("MessageRegistryFile", "Registries", bios.REGISTRY),
    f"Registries/{bios.REGISTRY}": bios.registry_file,
    f"Registries/{bios.REGISTRY}/File": bios.registry,
    f"{_SYSTEM}/SecureBoot": _secure_boot,
    "Managers": _members("Manager", "Managers", "BMC"),
    "Managers/BMC": _manager,
    "Chassis": _members("Chassis", "Chassis", "Tray"),
    "Chassis/Tray": _chassis,
    "Chassis/Tray/NetworkAdapters": _members(
        "NetworkAdapter", "Chassis/Tray/NetworkAdapters", "Card"
    ),
    "Chassis/Tray/NetworkAdapters/Card": update.adapter,
    "UpdateService": update.service,
    "EventService": events.service,
    events.SUBSCRIPTIONS: _subscriptions,
    "Chassis/Tray/Thermal": _thermal,
    "Chassis/Tray/Power": _power,
}

_MEDIA = (f"{_SYSTEM}/VirtualMedia", "Managers/BMC/VirtualMedia")


def _media_collection(machine: Machine, path: str) -> Document:
    here = f"{ROOT}/{path}"
    return collection("VirtualMedia", here, [f"{here}/{name}" for name in machine.media_slots()])


def find(machine: Machine, path: str) -> Document | None:
    """The resource at a path below ``/redfish/v1``, None if there is none.

    :param path: without slashes at its ends; the system id is that of the machine.
    """
    key = path.replace(machine.spec.uuid, "{system}")
    builder = DOCUMENTS.get(key)
    if builder is not None:
        return builder(machine)
    if key in _MEDIA:
        return _media_collection(machine, path)
    found = storage.find(machine, key) or others.find(machine, key)
    if found is not None:
        return found
    oem = dell.find(key)
    if oem is not None:
        return oem
    head, _, tail = key.rpartition("/")
    if head == update.TASKS:
        return update.task(machine, tail)
    if head == events.SUBSCRIPTIONS:
        return events.subscription(machine, tail)
    if head == f"{_SYSTEM}/EthernetInterfaces":
        number = tail.removeprefix("NIC")
        if tail.startswith("NIC") and number.isdecimal() and int(number) < len(machine.spec.macs):
            return _nic(machine, int(number))
    if head in _MEDIA and tail in machine.media_slots():
        parent = f"{ROOT}/{path}".rpartition("/VirtualMedia/")[0]
        return _virtual_medium(machine, parent, tail)
    return None
