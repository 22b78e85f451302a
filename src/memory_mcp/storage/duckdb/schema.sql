-- The tables as they are today (schema version 9). Older files reach this through migrations.py.
-- Keys are numbers: a text primary key alone costs 130 MB per million rows. There are no secondary indexes: row groups
-- carry minima and maxima, event ids and sequence numbers rise with time, and a scan of one column of a million rows
-- takes a few milliseconds.

CREATE TABLE meta (name VARCHAR NOT NULL, value VARCHAR NOT NULL);

CREATE TABLE event (
    seq        BIGINT  NOT NULL,   -- order of arrival, from 1, without gaps
    event_id   HUGEINT NOT NULL,   -- 48 bits source time, 80 bits hash
    ts         BIGINT  NOT NULL,   -- source time, UTC ms
    stream     BIGINT  NOT NULL,   -- session, project and thread in one number
    session_id VARCHAR NOT NULL,
    agent      VARCHAR NOT NULL,
    project    VARCHAR NOT NULL,
    thread     VARCHAR NOT NULL,
    speaker    VARCHAR NOT NULL,
    type       VARCHAR NOT NULL,
    role       VARCHAR NOT NULL,
    trust      VARCHAR NOT NULL,
    source     VARCHAR NOT NULL,
    source_id  VARCHAR NOT NULL,
    content    BIGINT  NOT NULL,   -- hash of text: the same id with other words is another message
    text       VARCHAR NOT NULL,
    metadata   VARCHAR NOT NULL    -- JSON object of strings, '' when empty
);

CREATE TABLE duplicate (event_id HUGEINT NOT NULL, canonical HUGEINT NOT NULL);

CREATE TABLE segment_cut (
    key        BIGINT  NOT NULL,   -- hash of stream and cut_no
    stream     BIGINT  NOT NULL,
    cut_no     INTEGER NOT NULL,
    session_id VARCHAR NOT NULL,
    project    VARCHAR NOT NULL,
    thread     VARCHAR NOT NULL,
    agent      VARCHAR NOT NULL,
    day        VARCHAR NOT NULL,   -- local date of the first event when cut
    start_ts   BIGINT  NOT NULL,
    start_id   HUGEINT NOT NULL,
    end_ts     BIGINT  NOT NULL,
    end_id     HUGEINT NOT NULL,
    events     INTEGER NOT NULL,
    tokens     INTEGER NOT NULL,
    open       BOOLEAN NOT NULL,
    cutter     INTEGER NOT NULL
);

CREATE TABLE node (                -- the last three versions of each node
    key        BIGINT  NOT NULL,
    node_id    VARCHAR NOT NULL,
    level      VARCHAR NOT NULL,
    version    INTEGER NOT NULL,
    current    BOOLEAN NOT NULL,
    start_ms   BIGINT  NOT NULL,
    end_ms     BIGINT  NOT NULL,
    title      VARCHAR NOT NULL,
    summary    VARCHAR NOT NULL,
    keywords   VARCHAR NOT NULL,   -- lists of names as text, their items separated by the character 31:
    kind       VARCHAR NOT NULL,
    salience   DOUBLE  NOT NULL,
    sessions   INTEGER NOT NULL,
    events     INTEGER NOT NULL,
    agents     VARCHAR NOT NULL,   -- with a list column the log takes in the lists of 2048 rows with each new one
    projects   VARCHAR NOT NULL,
    author     VARCHAR NOT NULL,
    built      BIGINT  NOT NULL    -- build number; a parent's is never below its children's
);

CREATE TABLE node_parent (child BIGINT NOT NULL, parent BIGINT NOT NULL, child_id VARCHAR NOT NULL, start_ms BIGINT NOT NULL);

CREATE TABLE bullet (
    key     BIGINT  NOT NULL,
    version INTEGER NOT NULL,
    pos     INTEGER NOT NULL,
    text    VARCHAR NOT NULL,
    kind    VARCHAR NOT NULL,
    project VARCHAR NOT NULL,
    agent   VARCHAR NOT NULL
);

CREATE TABLE bullet_grip (key BIGINT NOT NULL, version INTEGER NOT NULL, pos INTEGER NOT NULL, grip_id HUGEINT NOT NULL);

CREATE TABLE grip (                -- spans, never words
    grip_id     HUGEINT NOT NULL,
    event_start HUGEINT NOT NULL,
    event_end   HUGEINT NOT NULL,
    span_start  INTEGER NOT NULL,
    span_end    INTEGER NOT NULL,
    quote_hash  BIGINT  NOT NULL,
    ts          BIGINT  NOT NULL,
    segment     BIGINT  NOT NULL
);

CREATE TABLE term_delta (key BIGINT NOT NULL, hashes BLOB NOT NULL);

CREATE TABLE frequency (project VARCHAR NOT NULL, hashes BLOB NOT NULL, counts BLOB NOT NULL);

CREATE TABLE tool_run (            -- a call of a tool with its outcome, a row for each key that finds it; no text
    key    BIGINT  NOT NULL,       -- of its segment
    call   HUGEINT NOT NULL,       -- event ids
    result HUGEINT NOT NULL,
    failed BOOLEAN NOT NULL,
    kind   TINYINT NOT NULL,       -- 1 invocation, 2 command, 3 file, 4 error
    hash   BIGINT  NOT NULL
);

CREATE TABLE hint (                -- what hooks told a client's model at calls of tools
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

CREATE TABLE alias (old VARCHAR NOT NULL, new VARCHAR NOT NULL);

CREATE TABLE outbox (seq BIGINT NOT NULL, kind VARCHAR NOT NULL, subject VARCHAR NOT NULL);

CREATE TABLE checkpoint (name VARCHAR NOT NULL, value VARCHAR NOT NULL);

CREATE TABLE request (key VARCHAR NOT NULL, answer VARCHAR NOT NULL, at_ms BIGINT NOT NULL);

CREATE TABLE pin (target VARCHAR NOT NULL, set_by VARCHAR NOT NULL, at_ms BIGINT NOT NULL);

CREATE TABLE usage (grip_id VARCHAR NOT NULL, at_ms BIGINT NOT NULL);      -- a row for each opening of a quotation

CREATE TABLE superseded (          -- grips that hold no more; append-only
    old_id VARCHAR NOT NULL,
    new_id VARCHAR,                -- NULL: retracted, nothing stands in its place
    at_ms  BIGINT  NOT NULL,
    reason VARCHAR NOT NULL,
    author VARCHAR NOT NULL
);

CREATE TABLE spending (            -- a row for each text asked of a language model; no text
    at_ms        BIGINT  NOT NULL,
    node_id      VARCHAR NOT NULL,   -- or of the topic whose label was asked for
    written_from VARCHAR NOT NULL,   -- digest of what the text was to be written from
    model        VARCHAR NOT NULL,
    tokens_in    BIGINT  NOT NULL,
    tokens_out   BIGINT  NOT NULL,
    estimated    BOOLEAN NOT NULL,   -- counted here, because the endpoint told no usage
    outcome      VARCHAR NOT NULL,   -- ok, fallback or failed
    reason       VARCHAR NOT NULL,
    ms           BIGINT  NOT NULL
);

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

CREATE TABLE audit (               -- acts upon the memory itself; append-only, without the text concerned
    at_ms   BIGINT  NOT NULL,
    what    VARCHAR NOT NULL,
    author  VARCHAR NOT NULL,
    subject VARCHAR NOT NULL,
    reason  VARCHAR NOT NULL,
    counts  VARCHAR NOT NULL       -- JSON object of numbers
);
