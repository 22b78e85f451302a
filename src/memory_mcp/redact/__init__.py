"""Takes secrets and private passages out of a text."""
