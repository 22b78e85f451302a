"""Sample transcripts that ``memory-mcp try`` imports when there are none of your own."""
