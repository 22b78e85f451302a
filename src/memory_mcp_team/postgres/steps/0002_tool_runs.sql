-- Schema version 2: calls of tools with their outcomes, derived from segments. A checkpoint says that those of the segments that
-- are there are missing (`tree/derive/missing_runs.py`).

CREATE TABLE tool_run (              -- a call of a tool with its outcome, a row for each key that finds it; no text
    tenant bigint   NOT NULL,
    space  integer  NOT NULL,
    key    bigint   NOT NULL,        -- of its segment
    call   uuid     NOT NULL,        -- event ids
    result uuid     NOT NULL,
    failed boolean  NOT NULL,
    kind   smallint NOT NULL,        -- 1 invocation, 2 command, 3 file, 4 error
    hash   bigint   NOT NULL
) {partitions};
CREATE INDEX tool_run_hash ON tool_run (tenant, space, kind, hash, call);
CREATE INDEX tool_run_key ON tool_run (tenant, space, key);

-- Rows of memories are seen by one tenant at a time.
DO $$
DECLARE
    one bigint;
BEGIN
    FOREACH one IN ARRAY ARRAY(SELECT tenant FROM tenant) LOOP
        PERFORM set_config('memory.tenant', one::text, true), set_config('memory.member', '0', true);
        INSERT INTO checkpoint SELECT DISTINCT tenant, space, 'missing_runs', '1' FROM segment_cut WHERE tenant = one;
    END LOOP;
    PERFORM set_config('memory.tenant', '', true), set_config('memory.member', '', true);
END $$;
