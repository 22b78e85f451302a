"""Folders of Markdown notes: reader over the sections and the front matter of a note."""
