"""How a question is understood."""
