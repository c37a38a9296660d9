"""Machines whose BMC speaks IPMI: interfaces ``ipmitool`` and ``ipmitool-socat``."""
