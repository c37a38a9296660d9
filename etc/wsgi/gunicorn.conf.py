"""Serve the API with Gunicorn: gunicorn -c gunicorn.conf.py ironic_rs.wsgi:application"""

bind = "0.0.0.0:6385"
worker_class = "gthread"
workers = 4
threads = 10
# Every worker opens its own connections to the database and the broker.
preload_app = False
timeout = 120
graceful_timeout = 60
raw_env = ["IRONIC_CONFIG_FILE=/etc/ironic/ironic.conf"]
