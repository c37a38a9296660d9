"""The shape of Redfish resources: DMTF DSP0266."""

from __future__ import annotations

from typing import Any

ROOT = "/redfish/v1"

Document = dict[str, Any]

OK = {"State": "Enabled", "Health": "OK"}


def link(path: str) -> Document:
    """A reference to another resource."""
    return {"@odata.id": path}


def resource(kind: str, version: str, path: str, **properties: Any) -> Document:
    """A resource of a schema."""
    return {"@odata.type": f"#{kind}.{version}.{kind}", "@odata.id": path, **properties}


def collection(kind: str, path: str, members: list[str]) -> Document:
    """A resource collection with the paths of its members."""
    return {
        "@odata.type": f"#{kind}Collection.{kind}Collection",
        "@odata.id": path,
        "Name": f"{kind} Collection",
        "Members@odata.count": len(members),
        "Members": [link(member) for member in members],
    }


def task(number: str, name: str, state: str, text: str) -> Document:
    """A task of the task service.

    :param state: TaskState.
    :param text: its message, if there is one.
    """
    return resource(
        "Task",
        "v1_4_3",
        f"{ROOT}/TaskService/Tasks/{number}",
        Id=number,
        Name=name,
        TaskState=state,
        TaskStatus="Critical" if state == "Exception" else "OK",
        Messages=[{"MessageId": "Task.1.0.Failed", "Message": text}] if text else [],
    )
