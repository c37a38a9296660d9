"""What is done with the inventory that an inspected machine sends."""
