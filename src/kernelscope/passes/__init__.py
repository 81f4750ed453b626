"""Passes: each takes a program and gives one; they decide, emitters only spell."""
