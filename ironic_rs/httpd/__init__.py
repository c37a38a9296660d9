"""Serving HTTP: listening sockets, TLS, threads, and who a caller is."""
