package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// remotePage is the number of entries that a request asks for.
const remotePage = admin.PageMax

// plantJSON is a plant in a response of the admin API.
type plantJSON struct {
	ID        int64     `json:"id"`
	Name      string    `json:"name"`
	Tag       *string   `json:"tag"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
}

func (j plantJSON) record() plant.Record {
	r := plant.Record{
		NewPlant:  plant.NewPlant{ID: j.ID, Plant: plant.Plant{Name: j.Name}},
		CreatedAt: j.CreatedAt, CreatedBy: j.CreatedBy,
	}
	if j.Tag != nil {
		r.Tag = plant.Tagged(*j.Tag)
	}
	return r
}

func (r *remote) plant(ctx context.Context, id int64) (plant.Record, error) {
	var j plantJSON
	err := r.do(ctx, http.MethodGet, r.at("plants/"+strconv.FormatInt(id, 10)), nil, &j)
	if hasCode(err, plant.CodePlantNotFound) {
		err = store.ErrNotFound
	}
	return j.record(), err
}

func (r *remote) plants(ctx context.Context, q store.Query) iter.Seq2[plant.Record, error] {
	limit := remotePage
	if q.Limit < remotePage {
		limit = q.Limit + 1 // the caller reports whether more follow
	}
	query := []string{"limit", strconv.Itoa(limit)}
	if tag, ok := q.Tag.Get(); ok {
		query = append(query, "tag", tag)
	}
	return func(yield func(plant.Record, error) bool) {
		from := query
		if q.From > math.MinInt64 {
			from = append(slices.Clone(query), "after", strconv.FormatInt(q.From-1, 10))
		}
		for {
			var page struct {
				Plants []plantJSON `json:"plants"`
				Next   string      `json:"next"`
			}
			if err := r.do(ctx, http.MethodGet, r.at("plants", from...), nil, &page); err != nil {
				yield(plant.Record{}, err)
				return
			}
			for _, j := range page.Plants {
				if !yield(j.record(), nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			from = append(slices.Clone(query), "cursor", page.Next)
		}
	}
}

func (r *remote) credentials(ctx context.Context, kind string) (all []admin.Credential, err error) {
	query := []string{"limit", strconv.Itoa(remotePage)}
	if kind != "" {
		query = append(query, "kind", kind)
	}
	first := len(query)
	for {
		var page admin.CredentialPage
		if err := r.do(ctx, http.MethodGet, r.at("credentials", query...), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Credentials...)
		if page.Next == "" {
			return all, nil
		}
		query = append(query[:first], "cursor", page.Next)
	}
}

// wholeSeconds returns a length of time in seconds, rounded up.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

func (r *remote) mint(ctx context.Context, n admin.NewToken) (m admin.Minted, err error) {
	body := map[string]any{"name": n.Name, "scopes": strings.Fields(n.Scopes.String())}
	if n.Lifetime == 0 {
		body["no_expiry"] = true
	} else {
		body["expires_in"] = wholeSeconds(n.Lifetime)
	}
	err = r.do(ctx, http.MethodPost, r.at("credentials"), body, &m)
	if hasCode(err, plant.CodeNameTaken) {
		err = store.ErrNameTaken
	}
	return m, err
}

func (r *remote) rotate(ctx context.Context, v admin.Rotation) (m admin.Minted, err error) {
	body := map[string]any{"name": v.Name, "overlap": wholeSeconds(v.Overlap)}
	if v.Lifetime != 0 {
		body["expires_in"] = wholeSeconds(v.Lifetime)
	}
	err = r.do(ctx, http.MethodPost, r.at("credentials/rotate"), body, &m)
	if hasCode(err, plant.CodeTokenNotFound) {
		err = store.ErrNotFound
	}
	return m, err
}

func (r *remote) revoke(ctx context.Context, v admin.Revocation) ([]admin.Credential, error) {
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
	if hasCode(err, plant.CodeTokenNotFound) {
		err = store.ErrNotFound
	}
	return result.Revoked, err
}

func (r *remote) auditEntries(ctx context.Context, q auditQuery) iter.Seq2[admin.AuditEntry, error] {
	order := "oldest"
	if q.newest > 0 {
		order = "newest"
	}
	pages := r.auditPages(ctx, q, order)
	if q.newest == 0 {
		return pages
	}
	return func(yield func(admin.AuditEntry, error) bool) {
		var newest []admin.AuditEntry
		whole := 0
		for e, err := range pages {
			if err != nil {
				yield(e, err)
				return
			}
			newest = append(newest, e)
			if e.Damage == nil {
				whole++
			}
			if whole == q.newest {
				break
			}
		}
		for _, e := range slices.Backward(newest) {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// auditPages returns the entries of a query, page by page.
func (r *remote) auditPages(ctx context.Context, q auditQuery, order string) iter.Seq2[admin.AuditEntry, error] {
	query := []string{"limit", strconv.Itoa(remotePage), "order", order}
	if !q.since.IsZero() {
		query = append(query, "since", q.since.UTC().Format(time.RFC3339Nano))
	}
	if q.actor != "" {
		query = append(query, "actor", q.actor)
	}
	return func(yield func(admin.AuditEntry, error) bool) {
		from := query
		for {
			var page struct {
				Entries []json.RawMessage `json:"entries"`
				Next    string            `json:"next"`
			}
			err := r.do(ctx, http.MethodGet, r.at("audit", from...), nil, &page)
			if err != nil {
				yield(admin.AuditEntry{}, err)
				return
			}
			for _, text := range page.Entries {
				e, err := parseAuditEntry(text)
				if !yield(e, err) || err != nil {
					return
				}
			}
			if page.Next == "" {
				return
			}
			from = append(slices.Clone(query), "cursor", page.Next)
		}
	}
}

func parseAuditEntry(text []byte) (admin.AuditEntry, error) {
	var damaged struct {
		Sequence int64  `json:"sequence"`
		Reason   string `json:"damaged"`
	}
	if err := json.Unmarshal(text, &damaged); err == nil && damaged.Reason != "" {
		return admin.AuditEntry{
			Entry: audit.Entry{Sequence: damaged.Sequence}, Damage: errors.New(damaged.Reason),
		}, nil
	}
	e, err := audit.ParseJSON(string(text))
	if err != nil {
		return admin.AuditEntry{}, fmt.Errorf("entry %d of the response: %w", damaged.Sequence, err)
	}
	return admin.AuditEntry{Entry: e}, nil
}

func (r *remote) verifyAudit(ctx context.Context, expected audit.Link) (v admin.AuditVerification, err error) {
	at := r.at("audit/verify")
	if expected != (audit.Link{}) {
		at = r.at("audit/verify", "expect", expected.String())
	}
	err = r.do(ctx, http.MethodGet, at, nil, &v)
	return v, err
}
