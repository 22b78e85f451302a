"""Answers a question and says why: layers that give hits, and the policy that picks among them."""
