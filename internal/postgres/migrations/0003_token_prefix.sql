-- The first characters of a token's secret, by which an operator recognises it. NULL: the token was made before this column.
ALTER TABLE tokens ADD COLUMN prefix text;
