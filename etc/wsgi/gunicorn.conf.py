"""Serve the API with Gunicorn: gunicorn -c gunicorn.conf.py ironic_rs.wsgi:application"""

bind = "0.0.0.0:6385"
worker_class = "gthread"
workers = 4
threads = 10
timeout = 120
graceful_timeout = 60
raw_env = ["OS_IRONIC_RS_CONFIG_FILES=/etc/ironic/ironic.conf"]


def post_worker_init(worker):
    """Read the configuration now: a bad one ends the start."""
    worker.wsgi.prepare()
