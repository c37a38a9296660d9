"""Image services, cache, checksums, boot ISOs and config drives."""
