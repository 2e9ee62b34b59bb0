-- Rows that are no tokens of the operator. kind is 'subject' for a subject of an OpenID Connect issuer, and 'jwt' for a
-- revoked JWT; NULL for a token. identifier is the claim sub or jti. The hash of such a row is that of these three texts.
ALTER TABLE tokens ADD COLUMN kind text;
ALTER TABLE tokens ADD COLUMN issuer text;
ALTER TABLE tokens ADD COLUMN identifier text;
