"""Front ends that make a program out of what PyTorch compiles."""
