-- A distributed database can distribute the table by id: there is no other unique constraint, and a create uses no sequence,
-- trigger or foreign key.
CREATE TABLE plants (
    id         bigint      PRIMARY KEY,
    name       text        NOT NULL,
    tag        text,                 -- NULL: no tag, which is not an empty one
    created_at timestamptz NOT NULL,
    created_by bigint      NOT NULL  -- tokens.id; 0: a command of the operator
);

-- Tokens of the operator, subjects of an OpenID Connect issuer, and revoked JWTs.
CREATE TABLE tokens (
    id           bigint      PRIMARY KEY,     -- ascending and never used twice: plants.created_by refers to it
    kind         text,                        -- NULL: a token; 'subject' or 'jwt'
    name         text        NOT NULL,
    hash         bytea       NOT NULL UNIQUE, -- SHA-256 of a token's secret, or of kind, issuer and identifier
    prefix       text,                        -- first characters of a token's secret, for people
    issuer       text,                        -- NULL: a token
    identifier   text,                        -- the claim sub of a subject, or jti of a revoked JWT
    scopes       text        NOT NULL,        -- names, separated by spaces
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,
    last_used_at timestamptz,
    revoked_at   timestamptz
);

-- One row, which every change of a token locks first.
CREATE TABLE plantstore (
    one             boolean PRIMARY KEY CHECK (one),
    version         bigint  NOT NULL, -- of the schema: the number of applied migrations
    token_changes   bigint  NOT NULL, -- incremented by every change of a token but its last use, so that a server
                                      -- finds a change without reading every token
    moved_to        text,             -- the store to which a move has copied this one; NULL: it was not moved
    webhooks        boolean,          -- true: the statement that creates a plant adds an event; NULL: it does not
    audit_sequence  bigint,           -- the newest entry of the audit log; NULL: there is none
    audit_hash      bytea,
    pruned_sequence bigint,           -- the newest entry that was pruned; NULL: there is none
    pruned_hash     bytea
);
INSERT INTO plantstore (one, version, token_changes) VALUES (true, 0, 0);

-- The audit log. Package audit has the form of the entries, and docs/reference/audit.md describes it.
CREATE TABLE plantstore_audit (
    sequence bigint PRIMARY KEY,
    entry    text   NOT NULL, -- the canonical text
    previous bytea  NOT NULL, -- hash of the entry before it
    hash     bytea  NOT NULL  -- SHA-256 of previous and entry
);

-- Account, certificates with their private keys, and the open challenge of the ACME client; all servers share them.
CREATE TABLE plantstore_acme (
    key   text  PRIMARY KEY,
    value bytea NOT NULL
);

-- Receivers of events about created plants. docs/reference/webhooks.md describes them.
CREATE TABLE plantstore_webhooks (
    id     bigint  PRIMARY KEY, -- ascending and never used twice: plantstore_deliveries.webhook refers to it
    url    text    NOT NULL UNIQUE,
    active boolean NOT NULL     -- new events are for it
);

-- Events that have no deliveries yet.
CREATE TABLE plantstore_outbox (
    created_at timestamptz NOT NULL, -- of the plant
    plant      bigint      NOT NULL, -- plants.id
    PRIMARY KEY (created_at, plant)
);

-- Deliveries of events to webhooks that have not succeeded.
CREATE TABLE plantstore_deliveries (
    webhook  bigint      NOT NULL,
    plant    bigint      NOT NULL,
    since    timestamptz NOT NULL, -- creation of the plant, or the time when an operator retried the dead letter
    due_at   timestamptz,          -- next attempt; of a claimed delivery, the end of the claim; NULL: dead letter
    dead_at  timestamptz,          -- of a dead letter
    attempts bigint      NOT NULL, -- that have failed
    reason   text,                 -- of the last failure
    erased   boolean     NOT NULL DEFAULT FALSE, -- the plant was erased
    PRIMARY KEY (webhook, plant)
);
CREATE INDEX plantstore_deliveries_due ON plantstore_deliveries (webhook, due_at);
