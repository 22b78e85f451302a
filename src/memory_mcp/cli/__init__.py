"""The terminal door: arguments in, an answer on the terminal and an exit status out."""
