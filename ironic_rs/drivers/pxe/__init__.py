"""Booting over the network: interfaces ``pxe``, ``ipxe``, ``http`` and ``http-ipxe``."""
