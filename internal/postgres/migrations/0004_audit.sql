-- The audit log. Package audit has the form of the entries, and docs/reference/audit.md describes it.
CREATE TABLE plantstore_audit (
    sequence bigint PRIMARY KEY,
    entry    text   NOT NULL, -- the canonical text
    previous bytea  NOT NULL, -- hash of the entry before it
    hash     bytea  NOT NULL  -- SHA-256 of previous and entry
);

-- The ends of the chain: the newest entry, and the newest one that was pruned. NULL: there is none.
ALTER TABLE plantstore ADD COLUMN audit_sequence bigint;
ALTER TABLE plantstore ADD COLUMN audit_hash bytea;
ALTER TABLE plantstore ADD COLUMN pruned_sequence bigint;
ALTER TABLE plantstore ADD COLUMN pruned_hash bytea;
