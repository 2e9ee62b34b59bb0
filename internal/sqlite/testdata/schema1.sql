-- A store of schema 1 with three plants and a token, as plantstore wrote it before there was a schema 2.
PRAGMA page_size = 4096;
PRAGMA journal_mode = WAL;
BEGIN TRANSACTION;
CREATE TABLE plants (
    id         INTEGER PRIMARY KEY, -- the rowid itself: any int64, and the table is its only index
    name       TEXT    NOT NULL,
    tag        TEXT,                -- NULL: no tag, which is not an empty one
    created_at INTEGER NOT NULL,
    created_by INTEGER NOT NULL,    -- tokens.id; 0: one of the operator's own commands
    digest     INTEGER NOT NULL     -- of all before it
) STRICT;
INSERT INTO "plants" VALUES(1,'plant 1',NULL,1795306654869963,0,3410215946);
INSERT INTO "plants" VALUES(2,'plant 2',NULL,1795306654869963,0,2857266009);
INSERT INTO "plants" VALUES(3,'plant 3',NULL,1795306654869963,0,1980834759);
CREATE TABLE state (
    store         INTEGER NOT NULL, -- random: tells this store from every other
    commits       INTEGER NOT NULL, -- counted up by every transaction; what FILE-mark remembers
    plants        INTEGER NOT NULL, -- how many there are
    digests       INTEGER NOT NULL, -- the sum of theirs
    token_changes INTEGER NOT NULL, -- counted up by every change of a token but its last use, so
                                    -- that a server sees one without reading every token
    token_digests INTEGER NOT NULL  -- the sum of the tokens' digests
) STRICT;
INSERT INTO "state" VALUES(-784638789104113029,2,3,8248316714,1,1317540112);
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
INSERT INTO "tokens" VALUES(1,'nursery',X'597F661A4E7514F24829D0A5202C8547DE465E78CBE46F4F097E01E3737EE014','plants:create',1795306654884087,NULL,NULL,NULL);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('tokens',1);
COMMIT;
PRAGMA application_id = 1886154356;
PRAGMA user_version = 1;
