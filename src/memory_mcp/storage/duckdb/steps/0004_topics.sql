-- Schema version 4: which topics there are, and labels that somebody gave them.

CREATE TABLE topic (               -- a topic that was ever found; no text
    topic_id    VARCHAR NOT NULL,
    born_ms     BIGINT  NOT NULL,
    is_area     BOOLEAN NOT NULL,  -- it holds other topics
    members     BLOB    NOT NULL,  -- keys of its segments when the memory was last grouped: 8 bytes each, little-endian
    merged_into VARCHAR,
    is_over     BOOLEAN NOT NULL,
    turns       VARCHAR NOT NULL   -- JSON: [[at_ms, what, other], ...]
);

CREATE TABLE topic_label (         -- a label that somebody gave a topic
    topic_id VARCHAR NOT NULL,
    project  VARCHAR,              -- whose callers see it; NULL: callers who see all projects
    label    VARCHAR NOT NULL,
    author   VARCHAR NOT NULL,
    at_ms    BIGINT  NOT NULL
);
