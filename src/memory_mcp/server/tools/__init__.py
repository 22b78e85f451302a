"""One module per group of tools; each tool is a thin method: arguments in, `app` in a thread, a wire type out."""
