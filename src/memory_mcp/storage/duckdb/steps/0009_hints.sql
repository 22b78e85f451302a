-- Schema version 9: hints that hooks gave at calls of tools.

CREATE TABLE hint (
    hint_id    BIGINT  NOT NULL,   -- from 1
    at_ms      BIGINT  NOT NULL,
    session_id VARCHAR NOT NULL,
    project    VARCHAR NOT NULL,
    kind       VARCHAR NOT NULL,   -- file, command or error
    subject    VARCHAR NOT NULL,
    text       VARCHAR NOT NULL,
    grip_id    VARCHAR NOT NULL,
    evidence   HUGEINT NOT NULL,   -- the event that the grip quotes
    topic      BIGINT  NOT NULL,   -- hash of what is said of what
    call       BIGINT  NOT NULL,   -- hashes of invocations, as in tool_run; 0: none
    remedy     BIGINT  NOT NULL,
    rejected   BOOLEAN NOT NULL
);
