package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	user      = 65532 // no user of a usual system has this id
	dataDir   = "/data"
	program   = "/plantstore"
	rootsFile = "/etc/ssl/certs/ca-certificates.crt" // where crypto/x509 looks for roots
)

// source has the contents of an image.
type source struct {
	created  time.Time
	revision string   // empty: unknown
	notices  string   // path of the licences
	programs []string // paths, one a platform
}

// write writes the layout to a directory that does not exist, or is empty.
func (s *source) write(dir string) error {
	var index v1.ImageIndex = empty.Index
	index = mutate.IndexMediaType(index, types.OCIImageIndex)
	for _, path := range s.programs {
		image, platform, err := s.image(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &platform},
		})
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty; remove it", dir)
	}
	// The layout has one entry, the index of the platforms: without a name, Skopeo and Podman accept only one.
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return path.AppendIndex(index)
}

// image returns the image of a program, and its platform.
func (s *source) image(path string) (v1.Image, v1.Platform, error) {
	platform, err := platformOf(path)
	if err != nil {
		return nil, platform, err
	}
	files, err := s.files(path)
	if err != nil {
		return nil, platform, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files)), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, platform, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer,
		History: v1.History{CreatedBy: "tools/image", Created: v1.Time{Time: s.created}},
	})
	if err != nil {
		return nil, platform, err
	}
	image, err = mutate.ConfigFile(image, s.config(image, platform))
	return image, platform, err
}

// config returns the configuration of an image with layers.
func (s *source) config(image v1.Image, platform v1.Platform) *v1.ConfigFile {
	config, err := image.ConfigFile()
	if err != nil {
		config = &v1.ConfigFile{} // mutate.ConfigFile then fails: the layers are missing
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = platform.OS, platform.Architecture, v1.Time{Time: s.created}
	config.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", user, user),
		Entrypoint:   []string{program},
		Cmd:          []string{"serve"},
		WorkingDir:   dataDir,
		Env:          []string{"PLANTSTORE_DB=" + dataDir + "/plantstore.db", "PLANTSTORE_LISTEN=:8080"},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		Volumes:      map[string]struct{}{dataDir: {}},
		StopSignal:   "SIGTERM",
		Healthcheck: &v1.HealthConfig{
			Test: []string{"CMD", program, "health"}, Interval: 10 * time.Second, Timeout: 5 * time.Second,
			StartPeriod: 30 * time.Second, Retries: 3,
		},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "Plant Store",
			"org.opencontainers.image.description": "An HTTP service that stores plants",
			"org.opencontainers.image.licenses":    "MIT",
			"org.opencontainers.image.created":     s.created.UTC().Format(time.RFC3339),
		},
	}
	if s.revision != "" {
		config.Config.Labels["org.opencontainers.image.revision"] = s.revision
	}
	return config
}

// platformOf returns the platform of a program, which must be a static build for Linux.
func platformOf(path string) (v1.Platform, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return v1.Platform{}, err
	}
	var p v1.Platform
	for _, setting := range info.Settings {
		switch setting.Key {
		case "GOOS":
			p.OS = setting.Value
		case "GOARCH":
			p.Architecture = setting.Value
		}
	}
	if p.OS != "linux" {
		return p, fmt.Errorf("the program is for %q; build it with GOOS=linux", p.OS)
	}
	file, err := elf.Open(path)
	if err != nil {
		return p, err
	}
	defer file.Close()
	for _, header := range file.Progs {
		if header.Type == elf.PT_INTERP {
			return p, errors.New("the program needs a loader, and the image has none; build it with -buildmode=exe")
		}
	}
	return p, nil
}

// files returns the files of the image as a tar archive.
func (s *source) files(path string) ([]byte, error) {
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	notices, err := os.ReadFile(s.notices)
	if err != nil {
		return nil, err
	}
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // a file of roots cannot limit a root
		}
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, file := range []struct {
		name    string
		mode    int64
		owner   int
		content []byte // nil: a directory
	}{
		{dataDir, 0o700, user, nil},
		{"/etc", 0o755, 0, nil},
		{"/etc/ssl", 0o755, 0, nil},
		{"/etc/ssl/certs", 0o755, 0, nil},
		{rootsFile, 0o444, 0, roots.Bytes()},
		{"/THIRD_PARTY_NOTICES", 0o444, 0, notices},
		{program, 0o555, 0, binary},
	} {
		header := &tar.Header{
			Name: file.name[1:], Mode: file.mode, Uid: file.owner, Gid: file.owner, ModTime: s.created,
			Size: int64(len(file.content)), Typeflag: tar.TypeReg, Format: tar.FormatPAX,
		}
		if file.content == nil {
			header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(file.content); err != nil {
			return nil, err
		}
	}
	err = archive.Close() // writes the end of the archive
	return out.Bytes(), err
}
