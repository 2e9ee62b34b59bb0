package webhook_test

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/store"
	"plantstore/internal/webhook"
)

func secretOf(bytes int, letter string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, bytes)))
}

func TestParseSecrets(t *testing.T) {
	t.Parallel()
	good, other := secretOf(24, "a"), secretOf(64, "b")
	for text, want := range map[string]int{good: 1, good + "\n": 1, other + "\n" + good + "\n": 2} {
		if secrets, err := webhook.ParseSecrets(text); err != nil || len(secrets) != want {
			t.Errorf("got %d secrets and %v, want %d", len(secrets), err, want)
		}
	}
	for text, want := range map[string]string{
		"":                                "there is no secret; want whsec_ and 24 to 64 random bytes in base64",
		strings.Repeat(good+" ", 3):       "there are 3 secrets; want one, or two during a rotation",
		strings.TrimPrefix(good, "whsec"): "secret 1 does not begin with whsec_",
		good + " whsec_not-base64":        "secret 2 is not base64 after whsec_",
		secretOf(23, "a"):                 "secret 1 has 23 bytes; want 24 to 64",
		secretOf(65, "a"):                 "secret 1 has 65 bytes; want 24 to 64",
	} {
		if _, err := webhook.ParseSecrets(text); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	secrets, err := webhook.ParseSecrets(good)
	if text := fmt.Sprintf("%v %+v %#v", secrets, secrets, secrets); err != nil || strings.Contains(text, "97") {
		t.Errorf("a secret prints itself: %s, %v", text, err)
	}
}

// TestEventID shows that the id of an event depends on the plant and its creation, and on nothing else.
func TestEventID(t *testing.T) {
	t.Parallel()
	at := time.UnixMicro(1_700_000_000_123_456)
	acer := plant.NewPlant{ID: 1, Plant: plant.Plant{Name: "Acer"}}
	eventID := func(n plant.NewPlant, at time.Time) string {
		id, body := webhook.Event(store.Delivery{Plant: n, CreatedAt: at, Since: at})
		if string(body) != string(n.AppendJSON(nil)) {
			t.Errorf("got the body %s", body)
		}
		return id
	}
	id := eventID(acer, at)
	if len(id) != len("evt_")+32 || !strings.HasPrefix(id, "evt_") || eventID(acer, at.UTC()) != id {
		t.Errorf("got %s", id)
	}
	erasure, body := webhook.Event(store.Delivery{Plant: plant.NewPlant{ID: 1}, Since: at, Erased: true})
	if string(body) != `{"type":"plant.erased","id":1}` || erasure == id {
		t.Errorf("got %s, %s", erasure, body)
	}
	tagged := acer
	tagged.Tag = plant.Tagged("")
	other := acer
	other.ID = 2
	for _, again := range []string{
		eventID(tagged, at), eventID(other, at), eventID(acer, at.Add(time.Microsecond)),
	} {
		if again == id {
			t.Errorf("another event has the id %s", id)
		}
	}
}

func TestIsPublic(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"1.1.1.1": true, "93.184.216.34": true, "2606:4700::1111": true, "64:ff9b::1.1.1.1": true,

		"0.0.0.0": false, "10.0.0.1": false, "100.64.0.1": false, "100.127.255.255": false, "127.0.0.1": false,
		"127.255.255.254": false, "169.254.169.254": false, "172.16.0.1": false, "172.31.255.255": false,
		"192.0.0.8": false, "192.0.2.1": false, "192.88.99.1": false, "192.168.1.1": false, "198.18.0.1": false,
		"198.51.100.1": false, "203.0.113.1": false, "224.0.0.1": false, "240.0.0.1": false, "255.255.255.255": false,
		"::": false, "::1": false, "::ffff:1.1.1.1": false, "::ffff:127.0.0.1": false, "::127.0.0.1": false,
		"64:ff9b::127.0.0.1": false, "64:ff9b::10.0.0.1": false, "64:ff9b:1::1.1.1.1": false, "100::1": false,
		"2001::1": false, "2001:db8::1": false, "2002:7f00:1::": false, "3fff::1": false, "5f00::1": false,
		"fc00::1": false, "fd12::1": false, "fe80::1": false, "fec0::1": false, "ff02::1": false,
	} {
		if got := webhook.IsPublic(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: got %t, want %t", text, got, want)
		}
	}
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	for url, private := range map[string]bool{
		"https://plants.example/events": false, "https://plants.example:8443/e?key=1": false,
		"https://[2606:4700::1111]/": false,
		"http://127.0.0.1:9000/":     true, "https://10.0.0.1/": true, "http://receiver/": true,
	} {
		if err := webhook.CheckURL(url, private); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	const notPublic = "the address is not public: %s; set webhook-allow-private for a receiver in your own network"
	for url, want := range map[string]string{
		"":                   "it is not a URL; use the form https://plants.example/events",
		"plants.example":     "it is not a URL; use the form https://plants.example/events",
		"https://:443/":      "it is not a URL; use the form https://plants.example/events",
		"https://u:p@a.org/": "a URL cannot have a user; receivers verify the signature",
		"https://a.org/#":    "a URL cannot have a fragment",
		"ftp://a.org/":       `"ftp" is not a scheme of webhooks; use https`,
		"http://a.org/":      "it has no TLS; use https, or set webhook-allow-private for a receiver in your own network",
		"https://a.org/" + strings.Repeat("x", 2048): "it has 2062 bytes; use at most 2048",
		"https://169.254.169.254/":                   fmt.Sprintf(notPublic, "169.254.169.254"),
		"https://[::ffff:10.0.0.1]/":                 fmt.Sprintf(notPublic, "::ffff:10.0.0.1"),
		"https://[fe80::1%25eth0]/":                  fmt.Sprintf(notPublic, "fe80::1%eth0"),
	} {
		if err := webhook.CheckURL(url, false); err == nil || err.Error() != want {
			t.Errorf("%.40s: got %v, want %s", url, err, want)
		}
	}
}

// TestWaits shows the waits after failures.
func TestWaits(t *testing.T) {
	t.Parallel()
	want := []string{"5s", "20s", "1m20s", "5m20s", "21m20s", "1h25m20s", "5h41m20s", "6h0m0s", "6h0m0s"}
	for i, wait := range want {
		if got := webhook.WaitMax(i + 1).String(); got != wait {
			t.Errorf("after %d failures: got %s, want %s", i+1, got, wait)
		}
	}
	if got := webhook.WaitMax(1_000_000); got.String() != "6h0m0s" {
		t.Errorf("after a million failures: %s", got)
	}
}
