package dump_test

import (
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/dump"
)

const (
	idInteger = "id must be a 64-bit integer in decimal digits; got "
	idBetween = "id must be from -9223372036854775808 to 9223372036854775807; got "
	rounded   = `", which a spreadsheet may have rounded`
	shortened = rounded + " to show it; set the format of the column to a number without decimals, " +
		"and save the file again; " +
		"an id of more than 15 digits is lost there, so take it from its source, as text"
	headerWants = "; a CSV file begins with a header with the columns id, name and optionally tag"
)

// checkRead reads a file, at once and byte by byte, and compares the rows and the failure with the wanted ones.
func checkRead(t *testing.T, file string, f dump.Format, want []row, wantFailure string) {
	t.Helper()
	rows, failure := read(strings.NewReader(file), f)
	if diff := cmp.Diff(want, rows, equalTags); diff != "" || failure != wantFailure {
		t.Errorf("rows (-want +got):\n%s\nfailure: got %q, want %q", diff, failure, wantFailure)
	}
	slow, slowFailure := read(iotest.OneByteReader(strings.NewReader(file)), f)
	if diff := cmp.Diff(rows, slow, equalTags); diff != "" || slowFailure != failure {
		t.Errorf("the rows differ byte by byte (-at once +byte by byte):\n%s\n%q, %q", diff, failure, slowFailure)
	}
}

func TestReadCSVForm(t *testing.T) {
	t.Parallel()
	rosa, bellis := tagged(1, "Rosa", "shrub"), named(2, "Bellis")
	good := []row{{2, "1,Rosa,shrub", rosa, ""}, {3, "2,Bellis,", bellis, ""}}
	for _, tt := range []struct {
		name, in string
		want     []row
	}{
		{"LF", "id,name,tag\n1,Rosa,shrub\n2,Bellis,\n", good},
		{"CRLF", "id,name,tag\r\n1,Rosa,shrub\r\n2,Bellis,\r\n", good},
		{"no line end at the end", "id,name,tag\n1,Rosa,shrub\n2,Bellis,", good},
		{"CR at the end", "id,name,tag\n1,Rosa,shrub\n2,Bellis,\r", good},
		{"CR", "id,name,tag\r1,Rosa,shrub\r2,Bellis,", good},
		{"CR, LF in quotes", "id,name\r1,\"a\nb\r\"\r2,Bellis", []row{
			{2, "1,\"a\nb\r\"", named(1, "a\nb\r"), ""}, {4, "2,Bellis", bellis, ""},
		}},
		{"byte order mark", "\uFEFFid,name,tag\n1,Rosa,shrub\n2,Bellis,\n", good},
		{"header alone", "id,name,tag", nil},
		{"header in quotes", "\"id\",\"name\",\"tag\"\n1,Rosa,shrub\n2,Bellis,\n", good},
		{
			"blank lines", "\n\r\nid,name\n\n1,Rosa\r\n\r\n\n2,Bellis\n\n",
			[]row{{5, "1,Rosa", named(1, "Rosa"), ""}, {8, "2,Bellis", bellis, ""}},
		},
		{"no tag column", "id,name\n2,Bellis\n", []row{{2, "2,Bellis", bellis, ""}}},
		{"other order", "tag,name,id\nshrub,Rosa,1\n", []row{{2, "shrub,Rosa,1", rosa, ""}}},
		{"other columns", "x,id,,name,x,tag\n\xff,1,a,Rosa,\x00,shrub\n", []row{{2, "\xff,1,a,Rosa,\x00,shrub", rosa, ""}}},
		{"quotes", "id,name,tag\n\"1\",\"Rosa\",\"shrub\"\r\n", []row{{2, `"1","Rosa","shrub"`, rosa, ""}}},
		{"doubled quotes", "id,name\n1,\"\"\"Rosa\"\" \"\"\"\n", []row{{2, `1,"""Rosa"" """`, named(1, `"Rosa" "`), ""}}},
		{
			"doubled quotes twice", "id,name,tag\n1,\"a\"\"b\",\"c\"\"\"\n",
			[]row{{2, `1,"a""b","c"""`, tagged(1, `a"b`, `c"`), ""}},
		},
		{"commas", "id,name\n1,\"Rosa, L.\"\n", []row{{2, `1,"Rosa, L."`, named(1, "Rosa, L."), ""}}},
		{
			"line ends in quotes", "id,name\n1,\"a\nb\r\nc\rd\r\"\r\n2,Bellis\n",
			[]row{{2, "1,\"a\nb\r\nc\rd\r\"", named(1, "a\nb\r\nc\rd\r"), ""}, {5, "2,Bellis", bellis, ""}},
		},
		{
			"blank lines in quotes", "id,name\n1,\"\n\n\"\n2,Bellis\n",
			[]row{{2, "1,\"\n\n\"", named(1, "\n\n"), ""}, {5, "2,Bellis", bellis, ""}},
		},
		{"spaces are part of a cell", "id,name,tag\n1, a , \n", []row{{2, "1, a , ", tagged(1, " a ", " "), ""}}},
		{
			"empty name, empty tag", "id,name,tag\n1,,\n2,\"\",\"\"\n",
			[]row{{2, "1,,", named(1, ""), ""}, {3, `2,"",""`, named(2, ""), ""}},
		},
		{"cells missing at the end", "id,x,name,tag\n1,,Rosa\n2\n", []row{
			{2, "1,,Rosa", named(1, "Rosa"), ""}, {3, "2", named(2, ""), ""},
		}},
		{"empty cells too many", "id,name\n2,Bellis,,\"\"\n", []row{{2, `2,Bellis,,""`, bellis, ""}}},
		{"rows of empty cells", "id,name,tag\n,,\n\"\",,\n2,Bellis\n,\n", []row{{4, "2,Bellis", bellis, ""}}},
		{"byte order mark inside", "id,name\n1,\uFEFFRosa\n", []row{{2, "1,\uFEFFRosa", named(1, "\uFEFFRosa"), ""}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkRead(t, tt.in, dump.CSV, tt.want, "")
		})
	}
}

func TestReadCSVFaults(t *testing.T) {
	t.Parallel()
	const (
		quote  = " has a quote inside an unquoted cell; quote the cell and double each quote inside it"
		text   = " has text after the closing quote; double each quote inside a cell"
		cr     = " has a carriage return inside an unquoted cell; quote the cell"
		open   = " has an opening quote without a closing quote"
		commas = ", the header has 2; quote each cell that contains a comma"
	)
	bellis := row{3, "2,Bellis", named(2, "Bellis"), ""}
	// refused is a row that is read as a fault, before one that is read as a plant.
	refused := func(raw, fault string) []row { return []row{{Line: 2, Raw: raw, Err: fault}, bellis} }
	for _, tt := range []struct {
		name, in string
		want     []row
	}{
		{"bare quote", "1,Ro\"sa\n2,Bellis\n", refused(`1,Ro"sa`, "column 2 (name)"+quote)},
		{"two bare quotes", "1,Ro\"s\"a\r\n2,Bellis\n", refused(`1,Ro"s"a`, "column 2 (name)"+quote)},
		{"space before a quote", "1, \"Rosa\"\n2,Bellis\n", refused(`1, "Rosa"`, "column 2 (name)"+quote)},
		{"comma and quote after a fault", "1\",\"Rosa\n2,Bellis\n", refused(`1","Rosa`, "column 1 (id)"+quote)},
		{"text after a quote", "1,\"Ro\"sa\n2,Bellis\n", refused(`1,"Ro"sa`, "column 2 (name)"+text)},
		{"space after a quote", "\"1\" ,Rosa\n2,Bellis\n", refused(`"1" ,Rosa`, "column 1 (id)"+text)},
		{"CR in a cell", "1,Ro\rsa\n2,Bellis\n", refused("1,Ro\rsa", "column 2 (name)"+cr)},
		{"CR before CRLF", "1,Rosa\r\r\n2,Bellis\n", refused("1,Rosa\r", "column 2 (name)"+cr)},
		{"CR after a quote", "1,\"Rosa\"\r\"\n2,Bellis\n", refused("1,\"Rosa\"\r\"", "column 2 (name)"+cr)},
		{"CR before a quote", "1,Rosa\r,\"\"\n2,Bellis\n", refused("1,Rosa\r,\"\"", "column 2 (name)"+cr)},
		{"too many cells", "1,Rosa, L.\n2,Bellis\n", refused("1,Rosa, L.", "the row has 3 cells"+commas)},
		{"too many quoted cells", "1,\"\",\"x\"\n2,Bellis\n", refused(`1,"","x"`, "the row has 3 cells"+commas)},
		{"quote at the end", "1,\"", []row{{Line: 2, Raw: `1,"`, Err: "column 2 (name)" + open}}},
		{
			"quote never closed", "2,Bellis\n1,\"Rosa\n2,Bellis\n", []row{
				{2, "2,Bellis", named(2, "Bellis"), ""},
				{Line: 3, Raw: `1,"Rosa`, Err: "column 2 (name)" + open},
				{4, "2,Bellis", named(2, "Bellis"), ""},
			},
		},
		{
			"quote closed by the next row's", "1,\"Rosa\n2,\"Bellis\"\n3,\"c\nd\"\n", []row{
				{Line: 2, Raw: `1,"Rosa`, Err: "column 2 (name)" + open},
				{3, `2,"Bellis"`, named(2, "Bellis"), ""},
				{4, "3,\"c\nd\"", named(3, "c\nd"), ""},
			},
		},
		{
			"quote closed at the end of a cell", "1,\"Rosa\n2,Bellis\n3,\",d\n2,Bellis\n", []row{
				{Line: 2, Raw: `1,"Rosa`, Err: "column 2 (name)" + open},
				bellis,
				{Line: 4, Raw: `3,",d`, Err: "column 2 (name)" + open},
				{5, "2,Bellis", named(2, "Bellis"), ""},
			},
		},
		{
			"quote not closed within the longest row", "1,\"Rosa\n2,Bellis\n" + strings.Repeat("\n", 2*rowBytesMax) + `3,"c"`,
			[]row{
				{Line: 2, Raw: `1,"Rosa`, Err: "column 2 (name)" + open},
				bellis,
				{4 + 2*rowBytesMax, `3,"c"`, named(3, "c"), ""},
			},
		},
		{
			"two lines with an invalid id", "x,\"a\nb\"\n2,Bellis\n",
			[]row{{Line: 2, Raw: "x,\"a\nb\"", Err: idInteger + `"x"`}, {4, "2,Bellis", named(2, "Bellis"), ""}},
		},
		{
			"many commas", strings.Repeat(",", 2000) + "\n2,Bellis\n",
			refused(strings.Repeat(",", 2000), "the row has more than 1024 cells"+commas),
		},
		{
			"many quotes", strings.Repeat(`"",`, 2000) + "\n2,Bellis\n",
			refused(strings.Repeat(`"",`, 2000), "the row has more than 1024 cells"+commas),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkRead(t, "id,name\n"+tt.in, dump.CSV, tt.want, "")
		})
	}
}

func TestReadCSVContent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cells string
		want  row
	}{
		{"9223372036854775807,a,", row{Plant: named(9223372036854775807, "a")}},
		{"-9223372036854775808,a,", row{Plant: named(-9223372036854775808, "a")}},
		{"999999999999999999,a,", row{Plant: named(999999999999999999, "a")}},
		{"-1000000000000000000,a,", row{Plant: named(-1000000000000000000, "a")}},
		{"-0,a,", row{Plant: named(0, "a")}},
		{"007,a,", row{Plant: named(7, "a")}},
		{"00000000000000000000000000012,a,", row{Plant: named(12, "a")}},
		{"9223372036854775808,a,", row{Err: idBetween + `"9223372036854775808"`}},
		{"-9223372036854775809,a,", row{Err: idBetween + `"-9223372036854775809"`}},
		{strings.Repeat("9", 70) + ",a,", row{Err: idBetween + `"` + strings.Repeat("9", 40) + `"…`}},
		{",a,", row{Err: idInteger + "an empty cell"}},
		{"9.22E+18,a,", row{Err: idInteger + `"9.22E+18` + shortened}},
		{"1.0,a,", row{Plant: named(1, "a")}},
		{"-9007199254740992.00,a,", row{Plant: named(-1<<53, "a")}},
		{"9007199254740993.0,a,", row{Err: idInteger + `"9007199254740993.0` + rounded}},
		{"1.,a,", row{Err: idInteger + `"1.` + rounded}},
		{".0,a,", row{Err: idInteger + `".0` + rounded}},
		{"1.5,a,", row{Err: idInteger + `"1.5` + rounded}},
		{"9.00720E+15,a,", row{Err: idInteger + `"9.00720E+15` + shortened}},
		{"1e3,a,", row{Err: idInteger + `"1e3` + shortened}},
		{"99999999999999999999.0,a,", row{Err: idInteger + `"99999999999999999999.0` + rounded}},
		{"99999999999999999999x,a,", row{Err: idInteger + `"99999999999999999999x"`}},
		{"+99999999999999999999,a,", row{Err: idInteger + `"+99999999999999999999"`}},
		{"+5,a,", row{Err: idInteger + `"+5"`}},
		{" 5,a,", row{Err: idInteger + `" 5"`}},
		{"5 ,a,", row{Err: idInteger + `"5 "`}},
		{"-,a,", row{Err: idInteger + `"-"`}},
		{"--5,a,", row{Err: idInteger + `"--5"`}},
		{"'-5,a,", row{Err: idInteger + `"'-5"`}},
		{"1_000,a,", row{Err: idInteger + `"1_000"`}},
		{"0x10,a,", row{Err: idInteger + `"0x10"`}},
		{"٣,a,", row{Err: idInteger + `"٣"`}},
		{"\xff,a,", row{Err: idInteger + `"\xff"`}},
		{strings.Repeat("x", 41) + ",a,", row{Err: idInteger + `"` + strings.Repeat("x", 40) + `"…`}},
		{"1,a\xff,", row{Err: `name is not UTF-8; got "a\xff", which would be "aÿ" in the encoding windows-1252`}},
		{"1,\xed\xa0\x80,", row{
			Err: `name is not UTF-8; got "\xed\xa0\x80", which would be "í\u00a0€" in the encoding windows-1252`,
		}},
		{"1,a,\xe9", row{Err: `tag is not UTF-8; got "\xe9", which would be "é" in the encoding windows-1252`}},
		{"1,a\x00,", row{Err: "name contains the character U+0000; remove it"}},
		{"1,a,\x00", row{Err: "tag contains the character U+0000; remove it"}},
		{
			"x,\x00\xff,\xff\x00",
			row{Err: `name is not UTF-8, got "\x00\xff"; tag is not UTF-8, got "\xff\x00"; ` +
				`id must be a 64-bit integer in decimal digits, got "x"; ` +
				"name contains the character U+0000, remove it; tag contains the character U+0000, remove it"},
		},
		{"1,a,\uFFFD", row{Plant: tagged(1, "a", "\uFFFD")}},
		{"1,'=1+1,'＝x", row{Plant: tagged(1, "=1+1", "＝x")}},
	} {
		t.Run(tt.cells, func(t *testing.T) {
			t.Parallel()
			tt.want.Line, tt.want.Raw = 2, tt.cells
			checkRead(t, "id,name,tag\n"+tt.cells, dump.CSV, []row{tt.want}, "")
		})
	}
}

func TestReadCSVHeader(t *testing.T) {
	t.Parallel()
	const noNames = "the first row must have the names of the columns, such as id, name and tag; "
	for _, tt := range []struct{ name, in, want string }{
		{"empty", "", "the file is empty" + headerWants},
		{"byte order mark alone", "\uFEFF", "the file is empty" + headerWants},
		{"blank", "\n\r\n\n", "the file is empty" + headerWants},
		{"no id", "name,tag\n1,Rosa\n", `line 1: the header has no column id; the columns are name, tag`},
		{"no name", "\nid\n1\n", "line 2: " + noNames + "got id; add a row above it"},
		{"neither", "x\n1,Rosa\n", "line 1: " + noNames + "got x; add a row above it"},
		{"many", "a" + strings.Repeat(",a", 50), "line 1: the header has no columns id and name; the columns are " +
			strings.Repeat("a, ", 40) + "…"},
		{"id twice", "id,name,id\n", "line 1: the header has the column id twice; the columns are id, name, id"},
		{"name twice", "id,name,\"name\"\n", "line 1: the header has the column name twice; the columns are id, name, name"},
		{"tag twice", "tag,tag,id,name\n", "line 1: the header has the column tag twice; the columns are tag, tag, id, name"},
		{
			"fault", "id,na\"me\n1,Rosa\n",
			"line 1: invalid header: column 2 has a quote inside an unquoted cell; " +
				"quote the cell and double each quote inside it",
		},
		{
			"quote never closed", "id,\"name\n1,Rosa\n",
			"line 1: invalid header: column 2 has an opening quote without a closing quote",
		},
		{"too many columns", "id,name" + strings.Repeat(",", 1023) + "\n", "line 1: the header has more than 1024 columns"},
		{"long", "id,name," + strings.Repeat("x", 1<<16) + "\n", "line 1: the header is longer than 65536 bytes"},
		{"too long", "id,name," + strings.Repeat("x", rowBytesMax) + "\n", "line 1: invalid header: " + tooLong},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkRead(t, tt.in, dump.CSV, nil, tt.want)
		})
	}
	checkRead(t, "id,name"+strings.Repeat(",", 1022)+"\n", dump.CSV, nil, "")
}
