"""Life of a process: backends, signals, readiness, workers and the WSGI server."""
