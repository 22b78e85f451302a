"""How a query is classified, routed and bounded."""
