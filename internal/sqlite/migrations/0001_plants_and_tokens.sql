-- Times are microseconds since 1970 in UTC. Digests are CRC-32C, see digest.go.

CREATE TABLE plants (
    id         INTEGER PRIMARY KEY, -- the rowid itself: any int64, and the table is its only index
    name       TEXT    NOT NULL,
    tag        TEXT,                -- NULL: no tag, which is not an empty one
    created_at INTEGER NOT NULL,
    created_by INTEGER NOT NULL,    -- tokens.id; 0: one of the operator's own commands
    digest     INTEGER NOT NULL     -- of all before it
) STRICT;

CREATE TABLE tokens (
    id           INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: plants.created_by refers to it
    name         TEXT    NOT NULL,
    hash         BLOB    NOT NULL UNIQUE,           -- SHA-256 of the secret
    scopes       TEXT    NOT NULL,                  -- names, separated by spaces
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    last_used_at INTEGER,
    revoked_at   INTEGER
) STRICT;

-- One row: what the rest is held against.
CREATE TABLE state (
    store         INTEGER NOT NULL, -- random: tells this store from every other
    commits       INTEGER NOT NULL, -- counted up by every transaction; what FILE-mark remembers
    plants        INTEGER NOT NULL, -- how many there are
    digests       INTEGER NOT NULL, -- the sum of theirs
    token_changes INTEGER NOT NULL, -- counted up by every change of a token but its last use, so
                                    -- that a server sees one without reading every token
    token_digests INTEGER NOT NULL  -- the sum of the tokens' digests
) STRICT;
INSERT INTO state VALUES (random(), 0, 0, 0, 0, 0);
