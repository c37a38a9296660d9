"""Between the API and the conductors: transports, registry, ring and client."""
