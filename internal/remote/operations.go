package remote

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/plant"
)

// Plant returns a plant.
func (c *Client) Plant(ctx context.Context, id int64) (plant.Record, error) {
	return get[plant.Record](ctx, c, c.at("plants/"+strconv.FormatInt(id, 10)))
}

// Plants returns a page of plants by ascending id.
func (c *Client) Plants(ctx context.Context, q admin.PageQuery) (admin.Page, error) {
	at := c.at("plants", "limit", strconv.Itoa(q.Limit), "cursor", q.Cursor, "name", q.Name)
	if q.After != nil {
		at.RawQuery += "&after=" + strconv.FormatInt(*q.After, 10)
	}
	if tag, ok := q.Tag.Get(); ok {
		at.RawQuery += "&tag=" + url.QueryEscape(tag)
	}
	return get[admin.Page](ctx, c, at)
}

// Erase erases a part of the selected plants. The actor is the token of the request, here and below.
func (c *Client) Erase(ctx context.Context, e admin.Erasure, _ audit.Origin) (admin.Erased, error) {
	return do[admin.Erased](ctx, c, http.MethodPost, c.at("plants/erase"), e)
}

// Correct corrects a plant.
func (c *Client) Correct(ctx context.Context, id int64, n admin.Correction, _ audit.Origin) (plant.Record, error) {
	return do[plant.Record](ctx, c, http.MethodPost, c.at("plants/"+strconv.FormatInt(id, 10)+"/correct"), n)
}

// Credentials returns a page of credentials by ascending id.
func (c *Client) Credentials(ctx context.Context, q admin.CredentialQuery) (admin.CredentialPage, error) {
	at := c.at("credentials", "limit", strconv.Itoa(admin.PageMax), "cursor", q.Cursor, "kind", q.Kind)
	return get[admin.CredentialPage](ctx, c, at)
}

// Mint creates a token.
func (c *Client) Mint(ctx context.Context, n admin.NewToken, _ audit.Origin) (admin.Minted, error) {
	return do[admin.Minted](ctx, c, http.MethodPost, c.at("credentials"), n)
}

// Rotate replaces a token by a new one with the same name.
func (c *Client) Rotate(ctx context.Context, r admin.Rotation, _ audit.Origin) (admin.Minted, error) {
	return do[admin.Minted](ctx, c, http.MethodPost, c.at("credentials/rotate"), r)
}

// Revoke revokes credentials.
func (c *Client) Revoke(ctx context.Context, r admin.Revocation, _ audit.Origin) (admin.Revoked, error) {
	return do[admin.Revoked](ctx, c, http.MethodPost, c.at("credentials/revoke"), r)
}

// Audit returns a page of the audit log.
func (c *Client) Audit(ctx context.Context, q admin.AuditQuery) (admin.AuditPage, error) {
	order := "newest"
	if q.Oldest {
		order = "oldest"
	}
	moment := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	return get[admin.AuditPage](ctx, c, c.at("audit", "limit", strconv.Itoa(q.Limit), "order", order,
		"since", moment(q.Since), "until", moment(q.Until), "action", q.Action, "actor", q.Actor, "cursor", q.Cursor))
}

// VerifyAudit verifies the audit log on the server.
func (c *Client) VerifyAudit(ctx context.Context, expected audit.Link) (admin.AuditVerification, error) {
	head := ""
	if expected != (audit.Link{}) {
		head = expected.String()
	}
	return get[admin.AuditVerification](ctx, c, c.at("audit/verify", "expect", head))
}

// deadLettersPath is the path of the dead letters in the admin API.
const deadLettersPath = "webhooks/dead-letters"

// DeadLetters returns a page of dead letters.
func (c *Client) DeadLetters(ctx context.Context, q admin.ListQuery) (admin.DeadLetterPage, error) {
	return get[admin.DeadLetterPage](ctx, c, c.at(deadLettersPath, "limit", strconv.Itoa(q.Limit), "cursor", q.Cursor))
}

// RetryDead delivers dead letters again.
func (c *Client) RetryDead(
	ctx context.Context, d admin.DeadSelection, _ audit.Origin,
) (admin.DeadLettersChanged, error) {
	return do[admin.DeadLettersChanged](ctx, c, http.MethodPost, c.at(deadLettersPath+"/retry"), d)
}

// DropDead removes dead letters.
func (c *Client) DropDead(
	ctx context.Context, d admin.DeadSelection, _ audit.Origin,
) (admin.DeadLettersChanged, error) {
	return do[admin.DeadLettersChanged](ctx, c, http.MethodPost, c.at(deadLettersPath+"/drop"), d)
}
