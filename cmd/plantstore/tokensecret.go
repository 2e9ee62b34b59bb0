package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"plantstore/internal/admin"
	"plantstore/internal/auth"
)

// secretOutput is the destination of the secret of a new token.
type secretOutput struct {
	path   string // empty or -: standard output
	force  bool   // replace an existing file at path
	asJSON bool

	oldID   int64     // id of the replaced token; 0: no token was replaced
	oldEnds time.Time // end of validity of the replaced token
	shorter bool      // oldEnds is before the end of the overlap
}

// replaces records the token that the new one replaces. The overlap begins at rotated.
func (o *secretOutput) replaces(old auth.Token, rotated time.Time, overlap time.Duration) {
	o.oldID, o.oldEnds = old.ID, rotated.Add(overlap)
	if !old.ExpiresAt.IsZero() && old.ExpiresAt.Before(o.oldEnds) {
		o.oldEnds, o.shorter = old.ExpiresAt, overlap > 0
	}
}

// createdFacts is the output of token create --json and token rotate --json.
type createdFacts struct {
	admin.Credential
	Secret    string    `json:"secret,omitempty"` // empty if File has it
	File      string    `json:"file,omitempty"`
	OldID     int64     `json:"old_id,omitempty"` // rotate: the replaced token
	OldEndsAt time.Time `json:"old_ends_at,omitzero"`
}

func (o *secretOutput) bind(f *pflag.FlagSet) {
	f.VarP((*fileName)(&o.path), "output", "o",
		"write the secret to this `file`, which only its owner can read; - is standard output")
	f.BoolVar(&o.force, "force", false, "replace the file that --output names")
	bindJSON(f, &o.asJSON, "print a JSON object, with the secret unless --output names a file")
}

// mint creates the secret of a token, stores the token with save, and writes the secret to out. The file of out appears
// after the token is stored.
func (p *program) mint(
	ctx context.Context, t auth.Token, out *secretOutput, save func(auth.Token) (auth.Token, error),
) (err error) {
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
	if err := p.deliver(t, secret, file, out); err != nil {
		return fmt.Errorf("the secret of token %d is lost; revoke the token: %w", t.ID, err)
	}
	return nil
}

// deliver writes the secret of a stored token to file, or to standard output if file is nil.
func (p *program) deliver(t auth.Token, secret string, file *output, out *secretOutput) error {
	facts := createdFacts{Credential: admin.NewCredential(t, auth.StateValid), Secret: secret, OldID: out.oldID}
	if out.oldID != 0 {
		facts.OldEndsAt = out.oldEnds.UTC()
	}
	where := "the secret is not shown again:"
	if file != nil {
		facts.Secret, facts.File = "", out.path
		where = "the secret is in " + out.path
	}
	if !out.asJSON {
		fmt.Fprintf(p.stderr, "created token %d, %q (%s; expires: %s); %s\n",
			t.ID, t.Name, t.Scopes, formatTime(t.ExpiresAt), where)
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
