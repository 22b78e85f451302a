-- Row-level security of one table that holds rows of memories: what the connection's tenant and member may read and write, whatever
-- a statement asks for. `memory.tenant` and `memory.member` are set on each connection; member 0 is the program itself.
-- FORCE binds the tables' owner too; only superusers and roles with BYPASSRLS are not bound.
-- The member is asked for in a subselect: once for each statement, not for each row.
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {table} FORCE ROW LEVEL SECURITY;
CREATE POLICY reading ON {table} FOR SELECT USING (
    tenant = nullif(current_setting('memory.tenant', true), '')::bigint
    AND ((SELECT current_setting('memory.member', true)) = '0'
         OR space = ANY (ARRAY(SELECT g.space FROM space_grant g
                               WHERE g.tenant = nullif(current_setting('memory.tenant', true), '')::bigint
                                 AND g.member = nullif(current_setting('memory.member', true), '')::integer)))
);
CREATE POLICY writing ON {table} FOR ALL USING (
    tenant = nullif(current_setting('memory.tenant', true), '')::bigint
    AND ((SELECT current_setting('memory.member', true)) = '0'
         OR space = ANY (ARRAY(SELECT g.space FROM space_grant g
                               WHERE g.tenant = nullif(current_setting('memory.tenant', true), '')::bigint
                                 AND g.member = nullif(current_setting('memory.member', true), '')::integer
                                 AND g.role IN ('writer', 'curator', 'admin'))))
);
