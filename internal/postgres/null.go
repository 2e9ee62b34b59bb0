package postgres

import (
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"plantstore/internal/plant"
)

// nullTime and nullText are NULL for the zero value, as parameters and as results.
type (
	nullTime = zeronull.Timestamptz
	nullText = zeronull.Text
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
