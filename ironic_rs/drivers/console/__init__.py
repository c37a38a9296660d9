"""Serial consoles: programs that show the console of a machine at a port."""
