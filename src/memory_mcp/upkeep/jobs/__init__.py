"""Background jobs: each calls other rooms on a schedule."""
