"""The Python target: a readable module."""
