"""Hardware types and interfaces: they talk to machines and decide no provision state."""
