package s3_test

import (
	"strings"
	"testing"

	"plantstore/internal/s3"
)

func TestParseLocation(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]s3.Location{
		"s3://nursery":                      {Bucket: "nursery"},
		"s3://nursery/":                     {Bucket: "nursery"},
		"s3://nursery/plants/":              {Bucket: "nursery", Key: "plants"},
		"s3://my.bucket-1/a/b_c/monday.db":  {Bucket: "my.bucket-1", Key: "a/b_c/monday.db"},
		"s3://nursery/..plants/it's(1)+=@,": {Bucket: "nursery", Key: "..plants/it's(1)+=@,"},
	} {
		got, err := s3.ParseLocation(text)
		if err != nil || got != want || got.String() != strings.TrimSuffix(text, "/") {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "nursery", "s3:/nursery/x", "S3://nursery", "s3://", "s3:///x", "s3://ab", "s3://Nursery", "s3://nur_sery",
		"s3://key:canary@nursery/x", "s3://canary@nursery", "s3://nursery//x", "s3://nursery/a//b", "s3://nursery/a/../b",
		"s3://nursery/..", "s3://nursery/./a", "s3://nursery/a?canary=1", "s3://nursery/a%41", "s3://nursery/Rosé",
		"s3://nursery/a b", "s3://nursery/a\n", "s3://nursery/" + strings.Repeat("a", 801), "s3://" + strings.Repeat("a", 64),
	} {
		if got, err := s3.ParseLocation(text); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}
