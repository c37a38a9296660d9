"""Interfaces of hardware type ``idrac``: Redfish with requests of the vendor's own."""
