"""The simulated BMC: a Redfish service for one machine, made for many in one process."""
