"""The command line: one file per command, thin over the public interface."""
