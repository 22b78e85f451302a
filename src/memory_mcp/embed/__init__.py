"""Texts in, vectors of their meaning out: one small protocol, and the local static models that keep it."""
