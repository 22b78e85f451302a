-- Row-level security of one table of who there is: rows of the connection's tenant alone. Members read them, the program
-- itself (member 0) also writes, so that no connection that serves a member can give itself a grant. The policies of memories
-- read `space_grant`: this one asks no further table, or they would never end.
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {table} FORCE ROW LEVEL SECURITY;
CREATE POLICY reading ON {table} FOR SELECT USING (tenant = nullif(current_setting('memory.tenant', true), '')::bigint);
CREATE POLICY writing ON {table} FOR ALL USING (
    tenant = nullif(current_setting('memory.tenant', true), '')::bigint AND current_setting('memory.member', true) = '0'
);
