"""Real servers and real processes for the integration, fault and end-to-end tests."""
