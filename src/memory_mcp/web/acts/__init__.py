"""The acts: each reads its form, asks a request that writes, and names the page that shows what was done."""
