"""Package; see the README of `tree`."""
