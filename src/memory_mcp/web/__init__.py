"""The explorer: the memory as pages for a browser, rendered from the same requests as tools and commands."""
