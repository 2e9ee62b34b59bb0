package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// archive writes the files of a directory as tar.gz, below a directory with a name. The archive depends only on the
// names and contents of the files and on the time: files belong to root, and the program alone is executable.
func archive(w io.Writer, dir string, at time.Time, name string) error {
	compressed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	out := tar.NewWriter(compressed)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error { // in lexical order
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		header := &tar.Header{
			Name: filepath.ToSlash(filepath.Join(name, relative)), Mode: 0o644, ModTime: at.UTC(), Uname: "root", Gname: "root",
			Format: tar.FormatPAX,
		}
		switch {
		case entry.IsDir():
			header.Typeflag, header.Mode = tar.TypeDir, 0o755
			header.Name += "/"
			return out.WriteHeader(header)
		case !entry.Type().IsRegular():
			return fmt.Errorf("%s is not a regular file", path)
		case relative == filepath.Base(program):
			header.Mode = 0o755
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		header.Size = int64(len(content))
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		_, err = out.Write(content)
		return err
	})
	return errors.Join(err, out.Close(), compressed.Close())
}
