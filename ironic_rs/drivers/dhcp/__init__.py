"""DHCP providers: how machines are told where to boot from."""
