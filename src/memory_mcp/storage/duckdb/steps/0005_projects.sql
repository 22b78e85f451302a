-- Schema version 5: what projects are called. Events keep the name they were recorded with.

CREATE TABLE project_alias (       -- a project that is shown under another's name
    old    VARCHAR NOT NULL,
    new    VARCHAR NOT NULL,
    author VARCHAR NOT NULL,       -- person, guess, or refused: a guess that a person took back
    at_ms  BIGINT  NOT NULL
);

CREATE TABLE project_split (       -- sessions that are shown apart from their project
    project    VARCHAR NOT NULL,
    session_id VARCHAR NOT NULL,   -- '' where a folder is named
    folder     VARCHAR NOT NULL,   -- sessions that began there or below; '' where a session is named
    new        VARCHAR NOT NULL,
    at_ms      BIGINT  NOT NULL
);
