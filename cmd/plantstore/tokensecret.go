package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"plantstore/internal/admin"
	"plantstore/internal/config"
	"plantstore/internal/terminal"
)

// secretOutput is the destination of the secret of a new token.
type secretOutput struct {
	path  string // empty or -: standard output
	force bool   // replace an existing file at path
}

// createdFacts is the output of token create --json and token rotate --json.
type createdFacts struct {
	admin.Minted        // without the secret if File has it
	File         string `json:"file,omitempty"`
}

func (p *program) bindSecret(f *pflag.FlagSet, o *secretOutput) {
	f.VarP(config.FileName(&o.path), "output", "o",
		"write the secret to this `file`, which only its owner can read; - is standard output")
	f.BoolVar(&o.force, "force", false, "replace the file that --output names")
	p.bindJSON(f, "print a JSON object, with the secret unless --output names a file")
}

// mint creates a token with save, and writes its secret to out. The file of out appears after the token is stored.
func (p *program) mint(
	ctx context.Context, out secretOutput, save func() (admin.Minted, error),
) (m admin.Minted, err error) {
	var file *terminal.Output
	if out.path != "" && out.path != terminal.StreamName {
		if file, err = terminal.CreateOutput(ctx, out.path, out.force); err != nil {
			return m, fmt.Errorf("output: %s: %w", out.path, err)
		}
		defer func() { err = errors.Join(err, file.Discard()) }()
	} else if terminal.Discards(p.Stdout) {
		return m, errors.New("standard output is closed or /dev/null, and the secret is shown only once: use --output FILE")
	}
	if m, err = save(); err != nil {
		return m, err
	}
	if err := p.deliver(m, file, out.path); err != nil {
		return m, fmt.Errorf("the secret of token %d is lost; revoke the token: %w", m.ID, err)
	}
	return m, nil
}

// deliver writes the secret of a stored token to file, or to standard output if file is nil.
func (p *program) deliver(m admin.Minted, file *terminal.Output, path string) error {
	facts := createdFacts{Minted: m}
	where := "the secret is not shown again:"
	if file != nil {
		facts.Secret, facts.File = "", path
		where = "the secret is in " + path
	}
	if !p.asJSON {
		fmt.Fprintf(p.Stderr, "created token %d, %q (%s; expires: %s); %s\n",
			m.ID, m.Name, strings.Join(m.Scopes, " "), terminal.FormatTime(m.ExpiresAt), where)
	}
	if file != nil {
		if _, err := fmt.Fprintln(file, m.Secret); err != nil {
			return fmt.Errorf("output: %w", err)
		}
		if err := file.Publish(); err != nil {
			return err
		}
	}
	if file != nil && !p.asJSON {
		return nil
	}
	return p.result(facts, "%s\n", m.Secret)
}
