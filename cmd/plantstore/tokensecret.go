package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plantstore/internal/auth"

	"github.com/spf13/pflag"
)

// secretOutput is where the secret of a new token goes.
type secretOutput struct {
	path   string // empty or -: standard output
	force  bool   // path may be replaced
	asJSON bool

	oldID   int64     // of the token that the new one replaces; 0 if there is none
	oldEnds time.Time // when that token is no longer valid
	cut     bool      // that is before the overlap ends
}

// replaces notes which token the new one replaces. overlap is from when it was rotated.
func (o *secretOutput) replaces(old auth.Token, rotated time.Time, overlap time.Duration) {
	o.oldID, o.oldEnds = old.ID, rotated.Add(overlap)
	if !old.ExpiresAt.IsZero() && old.ExpiresAt.Before(o.oldEnds) {
		o.oldEnds, o.cut = old.ExpiresAt, overlap > 0
	}
}

// createdFacts is what token create --json and token rotate --json print.
type createdFacts struct {
	tokenFacts
	Secret    string    `json:"secret,omitempty"` // unless it is in File
	File      string    `json:"file,omitempty"`
	OldID     int64     `json:"old_id,omitempty"` // rotate: the token that was replaced
	OldEndsAt time.Time `json:"old_ends_at,omitzero"`
}

func (o *secretOutput) bind(f *pflag.FlagSet) {
	f.VarP((*fileName)(&o.path), "output", "o", "write the secret to this `file`, which only its owner can read; - is standard output")
	f.BoolVar(&o.force, "force", false, "replace the file that --output names")
	bindJSON(f, &o.asJSON, "print a JSON object, which has the secret unless --output names a file")
}

// mint makes the secret of a token, has save store the token, and writes the secret to out. A file appears, or is
// replaced, when the token is stored.
func (p *program) mint(ctx context.Context, t auth.Token, out *secretOutput, save func(auth.Token) (auth.Token, error)) (err error) {
	secret := auth.Mint()
	t.Hash, t.Prefix = auth.HashOf(secret), auth.PrefixOf(secret)
	var file *output
	if out.path != "" && out.path != streamArg {
		if file, err = createOutput(ctx, out.path, out.force); err != nil {
			return fmt.Errorf("output: %s: %w", out.path, err)
		}
		defer func() { err = errors.Join(err, file.Discard()) }()
		if _, err := fmt.Fprintln(file, secret); err != nil {
			return fmt.Errorf("output: %w", err)
		}
	}
	if t, err = save(t); err != nil {
		return err
	}
	if err := p.handOver(t, secret, file, out); err != nil {
		return fmt.Errorf("the secret of token %d is lost, revoke the token: %w", t.ID, err)
	}
	return nil
}

// handOver gives the user the secret of a token that is stored: by file, if there is one, else on standard output.
func (p *program) handOver(t auth.Token, secret string, file *output, out *secretOutput) error {
	facts := createdFacts{tokenFacts: newTokenFacts(t, stateValid), Secret: secret, OldID: out.oldID}
	if out.oldID != 0 {
		facts.OldEndsAt = out.oldEnds.UTC()
	}
	where := "the secret is shown only now:"
	if file != nil {
		facts.Secret, facts.File = "", out.path
		where = "the secret goes to " + out.path
	}
	if !out.asJSON {
		fmt.Fprintf(p.stderr, "created token %d, %q (%s; expires: %s); %s\n", t.ID, t.Name, t.Scopes, formatTime(t.ExpiresAt), where)
	}
	if file != nil {
		if err := file.Publish(); err != nil {
			return err
		}
	}
	if out.asJSON {
		return writeJSON(p.stdout, facts)
	}
	if file != nil {
		return nil
	}
	_, err := fmt.Fprintln(p.stdout, secret)
	return err
}
