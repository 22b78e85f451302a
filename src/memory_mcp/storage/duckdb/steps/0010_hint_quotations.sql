-- Schema version 10: a hint names every event that it quotes and the calls that it is about, and keeps what came of it.
-- Earlier ones do not say all that they quote: of them only what a person rejected is kept, without words.

CREATE TEMP TABLE rejected_hint AS SELECT hint_id, at_ms, kind, topic FROM hint WHERE rejected;

DROP TABLE hint;

CREATE TABLE hint (
    hint_id     BIGINT  NOT NULL,   -- from 1
    at_ms       BIGINT  NOT NULL,
    session_id  VARCHAR NOT NULL,
    project     VARCHAR NOT NULL,
    kind        VARCHAR NOT NULL,   -- file, command or error
    subject     VARCHAR NOT NULL,
    text        VARCHAR NOT NULL,   -- '': forgotten; the topic of a rejected one is kept
    grip_id     VARCHAR NOT NULL,
    evidence    VARCHAR NOT NULL,   -- ids of the events that the text quotes, a space between
    topic       BIGINT  NOT NULL,   -- hash of what is said of what
    call        BIGINT  NOT NULL,   -- hashes of invocations, as in tool_run; 0: none
    remedy      BIGINT  NOT NULL,
    call_name   BIGINT  NOT NULL,   -- hashes of the whole calls
    remedy_name BIGINT  NOT NULL,
    outcome     VARCHAR NOT NULL,   -- what came of it; '': not known
    rejected    BOOLEAN NOT NULL
);

INSERT INTO hint SELECT hint_id, at_ms, '', '', kind, '', '', '', '', topic, 0, 0, 0, 0, '', true FROM rejected_hint;

DROP TABLE rejected_hint;
