package sqlite_test

import (
	"testing"

	"plantstore/internal/sqlite/sqlitetest"
)

func TestMain(m *testing.M) { sqlitetest.Main(m) }

func noProgress(int64, int64) {}

var must, mustWrite, mustRemove = sqlitetest.Must, sqlitetest.MustWrite, sqlitetest.MustRemove
