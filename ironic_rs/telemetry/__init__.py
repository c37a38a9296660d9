"""Notifications, metrics, sensor data and health."""
