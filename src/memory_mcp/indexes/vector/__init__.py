"""Layer 4's index: embeddings of nodes and grips."""
