-- Times are microseconds since 1970 in UTC.

CREATE TABLE plants (
    id         INTEGER PRIMARY KEY, -- the rowid itself: any int64, and the table is its only index
    name       TEXT    NOT NULL,
    tag        TEXT,                -- NULL: no tag, which is not an empty one
    created_at INTEGER NOT NULL,
    created_by INTEGER NOT NULL     -- tokens.id; 0: one of the operator's own commands
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

-- One row, counted up by every change of a token but its last use, so that a
-- server sees a change without reading every token.
CREATE TABLE token_changes (
    n INTEGER NOT NULL
) STRICT;
INSERT INTO token_changes VALUES (0);
