-- The audit log. Package audit has the form of the entries, and docs/reference/audit.md describes it.
CREATE TABLE plantstore_audit (
    sequence INTEGER PRIMARY KEY,
    entry    TEXT NOT NULL, -- the canonical text
    previous BLOB NOT NULL, -- hash of the entry before it
    hash     BLOB NOT NULL  -- SHA-256 of previous and entry
) STRICT;

-- The ends of the chain: the newest entry, and the newest one that was pruned. NULL: there is none.
ALTER TABLE state ADD COLUMN audit_sequence INTEGER;
ALTER TABLE state ADD COLUMN audit_hash BLOB;
ALTER TABLE state ADD COLUMN pruned_sequence INTEGER;
ALTER TABLE state ADD COLUMN pruned_hash BLOB;

-- The log is append-only: only the entry after the head can be added, none changes, and only pruned ones can be deleted.
CREATE TRIGGER plantstore_audit_append BEFORE INSERT ON plantstore_audit
WHEN new.sequence <> (SELECT coalesce(audit_sequence, 0) + 1 FROM state)
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER plantstore_audit_keep BEFORE UPDATE ON plantstore_audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER plantstore_audit_prune BEFORE DELETE ON plantstore_audit
WHEN old.sequence > (SELECT coalesce(pruned_sequence, 0) FROM state)
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
