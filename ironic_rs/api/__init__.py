"""HTTP: the application, its middleware and one controller module per resource."""
