-- Events of created plants for webhooks. docs/reference/webhooks.md describes them.
CREATE TABLE plantstore_webhooks (
    id     bigint  PRIMARY KEY, -- counted up, and never used twice: plantstore_deliveries.webhook refers to it
    url    text    NOT NULL UNIQUE,
    active boolean NOT NULL     -- new events are for it
);

-- True: a transaction that creates a plant writes a row of plantstore_outbox. NULL: it does not.
ALTER TABLE plantstore ADD COLUMN webhooks boolean;

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
    PRIMARY KEY (webhook, plant)
);
CREATE INDEX plantstore_deliveries_due ON plantstore_deliveries (webhook, due_at);
