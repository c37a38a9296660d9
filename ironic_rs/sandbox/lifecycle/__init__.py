"""A scripted life of all machines of a sandbox, driven by the real ``baremetal`` client."""
