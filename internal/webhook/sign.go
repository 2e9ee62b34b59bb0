package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"plantstore/internal/store"
)

// Secret is a key that signs deliveries. It does not print itself.
type Secret struct{ key []byte }

// String hides the secret.
func (Secret) String() string { return "(secret)" }

// GoString hides the secret.
func (Secret) GoString() string { return "(secret)" }

const (
	// SecretPrefix starts the text of a secret.
	SecretPrefix = "whsec_"

	// The sizes of a key in bytes (Standard Webhooks, "Signature scheme").
	keyBytesMin, keyBytesMax = 24, 64

	secretsMax = 2 // that sign at the same time, during a rotation
)

// ParseSecrets parses secrets in the form whsec_BASE64 of Standard Webhooks, with white space between them: one, or two
// while the receivers change from one to the other. The error does not contain them.
func ParseSecrets(text string) ([]Secret, error) {
	words := strings.Fields(text)
	switch {
	case len(words) == 0:
		return nil, errors.New("there is no secret; want whsec_ and 24 to 64 random bytes in base64")
	case len(words) > secretsMax:
		return nil, fmt.Errorf("there are %d secrets; want one, or two during a rotation", len(words))
	}
	secrets := make([]Secret, len(words))
	for i, word := range words {
		encoded, ok := strings.CutPrefix(word, SecretPrefix)
		if !ok {
			return nil, fmt.Errorf("secret %d does not begin with %s", i+1, SecretPrefix)
		}
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, fmt.Errorf("secret %d is not base64 after %s", i+1, SecretPrefix)
		}
		if len(key) < keyBytesMin || len(key) > keyBytesMax {
			return nil, fmt.Errorf("secret %d has %d bytes; want %d to %d", i+1, len(key), keyBytesMin, keyBytesMax)
		}
		secrets[i] = Secret{key}
	}
	return secrets, nil
}

// sign returns the header webhook-signature: a signature by each secret, with spaces between them.
func sign(secrets []Secret, id string, at time.Time, body []byte) string {
	var signatures []string
	for _, s := range secrets {
		mac := hmac.New(sha256.New, s.key)
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(signatures, " ")
}

// event returns the header webhook-id and the body of the event of a delivery. The id is the same text for each
// delivery of the event, to every webhook. It depends on the id and the time of the creation or erasure, so a plant
// that is created again gets a new one.
func event(d store.Delivery) (id string, body []byte) {
	kind, at := "event", d.CreatedAt
	if d.Erased {
		kind, at = "erasure", d.Since
		body = fmt.Appendf(nil, `{"type":"plant.erased","id":%d}`, d.Plant.ID)
	} else {
		body = d.Plant.AppendJSON(nil)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "plantstore %s %d %d%s", kind, d.Plant.ID, at.UnixMicro(), body))
	return "evt_" + hex.EncodeToString(sum[:16]), body
}
