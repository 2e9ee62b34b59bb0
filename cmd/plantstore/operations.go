package main

import (
	"context"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/config"
	"plantstore/internal/plant"
	"plantstore/internal/remote"
	"plantstore/internal/serve"
	"plantstore/internal/store"
)

// operations are the operations of the commands that work on a store or, with --server, on a running server.
// *admin.Service implements them on an open store, and remote by the API of the server, for which the actor of a change
// is its token. See admin.Service for the contracts and the errors.
type operations interface {
	Plant(ctx context.Context, id int64) (plant.Record, error)
	Plants(ctx context.Context, q admin.PageQuery) (admin.Page, error)
	Erase(ctx context.Context, e admin.Erasure, by audit.Origin) (admin.Erased, error)
	Correct(ctx context.Context, id int64, c admin.Correction, by audit.Origin) (plant.Record, error)

	Credentials(ctx context.Context, q admin.CredentialQuery) (admin.CredentialPage, error)
	Mint(ctx context.Context, n admin.NewToken, by audit.Origin) (admin.Minted, error)
	Rotate(ctx context.Context, r admin.Rotation, by audit.Origin) (admin.Minted, error)
	Revoke(ctx context.Context, r admin.Revocation, by audit.Origin) (admin.Revoked, error)

	Audit(ctx context.Context, q admin.AuditQuery) (admin.AuditPage, error)
	VerifyAudit(ctx context.Context, expected audit.Link) (admin.AuditVerification, error)

	DeadLetters(ctx context.Context, q admin.ListQuery) (admin.DeadLetterPage, error)
	RetryDead(ctx context.Context, d admin.DeadSelection, by audit.Origin) (admin.DeadLettersChanged, error)
	DropDead(ctx context.Context, d admin.DeadSelection, by audit.Origin) (admin.DeadLettersChanged, error)
}

// operate runs do on the store of the settings or, with --server, on a running server.
func (p *program) operate(
	cmd *cobra.Command, o serve.EngineOptions, do func(context.Context, operations) error,
) error {
	if p.server.URL != "" {
		return p.withServer(cmd, func(ctx context.Context, r *remote.Client) error { return do(ctx, r) })
	}
	return p.withStore(cmd, o, func(ctx context.Context, engine serve.Engine) error {
		service, err := admin.New(admin.Config{
			Engine: engine, DB: p.settings.DB.String(), Issuer: p.settings.OIDC.Issuer,
			Unrecorded: func(u *store.Unrecorded) { p.warnUnaudited(u.Cause) },
		})
		if err != nil {
			return err
		}
		defer service.Close()
		defer context.AfterFunc(ctx, service.Close)() // because the end of ctx ends no change
		return do(ctx, service)
	})
}

// withServer runs do on the server of the flags.
func (p *program) withServer(cmd *cobra.Command, do func(context.Context, *remote.Client) error) error {
	return p.withSettings(cmd, func(ctx context.Context) error {
		token := p.env.Vars[config.TokenVariable]
		if p.server.Token != "" {
			var err error
			if token, err = p.readToken(ctx, p.server.Token); err != nil {
				return fmt.Errorf("server-token: %w", err)
			}
		}
		r, err := remote.New(&p.server, token)
		if err != nil {
			return err
		}
		defer r.Close()
		return do(ctx, r)
	})
}

// pages returns the elements of all pages of a list. read returns the page of a cursor, and the cursor of the next one.
// An error ends the sequence.
func pages[E any](read func(cursor string) (page []E, next string, err error)) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		for cursor := ""; ; {
			page, next, err := read(cursor)
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
			if err != nil {
				var none E
				yield(none, err)
				return
			}
			if cursor = next; cursor == "" {
				return
			}
		}
	}
}

// plants returns the plants of a query by ascending id. It ignores the cursor of the query.
func plants(ctx context.Context, o operations, q admin.PageQuery) iter.Seq2[plant.Record, error] {
	return pages(func(cursor string) ([]plant.Record, string, error) {
		if q.Cursor = cursor; cursor != "" {
			q.After = nil
		}
		page, err := o.Plants(ctx, q)
		return page.Plants, page.Next, err
	})
}

// credentials returns the credentials of a kind, or all for "", by ascending id.
func credentials(ctx context.Context, o operations, kind string) iter.Seq2[admin.Credential, error] {
	return pages(func(cursor string) ([]admin.Credential, string, error) {
		page, err := o.Credentials(ctx, admin.CredentialQuery{Cursor: cursor, Kind: kind})
		return page.Credentials, page.Next, err
	})
}
