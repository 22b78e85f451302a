-- Schema version 6: why a statement holds no more, and what was done to the memory itself.

ALTER TABLE superseded RENAME TO superseded_before;

CREATE TABLE superseded (          -- grips that hold no more; append-only
    old_id VARCHAR NOT NULL,
    new_id VARCHAR,                -- NULL: retracted, nothing stands in its place
    at_ms  BIGINT  NOT NULL,
    reason VARCHAR NOT NULL,
    author VARCHAR NOT NULL
);

INSERT INTO superseded SELECT old_id, new_id, at_ms, '', '' FROM superseded_before;

DROP TABLE superseded_before;

CREATE TABLE audit (               -- acts upon the memory itself; append-only, without the text concerned
    at_ms   BIGINT  NOT NULL,
    what    VARCHAR NOT NULL,
    author  VARCHAR NOT NULL,
    subject VARCHAR NOT NULL,
    reason  VARCHAR NOT NULL,
    counts  VARCHAR NOT NULL       -- JSON object of numbers
);
