-- Why the store takes nothing: a move from one store to another. NULL: it takes plants.
ALTER TABLE state ADD COLUMN held TEXT;
