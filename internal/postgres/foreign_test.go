package postgres_test

import (
	"errors"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/postgres"
	"plantstore/internal/store"
)

// foreignCode creates functions and operators of another role that match the calls of the engine better than the ones
// in pg_catalog.
const foreignCode = `
	CREATE TABLE public.ran (code text);
	GRANT ALL ON public.ran TO PUBLIC;
	CREATE FUNCTION public.current_schemas(boolean) RETURNS name[] LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO public.ran VALUES ('current_schemas'); RETURN '{public}'::name[]; END$$;
	CREATE FUNCTION public.array_position(name[], name) RETURNS int LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO public.ran VALUES ('array_position'); RETURN 1; END$$;
	CREATE FUNCTION public.quote_ident(name) RETURNS text LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO public.ran VALUES ('quote_ident'); RETURN 'PUBLIC'; END$$;
	CREATE FUNCTION public.concat(text, text, text) RETURNS text LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO public.ran VALUES ('concat'); RETURN $1 || $2 || $3; END$$;
	CREATE FUNCTION public.counted(bigint, bigint) RETURNS bigint LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO public.ran VALUES ('count'); RETURN $1 + 1; END$$;
	CREATE FUNCTION public.counted(bigint, timestamptz) RETURNS bigint LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO public.ran VALUES ('count'); RETURN $1 + 1; END$$;
	CREATE AGGREGATE public.count(bigint) (SFUNC = counted, STYPE = bigint, INITCOND = '0');
	CREATE AGGREGATE public.count(timestamptz) (SFUNC = counted, STYPE = bigint, INITCOND = '0');
	CREATE FUNCTION public.is(oid, regclass) RETURNS boolean LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO public.ran VALUES ('oid = regclass'); RETURN $1 OPERATOR(pg_catalog.=) $2::oid; END$$;
	CREATE FUNCTION public.is(oid, int) RETURNS boolean LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO public.ran VALUES ('oid = int'); RETURN $1 OPERATOR(pg_catalog.=) $2::oid; END$$;
	CREATE OPERATOR public.= (FUNCTION = public.is, LEFTARG = oid, RIGHTARG = regclass);
	CREATE OPERATOR public.= (FUNCTION = public.is, LEFTARG = oid, RIGHTARG = int);`

// TestForeignFunctions shows that an engine runs no function or operator of another role that may create them in the
// schema of the tables, wherever that schema is in the search_path.
func TestForeignFunctions(t *testing.T) {
	t.Parallel()
	url := database(t)
	if err := place(url).Open(t).Close(); err != nil {
		t.Fatal(err)
	}
	execute(t, url, "GRANT CREATE ON SCHEMA public TO PUBLIC") // the default before PostgreSQL 15
	_, attacker := newRole(t, url, "mallory")
	mallory := connect(t, attacker)
	for _, sql := range []string{
		foreignCode, "BEGIN; LOCK TABLE public.ran IN ROW EXCLUSIVE MODE", // as a create locks plants: SetWebhooks reads it
	} {
		if _, err := mallory.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for i, path := range []string{`"$user", public`, "public, pg_catalog"} {
		execute(t, url, "ALTER DATABASE "+nameOf(t, url)+" SET search_path = "+path)
		e, err := postgres.Open(t.Context(), postgres.Config{URL: url, Server: true})
		if err != nil {
			t.Fatal(err)
		}
		ctx, by := t.Context(), audit.Origin{}
		_, errWebhooks := e.SetWebhooks(ctx, someWebhook, by)
		errInsert := insertBatch(ctx, e, []store.Create{{Plant: plant.NewPlant{ID: int64(i)}, At: time.Now()}})
		_, errTotals := e.OutboxTotals(ctx)
		_, errRemove := e.SetWebhooks(ctx, nil, by)
		const most = 1 // so that the engine counts
		_, errSubject := e.PutSubject(ctx, auth.NewSubject("https://login.example", "a", time.Now()), most)
		_, errSecond := e.PutSubject(ctx, auth.NewSubject("https://login.example", "b", time.Now()), most)
		if !errors.Is(errSecond, store.ErrTooManySubjects) {
			t.Errorf("a second subject: %v", errSecond)
		}
		if err := errors.Join(errWebhooks, errInsert, errTotals, errRemove, errSubject, e.Close()); err != nil {
			t.Error(err)
		}
		if m, err := postgres.OpenSource(ctx, postgres.Config{URL: url}); err != nil {
			t.Error(err)
		} else if err := m.Close(); err != nil {
			t.Error(err)
		}
		if n := count(t, url, "SELECT pg_catalog.count(code) FROM public.ran"); n != 0 {
			t.Errorf("search_path = %s: code of the other role ran %d times", path, n)
		}
	}
}
