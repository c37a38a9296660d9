"""Machines whose BMC speaks Redfish: hardware type ``redfish``.

From below to above: :mod:`driver_info` reads where the BMC is, :mod:`connector`
sends requests within a deadline, :mod:`sessions` keeps one session and connection a
BMC, :mod:`resources` holds the small view of a system that power sync reads, and
the interfaces (:mod:`power`, :mod:`management`, :mod:`boot`, :mod:`inspect`) speak
in sushy's resources.

Source: specification drivers.md sections 6 and 18.
"""
