-- The tables as they are today (schema version 2 of this engine). `{partitions}` is replaced: hash partitions by tenant, or nothing.
-- Every row of a memory has its tenant and its space in front of its key, so that a tenant can be one shard: every unique key
-- begins with the tenant, and no statement joins rows of two tenants. 128-bit keys (events, grips) are kept as uuid: 16 bytes,
-- ordered as the numbers are. Row-level security binds each connection to one tenant and one of its members; see `policies.sql`.

CREATE TABLE schema_version (version integer NOT NULL);

-- Who there is. Small tables; only `tenant` is read without knowing the tenant.

CREATE TABLE tenant (
    tenant bigint PRIMARY KEY,
    name   text   NOT NULL UNIQUE,
    class  text   NOT NULL DEFAULT 'standard',   -- of quotas and metrics
    at_ms  bigint NOT NULL
);

CREATE TABLE space (                 -- one memory of a tenant: what it holds is seen by those who have a grant
    tenant   bigint  NOT NULL,
    space    integer NOT NULL,
    name     text    NOT NULL,
    kind     text    NOT NULL,       -- team, project or private
    timezone text    NOT NULL,
    store_id text    NOT NULL,
    at_ms    bigint  NOT NULL,
    PRIMARY KEY (tenant, space),
    UNIQUE (tenant, name)
);

CREATE TABLE member (
    tenant  bigint  NOT NULL,
    member  integer NOT NULL,        -- from 1; 0 stands for the program itself
    subject text    NOT NULL,        -- issuer and subject of an OpenID provider, or a name for keys
    name    text    NOT NULL,
    role    text    NOT NULL,        -- over the tenant: admin or member
    at_ms   bigint  NOT NULL,
    removed_ms bigint,               -- NULL: a member now; a number is never given to another
    PRIMARY KEY (tenant, member),
    UNIQUE (tenant, subject)
);

CREATE TABLE space_grant (
    tenant bigint  NOT NULL,
    space  integer NOT NULL,
    member integer NOT NULL,
    role   text    NOT NULL,         -- reader, writer, curator or admin
    PRIMARY KEY (tenant, member, space)
);

CREATE TABLE api_key (               -- its text is `mmk_<tenant>_<key id>_<secret>`, and kept nowhere
    tenant     bigint  NOT NULL,
    key_id     text    NOT NULL,
    hash       bytea   NOT NULL,     -- SHA-256 of the secret
    name       text    NOT NULL,     -- what it is for
    member     integer NOT NULL,     -- as whom it acts
    scopes     text[]  NOT NULL,
    spaces     integer[],            -- NULL: every space that the member may see
    at_ms      bigint  NOT NULL,
    made_by    text    NOT NULL,
    expires_ms bigint,               -- NULL: never
    used_ms    bigint,               -- the hour of the last use
    revoked_ms bigint,
    PRIMARY KEY (tenant, key_id)
);

CREATE TABLE team_audit (            -- administrative acts over a tenant; append-only
    tenant  bigint  NOT NULL,
    number  bigint  GENERATED ALWAYS AS IDENTITY,
    at_ms   bigint  NOT NULL,
    what    text    NOT NULL,
    author  text    NOT NULL,
    subject text    NOT NULL,        -- name or id of what it was done to; never a text of a memory
    detail  text    NOT NULL,        -- JSON object
    PRIMARY KEY (tenant, number)
);

-- How far each memory got: one row, locked by every writer, so that numbers have no gaps and rise in the order of commits.
CREATE TABLE head (
    tenant      bigint  NOT NULL,
    space       integer NOT NULL,
    last_event  bigint  NOT NULL DEFAULT 0,
    last_change bigint  NOT NULL DEFAULT 0,
    newest      uuid,                -- the highest event id
    derived     bigint  NOT NULL DEFAULT 0,
    resets      bigint  NOT NULL DEFAULT 0,   -- rises when something was taken out or put back as a whole
    notes       bigint  NOT NULL DEFAULT 0,   -- rises with what does not touch the tree: names, corrections, labels
    PRIMARY KEY (tenant, space)
);

-- What is to be done for a memory, and who does it: one process at a time. `epoch` rises with each new holder: one that was thought
-- dead cannot publish any more. Read across tenants by the program alone, and without a word of anybody's text.
CREATE TABLE work (
    tenant   bigint  NOT NULL,
    space    integer NOT NULL,
    name     text    NOT NULL,
    due_ms   bigint,                 -- NULL: nothing is to be done that nobody has begun
    holder   text    NOT NULL DEFAULT '',   -- '': nobody; one whose time has run out has died over it
    epoch    bigint  NOT NULL DEFAULT 0,
    until_ms bigint  NOT NULL DEFAULT 0,   -- the holder's time, of the database's clock
    PRIMARY KEY (tenant, space, name)
);
CREATE INDEX work_due ON work (due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX work_held ON work (until_ms) WHERE holder <> '';

CREATE TABLE event (
    tenant     bigint  NOT NULL,
    space      integer NOT NULL,
    seq        bigint  NOT NULL,     -- order of arrival, from 1, without gaps
    event_id   uuid    NOT NULL,     -- 48 bits source time, 80 bits hash
    ts         bigint  NOT NULL,     -- source time, UTC ms
    stream     bigint  NOT NULL,     -- session, project and thread in one number
    session_id text    NOT NULL,
    agent      text    NOT NULL,
    project    text    NOT NULL,
    thread     text    NOT NULL,
    speaker    text    NOT NULL,
    type       text    NOT NULL,
    role       text    NOT NULL,
    trust      text    NOT NULL,
    source     text    NOT NULL,
    source_id  text    NOT NULL,
    content    bigint  NOT NULL,     -- hash of text: the same id with other words is another message
    text       text    NOT NULL,
    metadata   text    NOT NULL,     -- JSON object of strings, '' when empty
    PRIMARY KEY (tenant, space, seq)
) {partitions};
CREATE INDEX event_id ON event (tenant, space, event_id);
CREATE INDEX event_stream ON event (tenant, space, stream, ts, event_id);
CREATE INDEX event_ts ON event (tenant, space, ts, event_id);
CREATE INDEX event_session ON event (tenant, space, session_id, source);

CREATE TABLE duplicate (
    tenant    bigint  NOT NULL,
    space     integer NOT NULL,
    event_id  uuid    NOT NULL,      -- not shown
    canonical uuid    NOT NULL,      -- shown
    PRIMARY KEY (tenant, space, event_id)
);
CREATE INDEX duplicate_canonical ON duplicate (tenant, space, canonical);

CREATE TABLE segment_cut (
    tenant     bigint  NOT NULL,
    space      integer NOT NULL,
    key        bigint  NOT NULL,     -- hash of stream and cut_no
    stream     bigint  NOT NULL,
    cut_no     integer NOT NULL,
    session_id text    NOT NULL,
    project    text    NOT NULL,
    thread     text    NOT NULL,
    agent      text    NOT NULL,
    day        text    NOT NULL,     -- local date of the first event when cut
    start_ts   bigint  NOT NULL,
    start_id   uuid    NOT NULL,
    end_ts     bigint  NOT NULL,
    end_id     uuid    NOT NULL,
    events     integer NOT NULL,
    tokens     integer NOT NULL,
    open       boolean NOT NULL,
    cutter     integer NOT NULL,
    PRIMARY KEY (tenant, space, key)
) {partitions};
CREATE INDEX segment_cut_stream ON segment_cut (tenant, space, stream, start_ts);
CREATE INDEX segment_cut_day ON segment_cut (tenant, space, day);
CREATE INDEX segment_cut_time ON segment_cut (tenant, space, start_ts, end_ts);

CREATE TABLE node (                  -- the last three versions of each node
    tenant   bigint  NOT NULL,
    space    integer NOT NULL,
    key      bigint  NOT NULL,
    node_id  text    NOT NULL,
    level    text    NOT NULL,
    version  integer NOT NULL,
    current  boolean NOT NULL,
    start_ms bigint  NOT NULL,
    end_ms   bigint  NOT NULL,
    title    text    NOT NULL,
    summary  text    NOT NULL,
    keywords text[]  NOT NULL,
    kind     text    NOT NULL,
    salience double precision NOT NULL,
    sessions integer NOT NULL,
    events   integer NOT NULL,
    agents   text[]  NOT NULL,
    projects text[]  NOT NULL,
    author   text    NOT NULL,
    built    bigint  NOT NULL,       -- build number; a parent's is never below its children's
    PRIMARY KEY (tenant, space, key, version)
) {partitions};
CREATE INDEX node_level ON node (tenant, space, level, start_ms) WHERE current;

CREATE TABLE node_parent (
    tenant   bigint  NOT NULL,
    space    integer NOT NULL,
    child    bigint  NOT NULL,
    parent   bigint  NOT NULL,
    child_id text    NOT NULL,
    start_ms bigint  NOT NULL,
    PRIMARY KEY (tenant, space, parent, child)
) {partitions};
CREATE INDEX node_parent_child ON node_parent (tenant, space, child);

CREATE TABLE bullet (
    tenant  bigint  NOT NULL,
    space   integer NOT NULL,
    key     bigint  NOT NULL,
    version integer NOT NULL,
    pos     integer NOT NULL,
    text    text    NOT NULL,
    kind    text    NOT NULL,
    project text    NOT NULL,
    agent   text    NOT NULL,
    PRIMARY KEY (tenant, space, key, version, pos)
) {partitions};

CREATE TABLE bullet_grip (
    tenant  bigint  NOT NULL,
    space   integer NOT NULL,
    key     bigint  NOT NULL,
    version integer NOT NULL,
    pos     integer NOT NULL,
    place   integer NOT NULL,        -- of the grip among its bullet's, from 0
    grip_id uuid    NOT NULL,
    PRIMARY KEY (tenant, space, key, version, pos, place)
) {partitions};

CREATE TABLE grip (                  -- spans, never words
    tenant      bigint  NOT NULL,
    space       integer NOT NULL,
    grip_id     uuid    NOT NULL,
    event_start uuid    NOT NULL,
    event_end   uuid    NOT NULL,
    span_start  integer NOT NULL,
    span_end    integer NOT NULL,
    quote_hash  bigint  NOT NULL,
    ts          bigint  NOT NULL,
    segment     bigint  NOT NULL,
    number      bigint  GENERATED ALWAYS AS IDENTITY,   -- order of arrival, for copies
    PRIMARY KEY (tenant, space, grip_id)
) {partitions};
CREATE INDEX grip_start ON grip (tenant, space, event_start);
CREATE INDEX grip_end ON grip (tenant, space, event_end);

CREATE TABLE term_delta (
    tenant bigint  NOT NULL,
    space  integer NOT NULL,
    key    bigint  NOT NULL,
    number bigint  GENERATED ALWAYS AS IDENTITY,
    hashes bytea   NOT NULL,
    PRIMARY KEY (tenant, space, key, number)
) {partitions};

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

CREATE TABLE frequency (
    tenant  bigint  NOT NULL,
    space   integer NOT NULL,
    number  bigint  GENERATED ALWAYS AS IDENTITY,
    project text    NOT NULL,
    hashes  bytea   NOT NULL,
    counts  bytea   NOT NULL,
    PRIMARY KEY (tenant, space, number)
);

CREATE TABLE alias (
    tenant bigint  NOT NULL,
    space  integer NOT NULL,
    old    text    NOT NULL,
    new    text    NOT NULL,
    PRIMARY KEY (tenant, space, old)
);

CREATE TABLE outbox (
    tenant  bigint  NOT NULL,
    space   integer NOT NULL,
    seq     bigint  NOT NULL,
    kind    text    NOT NULL,
    subject text    NOT NULL,
    PRIMARY KEY (tenant, space, seq)
) {partitions};

CREATE TABLE checkpoint (
    tenant bigint  NOT NULL,
    space  integer NOT NULL,
    name   text    NOT NULL,
    value  text    NOT NULL,
    PRIMARY KEY (tenant, space, name)
);

CREATE TABLE request (
    tenant bigint  NOT NULL,
    space  integer NOT NULL,
    key    text    NOT NULL,
    answer text    NOT NULL,
    at_ms  bigint  NOT NULL,
    PRIMARY KEY (tenant, space, key)
);

CREATE TABLE pin (
    tenant bigint  NOT NULL,
    space  integer NOT NULL,
    target text    NOT NULL,
    set_by text    NOT NULL,
    at_ms  bigint  NOT NULL,
    PRIMARY KEY (tenant, space, target)
);

CREATE TABLE usage (                 -- a row for each opening of a quotation
    tenant  bigint  NOT NULL,
    space   integer NOT NULL,
    grip_id text    NOT NULL,
    at_ms   bigint  NOT NULL,
    number  bigint  GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (tenant, space, grip_id, number)
);

CREATE TABLE superseded (            -- grips that hold no more; append-only
    tenant bigint  NOT NULL,
    space  integer NOT NULL,
    number bigint  GENERATED ALWAYS AS IDENTITY,
    old_id text    NOT NULL,
    new_id text,                     -- NULL: retracted, nothing stands in its place
    at_ms  bigint  NOT NULL,
    reason text    NOT NULL,
    author text    NOT NULL,
    PRIMARY KEY (tenant, space, number)
);

CREATE TABLE spending (              -- a row for each text asked of a language model; no text
    tenant       bigint  NOT NULL,
    space        integer NOT NULL,
    number       bigint  GENERATED ALWAYS AS IDENTITY,
    at_ms        bigint  NOT NULL,
    node_id      text    NOT NULL,   -- or of the topic whose label was asked for
    written_from text    NOT NULL,   -- digest of what the text was to be written from
    model        text    NOT NULL,
    tokens_in    bigint  NOT NULL,
    tokens_out   bigint  NOT NULL,
    estimated    boolean NOT NULL,   -- counted here, because the endpoint told no usage
    outcome      text    NOT NULL,   -- ok, fallback or failed
    reason       text    NOT NULL,
    ms           bigint  NOT NULL,
    PRIMARY KEY (tenant, space, number)
);

CREATE TABLE topic (                 -- a topic that was ever found; no text
    tenant      bigint  NOT NULL,
    space       integer NOT NULL,
    topic_id    text    NOT NULL,
    born_ms     bigint  NOT NULL,
    is_area     boolean NOT NULL,    -- it holds other topics
    members     bytea   NOT NULL,    -- keys of its segments when the memory was last grouped: 8 bytes each, little-endian
    merged_into text,
    is_over     boolean NOT NULL,
    turns       text    NOT NULL,    -- JSON: [[at_ms, what, other], ...]
    PRIMARY KEY (tenant, space, topic_id)
);

CREATE TABLE topic_label (           -- a label that somebody gave a topic
    tenant   bigint  NOT NULL,
    space    integer NOT NULL,
    number   bigint  GENERATED ALWAYS AS IDENTITY,
    topic_id text    NOT NULL,
    project  text,                   -- whose callers see it; NULL: callers who see all projects
    label    text    NOT NULL,
    author   text    NOT NULL,
    at_ms    bigint  NOT NULL,
    PRIMARY KEY (tenant, space, number)
);

CREATE TABLE project_alias (         -- a project that is shown under another's name
    tenant bigint  NOT NULL,
    space  integer NOT NULL,
    old    text    NOT NULL,
    new    text    NOT NULL,
    author text    NOT NULL,         -- person, guess, or refused: a guess that a person took back
    at_ms  bigint  NOT NULL,
    PRIMARY KEY (tenant, space, old)
);

CREATE TABLE project_split (         -- sessions that are shown apart from their project
    tenant     bigint  NOT NULL,
    space      integer NOT NULL,
    number     bigint  GENERATED ALWAYS AS IDENTITY,
    project    text    NOT NULL,
    session_id text    NOT NULL,     -- '' where a folder is named
    folder     text    NOT NULL,     -- sessions that began there or below; '' where a session is named
    new        text    NOT NULL,
    at_ms      bigint  NOT NULL,
    PRIMARY KEY (tenant, space, number)
);

CREATE TABLE tombstone (             -- what was forgotten, without a word of it
    tenant bigint  NOT NULL,
    space  integer NOT NULL,
    number bigint  GENERATED ALWAYS AS IDENTITY,
    at_ms  bigint  NOT NULL,
    line   text    NOT NULL,         -- JSON object of lengths, times and keyed hashes
    PRIMARY KEY (tenant, space, number)
);

CREATE TABLE tombstone_key (         -- of those hashes
    tenant bigint  NOT NULL,
    space  integer NOT NULL,
    key    bytea   NOT NULL,
    PRIMARY KEY (tenant, space)
);

CREATE TABLE audit (                 -- acts upon the memory itself; append-only, without the text concerned
    tenant  bigint  NOT NULL,
    space   integer NOT NULL,
    number  bigint  GENERATED ALWAYS AS IDENTITY,
    at_ms   bigint  NOT NULL,
    what    text    NOT NULL,
    author  text    NOT NULL,
    subject text    NOT NULL,
    reason  text    NOT NULL,
    counts  text    NOT NULL,        -- JSON object of numbers
    PRIMARY KEY (tenant, space, number)
);
