package dump_test

import (
	"fmt"
	"os"
	"strings"

	"plantstore/internal/dump"
	"plantstore/internal/plant"
)

// A CSV file begins with a header. An invalid row does not end the input.
func ExampleRead() {
	file := strings.NewReader("id,name,tag\n7159,Abies balsamea,tree\n1e3,Acer negundo,tree\n9206,Acer rubrum,\n")
	for row, err := range dump.Read(file, dump.CSV) {
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
	// line 2: 7159 Abies balsamea, tag "tree", true
	// line 3: id must be a 64-bit integer in decimal digits; got "1e3", which a spreadsheet may have rounded
	// line 4: 9206 Acer rubrum, tag "", false
}

// A JSON Lines file has one plant per line.
func ExampleRead_jsonLines() {
	file := strings.NewReader(`{"id":7159,"name":"Abies balsamea","tag":"tree"}
{"id":9206,"name":"Acer rubrum"}
`)
	for row, err := range dump.Read(file, dump.JSONL) {
		if err != nil || row.Err != nil {
			fmt.Println(err, row.Err)
			return
		}
		fmt.Printf("line %d: %d %s\n", row.Line, row.Plant.ID, row.Plant.Name)
	}
	// Output:
	// line 1: 7159 Abies balsamea
	// line 2: 9206 Acer rubrum
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
	file := strings.NewReader(`{"id":7159,"name":"Abies balsamea"}` + "\n" + `{"id":9206}` + "\n")
	rejects := dump.NewRejects(os.Stdout, dump.JSONL)
	for row, err := range dump.Read(file, dump.JSONL) {
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
