"""One module per console script: parse the configuration, build, run."""
