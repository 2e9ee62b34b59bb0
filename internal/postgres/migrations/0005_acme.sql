-- Account, certificates with their private keys, and the open challenge of the ACME client; all servers share them.
CREATE TABLE plantstore_acme (
    key   text  PRIMARY KEY,
    value bytea NOT NULL
);
