-- The primary key on id alone is what the table is distributed by where many machines hold it: nothing else is unique,
-- and no sequence, trigger or other table stands in the way of a create.
CREATE TABLE plants (
    id         bigint      PRIMARY KEY,
    name       text        NOT NULL,
    tag        text,                 -- NULL: no tag, which is not an empty one
    created_at timestamptz NOT NULL,
    created_by bigint      NOT NULL  -- tokens.id; 0: one of the operator's own commands
);

CREATE TABLE tokens (
    id           bigint      PRIMARY KEY, -- counted up, and never used twice: plants.created_by refers to it
    name         text        NOT NULL,
    hash         bytea       NOT NULL UNIQUE, -- SHA-256 of the secret
    scopes       text        NOT NULL,        -- names, separated by spaces
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,
    last_used_at timestamptz,
    revoked_at   timestamptz
);

-- One row, which every change of a token takes first.
CREATE TABLE plantstore (
    one           boolean PRIMARY KEY CHECK (one),
    version       bigint  NOT NULL, -- of this schema: the number of migrations applied
    token_changes bigint  NOT NULL  -- counted up by every change of a token but its last use, so that a server sees one
                                    -- without reading every token
);
INSERT INTO plantstore VALUES (true, 0, 0);
