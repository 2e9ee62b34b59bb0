package dump_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"plantstore/internal/dump"
	"plantstore/internal/plant"
)

// Open finds the separator and the columns. An invalid row does not end the input.
func ExampleOpen() {
	text := strings.NewReader("id;NAME;Family;tag\n7159;Abies balsamea;Pinaceae;tree\n1.5;Acer negundo;Sapindaceae;tree\n")
	file, err := dump.Open(context.Background(), text, dump.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close()
	fmt.Println(file.Found())
	for row, err := range file.Rows() {
		switch {
		case err != nil:
			fmt.Println(err) // the input ends here
		case row.Err != nil:
			fmt.Printf("line %d: %v\n", row.Line, row.Err)
		default:
			tag, ok := row.Plant.Tag.Get()
			fmt.Printf("line %d: %d %s, tag %q, %t\n", row.Line, row.Plant.ID, row.Plant.Name, tag, ok)
		}
	}
	// Output:
	// UTF-8, semicolon-separated, columns id, name, tag; ignored: Family
	// line 2: 7159 Abies balsamea, tag "tree", true
	// line 3: id must be a 64-bit integer in decimal digits; got "1.5", which a spreadsheet may have rounded
}

// The user chooses the columns of a file with other names.
func ExampleHeaderError() {
	text := strings.NewReader("plant_id,common_name\n1,Tomato\n")
	_, err := dump.Open(context.Background(), text, dump.Options{})
	if choice, ok := errors.AsType[*dump.HeaderError](err); ok {
		fmt.Println(err)
		fmt.Println(choice.Likely.Columns)
	}
	// Output:
	// line 1: the header has no columns id and name; the columns are plant_id, common_name
	// map[id:plant_id name:common_name]
}

// A Writer writes any format; for a compressed file, its third argument is dump.Gzip or dump.Zstd.
func ExampleWriter() {
	w, err := dump.NewWriter(os.Stdout, dump.JSONL, dump.None)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range []plant.NewPlant{
		{ID: 7159, Plant: plant.Plant{Name: "Abies balsamea", Tag: plant.Tagged("tree")}},
		{ID: 9206, Plant: plant.Plant{Name: "Acer rubrum"}},
	} {
		if err := w.Write(p); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"id":7159,"name":"Abies balsamea","tag":"tree"}
	// {"id":9206,"name":"Acer rubrum"}
}

// The rejects of a file have its format, so the user can correct and import them.
func ExampleRejects() {
	text := strings.NewReader(`{"id":7159,"name":"Abies balsamea"}` + "\n" + `{"id":9206}` + "\n")
	file, err := dump.Open(context.Background(), text, dump.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close()
	rejects := dump.NewRejects(os.Stdout, dump.JSONL)
	for row, err := range file.Rows() {
		if err == nil && row.Err != nil {
			err = rejects.Write(row)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := rejects.Close(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"id":9206}
}
