"""Layer 3's index: BM25 over nodes and grips."""
