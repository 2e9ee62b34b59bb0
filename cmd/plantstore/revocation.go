package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"plantstore/internal/admin"
	"plantstore/internal/auth"
	"plantstore/internal/config"
	"plantstore/internal/oidc"
	"plantstore/internal/terminal"
)

// revocation is the input of token revoke.
type revocation struct {
	admin.Revocation

	file       string // with the secret
	id         int64
	identifier string // names a subject or a JWT
}

func (r *revocation) bind(f *pflag.FlagSet) {
	f.Int64Var(&r.id, "id", 0, "revoke the token with this `id`")
	f.StringVar(&r.file, "token-file", "", "read the secret from this `file`; - is standard input")
	f.StringVar(&r.identifier, "subject", "", "revoke the JWTs of this `subject` that were issued until now")
	f.StringVar(&r.identifier, "jwt-id", "", "revoke the JWT with this `jti`")
}

// read reads the flags, the argument and the secret.
func (r *revocation) read(p *program, cmd *cobra.Command, args []string) error {
	given := len(args)
	for _, name := range []string{"id", "token-file", "subject", "jwt-id"} {
		if cmd.Flags().Changed(name) {
			given++
		}
	}
	switch {
	case given > 1:
		return config.Usagef("give only one of a name, --id, --token-file, --subject and --jwt-id")
	case len(args) == 1 && args[0] == "":
		return config.Usagef("the name is empty; give the name of a token, --id or --token-file")
	case len(args) == 1:
		r.Name = &args[0]
		return refuseSecret(args[0])
	case cmd.Flags().Changed("id") && r.id < 1:
		return config.Usagef("id: %d is out of range; see plantstore token list", r.id)
	case cmd.Flags().Changed("id"):
		r.ID = &r.id
		return nil
	case cmd.Flags().Changed("subject"):
		r.Subject = &r.identifier
		return checkIdentifier("subject", r.identifier)
	case cmd.Flags().Changed("jwt-id"):
		r.JWTID = &r.identifier
		return checkIdentifier("jwt-id", r.identifier)
	}
	return r.readSecret(p, cmd)
}

func checkIdentifier(flag, text string) error {
	if err := refuseSecret(text); err != nil {
		return err
	}
	if err := oidc.CheckIdentifier(text); err != nil {
		return config.Usagef("%s: the text %w", flag, err)
	}
	return nil
}

// readSecret reads the secret of a token, or a JWT, from the file or the environment.
func (r *revocation) readSecret(p *program, cmd *cobra.Command) (err error) {
	secret := ""
	if p.server.URL == "" { // else the variable has the token for the server
		secret = p.env.Vars[config.TokenVariable]
	}
	if cmd.Flags().Changed("token-file") {
		if secret, err = p.readToken(cmd.Context(), r.file); err != nil {
			return err
		}
	} else if secret == "" {
		return config.Usagef("no token given; give its name, its --id, or its secret with --token-file")
	}
	secret = strings.TrimSpace(secret)
	if auth.LooksLikeJWT(secret) {
		r.JWTID = &r.identifier
		if r.Issuer, r.identifier, err = oidc.IDs(secret); err != nil {
			return fmt.Errorf("revoke the JWT: %w", err)
		}
		return nil
	}
	if !auth.WellFormed(secret) {
		return errors.New("the secret is incomplete; a secret begins with pst_ and has 53 characters")
	}
	r.SecretSHA256 = new(auth.HashOf(secret))
	return nil
}

// revoke returns the revoked credentials by ascending id. A remote server has an issuer of its own.
func (p *program) revoke(ctx context.Context, o operations, r admin.Revocation) ([]admin.Credential, error) {
	if r.Subject != nil || r.JWTID != nil {
		r.Issuer = cmp.Or(r.Issuer, p.settings.OIDC.Issuer)
		if r.Issuer == "" && p.server.URL == "" {
			return nil, config.Usagef("no issuer given; give --oidc-issuer, or the settings file of the server with --config")
		}
	}
	revoked, err := o.Revoke(ctx, r, p.operator())
	return revoked.Credentials, err
}

// warnOfUnknown warns if no server has accepted a JWT of the issuer and of the subject of a revocation. Their texts
// may be wrong then: the store has no list of issuers, and no JWT is at hand.
func (p *program) warnOfUnknown(ctx context.Context, o operations, revoked admin.Credential) error {
	for c, err := range credentials(ctx, o, admin.KindSubject) {
		if err != nil {
			return err
		}
		first := c.CreatedAt.Equal(c.RevokedAt) && c.LastUsedAt.IsZero() // a revocation has stored it
		if c.Issuer == revoked.Issuer && !first && (revoked.Kind == admin.KindJWT || c.Subject == revoked.Subject) {
			return nil
		}
	}
	if revoked.Kind == admin.KindJWT {
		fmt.Fprintf(p.Stderr, "warning: no server has accepted a JWT of the issuer %s yet; compare it with the claim iss\n",
			revoked.Issuer)
	} else {
		fmt.Fprintf(p.Stderr, "warning: no server has accepted a JWT of the subject %q of %s yet; "+
			"compare them with the claims sub and iss\n", revoked.Subject, revoked.Issuer)
	}
	return nil
}

// printRevoked prints a message about a revoked credential for people.
func (p *program) printRevoked(c admin.Credential) {
	switch c.Kind {
	case admin.KindSubject:
		fmt.Fprintf(p.Stderr, "revoked subject %d, %q of %s; a server refuses its JWTs issued until %s within a second\n",
			c.ID, c.Subject, c.Issuer, terminal.FormatTime(c.RevokedAt.Add(auth.JWTLeeway)))
	case admin.KindJWT:
		fmt.Fprintf(p.Stderr, "revoked JWT %q of %s; a server refuses it within a second\n", c.JWTID, c.Issuer)
	default:
		fmt.Fprintf(p.Stderr, "revoked token %d, %q; a server refuses it within a second\n", c.ID, c.Name)
	}
}
