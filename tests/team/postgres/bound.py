"""Whether a statement says whose rows it is about: tenant and space once for each table of memories that it names."""

import re

from memory_mcp_team.postgres import migrations

_TABLES = "|".join(sorted(migrations.list_tables(), key=len, reverse=True))
#: Where a statement names a table of memories.
NAMED = re.compile(rf"\b(?:FROM|JOIN|INTO|UPDATE|USING|COPY|TRUNCATE(?: TABLE)?|,)\s+(?:ONLY\s+)?({_TABLES})\b(?!\s*\.)(?!\s*=)")
#: By `own`, by the columns that it inserts, or by joining them to a table that has the condition.
_SAID = {
    column: re.compile(
        rf"(?<!\w){column} = %\({column}\)s"
        rf"|\b\w+\.{column} = \w+\.{column}\b"
        rf"|\bUSING \(tenant, space\b"
        rf"|\bINTO \w+ \(tenant, space\b"
        rf"|\bCOPY \w+ \(tenant, space\b"
        rf"|\(tenant, space[^()]*\) (?:IN|=) "
    )
    for column in ("tenant", "space")
}


def unbound(text: str) -> list[str]:
    """What a statement leaves open: the tables it names more often than it says tenant or space."""
    named: list[str] = NAMED.findall(text)
    return named if any(len(said.findall(text)) < len(named) for said in _SAID.values()) else []
