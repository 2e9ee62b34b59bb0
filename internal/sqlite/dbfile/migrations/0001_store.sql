-- Times are microseconds since 1970 in UTC. Digests are CRC-32C, see digest.go.

CREATE TABLE plants (
    id         INTEGER PRIMARY KEY, -- the rowid: any int64, and the table needs no other index
    name       TEXT    NOT NULL,
    tag        TEXT,                -- NULL: no tag, which is not an empty one
    created_at INTEGER NOT NULL,
    created_by INTEGER NOT NULL,    -- tokens.id; 0: a command of the operator
    digest     INTEGER NOT NULL     -- of the columns before it
) STRICT;

-- Tokens of the operator, subjects of an OpenID Connect issuer, and revoked JWTs.
CREATE TABLE tokens (
    id           INTEGER PRIMARY KEY,               -- ascending and never used twice: plants.created_by refers to it
    kind         TEXT,                              -- NULL: a token; 'subject' or 'jwt'
    name         TEXT    NOT NULL,
    hash         BLOB    NOT NULL UNIQUE,           -- SHA-256 of a token's secret, or of kind, issuer and identifier
    prefix       TEXT,                              -- first characters of a token's secret, for people
    issuer       TEXT,                              -- NULL: a token
    identifier   TEXT,                              -- the claim sub of a subject, or jti of a revoked JWT
    scopes       TEXT    NOT NULL,                  -- names, separated by spaces
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    last_used_at INTEGER,
    revoked_at   INTEGER
) STRICT;

-- One row. verify compares the other tables with it.
CREATE TABLE plantstore (
    store           INTEGER NOT NULL, -- random: identifies the store
    commits         INTEGER NOT NULL, -- incremented by every transaction; FILE-mark has it too
    plants          INTEGER NOT NULL, -- their number
    digests         INTEGER NOT NULL, -- the sum of their digests
    token_changes   INTEGER NOT NULL, -- incremented by every change of a token but its last use, so
                                      -- that a server finds a change without reading every token
    token_digests   INTEGER NOT NULL, -- the sum of the tokens' digests
    moved_to        TEXT,             -- the store to which a move has copied this one; NULL: it was not moved
    webhooks        INTEGER,          -- 1: the transaction that creates a plant adds an event; NULL: it does not
    audit_sequence  INTEGER,          -- the newest entry of the audit log; NULL: there is none
    audit_hash      BLOB,
    pruned_sequence INTEGER,          -- the newest entry that was pruned; NULL: there is none
    pruned_hash     BLOB,
    history         BLOB,             -- hash of the commits since a copy of them began (package journal); NULL: none is made
    journal_bytes   INTEGER NOT NULL DEFAULT 0, -- of the changes in plantstore_journal
    committed_at    INTEGER NOT NULL DEFAULT 0  -- time of the last recorded commit; no later one has an earlier time
) STRICT;
INSERT INTO plantstore (store, commits, plants, digests, token_changes, token_digests) VALUES (random(), 0, 0, 0, 0, 0);

-- The commits that the copy in the destination of the backups may lack. Package journal has the form of the changes.
CREATE TABLE plantstore_journal (
    number   INTEGER PRIMARY KEY, -- state.commits after the commit
    at       INTEGER NOT NULL,
    changes  BLOB    NOT NULL,
    previous BLOB    NOT NULL     -- state.history before the commit
) STRICT;

-- The audit log. Package audit has the form of the entries, and docs/reference/audit.md describes it.
CREATE TABLE plantstore_audit (
    sequence INTEGER PRIMARY KEY,
    entry    TEXT NOT NULL, -- the canonical text
    previous BLOB NOT NULL, -- hash of the entry before it
    hash     BLOB NOT NULL  -- SHA-256 of previous and entry
) STRICT;

-- The log is append-only: only the entry after the head can be added, none changes, and only pruned ones can be deleted.
CREATE TRIGGER plantstore_audit_append BEFORE INSERT ON plantstore_audit
WHEN new.sequence <> (SELECT coalesce(audit_sequence, 0) + 1 FROM plantstore)
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER plantstore_audit_keep BEFORE UPDATE ON plantstore_audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER plantstore_audit_prune BEFORE DELETE ON plantstore_audit
WHEN old.sequence > (SELECT coalesce(pruned_sequence, 0) FROM plantstore)
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;

-- Receivers of events about created plants. docs/reference/webhooks.md describes them.
CREATE TABLE plantstore_webhooks (
    id     INTEGER PRIMARY KEY, -- ascending and never used twice: plantstore_deliveries.webhook refers to it
    url    TEXT    NOT NULL UNIQUE,
    active INTEGER NOT NULL     -- 1: new events are for it
) STRICT;

-- Events that have no deliveries yet.
CREATE TABLE plantstore_outbox (
    number INTEGER PRIMARY KEY, -- ascending
    plant  INTEGER NOT NULL     -- plants.id
) STRICT;

-- Deliveries of events to webhooks that have not succeeded.
CREATE TABLE plantstore_deliveries (
    webhook  INTEGER NOT NULL,
    plant    INTEGER NOT NULL,
    since    INTEGER NOT NULL, -- creation of the plant, or the time when an operator retried the dead letter
    due_at   INTEGER,          -- next attempt; of a claimed delivery, the end of the claim; NULL: dead letter
    dead_at  INTEGER,          -- of a dead letter
    attempts INTEGER NOT NULL, -- that have failed
    reason   TEXT,             -- of the last failure
    erased   INTEGER NOT NULL DEFAULT 0, -- 1: the plant was erased
    PRIMARY KEY (webhook, plant)
) STRICT, WITHOUT ROWID;
CREATE INDEX plantstore_deliveries_due ON plantstore_deliveries (webhook, due_at);
