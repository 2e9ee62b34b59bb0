package server

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"

	"plantstore/internal/plant"
)

// ReadBody returns the body of the request, which must be JSON by its headers, up to a number of bytes. The error is a
// *plant.Error.
func (c *Call) ReadBody(bytesMax int64) ([]byte, error) {
	if err := checkContent(c.Request.Header); err != nil {
		return nil, err
	}
	var b buffer
	err := b.read(c, bytesMax)
	return b.b, err
}

// formBytesMax bounds the body of a form.
const formBytesMax = 128 << 10

// ReadForm sets Form to the fields of the form in the body of the request. The error is a *plant.Error.
func (c *Call) ReadForm() (err error) {
	var b buffer
	if err := b.read(c, formBytesMax); err != nil {
		return err
	}
	if c.Form, err = url.ParseQuery(string(b.b)); err != nil {
		return plant.Errorf(plant.CodeMediaType, "the body must be a form of the type application/x-www-form-urlencoded")
	}
	return nil
}

// read reads the body of a request, up to a number of bytes. The error is a *plant.Error.
func (b *buffer) read(c *Call, bytesMax int64) error {
	err := b.readAll(c, bytesMax)
	if err != nil {
		c.Header().Set("Connection", "close") // the rest of the body is unread
	}
	return err
}

func (b *buffer) readAll(c *Call, bytesMax int64) error {
	if c.ContentLength > bytesMax {
		return tooLarge(bytesMax)
	}
	b.b = b.b[:0]
	for {
		if len(b.b) == cap(b.b) {
			b.b = append(b.b, 0)[:len(b.b)]
		}
		n, err := c.Body.Read(b.b[len(b.b):cap(b.b)])
		b.b = b.b[:len(b.b)+n]
		switch {
		case int64(len(b.b)) > bytesMax:
			return tooLarge(bytesMax)
		case errors.Is(err, io.EOF):
			c.hasArrived()
			return c.checkArrived()
		case errors.Is(err, os.ErrDeadlineExceeded):
			return plant.Errorf(plant.CodeRequestTimeout,
				"the request did not arrive within %s; nothing was stored", c.handler.limits.RequestTimeout)
		case err != nil:
			return plant.Errorf(plant.CodeBodyIncomplete,
				"the body ended before its announced length, or has malformed chunks; nothing was stored")
		}
	}
}

func tooLarge(bytesMax int64) error {
	return plant.Errorf(plant.CodeBodyTooLarge, "the body is larger than %d bytes; nothing was stored", bytesMax)
}

// checkContent checks the headers of the body: the media type application/json, no charset but UTF-8 (RFC 8259 section
// 8.1), and no content coding.
func checkContent(header http.Header) error {
	if err := checkCoding(header); err != nil {
		return err
	}
	values := header["Content-Type"]
	got := "none"
	switch {
	case len(values) > 1:
		got = strconv.Itoa(len(values)) + " Content-Type headers"
	case len(values) == 1 && (values[0] == mediaType || isJSON(values[0])):
		return nil
	case len(values) == 1:
		got = strconv.Quote(Shorten(values[0]))
	}
	return plant.Errorf(plant.CodeMediaType,
		"Content-Type must be application/json, with no charset but utf-8; got %s", got)
}

// checkCoding refuses a content coding.
func checkCoding(header http.Header) error {
	if values := header["Content-Encoding"]; len(values) > 0 {
		return plant.Errorf(plant.CodeContentEncoding, "Content-Encoding must be absent; got %q", Shorten(values[0]))
	}
	return nil
}

const mediaType = "application/json"

func isJSON(contentType string) bool {
	media, params, err := mime.ParseMediaType(contentType)
	onlyUTF8 := len(params) == 0 || len(params) == 1 && strings.EqualFold(params["charset"], "utf-8")
	return err == nil && media == mediaType && onlyUTF8
}

// buffer is a byte slice that requests reuse.
type buffer struct{ b []byte }

const (
	bufferBytes     = 1 << 10 // enough for nearly every plant
	bufferBytesKept = 8 << 10 // a larger buffer is not reused
)

var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, bufferBytes)} }}

func getBuffer() *buffer { return buffers.Get().(*buffer) }

func putBuffer(b *buffer) {
	if cap(b.b) <= bufferBytesKept {
		buffers.Put(b)
	}
}
