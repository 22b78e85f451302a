-- Schema version 8: calls of tools with their outcomes, derived from segments. A checkpoint says that those of the segments
-- that are there are missing (`tree/derive/missing_runs.py`).

CREATE TABLE tool_run (            -- a call of a tool with its outcome, a row for each key that finds it; no text
    key    BIGINT  NOT NULL,       -- of its segment
    call   HUGEINT NOT NULL,       -- event ids
    result HUGEINT NOT NULL,
    failed BOOLEAN NOT NULL,
    kind   TINYINT NOT NULL,       -- 1 invocation, 2 command, 3 file, 4 error
    hash   BIGINT  NOT NULL
);

INSERT INTO checkpoint VALUES ('missing_runs', '1');
