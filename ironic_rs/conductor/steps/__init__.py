"""The step engine: collect, validate, plan and run clean, deploy and service steps."""
