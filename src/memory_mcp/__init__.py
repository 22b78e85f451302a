"""Long-term memory for coding agents. Importing the package loads no engine."""

__version__ = "0.1.0"
