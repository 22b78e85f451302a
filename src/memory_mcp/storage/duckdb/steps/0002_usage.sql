-- Schema version 2: openings of quotations, and statements that hold no more.

CREATE TABLE usage (grip_id VARCHAR NOT NULL, at_ms BIGINT NOT NULL);      -- a row for each opening of a quotation

CREATE TABLE superseded (old_id VARCHAR NOT NULL, new_id VARCHAR NOT NULL, at_ms BIGINT NOT NULL);    -- grips; append-only
