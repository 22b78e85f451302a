"""Numbers in, SVG out, drawn on the server. Pure."""
