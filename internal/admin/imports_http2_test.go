package admin_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"plantstore/internal/admin"
	"plantstore/internal/importer"
)

// Imports over HTTP/2: a file of several flow-control windows, one that ends before its body, and one that the operator
// cancels. Other requests continue during an import and after it.
func TestImportOverHTTP2(t *testing.T) {
	t.Parallel()
	h := start(t, setup{http2: true})
	c := h.importing("nursery", 0)
	var file strings.Builder
	file.WriteString("id,name\n")
	const plants = 3000
	for i := range plants {
		fmt.Fprintf(&file, "%d,%s\n", i+1, strings.Repeat("rosa", 250))
	}
	got := c.put("/imports/whole?format=csv", file.String())
	if i := c.state("whole"); got.status != http.StatusOK || i.State != admin.JobComplete ||
		i.Counts != (importer.Counts{Created: plants}) || i.Bytes != int64(file.Len()) {
		t.Errorf("got %d, %+v", got.status, i)
	}
	const suffix = "; created %d, existing %d, conflicting %d, invalid 0; " +
		"stored rows count as existing when you import again"
	conflict := strings.Replace(file.String(), "\n1,rosa", "\n1,acer", 1)
	check(t, "conflict", c.put("/imports/conflict?format=csv", conflict), refused(40908,
		"line 2 conflicts with a stored plant; the import stopped after the batch of this row; to continue after such rows, "+
			"report them (on_conflict=report)"+fmt.Sprintf(suffix, 0, 999, 1)))

	s := c.startPut("/imports/canceled?format=csv")
	if _, err := io.WriteString(s.body, "id,name\n"); err != nil {
		t.Fatal(err)
	}
	s.write(t, plants+1, 1500)
	c.await("canceled", func(i admin.Import) bool { return i.Created == 1000 })
	var canceled admin.Import
	c.decode(c.do(http.MethodPost, "/imports/canceled/cancel", ""), &canceled)
	if canceled.State != admin.ImportCanceled || canceled.Created < 1000 {
		t.Errorf("got %+v", canceled)
	}
	check(t, "canceled", <-s.done, refused(40908,
		"the import was canceled"+fmt.Sprintf(suffix, canceled.Created, 0, 0)))
	_ = s.body.Close()
	got = c.put("/imports/next?format=csv", "id,name\n9000,Acer\n")
	if i := c.state("next"); got.status != http.StatusOK || i.Counts != (importer.Counts{Created: 1}) {
		t.Errorf("the next import: got %+v, %+v", got, i)
	}
}
