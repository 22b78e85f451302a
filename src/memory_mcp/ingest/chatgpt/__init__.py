"""ChatGPT's account export: reader over the tree of a conversation over the contents of a message."""
