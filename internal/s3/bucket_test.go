package s3_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/s3"
	"plantstore/internal/s3/s3test"
)

func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": s3test.AccessKey, "AWS_SECRET_ACCESS_KEY": s3test.SecretKey, "AWS_SESSION_TOKEN": "",
		"AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_CONFIG_FILE": os.DevNull, "AWS_PROFILE": "",
		"HTTP_PROXY": "", "http_proxy": "", "ALL_PROXY": "", "all_proxy": "",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func startServer(t *testing.T) *s3test.Server {
	t.Helper()
	s, err := s3test.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, s)
	return s
}

func stopAtEnd(t *testing.T, s *s3test.Server) {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
}

func open(t *testing.T, c s3.Config, bucket string) *s3.Bucket {
	t.Helper()
	b, err := s3.Open(c, bucket)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// randomBytes returns bytes that differ in each part.
func randomBytes(n int) []byte {
	text := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(text)
	return text
}

func noProgress(int64, int64) {}

func ready(string) error { return nil }

// TestBucket stores objects of one and of several parts, and reads, lists and removes them.
func TestBucket(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	b := open(t, s3.Config{Endpoint: s.Endpoint}, s3test.Bucket)
	ctx := t.Context()
	if err := b.CheckKeys(ctx); err != nil {
		t.Fatal(err)
	}
	for key, size := range map[string]int{"a/one": 1, "a/parts": 40 << 20} {
		text := randomBytes(size)
		last := int64(0)
		sum := ""
		err := b.Upload(ctx, key, bytes.NewReader(text), int64(size), func(done, all int64) {
			if done < last || all != int64(size) {
				t.Errorf("%s: progress %d of %d after %d", key, done, all, last)
			}
			last = done
		}, func(whole string) error {
			sum = whole
			if _, err := b.Stat(ctx, key); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s exists before the end of its upload: %v", key, err)
			}
			return nil
		})
		want := sha256.Sum256(text)
		if err != nil || sum != hex.EncodeToString(want[:]) || last != int64(size) {
			t.Errorf("%s: Upload: %s, %v, progress %d", key, sum, err, last)
		}
		r, err := b.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s: Get: %d bytes of %d, %v", key, len(got), size, err)
		}
	}
	if err := b.Put(ctx, "a/one.json", []byte("{}")); err != nil {
		t.Error(err)
	}
	all, err := b.List(ctx, "a/on")
	want := []s3.Object{{Key: "a/one", Bytes: 1}, {Key: "a/one.json", Bytes: 2}}
	if diff := cmp.Diff(want, all); err != nil || diff != "" {
		t.Errorf("List: %v, -want +got:\n%s", err, diff)
	}
	for range 2 { // the second time it is missing
		if err := b.Remove(ctx, "a/one"); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.Stat(ctx, "a/one"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat of a removed object: %v", err)
	}
	if _, err := b.Get(ctx, "a/one"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get of a removed object: %v", err)
	}
}

// TestRemoveMany removes many objects, among them a missing one, and some whose keys need escapes.
func TestRemoveMany(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	b := open(t, s3.Config{Endpoint: s.Endpoint}, s3test.Bucket)
	keys := []string{"missing", "p<1>", `p"'&amp;`, "p\n]]>", "p\ré ", "p\x01"}
	for i := range 100 {
		keys = append(keys, fmt.Sprint("p-", i))
	}
	for _, key := range append(keys[1:], "kept") {
		if err := os.WriteFile(filepath.Join(s.Dir, s3test.Bucket, key), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(b.Remove(t.Context(), keys...), b.Remove(t.Context())); err != nil {
		t.Error(err)
	}
	all, err := s.Objects()
	if diff := cmp.Diff(map[string]int64{"kept": 0}, all); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

// TestAbortUploads aborts the unfinished uploads that satisfy the condition.
func TestAbortUploads(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	b := open(t, s3.Config{Endpoint: s.Endpoint}, s3test.Bucket)
	const size = 20 << 20
	text := randomBytes(size)
	for _, key := range []string{"a/p-1", "a/p-2", "a/q-1"} {
		ctx, cancel := context.WithCancel(t.Context())
		err := b.Upload(ctx, key, bytes.NewReader(text), int64(len(text)), func(done, _ int64) {
			if done < size { // before the second part
				s.Kill()
				cancel()
			}
		}, ready)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", key, err)
		}
		if err := s.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	aborted, err := b.AbortUploads(t.Context(), "a/p-", func(key string) bool { return key != "a/p-2" })
	if diff := cmp.Diff([]string{"a/p-1"}, aborted); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	aborted, err = b.AbortUploads(t.Context(), "", func(string) bool { return true })
	if diff := cmp.Diff([]string{"a/p-2", "a/q-1"}, aborted); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if all, err := s.Objects(); err != nil || len(all) != 0 {
		t.Errorf("objects %v, %v", all, err)
	}
}

// TestFromEnvironment shows that the metadata service of a machine is used only if a variable says so.
func TestFromEnvironment(t *testing.T) {
	t.Parallel()
	got := s3.FromEnvironment(map[string]string{
		"AWS_ENDPOINT_URL": "https://other.example", "AWS_ENDPOINT_URL_S3": "https://s3.example", "AWS_CA_BUNDLE": "ca.pem",
		"AWS_DEFAULT_REGION": "eu-north-1", "AWS_EC2_METADATA_DISABLED": "true",
	})
	want := s3.Config{Endpoint: "https://s3.example", Region: "eu-north-1", CAFile: "ca.pem"}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, variable := range []string{
		"AWS_WEB_IDENTITY_TOKEN_FILE=/token", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI=/keys",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI=http://169.254.170.23/", "AWS_EC2_METADATA_DISABLED=false",
	} {
		name, value, _ := strings.Cut(variable, "=")
		if c := s3.FromEnvironment(map[string]string{name: value}); !c.InstanceRole {
			t.Errorf("%s does not turn the role on", variable)
		}
	}
}
