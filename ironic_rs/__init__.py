"""Bare metal provisioning service, wire-compatible with OpenStack Ironic.

The rooms and who may enter them: docs/architecture.md.
"""
