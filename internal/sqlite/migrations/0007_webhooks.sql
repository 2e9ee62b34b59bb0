-- Events of created plants for webhooks. docs/reference/webhooks.md describes them.
CREATE TABLE plantstore_webhooks (
    id     INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: plantstore_deliveries.webhook refers to it
    url    TEXT    NOT NULL UNIQUE,
    active INTEGER NOT NULL                   -- 1: new events are for it
) STRICT;

-- 1: a transaction that creates a plant writes a row of plantstore_outbox. NULL: it does not.
ALTER TABLE state ADD COLUMN webhooks INTEGER;

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
    PRIMARY KEY (webhook, plant)
) STRICT, WITHOUT ROWID;
CREATE INDEX plantstore_deliveries_due ON plantstore_deliveries (webhook, due_at);
