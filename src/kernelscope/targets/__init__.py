"""Targets: each turns the lines of a program into code, or runs them."""
