"""Here is a query and a budget, give me hits: the retrieval layers."""
