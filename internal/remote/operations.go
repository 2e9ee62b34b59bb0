package remote

import (
	"context"
	"encoding/hex"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// plantJSON is a plant in a response of the admin API.
type plantJSON struct {
	ID        int64     `json:"id"`
	Name      string    `json:"name"`
	Tag       *string   `json:"tag"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
	Damaged   bool      `json:"damaged"`
}

func (j plantJSON) record() plant.Record {
	r := plant.Record{
		NewPlant:  plant.NewPlant{ID: j.ID, Plant: plant.Plant{Name: j.Name}},
		CreatedAt: j.CreatedAt, CreatedBy: j.CreatedBy, Damaged: j.Damaged,
	}
	if j.Tag != nil {
		r.Tag = plant.Tagged(*j.Tag)
	}
	return r
}

// Plant returns a plant.
func (r *Server) Plant(ctx context.Context, id int64) (plant.Record, error) {
	var j plantJSON
	err := r.do(ctx, http.MethodGet, r.at("plants/"+strconv.FormatInt(id, 10)), nil, &j)
	return j.record(), err
}

// Plants returns a page of plants by ascending id.
func (r *Server) Plants(ctx context.Context, q admin.PageQuery) (page admin.Page, err error) {
	at := r.at("plants", "limit", strconv.Itoa(q.Limit), "cursor", q.Cursor, "name", q.Name)
	if q.After != nil {
		at.RawQuery += "&after=" + strconv.FormatInt(*q.After, 10)
	}
	if tag, ok := q.Tag.Get(); ok {
		at.RawQuery += "&tag=" + url.QueryEscape(tag)
	}
	var body struct {
		Plants []plantJSON `json:"plants"`
		Next   string      `json:"next"`
	}
	err = r.do(ctx, http.MethodGet, at, nil, &body)
	for _, j := range body.Plants {
		page.Plants = append(page.Plants, j.record())
	}
	page.Next = body.Next
	return page, err
}

// Credentials returns a page of credentials by ascending id.
func (r *Server) Credentials(ctx context.Context, q admin.CredentialQuery) (page admin.CredentialPage, err error) {
	at := r.at("credentials", "limit", strconv.Itoa(admin.PageMax), "cursor", q.Cursor, "kind", q.Kind)
	err = r.do(ctx, http.MethodGet, at, nil, &page)
	return page, err
}

// wholeSeconds returns a length of time in seconds, rounded up.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// Mint creates a token. The actor is the token of the request, here and below.
func (r *Server) Mint(ctx context.Context, n admin.NewToken, _ audit.Origin) (m admin.Minted, err error) {
	body := map[string]any{"name": n.Name, "scopes": strings.Fields(n.Scopes.String())}
	if n.Lifetime == 0 {
		body["no_expiry"] = true
	} else {
		body["expires_in"] = wholeSeconds(n.Lifetime)
	}
	err = r.do(ctx, http.MethodPost, r.at("credentials"), body, &m)
	return m, err
}

// Rotate replaces a token by a new one with the same name.
func (r *Server) Rotate(ctx context.Context, v admin.Rotation, _ audit.Origin) (m admin.Minted, err error) {
	body := map[string]any{"name": v.Name, "overlap": wholeSeconds(v.Overlap)}
	if v.Lifetime != 0 {
		body["expires_in"] = wholeSeconds(v.Lifetime)
	}
	err = r.do(ctx, http.MethodPost, r.at("credentials/rotate"), body, &m)
	return m, err
}

// Revoke revokes credentials and returns them.
func (r *Server) Revoke(ctx context.Context, v admin.Revocation, _ audit.Origin) ([]admin.Credential, error) {
	body := map[string]any{}
	if v.Issuer != "" {
		body["issuer"] = v.Issuer
	}
	switch {
	case v.Kind == auth.KindSubject:
		body["subject"] = v.Identifier
	case v.Kind == auth.KindJWT:
		body["jwt_id"] = v.Identifier
	case v.Tokens.ID != 0:
		body["id"] = v.Tokens.ID
	case v.Tokens.Name != "":
		body["name"] = v.Tokens.Name
	default:
		body["secret_sha256"] = hex.EncodeToString(v.Tokens.Hash[:])
	}
	var result struct {
		Revoked []admin.Credential `json:"revoked"`
	}
	err := r.do(ctx, http.MethodPost, r.at("credentials/revoke"), body, &result)
	return result.Revoked, err
}

// Audit returns a page of the audit log.
func (r *Server) Audit(ctx context.Context, q admin.AuditQuery) (page admin.AuditPage, err error) {
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
	err = r.do(ctx, http.MethodGet, r.at("audit", "limit", strconv.Itoa(q.Limit), "order", order, "since", moment(q.Since),
		"until", moment(q.Until), "action", q.Action, "actor", q.Actor, "cursor", q.Cursor), nil, &page)
	return page, err
}

// VerifyAudit verifies the audit log on the server.
func (r *Server) VerifyAudit(ctx context.Context, expected audit.Link) (v admin.AuditVerification, err error) {
	head := ""
	if expected != (audit.Link{}) {
		head = expected.String()
	}
	err = r.do(ctx, http.MethodGet, r.at("audit/verify", "expect", head), nil, &v)
	return v, err
}

// deadLettersPath is the path of the dead letters in the admin API.
const deadLettersPath = "webhooks/dead-letters"

// DeadLetters returns a page of dead letters.
func (r *Server) DeadLetters(ctx context.Context, q admin.ListQuery) (page admin.DeadLetterPage, err error) {
	at := r.at(deadLettersPath, "limit", strconv.Itoa(q.Limit), "cursor", q.Cursor)
	err = r.do(ctx, http.MethodGet, at, nil, &page)
	return page, err
}

// RetryDead delivers dead letters again.
func (r *Server) RetryDead(
	ctx context.Context, s store.DeadSelector, _ audit.Origin,
) (admin.DeadLettersChanged, error) {
	return r.changeDead(ctx, "/retry", s)
}

// DropDead removes dead letters.
func (r *Server) DropDead(
	ctx context.Context, s store.DeadSelector, _ audit.Origin,
) (admin.DeadLettersChanged, error) {
	return r.changeDead(ctx, "/drop", s)
}

func (r *Server) changeDead(
	ctx context.Context, change string, s store.DeadSelector,
) (result admin.DeadLettersChanged, err error) {
	body := struct {
		WebhookID int64  `json:"webhook_id,omitzero"`
		PlantID   *int64 `json:"plant_id,omitzero"`
		All       bool   `json:"all,omitzero"`
	}{s.Webhook, s.Plant, s == store.DeadSelector{}}
	err = r.do(ctx, http.MethodPost, r.at(deadLettersPath+change), body, &result)
	return result, err
}
