"""Storage interfaces."""
