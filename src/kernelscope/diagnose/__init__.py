"""Finding the fault: what a run has left behind, and what it says about the kernels."""
