-- Schema version 3: what a language model was asked, and what that cost.

CREATE TABLE spending (            -- a row for each text asked of a language model; no text
    at_ms        BIGINT  NOT NULL,
    node_id      VARCHAR NOT NULL,
    written_from VARCHAR NOT NULL,   -- digest of what the node said below it then
    model        VARCHAR NOT NULL,
    tokens_in    BIGINT  NOT NULL,
    tokens_out   BIGINT  NOT NULL,
    estimated    BOOLEAN NOT NULL,   -- counted here, because the endpoint told no usage
    outcome      VARCHAR NOT NULL,   -- ok, fallback or failed
    reason       VARCHAR NOT NULL,
    ms           BIGINT  NOT NULL
);
