-- Row-level security of the tenants: a connection that is bound to none reads and makes them, since names lead to numbers; one
-- that is bound sees its own.
ALTER TABLE tenant ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON tenant FOR ALL USING (
    nullif(current_setting('memory.tenant', true), '') IS NULL
    OR tenant = nullif(current_setting('memory.tenant', true), '')::bigint
);
