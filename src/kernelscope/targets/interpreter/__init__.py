"""The interpreter: runs lines one by one; the reference for all targets."""
