"""Deployment, cleaning and servicing through the ramdisk agent."""
