"""The simulated ramdisk agent: speaks the protocol of the real one, touches no device.

Source: specification agent-protocol.md.
"""
