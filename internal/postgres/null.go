package postgres

import (
	"time"

	"plantstore/internal/plant"
)

// nullTag returns NULL for no tag.
func nullTag(tag plant.Tag) *string {
	text, ok := tag.Get()
	if !ok {
		return nil
	}
	return &text
}

// tagOf returns no tag for NULL.
func tagOf(text *string) plant.Tag {
	if text == nil {
		return plant.Tag{}
	}
	return plant.Tagged(*text)
}

// nullTime returns NULL for the zero time.
func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// timeOf returns the zero time for NULL.
func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// textOf returns the empty text for NULL.
func textOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// nullText returns NULL for the empty text.
func nullText(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
