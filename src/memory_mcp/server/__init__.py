"""The MCP door: thin tools over `app`, shaped for agents. The only room, with `daemon`, that knows the protocol's library."""
