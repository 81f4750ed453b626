"""What users of PyTorch hit today: each item run on plain Inductor and on Kernelscope."""
