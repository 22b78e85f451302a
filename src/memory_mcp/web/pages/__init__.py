"""The pages: each reads its address, asks requests, and gives their responses to its template."""
