"""The browser of the memory in a terminal: the time tree, a search and what was said, on one screen."""
