"""Capture from Inductor: the only package that imports the internals of PyTorch's compiler."""
